//! Wrapping and unwrapping (PKCS#11 3.2, `C_WrapKey`, `C_UnwrapKey`).

use std::sync::Arc;

use super::Module;
use super::audit::Call;
use super::wrap_ecdh::Agreement;
use crate::backend::{CipherScheme, Direction};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectHandle, SessionHandle};
use crate::mechanism::{Action, Asymmetric, Invocation, Mode, Params, Primitive};
use crate::object::bits::Flag;
use crate::object::make::{Cut, Origin};
use crate::object::policy::Rights;
use crate::object::template::Template;
use crate::object::value::Value;
use crate::object::{Attributes, Object, key, make, pkcs8};
use crate::secret::Secret;
use crate::session::operation::Output;
use crate::session::{Usage, usable};
use crate::token::Token;

impl Module {
    /// `C_WrapKey`: how many bytes were written, or would be at most for [`Output::Length`].
    pub fn wrap_key(
        &self,
        session: SessionHandle,
        with: &Invocation,
        wrapping: ObjectHandle,
        key: ObjectHandle,
        out: Output<'_>,
    ) -> Result<usize> {
        self.recorded(session, Call::of("C_WrapKey", Some(with), &[wrapping, key]), || {
            let (token, rights) = self.access(session)?;
            let wrapping = wrapping_key(&token, rights, with, wrapping)?;
            let plain = leaving(&token, rights, with, &wrapping, key)?;
            let needed = wrapped_len(with, &wrapping, plain.len())?;
            let Output::Buffer(out) = out else { return Ok(needed) };
            if out.len() < needed {
                return Err(Error::BufferTooSmall { needed });
            }
            wrap(&token, with, &wrapping, &plain, out)
        })
    }

    /// `C_UnwrapKey`
    pub fn unwrap_key(
        &self,
        session: SessionHandle,
        with: &Invocation,
        unwrapping: ObjectHandle,
        wrapped: &[u8],
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        self.recorded(session, Call::of("C_UnwrapKey", Some(with), &[unwrapping]), || {
            let (token, rights) = self.access(session)?;
            let unwrapping = unwrapping_key(&token, rights, with, unwrapping)?;
            let attributes = wanted(&unwrapping, template, rights)?;
            let plain = unwrap(&token, with, &unwrapping, wrapped).map_err(refused)?;
            let attributes = filled(&token, attributes, &plain, secret_cut(with))?;
            token.insert(rights, session, attributes)
        })
    }
}

/// What the templates say of a key that is unwrapped; known to be possible before anything is decrypted.
pub(super) fn wanted(unwrapping: &Object, template: &Template<'_>, rights: Rights) -> Result<Attributes> {
    let forced = unwrapping.attributes().get(A::UNWRAP_TEMPLATE);
    let origin =
        Origin { forced, extractable: true, sensitive: false, history: (false, false), key_type: None };
    let attributes = make::receive(template, &origin, rights.officer())?;
    rights.write(&attributes)?;
    Ok(attributes)
}

/// The same with the key itself: a secret key's value, a private key's PKCS #8.
pub(super) fn filled(token: &Token, attributes: Attributes, plain: &Secret, cut: Cut) -> Result<Attributes> {
    if attributes.sort().ok_or(Error::GeneralError)?.is_secret() {
        make::put_secret(attributes, plain, cut)
    } else {
        make::put_private_key(attributes, pkcs8::decode(plain)?, token.provider())
    }
}

/// The key that wraps.
pub(super) fn wrapping_key(
    token: &Token,
    rights: Rights,
    with: &Invocation,
    handle: ObjectHandle,
) -> Result<Arc<Object>> {
    token.settings.mechanism(with.mechanism.id).ok_or(Error::MechanismInvalid)?;
    usable(token, rights, with, handle, Usage::WRAP).map_err(wrapping_error)
}

/// The key that unwraps.
pub(super) fn unwrapping_key(
    token: &Token,
    rights: Rights,
    with: &Invocation,
    handle: ObjectHandle,
) -> Result<Arc<Object>> {
    token.settings.mechanism(with.mechanism.id).ok_or(Error::MechanismInvalid)?;
    usable(token, rights, with, handle, Usage::UNWRAP).map_err(unwrapping_error)
}

