//! A client of the module's C interface that uses only the function lists, as an application does.

#![allow(dead_code, unused_macros, reason = "each test binary uses its part")]
#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cryptoki_sys::*;

#[path = "../../../tests/token/server.rs"]
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

/// Returns the interface of this version.
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

/// The entries of a function list, as addresses, in order.
pub fn entries(interface: &CK_INTERFACE, count: usize) -> &'static [usize] {
    let list = interface.pFunctionList.cast::<usize>();
    // SAFETY: a list is a version, padded to the length of an address, and `count` addresses.
    unsafe { std::slice::from_raw_parts(list.add(1), count) }
}

/// An attribute of a template.
pub fn attribute<T: ?Sized>(type_: CK_ATTRIBUTE_TYPE, value: &T) -> CK_ATTRIBUTE {
    CK_ATTRIBUTE { type_, pValue: mutable(value).cast(), ulValueLen: size_of_val(value) as CK_ULONG }
}

/// An attribute that the module fills.
pub fn room<T: ?Sized>(type_: CK_ATTRIBUTE_TYPE, value: &mut T) -> CK_ATTRIBUTE {
    let len = size_of_val(value) as CK_ULONG;
    CK_ATTRIBUTE { type_, pValue: std::ptr::from_mut(value).cast(), ulValueLen: len }
}

/// A mechanism without parameter.
pub fn mechanism(mechanism: CK_MECHANISM_TYPE) -> CK_MECHANISM {
    CK_MECHANISM { mechanism, pParameter: null_mut(), ulParameterLen: 0 }
}

/// A mechanism with a parameter, which lives as long as the mechanism is used.
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

/// Calls each function with zeros and `NULL` for all its parameters.
macro_rules! answers {
    ($list:expr => $($name:ident($($argument:expr),*))*) => {
        // SAFETY: zeros and `NULL` are arguments that PKCS#11 requires the module to refuse.
        vec![$((stringify!($name), unsafe { $list.$name.expect("an entry")($($argument),*) })),*]
    };
}

