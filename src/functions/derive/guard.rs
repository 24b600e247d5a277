//! Applies the rules of [`crate::mechanism::rule`] to the keys of a derivation: their protection,
//! their usages, their templates, and what their bytes are.

use std::sync::Arc;

use tracing::warn;

use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, MechanismType, ObjectClass};
use crate::mechanism::flow::{Extent, Inputs, Integrity, KeyFlow, Protection, Sizes, Wrapping};
use crate::mechanism::rule::{
    self, Demand, Form, KeyState, Makeup, Policy, Refusal, SHORTEST, Source, UnwrapRefusal,
};
use crate::mechanism::{self, Action, Mechanism, MechanismRow, Params, row_of};
use crate::object::attribute::{self, Default, ObjectTypes};
use crate::object::flags::Flag;
use crate::object::required::{refused, refused_in};
use crate::object::template::Template;
use crate::object::value::Value;
use crate::object::{Attributes, Object, key, strict};
use crate::token::Token;

/// What the log names as the clause if a template contradicts the key that makes the new one.
const HIDDEN: &str = "CKA_DERIVE_TEMPLATE, and the rules of keys that cannot be read (docs/keys.md)";

/// The keys of a derivation with the rules for the derived key. The strictest key wins, whether it
/// is the base key or a key that the parameter names.
pub(super) struct Guard<'a> {
    id: MechanismType,
    inputs: Inputs,
    demand: Demand,
    keys: Vec<&'a Object>,
    forced: Option<Value>,
    /// The length for which the rules allow the derivation.
    wanted: Option<usize>,
    /// The default of `CKA_SENSITIVE`.
    pub sensitive: bool,
    /// The default of `CKA_EXTRACTABLE`.
    pub extractable: bool,
    /// Whether all keys have `CKA_ALWAYS_SENSITIVE`, and whether all have `CKA_NEVER_EXTRACTABLE`.
    pub history: (bool, bool),
}

impl<'a> Guard<'a> {
    /// Fails if an unreadable key may not be used so.
    pub(super) fn of(
        mechanism: &Mechanism,
        base: &'a Object,
        others: &'a [Arc<Object>],
        template: &Template<'_>,
        policy: Policy,
    ) -> Result<Self> {
        let keys: Vec<_> = [base].into_iter().chain(others.iter().map(Arc::as_ref)).collect();
        let forced = merge(&keys)?;
        let value_len = |key: &&Object| match key.object_type().is_secret() {
            true => key.attributes().bytes(A::VALUE).map_or(0, <[u8]>::len),
            false => 0,
        };
        let wanted = wanted(template, forced.as_ref());
        let sizes = Sizes {
            base: value_len(&base),
            total: keys.iter().map(value_len).sum::<usize>() + mechanism.params.data_len(),
            wanted,
        };
        let id = mechanism.info.id;
        let inputs =
            row_of(mechanism.info).inputs(&mechanism.params, sizes).ok_or(Error::MechanismInvalid)?;
        let states: Vec<_> = keys.iter().map(|key| state(key)).collect();
        let demand = rule::derive(&inputs, &states, policy).map_err(|refusal| refuse(id, refusal))?;
        let all = |flag| keys.iter().all(|key| key.flag(flag));
        let any = |flag| keys.iter().any(|key| key.flag(flag));
        let inherits = demand.sensitive || demand.unextractable || inputs.protection != Protection::Chosen;
        Ok(Self {
            id,
            inputs,
            demand,
            sensitive: inherits && any(Flag::SENSITIVE),
            extractable: !inherits || all(Flag::EXTRACTABLE),
            history: (all(Flag::ALWAYS_SENSITIVE), all(Flag::NEVER_EXTRACTABLE)),
            forced,
            wanted,
            keys,
        })
    }

    /// PKCS#11 3.2, SP 800-108, "Key Derivation Attribute Rules": `CKA_ALWAYS_SENSITIVE` and
    /// `CKA_NEVER_EXTRACTABLE` are true if they are true for "the base key or any of the additional
    /// input keys".
    pub(super) fn with_any_history(self) -> Self {
        let any = |flag| self.keys.iter().any(|key| key.flag(flag));
        Self { history: (any(Flag::ALWAYS_SENSITIVE), any(Flag::NEVER_EXTRACTABLE)), ..self }
    }

