//! The rules of less common classes that are not keys: trust, attribute certificates, and the
//! built-in objects.

use super::{Change, Default, Need, ObjectTypes, Rule};
use crate::id::{AttributeType as A, value};
use crate::object::rule::{fixed, text};
use crate::object::value::Kind;

pub(super) const RULES: &[Rule] = &[
    // PKCS#11 3.2, "X.509 attribute certificate objects".
    fixed(A::OWNER, Kind::Bytes, ObjectTypes::X_509_ATTRIBUTE, Need::Must, Need::Never),
    text(A::AC_ISSUER, ObjectTypes::X_509_ATTRIBUTE),
    text(A::ATTR_TYPES, ObjectTypes::X_509_ATTRIBUTE),
    fixed(A::VALUE, Kind::Bytes, ObjectTypes::X_509_ATTRIBUTE, Need::Must, Need::Never),
    // PKCS#11 3.2, "Trust objects".
    fixed(A::ISSUER, Kind::Bytes, ObjectTypes::TRUST, Need::Must, Need::Never),
    fixed(A::SERIAL_NUMBER, Kind::Bytes, ObjectTypes::TRUST, Need::Must, Need::Never),
    text(A::HASH_OF_CERTIFICATE, ObjectTypes::TRUST).changes(Change::Fixed),
    trust(A::TRUST_SERVER_AUTH),
    trust(A::TRUST_CLIENT_AUTH),
    trust(A::TRUST_CODE_SIGNING),
    trust(A::TRUST_EMAIL_PROTECTION),
    trust(A::TRUST_IPSEC_IKE),
    trust(A::TRUST_TIME_STAMPING),
    trust(A::TRUST_OCSP_SIGNING),
    // PKCS#11 3.2, "Profile objects", "Mechanism objects", "Hardware Feature Objects", "Validation
    // objects".
    built_in(A::PROFILE_ID, Kind::Number, ObjectTypes::PROFILE),
    built_in(A::MECHANISM_TYPE, Kind::Number, ObjectTypes::MECHANISM),
    built_in(A::HW_FEATURE_TYPE, Kind::Number, ObjectTypes::CLOCK),
    built_in(A::VALUE, Kind::Bytes, ObjectTypes::CLOCK).or(Default::Computed),
    built_in(A::VALIDATION_TYPE, Kind::Number, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_VERSION, Kind::Bytes, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_LEVEL, Kind::Number, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_MODULE_ID, Kind::Bytes, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_FLAG, Kind::Number, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_AUTHORITY_TYPE, Kind::Number, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_COUNTRY, Kind::Bytes, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_CERTIFICATE_IDENTIFIER, Kind::Bytes, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_CERTIFICATE_URI, Kind::Bytes, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_VENDOR_URI, Kind::Bytes, ObjectTypes::VALIDATION),
    built_in(A::VALIDATION_PROFILE, Kind::Bytes, ObjectTypes::VALIDATION),
];

/// The trust in a certificate for one use (`CK_TRUST`).
const fn trust(id: A) -> Rule {
    Rule::new(id, Kind::Number, ObjectTypes::TRUST)
        .up_to(value::TRUST_MUST_VERIFY)
        .or(Default::Number(value::TRUST_UNKNOWN))
}

/// An attribute that only the token sets.
const fn built_in(id: A, kind: Kind, on: ObjectTypes) -> Rule {
    fixed(id, kind, on, Need::Never, Need::Never)
}
