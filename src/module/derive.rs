//! Key derivation (PKCS#11 3.2, `C_DeriveKey`).

use std::sync::Arc;

use super::Module;
use super::wrap::DEFAULT_TYPE;
use crate::backend::{CipherScheme, Direction, Hash, MacScheme, Provider};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle};
use crate::mechanism::{Action, Derivation, HkdfSalt, Invocation, Params};
use crate::object::bits::Flag;
use crate::object::make::{Cut, Origin};
use crate::object::policy::Rights;
use crate::object::template::Template;
use crate::object::{Attributes, Object, key, make};
use crate::secret::Secret;
use crate::session::{Usage, usable};
use crate::token::Token;

/// Longest key that is derived, in bytes: RFC 5869 gives 255 digests at most.
const MAX_DERIVED: usize = 255 * Hash::MAX_LEN;

impl Module {
    /// `C_DeriveKey`
    pub fn derive_key(
        &self,
        session: SessionHandle,
        with: &Invocation,
        base: ObjectHandle,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        let (token, rights) = self.access(session)?;
        token.settings.mechanism(with.mechanism.id).ok_or(Error::MechanismInvalid)?;
        let base = usable(&token, rights, with, base, Usage::DERIVE)?;
        let Action::Derive(derivation) = with.mechanism.action else { return Err(Error::MechanismInvalid) };
        if derivation == Derivation::HkdfData {
            return self.derive_data(session, with, &base, template);
        }
        let guard = Guard::of(&base, self.other_key(session, with)?.as_deref());
        let origin = Origin {
            forced: base.attributes().get(A::DERIVE_TEMPLATE),
            extractable: guard.extractable,
            sensitive: guard.sensitive,
            history: (guard.always_sensitive, guard.never_extractable),
            key_type: DEFAULT_TYPE,
        };
        let attributes = make::receive(template, &origin, rights.officer())?;
        if inherits(derivation) {
            guard.check(&attributes)?;
        }
        rights.write(&attributes)?;
        let wanted = wanted(attributes.number(A::VALUE_LEN))?;
        let work = Work { token: &token, rights, with, base: &base, wanted };
        let (secret, cut) = work.secret(derivation)?;
        token.insert(rights, session, make::put_secret(attributes, &secret, cut)?)
    }

    /// PKCS#11 3.2, "HKDF Data": a data object, as long as `CKA_VALUE_LEN` of the template says.
    fn derive_data(
        &self,
        session: SessionHandle,
        with: &Invocation,
        base: &Object,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        let (token, rights) = self.access(session)?;
        let forced = base.attributes().get(A::DERIVE_TEMPLATE);
        let (attributes, len) = make::derived_data(template, forced, rights.officer())?;
        rights.write(&attributes)?;
        let wanted = wanted(len)?;
        let value = Work { token: &token, rights, with, base, wanted }.hkdf(&with.params)?;
        token.insert(rights, session, make::put_data(attributes, &value, wanted)?)
    }

    /// The second key of a concatenation.
    fn other_key(&self, session: SessionHandle, with: &Invocation) -> Result<Option<Arc<Object>>> {
        let (token, rights) = self.access(session)?;
        let Params::Key(handle) = with.params else { return Ok(None) };
        token.object(rights, handle).map(Some).map_err(|_| Error::KeyHandleInvalid)
    }
}

/// Whether a derived key is protected as its base is. PKCS#11 3.2, "Miscellaneous simple key derivation mechanisms":
/// what they give tells the base key.
fn inherits(derivation: Derivation) -> bool {
    matches!(
        derivation,
        Derivation::ConcatenateBaseAndKey
            | Derivation::ConcatenateBaseAndData
            | Derivation::ConcatenateDataAndBase
            | Derivation::XorBaseAndData
            | Derivation::ExtractKeyFromKey
    )
}

/// How the keys are protected that another is derived from.
struct Guard {
    sensitive: bool,
    extractable: bool,
    always_sensitive: bool,
    never_extractable: bool,
}

impl Guard {
    fn of(base: &Object, other: Option<&Object>) -> Self {
        let all = |flag| base.flag(flag) && other.is_none_or(|other| other.flag(flag));
        Self {
            sensitive: base.flag(Flag::SENSITIVE) || other.is_some_and(|other| other.flag(Flag::SENSITIVE)),
            extractable: all(Flag::EXTRACTABLE),
            always_sensitive: all(Flag::ALWAYS_SENSITIVE),
            never_extractable: all(Flag::NEVER_EXTRACTABLE),
        }
    }

