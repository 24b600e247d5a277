//! Parallel function management (PKCS#11 3.2): two functions of version 1. The standard fixes their
//! only return code.

use cryptoki_sys::*;

use crate::call::always;

/// `C_GetFunctionStatus`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn C_GetFunctionStatus(_: CK_SESSION_HANDLE) -> CK_RV {
    always(CKR_FUNCTION_NOT_PARALLEL)
}

/// `C_CancelFunction`
#[unsafe(no_mangle)]
pub(crate) extern "C" fn C_CancelFunction(_: CK_SESSION_HANDLE) -> CK_RV {
    always(CKR_FUNCTION_NOT_PARALLEL)
}
