//! How an object comes to be: created from a template, generated, copied, changed.
//!
//! PKCS#11 3.2, "Creating objects" and the chapters of the four functions; every rule is a column of
//! [`attribute::Rule`].

use super::attribute::{self, Change, Default, Need, Rule, SortRules, Sorts};
use super::template::{Given, Template};
use super::value::{Kind, Value};
use super::whole::{coherent, whole};
use super::{Attributes, Object, key, kind_of, otp, parameters};
use crate::backend::{PrivateParts, Provider, PublicParts, des3};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, MechanismType, ObjectClass};
use crate::secret::Secret;

/// How a template is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Create,
    Generate,
    /// Unwrap, derive, encapsulate, decapsulate: the material comes from elsewhere.
    Receive,
}

/// How a key comes to be out of another.
pub struct Origin<'a> {
    /// Attributes that the other key's `CKA_UNWRAP_TEMPLATE` or such forces upon it.
    pub forced: Option<&'a Value>,
    /// `CKA_EXTRACTABLE` where the template says nothing. PKCS#11 3.2, C_UnwrapKey, C_EncapsulateKey: true.
    pub extractable: bool,
    /// `CKA_SENSITIVE` of a secret key where the template says nothing: as the key that it comes out of, where that
    /// is told by it.
    pub sensitive: bool,
    /// `CKA_ALWAYS_SENSITIVE` and `CKA_NEVER_EXTRACTABLE` of the key that it comes out of; both false where it was
    /// outside the token.
    pub history: (bool, bool),
    /// The key type where the template names none.
    pub key_type: Option<KeyType>,
}

/// The attributes of `C_CreateObject`. Keys are parsed by the provider, so that one that is no key is refused here
/// and not at its first signature.
pub fn create(template: &Template<'_>, officer: bool, provider: &Provider) -> Result<Attributes> {
    let sort = sort(template)?;
    let mut attributes = read(&template.0, sort, Use::Create, officer)?;
    complete(&mut attributes, sort, Use::Create)?;
    whole(&attributes, sort)?;
    if sort.is_key() {
        key::check(&mut attributes, sort, provider)?;
        put_origin(&mut attributes, sort, None);
    }
    if sort == Sorts::DH_PARAMETERS {
        parameters::check(&mut attributes, provider)?;
    }
    Ok(attributes)
}

/// The attributes of a secret key of `C_GenerateKey`; `value` makes the key once its length is known and checked.
pub fn generate_secret(
    template: &Template<'_>,
    key_type: KeyType,
    mechanism: MechanismType,
    officer: bool,
    value: impl FnOnce(u64) -> Result<Secret>,
) -> Result<Attributes> {
    let identity = [(A::CLASS, attribute::secret_class(key_type).0), (A::KEY_TYPE, key_type.0)];
    let mut attributes = generated(template, &identity, officer)?;
    otp::check(&mut attributes, key_type)?;
    let len = attributes.number(A::VALUE_LEN).ok_or(Error::TemplateIncomplete)?;
    attributes.put(A::VALUE, Value::Bytes(value(len)?));
    finish(attributes, mechanism)
}

/// The attributes of the public half of `C_GenerateKeyPair`, before the pair exists: they say what to make.
pub fn generate_public(template: &Template<'_>, key_type: KeyType, officer: bool) -> Result<Attributes> {
    let identity = [(A::CLASS, ObjectClass::PUBLIC_KEY.0), (A::KEY_TYPE, key_type.0)];
    generated(template, &identity, officer)
}

/// The attributes of the private half of `C_GenerateKeyPair`, before the pair exists.
pub fn generate_private(template: &Template<'_>, key_type: KeyType, officer: bool) -> Result<Attributes> {
    let identity = [(A::CLASS, ObjectClass::PRIVATE_KEY.0), (A::KEY_TYPE, key_type.0)];
    generated(template, &identity, officer)
}

/// Puts the pair that was made into its two objects.
pub fn put_pair(
    public: Attributes,
    private: Attributes,
    parts: (PublicParts, PrivateParts),
    mechanism: MechanismType,
) -> Result<(Attributes, Attributes)> {
    let (mut public, mut private) = (public, private);
    key::put_public(&mut public, &parts.0)?;
    key::put_private(&mut private, &parts.0, parts.1)?;
    Ok((finish(public, mechanism)?, finish(private, mechanism)?))
}

