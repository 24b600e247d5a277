//! Messages under an AEAD cipher (PKCS#11 3.2, "Message-based encryption functions", "Message-based
//! decryption functions").
//!
//! All messages in a single part use the same cipher. Each message in several parts has a cipher of
//! its own. An encryption returns output as soon as it can. A decryption returns the plaintext only
//! at the end, after it has verified the tag: "CKR_AEAD_DECRYPT_FAILED is returned by the last
//! C_DecryptMessageNext call". So the caller never sees plaintext that was not authenticated.

use std::sync::Arc;

use jeton_secret::{Secret, try_boxed};

use super::crypt::announced;
use super::nonce::Nonces;
use super::operation::{Engine, Operation, Output, Phase, place};
use crate::backend::{Aead, AeadScheme, Cipher, CipherScheme, Direction, Provider};
use crate::config::strict::check_aead;
use crate::error::{Error, Result, require};
use crate::mechanism::message::MessageParams;
use crate::mechanism::rule::Policy;
use crate::object::{Object, key};

/// The engine of a message-based encryption or decryption.
pub struct Messages {
    provider: &'static Provider,
    scheme: AeadScheme,
    direction: Direction,
    key: Arc<Object>,
    policy: Policy,
    aead: Box<dyn Aead>,
    nonces: Nonces,
    begun: Option<Begun>,
}

/// An active message in several parts.
struct Begun {
    cipher: Box<dyn Cipher>,
    tag_len: usize,
    /// Number of input bytes so far.
    taken: usize,
    /// Number of output bytes so far.
    given: usize,
}

impl Messages {
    /// Returns an engine with a secret key.
    pub(crate) fn new(
        provider: &'static Provider,
        scheme: AeadScheme,
        direction: Direction,
        key: Arc<Object>,
        policy: Policy,
    ) -> Result<Self> {
        let aead = provider.ciphers.aead(scheme, key::secret(key.attributes())?)?;
        let (nonces, begun) = (Nonces::default(), None);
        Ok(Self { provider, scheme, direction, key, policy, aead, nonces, begun })
    }

    /// Forgets the generated nonces, because a new operation starts.
    pub(crate) fn renew(&mut self) {
        self.nonces = Nonces::default();
    }

    /// Fails with `MechanismParamInvalid` if the parameter is too weak for the policy.
    fn check(&self, params: &MessageParams) -> Result<()> {
        match self.policy {
            Policy::Compatible => Ok(()),
            Policy::Strict => check_aead(self.scheme, params.nonce().len(), params.tag().len()),
        }
    }

    fn whole(
        &mut self,
        params: &mut MessageParams,
        aad: &[u8],
        input: &[u8],
        out: &mut [u8],
    ) -> Result<usize> {
        let out = place(out, input.len())?;
        self.check(params)?;
        // PKCS#11 3.2, CK_CCM_MESSAGE_PARAMS: the caller announces the length, as for C_Encrypt.
        let announced = self.scheme != AeadScheme::AesCcm || params.data_len() == input.len();
        match self.direction {
            Direction::Encrypt if !announced => return Err(Error::DataLenRange),
            Direction::Decrypt if !announced => return Err(Error::EncryptedDataLenRange),
            Direction::Encrypt => {
                self.nonces.generate(self.provider.random, params)?;
                let (nonce, tag) = params.nonce_and_tag();
                self.aead.seal(nonce, aad, input, out, tag)?;
            }
            Direction::Decrypt => {
                self.aead.open(params.nonce(), aad, input, params.tag(), out).map_err(refuse_tag)?;
            }
        }
        Ok(out.len())
    }

    fn begin(&mut self, params: &mut MessageParams, aad: &[u8]) -> Result<()> {
        self.check(params)?;
        if self.direction == Direction::Encrypt {
            self.nonces.generate(self.provider.random, params)?;
        }
        let secret = key::secret(self.key.attributes())?;
        let cipher = self.provider.ciphers.cipher(&cipher_scheme(params, aad)?, self.direction, secret)?;
        self.begun = Some(Begun { cipher, tag_len: params.tag().len(), taken: 0, given: 0 });
        Ok(())
    }

    fn active_message(&mut self) -> Result<&mut Begun> {
        self.begun.as_mut().ok_or(Error::GeneralError)
    }

    /// Fails if the last part of the message cannot have this parameter, or `out` is too short.
    fn check_end(&mut self, params: &MessageParams, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.check(params)?;
        let begun = self.active_message()?;
        require(params.tag().len() == begun.tag_len, Error::MechanismParamInvalid)?;
        place(out, begun.end_len(input.len())).map(drop)
    }

    /// Ends the message, after [`check_end`](Self::check_end).
    fn end(&mut self, params: &mut MessageParams, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let direction = self.direction;
        let begun = self.active_message()?;
        let place = place(out, begun.end_len(input.len()))?;
        let outcome = match direction {
            Direction::Encrypt => begun.seal(params, input, place),
            Direction::Decrypt => begun.open(params, input, place).map_err(refuse_tag),
        };
        self.begun = None;
        outcome.map(|()| place.len())
    }
}

