//! Signatures, MACs and their verification.

use std::sync::Arc;

use jeton_secret::Secret;
use jeton_words::operation::Signed;
use subtle::ConstantTimeEq;

use super::input::Message;
use super::operation::{Absorb, Engine, Operation, Output, Parts, Phase, Resume, place};
use super::otp::Otp;
use super::pending::{self, Later, Pending, State};
use super::progress::Progress;
use crate::backend::{Mac, Signer, Verifier};
use crate::error::{Error, Result};
use crate::id::SessionHandle;
use crate::mechanism::field;

/// The engine of a signature or its verification. `A` is the algorithm with the private or the
/// public key.
pub enum Signature<A: ?Sized> {
    /// A signature with a key pair.
    Pair(Message, Box<A>),
    /// A MAC with a secret key.
    Mac(MacEngine),
    /// A one-time password.
    Otp(Otp),
}

/// The engine that signs.
pub type Signing = Signature<dyn Signer>;
/// The engine that verifies.
pub type Verifying = Signature<dyn Verifier>;

/// Maximum length in bytes of a MAC whose length the caller chooses.
const MAX_MAC: usize = 1 << 16;

/// A MAC that may be truncated.
pub struct MacEngine {
    mac: Box<dyn Mac>,
    len: usize,
    /// True if the caller's buffer determines the length.
    any_len: bool,
    whole: Secret,
}

impl MacEngine {
    /// Returns a MAC that is truncated to `len` bytes; `None` keeps its full length. Fails with
    /// `MechanismParamInvalid` if `len` is 0 or longer than the MAC.
    pub(crate) fn new(mac: Box<dyn Mac>, len: Option<usize>) -> Result<Self> {
        let whole = Secret::zeroed(mac.mac_len());
        let len = len.unwrap_or(whole.len());
        if len == 0 || len > whole.len() {
            return Err(field::refused("CK_MAC_GENERAL_PARAMS"));
        }
        Ok(Self { mac, len, any_len: false, whole })
    }

    /// Returns a MAC that is as long as the caller's buffer, up to `MAX_MAC`. `mac` must be able to
    /// fill any length.
    pub(crate) fn of_any_length(mac: Box<dyn Mac>) -> Result<Self> {
        Ok(Self { any_len: true, ..Self::new(mac, None)? })
    }

    fn finish(&mut self, len: usize) -> Result<&[u8]> {
        if self.any_len {
            self.whole = Secret::zeroed(len);
        }
        self.mac.finish(&mut self.whole)?;
        Ok(&self.whole[..len])
    }

    fn verify(&mut self, expected: &[u8]) -> Result<()> {
        let fits =
            if self.any_len { (1..=MAX_MAC).contains(&expected.len()) } else { expected.len() == self.len };
        if !fits {
            self.forget();
            return Err(Error::SignatureLenRange);
        }
        let equal = self.finish(expected.len())?.ct_eq(expected);
        if bool::from(equal) { Ok(()) } else { Err(Error::SignatureInvalid) }
    }

    fn forget(&mut self) {
        // If the reset fails, every later result of this MAC is wrong and fails its verification.
        let _ = self.mac.reset();
    }

    fn save(&self) -> Result<Progress> {
        self.mac.duplicate().map(Progress::Mac)
    }

    fn resume(&mut self, progress: &Progress) -> Result<()> {
        let Progress::Mac(mac) = progress else { return Err(Error::SavedStateInvalid) };
        self.mac = mac.duplicate()?;
        Ok(())
    }
}

impl Signature<dyn Signer> {
    /// Returns the engine of an asynchronous session.
    pub(super) fn later(self, session: SessionHandle, pending: &Arc<Pending>) -> Self {
        let Self::Pair(message, signer) = self else { return self };
        Self::Pair(message, Box::new(Later { signer, session, pending: Arc::clone(pending) }))
    }

