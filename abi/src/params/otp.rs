//! The parameters of one-time passwords.

use std::mem::size_of;

use cryptoki_sys::{
    CK_OTP_CHALLENGE, CK_OTP_COUNTER, CK_OTP_FLAGS, CK_OTP_OUTPUT_FORMAT, CK_OTP_OUTPUT_LENGTH, CK_OTP_PARAM,
    CK_OTP_PARAMS, CK_OTP_PIN, CK_OTP_TIME, CK_ULONG,
};
use jeton_names::structs::OTP_PARAMS;
use jeton_words::error::{Error, Result, require};
use jeton_words::params::Params;

use super::{copy, read};
use crate::ck_ulong::wide;
use crate::input::In;

/// The length of a counter in bytes (PKCS#11 3.2, "OATH HOTP secret key objects").
const COUNTER: u64 = 8;

/// Reads `CK_OTP_PARAMS`.
///
/// # Safety
///
/// The memory that the struct points to is readable, and so are the values of its parameters.
pub(super) unsafe fn otp(parameter: &[u8]) -> Result<Params> {
    // SAFETY: an integer and a pointer.
    let given: CK_OTP_PARAMS = unsafe { read(parameter) }?;
    let count = wide(given.ulCount);
    require(count <= OTP_PARAMS && (count == 0 || !given.pParams.is_null()), Error::MechanismParamInvalid)?;
    let (mut counter, mut digits, mut format, mut flags) = (None, None, None, 0);
    for at in 0..count as usize {
        // SAFETY: one of `ulCount` parameters, readable by the caller's promise.
        let param = unsafe { given.pParams.wrapping_add(at).read_unaligned() };
        // SAFETY: the caller's promise, for the value of this parameter.
        unsafe {
            match param.type_ {
                // PKCS#11 3.2, CK_OTP_PARAMS: "always … ignored", because the key has
                // CK_OTP_PARAM_IGNORED for them.
                CK_OTP_PIN | CK_OTP_CHALLENGE | CK_OTP_TIME => {}
                CK_OTP_COUNTER => counter = counter_of(&param)?,
                CK_OTP_FLAGS => flags = number(&param)?,
                CK_OTP_OUTPUT_LENGTH => digits = Some(number(&param)?),
                CK_OTP_OUTPUT_FORMAT => format = Some(number(&param)?),
                _ => return Err(Error::MechanismParamInvalid),
            }
        }
    }
    Ok(Params::Otp { counter, digits, format, flags })
}

/// Reads a counter. Returns `None` if the parameter has no value.
///
/// # Safety
///
/// The value is readable.
unsafe fn counter_of(param: &CK_OTP_PARAM) -> Result<Option<[u8; 8]>> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { copy(In(param.pValue.cast(), param.ulValueLen), COUNTER) }?;
    match *bytes {
        [] => Ok(None),
        _ => bytes[..].try_into().map(Some).map_err(|_| Error::MechanismParamInvalid),
    }
}

/// Reads a `CK_ULONG` or `CK_FLAGS`.
///
/// # Safety
///
/// The value is readable.
unsafe fn number(param: &CK_OTP_PARAM) -> Result<u64> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { copy(In(param.pValue.cast(), param.ulValueLen), size_of::<CK_ULONG>() as u64) }?;
    // SAFETY: an integer.
    unsafe { read::<CK_ULONG>(&bytes) }.map(wide)
}

#[cfg(test)]
mod tests {
    use std::ptr::from_ref;

    use cryptoki_sys::{CK_FLAGS, CK_OTP_FORMAT_DECIMAL, CK_OTP_PARAM_TYPE, CKF_USER_FRIENDLY_OTP, CKM_HOTP};

    use super::super::testing::{HUGE, INVALID, length, with};
    use super::*;

    fn param<T>(type_: CK_OTP_PARAM_TYPE, value: &T) -> CK_OTP_PARAM {
        CK_OTP_PARAM { type_, pValue: from_ref(value).cast_mut().cast(), ulValueLen: length(size_of::<T>()) }
    }

    fn given(params: &[CK_OTP_PARAM]) -> Result<Params> {
        let params = CK_OTP_PARAMS { pParams: params.as_ptr().cast_mut(), ulCount: length(params.len()) };
        with(CKM_HOTP, &params)
    }

    #[test]
    fn the_parameters_of_hotp_are_read_and_the_others_are_ignored() {
        let (counter, flags, digits): ([u8; 8], CK_FLAGS, CK_ULONG) = ([7; 8], CKF_USER_FRIENDLY_OTP, 8);
        let format: CK_ULONG = CK_OTP_FORMAT_DECIMAL;
        let dangling =
            CK_OTP_PARAM { type_: CK_OTP_PIN, pValue: std::ptr::without_provenance_mut(8), ulValueLen: HUGE };
        let params = [
            param(CK_OTP_COUNTER, &counter),
            param(CK_OTP_FLAGS, &flags),
            dangling,
            param(CK_OTP_OUTPUT_LENGTH, &digits),
            param(CK_OTP_OUTPUT_FORMAT, &format),
        ];
        let expected = Params::Otp { counter: Some(counter), digits: Some(8), format: Some(0), flags: 32 };
        assert!(given(&params) == Ok(expected));
        let nothing = Params::Otp { counter: None, digits: None, format: None, flags: 0 };
        assert!(given(&[]) == Ok(nothing.clone()));
        let empty = CK_OTP_PARAM { ulValueLen: 0, ..param(CK_OTP_COUNTER, &counter) };
        assert!(given(&[empty]) == Ok(nothing));
    }

    #[test]
    fn hostile_parameters_are_refused() {
        let (counter, digits): ([u8; 9], CK_ULONG) = ([7; 9], 6);
        let short = CK_OTP_PARAM { ulValueLen: 7, ..param(CK_OTP_COUNTER, &counter) };
        let no_number = CK_OTP_PARAM { ulValueLen: 0, ..param(CK_OTP_FLAGS, &digits) };
        let half = CK_OTP_PARAM { ulValueLen: 1, ..param(CK_OTP_OUTPUT_LENGTH, &digits) };
        // The last type is unknown.
        for wrong in [short, no_number, half, param(CK_OTP_OUTPUT_FORMAT, &counter), param(8, &digits)] {
            assert_eq!(given(&[wrong]).err(), INVALID);
        }
    }
}
