//! The functions of the standard that do nothing yet, and the two of "Parallel function management" that never will.
//! None of them follows a pointer.

use cryptoki_sys::*;

use crate::call::always;

type Session = CK_SESSION_HANDLE;
type Object = CK_OBJECT_HANDLE;
type Bytes = *mut CK_BYTE;
type Length = CK_ULONG;

/// Functions with one answer, by name and type.
macro_rules! answers {
    ($answer:ident: $($name:ident($($type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($(_: $type),*) -> CK_RV {
                always($answer)
            }
        )*
    };
}

answers! { CKR_FUNCTION_NOT_PARALLEL:
    C_GetFunctionStatus(Session);
    C_CancelFunction(Session);
}

answers! { CKR_FUNCTION_NOT_SUPPORTED:
    C_GetOperationState(Session, Bytes, *mut CK_ULONG);
    C_SetOperationState(Session, Bytes, Length, Object, Object);
    C_LoginUser(Session, CK_USER_TYPE, *mut CK_UTF8CHAR, Length, *mut CK_UTF8CHAR, Length);
    C_GetSessionValidationFlags(Session, CK_SESSION_VALIDATION_FLAGS_TYPE, *mut CK_FLAGS);
    C_AsyncComplete(Session, *mut CK_UTF8CHAR, *mut CK_ASYNC_DATA);
    C_AsyncGetID(Session, *mut CK_UTF8CHAR, *mut CK_ULONG);
    C_AsyncJoin(Session, *mut CK_UTF8CHAR, Length, Bytes, Length);
}