/// The attributes of a key that comes out of another key, before its material: what the template says.
pub fn receive(template: &Template<'_>, origin: &Origin<'_>, officer: bool) -> Result<Attributes> {
    let forced: &[(A, Value)] = match origin.forced {
        Some(Value::Template(forced)) => forced,
        _ => &[],
    };
    let number = |id, default| match (template.bytes(id), forced.iter().find(|(known, _)| *known == id)) {
        (Some(bytes), _) => super::value::number(bytes),
        (None, Some((_, Value::Number(number)))) => Ok(*number),
        _ => default,
    };
    let class = number(A::CLASS, Ok(ObjectClass::SECRET_KEY.0))?;
    let default = origin.key_type.map(|key_type| key_type.0).ok_or(Error::TemplateIncomplete);
    let identity = [(A::CLASS, class), (A::KEY_TYPE, number(A::KEY_TYPE, default)?)];
    let sort = Sorts::of(ObjectClass(class), Some(identity[1].1)).ok_or(Error::AttributeValueInvalid)?;
    // Only what was wrapped may be a private key.
    let fits = if origin.key_type.is_some() { sort.is_secret() } else { sort.is_hidden() };
    if !fits {
        return Err(Error::TemplateInconsistent);
    }
    let mut attributes = read(&template.0, sort, Use::Receive, officer)?;
    for (id, number) in identity {
        attributes.put(id, Value::Number(number));
    }
    if !forced.iter().all(|(id, _)| gives(*id, sort)) {
        return Err(Error::TemplateInconsistent);
    }
    force(&mut attributes, forced)?;
    if !attributes.has(A::EXTRACTABLE) {
        attributes.put(A::EXTRACTABLE, Value::Flag(origin.extractable));
    }
    if !attributes.has(A::SENSITIVE) && sort.is_secret() {
        attributes.put(A::SENSITIVE, Value::Flag(origin.sensitive));
    }
    complete(&mut attributes, sort, Use::Receive)?;
    put_origin(&mut attributes, sort, None);
    let (sensitive, unextractable) = origin.history;
    let always = sensitive && attributes.flag(A::SENSITIVE) == Some(true);
    let never = unextractable && attributes.flag(A::EXTRACTABLE) == Some(false);
    attributes.put(A::ALWAYS_SENSITIVE, Value::Flag(always));
    attributes.put(A::NEVER_EXTRACTABLE, Value::Flag(never));
    Ok(attributes)
}

/// Whether a template says otherwise than what another key forces upon it.
pub fn conflicts(template: &Template<'_>, forced: Option<&Value>) -> bool {
    let Some(Value::Template(forced)) = forced else { return false };
    let differs = |given: &Given<'_>, (id, value): &(A, Value)| {
        let own = kind_of(given.id).map(|kind| Value::read(kind, &given.value, &kind_of));
        given.id == *id && !matches!(own, Some(Ok(own)) if own.equals(value))
    };
    template.0.iter().any(|given| forced.iter().any(|wanted| differs(given, wanted)))
}

/// Whether another key's template may give a received key that attribute: none that the token alone knows.
fn gives(id: A, sort: Sorts) -> bool {
    attribute::rule(id, sort).is_some_and(|rule| need(rule, Use::Receive) != Need::Never)
}

