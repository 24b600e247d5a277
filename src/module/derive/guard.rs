//! The rules that a derived key inherits from its base keys: its protection, its usages and its
//! minimum length.

use std::sync::Arc;

use super::simple::is_concatenation;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectClass};
use crate::mechanism::Derivation;
use crate::object::attribute::{self, Default};
use crate::object::bits::Flag;
use crate::object::value::Value;
use crate::object::{Attributes, Object, key};

/// Minimum length in bytes of an unreadable key that is derived, encapsulated or decapsulated.
const SHORTEST: usize = 16;
/// The value of `CKA_JETON_COPIED` for the result of a concatenation, and for copies of that
/// result.
const JOINED: u64 = 1;
/// The value of `CKA_JETON_COPIED` for the result of another derivation that copies bytes of its
/// base keys.
const COPIED: u64 = 2;

/// The protection of the keys that a derivation uses.
pub(super) struct Guard {
    pub sensitive: bool,
    pub extractable: bool,
    pub always_sensitive: bool,
    pub never_extractable: bool,
}

impl Guard {
    pub(super) fn of(base: &Object, others: &[Arc<Object>]) -> Self {
        let all = |flag| base.flag(flag) && others.iter().all(|other| other.flag(flag));
        Self {
            sensitive: base.flag(Flag::SENSITIVE) || others.iter().any(|other| other.flag(Flag::SENSITIVE)),
            extractable: all(Flag::EXTRACTABLE),
            always_sensitive: all(Flag::ALWAYS_SENSITIVE),
            never_extractable: all(Flag::NEVER_EXTRACTABLE),
        }
    }

    /// Keeps `CKA_ALWAYS_SENSITIVE` and `CKA_NEVER_EXTRACTABLE` of the keys. Sets `CKA_SENSITIVE`
    /// to false and `CKA_EXTRACTABLE` to true, so that a derived key does not take them from its
    /// base keys.
    pub(super) fn without_inheritance(self) -> Self {
        Self { sensitive: false, extractable: true, ..self }
    }

    /// Fails with `TemplateInconsistent` if the derived key is protected less than its base keys.
    pub(super) fn check(&self, attributes: &Attributes) -> Result<()> {
        let shown = self.sensitive && attributes.flag(A::SENSITIVE) == Some(false);
        let leaves = !self.extractable && attributes.flag(A::EXTRACTABLE) == Some(true);
        if shown || leaves { Err(Error::TemplateInconsistent) } else { Ok(()) }
    }
}

/// The unreadable base keys of a derivation that copies bytes of them into the derived key.
/// `CKM_XOR_BASE_AND_DATA` with zeros gives the base key itself. So the derived key follows the
/// rules for copies, and it is never short enough to be guessed. Clulow, "On the Security of PKCS
/// #11" (2003), reads a key byte by byte with `CKM_EXTRACT_KEY_FROM_KEY` and
/// `CKM_XOR_BASE_AND_DATA`.
#[derive(Default)]
pub(super) struct Copied<'a>(Vec<&'a Object>);

impl<'a> Copied<'a> {
    pub(super) fn of(base: &'a Object, others: &'a [Arc<Object>]) -> Self {
        let others = others.iter().map(Arc::as_ref);
        Self([base].into_iter().chain(others).filter(|key| is_unreadable(key)).collect())
    }

    /// Returns the flags that the derived key must have, with their values. They are also its
    /// defaults.
    pub(super) fn flags(&self) -> Vec<(A, bool)> {
        let any = |is: &dyn Fn(&Object) -> bool| self.0.iter().any(|key| is(key));
        let usages = key::usages(ObjectClass::SECRET_KEY).iter().copied();
        let mut flags: Vec<_> = usages.filter(|id| any(&|key| refuses(key, *id))).collect();
        flags.extend([A::MODIFIABLE, A::COPYABLE].into_iter().filter(|id| any(&|key| lacks(key, *id))));
        let mut flags: Vec<_> = flags.into_iter().map(|id| (id, false)).collect();
        if any(&|key| key.flag(Flag::WRAP_WITH_TRUSTED)) {
            flags.push((A::WRAP_WITH_TRUSTED, true));
        }
        flags
    }

    /// Applies the rules to the derived key. Fails with `TemplateInconsistent` if its template
    /// contradicts them.
    pub(super) fn bind(&self, derivation: Derivation, attributes: &mut Attributes) -> Result<()> {
        let inconsistent = |is: bool| if is { Err(Error::TemplateInconsistent) } else { Ok(()) };
        for (id, value) in self.flags() {
            inconsistent(attributes.flag(id) != Some(value))?;
        }
        for key in &self.0 {
            // The same rule as for a copy: see CKA_PRIVATE in the attribute table.
            inconsistent(key.flag(Flag::PRIVATE) && attributes.flag(A::PRIVATE) == Some(false))?;
            bind_mechanisms(key, attributes)?;
            for id in [A::WRAP_TEMPLATE, A::UNWRAP_TEMPLATE, A::DERIVE_TEMPLATE] {
                let Some(own) = key.attributes().get(id).filter(|_| !gives(key, id)) else { continue };
                inconsistent(attributes.has(id) && !attributes.is(id, own))?;
                attributes.put(id, own.duplicate());
            }
        }
        if !self.0.is_empty() {
            let joined = is_concatenation(derivation) || self.is_joined();
            attributes.put(A::JETON_COPIED, Value::Number(if joined { JOINED } else { COPIED }));
        }
        Ok(())
    }

