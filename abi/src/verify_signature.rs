//! `C_VerifySignature*` of "Functions for verifying signatures and MACs": the caller passes the
//! signature before the data.

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::session::Operation;

use crate::call::call_session;
use crate::input::In;
use crate::number::object;
use crate::operation::{cancel, function};
use crate::params::mechanism;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignatureInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    call_session(handle, |session| {
        if given.is_null() {
            return cancel(&mut session.operations.verify_signature);
        }
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { mechanism(given) }?;
        // SAFETY: the contract of PKCS#11 for pSignature.
        let signature = unsafe { In(signature, signature_len).bytes() }?;
        session.start("C_VerifySignatureInit", &mechanism, object(key), |session, mechanism, key| {
            session.verify_signature_init(mechanism, key, signature)
        })
    })
}

function!(consume C_VerifySignature, verify_signature, Operation::verify_signature);
function!(consume C_VerifySignatureUpdate, verify_signature, Operation::update);

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignatureFinal(handle: CK_SESSION_HANDLE) -> CK_RV {
    call_session(handle, |session| session.operations.verify_signature.verify_signature_final())
}
