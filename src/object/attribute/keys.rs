//! The rules of the attributes that only some key types have, and of domain parameters.

use super::{A, Change, Default, Kind, Need, ObjectTypes, Rule, flag, text, value};
use crate::object::rule::{hidden, made};

pub(super) const RULES: &[Rule] = &[
    // RSA.
    made(A::MODULUS, Kind::Integer, ObjectTypes::RSA_PUBLIC.or(ObjectTypes::RSA_PRIVATE)),
    Rule::new(A::MODULUS_BITS, Kind::Number, ObjectTypes::RSA_PUBLIC)
        .needs(Need::Never, Need::Must)
        .changes(Change::Fixed),
    Rule::new(A::PUBLIC_EXPONENT, Kind::Integer, ObjectTypes::RSA_PUBLIC)
        .needs(Need::Must, Need::May)
        .changes(Change::Fixed),
    Rule::new(A::PUBLIC_EXPONENT, Kind::Integer, ObjectTypes::RSA_PRIVATE)
        .needs(Need::May, Need::Same)
        .changes(Change::Fixed),
    hidden(A::PRIVATE_EXPONENT, Kind::Integer, ObjectTypes::RSA_PRIVATE, Need::Must),
    hidden(A::PRIME_1, Kind::Integer, ObjectTypes::RSA_PRIVATE, Need::May),
    hidden(A::PRIME_2, Kind::Integer, ObjectTypes::RSA_PRIVATE, Need::May),
    hidden(A::EXPONENT_1, Kind::Integer, ObjectTypes::RSA_PRIVATE, Need::May),
    hidden(A::EXPONENT_2, Kind::Integer, ObjectTypes::RSA_PRIVATE, Need::May),
    hidden(A::COEFFICIENT, Kind::Integer, ObjectTypes::RSA_PRIVATE, Need::May),
    // Elliptic curves.
    Rule::new(A::EC_PARAMS, Kind::Bytes, ObjectTypes::CURVE_PUBLIC)
        .needs(Need::Must, Need::Must)
        .changes(Change::Fixed),
    made(A::EC_POINT, Kind::Bytes, ObjectTypes::CURVE_PUBLIC),
    made(A::EC_PARAMS, Kind::Bytes, ObjectTypes::CURVE_PRIVATE),
    hidden(
        A::VALUE,
        Kind::Bytes,
        ObjectTypes::CURVE_PRIVATE
            .or(ObjectTypes::SLH_DSA_PRIVATE)
            .or(ObjectTypes::DH_PRIVATE)
            .or(ObjectTypes::DSA_PRIVATE),
        Need::Must,
    ),
    // ML-DSA, ML-KEM, SLH-DSA.
    Rule::new(A::PARAMETER_SET, Kind::Number, ObjectTypes::SET_PUBLIC)
        .needs(Need::Must, Need::Must)
        .changes(Change::Fixed),
    made(
        A::VALUE,
        Kind::Bytes,
        ObjectTypes::SET_PUBLIC.or(ObjectTypes::DH_PUBLIC).or(ObjectTypes::DSA_PUBLIC),
    ),
    made(A::PARAMETER_SET, Kind::Number, ObjectTypes::SET_PRIVATE),
    // PKCS#11 3.2, "ML-DSA private key objects", "ML-KEM private key objects": C_CreateObject needs
    // the seed, the value or both.
    hidden(A::VALUE, Kind::Bytes, ObjectTypes::SEEDED, Need::May),
    hidden(A::SEED, Kind::Bytes, ObjectTypes::SEEDED, Need::May),
    // Secret keys.
    Rule::new(A::CHECK_VALUE, Kind::Bytes, ObjectTypes::SECRET).changes(Change::Clear).or(Default::Computed),
    hidden(A::VALUE, Kind::Bytes, ObjectTypes::SECRET, Need::Must),
    Rule::new(A::JETON_COPIED, Kind::Number, ObjectTypes::SECRET)
        .needs(Need::Never, Need::Never)
        .changes(Change::Fixed),
    Rule::new(A::VALUE_LEN, Kind::Number, ObjectTypes::LENGTHS)
        .needs(Need::Never, Need::Must)
        .changes(Change::Fixed),
    Rule::new(A::VALUE_LEN, Kind::Number, ObjectTypes::CHACHA20)
        .needs(Need::Never, Need::May)
        .changes(Change::Fixed)
        .or(Default::Number(32)),
    Rule::new(A::VALUE_LEN, Kind::Number, ObjectTypes::DES3)
        .needs(Need::Never, Need::May)
        .changes(Change::Fixed)
        .or(Default::Number(24)),
    // Diffie-Hellman and DSA.
    Rule::new(A::PRIME, Kind::Integer, ObjectTypes::DH_PUBLIC.or(ObjectTypes::DSA_PUBLIC))
        .needs(Need::Must, Need::Must)
        .changes(Change::Fixed),
    Rule::new(A::SUBPRIME, Kind::Integer, ObjectTypes::DSA_PUBLIC)
        .needs(Need::Must, Need::Must)
        .changes(Change::Fixed),
    Rule::new(A::BASE, Kind::Integer, ObjectTypes::DH_PUBLIC.or(ObjectTypes::DSA_PUBLIC))
        .needs(Need::Must, Need::Must)
        .changes(Change::Fixed),
    made(A::PRIME, Kind::Integer, ObjectTypes::DH_PRIVATE.or(ObjectTypes::DSA_PRIVATE)),
    made(A::SUBPRIME, Kind::Integer, ObjectTypes::DSA_PRIVATE),
    made(A::BASE, Kind::Integer, ObjectTypes::DH_PRIVATE.or(ObjectTypes::DSA_PRIVATE)),
    Rule::new(A::VALUE_BITS, Kind::Number, ObjectTypes::DH_PRIVATE)
        .needs(Need::Never, Need::May)
        .changes(Change::Fixed),
    Rule::new(A::PRIME, Kind::Integer, ObjectTypes::PARAMETERS)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    Rule::new(A::SUBPRIME, Kind::Integer, ObjectTypes::DSA_PARAMETERS)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    Rule::new(A::BASE, Kind::Integer, ObjectTypes::PARAMETERS)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    Rule::new(A::PRIME_BITS, Kind::Number, ObjectTypes::PARAMETERS)
        .needs(Need::Never, Need::Must)
        .changes(Change::Fixed),
    // Without this attribute, the size of the prime decides the size of the subprime.
    Rule::new(A::SUBPRIME_BITS, Kind::Number, ObjectTypes::DSA_PARAMETERS)
        .needs(Need::Never, Need::May)
        .changes(Change::Fixed),
    // One-time passwords. PKCS#11 3.2, "OATH HOTP secret key objects": the token may refuse changes
    // of the counter. In Jeton only the token changes it, and only upwards.
    otp(A::OTP_FORMAT, value::OTP_FORMAT_DECIMAL),
    otp(A::OTP_LENGTH, 6),
    flag(A::OTP_USER_FRIENDLY_MODE, ObjectTypes::HOTP, ObjectTypes::HOTP).changes(Change::Fixed),
    otp(A::OTP_CHALLENGE_REQUIREMENT, value::OTP_PARAM_IGNORED),
    otp(A::OTP_TIME_REQUIREMENT, value::OTP_PARAM_IGNORED),
    otp(A::OTP_COUNTER_REQUIREMENT, value::OTP_PARAM_OPTIONAL),
    otp(A::OTP_PIN_REQUIREMENT, value::OTP_PARAM_IGNORED),
    text(A::OTP_COUNTER, ObjectTypes::HOTP).changes(Change::Fixed),
    text(A::OTP_TIME, ObjectTypes::HOTP).changes(Change::Fixed),
    text(A::OTP_USER_IDENTIFIER, ObjectTypes::HOTP),
    text(A::OTP_SERVICE_IDENTIFIER, ObjectTypes::HOTP),
    text(A::OTP_SERVICE_LOGO, ObjectTypes::HOTP),
    text(A::OTP_SERVICE_LOGO_TYPE, ObjectTypes::HOTP),
];

/// Returns the rule of a parameter of one-time passwords.
const fn otp(id: A, default: u64) -> Rule {
    Rule::new(id, Kind::Number, ObjectTypes::HOTP).changes(Change::Fixed).or(Default::Number(default))
}
