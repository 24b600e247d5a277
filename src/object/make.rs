//! Builds the attributes of objects that are created from a template, generated, derived,
//! unwrapped, copied or changed.
//!
//! It follows PKCS#11 3.2, "Creating objects", and the sections of the functions that create and
//! change objects. The table of [`attribute::Rule`] has the rules of each attribute.

use jeton_secret::Secret;

use super::access::{Login, Rights};
use super::attribute::{self, Change, Default, Need, ObjectRules, ObjectTypes, Rule};
use super::combinations::{coherent, whole};
use super::flags::{Bits, Flag};
use super::key_type::KeyTypeRow;
use super::required::{BY_SO, CONFLICT, CREATING, SIZES, refused, refused_given, refused_in};
use super::template::{Given, Raw, Template};
use super::value::{Kind, Value};
use super::{Attributes, Object, built_in, domain_parameters, key, kind_of};
use crate::backend::{PrivateParts, Provider, PublicParts};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, MechanismType, ObjectClass};

/// The clause about an attribute that the object cannot have.
const MISPLACED: &str = "Objects: the object has no such attribute";
/// The clause about the template that another key forces upon a new one.
const FORCED: &str = "CKA_UNWRAP_TEMPLATE, CKA_DERIVE_TEMPLATE: the other key forces another value";

/// The kind of function that uses a template.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Create,
    Generate,
    /// Unwrap, derive, encapsulate, decapsulate: the value of the key comes from a computation with
    /// another key.
    Receive,
}

/// The rules for a key that is unwrapped, derived, encapsulated or decapsulated with another key.
pub(crate) struct Origin<'a> {
    /// The attributes that the other key's `CKA_UNWRAP_TEMPLATE`, or a similar attribute, forces
    /// upon the new key.
    pub(crate) forced: Option<&'a Value>,
    /// The default of `CKA_EXTRACTABLE`. A derived key takes it from its base keys in the same
    /// cases as `sensitive`. Otherwise it is true (PKCS#11 3.2, C_UnwrapKey, C_EncapsulateKey).
    pub(crate) extractable: bool,
    /// The default of `CKA_SENSITIVE` for a secret key. A derived key takes it from its base keys
    /// if its mechanism inherits the flag, or under the policy *strict*. For other derived keys it
    /// is false. For an unwrapped, encapsulated or decapsulated key it is true only under *strict*.
    pub(crate) sensitive: bool,
    /// Whether all base keys have `CKA_ALWAYS_SENSITIVE`, and whether all have
    /// `CKA_NEVER_EXTRACTABLE`. Both are false for a key that is not derived, because its value was
    /// outside the token.
    pub(crate) history: (bool, bool),
    /// The key type if the template has none. `C_UnwrapKey` has no default: `None`.
    pub(crate) key_type: Option<KeyType>,
}

/// Returns the attributes of an object of `C_CreateObject`. The provider parses keys, so that an
/// invalid key is refused here and not at its first use.
pub(crate) fn create(template: &Template<'_>, rights: Rights, provider: &Provider) -> Result<Attributes> {
    let object_type = object_type(template)?;
    let mut attributes = read(&template.0, object_type, Use::Create, rights)?;
    // PKCS#11 3.2, "Secret key objects": the token chooses the default of CKA_EXTRACTABLE. It is
    // true here, because the caller of C_CreateObject knows the value.
    let is_secret_key = attributes.number(A::CLASS) == Some(ObjectClass::SECRET_KEY.0);
    if is_secret_key && attributes.bits.get(Flag::EXTRACTABLE).is_none() {
        attributes.bits.put(Flag::EXTRACTABLE, true);
    }
    complete(&mut attributes, object_type, Use::Create, rights)?;
    whole(&attributes, object_type)?;
    if object_type.is_key() {
        key::check(&mut attributes, object_type, provider)?;
        put_origin(&mut attributes, object_type, None);
    }
    if ObjectTypes::PARAMETERS.has(object_type) {
        domain_parameters::check(&mut attributes, provider)?;
    }
    Ok(attributes)
}

/// Returns the attributes of a secret key of `C_GenerateKey`. Calls `value` with the length of the
/// key to generate it.
pub(crate) fn generate_secret(
    template: &Template<'_>,
    key_type: KeyType,
    mechanism: MechanismType,
    rights: Rights,
    value: impl FnOnce(u64) -> Result<Secret>,
) -> Result<Attributes> {
    let mut attributes = generate(template, attribute::secret_class(key_type), key_type, rights)?;
    (KeyTypeRow::of(key_type).check_secret)(&mut attributes)?;
    let len = value_len(&attributes)?;
    attributes.put(A::VALUE, Value::Bytes(value(len)?));
    finish(attributes, mechanism)
}

