//! `C_VerifySignature*` of "Functions for verifying signatures and MACs": the caller passes the
//! signature before the data.

use cryptoki_sys::*;
use jeton::session::{Operation, Session, VerifyingSignature};

use crate::call::call_in;
use crate::input::In;
use crate::number::{object, session};
use crate::operation::{cancel, consume};
use crate::params::mechanism;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignatureInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        if given.is_null() {
            return cancel(module, handle, verify_signature_operation);
        }
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { mechanism(given) }?;
        // SAFETY: the contract of PKCS#11 for pSignature.
        let signature = unsafe { In(signature, signature_len).bytes() }?;
        let key = object(key);
        let init = |session: &mut Session| session.verify_signature_init(&mechanism, key, signature);
        module.start(session(handle), "C_VerifySignatureInit", mechanism.info, key, init)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignature(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pData.
    unsafe { consume(handle, verify_signature_operation, In(data, data_len), Operation::verify_signature) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignatureUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pPart.
    unsafe { consume(handle, verify_signature_operation, In(part, part_len), Operation::update) }
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignatureFinal(handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| {
        module.with_session(session(handle), |session| {
            verify_signature_operation(session).verify_signature_final()
        })
    })
}

fn verify_signature_operation(session: &mut Session) -> &mut Operation<VerifyingSignature> {
    &mut session.operations.verify_signature
}
