//! Key derivation (PKCS#11 3.2, `C_DeriveKey`). This file has the common steps. Each family of
//! mechanisms has its own file.

use std::sync::Arc;

use jeton_secret::Secret;
use jeton_words::derive::{Additional, Derived};

use super::Module;
use super::audit::Call;
use super::cost::Cost;
use crate::backend::{Hash, MacScheme, Provider};
use crate::error::{Error, Result, require};
use crate::gate::Permit;
use crate::id::{AttributeType as A, KeyType, ObjectHandle, SessionHandle};
use crate::mechanism::{Action, Derivation, MacFunction, Mechanism, Params, row_of};
use crate::object::access::Rights;
use crate::object::attribute::ObjectTypes;
use crate::object::make::{Cut, Origin};
use crate::object::required::{SIZES, refused};
use crate::object::template::Template;
use crate::object::{Attributes, Object, fips, key, make};
use crate::session::{Usage, strong_enough, usable};
use crate::token::ClientToken;

mod dh;
mod ecdh;
mod guard;
mod hkdf;
mod ike;
mod simple;
mod sp800_108;
mod tls;

pub(super) use dh::agree_dh;
pub(super) use ecdh::{agree as agree_ecdh, stretch};
use guard::Guard;
pub(super) use guard::{check_form, check_received, digestible, mark_received, protects, state};

/// Maximum length of a derived key in bytes. HKDF outputs at most 255 digests (RFC 5869, 2.3).
pub(super) const MAX_DERIVED: usize = 255 * Hash::MAX_LEN;

impl Module {
    /// `C_DeriveKey` with a mechanism that derives a single key.
    pub fn derive_key(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        base: ObjectHandle,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        match self.derive(session, mechanism, base, template, &mut [])? {
            Derived::Key(key) | Derived::Master(key, _) => Ok(key),
            Derived::Connection(_) | Derived::Output(_) => Err(Error::MechanismInvalid),
        }
    }

