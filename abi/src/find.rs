//! "Object management functions": the search.

use cryptoki_sys::{CK_ATTRIBUTE, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::error::{Error, Result, require};
use jeton_words::id::{ObjectHandle, SessionHandle};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::input::{Place, template};
use crate::number::{length, narrow};
use crate::operation::function;

/// The number of handles in one batch. The application may ask for any number of handles, but the
/// buffer on our stack has a fixed size. A longer buffer would be cleared by a call of `memset`,
/// which takes more time than longer batches save.
const CHUNK: usize = 16;

pub unsafe fn C_FindObjectsInit<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_FindObjectsInit, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pTemplate.
        let template = unsafe { template(attributes, count) }?;
        answered(token.find_init(session, &template))
    })
}

pub unsafe fn C_FindObjects<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    objects: *mut CK_OBJECT_HANDLE,
    max: CK_ULONG,
    count: *mut CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_FindObjects, handle, |token, session| {
        let place = Place::at(count)?;
        let max = usize::try_from(max).map_err(|_| Error::ArgumentsBad)?;
        require(!objects.is_null() || max == 0, Error::ArgumentsBad)?;
        // SAFETY: the contract of PKCS#11 for phObject.
        let found = answered(unsafe { find(token, session, objects, max) })?;
        // SAFETY: the contract of PKCS#11 for pulObjectCount.
        unsafe { place.put(length(found)) };
        Ok(())
    })
}

function!(session C_FindObjectsFinal, find_final);

/// Asks the token even for zero handles, because only the token knows whether a search is active.
///
/// # Safety
///
/// `objects` is writable for `max` handles.
unsafe fn find<T: Token>(
    token: &T,
    session: SessionHandle,
    objects: *mut CK_OBJECT_HANDLE,
    max: usize,
) -> Result<usize> {
    let (mut chunk, mut longer) = ([ObjectHandle(0); CHUNK], Vec::new());
    let batch = if T::BATCH > CHUNK && max > CHUNK {
        longer.resize(max.min(T::BATCH), ObjectHandle(0));
        &mut longer[..]
    } else {
        &mut chunk[..]
    };
    let mut found = 0;
    loop {
        let wanted = batch.len().min(max - found);
        let got = token.find(session, &mut batch[..wanted])?;
        for (index, object) in batch[..got].iter().enumerate() {
            // SAFETY: `got` is at most `max - found`.
            unsafe { objects.add(found + index).write_unaligned(narrow(object.0)) };
        }
        found += got;
        if got < wanted || found == max {
            return Ok(found);
        }
    }
}