    fn len(&self) -> usize {
        match self {
            Self::Pair(_, signer) => signer.signature_len(),
            Self::Mac(mac) => mac.len,
            Self::Otp(otp) => otp.info_len(),
        }
    }

    /// Returns the length of the result for a buffer of this length.
    fn len_in(&self, buffer: usize) -> usize {
        match self {
            Self::Mac(MacEngine { any_len: true, .. }) if buffer > 0 => buffer.min(MAX_MAC),
            _ => self.len(),
        }
    }

    #[inline]
    fn sign_whole(&mut self, data: &[u8], out: &mut [u8]) -> Result<Signed> {
        match self {
            Self::Otp(otp) => otp.sign_whole(data, out).map(Signed::Password),
            engine => engine.sign_bytes(data, out).map(Signed::Bytes),
        }
    }

    fn sign_bytes(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.len_in(out.len());
        let place = place(out, len)?;
        match self {
            Self::Pair(message, signer) => signer.sign(&message.whole(data)?, place)?,
            Self::Mac(mac) => {
                mac.mac.update(data)?;
                place.copy_from_slice(mac.finish(place.len())?);
            }
            Self::Otp(_) => return Err(Error::GeneralError),
        }
        Ok(place.len())
    }

    fn sign_end(&mut self, out: &mut [u8]) -> Result<Signed> {
        let len = self.len_in(out.len());
        let place = place(out, len)?;
        match self {
            Self::Pair(message, signer) => signer.sign(&message.parts()?, place)?,
            Self::Mac(mac) => place.copy_from_slice(mac.finish(place.len())?),
            Self::Otp(otp) => return otp.sign().map(Signed::Password),
        }
        Ok(Signed::Bytes(place.len()))
    }

    fn sign_now(&mut self, input: &[u8], len: usize) -> Result<Secret> {
        let Self::Pair(_, signer) = self else { return Err(Error::GeneralError) };
        let mut out = Secret::zeroed(len);
        signer.sign_now(input, &mut out)?;
        Ok(out)
    }

    fn sign_last(&mut self, data: &[u8], out: &mut [u8]) -> Result<Signed> {
        self.update(data)?;
        self.sign_end(out).inspect(|_| self.forget())
    }
}

impl<A: ?Sized> Absorb for Signature<A> {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        match self {
            Self::Pair(message, _) => message.update(data),
            Self::Mac(mac) => mac.mac.update(data),
            Self::Otp(otp) => otp.update(data),
        }
    }

    fn collects(&self) -> bool {
        match self {
            Self::Pair(message, _) => message.collects(),
            Self::Mac(mac) => mac.mac.collects(),
            Self::Otp(_) => false,
        }
    }
}

impl<A: ?Sized> Engine for Signature<A> {
    fn forget(&mut self) {
        match self {
            Self::Pair(message, _) => message.forget(),
            Self::Mac(mac) => mac.forget(),
            Self::Otp(_) => (),
        }
    }

    fn size(&self) -> usize {
        if let Self::Mac(MacEngine { any_len: true, .. }) = self { MAX_MAC } else { 0 }
    }
}

impl<A: ?Sized> Resume for Signature<A> {
    fn save(&self) -> Result<Progress> {
        match self {
            Self::Pair(message, _) => message.save(),
            Self::Mac(mac) => mac.save(),
            Self::Otp(_) => Err(Error::StateUnsaveable),
        }
    }

    fn resume(&mut self, progress: &Progress) -> Result<()> {
        match self {
            Self::Pair(message, _) => message.resume(progress),
            Self::Mac(mac) => mac.resume(progress),
            Self::Otp(_) => Err(Error::StateUnsaveable),
        }
    }
}

impl Operation<Signing> {
    /// `C_Sign`
    #[inline(always)]
    pub fn sign(&mut self, data: &[u8], out: Output<'_>) -> Result<Signed> {
        let engine = self.engine_for(Parts::Single)?;
        let Output::Buffer(out) = out else { return Ok(Signed::Bytes(engine.len())) };
        let outcome = engine.sign_whole(data, out);
        self.finish(outcome)
    }

