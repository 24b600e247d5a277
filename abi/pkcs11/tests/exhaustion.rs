//! Calls that need more memory than the process may use. The test has its own binary, because the
//! limit is for the whole process.

#![cfg(target_os = "linux")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11")]

#[macro_use]
mod common;

use common::{attribute, list, mechanism, mutable, nothing};
use cryptoki_sys::*;

/// The length of the value in bytes.
const LONG: usize = 64 << 20;
/// The memory in bytes that is left when the object is created. It has no room for a copy.
const LEFT: u64 = LONG as u64 / 2;

#[test]
fn calls_that_need_more_memory_than_there_is_are_refused() {
    let directory = std::env::temp_dir().join(format!("jeton-memory-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // SAFETY: the only test of this process, before it calls the module.
    unsafe { std::env::set_var("JETON_DIR", &directory) };
    ok!(C_Initialize(nothing()));
    let slot = common::slots(list())[0];
    ok!(C_InitToken(slot, mutable(b"a pin").cast(), 5, mutable(&[b' '; 32]).cast()));
    let session = common::open(list(), slot, 0);
    let create = |value: &[u8]| {
        let mut template =
            [attribute(CKA_CLASS, &CKO_DATA), attribute(CKA_PRIVATE, &CK_FALSE), attribute(CKA_VALUE, value)];
        let mut object = 0;
        rv!(C_CreateObject(session, template.as_mut_ptr(), template.len() as CK_ULONG, &raw mut object))
    };
    let mut long = vec![7; LONG];
    let most = libc::rlimit { rlim_cur: used() + LEFT, rlim_max: libc::RLIM_INFINITY };
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const most) }, 0);
    assert_eq!(create(&long), CKR_HOST_MEMORY);
    assert_eq!(create(b"a short value"), CKR_OK);
    // An input that overlaps the output is copied. Without memory for the copy, the operation ends.
    let mut sha256 = mechanism(CKM_SHA256);
    ok!(C_DigestInit(session, &raw mut sha256));
    let (data, mut len) = (long.as_mut_ptr(), 32);
    assert_eq!(rv!(C_Digest(session, data, LONG as CK_ULONG, data, &raw mut len)), CKR_HOST_MEMORY);
    ok!(C_DigestInit(session, &raw mut sha256));
    ok!(C_Finalize(nothing()));
    std::fs::remove_dir_all(&directory).expect("the directory");
}

/// Returns the size of the address space in bytes (proc(5)).
fn used() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a proc file system");
    let line = status.lines().find(|line| line.starts_with("VmSize:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
}