/// The attributes of a data object that comes out of a key, before its value, and the length that the template asks
/// for: data objects have no `CKA_VALUE_LEN`.
pub fn derived_data(
    template: &Template<'_>,
    forced: Option<&Value>,
    officer: bool,
) -> Result<(Attributes, Option<u64>)> {
    let len = template.bytes(A::VALUE_LEN).map(super::value::number).transpose()?;
    if template.bytes(A::VALUE).is_some() {
        return Err(Error::AttributeReadOnly);
    }
    let given = template.0.iter().filter(|given| given.id != A::VALUE_LEN);
    let mut attributes = read(given, Sorts::DATA, Use::Receive, officer)?;
    let class = Value::Number(ObjectClass::DATA.0);
    if attributes.has(A::CLASS) && !attributes.is(A::CLASS, &class) {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(A::CLASS, class);
    if let Some(Value::Template(forced)) = forced {
        // What only a key can have, data must not be without.
        if forced.iter().any(|(id, _)| attribute::rule(*id, Sorts::DATA).is_none()) {
            return Err(Error::TemplateInconsistent);
        }
        force(&mut attributes, forced)?;
    }
    complete(&mut attributes, Sorts::DATA, Use::Receive)?;
    Ok((attributes, len))
}

/// Puts the value of such a data object: the first `len` bytes, or all.
pub fn put_data(mut attributes: Attributes, value: &Secret, len: Option<usize>) -> Result<Attributes> {
    let value = value.get(..len.unwrap_or(value.len())).ok_or(Error::TemplateInconsistent)?;
    attributes.put(A::VALUE, Value::Bytes(value.into()));
    Ok(attributes)
}

/// PKCS#11 3.2, `CKA_UNWRAP_TEMPLATE`: a template that says otherwise is inconsistent.
fn force(attributes: &mut Attributes, forced: &[(A, Value)]) -> Result<()> {
    for (id, value) in forced {
        if attributes.has(*id) && !attributes.is(*id, value) {
            return Err(Error::TemplateInconsistent);
        }
        attributes.put(*id, value.duplicate());
    }
    Ok(())
}

/// Puts the value of a secret key that comes out of another: `CKA_VALUE_LEN` bytes of it, cut at the `cut` end, or
/// all. `TemplateInconsistent` where it has not so many, `KeySizeRange` where its type has no such length.
pub fn put_secret(mut attributes: Attributes, secret: &Secret, cut: Cut) -> Result<Attributes> {
    let sort = attributes.sort().ok_or(Error::GeneralError)?;
    let len = attributes.number(A::VALUE_LEN).map_or(Some(secret.len()), |len| usize::try_from(len).ok());
    let spare = len.and_then(|len| secret.len().checked_sub(len)).ok_or(Error::TemplateInconsistent)?;
    let value = match cut {
        Cut::Leading => &secret[spare..],
        Cut::Trailing => &secret[..secret.len() - spare],
        Cut::Not if spare == 0 => secret,
        Cut::Not => return Err(Error::TemplateInconsistent),
    };
    if !key::secret_len_fits(sort, value.len()) {
        return Err(Error::KeySizeRange);
    }
    attributes.put(A::VALUE_LEN, Value::Number(value.len() as u64));
    let mut value = Secret::from(value);
    if sort == Sorts::DES3 {
        des3::set_parity(&mut value);
    }
    attributes.put(A::VALUE, Value::Bytes(value));
    if sort == Sorts::HOTP {
        otp::check(&mut attributes, KeyType::HOTP)?;
    }
    Ok(attributes)
}

/// Which end of a secret is cut off where a key is shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Cut {
    Leading,
    Trailing,
    Not,
}

/// Puts what a wrapped private key held; what the template says of it must be the same.
pub fn put_private_key(
    mut attributes: Attributes,
    parts: Vec<(A, Value)>,
    provider: &Provider,
) -> Result<Attributes> {
    force(&mut attributes, &parts)?;
    let sort = attributes.sort().ok_or(Error::GeneralError)?;
    key::check(&mut attributes, sort, provider).map_err(|error| match error {
        Error::AttributeValueInvalid | Error::TemplateIncomplete | Error::DomainParamsInvalid => {
            Error::WrappedKeyInvalid
        }
        other => other,
    })?;
    Ok(attributes)
}

/// The attributes of `C_CopyObject`.
pub fn copy(object: &Object, template: &Template<'_>, officer: bool) -> Result<Attributes> {
    changed(object, template, officer, true)
}

/// The attributes of `C_SetAttributeValue`.
pub fn change(object: &Object, template: &Template<'_>, officer: bool) -> Result<Attributes> {
    changed(object, template, officer, false)
}

