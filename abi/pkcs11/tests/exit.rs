//! A child of a fork ends by exit(3), although other threads of its parent were inside the module
//! at the fork. exit(3) runs the destructors of the libraries; `_exit` in `fork.rs` does not.
//!
//! `JETON_EXIT_FORKS` is the number of children of each process, by default 250. Each of the two
//! backends has two processes, so that there are 1,000 children.

#![cfg(target_os = "linux")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or POSIX")]

#[macro_use]
mod common;

use std::ffi::c_void;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::spawn;

use common::{P256, attribute, built, generate_pair, load, mechanism, mutable, nothing, open, slots, user};
use cryptoki_sys::*;
use jeton_programs::has;

type Test = fn(&Path);

fn main() {
    match jeton_child::role::<String>().transpose().expect("a role").as_deref() {
        None => {
            let filter = std::env::args().nth(1).unwrap_or_default();
            let tests: [(&str, Test); 2] = [
                ("every_child_ends", every_child_ends),
                ("every_child_of_a_python_program_ends", every_child_of_a_python_program_ends),
            ];
            for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(&filter)) {
                jeton_programs::begin(name);
                println!("{name}");
                with_each_backend(test);
            }
        }
        Some("token") => common::prepare_token(load(&built())),
        Some(_) => fork_while_threads_work(load(&built())),
    }
}

