//! A client of the module's C interface that uses only the function lists, as an application does.

#![allow(dead_code, unused_macros, reason = "each test binary uses its part")]
#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cryptoki_sys::*;

#[path = "../../../../tests/token/server.rs"]
mod server;

use server::{Server, USER, binaries};

/// Calls a function of the list.
macro_rules! rv {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the test passes valid arguments, or arguments that PKCS#11 requires the module to
        // refuse.
        unsafe { $crate::common::functions().$name.expect("an entry")($($argument),*) }
    };
}

/// Calls a function of the list, which must succeed.
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(rv!($name($($argument),*)), CKR_OK, stringify!($name))
    };
}

/// Calls a function of a list, which must succeed.
macro_rules! call {
    ($list:ident.$name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(unsafe { $list.$name.expect("an entry")($($argument),*) }, CKR_OK, stringify!($name))
    };
}

/// The PIN of the SO and of the user of each token.
pub const PIN: &[u8] = b"a pin of a test";
/// DER of the object identifier of P-256.
pub const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// The module: cargo has built it beside this test.
pub fn built() -> PathBuf {
    std::env::current_exe().expect("a path").with_file_name("libjeton_pkcs11.so")
}

/// Loads a copy of the module. Returns its functions.
pub fn load(path: &Path) -> &'static CK_FUNCTION_LIST {
    type Get = unsafe extern "C" fn(*mut *mut CK_FUNCTION_LIST) -> CK_RV;
    let name = CString::new(path.as_os_str().as_bytes()).expect("a path");
    let mut list = null_mut();
    // SAFETY: the module has `C_GetFunctionList` with this type. It is never unloaded, and its list
    // is a constant.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null(), "{path:?} cannot be loaded");
        let get = libc::dlsym(library, c"C_GetFunctionList".as_ptr());
        let get = std::mem::transmute::<*mut c_void, Get>(get);
        assert_eq!(get(&raw mut list), CKR_OK);
        &*list
    }
}

/// Makes a token in the free slot, which is the last one.
pub fn make_token(list: &CK_FUNCTION_LIST) -> CK_SLOT_ID {
    let (pin, len) = (mutable(PIN).cast(), PIN.len() as CK_ULONG);
    let slot = *slots(list).last().expect("a free slot");
    call!(list.C_InitToken(slot, pin, len, mutable(&[b' '; 32]).cast()));
    let session = open(list, slot, 0);
    log_in(list, session, CKU_SO);
    call!(list.C_InitPIN(session, pin, len));
    call!(list.C_CloseSession(session));
    slot
}

/// Makes a token, for other processes.
pub fn prepare_token(list: &CK_FUNCTION_LIST) {
    call!(list.C_Initialize(nothing()));
    make_token(list);
    call!(list.C_Finalize(nothing()));
}

/// Opens a session of the first token, and logs the user in.
pub fn user(list: &CK_FUNCTION_LIST) -> CK_SESSION_HANDLE {
    let session = open(list, slots(list)[0], 0);
    log_in(list, session, CKU_USER);
    session
}

pub fn open(list: &CK_FUNCTION_LIST, slot: CK_SLOT_ID, more: CK_FLAGS) -> CK_SESSION_HANDLE {
    let (mut session, flags) = (0, CKF_SERIAL_SESSION | CKF_RW_SESSION | more);
    call!(list.C_OpenSession(slot, flags, nothing(), None, &raw mut session));
    session
}

pub fn log_in(list: &CK_FUNCTION_LIST, session: CK_SESSION_HANDLE, user: CK_USER_TYPE) {
    call!(list.C_Login(session, user, mutable(PIN).cast(), PIN.len() as CK_ULONG));
}

/// Generates a key pair. Returns the public key first.
pub fn generate_pair(
    list: &CK_FUNCTION_LIST,
    session: CK_SESSION_HANDLE,
    id: CK_MECHANISM_TYPE,
    public: &[CK_ATTRIBUTE],
    private: &[CK_ATTRIBUTE],
) -> (CK_OBJECT_HANDLE, CK_OBJECT_HANDLE) {
    let (mut public_key, mut private_key) = (0, 0);
    call!(list.C_GenerateKeyPair(
        session,
        &mut mechanism(id),
        public.as_ptr().cast_mut(),
        public.len() as CK_ULONG,
        private.as_ptr().cast_mut(),
        private.len() as CK_ULONG,
        &raw mut public_key,
        &raw mut private_key,
    ));
    (public_key, private_key)
}

pub fn slots(list: &CK_FUNCTION_LIST) -> Vec<CK_SLOT_ID> {
    let (mut slots, mut count) = (vec![0; 9], 9);
    call!(list.C_GetSlotList(CK_TRUE, slots.as_mut_ptr(), &raw mut count));
    slots.truncate(count as usize);
    slots
}

pub fn interface(major: u8, minor: u8) -> &'static CK_INTERFACE {
    let mut version = CK_VERSION { major, minor };
    let mut found = null_mut();
    let name = c"PKCS 11".as_ptr().cast_mut().cast();
    // SAFETY: name and version are live, and `found` takes the address.
    let rv = unsafe { jeton_pkcs11::C_GetInterface(name, &raw mut version, &raw mut found, 0) };
    assert_eq!(rv, CKR_OK, "interface {major}.{minor}");
    // SAFETY: C_GetInterface gave the address of a constant.
    unsafe { &*found }
}