impl Begun {
    fn part(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let place = place(out, self.cipher.update_len(input.len()))?;
        let written = self.cipher.update(input, place)?;
        self.taken += input.len();
        self.given += written;
        Ok(written)
    }

    /// Returns the output length of the last part if its input has the length `input`. A message
    /// and its ciphertext have the same length.
    fn end_len(&self, input: usize) -> usize {
        self.taken + input - self.given
    }

    fn seal(&mut self, params: &mut MessageParams, input: &[u8], out: &mut [u8]) -> Result<()> {
        let written = self.part(input, out)?;
        let rest = out.get_mut(written..).ok_or(Error::GeneralError)?;
        // The cipher appends the tag to the message.
        let mut end = Secret::try_zeroed(rest.len() + self.tag_len)?;
        require(self.cipher.finish(&mut end)? == end.len(), Error::GeneralError)?;
        let (ciphertext, tag) = end.split_at(rest.len());
        rest.copy_from_slice(ciphertext);
        params.nonce_and_tag().1.copy_from_slice(tag);
        Ok(())
    }

    fn open(&mut self, params: &MessageParams, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.cipher.update(input, &mut [])?;
        self.cipher.update(params.tag(), &mut [])?;
        self.cipher.finish(out).map(drop)
    }
}

fn cipher_scheme(params: &MessageParams, aad: &[u8]) -> Result<CipherScheme> {
    Ok(CipherScheme::Aead {
        cipher: params.scheme(),
        nonce: params.nonce().into(),
        aad: try_boxed(aad)?,
        tag_len: params.tag().len(),
        data_len: params.data_len(),
    })
}

/// PKCS#11 3.2, C_DecryptMessage: a wrong tag has its own error, `CKR_AEAD_DECRYPT_FAILED`.
fn refuse_tag(error: Error) -> Error {
    match error {
        Error::EncryptedDataInvalid => Error::AeadDecryptFailed,
        other => other,
    }
}

impl Engine for Messages {
    fn forget(&mut self) {
        self.begun = None;
    }
}

impl Operation<Messages> {
    /// Returns the cipher of the active operation.
    pub(crate) fn message_cipher(&self) -> Option<AeadScheme> {
        self.active_engine().map(|engine| engine.scheme)
    }

    /// Returns the engine for a message with this parameter. A wrong order of calls takes
    /// precedence over a parameter for another cipher.
    fn engine_with(&mut self, phase: Phase, params: &MessageParams) -> Result<&mut Messages> {
        let engine = self.message_engine(phase)?;
        require(params.scheme() == engine.scheme, Error::MechanismParamInvalid)?;
        Ok(engine)
    }

    /// Takes the memory for what the engine keeps of a nonce: the state of two generators, and the
    /// parameter of a message in several parts.
    fn hold_nonce(&mut self, params: &MessageParams) -> Result<()> {
        self.reserve(|| 3 * params.nonce().len())
    }

    /// `C_EncryptMessage`, `C_DecryptMessage`
    pub fn crypt_message(
        &mut self,
        params: &mut MessageParams,
        aad: &[u8],
        input: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        self.engine_with(Phase::Begin, params)?;
        let Output::Buffer(out) = out else { return Ok(input.len()) };
        let outcome = self.hold_nonce(params).and_then(|()| self.engine()?.whole(params, aad, input, out));
        self.message_finish(outcome)
    }

    /// `C_EncryptMessageBegin`, `C_DecryptMessageBegin`
    pub fn crypt_message_begin(&mut self, params: &mut MessageParams, aad: &[u8]) -> Result<()> {
        self.engine_with(Phase::Begin, params)?;
        let held = self.hold_nonce(params).and_then(|()| self.hold(aad.len(), 0));
        let outcome = held.and_then(|()| self.engine()?.begin(params, aad));
        outcome.inspect_err(|_| self.end_message())?;
        self.message_start()
    }

    /// `C_EncryptMessageNext` and `C_DecryptMessageNext` with a part that is not the last.
    pub fn crypt_message_part(&mut self, input: &[u8], out: Output<'_>) -> Result<usize> {
        let begun = self.message_engine(Phase::Continue)?.active_message()?;
        let needed = begun.cipher.update_len(input.len());
        let Output::Buffer(out) = out else { return Ok(announced(needed, input.len())) };
        let outcome = place(out, needed).and_then(|place| {
            self.hold(input.len(), needed)?;
            self.engine()?.active_message()?.part(input, place)
        });
        self.after_message_part(outcome)
    }

    /// `C_EncryptMessageNext` and `C_DecryptMessageNext` with `CKF_END_OF_MESSAGE`.
    pub fn crypt_message_end(
        &mut self,
        params: &mut MessageParams,
        input: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        if let Err(error @ Error::MechanismParamInvalid) = self.engine_with(Phase::Continue, params) {
            self.message_cancel();
            return Err(error);
        }
        let engine = self.message_engine(Phase::Continue)?;
        let Output::Buffer(out) = out else { return Ok(engine.active_message()?.end_len(input.len())) };
        let outcome = engine.check_end(params, input, out).and_then(|()| self.hold(input.len(), 0));
        let outcome = outcome.and_then(|()| self.engine()?.end(params, input, out));
        self.message_finish(outcome)
    }
}