    fn check(&self, attributes: &Attributes) -> Result<()> {
        let shown = self.sensitive && attributes.flag(A::SENSITIVE) == Some(false);
        let leaves = !self.extractable && attributes.flag(A::EXTRACTABLE) == Some(true);
        if shown || leaves { Err(Error::TemplateInconsistent) } else { Ok(()) }
    }
}

/// A `CKA_VALUE_LEN` that a derivation may give.
fn wanted(len: Option<u64>) -> Result<Option<usize>> {
    let Some(len) = len else { return Ok(None) };
    let len = usize::try_from(len).ok().filter(|len| (1..=MAX_DERIVED).contains(len));
    len.map(Some).ok_or(Error::KeySizeRange)
}

/// What a derivation has to go on.
struct Work<'a> {
    token: &'a Token,
    rights: Rights,
    with: &'a Invocation,
    base: &'a Object,
    /// `CKA_VALUE_LEN`
    wanted: Option<usize>,
}

impl Work<'_> {
    /// The secret, and the end at which a longer one is cut.
    fn secret(&self, derivation: Derivation) -> Result<(Secret, Cut)> {
        let provider = self.token.provider();
        let secret = match (derivation, &self.with.params) {
            (Derivation::Ecdh, Params::Ecdh { kdf, shared, peer }) => return self.ecdh(*kdf, shared, peer),
            (Derivation::Hkdf, params @ Params::Hkdf { .. }) => self.hkdf(params)?,
            (Derivation::HashOfKey(hash), Params::None) => digest(provider, hash, &[self.value()?])?,
            (Derivation::ConcatenateBaseAndKey, Params::Key(other)) => {
                let other = self.other(*other)?;
                joined(&[self.value()?, &other])
            }
            (Derivation::ConcatenateBaseAndData, Params::Data(data)) => joined(&[self.value()?, data]),
            (Derivation::ConcatenateDataAndBase, Params::Data(data)) => joined(&[data, self.value()?]),
            (Derivation::XorBaseAndData, Params::Data(data)) => {
                let mut secret = Secret::from(&self.value()?[..data.len().min(self.value()?.len())]);
                secret.iter_mut().zip(data).for_each(|(byte, other)| *byte ^= other);
                secret
            }
            (Derivation::ExtractKeyFromKey, Params::Bit(bit)) => extract(self.value()?, *bit, self.wanted)?,
            (Derivation::AesEcbEncryptData, Params::Data(data)) => {
                self.enciphered(&CipherScheme::AesEcb, data)?
            }
            (Derivation::AesCbcEncryptData, Params::CbcData { iv, data }) => {
                self.enciphered(&CipherScheme::AesCbc { iv: *iv, padded: false }, data)?
            }
            _ => return Err(Error::MechanismParamInvalid),
        };
        Ok((secret, Cut::Trailing))
    }

    fn value(&self) -> Result<&[u8]> {
        key::secret(self.base.attributes())
    }

    /// The value of another key that the parameter names.
    fn other(&self, handle: ObjectHandle) -> Result<Secret> {
        let object = self.token.object(self.rights, handle).map_err(|_| Error::KeyHandleInvalid)?;
        if !object.sort().is_secret() {
            return Err(Error::KeyTypeInconsistent);
        }
        key::secret(object.attributes()).map(Secret::from)
    }

    /// PKCS#11 3.2, "Elliptic curve Diffie-Hellman key derivation". Without a KDF a shorter key is the end of the
    /// shared secret; with one it is as long as it must be.
    fn ecdh(&self, kdf: Option<Hash>, shared: &[u8], peer: &[u8]) -> Result<(Secret, Cut)> {
        let provider = self.token.provider();
        let private = self.base.private_key(provider)?;
        let bare = |error| match error {
            Error::DataInvalid | Error::AttributeValueInvalid => Error::MechanismParamInvalid,
            other => other,
        };
        // The point may stand there bare or as a DER octet string, and a bare one may look like DER.
        let secret = private
            .agree(peer)
            .or_else(|_| key::octets(peer).and_then(|peer| private.agree(peer)))
            .map_err(bare)?;
        match kdf {
            None if shared.is_empty() => Ok((secret, Cut::Leading)),
            None => Err(Error::MechanismParamInvalid),
            Some(hash) => {
                let len = self.wanted.unwrap_or(secret.len());
                Ok((x963(provider, hash, &secret, shared, len)?, Cut::Not))
            }
        }
    }

    fn hkdf(&self, params: &Params) -> Result<Secret> {
        let Params::Hkdf { extract, expand, hash, salt, info } = params else {
            return Err(Error::MechanismParamInvalid);
        };
        let provider = self.token.provider();
        let salt = match salt {
            HkdfSalt::Null => Secret::zeroed(hash.len()),
            HkdfSalt::Data(salt) => Secret::from(&salt[..]),
            HkdfSalt::Key(handle) => self.other(*handle)?,
        };
        let key = match extract {
            true => hmac(provider, *hash, &salt, &[self.value()?])?,
            false => Secret::from(self.value()?),
        };
        match expand {
            true => hkdf_expand(provider, *hash, &key, info, self.wanted.ok_or(Error::TemplateIncomplete)?),
            false if *extract => Ok(key),
            false => Err(Error::MechanismParamInvalid),
        }
    }

    fn enciphered(&self, scheme: &CipherScheme, data: &[u8]) -> Result<Secret> {
        let mut cipher = self.token.provider().ciphers.cipher(scheme, Direction::Encrypt, self.value()?)?;
        let mut out = Secret::zeroed(scheme.output_len(Direction::Encrypt, data.len()));
        let written = cipher.update(data, &mut out).map_err(|_| Error::MechanismParamInvalid)?;
        cipher.finish(&mut out[written..]).map_err(|_| Error::MechanismParamInvalid)?;
        Ok(out)
    }
}