/// The functions of PKCS#11 3.2.
pub fn functions() -> &'static CK_FUNCTION_LIST_3_2 {
    // SAFETY: the list of an interface of version 3.2 has that type and is constant.
    unsafe { &*interface(3, 2).pFunctionList.cast() }
}

/// The functions of PKCS#11 2.40.
pub fn list() -> &'static CK_FUNCTION_LIST {
    // SAFETY: the list of an interface of version 2.40 has that type and is constant.
    unsafe { &*interface(2, 40).pFunctionList.cast() }
}

/// The entries of a function list, as addresses, in order.
pub fn entries(interface: &CK_INTERFACE, count: usize) -> &'static [usize] {
    let list = interface.pFunctionList.cast::<usize>();
    // SAFETY: a list is a version, padded to the length of an address, and `count` addresses.
    unsafe { std::slice::from_raw_parts(list.add(1), count) }
}

pub fn attribute<T: ?Sized>(type_: CK_ATTRIBUTE_TYPE, value: &T) -> CK_ATTRIBUTE {
    CK_ATTRIBUTE { type_, pValue: mutable(value).cast(), ulValueLen: size_of_val(value) as CK_ULONG }
}

/// An attribute that the module fills.
pub fn room<T: ?Sized>(type_: CK_ATTRIBUTE_TYPE, value: &mut T) -> CK_ATTRIBUTE {
    let len = size_of_val(value) as CK_ULONG;
    CK_ATTRIBUTE { type_, pValue: std::ptr::from_mut(value).cast(), ulValueLen: len }
}

pub fn mechanism(mechanism: CK_MECHANISM_TYPE) -> CK_MECHANISM {
    CK_MECHANISM { mechanism, pParameter: null_mut(), ulParameterLen: 0 }
}

pub fn mechanism_with<T: ?Sized>(mechanism: CK_MECHANISM_TYPE, parameter: &T) -> CK_MECHANISM {
    let ulParameterLen = size_of_val(parameter) as CK_ULONG;
    CK_MECHANISM { mechanism, pParameter: mutable(parameter).cast(), ulParameterLen }
}

/// Calls a function twice: for the length, then for the bytes.
pub fn two_calls(call: impl Fn(*mut CK_BYTE, *mut CK_ULONG) -> CK_RV) -> Vec<u8> {
    let mut len = 0;
    assert_eq!(call(null_mut(), &raw mut len), CKR_OK);
    let mut bytes = vec![0; len as usize];
    assert_eq!(call(bytes.as_mut_ptr(), &raw mut len), CKR_OK);
    bytes.truncate(len as usize);
    bytes
}

/// Returns a pointer without `const`, because the declarations of PKCS#11 lack it.
pub fn mutable<T: ?Sized>(value: &T) -> *mut T {
    std::ptr::from_ref(value).cast_mut()
}

/// `NULL`.
pub fn nothing<T>() -> *mut T {
    null_mut()
}

/// Makes the module find its tokens in this directory, or in a database if `JETON_TEST_STORE` is
/// `postgresql`. `configuration` is TOML without the section `store`.
///
/// # Safety
/// No other thread uses the environment.
pub unsafe fn use_tokens(directory: &Path, configuration: &str) {
    let file = directory.join("jeton.toml");
    std::fs::write(&file, format!("{configuration}\n{}", store(directory))).expect("a file");
    // SAFETY: as the caller promises.
    unsafe {
        std::env::set_var("JETON_DIR", directory);
        std::env::set_var("JETON_CONF", file);
    }
}

pub fn has_database() -> bool {
    std::env::var("JETON_TEST_STORE").is_ok_and(|store| store == "postgresql")
}

/// Returns the section `store` for the tokens of a directory: a schema of the same name in the
/// database of this process. Returns nothing if the tokens are in files.
pub fn store(directory: &Path) -> String {
    if !has_database() {
        return String::new();
    }
    let name = directory.file_name().expect("a name").to_string_lossy().replace('-', "_");
    format!("[store]\nurl = '{}'\nschema = '{name}'\n", database().url())
}

fn database() -> &'static Server {
    Server::shared().expect("PostgreSQL is installed")
}

/// Waits until no process has a connection to the database.
pub fn wait_for_disconnection() {
    let start = Instant::now();
    loop {
        let mut command = Command::new(binaries().expect("PostgreSQL").join("psql"));
        command.args(["--no-psqlrc", "--no-align", "--tuples-only", "--username", USER, "--command"]);
        command.arg("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jeton'");
        let output = command.arg("--host").arg(&database().directory).output().expect("psql");
        if output.stdout == b"0\n" {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "a connection to the database is left: {output:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns how many sockets and anonymous inodes (epoll, eventfd) this process has open.
pub fn sockets() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("a proc file system");
    let links = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .filter(|link| ["socket:", "anon_inode:"].iter().any(|kind| link.to_string_lossy().starts_with(kind)))
        .count()
}

/// Returns the number of threads of this process.
pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("a proc file system").count()
}