/// Returns the length in bytes of a secret key that is generated with these attributes. Fails with
/// `TemplateIncomplete` if neither the key type nor `CKA_VALUE_LEN` determines it.
pub(crate) fn secret_len(attributes: &mut Attributes) -> Result<usize> {
    let row = KeyTypeRow::of_object(attributes)?;
    (row.check_secret)(attributes)?;
    let len = usize::try_from(value_len(attributes)?).ok().filter(|len| (row.len_fits)(*len));
    len.ok_or_else(|| refused_in(attributes, A::VALUE_LEN, SIZES, Error::KeySizeRange))
}

fn value_len(attributes: &Attributes) -> Result<u64> {
    let missing =
        || refused(A::VALUE_LEN, None, footnote(Use::Generate, Need::Must), Error::TemplateIncomplete);
    attributes.number(A::VALUE_LEN).ok_or_else(missing)
}

/// Returns the attributes of a key or of domain parameters before they are generated, without those
/// that the mechanism computes. They say what to generate.
pub(crate) fn generate(
    template: &Template<'_>,
    class: ObjectClass,
    key_type: KeyType,
    rights: Rights,
) -> Result<Attributes> {
    let object_type = ObjectTypes::of(class, Some(key_type.0)).ok_or(Error::MechanismInvalid)?;
    let mut attributes = read(&template.0, object_type, Use::Generate, rights)?;
    for (id, number) in [(A::CLASS, class.0), (A::KEY_TYPE, key_type.0)] {
        if attributes.number(id).is_some_and(|given| given != number) {
            let clause = "C_GenerateKey and C_GenerateKeyPair: the mechanism makes another object";
            return Err(refused_in(&attributes, id, clause, Error::TemplateInconsistent));
        }
        attributes.put(id, Value::Number(number));
    }
    complete(&mut attributes, object_type, Use::Generate, rights)?;
    Ok(attributes)
}

/// Sets the key attributes of a new pair in the attributes of its two objects.
pub(crate) fn put_pair(
    public: Attributes,
    private: Attributes,
    parts: (PublicParts, PrivateParts),
    mechanism: MechanismType,
) -> Result<(Attributes, Attributes)> {
    let (mut public, mut private) = (public, private);
    let row = KeyTypeRow::of_object(&public)?;
    (row.put_public)(&mut public, &parts.0)?;
    (row.put_private)(&mut private, &parts.0, parts.1)?;
    Ok((finish(public, mechanism)?, finish(private, mechanism)?))
}

