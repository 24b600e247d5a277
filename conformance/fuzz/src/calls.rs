//! The functions of the standard, with the methods of [`Run`] that make their arguments. The
//! methods run in the order of the arguments, so that a length follows its pointer.

use std::cell::RefCell;

use crate::run::{Call, Run};
use crate::token::Token;

thread_local! {
    static TOKEN: RefCell<Token> = RefCell::new(Token::new(true));
}

macro_rules! calls {
    ($($name:ident($($kind:ident),*))*) => {
        [$((stringify!($name), |run| {
            let function = run.token.list.$name.expect("an entry");
            $crate::calls::arguments!(run, function, [$($kind)*] [])
        })),*]
    };
}

/// The arguments are made before the call, in order.
macro_rules! arguments {
    ($run:ident, $function:ident, [] [$($value:ident)*]) => {{
        $run.before();
        // SAFETY: the contract of PKCS#11: each pointer other than NULL points to memory of its
        // length.
        unsafe { $function($($value),*) }
    }};
    ($run:ident, $function:ident, [$kind:ident $($more:ident)*] [$($value:ident)*]) => {{
        let value = $run.$kind();
        $crate::calls::arguments!($run, $function, [$($more)*] [$($value)* value])
    }};
}
pub(crate) use arguments;

/// All functions except `C_GetInterfaceList` and `C_GetInterface`, which tests call.
const ALL: [Call; 102] = calls! {
    C_Initialize(start)
    C_Finalize(nothing)
    C_GetInfo(info)
    C_GetFunctionList(info)
    C_GetSlotList(flag, numbers, room_len)
    C_GetSlotInfo(slot, info)
    C_GetTokenInfo(slot, info)
    C_GetMechanismList(slot, numbers, room_len)
    C_GetMechanismInfo(slot, mechanism_number, info)
    C_InitToken(slot, pin, len, label)
    C_InitPIN(session, pin, len)
    C_SetPIN(session, pin, len, pin, len)
    C_OpenSession(slot, opening, nothing, no_callback, handle)
    C_CloseSession(session)
    C_CloseAllSessions(slot)
    C_GetSessionInfo(session, info)
    C_GetOperationState(session, state_room, room_len)
    C_SetOperationState(session, state, len, object, object)
    C_Login(session, user, pin, len)
    C_Logout(session)
    C_CreateObject(session, attributes, len, handle)
    C_CopyObject(session, object, attributes, len, handle)
    C_DestroyObject(session, object)
    C_GetObjectSize(session, object, info)
    C_GetAttributeValue(session, object, questions, len)
    C_SetAttributeValue(session, object, attributes, len)
    C_FindObjectsInit(session, attributes, len)
    C_FindObjects(session, numbers, len, info)
    C_FindObjectsFinal(session)
    C_EncryptInit(session, mechanism, object)
    C_Encrypt(session, bytes, len, room, room_len)
    C_EncryptUpdate(session, bytes, len, room, room_len)
    C_EncryptFinal(session, room, room_len)
    C_DecryptInit(session, mechanism, object)
    C_Decrypt(session, bytes, len, room, room_len)
    C_DecryptUpdate(session, bytes, len, room, room_len)
    C_DecryptFinal(session, room, room_len)
    C_DigestInit(session, mechanism)
    C_Digest(session, bytes, len, room, room_len)
    C_DigestUpdate(session, bytes, len)
    C_DigestKey(session, object)
    C_DigestFinal(session, room, room_len)
    C_SignInit(session, mechanism, object)
    C_Sign(session, bytes, len, room, room_len)
    C_SignUpdate(session, bytes, len)
    C_SignFinal(session, room, room_len)
    C_SignRecoverInit(session, mechanism, object)
    C_SignRecover(session, bytes, len, room, room_len)
    C_VerifyInit(session, mechanism, object)
    C_Verify(session, bytes, len, bytes, len)
    C_VerifyUpdate(session, bytes, len)
    C_VerifyFinal(session, bytes, len)
    C_VerifyRecoverInit(session, mechanism, object)
    C_VerifyRecover(session, bytes, len, room, room_len)
    C_DigestEncryptUpdate(session, bytes, len, room, room_len)
    C_DecryptDigestUpdate(session, bytes, len, room, room_len)
    C_SignEncryptUpdate(session, bytes, len, room, room_len)
    C_DecryptVerifyUpdate(session, bytes, len, room, room_len)
    C_GenerateKey(session, mechanism, attributes, len, handle)
    C_GenerateKeyPair(session, mechanism, attributes, len, attributes, len, handle, handle)
    C_WrapKey(session, mechanism, object, object, room, room_len)
    C_UnwrapKey(session, mechanism, object, bytes, len, attributes, len, handle)
    C_DeriveKey(session, mechanism, object, attributes, len, handle)
    C_SeedRandom(session, bytes, len)
    C_GenerateRandom(session, bytes, len)
    C_GetFunctionStatus(session)
    C_CancelFunction(session)
    C_WaitForSlotEvent(at_once, info, nothing)
    C_LoginUser(session, user, pin, len, bytes, len)
    C_SessionCancel(session, number)
    C_MessageEncryptInit(session, message_mechanism, object)
    C_EncryptMessage(session, parameter, len, bytes, len, bytes, len, room, room_len)
    C_EncryptMessageBegin(session, parameter, len, bytes, len)
    C_EncryptMessageNext(session, parameter, len, bytes, len, room, room_len, number)
    C_MessageEncryptFinal(session)
    C_MessageDecryptInit(session, message_mechanism, object)
    C_DecryptMessage(session, parameter, len, bytes, len, bytes, len, room, room_len)
    C_DecryptMessageBegin(session, parameter, len, bytes, len)
    C_DecryptMessageNext(session, parameter, len, bytes, len, room, room_len, number)
    C_MessageDecryptFinal(session)
    C_MessageSignInit(session, mechanism, object)
    C_SignMessage(session, parameter, len, bytes, len, room, room_len)
    C_SignMessageBegin(session, parameter, len)
    C_SignMessageNext(session, parameter, len, bytes, len, room, room_len)
    C_MessageSignFinal(session)
    C_MessageVerifyInit(session, mechanism, object)
    C_VerifyMessage(session, parameter, len, bytes, len, bytes, len)
    C_VerifyMessageBegin(session, parameter, len)
    C_VerifyMessageNext(session, parameter, len, bytes, len, bytes, len)
    C_MessageVerifyFinal(session)
    C_EncapsulateKey(session, mechanism, object, attributes, len, room, room_len, handle)
    C_DecapsulateKey(session, mechanism, object, attributes, len, bytes, len, handle)
    C_VerifySignatureInit(session, mechanism, object, bytes, len)
    C_VerifySignature(session, bytes, len)
    C_VerifySignatureUpdate(session, bytes, len)
    C_VerifySignatureFinal(session)
    C_GetSessionValidationFlags(session, number, info)
    C_AsyncComplete(session, name, info)
    C_AsyncGetID(session, name, info)
    C_AsyncJoin(session, name, number, bytes, len)
    C_WrapKeyAuthenticated(session, wrapping_mechanism, object, object, bytes, len, room, room_len)
    C_UnwrapKeyAuthenticated(session, wrapping_mechanism, object, bytes, len, attributes, len, bytes, len, handle)
};

/// Makes the calls that `bytes` describe, with the functions named in `wanted`, or with all
/// functions if it is empty.
pub fn run(bytes: &[u8], wanted: &str) {
    TOKEN.with_borrow_mut(|token| Run::of(bytes, &named(wanted), token, None));
}

/// Returns the functions named in `wanted`, or all functions if it is empty.
pub(crate) fn named(wanted: &str) -> Vec<&'static Call> {
    let is_wanted = |name| wanted.is_empty() || wanted.split_whitespace().any(|one| one == name);
    ALL.iter().filter(|call| is_wanted(call.0)).collect()
}
