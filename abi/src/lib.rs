//! The C interface of PKCS#11 3.2 over a [`Token`](jeton_words::token::Token). [`module!`] makes
//! the exported functions of a shared object from it.
//!
//! Each file with functions of PKCS#11 implements a section of the specification's chapter
//! "Functions", a part of a section, or two sections that differ only in the direction. Each
//! function has only a few lines. It converts C memory to typed values (`input`, `params`), calls
//! the token, and converts the result to a `CK_RV` (`call`). The token implements sessions, objects
//! and tokens, without C pointers.
//!
//! # Safety
//!
//! Every function takes the pointers of its PKCS#11 declaration. The application guarantees that a
//! pointer other than `NULL` points to memory of the type and length in the call. This memory is
//! readable or writable as the specification says, and no other thread writes there until the call
//! returns. Alignment is not required, and input may overlap output. The `SAFETY` comments call
//! this *the contract of PKCS#11*.

#![allow(missing_docs, reason = "the specification describes the functions")]
#![allow(non_snake_case, reason = "the exported names are the specification's")]
#![allow(clippy::missing_safety_doc, reason = "the contract of PKCS#11 above holds for every function")]
#![allow(clippy::too_many_arguments, reason = "the specification's")]

mod call;
mod ck_ulong;
mod input;
mod module;
mod operation;
mod otp;
mod params;
#[cfg(any(windows, test))]
mod short_handles;
mod sync;

mod asynchronous;
mod crypt;
mod derive;
mod digest;
mod dual;
mod find;
mod info;
mod init;
mod kem;
mod key;
mod message;
mod object;
mod parallel;
mod random;
mod recover;
mod session;
mod sign;
mod slot;
mod verify;
mod verify_signature;
mod wrap;
mod wrap_authenticated;

pub use call::{Entry, Hooks};
#[cfg(unix)]
pub use module::at_fork;

pub use asynchronous::{C_AsyncComplete, C_AsyncGetID, C_AsyncJoin};
pub use crypt::{
    C_Decrypt, C_DecryptFinal, C_DecryptInit, C_DecryptUpdate, C_Encrypt, C_EncryptFinal, C_EncryptInit,
    C_EncryptUpdate,
};
pub use derive::C_DeriveKey;
pub use digest::{C_Digest, C_DigestFinal, C_DigestInit, C_DigestKey, C_DigestUpdate};
pub use dual::{C_DecryptDigestUpdate, C_DecryptVerifyUpdate, C_DigestEncryptUpdate, C_SignEncryptUpdate};
pub use find::{C_FindObjects, C_FindObjectsFinal, C_FindObjectsInit};
pub use info::C_GetInfo;
pub use init::{C_Finalize, C_Initialize};
pub use kem::{C_DecapsulateKey, C_EncapsulateKey};
pub use key::{C_GenerateKey, C_GenerateKeyPair};
pub use message::{
    C_DecryptMessage, C_DecryptMessageBegin, C_DecryptMessageNext, C_EncryptMessage, C_EncryptMessageBegin,
    C_EncryptMessageNext, C_MessageDecryptFinal, C_MessageDecryptInit, C_MessageEncryptFinal,
    C_MessageEncryptInit, C_MessageSignFinal, C_MessageSignInit, C_MessageVerifyFinal, C_MessageVerifyInit,
    C_SignMessage, C_SignMessageBegin, C_SignMessageNext, C_VerifyMessage, C_VerifyMessageBegin,
    C_VerifyMessageNext,
};
pub use object::{
    C_CopyObject, C_CreateObject, C_DestroyObject, C_GetAttributeValue, C_GetObjectSize, C_SetAttributeValue,
};
pub use parallel::{C_CancelFunction, C_GetFunctionStatus};
pub use random::{C_GenerateRandom, C_SeedRandom};
pub use recover::{C_SignRecover, C_SignRecoverInit, C_VerifyRecover, C_VerifyRecoverInit};
pub use session::{
    C_CloseAllSessions, C_CloseSession, C_GetOperationState, C_GetSessionInfo, C_GetSessionValidationFlags,
    C_Login, C_LoginUser, C_Logout, C_OpenSession, C_SessionCancel, C_SetOperationState,
};
pub use sign::{C_Sign, C_SignFinal, C_SignInit, C_SignUpdate};
pub use slot::{
    C_GetMechanismInfo, C_GetMechanismList, C_GetSlotInfo, C_GetSlotList, C_GetTokenInfo, C_InitPIN,
    C_InitToken, C_SetPIN, C_WaitForSlotEvent,
};
pub use verify::{C_Verify, C_VerifyFinal, C_VerifyInit, C_VerifyUpdate};
pub use verify_signature::{
    C_VerifySignature, C_VerifySignatureFinal, C_VerifySignatureInit, C_VerifySignatureUpdate,
};
pub use wrap::{C_UnwrapKey, C_WrapKey};
pub use wrap_authenticated::{C_UnwrapKeyAuthenticated, C_WrapKeyAuthenticated};

#[doc(hidden)]
pub use {cryptoki_sys, jeton_names};
