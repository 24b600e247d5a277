//! "Dual-function cryptographic functions".
//!
//! Bad arguments end the encryption or decryption, as in `C_EncryptUpdate` and `C_DecryptUpdate`.
//! The digest, signature or verification continues, because it received no data (PKCS#11 3.2,
//! C_DigestEncryptUpdate: if a call does not produce output, "then no plaintext is passed to the
//! active digest operation").

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::session::Session;

use crate::call::call_session;
use crate::input::{In, Out};
use crate::operation::update;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestEncryptUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
    encrypted: *mut CK_BYTE,
    encrypted_len: *mut CK_ULONG,
) -> CK_RV {
    let (part, encrypted) = (In(part, part_len), Out(encrypted, encrypted_len));
    // SAFETY: the contract of PKCS#11 for pPart and pEncryptedPart with their lengths.
    call_session(handle, |session| unsafe {
        update(session, Direction::Encrypt, part, encrypted, Session::digest_encrypt_update)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptDigestUpdate(
    handle: CK_SESSION_HANDLE,
    encrypted: *mut CK_BYTE,
    encrypted_len: CK_ULONG,
    part: *mut CK_BYTE,
    part_len: *mut CK_ULONG,
) -> CK_RV {
    let (encrypted, part) = (In(encrypted, encrypted_len), Out(part, part_len));
    // SAFETY: the contract of PKCS#11 for pEncryptedPart and pPart with their lengths.
    call_session(handle, |session| unsafe {
        update(session, Direction::Decrypt, encrypted, part, Session::decrypt_digest_update)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignEncryptUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
    encrypted: *mut CK_BYTE,
    encrypted_len: *mut CK_ULONG,
) -> CK_RV {
    let (part, encrypted) = (In(part, part_len), Out(encrypted, encrypted_len));
    // SAFETY: the contract of PKCS#11 for pPart and pEncryptedPart with their lengths.
    call_session(handle, |session| unsafe {
        update(session, Direction::Encrypt, part, encrypted, Session::sign_encrypt_update)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptVerifyUpdate(
    handle: CK_SESSION_HANDLE,
    encrypted: *mut CK_BYTE,
    encrypted_len: CK_ULONG,
    part: *mut CK_BYTE,
    part_len: *mut CK_ULONG,
) -> CK_RV {
    let (encrypted, part) = (In(encrypted, encrypted_len), Out(part, part_len));
    // SAFETY: the contract of PKCS#11 for pEncryptedPart and pPart with their lengths.
    call_session(handle, |session| unsafe {
        update(session, Direction::Decrypt, encrypted, part, Session::decrypt_verify_update)
    })
}
