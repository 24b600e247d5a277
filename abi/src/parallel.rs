//! "Parallel function management functions": two legacy functions. After `C_Initialize` they return
//! only `CKR_FUNCTION_NOT_PARALLEL`, as the standard says.

use cryptoki_sys::{CK_RV, CK_SESSION_HANDLE, CKR_FUNCTION_NOT_PARALLEL};
use jeton_words::token::Token;

use crate::call::Entry;

/// # Safety
///
/// None: no pointer is passed.
pub unsafe fn C_GetFunctionStatus<T: Token>(entry: &Entry<T>, _: CK_SESSION_HANDLE) -> CK_RV {
    entry.always(CKR_FUNCTION_NOT_PARALLEL)
}

/// # Safety
///
/// None: no pointer is passed.
pub unsafe fn C_CancelFunction<T: Token>(entry: &Entry<T>, _: CK_SESSION_HANDLE) -> CK_RV {
    entry.always(CKR_FUNCTION_NOT_PARALLEL)
}
