//! The function lists and interfaces. Each name appears once, in the order of the specification's
//! headers.

use std::ffi::{CStr, c_void};
use std::ptr::from_ref;

use cryptoki_sys::*;
use jeton::error::Error;

use crate::asynchronous::*;
use crate::call::guarded;
use crate::crypt::*;
use crate::derive::*;
use crate::digest::*;
use crate::dual::*;
use crate::find::*;
use crate::info::C_GetInfo;
use crate::init::*;
use crate::input::{Place, list};
use crate::kem::*;
use crate::key::*;
use crate::message::*;
use crate::object::*;
use crate::parallel::*;
use crate::random::*;
use crate::recover::*;
use crate::session::*;
use crate::sign::*;
use crate::slot::*;
use crate::verify::*;
use crate::verify_signature::*;
use crate::wrap::*;
use crate::wrap_authenticated::*;

/// The name of the standard's interfaces (PKCS#11 3.2, CK_INTERFACE).
const STANDARD: &CStr = c"PKCS 11";

/// Each list extends the previous one. The compiler rejects a missing or a repeated name.
macro_rules! lists {
    (2.40 { $($first:ident)* } 3.0 { $($second:ident)* } 3.2 { $($third:ident)* }) => {
        static LIST_2_40: CK_FUNCTION_LIST = CK_FUNCTION_LIST {
            version: CK_VERSION { major: 2, minor: 40 },
            $($first: Some($first),)*
        };
        static LIST_3_0: CK_FUNCTION_LIST_3_0 = CK_FUNCTION_LIST_3_0 {
            version: CK_VERSION { major: 3, minor: 0 },
            $($first: Some($first),)* $($second: Some($second),)*
        };
        static LIST_3_2: CK_FUNCTION_LIST_3_2 = CK_FUNCTION_LIST_3_2 {
            version: CK_VERSION { major: 3, minor: 2 },
            $($first: Some($first),)* $($second: Some($second),)* $($third: Some($third),)*
        };
    };
}

lists! {
    2.40 {
        C_Initialize C_Finalize C_GetInfo C_GetFunctionList C_GetSlotList C_GetSlotInfo C_GetTokenInfo
        C_GetMechanismList C_GetMechanismInfo C_InitToken C_InitPIN C_SetPIN C_OpenSession C_CloseSession
        C_CloseAllSessions C_GetSessionInfo C_GetOperationState C_SetOperationState C_Login C_Logout
        C_CreateObject C_CopyObject C_DestroyObject C_GetObjectSize C_GetAttributeValue
        C_SetAttributeValue C_FindObjectsInit C_FindObjects C_FindObjectsFinal C_EncryptInit C_Encrypt
        C_EncryptUpdate C_EncryptFinal C_DecryptInit C_Decrypt C_DecryptUpdate C_DecryptFinal C_DigestInit
        C_Digest C_DigestUpdate C_DigestKey C_DigestFinal C_SignInit C_Sign C_SignUpdate C_SignFinal
        C_SignRecoverInit C_SignRecover C_VerifyInit C_Verify C_VerifyUpdate C_VerifyFinal
        C_VerifyRecoverInit C_VerifyRecover C_DigestEncryptUpdate C_DecryptDigestUpdate
        C_SignEncryptUpdate C_DecryptVerifyUpdate C_GenerateKey C_GenerateKeyPair C_WrapKey C_UnwrapKey
        C_DeriveKey C_SeedRandom C_GenerateRandom C_GetFunctionStatus C_CancelFunction C_WaitForSlotEvent
    }
    3.0 {
        C_GetInterfaceList C_GetInterface C_LoginUser C_SessionCancel C_MessageEncryptInit
        C_EncryptMessage C_EncryptMessageBegin C_EncryptMessageNext C_MessageEncryptFinal
        C_MessageDecryptInit C_DecryptMessage C_DecryptMessageBegin C_DecryptMessageNext
        C_MessageDecryptFinal C_MessageSignInit C_SignMessage C_SignMessageBegin C_SignMessageNext
        C_MessageSignFinal C_MessageVerifyInit C_VerifyMessage C_VerifyMessageBegin C_VerifyMessageNext
        C_MessageVerifyFinal
    }
    3.2 {
        C_EncapsulateKey C_DecapsulateKey C_VerifySignatureInit C_VerifySignature C_VerifySignatureUpdate
        C_VerifySignatureFinal C_GetSessionValidationFlags C_AsyncComplete C_AsyncGetID C_AsyncJoin
        C_WrapKeyAuthenticated C_UnwrapKeyAuthenticated
    }
}

