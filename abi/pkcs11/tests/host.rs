//! A host process that loads OpenSSL and the module. It uses both libraries, forks, and unloads
//! them, in every order, with and without `C_Finalize`. A thread ends after the unloading. The
//! process must exit with 0. `C_Finalize` leaves no thread, and no connection to a database.
//!
//! The test program starts a process for each order. `JETON_HOST_ROUNDS` is the number of
//! processes. The default is 128, which tries each order once.

#![cfg(target_os = "linux")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every call keeps to PKCS#11, POSIX or OpenSSL's manual"
)]
#![allow(non_snake_case, reason = "functions have the names of OpenSSL")]

#[macro_use]
mod common;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::mpsc::channel;

use common::{
    attribute, has_database, mechanism, mutable, nothing, sockets, threads, wait_for_disconnection,
};
use cryptoki_sys::*;

const OPENSSL: &CStr = c"libcrypto.so.3";
/// The number of orders. The bits of an order's number are its choices.
const ORDERS: u32 = 128;

fn main() {
    if let Some(role) = jeton_child::role::<Option<u32>>() {
        return match role.expect("a role") {
            Some(order) => Order(order).run(),
            None => common::prepare_token(Library::jeton().functions()),
        };
    }
    if Library::load(OPENSSL).is_none() {
        return jeton_programs::skip_without("libcrypto.so.3", &["openssl"]);
    }
    let directory = std::env::temp_dir().join(format!("jeton-host-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // SAFETY: no other thread runs.
    unsafe { common::use_tokens(&directory, "[pin]\nmemory-kib = 8\npasses = 1\n") };
    // The process of an order, or the one that makes the token.
    let start = |order: Option<u32>| {
        let mut command = jeton_child::of_role(&order);
        // Half of the orders unload a module without C_Finalize, so its memory stays allocated.
        command.env("LSAN_OPTIONS", "detect_leaks=0");
        jeton_child::output(command).unwrap_or_else(|reason| panic!("order {order:?}: {reason}"));
    };
    start(None);
    let rounds = std::env::var("JETON_HOST_ROUNDS").map_or(ORDERS, |text| text.parse().expect("a number"));
    (0..rounds).for_each(|round| start(Some(round % ORDERS)));
    println!("{rounds} processes with OpenSSL and Jeton: all exited with 0");
    if has_database() {
        wait_for_disconnection();
    }
    std::fs::remove_dir_all(&directory).expect("the directory");
}

/// The work of one process.
struct Order(u32);

impl Order {
    fn has(&self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }

    fn run(&self) {
        let before = sockets();
        let openssl_first = self.has(0).then(OpenSsl::load);
        let module = Library::jeton();
        let openssl = openssl_first.unwrap_or_else(OpenSsl::load);
        let list = module.functions();

        // Bits 1 and 2: when it forks.
        let moment = self.0 >> 1 & 3;
        let fork = |at| {
            if at == moment {
                self.fork(list, &openssl);
            }
        };
        fork(0);
        openssl.work();
        let key = begin(list);
        sign(list, key);
        fork(1);
        let (let_go, wait) = channel::<()>();
        let (done, worked) = channel();
        // The thread-local values of this thread are dropped after the libraries are unloaded.
        let thread = std::thread::spawn({
            move || {
                openssl.work();
                sign(list, key);
                done.send(()).expect("a thread that waits");
                // Waits until the other end is dropped.
                let _ = wait.recv();
            }
        });
        // OpenSSL does not support a fork while another thread holds its locks.
        worked.recv().expect("a thread that works");
        fork(2);
        if self.has(3) {
            assert_eq!(unsafe { list.C_Finalize.expect("an entry")(nothing()) }, CKR_OK);
            // Besides this thread, only the one above runs.
            assert_eq!((sockets(), threads()), (before, 2), "descriptors and threads");
        }
        if self.has(4) {
            module.unload();
            openssl.work();
            fork(3);
            openssl.library.unload();
        } else {
            openssl.library.unload();
            fork(3);
            module.unload();
        }
        if self.has(5) {
            drop(let_go);
            thread.join().expect("a thread");
        } else {
            // The thread still waits when the process ends. It must not end at the same time:
            // OpenSSL frees in exit(3) what its destructor of a thread's values uses.
            std::mem::forget(let_go);
        }
    }

    /// Forks. The child uses both libraries if both are still loaded, and ends in one of two ways.
    fn fork(&self, list: &CK_FUNCTION_LIST, openssl: &OpenSsl) {
        let unloaded = self.0 >> 1 & 3 == 3;
        match unsafe { libc::fork() } {
            -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
            0 => {
                if !unloaded {
                    openssl.work();
                    sign(list, begin(list));
                }
                match self.has(6) {
                    true => unsafe { libc::_exit(0) },
                    false => std::process::exit(0),
                }
            }
            child => {
                let mut status = 0;
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0, "the child failed");
            }
        }
    }
}

/// A library that was loaded by dlopen(3).
#[derive(Clone, Copy)]
struct Library(usize);

impl Library {
    fn load(name: &CStr) -> Option<Self> {
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle.addr()))
    }

    /// The module: cargo has built it beside this test.
    fn jeton() -> Self {
        let path: PathBuf = std::env::current_exe().expect("a path").with_file_name("libjeton_pkcs11.so");
        let name = CString::new(path.as_os_str().as_bytes()).expect("a path");
        Self::load(&name).expect("the module")
    }

    fn symbol(self, name: &CStr) -> *mut c_void {
        let address = unsafe { libc::dlsym(std::ptr::with_exposed_provenance_mut(self.0), name.as_ptr()) };
        assert!(!address.is_null(), "no {name:?}");
        address
    }

    fn functions(self) -> &'static CK_FUNCTION_LIST {
        type Get = unsafe extern "C" fn(*mut *mut CK_FUNCTION_LIST) -> CK_RV;
        let get: Get = unsafe { std::mem::transmute(self.symbol(c"C_GetFunctionList")) };
        let mut list = null_mut();
        assert_eq!(unsafe { get(&raw mut list) }, CKR_OK);
        unsafe { &*list }
    }

    fn unload(self) {
        assert_eq!(unsafe { libc::dlclose(std::ptr::with_exposed_provenance_mut(self.0)) }, 0);
    }
}