/// Reads a search template: an attribute that no object has finds nothing, so it is kept as what it cannot be.
pub fn search(template: &Template<'_>) -> Result<Option<Vec<(A, Value)>>> {
    let mut wanted = Vec::with_capacity(template.0.len());
    for given in &template.0 {
        let Some(kind) = kind_of(given.id) else { return Ok(None) };
        wanted.push((given.id, Value::read(kind, &given.value, &kind_of)?));
    }
    Ok(Some(wanted))
}

/// The sort of object that a `C_CreateObject` template names.
fn sort(template: &Template<'_>) -> Result<Sorts> {
    let number = |id| match template.bytes(id) {
        Some(bytes) => super::value::number(bytes).map(Some),
        None => Ok(None),
    };
    let class = number(A::CLASS)?.map(ObjectClass).ok_or(Error::TemplateIncomplete)?;
    let kind = match class {
        ObjectClass::DATA => None,
        ObjectClass::CERTIFICATE => Some(number(A::CERTIFICATE_TYPE)?.ok_or(Error::TemplateIncomplete)?),
        ObjectClass::PUBLIC_KEY
        | ObjectClass::PRIVATE_KEY
        | ObjectClass::SECRET_KEY
        | ObjectClass::DOMAIN_PARAMETERS
        | ObjectClass::OTP_KEY => Some(number(A::KEY_TYPE)?.ok_or(Error::TemplateIncomplete)?),
        ObjectClass::TRUST => None,
        // PKCS#11 3.2, "Creating objects": of these the token alone has objects.
        ObjectClass::HW_FEATURE | ObjectClass::MECHANISM | ObjectClass::PROFILE | ObjectClass::VALIDATION => {
            return Err(Error::TemplateInconsistent);
        }
        _ => return Err(Error::AttributeValueInvalid),
    };
    Sorts::of(class, kind).ok_or(Error::AttributeValueInvalid)
}

/// A generated key's attributes, but for what the mechanism makes.
pub(super) fn generated(
    template: &Template<'_>,
    identity: &[(A, u64); 2],
    officer: bool,
) -> Result<Attributes> {
    let [(_, class), (_, kind)] = *identity;
    let sort = Sorts::of(ObjectClass(class), Some(kind)).ok_or(Error::MechanismInvalid)?;
    let mut attributes = read(&template.0, sort, Use::Generate, officer)?;
    for (id, number) in identity {
        if attributes.number(*id).is_some_and(|given| given != *number) {
            return Err(Error::TemplateInconsistent);
        }
        attributes.put(*id, Value::Number(*number));
    }
    complete(&mut attributes, sort, Use::Generate)?;
    Ok(attributes)
}

/// Puts what the token records of a key that it made.
fn finish(mut attributes: Attributes, mechanism: MechanismType) -> Result<Attributes> {
    let sort = attributes.sort().ok_or(Error::GeneralError)?;
    put_origin(&mut attributes, sort, Some(mechanism));
    Ok(attributes)
}

/// `CKA_LOCAL`, `CKA_KEY_GEN_MECHANISM`, `CKA_ALWAYS_SENSITIVE`, `CKA_NEVER_EXTRACTABLE`: known here and never given.
pub(super) fn put_origin(attributes: &mut Attributes, sort: Sorts, made_by: Option<MechanismType>) {
    attributes.put(A::LOCAL, Value::Flag(made_by.is_some()));
    let mechanism = made_by.unwrap_or(MechanismType::UNAVAILABLE);
    attributes.put(A::KEY_GEN_MECHANISM, Value::Number(mechanism.0));
    if sort.is_hidden() {
        let always = made_by.is_some() && attributes.flag(A::SENSITIVE) == Some(true);
        let never = made_by.is_some() && attributes.flag(A::EXTRACTABLE) == Some(false);
        attributes.put(A::ALWAYS_SENSITIVE, Value::Flag(always));
        attributes.put(A::NEVER_EXTRACTABLE, Value::Flag(never));
    }
}

