//! `CK_ULONG` and the core's numbers. PKCS#11 counts in `unsigned long`, which has 32 bits on some platforms; the core
//! has 64 everywhere.

use cryptoki_sys::{CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CK_SLOT_ID, CK_ULONG, CK_UNAVAILABLE_INFORMATION};
use jeton::id::{ObjectHandle, SessionHandle, SlotId};

/// A number of the application for the core.
#[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
pub(crate) fn wide(number: CK_ULONG) -> u64 {
    u64::from(number)
}

/// A number of the core for the application; one that does not fit is unavailable.
#[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
#[allow(clippy::unnecessary_fallible_conversions, reason = "CK_ULONG has 32 bits on other platforms")]
pub(crate) fn narrow(number: u64) -> CK_ULONG {
    CK_ULONG::try_from(number).unwrap_or(CK_UNAVAILABLE_INFORMATION)
}

/// A length of memory, which always fits: a `CK_ULONG` is as wide as a pointer wherever PKCS#11 is used from here.
pub(crate) fn length(bytes: usize) -> CK_ULONG {
    narrow(bytes as u64)
}

/// The session of that handle.
pub(crate) fn session(handle: CK_SESSION_HANDLE) -> SessionHandle {
    SessionHandle(wide(handle))
}

/// The object of that handle.
pub(crate) fn object(handle: CK_OBJECT_HANDLE) -> ObjectHandle {
    ObjectHandle(wide(handle))
}

/// The slot of that number.
pub(crate) fn slot(id: CK_SLOT_ID) -> SlotId {
    SlotId(wide(id))
}
