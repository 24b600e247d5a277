//! Wrapping and unwrapping (PKCS#11 3.2, `C_WrapKey`, `C_UnwrapKey`).

use std::sync::Arc;

use der::asn1::AnyRef;
use der::{Decode, Reader, SliceReader};
use jeton_crypto::padding;
use jeton_secret::{Secret, with_wiped_frame};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tracing::warn;

use super::Module;
use super::audit::Call;
use super::derive::{check_form, protects, state};
use super::wrap_aes::kwp;
use super::wrap_ecdh::Agreement;
use crate::backend::{CipherScheme, Direction, Encryption};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, ObjectClass, ObjectHandle, SessionHandle};
use crate::mechanism::flow::Nonce;
use crate::mechanism::message::MessageParams;
use crate::mechanism::rule::{self, KeyState, Policy, Source, WrapRefusal, WrappingKey};
use crate::mechanism::{Action, Asymmetric, Mechanism, Params, Wraps, row_of, scheme};
use crate::object::access::Rights;
use crate::object::flags::Flag;
use crate::object::make::{Cut, Origin};
use crate::object::template::Template;
use crate::object::value::Value;
use crate::object::{Attributes, Object, key, make, pkcs8, strict};
use crate::session::operation::Output;
use crate::session::{Usage, usable};
use crate::token::{ClientToken, Token};

impl Module {
    /// `C_WrapKey`. Returns the number of bytes written, or the maximum for [`Output::Length`].
    pub fn wrap_key(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        wrapping: ObjectHandle,
        key: ObjectHandle,
        out: Output<'_>,
    ) -> Result<usize> {
        self.wrap_under(session, (mechanism, Nonce::Caller), wrapping, key, out)
    }

    /// `C_WrapKey` with `CK_GCM_WRAP_PARAMS` or `CK_CCM_WRAP_PARAMS`: generates the nonce into
    /// `message`.
    pub(super) fn wrap_key_with_nonce(
        &self,
        session: SessionHandle,
        (mechanism, message): (&Mechanism, &mut MessageParams),
        wrapping: ObjectHandle,
        key: ObjectHandle,
        out: Output<'_>,
    ) -> Result<usize> {
        self.wrapping_nonce(session, message)?;
        let mut mechanism = mechanism.clone();
        let Params::Cipher(CipherScheme::Aead { nonce, .. }) = &mut mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        *nonce = message.nonce().into();
        self.wrap_under(session, (&mechanism, Nonce::of(message)), wrapping, key, out)
    }

    fn wrap_under(
        &self,
        session: SessionHandle,
        (mechanism, nonce): (&Mechanism, Nonce),
        wrapping: ObjectHandle,
        key: ObjectHandle,
        out: Output<'_>,
    ) -> Result<usize> {
        let keys = [wrapping, key];
        self.record_call(session, Call::of("C_WrapKey", Some(mechanism), &keys), |token, rights| {
            let wrapping = find_key(&token, rights, mechanism, wrapping, WRAPPING)?;
            let plain = export_key(&token, rights, (mechanism, nonce), &wrapping, key)?;
            let needed = wrapped_len(mechanism, &wrapping, plain.len())?;
            let Output::Buffer(out) = out else { return Ok(needed) };
            require(out.len() >= needed, Error::BufferTooSmall { needed })?;
            wrap(&token, mechanism, &wrapping, &plain, out)
        })
    }

    /// `C_UnwrapKey`
    pub fn unwrap_key(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        unwrapping: ObjectHandle,
        wrapped: &[u8],
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        self.record_call(session, Call::of("C_UnwrapKey", Some(mechanism), &[unwrapping]), |token, rights| {
            let unwrapping = find_key(&token, rights, mechanism, unwrapping, UNWRAPPING)?;
            check_form(&token, mechanism, &unwrapping, mechanism.params.tag_len())?;
            let attributes = read_template(&token, &unwrapping, template, rights)?;
            let unwrapped =
                unwrap(&token, mechanism, &unwrapping, wrapped, &attributes).map_err(unwrap_error)?;
            let attributes = add_unwrapped_key(&token, mechanism, attributes, &unwrapped)?;
            token.insert(rights, session, attributes)
        })
    }
}

/// Returns the attributes that the templates give an unwrapped key. Fails before anything is
/// decrypted if such a key is impossible.
pub(super) fn read_template(
    token: &Token,
    unwrapping: &Object,
    template: &Template<'_>,
    rights: Rights,
) -> Result<Attributes> {
    let forced = unwrapping.attributes().get(A::UNWRAP_TEMPLATE);
    let sensitive = token.settings.is_strict();
    let origin = Origin { forced, extractable: true, sensitive, history: (false, false), key_type: None };
    token.receive(template, &origin, (&[forced], Source::Unwrapped), rights)
}

