//! Applies the policy *strict* to objects. Its rules are the tables of [`crate::config::strict`].

use tracing::warn;

use super::key_type::KeyTypeRow;
use super::required::refused_in;
use super::template::Template;
use super::value::{self, Value};
use super::{Attributes, Object, cnsa2, key};
use crate::config::Policy;
use crate::config::strict::{ROLES, TEMPLATES, roles};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectClass};
use crate::mechanism::rule::{self, Source};

/// What the log names as the clause.
const STRICT: &str = "the policy strict (docs/policies.md), no clause of PKCS#11";

/// Returns the template with each missing usage added as false, so that no usage is true by
/// default. A usage is missing if neither the template nor `forced`, the template of the base key,
/// has it.
pub(crate) fn named<'a>(template: &Template<'a>, class: ObjectClass, forced: Option<&Value>) -> Template<'a> {
    let of_forced = |id| entry(forced, id);
    let class = match (template.bytes(A::CLASS).map(value::number), of_forced(A::CLASS)) {
        (Some(Ok(class)), _) => ObjectClass(class),
        (None, Some(Value::Number(class))) => ObjectClass(*class),
        _ => class,
    };
    let missing = key::usages(class).iter().filter(|id| of_forced(**id).is_none());
    missing.fold(template.clone(), |template, id| template.or(*id, &[0]))
}

/// Fails unless a new object follows the policy: a private or secret key has at most one role, and
/// each key has a safe size.
pub(crate) fn admit(attributes: &Attributes, policy: Policy) -> Result<()> {
    let Some(object_type) = attributes.object_type() else { return Ok(()) };
    if object_type.is_hidden() {
        one_role(|id| attributes.flag(id) == Some(true), Error::TemplateInconsistent)?;
    }
    sized(attributes, policy)
}

/// Fails unless a key that another key makes gets its role from there ([`Source::permits`]).
/// `templates` are those of the keys that make it, of which each must permit the role.
pub(crate) fn received(attributes: &Attributes, templates: &[Option<&Value>], source: Source) -> Result<()> {
    let is_secret = attributes.object_type().is_some_and(|object_type| object_type.is_secret());
    let enciphers = is_secret && KeyTypeRow::of_object(attributes)?.uses.contains(&A::ENCRYPT);
    for template in templates {
        let named: Vec<_> = usages(*template).collect();
        let usage = usages_of(attributes).find(|id| !source.permits(*id, &named, enciphers));
        let gives = |id: &A| source != Source::Agreed && entry(*template, *id).is_some();
        let inner = TEMPLATES.into_iter().find(|id| attributes.has(*id) && !gives(id));
        if let Some(attribute) = usage.or(inner) {
            let rule = "only the template of the key that makes a key gives it this";
            warn!(%attribute, ?source, rule, "the policy strict refuses the role of a key");
            return Err(Error::TemplateInconsistent);
        }
    }
    let is_shown = attributes.flag(A::SENSITIVE) == Some(false);
    if source == Source::Derived || templates.is_empty() || !is_shown {
        return Ok(());
    }
    Err(refused_in(attributes, A::SENSITIVE, STRICT, Error::TemplateInconsistent))
}

/// Fails unless a key that is wrapped comes back with its own role, or without any usage: this role
/// is the one that the `CKA_UNWRAP_TEMPLATE` of a secret key gives. The `CKA_WRAP_TEMPLATE` of a
/// public key names the same role ([`admit_pair`]).
pub(crate) fn keeps_role(key: &Object, wrapping: &Object) -> Result<()> {
    let id = if wrapping.object_type().is_public() { A::WRAP_TEMPLATE } else { A::UNWRAP_TEMPLATE };
    let template = wrapping.attributes().get(id);
    let (own, named): (Vec<_>, Vec<_>) = (usages_of(key.attributes()).collect(), usages(template).collect());
    let same = same_templates(|id| key.attributes().get(id), |id| entry(template, id));
    if rule::keeps_role(&own, &named, same) {
        return Ok(());
    }
    warn!(?own, unwrapped = ?named, "the policy strict wraps no key that would come back in another role");
    Err(Error::KeyNotWrappable)
}

/// Returns whether a `CKA_DERIVE_TEMPLATE` lets derived keys sign, or gives them templates.
pub(crate) fn counts_steps(template: &Value) -> bool {
    let signs = usages(Some(template)).any(|id| roles(|usage| usage == id).any(|role| role == "sign"));
    signs || TEMPLATES.iter().any(|id| entry(Some(template), *id).is_some())
}

