//! "Asynchronous function management functions".

use std::ptr::{null_mut, with_exposed_provenance_mut};

use cryptoki_sys::{
    CK_ASYNC_DATA, CK_BYTE, CK_INVALID_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CK_UTF8CHAR,
};
use jeton_words::asynchronous::{AsyncFunction, Completed};
use jeton_words::error::{Error, Result, require};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered, in_template};
use crate::ck_ulong::{length, narrow, wide};
use crate::input::Place;

/// The maximum number of bytes that the module reads of a function name. The longest name of a
/// function that can be pending has 18 bytes with its NUL.
const MAX_NAME: usize = 32;

pub unsafe fn C_AsyncComplete<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    name: *mut CK_UTF8CHAR,
    result: *mut CK_ASYNC_DATA,
) -> CK_RV {
    entry.call_in(Function::C_AsyncComplete, handle, |token, session| {
        let place = Place::at(result)?;
        // SAFETY: the contract of PKCS#11 for pFunctionName.
        let function = unsafe { function(name) }?;
        let function = function.ok_or(Error::OperationNotInitialized)?;
        let (data, outcome) = match function {
            AsyncFunction::GenerateKey | AsyncFunction::GenerateKeyPair => {
                let completed = token.async_complete(session, function).map_err(in_template);
                (keys(answered(completed)?), Ok(()))
            }
            AsyncFunction::Sign | AsyncFunction::SignFinal => {
                let (buffer, outcome) = answered(token.async_signature(session, function))?;
                let buffer = with_exposed_provenance_mut(buffer);
                if let Ok(signature) = &outcome {
                    // SAFETY: PKCS#11 3.2, C_AsyncComplete: the buffer "remains available to the
                    // module for the duration of the operation". The function that got it checked
                    // that the signature fits.
                    unsafe { signature.as_ptr().copy_to(buffer, signature.len()) };
                }
                (bytes(buffer, outcome.as_ref().map_or(0, |signature| signature.len())), outcome.map(drop))
            }
        };
        // SAFETY: the contract of PKCS#11 for pResult.
        unsafe { place.put(data) };
        answered(outcome)
    })
}

pub unsafe fn C_AsyncGetID<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    name: *mut CK_UTF8CHAR,
    id: *mut CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_AsyncGetID, handle, |token, session| {
        let place = Place::at(id)?;
        // SAFETY: the contract of PKCS#11 for pFunctionName.
        let function = unsafe { function(name) }?;
        let function = function.ok_or(Error::OperationNotInitialized)?;
        let id = answered(token.async_id(session, function))?;
        // SAFETY: the contract of PKCS#11 for pulID.
        unsafe { place.put(narrow(id)) };
        Ok(())
    })
}

/// The buffer is "ignored": no function that has a number has an output buffer.
pub unsafe fn C_AsyncJoin<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    name: *mut CK_UTF8CHAR,
    id: CK_ULONG,
    _: *mut CK_BYTE,
    _: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_AsyncJoin, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pFunctionName.
        let function = unsafe { function(name) }?;
        let function = function.ok_or(Error::SavedStateInvalid)?;
        answered(token.async_join(session, function, wide(id)))
    })
}

/// Returns the function with this name, which ends with NUL. `None` if the function is unknown or
/// never pending.
///
/// # Safety
///
/// Unless it is `NULL`, the pointer is readable up to the first NUL.
unsafe fn function(name: *const CK_UTF8CHAR) -> Result<Option<AsyncFunction>> {
    require(!name.is_null(), Error::ArgumentsBad)?;
    let mut text = [0; MAX_NAME];
    for (index, place) in text.iter_mut().enumerate() {
        // SAFETY: no byte before this one was NUL.
        match unsafe { name.add(index).read() } {
            0 => return Ok(std::str::from_utf8(&text[..index]).ok().and_then(AsyncFunction::from_name)),
            byte => *place = byte,
        }
    }
    Ok(None)
}

/// Returns the result of a function that makes keys.
fn keys(done: Completed) -> CK_ASYNC_DATA {
    CK_ASYNC_DATA {
        hObject: narrow(done.object.0),
        hAdditionalObject: done.additional.map_or(CK_INVALID_HANDLE, |object| narrow(object.0)),
        ..bytes(null_mut(), 0)
    }
}

/// Returns the result of a function with an output buffer.
fn bytes(buffer: *mut CK_BYTE, len: usize) -> CK_ASYNC_DATA {
    CK_ASYNC_DATA {
        ulVersion: 0,
        pValue: buffer,
        ulValue: length(len),
        hObject: CK_INVALID_HANDLE,
        hAdditionalObject: CK_INVALID_HANDLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_with_nul_and_is_bounded() {
        // SAFETY: the names end with NUL, or are longer than the bytes that are read.
        let named = |name: &[u8]| unsafe { function(name.as_ptr()) };
        assert_eq!(named(b"C_GenerateKeyPair\0"), Ok(Some(AsyncFunction::GenerateKeyPair)));
        for name in [&b"C_GenerateKeyPai\0"[..], b"\0", b"C_GenerateKey\xff\0", &[b'C'; MAX_NAME]] {
            assert_eq!(named(name), Ok(None));
        }
        // SAFETY: NULL is not followed.
        assert_eq!(unsafe { function(null_mut()) }, Err(Error::ArgumentsBad));
    }
}