/// Adds the key itself to the attributes: the value of a secret key, or the PKCS #8 of a private
/// key.
pub(super) fn add_key(token: &Token, attributes: Attributes, plain: &Secret, cut: Cut) -> Result<Attributes> {
    if attributes.object_type().ok_or(Error::GeneralError)?.is_secret() {
        let attributes = make::put_unwrapped(attributes, plain, cut)?;
        // The first bytes of a private key are known, so a cipher that gets the start of such a key
        // as an unreadable secret key shows a part of the rest.
        let hidden = attributes.bytes(A::VALUE).filter(|_| !attributes.is_readable());
        let is_private = |value| pkcs8::has_header(value) && pkcs8::decode(value).is_ok();
        require(!hidden.is_some_and(is_private), Error::WrappedKeyInvalid)?;
        Ok(attributes)
    } else {
        let attributes = make::put_private_key(attributes, pkcs8::decode(plain)?, token.provider())?;
        pkcs8::check_public(plain, &attributes, token.provider())?;
        Ok(attributes)
    }
}

/// The decrypted bytes of a wrapped key. If the padding is wrong, `bytes` contains all decrypted
/// bytes. They are then processed like the bytes of a valid key until the final check.
pub(super) struct Unwrapped {
    bytes: Secret,
    good: Choice,
}

impl From<Secret> for Unwrapped {
    fn from(bytes: Secret) -> Self {
        Self { bytes, good: Choice::from(1) }
    }
}

/// Adds the unwrapped key to the attributes. A wrong padding, a wrong length, malformed PKCS #8 and
/// an invalid key have the same error. Different errors would reveal the plaintext. Two cases keep
/// their own errors. One is an error that also follows from the length of the ciphertext. The other
/// is a ciphertext that only a holder of the key can make.
pub(super) fn add_unwrapped_key(
    token: &Token,
    mechanism: &Mechanism,
    attributes: Attributes,
    unwrapped: &Unwrapped,
) -> Result<Attributes> {
    let secret = attributes.object_type().ok_or(Error::GeneralError)?.is_secret();
    let length_is_public = match row_of(mechanism.info).action {
        Action::Cipher(_) => scheme::cipher(mechanism)?.shows_length(),
        _ => row_of(mechanism.info).wraps == Wraps::SecretAfterZeros,
    };
    let keeps_errors = is_authenticated(mechanism) || secret && length_is_public;
    let whole = !secret && is_authenticated(mechanism);
    // The time of a decoder depends on what it decodes.
    let filled = match whole.then(|| without_zeros(&unwrapped.bytes)).flatten() {
        Some(der) => add_key(token, attributes, &Secret::from(der), secret_cut(mechanism)),
        None => add_key(token, attributes, &unwrapped.bytes, secret_cut(mechanism)),
    };
    require(bool::from(unwrapped.good), Error::WrappedKeyInvalid)?;
    filled.map_err(|error| match error {
        Error::DeviceError | Error::GeneralError | Error::HostMemory => error,
        error if keeps_errors => error,
        _ => Error::WrappedKeyInvalid,
    })
}

/// Returns a structure in DER without fewer than 8 zeros after it. SoftHSMv2 adds them to a private
/// key before it wraps the key with AES key wrap.
fn without_zeros(bytes: &[u8]) -> Option<&[u8]> {
    let mut reader = SliceReader::new(bytes).ok()?;
    AnyRef::decode(&mut reader).ok()?;
    let (der, zeros) = bytes.split_at_checked(usize::try_from(reader.position()).ok()?)?;
    (zeros.len() < 8 && zeros.iter().all(|byte| *byte == 0)).then_some(der)
}

/// Returns whether the mechanism accepts only ciphertexts made with the same key. AES key wrap has
/// an integrity check (SP 800-38F, 3.1). It refuses a forged ciphertext before its plaintext is
/// used.
fn is_authenticated(mechanism: &Mechanism) -> bool {
    scheme::cipher(mechanism).is_ok_and(|scheme| scheme.is_key_wrap() && !scheme.has_own_initial_value())
}

/// The usage of a key, and the errors for an invalid handle and for another type of the key.
/// PKCS#11 3.2, C_WrapKey, C_UnwrapKey: these have their own codes.
pub(super) type KeyUse = (Usage, Error, Error);

