//! The shared object exports only `C_*`, and does not use the host's allocator. AWS-LC and SQLite
//! must not mix with the host's copies.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn only_the_standard_functions_are_exported() {
    let names = symbols("--defined-only");
    assert_eq!(names.iter().find(|name| !name.starts_with("C_")), None);
    assert_eq!(names.len(), 104);
}

/// BIND 9.20 uses jemalloc, and pkcs11-provider loads modules with `RTLD_DEEPBIND`. There,
/// jemalloc's `sdallocx` freed memory that the C library had allocated.
#[test]
fn memory_is_freed_by_the_allocator_that_allocated_it() {
    let names = symbols("--undefined-only");
    assert!(names.contains("free") && names.contains("malloc"), "{names:?}");
    let of_hosts = |name: &&String| *name == "sdallocx" || name.starts_with("OPENSSL_");
    assert_eq!(names.iter().find(of_hosts), None);
}

/// Returns the names in the dynamic symbol table of the shared object, without versions.
fn symbols(which: &str) -> BTreeSet<String> {
    // target/<profile>/deps/exports-…: cargo has built the library beside it.
    let deps = std::env::current_exe().expect("a path");
    let object = deps.with_file_name("libjeton_pkcs11.so");
    let listing = Command::new("nm").args(["-D", which, "--format=just-symbols"]).arg(object).output();
    let listing = listing.expect("nm, of the binutils that link this test");
    assert!(listing.status.success(), "{}", String::from_utf8_lossy(&listing.stderr));
    let text = String::from_utf8(listing.stdout).expect("names");
    text.lines().map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect()
}