/// Returns the return code of each function for zeros and `NULL`. Excludes the functions of
/// interfaces and lists, C_Initialize and C_Finalize.
pub fn answers_to_nothing() -> Vec<(&'static str, CK_RV)> {
    let list = functions();
    answers! { list =>
        C_GetInfo(nothing())
        C_GetSlotList(0, nothing(), nothing())
        C_GetSlotInfo(0, nothing())
        C_GetTokenInfo(0, nothing())
        C_GetMechanismList(0, nothing(), nothing())
        C_GetMechanismInfo(0, 0, nothing())
        C_InitToken(0, nothing(), 0, nothing())
        C_InitPIN(0, nothing(), 0)
        C_SetPIN(0, nothing(), 0, nothing(), 0)
        C_OpenSession(0, 0, nothing(), None, nothing())
        C_CloseSession(0)
        C_CloseAllSessions(0)
        C_GetSessionInfo(0, nothing())
        C_GetOperationState(0, nothing(), nothing())
        C_SetOperationState(0, nothing(), 0, 0, 0)
        C_Login(0, 0, nothing(), 0)
        C_Logout(0)
        C_CreateObject(0, nothing(), 0, nothing())
        C_CopyObject(0, 0, nothing(), 0, nothing())
        C_DestroyObject(0, 0)
        C_GetObjectSize(0, 0, nothing())
        C_GetAttributeValue(0, 0, nothing(), 0)
        C_SetAttributeValue(0, 0, nothing(), 0)
        C_FindObjectsInit(0, nothing(), 0)
        C_FindObjects(0, nothing(), 0, nothing())
        C_FindObjectsFinal(0)
        C_EncryptInit(0, nothing(), 0)
        C_Encrypt(0, nothing(), 0, nothing(), nothing())
        C_EncryptUpdate(0, nothing(), 0, nothing(), nothing())
        C_EncryptFinal(0, nothing(), nothing())
        C_DecryptInit(0, nothing(), 0)
        C_Decrypt(0, nothing(), 0, nothing(), nothing())
        C_DecryptUpdate(0, nothing(), 0, nothing(), nothing())
        C_DecryptFinal(0, nothing(), nothing())
        C_DigestInit(0, nothing())
        C_Digest(0, nothing(), 0, nothing(), nothing())
        C_DigestUpdate(0, nothing(), 0)
        C_DigestKey(0, 0)
        C_DigestFinal(0, nothing(), nothing())
        C_SignInit(0, nothing(), 0)
        C_Sign(0, nothing(), 0, nothing(), nothing())
        C_SignUpdate(0, nothing(), 0)
        C_SignFinal(0, nothing(), nothing())
        C_SignRecoverInit(0, nothing(), 0)
        C_SignRecover(0, nothing(), 0, nothing(), nothing())
        C_VerifyInit(0, nothing(), 0)
        C_Verify(0, nothing(), 0, nothing(), 0)
        C_VerifyUpdate(0, nothing(), 0)
        C_VerifyFinal(0, nothing(), 0)
        C_VerifyRecoverInit(0, nothing(), 0)
        C_VerifyRecover(0, nothing(), 0, nothing(), nothing())
        C_DigestEncryptUpdate(0, nothing(), 0, nothing(), nothing())
        C_DecryptDigestUpdate(0, nothing(), 0, nothing(), nothing())
        C_SignEncryptUpdate(0, nothing(), 0, nothing(), nothing())
        C_DecryptVerifyUpdate(0, nothing(), 0, nothing(), nothing())
        C_GenerateKey(0, nothing(), nothing(), 0, nothing())
        C_GenerateKeyPair(0, nothing(), nothing(), 0, nothing(), 0, nothing(), nothing())
        C_WrapKey(0, nothing(), 0, 0, nothing(), nothing())
        C_UnwrapKey(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing())
        C_DeriveKey(0, nothing(), 0, nothing(), 0, nothing())
        C_SeedRandom(0, nothing(), 0)
        C_GenerateRandom(0, nothing(), 0)
        C_GetFunctionStatus(0)
        C_CancelFunction(0)
        C_WaitForSlotEvent(0, nothing(), nothing())
        C_LoginUser(0, 0, nothing(), 0, nothing(), 0)
        C_SessionCancel(0, 0)
        C_MessageEncryptInit(0, nothing(), 0)
        C_EncryptMessage(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing(), nothing())
        C_EncryptMessageBegin(0, nothing(), 0, nothing(), 0)
        C_EncryptMessageNext(0, nothing(), 0, nothing(), 0, nothing(), nothing(), 0)
        C_MessageEncryptFinal(0)
        C_MessageDecryptInit(0, nothing(), 0)
        C_DecryptMessage(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing(), nothing())
        C_DecryptMessageBegin(0, nothing(), 0, nothing(), 0)
        C_DecryptMessageNext(0, nothing(), 0, nothing(), 0, nothing(), nothing(), 0)
        C_MessageDecryptFinal(0)
        C_MessageSignInit(0, nothing(), 0)
        C_SignMessage(0, nothing(), 0, nothing(), 0, nothing(), nothing())
        C_SignMessageBegin(0, nothing(), 0)
        C_SignMessageNext(0, nothing(), 0, nothing(), 0, nothing(), nothing())
        C_MessageSignFinal(0)
        C_MessageVerifyInit(0, nothing(), 0)
        C_VerifyMessage(0, nothing(), 0, nothing(), 0, nothing(), 0)
        C_VerifyMessageBegin(0, nothing(), 0)
        C_VerifyMessageNext(0, nothing(), 0, nothing(), 0, nothing(), 0)
        C_MessageVerifyFinal(0)
        C_EncapsulateKey(0, nothing(), 0, nothing(), 0, nothing(), nothing(), nothing())
        C_DecapsulateKey(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing())
        C_VerifySignatureInit(0, nothing(), 0, nothing(), 0)
        C_VerifySignature(0, nothing(), 0)
        C_VerifySignatureUpdate(0, nothing(), 0)
        C_VerifySignatureFinal(0)
        C_GetSessionValidationFlags(0, 0, nothing())
        C_AsyncComplete(0, nothing(), nothing())
        C_AsyncGetID(0, nothing(), nothing())
        C_AsyncJoin(0, nothing(), 0, nothing(), 0)
        C_WrapKeyAuthenticated(0, nothing(), 0, 0, nothing(), 0, nothing(), nothing())
        C_UnwrapKeyAuthenticated(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing(), 0, nothing())
    }
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

/// Returns whether the tokens are in a database.
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
