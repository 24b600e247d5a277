//! Converts between `CK_ULONG` and the token's numbers. `CK_ULONG` is `unsigned long`, which has 32
//! bits on some platforms. The token uses 64 bits everywhere.

#[cfg(not(windows))]
use cryptoki_sys::CK_UNAVAILABLE_INFORMATION;
use cryptoki_sys::{CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CK_SLOT_ID, CK_ULONG};
use jeton_words::id::{ObjectHandle, SessionHandle, SlotId};

#[cfg(windows)]
pub(crate) use crate::short_handles::{narrow, wide};

/// Converts a number of the application for the token.
#[cfg(not(windows))]
#[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
#[inline]
pub(crate) fn wide(number: CK_ULONG) -> u64 {
    u64::from(number)
}

/// Converts a number of the token for the application. Returns `CK_UNAVAILABLE_INFORMATION` if the
/// number does not fit.
#[cfg(not(windows))]
#[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
#[allow(clippy::unnecessary_fallible_conversions, reason = "CK_ULONG has 32 bits on other platforms")]
#[inline]
pub(crate) fn narrow(number: u64) -> CK_ULONG {
    CK_ULONG::try_from(number).unwrap_or(CK_UNAVAILABLE_INFORMATION)
}

/// Converts a length of memory. It always fits: `CK_ULONG` is as wide as a pointer on all supported
/// platforms.
#[inline]
pub(crate) fn length(bytes: usize) -> CK_ULONG {
    narrow(bytes as u64)
}

#[inline]
pub(crate) fn session(handle: CK_SESSION_HANDLE) -> SessionHandle {
    SessionHandle(wide(handle))
}

#[inline]
pub(crate) fn object(handle: CK_OBJECT_HANDLE) -> ObjectHandle {
    ObjectHandle(wide(handle))
}

#[inline]
pub(crate) fn slot(id: CK_SLOT_ID) -> SlotId {
    SlotId(wide(id))
}