/// Reads a template by the rules of its sort.
pub(super) fn read<'a>(
    template: impl IntoIterator<Item = &'a Given<'a>>,
    sort: Sorts,
    usage: Use,
    officer: bool,
) -> Result<Attributes> {
    let (mut attributes, rules) = (Attributes::with_room(), SortRules::of(sort));
    for given in template {
        let rule = rules.get(given.id).ok_or(Error::AttributeTypeInvalid)?;
        if need(rule, usage) == Need::Never {
            return Err(Error::AttributeReadOnly);
        }
        put(&mut attributes, rule, given, officer)?;
    }
    Ok(attributes)
}

/// Reads one attribute. Twice the same is harmless, twice different is `TemplateInconsistent`.
fn put(attributes: &mut Attributes, rule: &Rule, given: &Given<'_>, officer: bool) -> Result<()> {
    let value = given_value(rule, given)?;
    if rule.change == Change::Officer && matches!(value, Value::Flag(true)) && !officer {
        return Err(Error::AttributeReadOnly);
    }
    if attributes.put_once(given.id, value) { Ok(()) } else { Err(Error::TemplateInconsistent) }
}

/// The value of an attribute, within what its rule allows.
fn given_value(rule: &Rule, given: &Given<'_>) -> Result<Value> {
    match Value::read(rule.kind, &given.value, &kind_of)? {
        Value::Number(number) if number > rule.most => Err(Error::AttributeValueInvalid),
        value => Ok(value),
    }
}

/// Puts the defaults, and sees that nothing is missing and nothing contradicts itself.
pub(super) fn complete(attributes: &mut Attributes, sort: Sorts, usage: Use) -> Result<()> {
    let rules = SortRules::of(sort);
    attributes.bits.complete(rules.flags);
    for rule in rules.filled.iter().filter(|rule| !rule.secret || usage == Use::Create) {
        if attributes.get(rule.id).is_some() {
            continue;
        }
        match (need(rule, usage), rule.default) {
            (Need::Must, _) => return Err(Error::TemplateIncomplete),
            (_, Default::Absent | Default::Computed | Default::TrueFor(_)) => {}
            (_, Default::Empty) => attributes.put(rule.id, Value::Bytes(Secret::default())),
            (_, Default::Number(number)) => attributes.put(rule.id, Value::Number(number)),
        }
    }
    coherent(attributes)
}

fn need(rule: &Rule, usage: Use) -> Need {
    match usage {
        Use::Create => rule.create,
        Use::Generate => rule.generate,
        Use::Receive => rule.receive(),
    }
}

fn changed(object: &Object, template: &Template<'_>, officer: bool, copying: bool) -> Result<Attributes> {
    let mut attributes = object.attributes().duplicate();
    for given in &template.0 {
        let rule = attribute::rule(given.id, object.sort()).ok_or(Error::AttributeTypeInvalid)?;
        let value = given_value(rule, given)?;
        // PKCS#11 3.2, "The CKA_UNIQUE_ID attribute": not even with its own value.
        let same = attributes.is(rule.id, &value) && rule.kind != Kind::Template && rule.id != A::UNIQUE_ID;
        if same && !rule.secret || rule.default == Default::Computed && object.shows(rule.id, &value) {
            continue;
        }
        allowed(rule.change, &value, officer, copying)?;
        attributes.put(rule.id, value);
    }
    coherent(&attributes)?;
    // Of a certificate nothing changes that this is about.
    if object.sort() == Sorts::TRUST {
        whole(&attributes, Sorts::TRUST).map_err(|_| Error::TemplateInconsistent)?;
    }
    Ok(attributes)
}

/// Whether an attribute may take a value that it does not have yet.
fn allowed(change: Change, value: &Value, officer: bool, copying: bool) -> Result<()> {
    let may = match change {
        Change::Free => true,
        Change::Copy => copying,
        Change::Raise => matches!(value, Value::Flag(true)),
        Change::Lower => matches!(value, Value::Flag(false)),
        Change::Officer => officer,
        // PKCS#11 3.2, "Secret key objects": no-value destroys a check value, and another one is wrong.
        Change::Clear if matches!(value, Value::Bytes(bytes) if bytes.is_empty()) => true,
        Change::Clear => return Err(Error::AttributeValueInvalid),
        Change::Fixed => false,
    };
    if may { Ok(()) } else { Err(Error::AttributeReadOnly) }
}
