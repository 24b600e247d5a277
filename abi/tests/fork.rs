//! A child of a fork starts anew. A binary of its own, without the test harness' threads: the child may only make
//! async-signal-safe calls if others were running.

#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

mod common;

use std::ptr::null_mut;

use common::functions;
use cryptoki_sys::*;

fn main() {
    let directory = std::env::temp_dir().join(format!("jeton-fork-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // SAFETY: no other thread runs.
    unsafe {
        std::env::set_var("JETON_DIR", &directory);
        std::env::remove_var("JETON_CONF");
    }

    let list = functions();
    let initialize = list.C_Initialize.expect("an entry");
    let finalize = list.C_Finalize.expect("an entry");
    // SAFETY: NULL is refused, whatever the state.
    let answer = || unsafe { list.C_GetInfo.expect("an entry")(null_mut()) };

    assert_eq!(answer(), CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_eq!(in_child(answer), CKR_CRYPTOKI_NOT_INITIALIZED);

    assert_eq!(unsafe { initialize(null_mut()) }, CKR_OK);
    assert_eq!(answer(), CKR_ARGUMENTS_BAD);
    assert_eq!(in_child(answer), CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_eq!(in_child(|| unsafe { finalize(null_mut()) }), CKR_CRYPTOKI_NOT_INITIALIZED);
    // The child's module is its own: it starts and stops it, and the parent's goes on.
    assert_eq!(in_child(|| unsafe { initialize(null_mut()) }), CKR_OK);
    let cycle = || unsafe {
        initialize(null_mut());
        finalize(null_mut());
        initialize(null_mut())
    };
    assert_eq!(in_child(cycle), CKR_OK);
    assert_eq!(answer(), CKR_ARGUMENTS_BAD);

    assert_eq!(unsafe { finalize(null_mut()) }, CKR_OK);
    assert_eq!(in_child(|| unsafe { initialize(null_mut()) }), CKR_OK);
    std::fs::remove_dir_all(&directory).expect("the directory");
}

/// What `work` answers in a child process.
fn in_child(work: impl Fn() -> CK_RV) -> CK_RV {
    let mut ends = [0; 2];
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [read, write] = ends;
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => {
            let answer = work();
            let sent = unsafe { libc::write(write, (&raw const answer).cast(), size_of::<CK_RV>()) };
            unsafe { libc::_exit(i32::from(sent != size_of::<CK_RV>() as isize)) }
        }
        child => {
            let (mut answer, mut status) = (CKR_FUNCTION_FAILED, 0);
            unsafe { libc::close(write) };
            let got = unsafe { libc::read(read, (&raw mut answer).cast(), size_of::<CK_RV>()) };
            unsafe { libc::close(read) };
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!((got, status), (size_of::<CK_RV>() as isize, 0), "the child broke");
            answer
        }
    }
}
