//! Signatures of asynchronous sessions (PKCS#11 3.2, "Asynchronous function management functions").

use cryptoki_sys::{CK_ASYNC_DATA, CK_ULONG, CKF_ASYNC_SESSION, CKR_PENDING};

use super::attribute::Mechanism;
use super::failure::{Failure, check, entry};
use super::module::{Module, SlotId};
use super::session::{Access, ObjectHandle, Session};

/// A signature that may be pending. Dropping a pending one leaks its buffer, because the module may
/// still write there.
pub struct Later<'a> {
    session: &'a Session,
    signature: Vec<u8>,
    is_pending: bool,
}

impl Module {
    /// `C_OpenSession` with `CKF_ASYNC_SESSION`.
    pub fn open_async_session(&self, slot: SlotId, access: Access) -> Result<Session, Failure> {
        Session::open(self, slot, access, CKF_ASYNC_SESSION)
    }
}

impl Session {
    /// `C_SignInit` and `C_Sign`. `length` is at least that of the signature.
    pub fn sign_later(
        &self,
        mechanism: &Mechanism,
        key: ObjectHandle,
        data: &[u8],
        length: usize,
    ) -> Result<Later<'_>, Failure> {
        self.sign_init(mechanism, key)?;
        let mut later = Later { session: self, signature: vec![0; length], is_pending: false };
        match self.sign(data, &mut later.signature) {
            Ok(length) => later.signature.truncate(length),
            Err(Failure { code: CKR_PENDING, .. }) => later.is_pending = true,
            Err(failure) => return Err(failure),
        }
        Ok(later)
    }
}

impl Later<'_> {
    /// Returns the signature. Calls `C_AsyncComplete` until it is complete.
    pub fn complete(mut self) -> Result<Vec<u8>, Failure> {
        while self.is_pending {
            let list = self.session.module().functions_3_2();
            let complete = entry("C_AsyncComplete", list.and_then(|list| list.C_AsyncComplete))?;
            let mut done = CK_ASYNC_DATA {
                ulVersion: 0,
                pValue: std::ptr::null_mut(),
                ulValue: 0,
                hObject: 0,
                hAdditionalObject: 0,
            };
            let name = c"C_Sign".as_ptr().cast_mut().cast();
            // SAFETY: the name ends with NUL, `done` is writable, and the buffer of the signature
            // lives until the signature is complete.
            let code = unsafe { complete(self.session.handle(), name, &mut done) };
            self.is_pending = code == CKR_PENDING;
            if self.is_pending {
                std::thread::yield_now();
                continue;
            }
            check("C_AsyncComplete", code, "completing a signature")?;
            self.signature.truncate(CK_ULONG::try_into(done.ulValue).unwrap_or(usize::MAX));
        }
        Ok(std::mem::take(&mut self.signature))
    }
}

impl Drop for Later<'_> {
    fn drop(&mut self) {
        if self.is_pending {
            std::mem::forget(std::mem::take(&mut self.signature));
        }
    }
}