/// Returns the attributes of a key that is unwrapped, derived, encapsulated or decapsulated with
/// another key, before its value is known. They follow from the template and the other key.
pub(crate) fn receive(template: &Template<'_>, origin: &Origin<'_>, rights: Rights) -> Result<Attributes> {
    let forced: &[(A, Value)] = match origin.forced {
        Some(Value::Template(forced)) => forced,
        _ => &[],
    };
    let number = |id, default| match (template.bytes(id), forced.iter().find(|(known, _)| *known == id)) {
        (Some(bytes), _) => {
            super::value::number(bytes).map_err(|error| refused(id, Some(bytes.len()), CREATING, error))
        }
        (None, Some((_, Value::Number(number)))) => Ok(*number),
        _ => default,
    };
    let class = number(A::CLASS, Ok(ObjectClass::SECRET_KEY.0))?;
    let default = origin.key_type.map(|key_type| key_type.0).ok_or(Error::TemplateIncomplete);
    let key_type = number(A::KEY_TYPE, default).map_err(|error| match error {
        Error::TemplateIncomplete => refused(A::KEY_TYPE, None, footnote(Use::Receive, Need::Must), error),
        error => error,
    })?;
    let identity = [(A::CLASS, class), (A::KEY_TYPE, key_type)];
    let of_template = |id| template.bytes(id).map(<[u8]>::len);
    let object_type = ObjectTypes::of(ObjectClass(class), Some(key_type)).ok_or_else(|| {
        refused(A::KEY_TYPE, of_template(A::KEY_TYPE), CREATING, Error::AttributeValueInvalid)
    })?;
    // Only C_UnwrapKey may make a private key, and only there the origin has no key type.
    let fits = if origin.key_type.is_some() { object_type.is_secret() } else { object_type.is_hidden() };
    if !fits {
        return Err(refused(A::CLASS, of_template(A::CLASS), CONFLICT, Error::TemplateInconsistent));
    }
    let mut attributes = read(&template.0, object_type, Use::Receive, rights)?;
    for (id, number) in identity {
        attributes.put(id, Value::Number(number));
    }
    // Another key's template may not set an attribute that only the token sets.
    let is_settable = |rule: &Rule| need(rule, Use::Receive) != Need::Never;
    if let Some((id, _)) =
        forced.iter().find(|(id, _)| !attribute::rule(*id, object_type).is_some_and(is_settable))
    {
        return Err(refused(*id, None, FORCED, Error::TemplateInconsistent));
    }
    // The user cannot set a template that gives trust. A token of an older version may have one.
    if let Some((id, _)) = forced.iter().find(|(id, value)| gives_trust(*id, value) && !rights.is_so()) {
        return Err(refused(*id, None, BY_SO, Error::AttributeReadOnly));
    }
    force(&mut attributes, forced)?;
    if !attributes.has(A::EXTRACTABLE) {
        attributes.put(A::EXTRACTABLE, Value::Flag(origin.extractable));
    }
    if !attributes.has(A::SENSITIVE) && object_type.is_secret() {
        attributes.put(A::SENSITIVE, Value::Flag(origin.sensitive));
    }
    complete(&mut attributes, object_type, Use::Receive, rights)?;
    put_origin(&mut attributes, object_type, None);
    let (sensitive, unextractable) = origin.history;
    let always = sensitive && attributes.flag(A::SENSITIVE) == Some(true);
    let never = unextractable && attributes.flag(A::EXTRACTABLE) == Some(false);
    attributes.put(A::ALWAYS_SENSITIVE, Value::Flag(always));
    attributes.put(A::NEVER_EXTRACTABLE, Value::Flag(never));
    Ok(attributes)
}

/// Returns whether a template contradicts the attributes that another key forces upon the new key.
pub(crate) fn conflicts(template: &Template<'_>, forced: Option<&Value>) -> bool {
    let Some(Value::Template(forced)) = forced else { return false };
    let differs = |given: &Given<'_>, (id, value): &(A, Value)| {
        let own = kind_of(given.id).map(|kind| Value::read(kind, &given.value, &kind_of));
        given.id == *id && !matches!(own, Some(Ok(own)) if own.equals(value))
    };
    template.0.iter().any(|given| forced.iter().any(|wanted| differs(given, wanted)))
}

/// Returns the attributes of a data object that is derived from a key, before its value is known.
/// Also returns the length that the template asks for: data objects have no `CKA_VALUE_LEN`.
pub(crate) fn derived_data(
    template: &Template<'_>,
    forced: Option<&Value>,
    rights: Rights,
) -> Result<(Attributes, Option<u64>)> {
    let len = template.bytes(A::VALUE_LEN).map(super::value::number).transpose()?;
    if let Some(value) = template.bytes(A::VALUE) {
        return Err(refused(A::VALUE, Some(value.len()), "C_DeriveKey", Error::AttributeReadOnly));
    }
    let given = template.0.iter().filter(|given| given.id != A::VALUE_LEN);
    let mut attributes = read(given, ObjectTypes::DATA, Use::Receive, rights)?;
    let class = Value::Number(ObjectClass::DATA.0);
    if attributes.has(A::CLASS) && !attributes.is(A::CLASS, &class) {
        return Err(refused_in(&attributes, A::CLASS, CONFLICT, Error::TemplateInconsistent));
    }
    attributes.put(A::CLASS, class);
    if let Some(Value::Template(forced)) = forced {
        // The base key demands an attribute that only keys have. A data object would escape that
        // demand.
        if let Some((id, _)) = forced.iter().find(|(id, _)| attribute::rule(*id, ObjectTypes::DATA).is_none())
        {
            return Err(refused(*id, None, FORCED, Error::TemplateInconsistent));
        }
        force(&mut attributes, forced)?;
    }
    complete(&mut attributes, ObjectTypes::DATA, Use::Receive, rights)?;
    Ok((attributes, len))
}

/// Sets the value of a derived data object: the first `len` bytes, or all of them.
pub(crate) fn put_data(mut attributes: Attributes, value: &Secret, len: Option<usize>) -> Result<Attributes> {
    let value = value.get(..len.unwrap_or(value.len())).ok_or(Error::TemplateInconsistent)?;
    attributes.put(A::VALUE, Value::Bytes(value.into()));
    Ok(attributes)
}

