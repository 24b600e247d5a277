//! The functions of PKCS#11 3.2 with the kinds of their parameters, and the call of a function by
//! its name.

use cryptoki_sys::{CK_FUNCTION_LIST, CK_RV, CKR_FUNCTION_NOT_SUPPORTED};

use super::{Function, Kind};
use crate::Module;

const fn kind(letter: &str) -> Kind {
    match letter.as_bytes() {
        b"n" => Kind::Number,
        b"b" => Kind::Bytes,
        b"f" => Kind::Fill,
        b"h" => Kind::Handles,
        b"o" => Kind::Buffer,
        b"l" => Kind::List,
        b"t" => Kind::Template,
        b"m" => Kind::Mechanism,
        b"p" => Kind::Output,
        b"x" => Kind::Callback,
        b"." => Kind::Length,
        _ => panic!("a letter without a kind"),
    }
}

macro_rules! word {
    (x $next:ident) => {
        None
    };
    ($kind:tt $next:ident) => {
        $next() as _
    };
}

/// Lists each function once: its function list, its name, and the kind of each parameter. The
/// function `kind` explains the letters and the dot.
macro_rules! functions {
    ($($list:ident { $($name:ident($($kind:tt)*);)* })*) => {
        /// The functions of PKCS#11 3.2, in the order of its headers.
        pub const FUNCTIONS: &[Function] = &[
            $($(Function { name: stringify!($name), parameters: &[$(kind(stringify!($kind))),*] },)*)*
        ];

        impl Module {
            pub(super) fn dispatch(&self, function: &str, words: &[usize]) -> CK_RV {
                let mut words = words.iter().copied();
                let mut next = || words.next().unwrap_or(0);
                match function {
                    $($(stringify!($name) => match self.$list().and_then(|list| list.$name) {
                        // SAFETY: `call` checked that every word has the kind of its parameter, and
                        // keeps its memory alive. `Structure` guarantees that the addresses in a
                        // structure are valid.
                        Some(entry) => unsafe { entry($(word!($kind next)),*) },
                        None => CKR_FUNCTION_NOT_SUPPORTED,
                    },)*)*
                    _ => CKR_FUNCTION_NOT_SUPPORTED,
                }
            }

            fn functions_2_40(&self) -> Option<&CK_FUNCTION_LIST> {
                Some(self.functions())
            }
        }
    };
}

functions! {
    functions_2_40 {
        C_Initialize(p);
        C_Finalize(p);
        C_GetInfo(p);
        C_GetFunctionList(p);
        C_GetSlotList(n l .);
        C_GetSlotInfo(n p);
        C_GetTokenInfo(n p);
        C_GetMechanismList(n l .);
        C_GetMechanismInfo(n n p);
        C_InitToken(n b . p);
        C_InitPIN(n b .);
        C_SetPIN(n b . b .);
        C_OpenSession(n n p x p);
        C_CloseSession(n);
        C_CloseAllSessions(n);
        C_GetSessionInfo(n p);
        C_GetOperationState(n o .);
        C_SetOperationState(n b . n n);
        C_Login(n n b .);
        C_Logout(n);
        C_CreateObject(n t . p);
        C_CopyObject(n n t . p);
        C_DestroyObject(n n);
        C_GetObjectSize(n n p);
        C_GetAttributeValue(n n t .);
        C_SetAttributeValue(n n t .);
        C_FindObjectsInit(n t .);
        C_FindObjects(n h . p);
        C_FindObjectsFinal(n);
        C_EncryptInit(n m n);
        C_Encrypt(n b . o .);
        C_EncryptUpdate(n b . o .);
        C_EncryptFinal(n o .);
        C_DecryptInit(n m n);
        C_Decrypt(n b . o .);
        C_DecryptUpdate(n b . o .);
        C_DecryptFinal(n o .);
        C_DigestInit(n m);
        C_Digest(n b . o .);
        C_DigestUpdate(n b .);
        C_DigestKey(n n);
        C_DigestFinal(n o .);
        C_SignInit(n m n);
        C_Sign(n b . o .);
        C_SignUpdate(n b .);
        C_SignFinal(n o .);
        C_SignRecoverInit(n m n);
        C_SignRecover(n b . o .);
        C_VerifyInit(n m n);
        C_Verify(n b . b .);
        C_VerifyUpdate(n b .);
        C_VerifyFinal(n b .);
        C_VerifyRecoverInit(n m n);
        C_VerifyRecover(n b . o .);
        C_DigestEncryptUpdate(n b . o .);
        C_DecryptDigestUpdate(n b . o .);
        C_SignEncryptUpdate(n b . o .);
        C_DecryptVerifyUpdate(n b . o .);
        C_GenerateKey(n m t . p);
        C_GenerateKeyPair(n m t . t . p p);
        C_WrapKey(n m n n o .);
        C_UnwrapKey(n m n b . t . p);
        C_DeriveKey(n m n t . p);
        C_SeedRandom(n b .);
        C_GenerateRandom(n f .);
        C_GetFunctionStatus(n);
        C_CancelFunction(n);
        C_WaitForSlotEvent(n p p);
    }
    functions_3_0 {
        C_GetInterfaceList(l .);
        C_GetInterface(p p p n);
        C_LoginUser(n n b . b .);
        C_SessionCancel(n n);
        C_MessageEncryptInit(n m n);
        C_EncryptMessage(n b . b . b . o .);
        C_EncryptMessageBegin(n b . b .);
        C_EncryptMessageNext(n b . b . o . n);
        C_MessageEncryptFinal(n);
        C_MessageDecryptInit(n m n);
        C_DecryptMessage(n b . b . b . o .);
        C_DecryptMessageBegin(n b . b .);
        C_DecryptMessageNext(n b . b . o . n);
        C_MessageDecryptFinal(n);
        C_MessageSignInit(n m n);
        C_SignMessage(n b . b . o .);
        C_SignMessageBegin(n b .);
        C_SignMessageNext(n b . b . o .);
        C_MessageSignFinal(n);
        C_MessageVerifyInit(n m n);
        C_VerifyMessage(n b . b . b .);
        C_VerifyMessageBegin(n b .);
        C_VerifyMessageNext(n b . b . b .);
        C_MessageVerifyFinal(n);
    }
    functions_3_2 {
        C_EncapsulateKey(n m n t . o . p);
        C_DecapsulateKey(n m n t . b . p);
        C_VerifySignatureInit(n m n b .);
        C_VerifySignature(n b .);
        C_VerifySignatureUpdate(n b .);
        C_VerifySignatureFinal(n);
        C_GetSessionValidationFlags(n n p);
        C_AsyncComplete(n p p);
        C_AsyncGetID(n p p);
        C_AsyncJoin(n p n b .);
        C_WrapKeyAuthenticated(n m n n b . o .);
        C_UnwrapKeyAuthenticated(n m n b . t . b . p);
    }
}
