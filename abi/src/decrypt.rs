//! "Decryption functions". Data is copied for the core only if input and output overlap.

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::session::{Crypting, Operation, Session};

use crate::input::{In, Out};
use crate::operation::{init_crypting, produce, transform, update};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    unsafe { init_crypting(Direction::Decrypt, (handle, given, key), decrypt_operation) }
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
    unsafe { transform(handle, decrypt_operation, encrypted, data, Operation::crypt) }
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
    unsafe { update(Direction::Decrypt, handle, decrypt_operation, encrypted, part) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptFinal(
    handle: CK_SESSION_HANDLE,
    last: *mut CK_BYTE,
    last_len: *mut CK_ULONG,
) -> CK_RV {
    let last = Out(last, last_len);
    // SAFETY: the contract of PKCS#11 for pLastPart and its length.
    unsafe { produce(handle, decrypt_operation, last, Operation::crypt_final) }
}

pub(crate) fn decrypt_operation(session: &mut Session) -> &mut Operation<Crypting> {
    &mut session.operations.decrypt
}