    /// Fails if the derived key has another length than the rules were asked for.
    pub(super) fn check_len(&self, wanted: Option<usize>) -> Result<()> {
        require(self.wanted == wanted, Error::GeneralError)
    }

    /// Returns the attributes that the `CKA_DERIVE_TEMPLATE` of the keys force upon the derived
    /// key.
    pub(super) fn forced(&self) -> Option<&Value> {
        self.forced.as_ref()
    }

    /// Returns the templates of the keys that cannot be read, and how they make the derived key.
    pub(super) fn makers(&self) -> (Vec<Option<&'a Value>>, Source) {
        let unreadable = self.keys.iter().filter(|key| is_unreadable(key));
        let templates = unreadable.map(|key| key.attributes().get(A::DERIVE_TEMPLATE)).collect();
        let is_secret = self.keys.iter().all(|key| key.object_type().is_secret());
        (templates, if is_secret { Source::Derived } else { Source::Agreed })
    }

    /// Returns the keys that cannot be read and of which the derived key contains bytes.
    fn copied(&self) -> impl Iterator<Item = &'a Object> {
        let flow = |at: usize| if at == 0 { self.inputs.base } else { self.inputs.named };
        let keys = self.keys.iter().enumerate().filter(move |(at, _)| flow(*at).copies());
        keys.map(|(_, key)| *key).filter(|key| is_unreadable(key))
    }

    /// Returns the flags that the derived key must have, with their values. They are also its
    /// defaults.
    pub(super) fn flags(&self) -> Vec<(A, bool)> {
        let any = |is: &dyn Fn(&Object) -> bool| self.copied().any(is);
        let usages = key::usages(ObjectClass::SECRET_KEY).iter().copied();
        let mut flags: Vec<_> = usages.filter(|id| any(&|key| refuses(key, *id))).collect();
        flags.extend([A::MODIFIABLE, A::COPYABLE].into_iter().filter(|id| any(&|key| lacks(key, *id))));
        let mut flags: Vec<_> = flags.into_iter().map(|id| (id, false)).collect();
        if self.demand.with_trusted {
            flags.push((A::WRAP_WITH_TRUSTED, true));
        }
        flags
    }

    /// Applies the rules to the derived key. Fails with `TemplateInconsistent` if its template
    /// contradicts them.
    pub(super) fn bind(&self, attributes: &mut Attributes) -> Result<()> {
        let inconsistent = |id, is: bool| match is {
            true => Err(refused(id, Some(1), HIDDEN, Error::TemplateInconsistent)),
            false => Ok(()),
        };
        inconsistent(A::SENSITIVE, self.demand.sensitive && attributes.flag(A::SENSITIVE) == Some(false))?;
        let extractable = attributes.flag(A::EXTRACTABLE) == Some(true);
        inconsistent(A::EXTRACTABLE, self.demand.unextractable && extractable)?;
        for (id, value) in self.flags() {
            inconsistent(id, attributes.flag(id) != Some(value))?;
        }
        for key in self.copied() {
            // The same rule as for a copy: see CKA_PRIVATE in the attribute table.
            let shown = attributes.flag(A::PRIVATE) == Some(false);
            inconsistent(A::PRIVATE, key.flag(Flag::PRIVATE) && shown)?;
            bind_mechanisms(key, attributes)?;
            for id in [A::WRAP_TEMPLATE, A::UNWRAP_TEMPLATE, A::DERIVE_TEMPLATE] {
                let Some(own) = key.attributes().get(id) else { continue };
                inconsistent(id, attributes.has(id) && !attributes.is(id, own))?;
                attributes.put(id, own.duplicate());
            }
        }
        keep_hidden(attributes, self.forced())
    }

    /// Marks a key of `len` bytes out of `natural` as what its bytes are, and takes the usages from
    /// it that such a key may not have. Fails with `TemplateInconsistent` if a template asks for
    /// one of them.
    pub(super) fn mark(
        &self,
        attributes: &mut Attributes,
        template: &Template<'_>,
        natural: usize,
        len: usize,
    ) -> Result<()> {
        if !self.keys.iter().any(|key| is_unreadable(key)) {
            return Ok(());
        }
        let makeup = match self.inputs.copies() {
            true => self.demand.makeup,
            false => rule::made(self.inputs.extent, natural, len),
        };
        mark(self.id, makeup, attributes, template, self.forced())
    }

    /// Returns the template with these flags added, except those that it or the
    /// `CKA_DERIVE_TEMPLATE` of a key already sets.
    pub(super) fn add_flags<'t>(&self, template: &Template<'t>, flags: &[(A, bool)]) -> Template<'t> {
        let missing = flags.iter().filter(|(id, _)| !names(self.forced(), *id));
        missing.fold(template.clone(), |all, (id, flag)| all.or(*id, if *flag { &[1] } else { &[0] }))
    }
}