    /// `C_SignFinal`
    pub fn sign_final(&mut self, out: Output<'_>) -> Result<Signed> {
        let engine = self.engine_for(Parts::Multiple)?;
        let Output::Buffer(out) = out else { return Ok(Signed::Bytes(engine.len())) };
        let outcome = engine.sign_end(out);
        self.finish_parts(outcome)
    }

    /// Ends the pending function. Returns its result.
    pub(super) fn complete(&mut self, signature: pending::Signature) -> Result<Secret> {
        let outcome = match signature.state {
            State::Done(Some(result)) => Ok(result),
            _ => self.engine().and_then(|engine| engine.sign_now(&signature.input, signature.len)),
        };
        self.finish(outcome)
    }

    /// `C_SignMessage`
    pub fn sign_message(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        let engine = self.message_engine(Phase::Begin)?;
        let Output::Buffer(out) = out else { return Ok(engine.len()) };
        let outcome = engine.sign_whole(data, out).map(|signed| signed.length());
        self.message_finish(outcome)
    }

    /// `C_SignMessageNext` with the last part. If the signature does not fit, the part is not
    /// processed.
    pub fn sign_message_end(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        let engine = self.message_engine(Phase::Continue)?;
        let Output::Buffer(out) = out else { return Ok(engine.len()) };
        let len = engine.len();
        let outcome = place(out, len).map(drop).and_then(|()| self.hold_last(data));
        let outcome = outcome.and_then(|()| self.engine()?.sign_last(data, out));
        let outcome = outcome.map(|signed| signed.length());
        self.message_finish(outcome)
    }
}

impl Signature<dyn Verifier> {
    pub(super) fn verify_whole(&mut self, data: &[u8], signature: &[u8]) -> Result<()> {
        match self {
            Self::Pair(message, verifier) => verifier.verify(&message.whole(data)?, signature),
            Self::Mac(mac) => {
                mac.mac.update(data)?;
                mac.verify(signature)
            }
            Self::Otp(otp) => {
                otp.update(data)?;
                otp.verify(signature)
            }
        }
    }

    pub(super) fn verify_end(&mut self, signature: &[u8]) -> Result<()> {
        match self {
            Self::Pair(message, verifier) => verifier.verify(&message.parts()?, signature),
            Self::Mac(mac) => mac.verify(signature),
            Self::Otp(otp) => otp.verify(signature),
        }
    }

    fn verify_last(&mut self, data: &[u8], signature: &[u8]) -> Result<()> {
        self.update(data)?;
        self.verify_end(signature).inspect(|()| self.forget())
    }
}

impl Operation<Verifying> {
    /// `C_Verify`
    pub fn verify(&mut self, data: &[u8], signature: &[u8]) -> Result<()> {
        let outcome = self.engine_for(Parts::Single)?.verify_whole(data, signature);
        self.finish(outcome)
    }

    /// `C_VerifyFinal`
    pub fn verify_final(&mut self, signature: &[u8]) -> Result<()> {
        let outcome = self.engine_for(Parts::Multiple)?.verify_end(signature);
        self.finish(outcome)
    }

    /// `C_VerifyMessage`
    pub fn verify_message(&mut self, data: &[u8], signature: &[u8]) -> Result<()> {
        let outcome = self.message_engine(Phase::Begin)?.verify_whole(data, signature);
        self.message_finish(outcome)
    }

    /// `C_VerifyMessageNext` with the last part.
    pub fn verify_message_end(&mut self, data: &[u8], signature: &[u8]) -> Result<()> {
        self.message_engine(Phase::Continue)?;
        let outcome = self.hold_last(data).and_then(|()| self.engine()?.verify_last(data, signature));
        self.message_finish(outcome)
    }
}
