//! The rules of less common classes that are not keys: trust, attribute certificates, and the
//! built-in objects.

use super::{A, Change, Default, Kind, Need, Rule, Sorts, text, value};

pub(super) const RULES: &[Rule] = &[
    // PKCS#11 3.2, "X.509 attribute certificate objects".
    Rule::new(A::OWNER, Kind::Bytes, Sorts::X_509_ATTRIBUTE)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    text(A::AC_ISSUER, Sorts::X_509_ATTRIBUTE),
    text(A::ATTR_TYPES, Sorts::X_509_ATTRIBUTE),
    Rule::new(A::VALUE, Kind::Bytes, Sorts::X_509_ATTRIBUTE)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    // PKCS#11 3.2, "Trust objects".
    Rule::new(A::ISSUER, Kind::Bytes, Sorts::TRUST).needs(Need::Must, Need::Never).changes(Change::Fixed),
    Rule::new(A::SERIAL_NUMBER, Kind::Bytes, Sorts::TRUST)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    text(A::HASH_OF_CERTIFICATE, Sorts::TRUST).changes(Change::Fixed),
    trust(A::TRUST_SERVER_AUTH),
    trust(A::TRUST_CLIENT_AUTH),
    trust(A::TRUST_CODE_SIGNING),
    trust(A::TRUST_EMAIL_PROTECTION),
    trust(A::TRUST_IPSEC_IKE),
    trust(A::TRUST_TIME_STAMPING),
    trust(A::TRUST_OCSP_SIGNING),
    // PKCS#11 3.2, "Profile objects", "Mechanism objects", "Hardware Feature Objects", "Validation
    // objects".
    built_in(A::PROFILE_ID, Kind::Number, Sorts::PROFILE),
    built_in(A::MECHANISM_TYPE, Kind::Number, Sorts::MECHANISM),
    built_in(A::HW_FEATURE_TYPE, Kind::Number, Sorts::CLOCK),
    built_in(A::VALUE, Kind::Bytes, Sorts::CLOCK).or(Default::Computed),
    built_in(A::VALIDATION_TYPE, Kind::Number, Sorts::VALIDATION),
    built_in(A::VALIDATION_VERSION, Kind::Bytes, Sorts::VALIDATION),
    built_in(A::VALIDATION_LEVEL, Kind::Number, Sorts::VALIDATION),
    built_in(A::VALIDATION_MODULE_ID, Kind::Bytes, Sorts::VALIDATION),
    built_in(A::VALIDATION_FLAG, Kind::Number, Sorts::VALIDATION),
    built_in(A::VALIDATION_AUTHORITY_TYPE, Kind::Number, Sorts::VALIDATION),
    built_in(A::VALIDATION_COUNTRY, Kind::Bytes, Sorts::VALIDATION),
    built_in(A::VALIDATION_CERTIFICATE_IDENTIFIER, Kind::Bytes, Sorts::VALIDATION),
    built_in(A::VALIDATION_CERTIFICATE_URI, Kind::Bytes, Sorts::VALIDATION),
    built_in(A::VALIDATION_VENDOR_URI, Kind::Bytes, Sorts::VALIDATION),
    built_in(A::VALIDATION_PROFILE, Kind::Bytes, Sorts::VALIDATION),
];

/// The trust in a certificate for one use (`CK_TRUST`).
const fn trust(id: A) -> Rule {
    Rule::new(id, Kind::Number, Sorts::TRUST)
        .up_to(value::TRUST_MUST_VERIFY)
        .or(Default::Number(value::TRUST_UNKNOWN))
}

/// An attribute that only the token sets.
const fn built_in(id: A, kind: Kind, on: Sorts) -> Rule {
    Rule::new(id, kind, on).needs(Need::Never, Need::Never).changes(Change::Fixed)
}