pub(super) const WRAPPING: KeyUse =
    (Usage::WRAP, Error::WrappingKeyHandleInvalid, Error::WrappingKeyTypeInconsistent);
pub(super) const UNWRAPPING: KeyUse =
    (Usage::UNWRAP, Error::UnwrappingKeyHandleInvalid, Error::UnwrappingKeyTypeInconsistent);

pub(super) fn find_key(
    token: &ClientToken,
    rights: Rights,
    mechanism: &Mechanism,
    handle: ObjectHandle,
    (usage, bad_handle, bad_type): KeyUse,
) -> Result<Arc<Object>> {
    token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
    usable(token, rights, mechanism, handle, usage).map_err(|error| match error {
        Error::KeyHandleInvalid => bad_handle,
        Error::KeyTypeInconsistent => bad_type,
        other => other,
    })
}

/// Returns the bytes of a key if that wrapping key may wrap it.
pub(super) fn export_key(
    token: &ClientToken,
    rights: Rights,
    (mechanism, nonce): (&Mechanism, Nonce),
    wrapping: &Object,
    key: ObjectHandle,
) -> Result<Secret> {
    let key = token.key_object(rights, key)?;
    // Wrapping uses this key too. A caller could unwrap it again without CKA_ALWAYS_AUTHENTICATE.
    require(!key.flag(Flag::ALWAYS_AUTHENTICATE), Error::UserNotLoggedIn)?;
    check_exportable(&key, wrapping)?;
    if token.settings.is_strict() {
        require(wrapping.flag(Flag::TRUSTED), Error::KeyNotWrappable)?;
        strict::keeps_role(&key, wrapping)?;
    }
    let mut state = state(&key);
    // Under *strict* only trusted keys wrap.
    state.with_trusted |= token.settings.is_strict();
    // After it is unwrapped, the key still hides what is derived from it. Under *strict* it gets
    // its role from the same template.
    let hides = |(id, value): &(A, Value)| *id == A::DERIVE_TEMPLATE && protects(value);
    let forced = wrapping.attributes().get(A::UNWRAP_TEMPLATE);
    let keeps = matches!(forced, Some(Value::Template(forced)) if forced.iter().any(hides));
    if keeps || token.rules() == Policy::Strict {
        state.template = rule::Template::Open;
    }
    check_secrecy((mechanism, nonce), wrapping, (&key, &state))?;
    encode_key(token, mechanism, &key)
}

/// Fails if the wrapped key would show a part of an unreadable key.
fn check_secrecy(
    (mechanism, nonce): (&Mechanism, Nonce),
    wrapping: &Object,
    (key, state): (&Object, &KeyState),
) -> Result<()> {
    let wrapping_of = row_of(mechanism.info).wrapping(&mechanism.params).ok_or(Error::MechanismInvalid)?;
    let len = match key.object_type().is_secret() {
        true => key::secret(key.attributes())?.len(),
        false => usize::MAX,
    };
    let secrecy = wrapping_of.secrecy(nonce, len);
    rule::wrap(secrecy, role_of(wrapping), state).map_err(|refusal| {
        let (reason, error) = match refusal {
            WrapRefusal::Mark => {
                ("the unwrapped key would be less protected than the key", Error::KeyNotWrappable)
            }
            WrapRefusal::Shows => {
                ("the mechanism could show parts of an unreadable key", Error::KeyNotWrappable)
            }
            WrapRefusal::Nonce => {
                ("a wrapping key without other usages takes no nonce", Error::MechanismParamInvalid)
            }
            WrapRefusal::Stream => {
                ("a wrapping key without other usages shows no blocks", Error::KeyFunctionNotPermitted)
            }
        };
        warn!(mechanism = %mechanism.info.id, reason, "a key is not wrapped");
        error
    })
}

/// Returns what a wrapping key may do besides wrapping. The user cannot change the usages of a
/// trusted key. Its copies cannot be changed either.
fn role_of(wrapping: &Object) -> WrappingKey {
    let class =
        if wrapping.object_type().is_public() { ObjectClass::PUBLIC_KEY } else { ObjectClass::SECRET_KEY };
    let mut usages = key::usages(class).iter().filter(|id| ![A::WRAP, A::UNWRAP].contains(id));
    let others = usages.any(|id| wrapping.attributes().flag(*id) == Some(true));
    let is_final = wrapping.flag(Flag::TRUSTED) || !wrapping.flag(Flag::MODIFIABLE);
    if is_final && !others { WrappingKey::Dedicated } else { WrappingKey::Shared }
}