/// Sets the attributes that another key forces upon the new key. PKCS#11 3.2,
/// `CKA_UNWRAP_TEMPLATE`: a template with other values is inconsistent.
fn force(attributes: &mut Attributes, forced: &[(A, Value)]) -> Result<()> {
    for (id, value) in forced {
        if attributes.has(*id) && !attributes.is(*id, value) {
            return Err(refused_in(attributes, *id, FORCED, Error::TemplateInconsistent));
        }
        attributes.put(*id, value.duplicate());
    }
    Ok(())
}

/// Returns whether the value of an unwrapped or derived secret key may have this number of bytes,
/// by its type and its template.
pub(crate) fn fits(attributes: &Attributes, len: usize) -> bool {
    attributes.number(A::VALUE_LEN).is_none_or(|wanted| wanted == len as u64)
        && KeyTypeRow::of_object(attributes).is_ok_and(|row| (row.len_fits)(len))
}

/// Sets the key attributes of a generated public key whose private key is no object.
pub(crate) fn put_public_half(
    mut public: Attributes,
    parts: &PublicParts,
    mechanism: MechanismType,
) -> Result<Attributes> {
    key::put_public(&mut public, parts)?;
    finish(public, mechanism)
}

/// Sets the key attributes of a share: see `key_type/share.rs`. Nothing shows or copies the value.
/// Fails with `TemplateInconsistent` if the template says that something may.
pub(crate) fn put_share(
    mut share: Attributes,
    public: &Attributes,
    (info, value): (Vec<u8>, Secret),
    mechanism: MechanismType,
) -> Result<Attributes> {
    for (id, is) in [(A::SENSITIVE, true), (A::EXTRACTABLE, false), (A::TOKEN, true)] {
        if share.flag(id) != Some(is) {
            return Err(refused_in(&share, id, "a share stays in its token", Error::TemplateInconsistent));
        }
    }
    share.bits.put(Flag::COPYABLE, false);
    let curve = public.bytes(A::EC_PARAMS).ok_or(Error::TemplateIncomplete)?;
    share.put(A::EC_PARAMS, Value::Bytes(curve.into()));
    share.put(A::PUBLIC_KEY_INFO, Value::Bytes(Secret::new(info)));
    share.put(A::VALUE, Value::Bytes(value));
    finish(share, mechanism)
}

/// Sets the value of a secret key that is derived, encapsulated or decapsulated. If the template
/// has `CKA_VALUE_LEN`, the value has this length, and `cut` selects the removed end of the secret.
/// Fails with `TemplateInconsistent` if the secret is too short or must not be cut.
/// Fails with `KeySizeRange` if the key type does not permit this length.
pub(crate) fn put_secret(attributes: Attributes, secret: &Secret, cut: Cut) -> Result<Attributes> {
    let form = KeyTypeRow::of_object(&attributes).map_err(|_| Error::GeneralError)?.form;
    put_formed(attributes, secret, cut, form)
}

/// Sets the value of an unwrapped secret key, like [`put_secret`]. An unreadable key keeps its
/// bytes: a change would show if they are also unwrapped as a key of another type. Fails with
/// `WrappedKeyInvalid` if its parity is wrong. PKCS#11 3.2, C_UnwrapKey: fails with
/// `WrappedKeyLenRange` if the template or the key type needs another length.
pub(crate) fn put_unwrapped(attributes: Attributes, secret: &Secret, cut: Cut) -> Result<Attributes> {
    let is_readable = attributes.is_readable();
    let filled = match is_readable {
        true => put_secret(attributes, secret, cut),
        false => put_formed(attributes, secret, cut, |_| {}),
    };
    filled.map_err(|error| match error {
        Error::TemplateInconsistent | Error::KeySizeRange => Error::WrappedKeyLenRange,
        Error::AttributeValueInvalid if !is_readable => Error::WrappedKeyInvalid,
        other => other,
    })
}

