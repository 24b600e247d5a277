//! Key derivation (PKCS#11 3.2, `C_DeriveKey`). Here is the frame; the derivations stand in a file for each family.

use std::sync::Arc;

use super::Module;
use super::audit::Call;
use crate::backend::{Hash, MacScheme, Provider};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectHandle, SessionHandle};
use crate::mechanism::{Action, Code, Derivation, Invocation, Params};
use crate::object::bits::Flag;
use crate::object::make::{Cut, Origin};
use crate::object::policy::Rights;
use crate::object::template::Template;
use crate::object::value::Value;
use crate::object::{Attributes, Object, key, make};
use crate::secret::Secret;
use crate::session::{Usage, usable};
use crate::token::Token;

mod dh;
mod ecdh;
mod hkdf;
mod ike;
mod simple;
mod sp800_108;
mod tls;

pub use tls::Connection;

pub(super) use ecdh::x963;

/// Longest key that is derived, in bytes: RFC 5869 gives 255 digests at most.
const MAX_DERIVED: usize = 255 * Hash::MAX_LEN;

/// What a derivation gives.
pub enum Derived {
    /// A key.
    Key(ObjectHandle),
    /// A master secret of TLS, and the version that the pre-master secret begins with.
    Master(ObjectHandle, Option<[u8; 2]>),
    /// The keys of a TLS connection.
    Connection(Connection),
    /// Bytes.
    Output(Secret),
}

/// A key that is derived in the same call as another (`CK_DERIVED_KEY`).
pub struct Additional<'a> {
    /// What it shall be.
    pub template: Template<'a>,
    /// The key; handle 0 where the template was what the call failed for.
    pub key: Option<ObjectHandle>,
}

impl Module {
    /// `C_DeriveKey` with a mechanism that gives one key.
    pub fn derive_key(
        &self,
        session: SessionHandle,
        with: &Invocation,
        base: ObjectHandle,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        match self.derive(session, with, base, template, &mut [])? {
            Derived::Key(key) | Derived::Master(key, _) => Ok(key),
            Derived::Connection(_) | Derived::Output(_) => Err(Error::MechanismInvalid),
        }
    }