/// Marks a key that is decapsulated or encapsulated with that key, out of a secret of `natural`
/// bytes. `extent` is that of a derivation of the same secret.
pub(in crate::functions) fn mark_received(
    mechanism: &Mechanism,
    attributes: &mut Attributes,
    template: &Template<'_>,
    forced: Option<&Value>,
    (extent, natural): (Extent, usize),
) -> Result<()> {
    let len = attributes.number(A::VALUE_LEN).and_then(|len| usize::try_from(len).ok());
    let makeup = rule::made(extent, natural, len.unwrap_or(natural));
    if let Action::Derive(_) = row_of(mechanism.info).action {
        keep_hidden(attributes, forced)?;
    }
    mark(mechanism.info.id, makeup, attributes, template, forced)
}

/// Gives a key the part of a template that hides keys, for what is derived from it. Otherwise two
/// derivations whose composition is a third one would show what the template hides: HKDF is an
/// extract step and an expand step. A template that has a `CKA_DERIVE_TEMPLATE` of its own decides
/// itself.
fn keep_hidden(attributes: &mut Attributes, forced: Option<&Value>) -> Result<()> {
    let Some(Value::Template(forced)) = forced.filter(|forced| !names(Some(forced), A::DERIVE_TEMPLATE))
    else {
        return Ok(());
    };
    let hiding: Vec<_> =
        forced.iter().filter(|entry| hides(entry)).map(|(id, value)| (*id, value.duplicate())).collect();
    match attributes.get(A::DERIVE_TEMPLATE) {
        _ if hiding.is_empty() => {}
        Some(Value::Template(own)) => {
            let has = |(id, value): &(A, Value)| own.iter().any(|own| own.0 == *id && own.1.equals(value));
            if !hiding.iter().all(has) {
                return Err(refused_in(attributes, A::DERIVE_TEMPLATE, HIDDEN, Error::TemplateInconsistent));
            }
        }
        _ => attributes.put(A::DERIVE_TEMPLATE, Value::Template(hiding)),
    }
    Ok(())
}

fn mark(
    id: MechanismType,
    makeup: Makeup,
    attributes: &mut Attributes,
    template: &Template<'_>,
    forced: Option<&Value>,
) -> Result<()> {
    if attributes.is_readable() {
        return Ok(());
    }
    let structure = attribute::structure(KeyType(attributes.number(A::KEY_TYPE).ok_or(Error::GeneralError)?));
    rule::becomes(makeup, structure).map_err(|refusal| refuse(id, refusal))?;
    if makeup == Makeup::Whole {
        return Ok(());
    }
    for usage in key::usages(ObjectClass::SECRET_KEY) {
        if makeup.permits(*usage) || attributes.flag(*usage) != Some(true) {
            continue;
        }
        if template.bytes(*usage).is_some() || names(forced, *usage) {
            warn!(mechanism = %id, ?makeup, %usage, "an unreadable key of this kind has no such usage");
            return Err(Error::TemplateInconsistent);
        }
        attributes.put(*usage, Value::Flag(false));
    }
    attributes.put(A::JETON_COPIED, Value::Number(makeup.number()));
    Ok(())
}