fn put_formed(
    mut attributes: Attributes,
    secret: &Secret,
    cut: Cut,
    form: fn(&mut [u8]),
) -> Result<Attributes> {
    let row = KeyTypeRow::of_object(&attributes).map_err(|_| Error::GeneralError)?;
    let len = attributes.number(A::VALUE_LEN).map_or(Some(secret.len()), |len| usize::try_from(len).ok());
    let wrong_len = |error| refused_in(&attributes, A::VALUE_LEN, SIZES, error);
    let spare = len.and_then(|len| secret.len().checked_sub(len));
    let spare = spare.ok_or_else(|| wrong_len(Error::TemplateInconsistent))?;
    let (value, rest) = match cut {
        Cut::Leading | Cut::LeadingZeros => (&secret[spare..], &secret[..spare]),
        Cut::Trailing | Cut::TrailingZeros { .. } | Cut::Not => secret.split_at(secret.len() - spare),
    };
    let padding = match cut {
        Cut::Leading | Cut::Trailing => true,
        Cut::TrailingZeros { block } => rest.len() < block && are_zeros(rest),
        Cut::LeadingZeros => are_zeros(rest),
        Cut::Not => rest.is_empty(),
    };
    if !padding {
        return Err(wrong_len(Error::TemplateInconsistent));
    }
    if !(row.len_fits)(value.len()) {
        return Err(wrong_len(Error::KeySizeRange));
    }
    attributes.put(A::VALUE_LEN, Value::Number(value.len() as u64));
    let mut value = Secret::from(value);
    form(&mut value);
    attributes.put(A::VALUE, Value::Bytes(value));
    (row.check_secret)(&mut attributes)?;
    Ok(attributes)
}

/// Which end of a secret is cut off if the key is shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are clear")]
pub(crate) enum Cut {
    Leading,
    Trailing,
    /// The zeros before a key that `CKM_RSA_X_509` wrapped. Any other byte belongs to the key.
    LeadingZeros,
    /// The zeros that wrapping added after a key, fewer than `block` bytes. Any other byte belongs
    /// to the key.
    TrailingZeros {
        block: usize,
    },
    Not,
}

/// Returns whether all bytes are zero, in a time that does not depend on the bytes.
fn are_zeros(bytes: &[u8]) -> bool {
    std::hint::black_box(bytes.iter().fold(0, |all, byte| all | byte)) == 0
}

/// Sets the parts of an unwrapped private key. Fails with `TemplateInconsistent` if the template
/// has other values for them. Fails with `WrappedKeyInvalid` if the key is invalid.
pub(crate) fn put_private_key(
    mut attributes: Attributes,
    parts: Vec<(A, Value)>,
    provider: &Provider,
) -> Result<Attributes> {
    force(&mut attributes, &parts)?;
    let object_type = attributes.object_type().ok_or(Error::GeneralError)?;
    key::check(&mut attributes, object_type, provider).map_err(|error| match error {
        Error::AttributeValueInvalid | Error::TemplateIncomplete | Error::DomainParamsInvalid => {
            Error::WrappedKeyInvalid
        }
        other => other,
    })?;
    Ok(attributes)
}

pub(crate) fn copy(object: &Object, template: &Template<'_>, rights: Rights) -> Result<Attributes> {
    apply(object, template, rights, Cause::Copy)
}

/// Returns the attributes of the object after `C_SetAttributeValue`.
pub(crate) fn change(object: &Object, template: &Template<'_>, rights: Rights) -> Result<Attributes> {
    apply(object, template, rights, Cause::Change)
}

/// Reads a search template. Returns `None` if it has an unknown attribute: no object has that
/// attribute, so the search finds nothing.
pub(crate) fn search(template: &Template<'_>) -> Result<Option<Vec<(A, Value)>>> {
    let mut wanted = Vec::with_capacity(template.0.len());
    for given in &template.0 {
        let Some(kind) = kind_of(given.id) else { return Ok(None) };
        let value = Value::read(kind, &given.value, &kind_of);
        wanted.push((given.id, value.map_err(|error| refused_given(given, "C_FindObjectsInit", error))?));
    }
    Ok(Some(wanted))
}

/// Returns the class and type of the object that a `C_CreateObject` template names.
fn object_type(template: &Template<'_>) -> Result<ObjectTypes> {
    let wrong = |id, error| refused(id, template.bytes(id).map(<[u8]>::len), CREATING, error);
    let number = |id| match template.bytes(id) {
        Some(bytes) => super::value::number(bytes).map_err(|error| wrong(id, error)),
        None => Err(wrong(id, Error::TemplateIncomplete)),
    };
    let class = number(A::CLASS).map(ObjectClass)?;
    // PKCS#11 3.2, "Creating objects": applications cannot create objects of these classes.
    if built_in::CLASSES.contains(&class) {
        return Err(wrong(A::CLASS, Error::TemplateInconsistent));
    }
    let kind = attribute::type_of(class);
    let number = kind.map(number).transpose()?;
    let unknown = || wrong(kind.unwrap_or(A::CLASS), Error::AttributeValueInvalid);
    ObjectTypes::of(class, number).ok_or_else(unknown)
}

