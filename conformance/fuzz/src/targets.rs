//! The fuzz targets by name. The programs in `targets/` pass them to the fuzz engine, and the test
//! `corpus` passes them every file of their corpora.

use crate::{backup, calls, frames, import, migrate, signatures, store};

/// A target: its name, which is also the name of its corpus, and the function that reads an input.
pub type Target = (&'static str, fn(&[u8]));

pub const ALL: [Target; 9] = [
    ("abi", abi),
    ("params", params),
    ("template", template),
    ("store", store::read),
    ("import", import::read),
    ("migrate", migrate::read),
    ("backup", backup::read),
    ("frames", frames::read),
    ("signatures", signatures::read),
];

/// Functions that take a mechanism or the parameter of a message, and functions that use or end the
/// operation.
pub(crate) const PARAMETERS: &str = "C_EncryptInit C_DecryptInit C_DigestInit C_SignInit C_SignRecoverInit \
    C_VerifyInit C_VerifyRecoverInit C_VerifySignatureInit C_GenerateKey C_WrapKey C_UnwrapKey C_DeriveKey \
    C_EncapsulateKey C_DecapsulateKey C_WrapKeyAuthenticated C_UnwrapKeyAuthenticated C_MessageEncryptInit \
    C_EncryptMessage C_EncryptMessageBegin C_EncryptMessageNext C_MessageDecryptInit C_DecryptMessage \
    C_DecryptMessageBegin C_DecryptMessageNext C_MessageSignInit C_MessageVerifyInit C_Encrypt C_Sign \
    C_SessionCancel";

/// The functions that create, copy, change, find and read objects.
pub(crate) const TEMPLATES: &str = "C_CreateObject C_CopyObject C_SetAttributeValue C_GetAttributeValue \
    C_FindObjectsInit C_FindObjects C_FindObjectsFinal C_GetObjectSize";

/// Makes calls of all functions in the table `calls::ALL`.
pub fn abi(bytes: &[u8]) {
    calls::run(bytes, "");
}

/// Makes calls with mechanisms and parameters.
pub fn params(bytes: &[u8]) {
    calls::run(bytes, PARAMETERS);
}

pub fn template(bytes: &[u8]) {
    calls::run(bytes, TEMPLATES);
}