/// The bytes of a key that may leave the token under that wrapping key.
pub(super) fn leaving(
    token: &Token,
    rights: Rights,
    with: &Invocation,
    wrapping: &Object,
    key: ObjectHandle,
) -> Result<Secret> {
    let key = token.object(rights, key).map_err(|_| Error::KeyHandleInvalid)?;
    may_leave(&key, wrapping)?;
    exported(with, &key)
}

/// PKCS#11 3.2, C_WrapKey: what is wrong with the wrapping key has names of its own.
fn wrapping_error(error: Error) -> Error {
    match error {
        Error::KeyHandleInvalid => Error::WrappingKeyHandleInvalid,
        Error::KeyTypeInconsistent => Error::WrappingKeyTypeInconsistent,
        other => other,
    }
}

/// PKCS#11 3.2, C_UnwrapKey: likewise.
fn unwrapping_error(error: Error) -> Error {
    match error {
        Error::KeyHandleInvalid => Error::UnwrappingKeyHandleInvalid,
        Error::KeyTypeInconsistent => Error::UnwrappingKeyTypeInconsistent,
        other => other,
    }
}

/// PKCS#11 3.2, C_WrapKey: `CKA_EXTRACTABLE`, `CKA_WRAP_WITH_TRUSTED` and the wrapping key's `CKA_WRAP_TEMPLATE`.
fn may_leave(key: &Object, wrapping: &Object) -> Result<()> {
    if !key.sort().is_hidden() {
        return Err(Error::KeyNotWrappable);
    }
    if !key.flag(Flag::EXTRACTABLE) {
        return Err(Error::KeyUnextractable);
    }
    if key.flag(Flag::WRAP_WITH_TRUSTED) && !wrapping.flag(Flag::TRUSTED) {
        return Err(Error::KeyNotWrappable);
    }
    match wrapping.attributes().get(A::WRAP_TEMPLATE) {
        Some(Value::Template(wanted)) if !wanted.iter().all(|(id, value)| key.shows(*id, value)) => {
            Err(Error::KeyHandleInvalid)
        }
        _ => Ok(()),
    }
}

/// A key as the bytes that are wrapped: a secret key's value, a private key's PKCS #8.
fn exported(with: &Invocation, key: &Object) -> Result<Secret> {
    if key.sort().is_private() {
        return match with.mechanism.action {
            // PKCS#11 3.2, "AES-ECB", "AES-CBC": they wrap secret keys.
            Action::Cipher(Mode::AesEcb | Mode::AesCbc | Mode::Des3Ecb | Mode::Des3Cbc) => {
                Err(Error::KeyNotWrappable)
            }
            Action::Cipher(_) | Action::Encrypt(Asymmetric::AesWrap | Asymmetric::EcdhAesWrap(_)) => {
                pkcs8::encode(key.attributes())
            }
            _ => Err(Error::KeyNotWrappable),
        };
    }
    let mut value = Secret::from(key::secret(key.attributes())?);
    // PKCS#11 3.2, "AES-CBC", "AES-ECB": the value is padded with zeros to whole blocks.
    if let Action::Cipher(Mode::AesEcb | Mode::AesCbc | Mode::Des3Ecb | Mode::Des3Cbc) = with.mechanism.action
    {
        let padding = value.len().next_multiple_of(16) - value.len();
        value.extend(&[0; 16][..padding]);
    }
    Ok(value)
}

/// The modes whose zero padding hides the length of a secret key give it back through `CKA_VALUE_LEN`.
fn secret_cut(with: &Invocation) -> Cut {
    match with.mechanism.action {
        Action::Cipher(Mode::AesEcb | Mode::AesCbc | Mode::Des3Ecb | Mode::Des3Cbc) => Cut::Trailing,
        Action::Sign(Primitive::RsaRaw, _) => Cut::Leading,
        _ => Cut::Not,
    }
}

fn wrapped_len(with: &Invocation, wrapping: &Object, len: usize) -> Result<usize> {
    if let Action::Cipher(_) = with.mechanism.action {
        return Ok(with.cipher()?.output_len(Direction::Encrypt, len));
    }
    if let Some(agreement) = Agreement::of(with)? {
        return agreement.wrapped_len(wrapping, len);
    }
    let modulus = key::modulus_len(wrapping.attributes())?;
    Ok(match with.mechanism.action {
        Action::Encrypt(Asymmetric::AesWrap) => {
            modulus + CipherScheme::AesKwp { iv: None }.output_len(Direction::Encrypt, len)
        }
        _ => modulus,
    })
}

