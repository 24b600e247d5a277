//! Checks of combinations of attributes, which a row of the attribute table cannot express.

use super::Attributes;
use super::attribute::{self, Default, ObjectTypes};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, value};

/// Fails with `TemplateIncomplete` if a certificate or trust object lacks an attribute that its
/// other attributes require.
pub(super) fn whole(attributes: &Attributes, object_type: ObjectTypes) -> Result<()> {
    let none = |id| attributes.bytes(id).is_none_or(<[u8]>::is_empty);
    let missing = match object_type {
        // PKCS#11 3.2, "X.509 public key certificate objects", notes 2 to 4 of the table. WTLS
        // certificates have the same rules.
        ObjectTypes::X_509 | ObjectTypes::WTLS if none(A::URL) => none(A::VALUE),
        ObjectTypes::X_509 | ObjectTypes::WTLS => {
            none(A::HASH_OF_SUBJECT_PUBLIC_KEY) || none(A::HASH_OF_ISSUER_PUBLIC_KEY)
        }
        ObjectTypes::TRUST => trusts(attributes) && !names_certificate(attributes),
        _ => false,
    };
    // PKCS#11 3.2, "WTLS public key certificate objects", note 1: a certificate value requires a
    // subject.
    let lacks_subject = object_type == ObjectTypes::WTLS && none(A::SUBJECT) && !none(A::VALUE);
    if missing || lacks_subject { Err(Error::TemplateIncomplete) } else { Ok(()) }
}

/// Returns whether a trust object says more than "unknown" or "not trusted" about some use (PKCS#11
/// 3.2, "Trust objects", note 2).
fn trusts(attributes: &Attributes) -> bool {
    attribute::rules(ObjectTypes::TRUST)
        .filter(|rule| rule.default == Default::Number(value::TRUST_UNKNOWN))
        .filter_map(|rule| attributes.number(rule.id))
        .any(|trust| trust != value::TRUST_UNKNOWN && trust != value::NOT_TRUSTED)
}

/// Returns whether a trust object names its certificate by a digest.
fn names_certificate(attributes: &Attributes) -> bool {
    let digest = attributes.bytes(A::HASH_OF_CERTIFICATE).is_some_and(|digest| !digest.is_empty());
    digest && attributes.has(A::NAME_HASH_ALGORITHM)
}

/// Fails with `TemplateInconsistent` if attributes contradict each other. PKCS#11 3.2, "Private key
/// objects": `CKA_ALWAYS_AUTHENTICATE` requires a private object. The end date of a key or
/// certificate cannot precede its start date. A key whose uses are counted has no copy, neither in
/// the token nor outside (PKCS#11 3.2, "HSS private key objects").
pub(super) fn coherent(attributes: &Attributes) -> Result<()> {
    let open =
        attributes.flag(A::ALWAYS_AUTHENTICATE) == Some(true) && attributes.flag(A::PRIVATE) == Some(false);
    let date = |id| attributes.bytes(id).filter(|date| !date.is_empty());
    let backwards =
        matches!((date(A::START_DATE), date(A::END_DATE)), (Some(start), Some(end)) if end < start);
    let copied = attributes.counts_uses()
        && (attributes.flag(A::SENSITIVE) == Some(false)
            || attributes.flag(A::EXTRACTABLE) == Some(true)
            || attributes.flag(A::COPYABLE) == Some(true));
    if open || backwards || copied { Err(Error::TemplateInconsistent) } else { Ok(()) }
}
