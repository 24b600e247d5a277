//! "General-purpose functions": `C_Initialize` and `C_Finalize`.

use std::ffi::c_void;

use cryptoki_sys::CK_RV;
use jeton::error::Error;
use jeton::functions::Threads;

use crate::call::{finalize, guarded, initialize};

/// # Safety
///
/// As for [`jeton_names::initialization`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Initialize(arguments: *mut c_void) -> CK_RV {
    // SAFETY: the caller's promise.
    match unsafe { jeton_names::initialization(arguments) } {
        Ok(given) => {
            let threads = if given.single { Threads::Forbidden } else { Threads::Allowed };
            guarded(|| initialize(given.parameters, threads))
        }
        Err(code) => code,
    }
}

/// # Safety
///
/// None: the pointer is not followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Finalize(reserved: *mut c_void) -> CK_RV {
    guarded(|| if reserved.is_null() { finalize() } else { Err(Error::ArgumentsBad) })
}

#[cfg(test)]
mod tests {
    use cryptoki_sys::{CKF_OS_LOCKING_OK, CKR_ARGUMENTS_BAD};

    use super::*;

    #[test]
    fn bad_arguments_are_refused_before_the_module_starts() {
        let reserved = std::ptr::without_provenance_mut(1);
        let mut given = jeton_names::arguments(CKF_OS_LOCKING_OK, reserved);
        // SAFETY: a complete struct, whose pReserved is not followed.
        assert_eq!(unsafe { C_Initialize((&raw mut given).cast()) }, CKR_ARGUMENTS_BAD);
        // SAFETY: not followed.
        assert_eq!(unsafe { C_Finalize(reserved) }, CKR_ARGUMENTS_BAD);
    }
}