    /// `C_DeriveKey`
    pub fn derive(
        &self,
        session: SessionHandle,
        with: &Invocation,
        base: ObjectHandle,
        template: &Template<'_>,
        more: &mut [Additional<'_>],
    ) -> Result<Derived> {
        let call = || Call::of("C_DeriveKey", Some(with), std::slice::from_ref(&base));
        let derived =
            self.recorded(session, call(), || self.derive_all(session, with, base, template, more))?;
        // Each of the other keys of the call has a record of its own.
        for key in more.iter().filter_map(|additional| additional.key) {
            self.recorded(session, call(), || Ok(key))?;
        }
        Ok(derived)
    }

    fn derive_all(
        &self,
        session: SessionHandle,
        with: &Invocation,
        base: ObjectHandle,
        template: &Template<'_>,
        more: &mut [Additional<'_>],
    ) -> Result<Derived> {
        let (token, rights) = self.access(session)?;
        token.settings.mechanism(with.mechanism.id).ok_or(Error::MechanismInvalid)?;
        if with.mechanism.action == Action::Derive(Derivation::PublicKey) {
            return self.derive_public(session, with, base, template).map(Derived::Key);
        }
        let base = usable(&token, rights, with, base, Usage::DERIVE)?;
        let Action::Derive(derivation) = with.mechanism.action else { return Err(Error::MechanismInvalid) };
        let mut work = Work { token: &token, session, rights, with, base: &base, wanted: None };
        match derivation {
            Derivation::HkdfData => {
                return self.derive_data(session, with, &base, template).map(Derived::Key);
            }
            Derivation::Sp800_108(kdf) => return work.sp800_108(kdf, template, more),
            Derivation::TlsMaster { versioned } => return work.tls_master(versioned, template),
            Derivation::TlsKeys => return work.tls_keys(template),
            Derivation::TlsPrf => return work.tls_prf(),
            _ => {}
        }
        let mut others = work.ike_keys()?;
        others.extend(self.other_key(session, with)?);
        let guard = Guard::of(&base, &others);
        let attributes = work.received(template, &guard, work.default_type(template)?)?;
        if simple::inherits(derivation) {
            guard.check(&attributes)?;
        }
        work.wanted = wanted(attributes.number(A::VALUE_LEN))?;
        let (secret, cut) = work.secret(derivation)?;
        token.insert(rights, session, make::put_secret(attributes, &secret, cut)?).map(Derived::Key)
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
    fn of(base: &Object, others: &[Arc<Object>]) -> Self {
        let all = |flag| base.flag(flag) && others.iter().all(|other| other.flag(flag));
        Self {
            sensitive: base.flag(Flag::SENSITIVE) || others.iter().any(|other| other.flag(Flag::SENSITIVE)),
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
    session: SessionHandle,
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
            (Derivation::Dh, Params::Data(peer)) => {
                return Ok((dh::agree(self.token, self.base, peer)?, Cut::Leading));
            }
            (Derivation::Hkdf, params @ Params::Hkdf { .. }) => self.hkdf(params)?,
            (Derivation::TlsKdf, _) => self.tls_kdf()?,
            (Derivation::IkePrf, _) => return Ok((self.ike_prf()?, Cut::Not)),
            (Derivation::Ike1Prf, _) => self.ike1_prf()?,
            (Derivation::Ike1Extended, _) => self.ike1_extended()?,
            (Derivation::Ike2PrfPlus, _) => self.ike2_prf_plus()?,
            (derivation, _) => self.simple(derivation)?,
        };
        Ok((secret, Cut::Trailing))
    }

    /// What the template says of a key that comes out, protected like the keys that `guard` speaks of.
    fn received(&self, template: &Template<'_>, guard: &Guard, key_type: KeyType) -> Result<Attributes> {
        let origin = Origin {
            forced: self.forced(),
            extractable: guard.extractable,
            sensitive: guard.sensitive,
            history: (guard.always_sensitive, guard.never_extractable),
            key_type: Some(key_type),
        };
        let attributes = make::receive(template, &origin, self.rights.officer())?;
        self.rights.write(&attributes)?;
        Ok(attributes)
    }

    /// The base key's `CKA_DERIVE_TEMPLATE`.
    fn forced(&self) -> Option<&Value> {
        self.base.attributes().get(A::DERIVE_TEMPLATE)
    }

    /// A template with these flags where neither it nor the base key's template has them.
    fn with_flags<'t>(&self, template: &Template<'t>, flags: &[(A, bool)]) -> Template<'t> {
        let forced = |id| match self.forced() {
            Some(Value::Template(forced)) => forced.iter().any(|(known, _)| *known == id),
            _ => false,
        };
        let missing = flags.iter().filter(|(id, _)| !forced(*id));
        missing
            .fold(template.clone(), |template, (id, flag)| template.or(*id, if *flag { &[1] } else { &[0] }))
    }

    /// Another key that the parameter names, which must be one to derive from too.
    fn derivable(&self, handle: ObjectHandle) -> Result<Arc<Object>> {
        usable(self.token, self.rights, self.with, handle, Usage::DERIVE)
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

/// A pseudo-random function that parameters name by the mechanism of a code.
fn prf_scheme(code: Code) -> Result<MacScheme> {
    match code {
        Code::Hmac(hash) => Ok(MacScheme::Hmac(hash)),
        Code::AesCmac => Ok(MacScheme::AesCmac),
        Code::AesXcbc(16) => Ok(MacScheme::AesXcbc),
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// What such a function gives in bytes.
fn prf_len(scheme: &MacScheme) -> usize {
    match scheme {
        MacScheme::Hmac(hash) => hash.len(),
        _ => 16,
    }
}

/// What a pseudo-random function gives, fed with itself, one after the other: RFC 5869, 2.3, and RFC 7296, 2.13.
fn feedback(prf: impl Fn(&[&[u8]]) -> Result<Secret>, info: &[u8], len: usize) -> Result<Secret> {
    let mut out = Secret::default();
    let mut last = Secret::default();
    for counter in 1..=u8::MAX {
        last = prf(&[&last, info, &[counter]])?;
        out.extend(&last);
        if out.len() >= len {
            return Ok(out[..len].into());
        }
    }
    Err(Error::KeySizeRange)
}

fn digest(provider: &Provider, hash: Hash, parts: &[&[u8]]) -> Result<Secret> {
    let mut hasher = provider.digest.start(hash)?;
    parts.iter().try_for_each(|part| hasher.update(part))?;
    let mut out = Secret::zeroed(hash.len());
    hasher.finish(&mut out)?;
    Ok(out)
}

fn hmac(provider: &Provider, hash: Hash, key: &[u8], parts: &[&[u8]]) -> Result<Secret> {
    provider.code(&MacScheme::Hmac(hash), key, parts)
}
