//! A session: opening, login, PINs, random bytes. Objects and operations are in other files.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use cryptoki_sys::{
    CK_FLAGS, CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CK_SESSION_INFO, CK_STATE, CK_ULONG, CK_USER_TYPE,
    CKF_RW_SESSION, CKF_SERIAL_SESSION, CKU_CONTEXT_SPECIFIC, CKU_SO, CKU_USER,
};

use super::failure::{Doing, Failure, call, check, entry};
use super::module::{Module, SlotId};

/// An open session. Dropping it closes the session. Two threads cannot use it at the same time,
/// because PKCS#11 permits one operation of each type per session.
pub struct Session {
    module: Module,
    handle: CK_SESSION_HANDLE,
    not_sync: PhantomData<Cell<()>>,
}

/// Access of a session to token objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    ReadOnly,
    /// Create, change and destroy too.
    ReadWrite,
}

/// The role that logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The security officer, who sets the user's PIN.
    So,
    /// The user, who owns the private objects.
    User,
    /// The user again, for one operation of a key with `CKA_ALWAYS_AUTHENTICATE`.
    ContextSpecific,
}

impl User {
    const fn number(self) -> CK_USER_TYPE {
        match self {
            Self::So => CKU_SO,
            Self::User => CKU_USER,
            Self::ContextSpecific => CKU_CONTEXT_SPECIFIC,
        }
    }
}

/// An object's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectHandle(pub CK_OBJECT_HANDLE);

/// `CK_SESSION_INFO`.
#[derive(Clone, Copy, Debug)]
pub struct SessionInfo {
    /// The slot of the session.
    pub slot: SlotId,
    /// `CKS_…`
    pub state: CK_STATE,
    /// `CKF_RW_SESSION`, …
    pub flags: CK_FLAGS,
}

impl Module {
    /// `C_OpenSession`.
    pub fn open_session(&self, slot: SlotId, access: Access) -> Result<Session, Failure> {
        Session::open(self, slot, access, 0)
    }
}

impl Session {
    pub(super) fn open(
        module: &Module,
        slot: SlotId,
        access: Access,
        more: CK_FLAGS,
    ) -> Result<Self, Failure> {
        let open = entry("C_OpenSession", module.functions().C_OpenSession)?;
        let write = if access == Access::ReadWrite { CKF_RW_SESSION } else { 0 };
        let flags = CKF_SERIAL_SESSION | write | more;
        let mut handle = 0;
        // SAFETY: no notification callback is passed; `handle` is writable.
        let code = unsafe { open(slot.0, flags, ptr::null_mut(), None, &mut handle) };
        check("C_OpenSession", code, "opening a session")?;
        Ok(Self { module: module.clone(), handle, not_sync: PhantomData })
    }

    /// Returns the module of this session.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Returns the session's handle, for functions that this client does not wrap.
    pub fn handle(&self) -> CK_SESSION_HANDLE {
        self.handle
    }

    /// `C_GetSessionInfo`.
    pub fn info(&self) -> Result<SessionInfo, Failure> {
        let mut info = CK_SESSION_INFO::default();
        // SAFETY: `info` is a writable CK_SESSION_INFO.
        unsafe { call!(self.module, C_GetSessionInfo(self.handle, &mut info), "asking about a session") }?;
        Ok(SessionInfo { slot: SlotId(info.slotID), state: info.state, flags: info.flags })
    }

    /// `C_Login`. Pass no PIN if the token has a keypad of its own.
    pub fn login(&self, user: User, pin: Option<&str>) -> Result<(), Failure> {
        let (pointer, length) = pin.map_or((ptr::null_mut(), 0), pin_in);
        // SAFETY: the PIN is read for its length.
        let done =
            unsafe { call!(self.module, C_Login(self.handle, user.number(), pointer, length), "logging in") };
        done.doing(|| match user {
            User::So => "logging in as the security officer".to_owned(),
            User::User => "logging in as the user".to_owned(),
            User::ContextSpecific => "logging in for one operation".to_owned(),
        })
    }

    /// `C_Logout`.
    pub fn logout(&self) -> Result<(), Failure> {
        // SAFETY: takes a session handle only.
        unsafe { call!(self.module, C_Logout(self.handle), "logging out") }
    }

    /// `C_InitPIN`: the security officer sets the user's PIN.
    pub fn init_pin(&self, pin: &str) -> Result<(), Failure> {
        let (pointer, length) = pin_in(pin);
        // SAFETY: the PIN is read for its length.
        unsafe { call!(self.module, C_InitPIN(self.handle, pointer, length), "setting the user's PIN") }
    }

    /// `C_SetPIN`: changes the PIN of the role that is logged in, or the user's PIN before a login.
    pub fn set_pin(&self, old: &str, new: &str) -> Result<(), Failure> {
        let ((old, old_len), (new, new_len)) = (pin_in(old), pin_in(new));
        // SAFETY: both PINs are read for their lengths.
        unsafe { call!(self.module, C_SetPIN(self.handle, old, old_len, new, new_len), "changing a PIN") }
    }

    /// `C_GenerateRandom`: fills `out`.
    pub fn random(&self, out: &mut [u8]) -> Result<(), Failure> {
        let (place, length) = (out.as_mut_ptr(), out.len() as CK_ULONG);
        // SAFETY: `out` is writable for its length.
        unsafe { call!(self.module, C_GenerateRandom(self.handle, place, length), "asking for random bytes") }
    }

    /// `C_SeedRandom`.
    pub fn seed_random(&self, seed: &[u8]) -> Result<(), Failure> {
        let (seed, length) = (seed.as_ptr().cast_mut(), seed.len() as CK_ULONG);
        // SAFETY: `seed` is readable for its length.
        unsafe { call!(self.module, C_SeedRandom(self.handle, seed, length), "seeding the random generator") }
    }

    /// `C_CloseSession`. Dropping the session closes it too, but hides the return code.
    pub fn close(mut self) -> Result<(), Failure> {
        let result = self.close_handle();
        // CK_INVALID_HANDLE, so that the following drop does not close the session again.
        self.handle = 0;
        result
    }

    fn close_handle(&self) -> Result<(), Failure> {
        // SAFETY: takes a session handle only.
        unsafe { call!(self.module, C_CloseSession(self.handle), "closing a session") }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.handle != 0 {
            // After C_Finalize or C_CloseAllSessions the module no longer knows the handle.
            let _ = self.close_handle();
        }
    }
}

fn pin_in(pin: &str) -> (*mut u8, CK_ULONG) {
    (pin.as_ptr().cast_mut(), pin.len() as CK_ULONG)
}
