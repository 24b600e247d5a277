//! The function lists and interfaces.

use cryptoki_sys::CK_FUNCTION_LIST_3_2;

use crate::asynchronous::{C_AsyncComplete, C_AsyncGetID, C_AsyncJoin};
use crate::crypt::{
    C_Decrypt, C_DecryptFinal, C_DecryptInit, C_DecryptUpdate, C_Encrypt, C_EncryptFinal, C_EncryptInit,
    C_EncryptUpdate,
};
use crate::derive::C_DeriveKey;
use crate::digest::{C_Digest, C_DigestFinal, C_DigestInit, C_DigestKey, C_DigestUpdate};
use crate::dual::{C_DecryptDigestUpdate, C_DecryptVerifyUpdate, C_DigestEncryptUpdate, C_SignEncryptUpdate};
use crate::find::{C_FindObjects, C_FindObjectsFinal, C_FindObjectsInit};
use crate::info::C_GetInfo;
use crate::init::{C_Finalize, C_Initialize};
use crate::kem::{C_DecapsulateKey, C_EncapsulateKey};
use crate::key::{C_GenerateKey, C_GenerateKeyPair};
use crate::message::{
    C_DecryptMessage, C_DecryptMessageBegin, C_DecryptMessageNext, C_EncryptMessage, C_EncryptMessageBegin,
    C_EncryptMessageNext, C_MessageDecryptFinal, C_MessageDecryptInit, C_MessageEncryptFinal,
    C_MessageEncryptInit, C_MessageSignFinal, C_MessageSignInit, C_MessageVerifyFinal, C_MessageVerifyInit,
    C_SignMessage, C_SignMessageBegin, C_SignMessageNext, C_VerifyMessage, C_VerifyMessageBegin,
    C_VerifyMessageNext,
};
use crate::object::{
    C_CopyObject, C_CreateObject, C_DestroyObject, C_GetAttributeValue, C_GetObjectSize, C_SetAttributeValue,
};
use crate::parallel::{C_CancelFunction, C_GetFunctionStatus};
use crate::random::{C_GenerateRandom, C_SeedRandom};
use crate::recover::{C_SignRecover, C_SignRecoverInit, C_VerifyRecover, C_VerifyRecoverInit};
use crate::session::{
    C_CloseAllSessions, C_CloseSession, C_GetOperationState, C_GetSessionInfo, C_GetSessionValidationFlags,
    C_Login, C_LoginUser, C_Logout, C_OpenSession, C_SessionCancel, C_SetOperationState,
};
use crate::sign::{C_Sign, C_SignFinal, C_SignInit, C_SignUpdate};
use crate::slot::{
    C_GetMechanismInfo, C_GetMechanismList, C_GetSlotInfo, C_GetSlotList, C_GetTokenInfo, C_InitPIN,
    C_InitToken, C_SetPIN, C_WaitForSlotEvent,
};
use crate::verify::{C_Verify, C_VerifyFinal, C_VerifyInit, C_VerifyUpdate};
use crate::verify_signature::{
    C_VerifySignature, C_VerifySignatureFinal, C_VerifySignatureInit, C_VerifySignatureUpdate,
};
use crate::wrap::{C_UnwrapKey, C_WrapKey};
use crate::wrap_authenticated::{C_UnwrapKeyAuthenticated, C_WrapKeyAuthenticated};

jeton_names::function_lists!();

/// Returns the functions of PKCS#11 3.2, for programs that link this library.
pub fn functions() -> &'static CK_FUNCTION_LIST_3_2 {
    &LIST_3_2
}
