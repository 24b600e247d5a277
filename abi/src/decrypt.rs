//! "Decryption functions". Data is copied for the core only if input and output overlap.

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::session::Operation;

use crate::call::call_session;
use crate::input::{In, Out};
use crate::operation::{init_crypting, produce, transform, update};

const DIRECTION: Direction = Direction::Decrypt;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    call_session(handle, |session| unsafe { init_crypting(session, DIRECTION, given, key) })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Decrypt(
    handle: CK_SESSION_HANDLE,
    encrypted: *mut CK_BYTE,
    encrypted_len: CK_ULONG,
    data: *mut CK_BYTE,
    data_len: *mut CK_ULONG,
) -> CK_RV {
    let (encrypted, data) = (In(encrypted, encrypted_len), Out(data, data_len));
    // SAFETY: the contract of PKCS#11 for pEncryptedData and pData with their lengths.
    call_session(handle, |session| unsafe {
        transform(&mut session.operations.decrypt, encrypted, data, Operation::crypt)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptUpdate(
    handle: CK_SESSION_HANDLE,
    encrypted: *mut CK_BYTE,
    encrypted_len: CK_ULONG,
    part: *mut CK_BYTE,
    part_len: *mut CK_ULONG,
) -> CK_RV {
    let (encrypted, part) = (In(encrypted, encrypted_len), Out(part, part_len));
    // SAFETY: the contract of PKCS#11 for pEncryptedPart and pPart with their lengths.
    call_session(handle, |session| unsafe {
        update(session, DIRECTION, encrypted, part, |session, part, out| {
            session.crypt_update(DIRECTION, part, out)
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptFinal(
    handle: CK_SESSION_HANDLE,
    last: *mut CK_BYTE,
    last_len: *mut CK_ULONG,
) -> CK_RV {
    let last = Out(last, last_len);
    // SAFETY: the contract of PKCS#11 for pLastPart and its length.
    call_session(handle, |session| unsafe {
        produce(&mut session.operations.decrypt, last, Operation::crypt_final)
    })
}