/// Runs a test on a token in a new directory.
fn with_each_backend(test: Test) {
    let first = cfg!(any(feature = "aws-lc", feature = "fips")).then_some("aws-lc");
    for backend in first.into_iter().chain(cfg!(feature = "rustcrypto").then_some("rustcrypto")) {
        let directory = std::env::temp_dir().join(format!("jeton-exit-{}-{backend}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let configuration = format!("backend = '{backend}'\n[pin]\nmemory-kib = 8\npasses = 1\n");
        // SAFETY: no other thread runs.
        unsafe { common::use_tokens(&directory, &configuration) };
        jeton_child::output(jeton_child::of_role(&"token")).expect("a token");
        test(&directory);
        println!("{backend}: {} children ended", forks());
        std::fs::remove_dir_all(&directory).expect("the directory");
    }
}

fn every_child_ends(_: &Path) {
    jeton_child::output(jeton_child::of_role(&"parent")).expect("each child ends");
}

/// Its children end by `sys.exit` or by an exception that nothing catches.
fn every_child_of_a_python_program_ends(_: &Path) {
    if has("python3") {
        let mut command = Command::new("python3");
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exit.py");
        command.arg(program).arg(built()).arg(forks().to_string());
        jeton_child::output(command).expect("each child ends");
    }
}

fn forks() -> usize {
    std::env::var("JETON_EXIT_FORKS").map_or(250, |text| text.parse().expect("a number"))
}

/// In the parent, this function returns when all children have ended. In a child it returns too, or
/// panics, and the process ends as `main` does. `SIGALRM` kills a child that waits for ever.
fn fork_while_threads_work(list: &'static CK_FUNCTION_LIST) {
    call!(list.C_Initialize(nothing()));
    let session = user(list);
    let token = attribute(CKA_TOKEN, &CK_TRUE);
    generate_pair(list, session, CKM_EC_KEY_PAIR_GEN, &[token, attribute(CKA_EC_PARAMS, P256)], &[token]);
    let threads =
        [sign_always, generate_always, draw_always, start_threads].map(|work| spawn(move || work(list)));
    for number in 0..forks() {
        match unsafe { libc::fork() } {
            -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
            0 => {
                unsafe { libc::alarm(60) };
                match number % 5 {
                    0 => std::process::exit(0),
                    1 => return,
                    2 => resume_unwind(Box::new("the end of this child")),
                    3 => begin_and_sign(list),
                    // New threads, because this one has drawn random numbers already.
                    _ => spawn(move || begin_and_sign(list)).join().expect("a thread"),
                }
                std::process::exit(0)
            }
            child => {
                let mut status = 0;
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                let expected = if number % 5 == 2 { 101 << 8 } else { 0 };
                assert_eq!(status, expected, "child {number}");
            }
        }
    }
    DONE.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    call!(list.C_Finalize(nothing()));
}

static DONE: AtomicBool = AtomicBool::new(false);

fn until_done(mut work: impl FnMut()) {
    while !DONE.load(Ordering::Relaxed) {
        work();
    }
}

fn sign_always(list: &'static CK_FUNCTION_LIST) {
    let session = open_one(list);
    let key = find_key(list, session);
    until_done(|| sign(list, session, key));
}

fn generate_always(list: &'static CK_FUNCTION_LIST) {
    let session = open_one(list);
    until_done(|| {
        let public = [attribute(CKA_EC_PARAMS, P256)];
        let (public, private) = generate_pair(list, session, CKM_EC_KEY_PAIR_GEN, &public, &[]);
        call!(list.C_DestroyObject(session, public));
        call!(list.C_DestroyObject(session, private));
    });
}

fn draw_always(list: &'static CK_FUNCTION_LIST) {
    let session = open_one(list);
    let mut bytes = [0; 4096];
    until_done(|| {
        call!(list.C_GenerateRandom(session, bytes.as_mut_ptr(), 32));
        call!(list.C_GenerateRandom(session, bytes.as_mut_ptr(), 4096));
    });
}

/// Starts threads that draw random numbers and end. The generator has a state for each thread. They
/// are no threads of Rust: the runtime of this program has a lock that each of those takes, and a
/// child would wait for it at its end if a thread held it at the fork.
fn start_threads(list: &'static CK_FUNCTION_LIST) {
    extern "C" fn draw(list: *mut c_void) -> *mut c_void {
        let list = unsafe { &*list.cast::<CK_FUNCTION_LIST>() };
        let session = open_one(list);
        call!(list.C_GenerateRandom(session, [0; 32].as_mut_ptr(), 32));
        call!(list.C_CloseSession(session));
        null_mut()
    }
    until_done(|| {
        let mut thread = 0;
        let argument = std::ptr::from_ref(list).cast_mut().cast();
        assert_eq!(unsafe { libc::pthread_create(&raw mut thread, null(), draw, argument) }, 0);
        assert_eq!(unsafe { libc::pthread_join(thread, null_mut()) }, 0);
    });
}

/// The work of a child.
fn begin_and_sign(list: &'static CK_FUNCTION_LIST) {
    call!(list.C_Initialize(nothing()));
    let session = user(list);
    sign(list, session, find_key(list, session));
    call!(list.C_GenerateRandom(session, [0; 32].as_mut_ptr(), 32));
    call!(list.C_Finalize(nothing()));
}

fn open_one(list: &CK_FUNCTION_LIST) -> CK_SESSION_HANDLE {
    open(list, slots(list)[0], 0)
}

/// Returns the private key of the token.
fn find_key(list: &CK_FUNCTION_LIST, session: CK_SESSION_HANDLE) -> CK_OBJECT_HANDLE {
    let (mut key, mut count) = (0, 0);
    let mut template = [attribute(CKA_CLASS, &CKO_PRIVATE_KEY), attribute(CKA_TOKEN, &CK_TRUE)];
    call!(list.C_FindObjectsInit(session, template.as_mut_ptr(), 2));
    call!(list.C_FindObjects(session, &raw mut key, 1, &raw mut count));
    call!(list.C_FindObjectsFinal(session));
    assert_eq!(count, 1);
    key
}

fn sign(list: &CK_FUNCTION_LIST, session: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) {
    let (mut out, mut len) = ([0; 64], 64);
    call!(list.C_SignInit(session, &mut mechanism(CKM_ECDSA), key));
    call!(list.C_Sign(session, mutable(&[7u8; 32]).cast(), 32, out.as_mut_ptr(), &raw mut len));
}
