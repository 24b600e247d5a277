//! Key derivation (PKCS#11 3.2, `C_DeriveKey`). Here is the frame; the derivations stand in a file for each family.

use std::sync::Arc;

use super::Module;
use super::wrap::DEFAULT_TYPE;
use crate::backend::{Hash, MacScheme, Provider};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle};
use crate::mechanism::{Action, Derivation, Invocation, Params};
use crate::object::bits::Flag;
use crate::object::make::{Cut, Origin};
use crate::object::policy::Rights;
use crate::object::template::Template;
use crate::object::{Attributes, Object, key, make};
use crate::secret::Secret;
use crate::session::{Usage, usable};
use crate::token::Token;

mod ecdh;
mod hkdf;
mod simple;

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
            history: (guard.always_sensitive, guard.never_extractable),
            key_type: DEFAULT_TYPE,
        };
        let attributes = make::receive(template, &origin, rights.officer())?;
        if simple::inherits(derivation) {
            guard.check(&attributes)?;
        }
        rights.write(&attributes)?;
        let wanted = wanted(attributes.number(A::VALUE_LEN))?;
        let work = Work { token: &token, rights, with, base: &base, wanted };
        let (secret, cut) = work.secret(derivation)?;
        token.insert(rights, session, make::put_secret(attributes, &secret, cut)?)
    }

    /// The second key of a concatenation.
    fn other_key(&self, session: SessionHandle, with: &Invocation) -> Result<Option<Arc<Object>>> {
        let (token, rights) = self.access(session)?;
        let Params::Key(handle) = with.params else { return Ok(None) };
        token.object(rights, handle).map(Some).map_err(|_| Error::KeyHandleInvalid)
    }
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
        let secret = match (derivation, &self.with.params) {
            (Derivation::Ecdh, Params::Ecdh { kdf, shared, peer }) => return self.ecdh(*kdf, shared, peer),
            (Derivation::Hkdf, params @ Params::Hkdf { .. }) => self.hkdf(params)?,
            (derivation, _) => self.simple(derivation)?,
        };
        Ok((secret, Cut::Trailing))
    }

    fn provider(&self) -> &'static Provider {
        self.token.provider()
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