/// Sets the attributes that record the origin of a key which the token generated.
fn finish(mut attributes: Attributes, mechanism: MechanismType) -> Result<Attributes> {
    let object_type = attributes.object_type().ok_or(Error::GeneralError)?;
    put_origin(&mut attributes, object_type, Some(mechanism));
    Ok(attributes)
}

/// Sets `CKA_LOCAL`, `CKA_KEY_GEN_MECHANISM`, `CKA_ALWAYS_SENSITIVE` and `CKA_NEVER_EXTRACTABLE`.
/// Only the token sets them; a template cannot.
pub(super) fn put_origin(
    attributes: &mut Attributes,
    object_type: ObjectTypes,
    made_by: Option<MechanismType>,
) {
    attributes.bits.put(Flag::LOCAL, made_by.is_some());
    let mechanism = made_by.unwrap_or(MechanismType::UNAVAILABLE);
    attributes.put(A::KEY_GEN_MECHANISM, Value::Number(mechanism.0));
    if object_type.is_hidden() {
        let always = made_by.is_some() && attributes.bits.get(Flag::SENSITIVE) == Some(true);
        let never = made_by.is_some() && attributes.bits.get(Flag::EXTRACTABLE) == Some(false);
        attributes.bits.put(Flag::ALWAYS_SENSITIVE, always);
        attributes.bits.put(Flag::NEVER_EXTRACTABLE, never);
    }
}

pub(super) fn read<'a>(
    template: impl IntoIterator<Item = &'a Given<'a>>,
    object_type: ObjectTypes,
    usage: Use,
    rights: Rights,
) -> Result<Attributes> {
    let rules = ObjectRules::of(object_type);
    // Most objects have only these and CKA_KEY_GEN_MECHANISM.
    let mut attributes = Attributes::with_room(rules.filled.len() + 1);
    for given in template {
        let rule = rules.get(given.id);
        let rule = rule.ok_or_else(|| refused_given(given, MISPLACED, attribute::misplaced(given.id)))?;
        let put = match (need(rule, usage), Flag::of(rule.id)) {
            (Need::Never, _) => Err(Error::AttributeReadOnly),
            (_, Some(flag)) => put_flag(&mut attributes.bits, flag, rule, given, rights),
            (_, None) => put(&mut attributes, rule, given, rights),
        };
        put.map_err(|error| {
            let clause = match (need(rule, usage), error) {
                (Need::Never, _) => footnote(usage, Need::Never),
                (_, Error::AttributeReadOnly) => BY_SO,
                (_, Error::TemplateInconsistent) => CONFLICT,
                _ => CREATING,
            };
            refused_given(given, clause, error)
        })?;
    }
    Ok(attributes)
}

/// Reads one flag, by the same rules as [`put`].
fn put_flag(bits: &mut Bits, flag: Flag, rule: &Rule, given: &Given<'_>, rights: Rights) -> Result<()> {
    let Raw::Bytes(bytes) = given.value else { return Err(Error::AttributeValueInvalid) };
    let value = super::value::flag(bytes)?;
    require(!value || rule.change != Change::SecurityOfficer || rights.is_so(), Error::AttributeReadOnly)?;
    require(bits.get(flag).is_none_or(|known| known == value), Error::TemplateInconsistent)?;
    bits.put(flag, value);
    Ok(())
}

/// Reads one attribute that is not a flag. A repeated attribute is accepted with the same value;
/// another value is `TemplateInconsistent`.
fn put(attributes: &mut Attributes, rule: &Rule, given: &Given<'_>, rights: Rights) -> Result<()> {
    let value = given_value(rule, given)?;
    require(!gives_trust(rule.id, &value) || rights.is_so(), Error::AttributeReadOnly)?;
    match attributes.place(0, rule.id) {
        Ok(at) => require(attributes.values[at].1.equals(&value), Error::TemplateInconsistent)?,
        Err(at) => attributes.values.insert(at, (rule.id, value)),
    }
    Ok(())
}

/// Returns whether an attribute gives trust: `CKA_TRUSTED`, or a template that puts it on other
/// keys. PKCS#11 3.2, "Common attributes", footnote 10: "Can only be set to CK_TRUE by the SO
/// user."
fn gives_trust(id: A, value: &Value) -> bool {
    match value {
        Value::Flag(true) => attribute::is_set_by_so(id),
        Value::Template(within) => within.iter().any(|(id, value)| gives_trust(*id, value)),
        _ => false,
    }
}

