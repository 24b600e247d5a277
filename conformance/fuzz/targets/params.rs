//! The parameters of mechanisms: functions that take a mechanism or the parameter of a message, and
//! functions that use or end the operation.

#![no_main]

const FUNCTIONS: [&str; 29] = [
    "C_EncryptInit",
    "C_DecryptInit",
    "C_DigestInit",
    "C_SignInit",
    "C_SignRecoverInit",
    "C_VerifyInit",
    "C_VerifyRecoverInit",
    "C_VerifySignatureInit",
    "C_GenerateKey",
    "C_WrapKey",
    "C_UnwrapKey",
    "C_DeriveKey",
    "C_EncapsulateKey",
    "C_DecapsulateKey",
    "C_WrapKeyAuthenticated",
    "C_UnwrapKeyAuthenticated",
    "C_MessageEncryptInit",
    "C_EncryptMessage",
    "C_EncryptMessageBegin",
    "C_EncryptMessageNext",
    "C_MessageDecryptInit",
    "C_DecryptMessage",
    "C_DecryptMessageBegin",
    "C_DecryptMessageNext",
    "C_MessageSignInit",
    "C_MessageVerifyInit",
    "C_Encrypt",
    "C_Sign",
    "C_SessionCancel",
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::Run::of(bytes, &FUNCTIONS));
