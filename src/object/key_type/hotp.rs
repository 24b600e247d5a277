//! Keys for one-time passwords (PKCS#11 3.2, "OTP key objects").

use jeton_secret::Secret;

use super::{Family, KeyTypeRow, secret};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, value as number};
use crate::mechanism::rule::Structure;
use crate::object::Attributes;
use crate::object::required::refused_in;
use crate::object::rule::{Change, Default, Need, ObjectTypes, Rule, fixed, flag, text};
use crate::object::value::{Kind, Value};

const HOTP: ObjectTypes = ObjectTypes::member(43);

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::HOTP,
        otp: HOTP,
        uses: &[A::SIGN, A::VERIFY],
        structure: Structure::Whole,
        counts: true,
        check_secret,
        ..secret::BASE
    }],
    // PKCS#11 3.2, "OATH HOTP secret key objects": the token may refuse changes of the counter. In
    // Jeton only the token changes it, and only upwards.
    rules: &[
        fixed(A::VALUE_LEN, Kind::Number, HOTP, Need::Never, Need::Must),
        parameter(A::OTP_FORMAT, number::OTP_FORMAT_DECIMAL),
        parameter(A::OTP_LENGTH, 6),
        flag(A::OTP_USER_FRIENDLY_MODE, HOTP, HOTP).changes(Change::Fixed),
        parameter(A::OTP_CHALLENGE_REQUIREMENT, number::OTP_PARAM_IGNORED),
        parameter(A::OTP_TIME_REQUIREMENT, number::OTP_PARAM_IGNORED),
        parameter(A::OTP_COUNTER_REQUIREMENT, number::OTP_PARAM_OPTIONAL),
        parameter(A::OTP_PIN_REQUIREMENT, number::OTP_PARAM_IGNORED),
        text(A::OTP_COUNTER, HOTP).changes(Change::Fixed),
        text(A::OTP_TIME, HOTP).changes(Change::Fixed),
        text(A::OTP_USER_IDENTIFIER, HOTP),
        text(A::OTP_SERVICE_IDENTIFIER, HOTP),
        text(A::OTP_SERVICE_LOGO, HOTP),
        text(A::OTP_SERVICE_LOGO_TYPE, HOTP),
    ],
};

const fn parameter(id: A, default: u64) -> Rule {
    Rule::new(id, Kind::Number, HOTP).changes(Change::Fixed).or(Default::Number(default))
}

/// Checks that a HOTP key follows RFC 4226: 6 to 8 digits (5.3), and no input but the counter. The
/// counter has 8 bytes (PKCS#11 3.2, "OATH HOTP secret key objects"). Sets an absent counter to
/// zero.
fn check_secret(attributes: &mut Attributes) -> Result<()> {
    let within = |id, range: std::ops::RangeInclusive<u64>| {
        attributes.number(id).is_some_and(|number| range.contains(&number))
    };
    let ignored = number::OTP_PARAM_IGNORED..=number::OTP_PARAM_IGNORED;
    let ranges = [
        (A::OTP_FORMAT, number::OTP_FORMAT_DECIMAL..=number::OTP_FORMAT_DECIMAL),
        (A::OTP_LENGTH, 6..=8),
        (A::OTP_CHALLENGE_REQUIREMENT, ignored.clone()),
        (A::OTP_TIME_REQUIREMENT, ignored.clone()),
        (A::OTP_PIN_REQUIREMENT, ignored),
        (A::OTP_COUNTER_REQUIREMENT, number::OTP_PARAM_IGNORED..=number::OTP_PARAM_MANDATORY),
    ];
    let wrong = ranges.into_iter().find(|(id, range)| !within(*id, range.clone())).map(|(id, _)| id);
    // PKCS#11 3.2, "OTP key objects": YYYYMMDDhhmmss, or empty.
    let time = attributes.bytes(A::OTP_TIME).unwrap_or_default();
    let is_time = time.is_empty() || time.len() == 14 && time.iter().all(u8::is_ascii_digit);
    let counter = attributes.bytes(A::OTP_COUNTER).map_or(0, <[u8]>::len);
    let wrong = wrong
        .or((!is_time).then_some(A::OTP_TIME))
        .or((![0, 8].contains(&counter)).then_some(A::OTP_COUNTER));
    if let Some(id) = wrong {
        let clause = "OATH HOTP secret key objects; RFC 4226";
        return Err(refused_in(attributes, id, clause, Error::AttributeValueInvalid));
    }
    if counter == 0 {
        attributes.put(A::OTP_COUNTER, Value::Bytes(Secret::zeroed(8)));
    }
    Ok(())
}
