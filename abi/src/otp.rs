//! The layout of a one-time password. It is the one output with pointers.

use cryptoki_sys::{CK_BYTE, CK_OTP_COUNTER, CK_OTP_PARAM, CK_OTP_SIGNATURE_INFO, CK_OTP_VALUE, CK_ULONG};
use jeton_words::operation::{OneTimePassword, Signed};

use crate::ck_ulong::length;

/// Writes a one-time password into the caller's buffer. A signature is there already. Returns the
/// length of the result.
///
/// # Safety
///
/// The buffer is the one in which the token looked for room, and writable.
#[inline]
pub(crate) unsafe fn written(signed: Signed, buffer: *mut CK_BYTE) -> usize {
    match &signed {
        Signed::Bytes(length) => *length,
        Signed::Password(password) => {
            // SAFETY: the caller's promise: `Signed::length` bytes are writable.
            unsafe { lay_out(password, buffer) };
            signed.length()
        }
    }
}

/// Writes a `CK_OTP_SIGNATURE_INFO`, its parameters and their values, in this order. Its pointers
/// are addresses in the buffer. PKCS#11 3.2, "CK_OTP_SIGNATURE_INFO", requires one block that the
/// caller owns.
///
/// # Safety
///
/// [`OneTimePassword::room`] bytes of the buffer are writable.
#[cold]
unsafe fn lay_out(password: &OneTimePassword, buffer: *mut CK_BYTE) {
    let values = [(CK_OTP_VALUE, password.digits()), (CK_OTP_COUNTER, &password.counter[..])];
    let params = size_of::<CK_OTP_SIGNATURE_INFO>();
    let at = |offset: usize| buffer.wrapping_add(offset);
    let info = CK_OTP_SIGNATURE_INFO { pParams: at(params).cast(), ulCount: values.len() as CK_ULONG };
    let mut end = params + values.len() * size_of::<CK_OTP_PARAM>();
    // SAFETY: the offsets are below the room that the caller promises.
    unsafe {
        buffer.cast::<CK_OTP_SIGNATURE_INFO>().write_unaligned(info);
        for (index, (type_, value)) in values.into_iter().enumerate() {
            let param = CK_OTP_PARAM { type_, pValue: at(end).cast(), ulValueLen: length(value.len()) };
            buffer.add(params).cast::<CK_OTP_PARAM>().add(index).write_unaligned(param);
            buffer.add(end).copy_from_nonoverlapping(value.as_ptr(), value.len());
            end += value.len();
        }
    }
}