/// Fails if a change or a copy adds a usage to the object. Otherwise a key could have one role
/// after the other (Delaune, Kremer, Steel 2008).
pub(crate) fn only_lowered(object: &Object, attributes: &Attributes) -> Result<()> {
    let raised =
        |id: &&A| attributes.flag(**id) == Some(true) && object.attributes().flag(**id) != Some(true);
    let found = ROLES.iter().flat_map(|role| role.usages).find(raised);
    found.map_or(Ok(()), |id| Err(refused_in(attributes, *id, STRICT, Error::AttributeReadOnly)))
}

/// Fails if the two keys of a new pair have usages of two roles, or if the public key could wrap a
/// key that the private key unwraps in another role.
pub(crate) fn admit_pair(public: &Attributes, private: &Attributes) -> Result<()> {
    let has = |id| public.flag(id) == Some(true) || private.flag(id) == Some(true);
    one_role(has, Error::TemplateInconsistent)?;
    let (wraps, unwraps) = (public.get(A::WRAP_TEMPLATE), private.get(A::UNWRAP_TEMPLATE));
    let (wrapped, unwrapped): (Vec<_>, Vec<_>) = (usages(wraps).collect(), usages(unwraps).collect());
    let same = same_templates(|id| entry(wraps, id), |id| entry(unwraps, id));
    if public.flag(A::WRAP) != Some(true) || rule::keeps_role(&wrapped, &unwrapped, same) {
        return Ok(());
    }
    let attribute = A::WRAP_TEMPLATE;
    warn!(%attribute, "the policy strict asks for the usages of CKA_UNWRAP_TEMPLATE in this template too");
    Err(Error::TemplateInconsistent)
}

/// Fails if the policy allows no use of this key. A key of an older store, or a key that was made
/// under the policy *compatible*, may have several roles. Such a key is unusable until the user
/// removes all roles but one.
pub(crate) fn usable(object: &Object, policy: Policy) -> Result<()> {
    let has = |id| object.attributes().flag(id) == Some(true);
    if object.object_type().is_hidden() {
        one_role(has, Error::KeyFunctionNotPermitted)?;
    }
    sized(object.attributes(), policy)
}

/// Fails with this error if the usages belong to several roles.
fn one_role(has: impl Fn(A) -> bool, error: Error) -> Result<()> {
    if roles(&has).count() <= 1 {
        return Ok(());
    }
    let names: Vec<_> = roles(&has).collect();
    warn!(?names, "the policy strict refuses a key with several roles");
    Err(error)
}

fn same_templates<'a>(own: impl Fn(A) -> Option<&'a Value>, given: impl Fn(A) -> Option<&'a Value>) -> bool {
    TEMPLATES.iter().all(|id| match (own(*id), given(*id)) {
        (Some(own), Some(given)) => own.equals(given),
        (own, given) => own.is_none() && given.is_none(),
    })
}

fn usages_of(attributes: &Attributes) -> impl Iterator<Item = A> {
    let all = ROLES.iter().flat_map(|role| role.usages).copied();
    all.filter(|id| attributes.flag(*id) == Some(true))
}

fn usages(template: Option<&Value>) -> impl Iterator<Item = A> {
    let all = ROLES.iter().flat_map(|role| role.usages).copied();
    all.filter(move |id| matches!(entry(template, *id), Some(Value::Flag(true))))
}

fn entry(template: Option<&Value>, id: A) -> Option<&Value> {
    let Some(Value::Template(entries)) = template else { return None };
    entries.iter().find(|(known, _)| *known == id).map(|(_, value)| value)
}

fn sized(attributes: &Attributes, policy: Policy) -> Result<()> {
    match attributes.object_type() {
        Some(object_type) if object_type.is_key() => {
            if policy == Policy::Cnsa2 {
                cnsa2::check(attributes)?;
            }
            let row = KeyTypeRow::of_object(attributes)?;
            (row.check_strict)(attributes).map_err(|error| refused_in(attributes, row.size, STRICT, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_usage_has_two_roles() {
        let all: Vec<_> = ROLES.iter().flat_map(|role| role.usages).collect();
        assert!(all.iter().enumerate().all(|(at, id)| !all[..at].contains(id)));
        assert_eq!(all.len(), 11);
    }
}