/// The interfaces, the default first. No flag is set: `CKF_INTERFACE_FORK_SAFE` promises that a
/// forked child continues with copies of its parent's sessions and logins. Here a child starts
/// without them.
static INTERFACES: Interfaces = Interfaces([
    standard(from_ref(&LIST_3_2).cast()),
    standard(from_ref(&LIST_3_0).cast()),
    standard(from_ref(&LIST_2_40).cast()),
]);

/// Returns the functions of PKCS#11 3.2, for programs that link this library.
pub fn functions() -> &'static CK_FUNCTION_LIST_3_2 {
    &LIST_3_2
}

struct Interfaces([CK_INTERFACE; 3]);

// SAFETY: the pointers point to constants of this library. PKCS#11 3.2, C_GetInterface: "no attempt
// should be made to write to this memory".
unsafe impl Sync for Interfaces {}

const fn standard(functions: *const c_void) -> CK_INTERFACE {
    CK_INTERFACE {
        pInterfaceName: STANDARD.as_ptr().cast_mut().cast(),
        pFunctionList: functions.cast_mut(),
        flags: 0,
    }
}

/// Returns the function list of PKCS#11 2.40. May be called before `C_Initialize`.
///
/// # Safety
///
/// `functions` is `NULL` or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetFunctionList(functions: *mut *mut CK_FUNCTION_LIST) -> CK_RV {
    guarded(|| {
        let place = Place::at(functions)?;
        // SAFETY: the contract of PKCS#11 for ppFunctionList.
        unsafe { place.put(from_ref(&LIST_2_40).cast_mut()) };
        Ok(())
    })
}

/// Returns the interfaces of this module, the newest first. May be called before `C_Initialize`.
///
/// # Safety
///
/// `count` is `NULL` or readable and writable; `interfaces` is `NULL` or writable for `*count`
/// interfaces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetInterfaceList(interfaces: *mut CK_INTERFACE, count: *mut CK_ULONG) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pInterfaceList and pulCount.
    guarded(|| unsafe { list(interfaces, count, INTERFACES.0.iter().copied()) })
}

/// Returns the first interface with this name, version and flags. May be called before
/// `C_Initialize`.
///
/// # Safety
///
/// `name` is `NULL` or ends with NUL, `version` is `NULL` or readable, `interface` is `NULL` or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetInterface(
    name: *mut CK_UTF8CHAR,
    version: *mut CK_VERSION,
    interface: *mut *mut CK_INTERFACE,
    flags: CK_FLAGS,
) -> CK_RV {
    guarded(|| {
        let place = Place::at(interface)?;
        // SAFETY: the contract of PKCS#11 for pInterfaceName; not null.
        let named = name.is_null() || unsafe { CStr::from_ptr(name.cast()) } == STANDARD;
        // SAFETY: the contract of PKCS#11 for pVersion; a version needs no alignment.
        let version = unsafe { version.as_ref() };
        let fits = |known: &&CK_INTERFACE| {
            known.flags & flags == flags && version.is_none_or(|wanted| same(wanted, version_of(known)))
        };
        // The specification has no code of its own for an unknown interface.
        let found = INTERFACES.0.iter().filter(|_| named).find(fits).ok_or(Error::ArgumentsBad)?;
        // SAFETY: the contract of PKCS#11 for ppInterface.
        unsafe { place.put(from_ref(found).cast_mut()) };
        Ok(())
    })
}

fn version_of(interface: &CK_INTERFACE) -> &CK_VERSION {
    // SAFETY: the lists are constants, and each begins with its version.
    unsafe { &*interface.pFunctionList.cast::<CK_VERSION>() }
}

fn same(one: &CK_VERSION, other: &CK_VERSION) -> bool {
    (one.major, one.minor) == (other.major, other.minor)
}
