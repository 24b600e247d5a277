//! The functions of the standard that do nothing yet, and the two of "Parallel function management" that never will.
//! None of them follows a pointer.

use std::ffi::c_void;

use cryptoki_sys::*;

use crate::call::always;

type Session = CK_SESSION_HANDLE;
type Object = CK_OBJECT_HANDLE;
type Mechanism = *mut CK_MECHANISM;
type Template = *mut CK_ATTRIBUTE;
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
    C_MessageEncryptInit(Session, Mechanism, Object);
    C_EncryptMessage(Session, *mut c_void, Length, Bytes, Length, Bytes, Length, Bytes, *mut CK_ULONG);
    C_EncryptMessageBegin(Session, *mut c_void, Length, Bytes, Length);
    C_EncryptMessageNext(Session, *mut c_void, Length, Bytes, Length, Bytes, *mut CK_ULONG, CK_FLAGS);
    C_MessageEncryptFinal(Session);
    C_MessageDecryptInit(Session, Mechanism, Object);
    C_DecryptMessage(Session, *mut c_void, Length, Bytes, Length, Bytes, Length, Bytes, *mut CK_ULONG);
    C_DecryptMessageBegin(Session, *mut c_void, Length, Bytes, Length);
    C_DecryptMessageNext(Session, *mut c_void, Length, Bytes, Length, Bytes, *mut CK_ULONG, CK_FLAGS);
    C_MessageDecryptFinal(Session);
    C_MessageSignInit(Session, Mechanism, Object);
    C_SignMessage(Session, *mut c_void, Length, Bytes, Length, Bytes, *mut CK_ULONG);
    C_SignMessageBegin(Session, *mut c_void, Length);
    C_SignMessageNext(Session, *mut c_void, Length, Bytes, Length, Bytes, *mut CK_ULONG);
    C_MessageSignFinal(Session);
    C_MessageVerifyInit(Session, Mechanism, Object);
    C_VerifyMessage(Session, *mut c_void, Length, Bytes, Length, Bytes, Length);
    C_VerifyMessageBegin(Session, *mut c_void, Length);
    C_VerifyMessageNext(Session, *mut c_void, Length, Bytes, Length, Bytes, Length);
    C_MessageVerifyFinal(Session);
    C_WrapKeyAuthenticated(Session, Mechanism, Object, Object, Bytes, Length, Bytes, *mut CK_ULONG);
    C_UnwrapKeyAuthenticated(Session, Mechanism, Object, Bytes, Length, Template, Length, Bytes, Length, *mut CK_OBJECT_HANDLE);
}
