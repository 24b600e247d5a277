//! "Object management functions": the search.

use std::time::Instant;

use cryptoki_sys::{CK_ATTRIBUTE, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::error::{Error, Result, require};
use jeton_words::id::ObjectHandle;
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::{length, narrow};
use crate::input::{Place, template};
use crate::operation::function;

/// The number of handles in one batch, for which there is room on our stack. A longer buffer would
/// be cleared by a call of `memset`, which takes more time than longer batches save.
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
        let found = unsafe {
            if max <= CHUNK {
                find(|handles| token.find(session, handles), T::BATCH, objects, max)
            } else {
                let start = Instant::now();
                find(|handles| token.find_more(session, handles, start), T::BATCH, objects, max)
            }
        };
        let found = answered(found)?;
        // SAFETY: the contract of PKCS#11 for pulObjectCount.
        unsafe { place.put(length(found)) };
        Ok(())
    })
}

function!(session C_FindObjectsFinal, find_final);

/// Asks the token even for zero handles, because only the token knows whether a search is active.
/// Nothing is written before the last batch, because each of them may fail.
///
/// # Safety
///
/// `objects` is writable for `max` handles.
unsafe fn find(
    mut next: impl FnMut(&mut [ObjectHandle]) -> Result<usize>,
    batch: usize,
    objects: *mut CK_OBJECT_HANDLE,
    max: usize,
) -> Result<usize> {
    let (mut chunk, mut longer) = ([ObjectHandle(0); CHUNK], Vec::new());
    let found = if max <= CHUNK {
        let got = next(&mut chunk[..max])?;
        &chunk[..got]
    } else {
        loop {
            let (start, wanted) = (longer.len(), batch.max(CHUNK).min(max - longer.len()));
            longer.try_reserve(wanted).map_err(|_| Error::HostMemory)?;
            longer.resize(start + wanted, ObjectHandle(0));
            let got = next(&mut longer[start..])?;
            longer.truncate(start + got);
            if got < wanted || longer.len() == max {
                break &longer[..];
            }
        }
    };
    for (index, object) in found.iter().enumerate() {
        // SAFETY: at most `max` objects were asked.
        unsafe { objects.add(index).write_unaligned(narrow(object.0)) };
    }
    Ok(found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a token that finds these numbers of handles, and then fails.
    fn search(batches: &[usize], max: usize) -> (Result<usize>, Vec<CK_OBJECT_HANDLE>) {
        let (mut rest, mut objects) = (batches.iter(), vec![9; max]);
        let next = |handles: &mut [ObjectHandle]| {
            let got = *rest.next().ok_or(Error::DeviceError)?;
            handles[..got].fill(ObjectHandle(1));
            Ok(got)
        };
        // SAFETY: `objects` has `max` handles.
        let found = unsafe { find(next, 32, objects.as_mut_ptr(), max) };
        (found, objects)
    }

    #[test]
    fn a_search_that_fails_writes_no_handle() {
        for (batches, max) in [(&[][..], 1), (&[], 100), (&[32], 100), (&[32, 32, 32], 100)] {
            assert_eq!(search(batches, max), (Err(Error::DeviceError), vec![9; max]), "{batches:?}");
        }
        for (batches, max, found) in [
            (&[0][..], 0, 0),
            (&[3], 16, 3),
            (&[16], 16, 16),
            (&[32, 3], 100, 35),
            (&[32, 32, 32, 4], 100, 100),
            (&[32, 0], 100, 32),
        ] {
            let written = [vec![1; found], vec![9; max - found]].concat();
            assert_eq!(search(batches, max), (Ok(found), written), "{batches:?}");
        }
    }
}