/// Checks `CKA_EXTRACTABLE`, `CKA_WRAP_WITH_TRUSTED` and the `CKA_WRAP_TEMPLATE` of the wrapping
/// key (PKCS#11 3.2, C_WrapKey).
fn check_exportable(key: &Object, wrapping: &Object) -> Result<()> {
    require(key.object_type().is_hidden(), Error::KeyNotWrappable)?;
    require(key.flag(Flag::EXTRACTABLE), Error::KeyUnextractable)?;
    require(!key.flag(Flag::WRAP_WITH_TRUSTED) || wrapping.flag(Flag::TRUSTED), Error::KeyNotWrappable)?;
    match wrapping.attributes().get(A::WRAP_TEMPLATE) {
        Some(Value::Template(wanted)) if !wanted.iter().all(|(id, value)| key.shows(*id, value)) => {
            Err(Error::KeyHandleInvalid)
        }
        _ => Ok(()),
    }
}

/// Returns the plaintext to wrap: the value of a secret key, or the PKCS #8 of a private key.
fn encode_key(token: &Token, mechanism: &Mechanism, key: &Object) -> Result<Secret> {
    if key.object_type().is_private() {
        return match row_of(mechanism.info).wraps {
            Wraps::Any => pkcs8::encode(key.attributes(), token.provider()),
            _ => Err(Error::KeyNotWrappable),
        };
    }
    let mut value = Secret::from(key::secret(key.attributes())?);
    if let Wraps::SecretWithZeros(block) = row_of(mechanism.info).wraps {
        let padding = value.len().next_multiple_of(block) - value.len();
        value.extend(&vec![0; padding])?;
    }
    Ok(value)
}

/// Returns how a wrapped value is cut to its length. Modes with zero padding hide the length of a
/// secret key. There `CKA_VALUE_LEN` of the template restores it.
fn secret_cut(mechanism: &Mechanism) -> Cut {
    match row_of(mechanism.info).wraps {
        Wraps::SecretWithZeros(block) => Cut::TrailingZeros { block },
        Wraps::SecretAfterZeros => Cut::LeadingZeros,
        _ => Cut::Not,
    }
}

pub(super) fn wrapped_len(mechanism: &Mechanism, wrapping: &Object, len: usize) -> Result<usize> {
    if let Action::Cipher(_) = row_of(mechanism.info).action {
        return Ok(scheme::cipher(mechanism)?.growth().output_len(Direction::Encrypt, len));
    }
    if let Some(agreement) = Agreement::of(mechanism)? {
        return agreement.wrapped_len(wrapping, len);
    }
    let modulus = key::modulus_len(wrapping.attributes())?;
    Ok(match row_of(mechanism.info).action {
        Action::Encrypt(Asymmetric::AesWrap) => {
            modulus + CipherScheme::AesKwp { iv: None }.growth().output_len(Direction::Encrypt, len)
        }
        _ => modulus,
    })
}

pub(super) fn wrap(
    token: &Token,
    mechanism: &Mechanism,
    wrapping: &Object,
    plain: &Secret,
    out: &mut [u8],
) -> Result<usize> {
    let provider = token.provider();
    if let Action::Cipher(_) = row_of(mechanism.info).action {
        let (value, given) = (key::secret(wrapping.attributes())?, scheme::cipher(mechanism)?);
        // PKCS#11 3.2, "AES-CCM Wrap and UnWrap": `ulDataLen` is ignored.
        let announcing = given.announcing(plain.len());
        let scheme = announcing.as_ref().unwrap_or(given);
        let mut cipher = provider.ciphers.cipher(scheme, Direction::Encrypt, value)?;
        let written = cipher.update(plain, out).map_err(length_error)?;
        return Ok(written + cipher.finish(&mut out[written..]).map_err(length_error)?);
    }
    if let Some(agreement) = Agreement::of(mechanism)? {
        return with_wiped_frame(|| agreement.wrap(token, wrapping, plain, out));
    }
    let (encryption, public) = (scheme::encryption(mechanism)?, wrapping.public_key(provider)?);
    let Params::RsaAesWrap { aes_bits, .. } = mechanism.params else {
        return public.encrypt(&encryption, plain, out).map_err(length_error);
    };
    let mut aes = aes_key(aes_bits)?;
    provider.random.fill(&mut aes)?;
    let head = public.encrypt(&encryption, &aes, out)?;
    Ok(head + kwp(token, &aes, Direction::Encrypt, plain, &mut out[head..])?)
}

