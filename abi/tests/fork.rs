//! A child of a fork starts anew. A binary of its own, without the test harness' threads: the child may only make
//! async-signal-safe calls if others were running.

#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

#[macro_use]
mod common;

use std::ptr::null_mut;

use common::{attribute, functions, mechanism, mutable, nothing};
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

    a_thread_of_ours_is_the_parents_alone(&cycle);

    assert_eq!(unsafe { finalize(null_mut()) }, CKR_OK);
    assert_eq!(in_child(|| unsafe { initialize(null_mut()) }), CKR_OK);
    std::fs::remove_dir_all(&directory).expect("the directory");
}

/// A child that is made while a key pair is: it starts anew, and the parent gets its pair. (The thread that makes it
/// holds no lock but the allocator's, which the C library sets free in a child.)
fn a_thread_of_ours_is_the_parents_alone(cycle: &dyn Fn() -> CK_RV) {
    let (mut slots, mut count) = ([0; 9], 9);
    ok!(C_GetSlotList(CK_TRUE, slots.as_mut_ptr(), &raw mut count));
    let slot = slots[count as usize - 1];
    let (pin, pin_len) = (mutable(b"a pin of a test").cast(), 15);
    ok!(C_InitToken(slot, pin, pin_len, mutable(&[b' '; 32]).cast()));
    let mut session = 0;
    let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION | CKF_ASYNC_SESSION;
    ok!(C_OpenSession(slot, flags, nothing(), None, &raw mut session));
    ok!(C_Login(session, CKU_SO, pin, pin_len));
    ok!(C_InitPIN(session, pin, pin_len));
    ok!(C_Logout(session));
    ok!(C_Login(session, CKU_USER, pin, pin_len));

    let mut with = mechanism(CKM_RSA_PKCS_KEY_PAIR_GEN);
    let mut public = [attribute(CKA_MODULUS_BITS, &(3072 as CK_ULONG))];
    let (mut one, mut other) = (0, 0);
    let pending = rv!(C_GenerateKeyPair(
        session,
        &raw mut with,
        public.as_mut_ptr(),
        1,
        nothing(),
        0,
        &raw mut one,
        &raw mut other
    ));
    assert_eq!(pending, CKR_PENDING);
    let name = c"C_GenerateKeyPair".as_ptr().cast_mut().cast();
    let mut done =
        CK_ASYNC_DATA { ulVersion: 0, pValue: nothing(), ulValue: 0, hObject: 0, hAdditionalObject: 0 };
    let mut complete = || rv!(C_AsyncComplete(session, name, &raw mut done));
    assert_eq!(in_child(|| rv!(C_CloseSession(session))), CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_eq!(in_child(cycle), CKR_OK);
    while complete() == CKR_PENDING {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(done.hObject != 0 && done.hAdditionalObject != 0);
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