/// Returns what the rules know of a key.
pub(in crate::functions) fn state(key: &Object) -> KeyState {
    KeyState {
        sensitive: key.flag(Flag::SENSITIVE),
        extractable: key.flag(Flag::EXTRACTABLE),
        with_trusted: key.flag(Flag::WRAP_WITH_TRUSTED),
        makeup: key.attributes().makeup(),
        template: template_of(key, A::DERIVE_TEMPLATE),
        counts_steps: key.attributes().get(A::DERIVE_TEMPLATE).is_some_and(strict::counts_steps),
        counted: ObjectTypes::COUNTED.has(key.object_type()),
    }
}

/// Returns whether a template attribute of a key makes other keys unreadable.
pub(in crate::functions) fn template_of(key: &Object, id: A) -> rule::Template {
    match key.attributes().get(id) {
        Some(value) if protects(value) => rule::Template::Protects,
        _ => rule::Template::Open,
    }
}

/// Returns whether a template makes keys unreadable.
pub(in crate::functions) fn protects(template: &Value) -> bool {
    matches!(template, Value::Template(forced) if forced.iter().any(hides))
}

fn hides((id, value): &(A, Value)) -> bool {
    matches!((*id, value), (A::SENSITIVE, Value::Flag(true)) | (A::EXTRACTABLE, Value::Flag(false)))
}

/// Fails if a caller could read the key that this mechanism opens, although the
/// `CKA_UNWRAP_TEMPLATE` of the key that opens it makes it unreadable: by changing the wrapped key,
/// or because it is the head of a longer one. `CKA_ALLOWED_MECHANISMS` limits the forms that a key
/// opens.
pub(in crate::functions) fn check_form(
    token: &Token,
    mechanism: &Mechanism,
    opening: &Object,
    tag_len: usize,
) -> Result<()> {
    let template = template_of(opening, A::UNWRAP_TEMPLATE);
    let wrapping = row_of(mechanism.info).wrapping(&mechanism.params);
    let integrity = wrapping.map_or(Integrity::Whole, |wrapping| wrapping.integrity(tag_len));
    let opens_whole = |row: &MechanismRow| {
        row.wrapping(&Params::None) == Some(Wrapping::Hybrid)
            && row.accepts(opening.key_type(), false)
            && opening.allows(row.id)
    };
    let heads = template == rule::Template::Protects && row_of(mechanism.info).opens_heads();
    let form = if heads && mechanism::all().any(opens_whole) { Form::Head } else { Form::Alone };
    rule::unwrap(integrity, form, template, token.rules()).map_err(|refusal| {
        let reason = match refusal {
            UnwrapRefusal::Malleable => "the mechanism must authenticate a key that is unreadable",
            UnwrapRefusal::Head => {
                "the key opens a hybrid form too: limit it by CKA_ALLOWED_MECHANISMS to this one"
            }
        };
        warn!(mechanism = %mechanism.info.id, reason, "a key is not unwrapped");
        Error::KeyFunctionNotPermitted
    })
}

/// Checks that `C_DigestKey` may digest a key. Its result is a derived key that everyone reads.
pub(in crate::functions) fn digestible(mechanism: &Mechanism, key: &Object, policy: Policy) -> Result<()> {
    let KeyFlow::Digests(flow) = row_of(mechanism.info).flow else { return Err(Error::KeyIndigestible) };
    rule::digest(flow, &state(key), policy).map_err(|refusal| {
        refuse(mechanism.info.id, refusal);
        Error::KeyIndigestible
    })
}