/// ANSI X9.63, 5.6.3: the digests of secret, counter and shared information, one after the other.
fn x963(provider: &Provider, hash: Hash, secret: &Secret, shared: &[u8], len: usize) -> Result<Secret> {
    let mut out = Secret::default();
    for counter in 1..=u32::MAX {
        out.extend(&digest(provider, hash, &[secret, &counter.to_be_bytes(), shared])?);
        if out.len() >= len {
            break;
        }
    }
    Ok(out[..len].into())
}

/// RFC 5869, 2.3.
fn hkdf_expand(provider: &Provider, hash: Hash, key: &[u8], info: &[u8], len: usize) -> Result<Secret> {
    let mut out = Secret::default();
    let mut last = Secret::default();
    for counter in 1..=u8::MAX {
        last = hmac(provider, hash, key, &[&last, info, &[counter]])?;
        out.extend(&last);
        if out.len() >= len {
            return Ok(out[..len].into());
        }
    }
    Err(Error::KeySizeRange)
}

/// PKCS#11 3.2, "Extraction of one key from another key": bits from a place on, the first again after the last.
fn extract(value: &[u8], first: u64, wanted: Option<usize>) -> Result<Secret> {
    let bits = value.len() as u64 * 8;
    if first >= bits {
        return Err(Error::MechanismParamInvalid);
    }
    let mut out = Secret::zeroed(wanted.ok_or(Error::TemplateIncomplete)?);
    if out.len() > value.len() {
        return Err(Error::KeySizeRange);
    }
    for at in 0..out.len() as u64 * 8 {
        let from = (first + at) % bits;
        let bit = value[(from / 8) as usize] >> (7 - from % 8) & 1;
        out[(at / 8) as usize] |= bit << (7 - at % 8);
    }
    Ok(out)
}

fn digest(provider: &Provider, hash: Hash, parts: &[&[u8]]) -> Result<Secret> {
    let mut hasher = provider.digest.start(hash)?;
    parts.iter().try_for_each(|part| hasher.update(part))?;
    let mut out = Secret::zeroed(hash.len());
    hasher.finish(&mut out)?;
    Ok(out)
}

fn hmac(provider: &Provider, hash: Hash, key: &[u8], parts: &[&[u8]]) -> Result<Secret> {
    let mut mac = provider.macs.mac(&MacScheme::Hmac(hash), key)?;
    parts.iter().try_for_each(|part| mac.update(part))?;
    let mut out = Secret::zeroed(mac.mac_len());
    mac.finish(&mut out)?;
    Ok(out)
}

fn joined(parts: &[&[u8]]) -> Secret {
    let mut out = Secret::zeroed(parts.iter().map(|part| part.len()).sum());
    let mut at = 0;
    for part in parts {
        out[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    out
}