/// Reads the value of an attribute. Fails with `AttributeValueInvalid` if it breaks the attribute's
/// rule.
fn given_value(rule: &Rule, given: &Given<'_>) -> Result<Value> {
    match Value::read(rule.kind, &given.value, &kind_of)? {
        Value::Number(number) if number > rule.most => Err(Error::AttributeValueInvalid),
        value => Ok(value),
    }
}

/// Sets the defaults. Fails if a required attribute is missing or attributes contradict each other.
pub(super) fn complete(
    attributes: &mut Attributes,
    object_type: ObjectTypes,
    usage: Use,
    rights: Rights,
) -> Result<()> {
    let rules = ObjectRules::of(object_type);
    // PKCS#11 3.2, "Storage objects": the token chooses the default of CKA_PRIVATE, which "may
    // depend on the values of other attributes". It is false for a session object without a login,
    // because such a session cannot make private objects. OpenSSL's provider needs this when it
    // imports keys from files.
    if rights.login == Login::Public
        && attributes.bits.get(Flag::TOKEN) != Some(true)
        && attributes.bits.get(Flag::ALWAYS_AUTHENTICATE) != Some(true)
        && attributes.bits.get(Flag::PRIVATE).is_none()
        && rules.flags.get(Flag::PRIVATE) == Some(true)
    {
        attributes.bits.put(Flag::PRIVATE, false);
    }
    if attributes.counts() {
        if attributes.bits.get(Flag::COPYABLE) == Some(true) {
            let clause = "HSS private key objects: a key whose uses are counted has no copy";
            return Err(refused_in(attributes, A::COPYABLE, clause, Error::TemplateInconsistent));
        }
        attributes.bits.put(Flag::COPYABLE, false);
    }
    refuse_what_follows(attributes, rules.flags);
    attributes.bits.complete(rules.flags);
    let mut at = 0;
    for rule in rules.filled.iter().filter(|rule| !rule.secret || usage == Use::Create) {
        // The rules are in the order of the attributes, so each search begins where the last ended.
        let place = attributes.place(at, rule.id);
        at = place.unwrap_or_else(|at| at);
        let default = match (place, need(rule, usage), rule.default) {
            (Ok(_), ..) => continue,
            (_, Need::Must, _) => {
                let clause = footnote(usage, Need::Must);
                return Err(refused(rule.id, None, clause, Error::TemplateIncomplete));
            }
            (.., Default::Absent | Default::Computed | Default::TrueFor(_)) => continue,
            (.., Default::Empty) => Value::Bytes(Secret::default()),
            (.., Default::Number(number)) => Value::Number(number),
        };
        attributes.values.insert(at, (rule.id, default));
    }
    coherent(attributes)
}

/// If the template sets `CKA_DECRYPT` or `CKA_SIGN` to false and omits a usage that can do the
/// same, sets that usage to false too. Otherwise a key could decrypt although its template has
/// `CKA_DECRYPT` false. Unwrapping and decapsulating decrypt, and `CKM_RSA_X_509` computes a
/// signature with recovery as it computes a decryption.
fn refuse_what_follows(attributes: &mut Attributes, defaults: Bits) {
    const FOLLOWS: [(Flag, &[Flag]); 2] = [
        (Flag::DECRYPT, &[Flag::UNWRAP, Flag::DECAPSULATE, Flag::SIGN_RECOVER]),
        (Flag::SIGN, &[Flag::SIGN_RECOVER]),
    ];
    for (refused, following) in FOLLOWS {
        if attributes.bits.get(refused) != Some(false) {
            continue;
        }
        for flag in following {
            if defaults.get(*flag).is_some() && attributes.bits.get(*flag).is_none() {
                attributes.bits.put(*flag, false);
            }
        }
    }
}

/// Returns the footnote of the attribute tables about an attribute that a template must have, or
/// must not have.
fn footnote(usage: Use, need: Need) -> &'static str {
    match (usage, need) {
        (Use::Create, Need::Must) => "Common footnotes, 1: C_CreateObject needs it",
        (Use::Create, _) => "Common footnotes, 2: not with C_CreateObject",
        (Use::Generate, Need::Must) => "Common footnotes, 3: generating a key needs it",
        (Use::Generate, _) => "Common footnotes, 4: not when a key is generated",
        (Use::Receive, Need::Must) => "Common footnotes, 5: C_UnwrapKey needs it",
        (Use::Receive, _) => "Common footnotes, 6: not with C_UnwrapKey",
    }
}

