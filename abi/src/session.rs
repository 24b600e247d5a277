//! "Session management functions".

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::error::{Error, Result, require};
use jeton::functions::{Access, SessionInfo, User};

use crate::call::{call, call_in};
use crate::input::{In, Out, Place, produce};
use crate::number::{narrow, object, session, slot, wide};

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
    call(|module| {
        let place = Place::at(handle)?;
        require(flags & CKF_SERIAL_SESSION != 0, Error::SessionParallelNotSupported)?;
        let id = slot(id);
        let access = if flags & CKF_RW_SESSION == 0 { Access::ReadOnly } else { Access::ReadWrite };
        let session = match flags & CKF_ASYNC_SESSION {
            0 => module.open_session(id, access),
            _ => module.open_async_session(id, access),
        }?;
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
    call_in(handle, |module| module.close_session(session(handle)))
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_CloseAllSessions(id: CK_SLOT_ID) -> CK_RV {
    call(|module| module.close_all_sessions(slot(id)))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_GetSessionInfo(
    handle: CK_SESSION_HANDLE,
    info: *mut CK_SESSION_INFO,
) -> CK_RV {
    call_in(handle, |module| {
        let place = Place::at(info)?;
        let SessionInfo { slot, state, access, asynchronous } = module.session(session(handle))?;
        let info = CK_SESSION_INFO {
            slotID: narrow(slot.0),
            state: narrow(state),
            flags: CKF_SERIAL_SESSION
                | if access == Access::ReadWrite { CKF_RW_SESSION } else { 0 }
                | if asynchronous { CKF_ASYNC_SESSION } else { 0 },
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
    call_in(handle, |module| module.cancel(session(handle), wide(flags)))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_GetOperationState(
    handle: CK_SESSION_HANDLE,
    state: *mut CK_BYTE,
    state_len: *mut CK_ULONG,
) -> CK_RV {
    let state = Out(state, state_len);
    // SAFETY: the contract of PKCS#11 for pOperationState and its length.
    call_in(handle, |module| unsafe { produce(state, |out| module.operation_state(session(handle), out)) })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SetOperationState(
    handle: CK_SESSION_HANDLE,
    state: *mut CK_BYTE,
    state_len: CK_ULONG,
    encryption_key: CK_OBJECT_HANDLE,
    authentication_key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pOperationState.
        let state = unsafe { In(state, state_len).bytes() }?;
        require(!state.is_empty(), Error::ArgumentsBad)?;
        let (encryption, authentication) = (object(encryption_key), object(authentication_key));
        module.set_operation_state(session(handle), state, encryption, authentication)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Login(
    handle: CK_SESSION_HANDLE,
    user: CK_USER_TYPE,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let user = user_of(user)?;
        // SAFETY: the contract of PKCS#11 for pPin.
        let pin = unsafe { In(pin, pin_len).pin() }?;
        module.login(session(handle), user, pin)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_LoginUser(
    handle: CK_SESSION_HANDLE,
    user: CK_USER_TYPE,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
    name: *mut CK_UTF8CHAR,
    name_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let user = user_of(user)?;
        // SAFETY: the contract of PKCS#11 for pPin and pUsername.
        let (pin, name) = unsafe { (In(pin, pin_len).pin()?, In(name, name_len).bytes()?) };
        module.login_user(session(handle), user, pin, name)
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Logout(handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| module.logout(session(handle)))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_GetSessionValidationFlags(
    handle: CK_SESSION_HANDLE,
    kind: CK_SESSION_VALIDATION_FLAGS_TYPE,
    flags: *mut CK_FLAGS,
) -> CK_RV {
    call_in(handle, |module| {
        let place = Place::at(flags)?;
        let known = module.validation_flags(session(handle))?;
        require(kind == CKS_LAST_VALIDATION_OK, Error::ArgumentsBad)?;
        // SAFETY: the contract of PKCS#11 for pFlags.
        unsafe { place.put(narrow(known)) };
        Ok(())
    })
}

fn user_of(user: CK_USER_TYPE) -> Result<User> {
    match user {
        CKU_SO => Ok(User::SecurityOfficer),
        CKU_USER => Ok(User::User),
        CKU_CONTEXT_SPECIFIC => Ok(User::ContextSpecific),
        _ => Err(Error::UserTypeInvalid),
    }
}
