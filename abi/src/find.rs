//! "Object management functions": the search.

use cryptoki_sys::{CK_ATTRIBUTE, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::error::{Error, Result, require};
use jeton::functions::Module;
use jeton::id::{ObjectHandle, SessionHandle};

use crate::call::call_in;
use crate::input::{Place, template};
use crate::number::{length, narrow, session};

/// The number of handles in one batch. The application may ask for any number of handles, but the
/// buffer on our stack has a fixed size. A longer buffer would be cleared by a call of `memset`,
/// which takes more time than longer batches save.
const CHUNK: usize = 16;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_FindObjectsInit(
    handle: CK_SESSION_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pTemplate.
        let template = unsafe { template(attributes, count) }?;
        module.find_init(session(handle), &template)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_FindObjects(
    handle: CK_SESSION_HANDLE,
    objects: *mut CK_OBJECT_HANDLE,
    max: CK_ULONG,
    count: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let place = Place::at(count)?;
        let max = usize::try_from(max).map_err(|_| Error::ArgumentsBad)?;
        require(!objects.is_null() || max == 0, Error::ArgumentsBad)?;
        // SAFETY: the contract of PKCS#11 for phObject.
        let found = unsafe { find(module, session(handle), objects, max) }?;
        // SAFETY: the contract of PKCS#11 for pulObjectCount.
        unsafe { place.put(length(found)) };
        Ok(())
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_FindObjectsFinal(handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| module.find_final(session(handle)))
}

/// Asks the module even for zero handles, because only the module knows whether a search is active.
///
/// # Safety
///
/// `objects` is writable for `max` handles.
unsafe fn find(
    module: &Module,
    session: SessionHandle,
    objects: *mut CK_OBJECT_HANDLE,
    max: usize,
) -> Result<usize> {
    let mut chunk = [ObjectHandle(0); CHUNK];
    let mut found = 0;
    loop {
        let wanted = CHUNK.min(max - found);
        let got = module.find(session, &mut chunk[..wanted])?;
        for (index, object) in chunk[..got].iter().enumerate() {
            // SAFETY: `got` is at most `max - found`.
            unsafe { objects.add(found + index).write_unaligned(narrow(object.0)) };
        }
        found += got;
        if got < CHUNK || found == max {
            return Ok(found);
        }
    }
}