#[derive(Clone, Copy)]
struct OpenSsl {
    library: Library,
    random: Random,
    generate: Generate,
    free: Free,
}

type Random = unsafe extern "C" fn(*mut u8, c_int) -> c_int;
type Generate = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, ...) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

impl OpenSsl {
    fn load() -> Self {
        let library = Library::load(OPENSSL).expect("OpenSSL");
        let [random, generate, free] =
            [c"RAND_bytes", c"EVP_PKEY_Q_keygen", c"EVP_PKEY_free"].map(|name| library.symbol(name));
        unsafe {
            Self {
                library,
                random: std::mem::transmute::<*mut c_void, Random>(random),
                generate: std::mem::transmute::<*mut c_void, Generate>(generate),
                free: std::mem::transmute::<*mut c_void, Free>(free),
            }
        }
    }

    /// Generates random bytes and a key. Both use state of the process and of the thread.
    fn work(&self) {
        let mut bytes = [0; 32];
        assert_eq!(unsafe { (self.random)(bytes.as_mut_ptr(), 32) }, 1);
        assert_ne!(bytes, [0; 32]);
        let curve = c"P-256".as_ptr();
        let key = unsafe { (self.generate)(null_mut(), std::ptr::null(), c"EC".as_ptr(), curve) };
        assert!(!key.is_null());
        unsafe { (self.free)(key) };
    }
}

/// Initialises the module, logs in, and generates a key pair. Returns the session and the private
/// key.
fn begin(list: &CK_FUNCTION_LIST) -> (CK_SESSION_HANDLE, CK_OBJECT_HANDLE) {
    call!(list.C_Initialize(nothing()));
    let session = common::user(list);
    let public = [attribute(CKA_EC_PARAMS, common::P256)];
    let (_, key) = common::generate_pair(list, session, CKM_EC_KEY_PAIR_GEN, &public, &[]);
    (session, key)
}

fn sign(list: &CK_FUNCTION_LIST, (session, key): (CK_SESSION_HANDLE, CK_OBJECT_HANDLE)) {
    let mut with = mechanism(CKM_ECDSA);
    let (mut out, mut len) = ([0; 64], 64);
    call!(list.C_SignInit(session, &raw mut with, key));
    call!(list.C_Sign(session, mutable(&[7u8; 32]).cast(), 32, out.as_mut_ptr(), &raw mut len));
    assert_eq!(len, 64);
}
