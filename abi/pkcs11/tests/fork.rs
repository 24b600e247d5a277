//! A child of a fork starts without a module. This binary has no threads of the test harness,
//! because a child of a process with threads may only make async-signal-safe calls.

#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or POSIX, or passes NULL")]

#[macro_use]
mod common;

use std::ptr::null_mut;

use common::{
    P256, attribute, functions, generate_pair, has_database, list, mechanism, mutable, nothing, sockets,
    threads, wait_for_disconnection,
};
use cryptoki_sys::*;

/// Starts the module, and opens a session of the user.
fn started() -> CK_SESSION_HANDLE {
    ok!(C_Initialize(nothing()));
    user()
}

fn main() {
    let directory = std::env::temp_dir().join(format!("jeton-fork-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // The PINs have a cheap key derivation, because 32 children log in at once. A login waits at
    // most 20 s for other logins, and Valgrind is slow.
    // SAFETY: no other thread runs.
    unsafe {
        let log = directory.join("log");
        let log = format!("lanes = true\nlog = {{ level = 'debug', file = '{}' }}\n", log.display());
        common::use_tokens(&directory, &format!("{log}[pin]\nmemory-kib = 8\npasses = 1\n"));
    }

    let list = functions();
    let initialize = list.C_Initialize.expect("an entry");
    let finalize = list.C_Finalize.expect("an entry");
    // SAFETY: NULL is refused in every state of the module.
    let answer = || unsafe { list.C_GetInfo.expect("an entry")(null_mut()) };

    assert_eq!(answer(), CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_eq!(in_child(answer), CKR_CRYPTOKI_NOT_INITIALIZED);
    for _ in 0..8 {
        Child::start(&a_child_waits_for_no_thread_of_its_parent).end();
    }
    (0..200).for_each(|_| assert_eq!(Child::start(&a_child_starts_while_threads_start).end(), [0]));
    Child::start(&|| a_fork_waits_for_no_reader_of_the_log(&directory)).end();

    assert_eq!(unsafe { initialize(null_mut()) }, CKR_OK);
    assert_eq!(answer(), CKR_ARGUMENTS_BAD);
    assert_eq!(in_child(answer), CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_eq!(in_child(|| unsafe { finalize(null_mut()) }), CKR_CRYPTOKI_NOT_INITIALIZED);
    // The child starts and stops a module of its own. The parent's module continues.
    assert_eq!(in_child(|| unsafe { initialize(null_mut()) }), CKR_OK);
    let cycle = || unsafe {
        initialize(null_mut());
        finalize(null_mut());
        initialize(null_mut())
    };
    assert_eq!(in_child(cycle), CKR_OK);
    assert_eq!(answer(), CKR_ARGUMENTS_BAD);

    a_thread_of_the_module_stays_in_the_parent(&cycle);
    assert_eq!(unsafe { finalize(null_mut()) }, CKR_OK);

    many_children_sign_and_draw_different_numbers();
    pending_signatures_stay_in_the_parent();
    a_child_continues_after_its_parent_calls_finalize();
    if has_database() {
        a_child_neither_uses_nor_keeps_the_connection_of_its_parent();
    } else {
        a_child_neither_drops_nor_keeps_the_locks_of_its_parent();
    }

    assert_eq!(unsafe { initialize(null_mut()) }, CKR_OK);
    assert_eq!(unsafe { finalize(null_mut()) }, CKR_OK);
    assert_eq!(in_child(|| unsafe { initialize(null_mut()) }), CKR_OK);
    std::fs::remove_dir_all(&directory).expect("the directory");
}

/// Forks while another thread calls `C_Initialize` for the first time, and then writes to the log.
fn a_child_waits_for_no_thread_of_its_parent() -> [u8; 1] {
    let writer = std::thread::spawn(|| {
        ok!(C_Initialize(nothing()));
        (0..5000).for_each(|_| assert_eq!(rv!(C_GetInfo(nothing())), CKR_ARGUMENTS_BAD));
    });
    let child = || {
        unsafe { libc::alarm(60) };
        ok!(C_Initialize(nothing()));
        ok!(C_Finalize(nothing()));
        [0]
    };
    let children: Vec<_> = (0..16).map(|_| Child::start(&child)).collect();
    writer.join().expect("a thread");
    children.into_iter().fold([0], |_, child| child.end())
}

/// Forks while several threads call `C_Initialize` for the first time.
fn a_child_starts_while_threads_start() -> [u8; 1] {
    let child = || {
        unsafe { libc::alarm(60) };
        ok!(C_Initialize(nothing()));
        [0]
    };
    (0..4).for_each(|_| drop(std::thread::spawn(|| rv!(C_Initialize(nothing())))));
    (0..3).map(|_| Child::start(&child)).collect::<Vec<_>>().into_iter().fold([0], |_, child| child.end())
}

/// Forks while another thread writes to a pipe at standard error that is full.
fn a_fork_waits_for_no_reader_of_the_log(directory: &std::path::Path) -> [u8; 1] {
    let own = directory.join("own");
    std::fs::create_dir(&own).expect("a directory");
    unsafe {
        common::use_tokens(&own, "log = { level = 'debug' }\n");
        libc::alarm(60);
        libc::dup2(pipe().1, 2);
    }
    std::thread::spawn(|| {
        ok!(C_Initialize(nothing()));
        (0..5000).for_each(|_| assert_eq!(rv!(C_GetInfo(nothing())), CKR_ARGUMENTS_BAD));
    });
    std::thread::sleep(std::time::Duration::from_secs(1));
    Child::start(&|| [0]).end()
}

/// A fork during the generation of a key pair: the child starts without a module, and the parent
/// gets its pair. (The generating thread holds only the allocator's lock, which the C library
/// releases in a child.) A child can generate a pair too.
fn a_thread_of_the_module_stays_in_the_parent(cycle: &dyn Fn() -> CK_RV) {
    let slot = common::make_token(list());
    let session = common::open(list(), slot, CKF_ASYNC_SESSION);
    common::log_in(list(), session, CKU_USER);

    let mut with = mechanism(CKM_RSA_PKCS_KEY_PAIR_GEN);
    let mut public = [attribute(CKA_MODULUS_BITS, &(3072 as CK_ULONG))];
    let (mut one, mut other) = (0, 0);
    let (template, one, other) = (public.as_mut_ptr(), &raw mut one, &raw mut other);
    let pending = rv!(C_GenerateKeyPair(session, &raw mut with, template, 1, nothing(), 0, one, other));
    assert_eq!(pending, CKR_PENDING);
    let name = c"C_GenerateKeyPair".as_ptr().cast_mut().cast();
    let mut done =
        CK_ASYNC_DATA { ulVersion: 0, pValue: nothing(), ulValue: 0, hObject: 0, hAdditionalObject: 0 };
    let mut complete = || rv!(C_AsyncComplete(session, name, &raw mut done));
    let own = || {
        unsafe { libc::alarm(300) };
        let public = [attribute(CKA_MODULUS_BITS, &(2048 as CK_ULONG))];
        generate_pair(list(), started(), CKM_RSA_PKCS_KEY_PAIR_GEN, &public, &[]);
        [0]
    };
    let children: Vec<_> = (0..4).map(|_| Child::start(&own)).collect();
    children.into_iter().for_each(|child| assert_eq!(child.end(), [0]));
    assert_eq!(in_child(|| rv!(C_CloseSession(session))), CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_eq!(in_child(cycle), CKR_OK);
    while complete() == CKR_PENDING {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(done.hObject != 0 && done.hAdditionalObject != 0);
}

/// Children of a parent with an open session: each calls C_Initialize, signs with a key of the
/// token, draws random numbers and creates an object.
fn many_children_sign_and_draw_different_numbers() {
    const CHILDREN: usize = 32;
    let session = started();
    let both =
        [attribute(CKA_TOKEN, &CK_TRUE), attribute(CKA_LABEL, b"pair"), attribute(CKA_EC_PARAMS, P256)];
    let (public, private) = generate_pair(list(), session, CKM_EC_KEY_PAIR_GEN, &both, &both[..2]);
    let before = objects(session, b"of a child");
    let work = || {
        let session = started();
        let mut template = [attribute(CKA_SIGN, &CK_TRUE), attribute(CKA_LABEL, b"pair")];
        let keys = find(session, &mut template);
        let mut out = [0u8; 64 + 32];
        sign(session, keys[0], &mut out[..64]);
        ok!(C_GenerateRandom(session, out[64..].as_mut_ptr(), 32));
        create(session, b"of a child");
        ok!(C_Finalize(nothing()));
        out
    };
    let children: Vec<_> = (0..CHILDREN).map(|_| Child::start(&work)).collect();
    let told: Vec<_> = children.into_iter().map(Child::end).collect();
    let mut nonces = std::collections::BTreeSet::new();
    for out in &told {
        let mut with = mechanism(CKM_ECDSA);
        ok!(C_VerifyInit(session, &raw mut with, public));
        ok!(C_Verify(session, mutable(&DIGEST).cast(), 32, mutable(&out[..64]).cast(), 64));
        // The value r of a signature depends only on its nonce.
        nonces.insert(&out[..32]);
        nonces.insert(&out[64..]);
    }
    assert_eq!(nonces.len(), 2 * CHILDREN, "a nonce or a random number occurred twice");
    assert_eq!(objects(session, b"of a child"), before + CHILDREN);
    sign(session, private, &mut [0; 64]);
    ok!(C_Finalize(nothing()));
}

/// A fork with pending signatures: the child starts without them and writes nothing to their
/// buffers. Its own signatures, and then those of the parent, are right.
fn pending_signatures_stay_in_the_parent() {
    let session = started();
    let label = attribute(CKA_LABEL, b"rsa");
    let both = [attribute(CKA_TOKEN, &CK_TRUE), label, attribute(CKA_MODULUS_BITS, &(2048 as CK_ULONG))];
    generate_pair(list(), session, CKM_RSA_PKCS_KEY_PAIR_GEN, &both, &both[..2]);
    let (mut all, expected) = ([[0; 256]; 3], [CKR_PENDING; 3]);
    let begun = begin(&mut all);
    if begun.map(|(_, code)| code) == expected {
        let work = || {
            let refused = begun.map(|(session, _)| complete(session));
            started();
            let mut own = all;
            let codes = begin(&mut own).map(|(session, _)| complete(session));
            ok!(C_Finalize(nothing()));
            let right = refused == [CKR_CRYPTOKI_NOT_INITIALIZED; 3] && codes == [CKR_OK; 3];
            assert!(right && all == [[0; 256]; 3], "{refused:?} {codes:?}");
            own[2]
        };
        let signature = Child::start(&work).end();
        assert_eq!(begun.map(|(session, _)| complete(session)), [CKR_OK; 3]);
        assert_eq!(unsafe { (&raw const all).read_volatile() }, [signature; 3]);
    }
    ok!(C_Finalize(nothing()));
}

/// Signs the same in an asynchronous session for each buffer. Returns the sessions.
fn begin(all: &mut [[u8; 256]; 3]) -> [(CK_SESSION_HANDLE, CK_RV); 3] {
    all.each_mut().map(|out| {
        let session = common::open(list(), common::slots(list())[0], CKF_ASYNC_SESSION);
        let key = find(session, &mut [attribute(CKA_SIGN, &CK_TRUE), attribute(CKA_LABEL, b"rsa")])[0];
        ok!(C_SignInit(session, &mut mechanism(CKM_SHA256_RSA_PKCS), key));
        let mut len = 256;
        (session, rv!(C_Sign(session, mutable(&DIGEST).cast(), 32, out.as_mut_ptr(), &raw mut len)))
    })
}

/// Calls `C_AsyncComplete` for `C_Sign`.
fn complete(session: CK_SESSION_HANDLE) -> CK_RV {
    let mut done =
        CK_ASYNC_DATA { ulVersion: 0, pValue: nothing(), ulValue: 0, hObject: 0, hAdditionalObject: 0 };
    rv!(C_AsyncComplete(session, c"C_Sign".as_ptr().cast_mut().cast(), &raw mut done))
}

/// A parent calls `C_Initialize`, forks and calls `C_Finalize`, as servers do. Meanwhile its child
/// works on the same token. If the child believed that it holds the locks of its parent, it would
/// write to SQLite's log while the parent deletes the log in `C_Finalize`.
fn a_child_continues_after_its_parent_calls_finalize() {
    let session = started();
    create(session, b"of the parent");
    let (from_child, to_parent) = pipe();
    let (from_parent, to_child) = pipe();
    let child = Child::start(&|| {
        let session = started();
        create(session, b"before");
        tell(to_parent);
        hear(from_parent);
        create(session, b"after");
        [0]
    });
    hear(from_child);
    ok!(C_Finalize(nothing()));
    // A second child, which starts after the parent's C_Finalize.
    create_in_child(b"of another");
    tell(to_child);
    child.end();
    let session = started();
    for label in ["of the parent", "before", "of another", "after"] {
        assert_eq!(objects(session, label.as_bytes()), 1, "an acknowledged object is missing: {label}");
    }
    ok!(C_Finalize(nothing()));
}

/// A child inherits the open file descriptions of the locks. The parent keeps its locks when the
/// child ends. The locks end with the parent, even if it is killed while the child continues.
fn a_child_neither_drops_nor_keeps_the_locks_of_its_parent() {
    started();
    assert_eq!(locked(), [true; 2]);
    Child::start(&|| [0]).end();
    assert_eq!(locked(), [true; 2]);
    create_in_child(b"of a child that ends");
    assert_eq!(locked(), [true; 2]);
    ok!(C_Finalize(nothing()));

    kill_a_parent_of_a_child(
        || assert_eq!(locked(), [true; 2]),
        || assert_eq!(locked(), [false; 2], "a child keeps locks of a parent that is gone"),
    );
}

/// Kills a process whose child continues. Calls `before` before the kill and `after` after it,
/// while the child still runs. Checks that the object of the parent is there at the end.
fn kill_a_parent_of_a_child(before: impl Fn(), after: impl Fn()) {
    let (from_parent, to_tester) = pipe();
    let (from_tester, to_grandchild) = pipe();
    let parent = Child::<1>::start(&|| {
        let mut byte = 0u8;
        create(started(), b"of a parent that is killed");
        if unsafe { libc::fork() } == 0 {
            // The handlers of the fork have run here.
            tell(to_tester);
            // Wait until the tester writes or ends.
            unsafe {
                libc::close(to_grandchild);
                libc::read(from_tester, (&raw mut byte).cast(), 1);
                libc::_exit(0)
            };
        }
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    });
    hear(from_parent);
    before();
    let mut status = 0;
    assert_eq!(unsafe { libc::kill(parent.id, libc::SIGKILL) }, 0);
    assert_eq!(unsafe { libc::waitpid(parent.id, &raw mut status, 0) }, parent.id);
    after();
    tell(to_grandchild);
    assert_eq!(objects(started(), b"of a parent that is killed"), 1);
    ok!(C_Finalize(nothing()));
}

/// A child closes its copy of the parent's connection, and the parent continues to use it. The
/// connection ends with the parent, even if it is killed while the child continues.
fn a_child_neither_uses_nor_keeps_the_connection_of_its_parent() {
    let before = sockets();
    let session = started();
    let connected = sockets();
    let [inherited] = Child::start(&|| [sockets() as u8]).end();
    // Only the descriptors with which the parent waits for its socket are left.
    assert!((inherited as usize) < connected, "{inherited} of {connected} descriptors are left in a child");
    create_in_child(b"of a child that ends");
    create(session, b"of a parent whose child has ended");
    ok!(C_Finalize(nothing()));
    assert_eq!((sockets(), threads()), (before, 1));
    wait_for_disconnection();

    kill_a_parent_of_a_child(|| (), wait_for_disconnection);
}

/// Returns for the token file and for its `-shm` file whether a lock excludes another open file
/// description.
fn locked() -> [bool; 2] {
    let directory = std::env::var_os("JETON_DIR").expect("the directory");
    let entries = std::fs::read_dir(directory).expect("the directory").flatten();
    let mut tokens = entries.map(|entry| entry.path().join(entry.file_name()));
    let token = tokens.find(|token| token.with_extension("jeton").exists()).expect("a token");
    ["jeton", "jeton-shm"].map(|extension| {
        let path = token.with_extension(extension);
        let file = std::fs::File::options().read(true).write(true).open(path);
        let file = std::os::fd::OwnedFd::from(file.expect("a file"));
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as i16;
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_OFD_GETLK, &raw mut lock) }, 0);
        lock.l_type != libc::F_UNLCK as i16
    })
}

const DIGEST: [u8; 32] = [7; 32];

fn user() -> CK_SESSION_HANDLE {
    common::user(list())
}

fn create(session: CK_SESSION_HANDLE, label: &[u8]) {
    let mut template =
        [attribute(CKA_CLASS, &CKO_DATA), attribute(CKA_TOKEN, &CK_TRUE), attribute(CKA_LABEL, label)];
    let mut object = 0;
    ok!(C_CreateObject(session, template.as_mut_ptr(), 3, &raw mut object));
}

/// Creates an object in a child that starts a module and ends.
fn create_in_child(label: &[u8]) {
    let work = || {
        create(started(), label);
        ok!(C_Finalize(nothing()));
        [0]
    };
    Child::start(&work).end();
}

fn sign(session: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE, out: &mut [u8]) {
    let mut with = mechanism(CKM_ECDSA);
    let mut len = out.len() as CK_ULONG;
    ok!(C_SignInit(session, &raw mut with, key));
    ok!(C_Sign(session, mutable(&DIGEST).cast(), 32, out.as_mut_ptr(), &raw mut len));
    assert_eq!(len, 64);
}

fn find(session: CK_SESSION_HANDLE, template: &mut [CK_ATTRIBUTE]) -> Vec<CK_OBJECT_HANDLE> {
    let (mut found, mut count) = (vec![0; 100], 0);
    ok!(C_FindObjectsInit(session, template.as_mut_ptr(), template.len() as CK_ULONG));
    ok!(C_FindObjects(session, found.as_mut_ptr(), 100, &raw mut count));
    ok!(C_FindObjectsFinal(session));
    found.truncate(count as usize);
    found
}

fn objects(session: CK_SESSION_HANDLE, label: &[u8]) -> usize {
    find(session, &mut [attribute(CKA_LABEL, label)]).len()
}

fn pipe() -> (i32, i32) {
    let mut ends = [0; 2];
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    (ends[0], ends[1])
}

fn tell(pipe: i32) {
    assert_eq!(unsafe { libc::write(pipe, c"x".as_ptr().cast(), 1) }, 1);
}

fn hear(pipe: i32) {
    let mut byte = 0u8;
    assert_eq!(unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) }, 1);
}

/// A child process that runs at the same time as its parent, and sends `N` bytes to it.
struct Child<const N: usize> {
    id: i32,
    pipe: i32,
}

impl<const N: usize> Child<N> {
    fn start(work: &dyn Fn() -> [u8; N]) -> Self {
        let (read, write) = pipe();
        match unsafe { libc::fork() } {
            -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
            0 => {
                // A panic must not unwind into the tests of the parent.
                let sent = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                    .map(|out| unsafe { libc::write(write, out.as_ptr().cast(), N) });
                unsafe { libc::_exit(i32::from(sent.ok() != Some(N as isize))) }
            }
            id => {
                unsafe { libc::close(write) };
                Self { id, pipe: read }
            }
        }
    }

    fn end(self) -> [u8; N] {
        let (mut out, mut status) = ([0; N], 0);
        let got = unsafe { libc::read(self.pipe, out.as_mut_ptr().cast(), N) };
        unsafe { libc::close(self.pipe) };
        assert_eq!(unsafe { libc::waitpid(self.id, &raw mut status, 0) }, self.id);
        assert_eq!((got, status), (N as isize, 0), "the child failed");
        out
    }
}

fn in_child(work: impl Fn() -> CK_RV) -> CK_RV {
    CK_RV::from_ne_bytes(Child::start(&|| work().to_ne_bytes()).end())
}
