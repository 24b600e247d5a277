//! "Dual-function cryptographic functions".

use cryptoki_sys::{CK_BYTE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::token::{Function, Token};

use crate::call::Entry;
use crate::operation::function;

function!(transform C_DigestEncryptUpdate, digest_encrypt_update);
function!(transform C_DecryptDigestUpdate, decrypt_digest_update);
function!(transform C_SignEncryptUpdate, sign_encrypt_update);
function!(transform C_DecryptVerifyUpdate, decrypt_verify_update);