    /// `C_DeriveKey`
    pub fn derive(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        base: ObjectHandle,
        template: &Template<'_>,
        more: &mut [Additional<'_>],
    ) -> Result<Derived> {
        let call = || Call::of("C_DeriveKey", Some(mechanism), std::slice::from_ref(&base));
        let work = |_, _| self.derive_all(session, mechanism, base, template, more);
        let derived = self.record_call(session, call(), work).and_then(|derived| {
            // Each further key of the call gets its own audit record.
            for key in more.iter().filter_map(|additional| additional.key) {
                self.record_call(session, call(), |_, _| Ok(key))?;
            }
            Ok(derived)
        });
        if derived.is_err() {
            // The session may have been closed after the keys were made.
            more.iter_mut().filter_map(|further| further.key.as_mut()).for_each(|key| *key = ObjectHandle(0));
        }
        derived
    }

    fn derive_all(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        base: ObjectHandle,
        template: &Template<'_>,
        more: &mut [Additional<'_>],
    ) -> Result<Derived> {
        let (token, rights) = self.access(session)?;
        token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
        // The result is public, whatever the private key is.
        if row_of(mechanism.info).action == Action::Derive(Derivation::PublicKey) {
            return self.derive_public(session, mechanism, base, template).map(Derived::Key);
        }
        let base = find_base(&token, rights, mechanism, base)?;
        let Action::Derive(derivation) = row_of(mechanism.info).action else {
            return Err(Error::MechanismInvalid);
        };
        check_form(&token, mechanism, &base, 0)?;
        let find = |handle| find_derivable(&token, rights, mechanism, handle);
        let named = mechanism.params.keys().into_iter().map(find).collect::<Result<Vec<_>>>()?;
        let mut work =
            Work { token: &token, session, rights, mechanism, base: &base, named: &named, wanted: None };
        match derivation {
            Derivation::HkdfData => return work.hkdf_data(template).map(Derived::Key),
            Derivation::Sp800_108(kdf) => return work.sp800_108(kdf, template, more),
            Derivation::TlsMaster(exchange) => return work.tls_master(exchange, template),
            Derivation::TlsKeys => return work.tls_keys(template),
            Derivation::TlsPrf => return work.tls_prf(),
            _ => {}
        }
        let guard = work.guard(template)?;
        let full = guard.add_flags(template, &guard.flags());
        let mut attributes = work.receive(&full, &guard, work.default_type(&full)?)?;
        guard.bind(&mut attributes)?;
        work.wanted = parse_len(attributes.number(A::VALUE_LEN))?;
        guard.check_len(work.wanted)?;
        // PKCS#11 3.2, "Hash-based Key Derivation" and the sections of the concatenations: without
        // a length "that key type must have a well-defined length".
        let key_type = attributes.number(A::KEY_TYPE).map(KeyType);
        if work.wanted.is_none() && derivation.needs_len() && key_type.is_some_and(key::has_lengths) {
            let clause = "the section of the mechanism: the key type has several lengths";
            return Err(refused(A::VALUE_LEN, None, clause, Error::TemplateIncomplete));
        }
        let (secret, cut) = {
            let _permit = work.admit(work.wanted.unwrap_or(0))?;
            work.secret(derivation)?
        };
        let len = work.wanted.unwrap_or(secret.len());
        // PKCS#11 3.2, "Key derivation by data encryption": the key is no longer than the data.
        let encrypts = matches!(derivation, Derivation::EncryptData(_));
        require(!encrypts || len <= secret.len(), Error::DataLenRange)?;
        guard.mark(&mut attributes, template, secret.len(), len)?;
        let attributes = make::put_secret(attributes, &secret, cut)?;
        check_received(&attributes)?;
        if token.settings.enforces_fips() {
            fips::permit(mechanism, &attributes)?;
        }
        token.insert(rights, session, attributes).map(Derived::Key)
    }
}

/// Checks the `CKA_VALUE_LEN` of a derivation. Fails with `KeySizeRange` if it is 0 or too large.
fn parse_len(len: Option<u64>) -> Result<Option<usize>> {
    let Some(len) = len else { return Ok(None) };
    let len = usize::try_from(len).ok().filter(|len| (1..=MAX_DERIVED).contains(len));
    let size = Some(size_of::<std::ffi::c_ulong>());
    len.map(Some).ok_or_else(|| refused(A::VALUE_LEN, size, SIZES, Error::KeySizeRange))
}

/// The inputs of a derivation.
struct Work<'a> {
    token: &'a ClientToken,
    session: SessionHandle,
    rights: Rights,
    mechanism: &'a Mechanism,
    base: &'a Object,
    /// The keys that the parameter names.
    named: &'a [Arc<Object>],
    /// The wanted length of the key (`CKA_VALUE_LEN`).
    wanted: Option<usize>,
}

impl<'a> Work<'a> {
    /// Returns the rules for the derived key. Fails if a key may not be used so.
    fn guard(&self, template: &Template<'_>) -> Result<Guard<'a>> {
        Guard::of(self.mechanism, self.base, self.named, template, self.token.rules())
    }

    /// Waits until a processor is free for a derivation with an output of this length, if it may
    /// take long.
    fn admit(&self, output: usize) -> Result<Option<Permit>> {
        let len = |key: &Object| key::secret(key.attributes()).map_or(0, <[u8]>::len);
        let named: usize = self.named.iter().map(|key| len(key)).sum();
        let input = len(self.base) + named + self.mechanism.params.input_len();
        Ok(Cost::of_derivation(input, output).admit(self.token)?.wait())
    }

    /// Computes the secret. Also returns at which end a secret that is too long is cut.
    fn secret(&self, derivation: Derivation) -> Result<(Secret, Cut)> {
        let secret = match (derivation, &self.mechanism.params) {
            (Derivation::Ecdh, Params::Ecdh { kdf, shared, peer }) => {
                let (provider, private) =
                    (self.token.provider(), self.base.private_key(self.token.provider())?);
                return ecdh::agree(provider, &*private, (*kdf, shared), peer, self.wanted);
            }
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

    /// Returns the attributes that the template gives the derived key. `guard` has the defaults of
    /// `CKA_SENSITIVE` and `CKA_EXTRACTABLE`.
    fn receive(&self, template: &Template<'_>, guard: &Guard<'_>, key_type: KeyType) -> Result<Attributes> {
        let origin = Origin {
            forced: guard.forced(),
            extractable: guard.extractable,
            sensitive: guard.sensitive,
            history: guard.history,
            key_type: Some(key_type),
        };
        let (templates, source) = guard.makers();
        self.token.receive(template, &origin, (&templates, source), self.rights)
    }

    /// Looks up a key that the parameter names. The rules of the base key apply to it. Otherwise
    /// `CKM_CONCATENATE_BASE_AND_KEY` would turn a key without `CKA_DERIVE` into a key that has it.
    fn find_derivable(&self, handle: ObjectHandle) -> Result<Arc<Object>> {
        find_derivable(self.token, self.rights, self.mechanism, handle)
    }

    fn provider(&self) -> &'static Provider {
        self.token.provider()
    }

    fn value(&self) -> Result<&[u8]> {
        key::secret(self.base.attributes())
    }

    fn value_len(&self) -> usize {
        self.value().map_or(0, <[u8]>::len)
    }

    /// Returns the value of another secret key that the parameter names.
    fn other(&self, handle: ObjectHandle) -> Result<Secret> {
        let object = self.find_derivable(handle)?;
        require(object.object_type().is_secret(), Error::KeyTypeInconsistent)?;
        key::secret(object.attributes()).map(Secret::from)
    }
}

/// Looks up the base of a derivation. PKCS#11 3.2, "HKDF derive": a data object "which has the same
/// size as the underlying hash function" can be extracted. It has no usage attribute.
fn find_base(
    token: &ClientToken,
    rights: Rights,
    mechanism: &Mechanism,
    handle: ObjectHandle,
) -> Result<Arc<Object>> {
    let Params::Hkdf { extract: true, hash, .. } = &mechanism.params else {
        return find_derivable(token, rights, mechanism, handle);
    };
    match token.key_object(rights, handle)? {
        data if data.object_type() == ObjectTypes::DATA => {
            token.settings.check_parameter(mechanism)?;
            let len = data.attributes().bytes(A::VALUE).map_or(0, <[u8]>::len);
            if len == hash.len() { Ok(data) } else { Err(Error::KeySizeRange) }
        }
        _ => find_derivable(token, rights, mechanism, handle),
    }
}

/// Looks up a key to derive from. Refuses a short sensitive key, because the derived key would
/// let a caller check guesses of it.
fn find_derivable(
    token: &ClientToken,
    rights: Rights,
    mechanism: &Mechanism,
    handle: ObjectHandle,
) -> Result<Arc<Object>> {
    let key = usable(token, rights, mechanism, handle, Usage::DERIVE)?;
    if key.object_type().is_secret() {
        strong_enough(&key)?;
    }
    Ok(key)
}

/// Returns the pseudo-random function (PRF) of the MAC mechanism that a parameter names.
fn prf_scheme(prf: MacFunction) -> Result<MacScheme> {
    match prf {
        MacFunction::Hmac(hash) => Ok(MacScheme::Hmac(hash)),
        MacFunction::AesCmac => Ok(MacScheme::AesCmac),
        MacFunction::AesXcbc(16) => Ok(MacScheme::AesXcbc),
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// Returns the output length of a PRF in bytes.
fn prf_len(scheme: &MacScheme) -> usize {
    match scheme {
        MacScheme::Hmac(hash) => hash.len(),
        _ => 16,
    }
}

/// Computes `len` bytes with a PRF whose input begins with its previous output (RFC 5869, 2.3, and
/// RFC 7296, 2.13).
fn feedback(prf: impl Fn(&[&[u8]]) -> Result<Secret>, info: &[u8], len: usize) -> Result<Secret> {
    let mut out = Secret::default();
    let mut last = Secret::default();
    for counter in 1..=u8::MAX {
        last = prf(&[&last, info, &[counter]])?;
        out.extend(&last)?;
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
    provider.mac(&MacScheme::Hmac(hash), key, parts)
}
