//! "General-purpose functions": `C_Initialize` and `C_Finalize`.

use std::ffi::c_void;

use cryptoki_sys::CK_RV;
use jeton_words::error::Error;
use jeton_words::general::Threads;
use jeton_words::token::Token;

use crate::call::{Entry, guarded};

/// # Safety
///
/// As for [`jeton_names::initialization`].
pub unsafe fn C_Initialize<T: Token>(entry: &Entry<T>, arguments: *mut c_void) -> CK_RV {
    // SAFETY: the caller's promise.
    match unsafe { jeton_names::initialization(arguments) } {
        Ok(given) => {
            let threads = if given.single { Threads::Forbidden } else { Threads::Allowed };
            let start = |token: &T| token.start(given.parameters, threads);
            guarded(|| "C_Initialize", || entry.initialize(start))
        }
        Err(code) => code,
    }
}

/// # Safety
///
/// None: the pointer is not followed.
pub unsafe fn C_Finalize<T: Token>(entry: &Entry<T>, reserved: *mut c_void) -> CK_RV {
    let stop = || if reserved.is_null() { entry.finalize(T::stop) } else { Err(Error::ArgumentsBad) };
    guarded(|| "C_Finalize", stop)
}
