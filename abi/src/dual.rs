//! "Dual-function cryptographic functions".
//!
//! Bad arguments end the encryption or decryption, as in `C_EncryptUpdate` and `C_DecryptUpdate`.
//! The digest, signature or verification continues, because it received no data (PKCS#11 3.2,
//! C_DigestEncryptUpdate: if a call does not produce output, "then no plaintext is passed to the
//! active digest operation").

use cryptoki_sys::{CK_BYTE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::backend::Direction;
use jeton::session::Session;

use crate::operation::function;

function!(update C_DigestEncryptUpdate, Direction::Encrypt, Session::digest_encrypt_update);
function!(update C_DecryptDigestUpdate, Direction::Decrypt, Session::decrypt_digest_update);
function!(update C_SignEncryptUpdate, Direction::Encrypt, Session::sign_encrypt_update);
function!(update C_DecryptVerifyUpdate, Direction::Decrypt, Session::decrypt_verify_update);