/// Returns the clause about the change of an attribute.
fn change_clause(change: Change) -> &'static str {
    match change {
        Change::SecurityOfficer => BY_SO,
        Change::Raise | Change::CopyRaise => "Common footnotes, 11 and 12: it changes in one direction only",
        Change::Lower | Change::CopyLower => "Common footnotes, 11 and 12: it changes in one direction only",
        Change::Clear => "Key objects, CKA_CHECK_VALUE: only an empty value",
        Change::Copy => "Copying objects: it changes with a copy only",
        Change::Less => "the number only falls",
        Change::Free | Change::Usage | Change::Fixed => "Common footnotes, 8: it does not change later",
    }
}

fn need(rule: &Rule, usage: Use) -> Need {
    match usage {
        Use::Create => rule.create,
        Use::Generate => rule.generate,
        Use::Receive => rule.receive(),
    }
}

/// The function that changes attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Copy,
    /// `C_SetAttributeValue`
    Change,
}

fn apply(object: &Object, template: &Template<'_>, rights: Rights, cause: Cause) -> Result<Attributes> {
    let mut attributes = object.attributes().duplicate();
    // The SO has not trusted the copy. It has the value of the trusted key, so the user must not
    // give it another usage: `CKA_DECRYPT` would open what the trusted key wraps.
    if cause == Cause::Copy && attributes.flag(A::TRUSTED) == Some(true) {
        attributes.put(A::TRUSTED, Value::Flag(false));
        if object.object_type().is_key() {
            attributes.put(A::MODIFIABLE, Value::Flag(false));
        }
    }
    for given in &template.0 {
        let rule = attribute::rule(given.id, object.object_type());
        let rule = rule.ok_or_else(|| refused_given(given, MISPLACED, attribute::misplaced(given.id)))?;
        let value = given_value(rule, given).map_err(|error| refused_given(given, CREATING, error))?;
        // PKCS#11 3.2, "The CKA_UNIQUE_ID attribute": no caller may set it, not even to the value
        // that it already has.
        let same = attributes.is(rule.id, &value) && rule.kind != Kind::Template && rule.id != A::UNIQUE_ID;
        if same && !rule.secret || rule.default == Default::Computed && object.shows(rule.id, &value) {
            continue;
        }
        let less =
            matches!((&value, attributes.number(rule.id)), (Value::Number(new), Some(old)) if *new < old);
        if rule.change != Change::Less || !less {
            allowed(rule.change, &value, rights, cause)
                .map_err(|error| refused_given(given, change_clause(rule.change), error))?;
        }
        attributes.put(rule.id, value);
    }
    coherent(&attributes)?;
    // `whole` also checks attributes of certificates, but those never change.
    if object.object_type() == ObjectTypes::TRUST {
        whole(&attributes, ObjectTypes::TRUST).map_err(|_| Error::TemplateInconsistent)?;
    }
    Ok(attributes)
}

/// Checks that an attribute may change to this value.
fn allowed(change: Change, value: &Value, rights: Rights, cause: Cause) -> Result<()> {
    let raised = matches!(value, Value::Flag(true));
    let may = match change {
        Change::Free => true,
        Change::Copy => cause == Cause::Copy,
        Change::Raise => raised,
        Change::Lower => !raised,
        Change::CopyRaise | Change::CopyLower | Change::Usage if cause == Cause::Copy => {
            // PKCS#11 3.2, "Copying objects": a token need not support each of these changes. By
            // "Creating objects", a template is inconsistent if it "violates some token specific
            // requirement".
            return match raised == (change == Change::CopyRaise) {
                true => Ok(()),
                false => Err(Error::TemplateInconsistent),
            };
        }
        Change::CopyRaise | Change::CopyLower => false,
        Change::Usage => true,
        Change::SecurityOfficer => rights.is_so(),
        // PKCS#11 3.2, "Secret key objects": an empty value destroys a check value; any other value
        // is wrong.
        Change::Clear if matches!(value, Value::Bytes(bytes) if bytes.is_empty()) => true,
        Change::Clear => return Err(Error::AttributeValueInvalid),
        Change::Less | Change::Fixed => false,
    };
    if may { Ok(()) } else { Err(Error::AttributeReadOnly) }
}