/// Decrypts a key for these attributes.
pub(super) fn unwrap(
    token: &Token,
    mechanism: &Mechanism,
    unwrapping: &Object,
    wrapped: &[u8],
    attributes: &Attributes,
) -> Result<Unwrapped> {
    let secret = attributes.object_type().ok_or(Error::GeneralError)?.is_secret();
    // The length of a private key is not known in advance.
    let fits = |len| !secret || make::fits(attributes, len);
    let provider = token.provider();
    let mut plain = Secret::try_zeroed(wrapped.len().max(8))?;
    if let Action::Cipher(_) = row_of(mechanism.info).action {
        let value = key::secret(unwrapping.attributes())?;
        let (given, unpadded) = (scheme::cipher(mechanism)?, scheme::cipher(mechanism)?.without_padding());
        let announcing = given.announcing(wrapped.len().saturating_sub(mechanism.params.tag_len()));
        let scheme = unpadded.as_ref().map_or(given, |(scheme, _)| scheme);
        let scheme = announcing.as_ref().unwrap_or(scheme);
        let mut cipher = provider.ciphers.cipher(scheme, Direction::Decrypt, value)?;
        let written = cipher.update(wrapped, &mut plain)?;
        let len = written + cipher.finish(&mut plain[written..])?;
        return match unpadded {
            Some((_, block)) => remove_padding(&plain[..len], block, &fits),
            None => Ok(Secret::from(&plain[..len]).into()),
        };
    }
    if let Some(agreement) = Agreement::of(mechanism)? {
        let len = agreement.unwrap(token, unwrapping, wrapped, &mut plain)?;
        return Ok(Secret::from(&plain[..len]).into());
    }
    let (encryption, private) = (scheme::encryption(mechanism)?, unwrapping.private_key(provider)?);
    let modulus = key::modulus_len(unwrapping.attributes())?;
    let Params::RsaAesWrap { aes_bits, .. } = mechanism.params else {
        if encryption == Encryption::Pkcs1 {
            // A wrong padding or length gives a synthetic key of the right length.
            return private.decrypt_pkcs1(wrapped, &fits).map(Unwrapped::from);
        }
        let mut plain = Secret::zeroed(modulus);
        let len = private.decrypt(&encryption, wrapped, &mut plain)?;
        return Ok(Secret::from(&plain[..len]).into());
    };
    let (head, rest) = wrapped.split_at_checked(modulus).ok_or(Error::WrappedKeyLenRange)?;
    let mut aes = Secret::zeroed(modulus);
    let len = private.decrypt(&encryption, head, &mut aes)?;
    require(len == aes_key(aes_bits)?.len(), Error::WrappedKeyInvalid)?;
    let len = kwp(token, &aes[..len], Direction::Decrypt, rest, &mut plain)?;
    Ok(Secret::from(&plain[..len]).into())
}

/// Removes PKCS #7 padding. A length that does not fit counts as a wrong padding and takes the same
/// time.
fn remove_padding(plain: &[u8], block: usize, fits: &dyn Fn(usize) -> bool) -> Result<Unwrapped> {
    require(!plain.is_empty(), Error::WrappedKeyLenRange)?;
    let (padded, len) = padding::pkcs7(plain, block);
    let lengths = plain.len() - block..plain.len();
    let allowed =
        lengths.filter(|len| fits(*len)).fold(Choice::from(0), |any, other| any | other.ct_eq(&len));
    let good = padded & allowed;
    let len = u64::conditional_select(&(plain.len() as u64), &(len as u64), good) as usize;
    Ok(Unwrapped { bytes: Secret::try_copy(&plain[..len])?, good })
}

fn aes_key(bits: u64) -> Result<Secret> {
    match bits {
        128 | 192 | 256 => Ok(Secret::zeroed(bits as usize / 8)),
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// Translates the error for a key whose length the mechanism does not accept.
pub(super) fn length_error(error: Error) -> Error {
    match error {
        Error::DataLenRange | Error::DataInvalid => Error::KeySizeRange,
        other => other,
    }
}

/// Translates the error for a ciphertext that cannot be decrypted.
pub(super) fn unwrap_error(error: Error) -> Error {
    match error {
        Error::EncryptedDataInvalid => Error::WrappedKeyInvalid,
        Error::EncryptedDataLenRange => Error::WrappedKeyLenRange,
        other => other,
    }
}

/// The key type of an encapsulated or decapsulated key if its template names no type.
pub(super) const DEFAULT_TYPE: Option<KeyType> = Some(KeyType::GENERIC_SECRET);