/// Logs why a use of an unreadable key is refused, and returns the error.
fn refuse(id: MechanismType, refusal: Refusal) -> Error {
    let (reason, error) = match refusal {
        Refusal::Cut => ("an unreadable key is never cut", Error::KeySizeRange),
        Refusal::Rotated => ("an unreadable key is never rotated", Error::MechanismParamInvalid),
        Refusal::Invertible => {
            ("the caller could compute the unreadable key from the result", Error::KeyFunctionNotPermitted)
        }
        Refusal::Makeup => (
            "the unreadable key is a part or a concatenation, and the mechanism could show a part of it",
            Error::KeyFunctionNotPermitted,
        ),
        Refusal::Copied => (
            "the policy strict gives no other key the bytes of an unreadable key",
            Error::KeyFunctionNotPermitted,
        ),
        Refusal::Steps => (
            "the template of the key gives roles, and two calls could derive this value in another role",
            Error::KeyFunctionNotPermitted,
        ),
        Refusal::Counted => {
            ("the token counts what the key does, and would not count this", Error::KeyFunctionNotPermitted)
        }
        Refusal::Structure => (
            "an unreadable key with these bytes has no type that reads parts of them apart or changes them",
            Error::TemplateInconsistent,
        ),
        Refusal::Visible => ("the key hides what is derived from it", Error::TemplateInconsistent),
    };
    warn!(mechanism = %id, reason, "a use of a key is refused");
    error
}

/// Fails with `KeySizeRange` if a derived, encapsulated or decapsulated key is unreadable and short
/// enough to be guessed.
pub(in crate::functions) fn check_received(attributes: &Attributes) -> Result<()> {
    let len = attributes.bytes(A::VALUE).map_or(0, <[u8]>::len);
    if attributes.is_readable() || len >= SHORTEST { Ok(()) } else { Err(Error::KeySizeRange) }
}

/// Returns whether a mechanism must not reveal even a single byte of a key: an unreadable key with
/// bytes of another unreadable key. Otherwise a caller could change the bytes many times and read
/// the other key.
pub(super) fn is_copied(key: &Object) -> bool {
    is_unreadable(key) && key.attributes().makeup() != Makeup::Whole
}

/// Returns whether `C_GetAttributeValue` hides the value of a key.
pub(super) fn is_unreadable(key: &Object) -> bool {
    key.flag(Flag::SENSITIVE) || !key.flag(Flag::EXTRACTABLE)
}

/// Returns the `CKA_VALUE_LEN` that the derived key will have: that of the templates, or the
/// default of its type. Otherwise a key type of one length would cut a key that the rules take for
/// whole.
fn wanted(template: &Template<'_>, forced: Option<&Value>) -> Option<usize> {
    let asked = |id| {
        let given = template.bytes(id).and_then(|bytes| crate::object::value::number(bytes).ok());
        let forced = || match forced {
            Some(Value::Template(forced)) => forced.iter().find_map(|(known, value)| match value {
                Value::Number(number) if *known == id => Some(*number),
                _ => None,
            }),
            _ => None,
        };
        given.or_else(forced)
    };
    let default = || attribute::default_len(KeyType(asked(A::KEY_TYPE)?));
    asked(A::VALUE_LEN).or_else(default).and_then(|len| usize::try_from(len).ok())
}

/// Merges the `CKA_DERIVE_TEMPLATE` of all keys. Fails with `TemplateInconsistent` if two of them
/// contradict each other.
fn merge(keys: &[&Object]) -> Result<Option<Value>> {
    let mut merged: Option<Vec<(A, Value)>> = None;
    for key in keys {
        let Some(Value::Template(forced)) = key.attributes().get(A::DERIVE_TEMPLATE) else { continue };
        let merged = merged.get_or_insert_default();
        for (id, value) in forced.iter() {
            match merged.iter().find(|(known, _)| known == id) {
                Some((_, known)) if known.equals(value) => {}
                Some(_) => return Err(refused(*id, None, HIDDEN, Error::TemplateInconsistent)),
                None => merged.push((*id, value.duplicate())),
            }
        }
    }
    Ok(merged.map(Value::Template))
}

fn names(template: Option<&Value>, id: A) -> bool {
    matches!(template, Some(Value::Template(given)) if given.iter().any(|(known, _)| *known == id))
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
        return Err(refused_in(attributes, A::ALLOWED_MECHANISMS, HIDDEN, Error::TemplateInconsistent));
    }
    attributes.put(A::ALLOWED_MECHANISMS, Value::Numbers(common));
    Ok(())
}