fn wrap(
    token: &Token,
    with: &Invocation,
    wrapping: &Object,
    plain: &Secret,
    out: &mut [u8],
) -> Result<usize> {
    let provider = token.provider();
    if let Action::Cipher(_) = with.mechanism.action {
        let value = key::secret(wrapping.attributes())?;
        let mut cipher = provider.ciphers.cipher(&with.cipher()?, Direction::Encrypt, value)?;
        let written = cipher.update(plain, out).map_err(too_long)?;
        return Ok(written + cipher.finish(&mut out[written..]).map_err(too_long)?);
    }
    if let Some(agreement) = Agreement::of(with)? {
        return agreement.wrap(token, wrapping, plain, out);
    }
    let (encryption, public) = (with.encryption()?, wrapping.public_key(provider)?);
    let Params::RsaAesWrap { aes_bits, .. } = with.params else {
        return public.encrypt(&encryption, plain, out).map_err(too_long);
    };
    let mut aes = aes_key(aes_bits)?;
    provider.random.fill(&mut aes)?;
    let head = public.encrypt(&encryption, &aes, out)?;
    Ok(head + kwp(token, &aes, Direction::Encrypt, plain, &mut out[head..])?)
}

fn unwrap(token: &Token, with: &Invocation, unwrapping: &Object, wrapped: &[u8]) -> Result<Secret> {
    let provider = token.provider();
    let mut plain = Secret::zeroed(wrapped.len().max(8));
    if let Action::Cipher(_) = with.mechanism.action {
        let value = key::secret(unwrapping.attributes())?;
        let mut cipher = provider.ciphers.cipher(&with.cipher()?, Direction::Decrypt, value)?;
        let written = cipher.update(wrapped, &mut plain)?;
        let len = written + cipher.finish(&mut plain[written..])?;
        return Ok(plain[..len].into());
    }
    if let Some(agreement) = Agreement::of(with)? {
        let len = agreement.unwrap(token, unwrapping, wrapped, &mut plain)?;
        return Ok(plain[..len].into());
    }
    let (encryption, private) = (with.encryption()?, unwrapping.private_key(provider)?);
    let modulus = key::modulus_len(unwrapping.attributes())?;
    let Params::RsaAesWrap { aes_bits, .. } = with.params else {
        let mut plain = Secret::zeroed(modulus);
        let len = private.decrypt(&encryption, wrapped, &mut plain)?;
        return Ok(plain[..len].into());
    };
    let (head, rest) = wrapped.split_at_checked(modulus).ok_or(Error::WrappedKeyLenRange)?;
    let mut aes = Secret::zeroed(modulus);
    let len = private.decrypt(&encryption, head, &mut aes)?;
    if len != aes_key(aes_bits)?.len() {
        return Err(Error::WrappedKeyInvalid);
    }
    let len = kwp(token, &aes[..len], Direction::Decrypt, rest, &mut plain)?;
    Ok(plain[..len].into())
}

/// PKCS#11 3.2, "RSA AES key wrap": the key itself goes under a fresh AES key with KWP.
pub(super) fn kwp(
    token: &Token,
    aes: &[u8],
    direction: Direction,
    input: &[u8],
    out: &mut [u8],
) -> Result<usize> {
    let mut cipher = token.provider().ciphers.cipher(&CipherScheme::AesKwp { iv: None }, direction, aes)?;
    let written = cipher.update(input, out)?;
    Ok(written + cipher.finish(&mut out[written..])?)
}

fn aes_key(bits: u64) -> Result<Secret> {
    match bits {
        128 | 192 | 256 => Ok(Secret::zeroed(bits as usize / 8)),
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// A key whose length the mechanism does not take.
pub(super) fn too_long(error: Error) -> Error {
    match error {
        Error::DataLenRange | Error::DataInvalid => Error::KeySizeRange,
        other => other,
    }
}

/// What does not decrypt is no wrapped key.
pub(super) fn refused(error: Error) -> Error {
    match error {
        Error::EncryptedDataInvalid => Error::WrappedKeyInvalid,
        Error::EncryptedDataLenRange => Error::WrappedKeyLenRange,
        other => other,
    }
}

/// The type that a derived or decapsulated key has where its template names none.
pub(super) const DEFAULT_TYPE: Option<KeyType> = Some(KeyType::GENERIC_SECRET);
