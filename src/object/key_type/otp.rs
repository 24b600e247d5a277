//! Keys for one-time passwords (PKCS#11 3.2, "OTP key objects").

use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, value as number};
use crate::object::Attributes;
use crate::object::value::Value;
use crate::secret::Secret;

/// Checks that a HOTP key follows RFC 4226: 6 to 8 digits (5.3), and no input but the counter. The
/// counter has 8 bytes (PKCS#11 3.2, "OATH HOTP secret key objects"). Sets an absent counter to
/// zero. Other key types pass.
pub(crate) fn check(attributes: &mut Attributes, key_type: KeyType) -> Result<()> {
    if key_type != KeyType::HOTP {
        return Ok(());
    }
    let within = |id, range: std::ops::RangeInclusive<u64>| {
        attributes.number(id).is_some_and(|number| range.contains(&number))
    };
    let ignored = number::OTP_PARAM_IGNORED..=number::OTP_PARAM_IGNORED;
    let fits = within(A::OTP_FORMAT, number::OTP_FORMAT_DECIMAL..=number::OTP_FORMAT_DECIMAL)
        && within(A::OTP_LENGTH, 6..=8)
        && within(A::OTP_CHALLENGE_REQUIREMENT, ignored.clone())
        && within(A::OTP_TIME_REQUIREMENT, ignored.clone())
        && within(A::OTP_PIN_REQUIREMENT, ignored)
        && within(A::OTP_COUNTER_REQUIREMENT, number::OTP_PARAM_IGNORED..=number::OTP_PARAM_MANDATORY);
    // PKCS#11 3.2, "OTP key objects": YYYYMMDDhhmmss, or empty.
    let time = attributes.bytes(A::OTP_TIME).unwrap_or_default();
    let fits = fits && (time.is_empty() || time.len() == 14 && time.iter().all(u8::is_ascii_digit));
    match attributes.bytes(A::OTP_COUNTER).map(<[u8]>::len) {
        _ if !fits => return Err(Error::AttributeValueInvalid),
        Some(8) => {}
        None | Some(0) => attributes.put(A::OTP_COUNTER, Value::Bytes(Secret::zeroed(8))),
        Some(_) => return Err(Error::AttributeValueInvalid),
    }
    Ok(())
}