    /// Fails with `KeySizeRange` if `len` bytes out of `whole` are too few. A part of a key has at
    /// least 16 bytes and at least half of the key, so that an attacker cannot guess it. A
    /// concatenation is never cut: a caller who knows one of its base keys could keep a single
    /// unknown byte of the other. The rule about half of the key does not apply to IKEv1: RFC 2409,
    /// appendix B, takes a key for AES-128 from the 64 bytes of HMAC-SHA-512.
    pub(super) fn check_len(&self, derivation: Derivation, len: usize, whole: usize) -> Result<()> {
        let half = derivation == Derivation::Ike1Extended || len >= whole.div_ceil(2);
        let part = len >= SHORTEST && half && !is_concatenation(derivation) && !self.is_joined();
        if self.0.is_empty() || len >= whole || part { Ok(()) } else { Err(Error::KeySizeRange) }
    }

    fn is_joined(&self) -> bool {
        self.0.iter().any(|key| key.attributes().number(A::JETON_COPIED) == Some(JOINED))
    }
}

/// Fails with `KeySizeRange` if a derived, encapsulated or decapsulated key is unreadable and short
/// enough to be guessed. A derivation gives the same first bytes at every length. A caller could
/// guess them one by one, although they could never read the full key.
pub(in crate::module) fn check_received(attributes: &Attributes) -> Result<()> {
    let readable =
        attributes.flag(A::SENSITIVE) != Some(true) && attributes.flag(A::EXTRACTABLE) != Some(false);
    let len = attributes.bytes(A::VALUE).map_or(0, <[u8]>::len);
    if readable || len >= SHORTEST { Ok(()) } else { Err(Error::KeySizeRange) }
}

/// Returns whether a key is unreadable and has bytes of another unreadable key at a position that a
/// caller chose. A mechanism must not reveal a single byte of such a key. Otherwise a caller could
/// shift the bytes many times and read the full other key.
pub(super) fn is_copied(key: &Object) -> bool {
    is_unreadable(key) && key.attributes().has(A::JETON_COPIED)
}

/// Returns whether `C_GetAttributeValue` hides the value of a key.
pub(super) fn is_unreadable(key: &Object) -> bool {
    key.flag(Flag::SENSITIVE) || !key.flag(Flag::EXTRACTABLE)
}

fn lacks(key: &Object, id: A) -> bool {
    key.attributes().flag(id) != Some(true)
}

/// Returns whether a key derived from this one must not have the usage: this key lacks it, although
/// its type has it by default. A generic secret has `CKA_ENCRYPT` false only because no cipher
/// accepts it, so an AES key derived from it may encrypt. If this key has `CKA_MODIFIABLE` false,
/// its flags are final, and every usage that it lacks counts.
fn refuses(key: &Object, id: A) -> bool {
    let rule = attribute::rule(id, key.object_type());
    let usual = rule.is_some_and(
        |rule| matches!(rule.default, Default::TrueFor(object_types) if object_types.has(key.object_type())),
    );
    lacks(key, id) && (usual || !key.flag(Flag::MODIFIABLE))
}

/// Returns whether the `CKA_DERIVE_TEMPLATE` of a key sets that attribute.
fn gives(key: &Object, id: A) -> bool {
    match key.attributes().get(A::DERIVE_TEMPLATE) {
        Some(Value::Template(forced)) => forced.iter().any(|(known, _)| *known == id),
        _ => false,
    }
}

/// Limits `CKA_ALLOWED_MECHANISMS` of the derived key to the list of a base key. A key without a
/// list allows every mechanism.
fn bind_mechanisms(key: &Object, attributes: &mut Attributes) -> Result<()> {
    let Some(Value::Numbers(allowed)) = key.attributes().get(A::ALLOWED_MECHANISMS) else { return Ok(()) };
    if allowed.is_empty() {
        return Ok(());
    }
    let own = match attributes.get(A::ALLOWED_MECHANISMS) {
        Some(Value::Numbers(own)) if !own.is_empty() => own.clone(),
        _ => allowed.clone(),
    };
    let common: Vec<_> = own.into_iter().filter(|mechanism| allowed.contains(mechanism)).collect();
    if common.is_empty() {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(A::ALLOWED_MECHANISMS, Value::Numbers(common));
    Ok(())
}
