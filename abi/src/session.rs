//! "Session management functions".

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton_words::error::{Error, Result, require};
use jeton_words::session::{Access, SessionInfo, User};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::{narrow, object, slot, wide};
use crate::input::{In, Place};
use crate::operation::function;

/// # Safety
///
/// The contract of PKCS#11. `pApplication` and `Notify` are not used: nothing here calls back.
pub unsafe fn C_OpenSession<T: Token>(
    entry: &Entry<T>,
    id: CK_SLOT_ID,
    flags: CK_FLAGS,
    _: *mut c_void,
    _: CK_NOTIFY,
    handle: *mut CK_SESSION_HANDLE,
) -> CK_RV {
    entry.call(Function::C_OpenSession, |token| {
        let place = Place::at(handle)?;
        require(flags & CKF_SERIAL_SESSION != 0, Error::SessionParallelNotSupported)?;
        let id = slot(id);
        let access = if flags & CKF_RW_SESSION == 0 { Access::ReadOnly } else { Access::ReadWrite };
        let session = token.open_session(id, access, flags & CKF_ASYNC_SESSION != 0)?;
        // SAFETY: the contract of PKCS#11 for phSession.
        unsafe { place.put(narrow(session.0)) };
        Ok(())
    })
}

function!(session C_CloseSession, close_session);

/// # Safety
///
/// None: no pointer is passed.
pub unsafe fn C_CloseAllSessions<T: Token>(entry: &Entry<T>, id: CK_SLOT_ID) -> CK_RV {
    entry.call(Function::C_CloseAllSessions, |token| token.close_all_sessions(slot(id)))
}

pub unsafe fn C_GetSessionInfo<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    info: *mut CK_SESSION_INFO,
) -> CK_RV {
    entry.call_in(Function::C_GetSessionInfo, handle, |token, session| {
        let place = Place::at(info)?;
        let SessionInfo { slot, state, access, asynchronous } = answered(token.session(session))?;
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
pub unsafe fn C_SessionCancel<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    flags: CK_FLAGS,
) -> CK_RV {
    entry.call_in(Function::C_SessionCancel, handle, |token, session| {
        answered(token.cancel(session, wide(flags)))
    })
}

function!(produce C_GetOperationState, operation_state);

pub unsafe fn C_SetOperationState<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    state: *mut CK_BYTE,
    state_len: CK_ULONG,
    encryption_key: CK_OBJECT_HANDLE,
    authentication_key: CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_SetOperationState, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pOperationState.
        let state = unsafe { In(state, state_len).bytes() }?;
        require(!state.is_empty(), Error::ArgumentsBad)?;
        let (encryption, authentication) = (object(encryption_key), object(authentication_key));
        answered(token.set_operation_state(session, state, encryption, authentication))
    })
}

pub unsafe fn C_Login<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    user: CK_USER_TYPE,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_Login, handle, |token, session| {
        let user = user_of(user)?;
        // SAFETY: the contract of PKCS#11 for pPin.
        let pin = unsafe { In(pin, pin_len).pin() }?;
        answered(token.login(session, user, pin))
    })
}

pub unsafe fn C_LoginUser<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    user: CK_USER_TYPE,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
    name: *mut CK_UTF8CHAR,
    name_len: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_LoginUser, handle, |token, session| {
        let user = user_of(user)?;
        // SAFETY: the contract of PKCS#11 for pPin and pUsername.
        let (pin, name) = unsafe { (In(pin, pin_len).pin()?, In(name, name_len).bytes()?) };
        answered(token.login_user(session, user, pin, name))
    })
}

function!(session C_Logout, logout);

pub unsafe fn C_GetSessionValidationFlags<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    kind: CK_SESSION_VALIDATION_FLAGS_TYPE,
    flags: *mut CK_FLAGS,
) -> CK_RV {
    entry.call_in(Function::C_GetSessionValidationFlags, handle, |token, session| {
        let place = Place::at(flags)?;
        require(kind == CKS_LAST_VALIDATION_OK, Error::ArgumentsBad)?;
        let known = answered(token.validation_flags(session))?;
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
