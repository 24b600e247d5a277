//! What the attributes of an object must be together, where no row of the table can say it.

use super::Attributes;
use super::attribute::{self, Default, Sorts};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, value};

/// What a certificate or a trust object must have besides what each must.
pub(super) fn whole(attributes: &Attributes, sort: Sorts) -> Result<()> {
    let none = |id| attributes.bytes(id).is_none_or(<[u8]>::is_empty);
    let missing = match sort {
        // PKCS#11 3.2, "X.509 public key certificate objects", notes 2 to 4 of the table; WTLS has the same.
        Sorts::X_509 | Sorts::WTLS if none(A::URL) => none(A::VALUE),
        Sorts::X_509 | Sorts::WTLS => {
            none(A::HASH_OF_SUBJECT_PUBLIC_KEY) || none(A::HASH_OF_ISSUER_PUBLIC_KEY)
        }
        Sorts::TRUST => trusts(attributes) && !names_certificate(attributes),
        _ => false,
    };
    // PKCS#11 3.2, "WTLS public key certificate objects", note 1: a subject, where there is a certificate.
    let nobody = sort == Sorts::WTLS && none(A::SUBJECT) && !none(A::VALUE);
    if missing || nobody { Err(Error::TemplateIncomplete) } else { Ok(()) }
}

/// PKCS#11 3.2, "Trust objects", note 2: whether it says more than that nothing is known or trusted.
fn trusts(attributes: &Attributes) -> bool {
    attribute::rules(Sorts::TRUST)
        .filter(|rule| rule.default == Default::Number(value::TRUST_UNKNOWN))
        .filter_map(|rule| attributes.number(rule.id))
        .any(|trust| trust != value::TRUST_UNKNOWN && trust != value::NOT_TRUSTED)
}

/// Whether a trust object tells its certificate by a digest.
fn names_certificate(attributes: &Attributes) -> bool {
    let digest = attributes.bytes(A::HASH_OF_CERTIFICATE).is_some_and(|digest| !digest.is_empty());
    digest && attributes.has(A::NAME_HASH_ALGORITHM)
}

/// PKCS#11 3.2, "Private key objects": `CKA_ALWAYS_AUTHENTICATE` only on a private object. A date of expiry before that
/// of the start makes no sense.
pub(super) fn coherent(attributes: &Attributes) -> Result<()> {
    let open =
        attributes.flag(A::ALWAYS_AUTHENTICATE) == Some(true) && attributes.flag(A::PRIVATE) == Some(false);
    let date = |id| attributes.bytes(id).filter(|date| !date.is_empty());
    let backwards =
        matches!((date(A::START_DATE), date(A::END_DATE)), (Some(start), Some(end)) if end < start);
    if open || backwards { Err(Error::TemplateInconsistent) } else { Ok(()) }
}
