//! "Parallel function management functions": two legacy functions. After `C_Initialize` they return
//! only `CKR_FUNCTION_NOT_PARALLEL`, as the standard says.

use cryptoki_sys::{CK_RV, CK_SESSION_HANDLE, CKR_FUNCTION_NOT_PARALLEL};

use crate::call::always;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn C_GetFunctionStatus(_: CK_SESSION_HANDLE) -> CK_RV {
    always(CKR_FUNCTION_NOT_PARALLEL)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn C_CancelFunction(_: CK_SESSION_HANDLE) -> CK_RV {
    always(CKR_FUNCTION_NOT_PARALLEL)
}
