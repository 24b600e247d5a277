//! The arguments of `C_Initialize`, which `libjeton_pkcs11.so` and `libjeton_client.so` read in the
//! same way.

use std::ffi::c_void;

use native::{
    CK_C_INITIALIZE_ARGS, CK_FLAGS, CK_RV, CKF_LIBRARY_CANT_CREATE_OS_THREADS, CKF_OS_LOCKING_OK,
    CKR_ARGUMENTS_BAD, CKR_CANT_LOCK, CKR_OK,
};

/// The greatest length of the library parameters in bytes, with the NUL. It is enough for several
/// paths.
const MAX_PARAMETERS: usize = 16 * 1024;
/// No string has a lower address, because the first page is never mapped.
const LOWEST_ADDRESS: usize = 4096;

/// What an application passes to `C_Initialize`.
#[derive(Default)]
pub struct Initialization<'a> {
    /// Whether the module may create no threads.
    pub single: bool,
    /// The library parameters.
    pub parameters: Option<&'a str>,
}

/// Returns the argument of `C_Initialize` without functions for mutexes.
#[allow(non_snake_case, reason = "the name of the standard")]
pub const fn arguments(flags: CK_FLAGS, pReserved: *mut c_void) -> CK_C_INITIALIZE_ARGS {
    CK_C_INITIALIZE_ARGS {
        CreateMutex: None,
        DestroyMutex: None,
        LockMutex: None,
        UnlockMutex: None,
        flags,
        pReserved,
    }
}

/// Reads the argument of `C_Initialize`. Fails with the code of the function.
///
/// # Safety
///
/// The contract of PKCS#11, and of NSS if the sixth field is not `NULL`: it is the library
/// parameters, a string that ends with NUL.
pub unsafe fn initialization<'a>(arguments: *const c_void) -> Result<Initialization<'a>, CK_RV> {
    if arguments.is_null() {
        return Ok(Initialization::default());
    }
    // SAFETY: not null; the application passes CK_C_INITIALIZE_ARGS.
    let given = unsafe { arguments.cast::<CK_C_INITIALIZE_ARGS>().read_unaligned() };
    match locking(&given) {
        CKR_OK => Ok(Initialization {
            single: given.flags & CKF_LIBRARY_CANT_CREATE_OS_THREADS != 0,
            // SAFETY: NULL, or the library parameters.
            parameters: unsafe { parameters(given.pReserved.cast()) }?,
        }),
        refused => Err(refused),
    }
}

/// Checks that the application leaves the choice of locks to the module, which always uses the
/// locks of the operating system. Returns the code of `C_Initialize`.
#[allow(non_snake_case, reason = "the names of the standard")]
fn locking(given: &CK_C_INITIALIZE_ARGS) -> CK_RV {
    // A packed struct, on Windows.
    let CK_C_INITIALIZE_ARGS { CreateMutex, DestroyMutex, LockMutex, UnlockMutex, .. } = *given;
    let callbacks =
        [CreateMutex.is_some(), DestroyMutex.is_some(), LockMutex.is_some(), UnlockMutex.is_some()];
    match callbacks.iter().filter(|given| **given).count() {
        0 => CKR_OK,
        4 if given.flags & CKF_OS_LOCKING_OK != 0 => CKR_OK,
        // PKCS#11 3.2, C_Initialize, third case: the library must use the application's mutexes, or
        // "if the library is unable to do this" return CKR_CANT_LOCK. The application's threads may
        // be unknown to the operating system, so locks of the system would not stop them.
        4 => CKR_CANT_LOCK,
        _ => CKR_ARGUMENTS_BAD,
    }
}

/// Returns the library parameters, which applications pass in NSS's struct. It has one more field
/// than the standard's: `CreateMutex, DestroyMutex, LockMutex, UnlockMutex, flags,
/// LibraryParameters, pReserved`. So its sixth field is the `pReserved` of the standard's struct:
/// `NULL`, or a string that ends with NUL. The seventh field is never read, because the standard's
/// struct does not have it.
///
/// # Safety
///
/// `pointer` is `NULL`, a number below [`LOWEST_ADDRESS`], or the address of such a string.
unsafe fn parameters<'a>(pointer: *const u8) -> Result<Option<&'a str>, CK_RV> {
    if pointer.is_null() {
        return Ok(None);
    }
    // PKCS#11 3.2, C_Initialize: a pReserved other than NULL is CKR_ARGUMENTS_BAD. Test suites pass
    // (void *)1.
    if pointer.addr() < LOWEST_ADDRESS {
        return Err(CKR_ARGUMENTS_BAD);
    }
    // SAFETY: bytes are read one by one up to the NUL that the caller promises.
    let len = (0..MAX_PARAMETERS).find(|index| unsafe { pointer.add(*index).read() } == 0);
    // SAFETY: these bytes have just been read.
    let text = unsafe { std::slice::from_raw_parts(pointer, len.ok_or(CKR_ARGUMENTS_BAD)?) };
    std::str::from_utf8(text).map(Some).map_err(|_| CKR_ARGUMENTS_BAD)
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    unsafe extern "C" fn mutex(_: *mut c_void) -> CK_RV {
        CKR_OK
    }

    unsafe extern "C" fn create(_: *mut *mut c_void) -> CK_RV {
        CKR_OK
    }

    fn all_callbacks(flags: CK_FLAGS) -> CK_C_INITIALIZE_ARGS {
        CK_C_INITIALIZE_ARGS {
            CreateMutex: Some(create),
            DestroyMutex: Some(mutex),
            LockMutex: Some(mutex),
            UnlockMutex: Some(mutex),
            flags,
            pReserved: null_mut(),
        }
    }

    fn parsed(text: &[u8]) -> Result<Option<&str>, CK_RV> {
        // SAFETY: each text ends with NUL, or is as long as the bytes that are read.
        unsafe { parameters(text.as_ptr()) }
    }

    #[test]
    fn callbacks_are_accepted_if_the_locks_of_the_system_suffice() {
        assert_eq!(locking(&all_callbacks(CKF_OS_LOCKING_OK)), CKR_OK);
        assert_eq!(locking(&all_callbacks(0)), CKR_CANT_LOCK);
        for flags in [0, CKF_OS_LOCKING_OK] {
            let some = CK_C_INITIALIZE_ARGS { LockMutex: None, ..all_callbacks(flags) };
            assert_eq!(locking(&some), CKR_ARGUMENTS_BAD);
            let none =
                CK_C_INITIALIZE_ARGS { CreateMutex: None, DestroyMutex: None, UnlockMutex: None, ..some };
            assert_eq!(locking(&none), CKR_OK);
        }
    }

    #[test]
    fn parameters_are_a_bounded_string() {
        assert_eq!(parsed(b"configdir='x'\0"), Ok(Some("configdir='x'")));
        assert_eq!(parsed(b"\xff\0"), Err(CKR_ARGUMENTS_BAD));
        assert_eq!(parsed(&[b'a'; MAX_PARAMETERS]), Err(CKR_ARGUMENTS_BAD));
        // SAFETY: neither is followed.
        unsafe {
            assert_eq!(parameters(null_mut()), Ok(None));
            assert_eq!(parameters(std::ptr::without_provenance(1)), Err(CKR_ARGUMENTS_BAD));
        }
    }
}
