//! "Encryption functions". Data is copied for the core only if input and output overlap.

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::session::{Crypting, Operation, Session};

use crate::input::{In, Out};
use crate::operation::{init_crypting, produce, transform, update};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_EncryptInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    unsafe { init_crypting(Direction::Encrypt, (handle, given, key), encrypt_operation) }
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
    unsafe { transform(handle, encrypt_operation, data, encrypted, Operation::crypt) }
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
    unsafe { update(Direction::Encrypt, handle, encrypt_operation, part, encrypted) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_EncryptFinal(
    handle: CK_SESSION_HANDLE,
    last: *mut CK_BYTE,
    last_len: *mut CK_ULONG,
) -> CK_RV {
    let last = Out(last, last_len);
    // SAFETY: the contract of PKCS#11 for pLastEncryptedPart and its length.
    unsafe { produce(handle, encrypt_operation, last, Operation::crypt_final) }
}

pub(crate) fn encrypt_operation(session: &mut Session) -> &mut Operation<Crypting> {
    &mut session.operations.encrypt
}
