//! "Encryption functions". Data is copied for the core only if input and output overlap.

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::session::Operation;

use crate::call::call_session;
use crate::input::{In, Out};
use crate::operation::{init_crypting, produce, transform, update};

const DIRECTION: Direction = Direction::Encrypt;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_EncryptInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    call_session(handle, |session| unsafe { init_crypting(session, DIRECTION, given, key) })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Encrypt(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    encrypted: *mut CK_BYTE,
    encrypted_len: *mut CK_ULONG,
) -> CK_RV {
    let (data, encrypted) = (In(data, data_len), Out(encrypted, encrypted_len));
    // SAFETY: the contract of PKCS#11 for pData and pEncryptedData with their lengths.
    call_session(handle, |session| unsafe {
        transform(&mut session.operations.encrypt, data, encrypted, Operation::crypt)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_EncryptUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
    encrypted: *mut CK_BYTE,
    encrypted_len: *mut CK_ULONG,
) -> CK_RV {
    let (part, encrypted) = (In(part, part_len), Out(encrypted, encrypted_len));
    // SAFETY: the contract of PKCS#11 for pPart and pEncryptedPart with their lengths.
    call_session(handle, |session| unsafe {
        update(session, DIRECTION, part, encrypted, |session, part, out| {
            session.crypt_update(DIRECTION, part, out)
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_EncryptFinal(
    handle: CK_SESSION_HANDLE,
    last: *mut CK_BYTE,
    last_len: *mut CK_ULONG,
) -> CK_RV {
    let last = Out(last, last_len);
    // SAFETY: the contract of PKCS#11 for pLastEncryptedPart and its length.
    call_session(handle, |session| unsafe {
        produce(&mut session.operations.encrypt, last, Operation::crypt_final)
    })
}
