//! Checks of combinations of attributes, which a row of the attribute table cannot express.

use super::Attributes;
use super::attribute::{self, Default, ObjectTypes};
use super::required::{CREATING, refused, refused_in};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, value};

/// Fails with `TemplateIncomplete` if a certificate or trust object lacks an attribute that its
/// other attributes require.
pub(super) fn whole(attributes: &Attributes, object_type: ObjectTypes) -> Result<()> {
    const CERTIFICATES: &str = "X.509 public key certificate objects, notes 2 to 4";
    const WTLS: &str = "WTLS public key certificate objects, note 1";
    const TRUST: &str = "Trust objects, note 2";
    let none = |id: &A| attributes.bytes(*id).is_none_or(<[u8]>::is_empty);
    let (needed, clause): (&[A], _) = match object_type {
        // PKCS#11 3.2, "X.509 public key certificate objects", notes 2 to 4 of the table. WTLS
        // certificates have the same rules.
        ObjectTypes::X_509 | ObjectTypes::WTLS if none(&A::URL) => (&[A::VALUE], CERTIFICATES),
        ObjectTypes::X_509 | ObjectTypes::WTLS => {
            (&[A::HASH_OF_SUBJECT_PUBLIC_KEY, A::HASH_OF_ISSUER_PUBLIC_KEY], CERTIFICATES)
        }
        ObjectTypes::TRUST if trusts(attributes) && !names_certificate(attributes) => {
            return Err(refused_in(attributes, A::HASH_OF_CERTIFICATE, TRUST, Error::TemplateIncomplete));
        }
        _ => (&[], CREATING),
    };
    // PKCS#11 3.2, "WTLS public key certificate objects", note 1: a certificate value requires a
    // subject.
    let lacks_subject = object_type == ObjectTypes::WTLS && none(&A::SUBJECT) && !none(&A::VALUE);
    let missing = needed.iter().find(|id| none(id)).map(|id| (*id, clause));
    match missing.or(lacks_subject.then_some((A::SUBJECT, WTLS))) {
        Some((id, clause)) => Err(refused(id, None, clause, Error::TemplateIncomplete)),
        None => Ok(()),
    }
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
    let copied = [(A::SENSITIVE, false), (A::EXTRACTABLE, true), (A::COPYABLE, true)];
    let copied = copied.into_iter().find(|(id, is)| attributes.flag(*id) == Some(*is));
    let wrong = if open {
        (A::ALWAYS_AUTHENTICATE, "Private key objects: it needs CKA_PRIVATE")
    } else if backwards {
        (A::END_DATE, "Key objects: it is before CKA_START_DATE")
    } else if let Some((id, _)) = copied.filter(|_| attributes.counts_uses()) {
        (id, "HSS private key objects: a key whose uses are counted has no copy")
    } else {
        return Ok(());
    };
    Err(refused_in(attributes, wrong.0, wrong.1, Error::TemplateInconsistent))
}
