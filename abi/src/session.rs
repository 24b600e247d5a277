//! "Session management functions".

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::error::Error;
use jeton::module::{SessionInfo, User};

use crate::call::{always, call};
use crate::input::{In, Place};
use crate::number::{narrow, session, slot, wide};

/// # Safety
///
/// The contract of PKCS#11. `pApplication` and `Notify` are not used: nothing here calls back.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_OpenSession(
    id: CK_SLOT_ID,
    flags: CK_FLAGS,
    _: *mut c_void,
    _: CK_NOTIFY,
    handle: *mut CK_SESSION_HANDLE,
) -> CK_RV {
    if flags & CKF_SERIAL_SESSION != 0 && flags & CKF_ASYNC_SESSION != 0 {
        return always(CKR_SESSION_ASYNC_NOT_SUPPORTED);
    }
    call(|module| {
        let place = Place::at(handle)?;
        if flags & CKF_SERIAL_SESSION == 0 {
            return Err(Error::SessionParallelNotSupported);
        }
        let session = module.open_session(slot(id), flags & CKF_RW_SESSION != 0)?;
        // SAFETY: the contract of PKCS#11 for phSession.
        unsafe { place.put(narrow(session.0)) };
        Ok(())
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_CloseSession(handle: CK_SESSION_HANDLE) -> CK_RV {
    call(|module| module.close_session(session(handle)))
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_CloseAllSessions(id: CK_SLOT_ID) -> CK_RV {
    call(|module| module.close_all_sessions(slot(id)))
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_GetSessionInfo(
    handle: CK_SESSION_HANDLE,
    info: *mut CK_SESSION_INFO,
) -> CK_RV {
    call(|module| {
        let place = Place::at(info)?;
        let SessionInfo { slot, state, read_write } = module.session(session(handle))?;
        let info = CK_SESSION_INFO {
            slotID: narrow(slot.0),
            state: narrow(state),
            flags: CKF_SERIAL_SESSION | if read_write { CKF_RW_SESSION } else { 0 },
            ulDeviceError: 0,
        };
        // SAFETY: the contract of PKCS#11 for pInfo.
        unsafe { place.put(info) };
        Ok(())
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SessionCancel(handle: CK_SESSION_HANDLE, flags: CK_FLAGS) -> CK_RV {
    call(|module| module.cancel(session(handle), wide(flags)))
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Login(
    handle: CK_SESSION_HANDLE,
    user: CK_USER_TYPE,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
) -> CK_RV {
    call(|module| {
        let user = match user {
            CKU_SO => User::SecurityOfficer,
            CKU_USER => User::User,
            CKU_CONTEXT_SPECIFIC => User::ContextSpecific,
            _ => return Err(Error::UserTypeInvalid),
        };
        // SAFETY: the contract of PKCS#11 for pPin.
        let pin = unsafe { In(pin, pin_len).bytes() }?;
        module.login(session(handle), user, pin)
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Logout(handle: CK_SESSION_HANDLE) -> CK_RV {
    call(|module| module.logout(session(handle)))
}
