//! The shared object gives away `C_*` and nothing else: neither AWS-LC nor SQLite may meet the host's copies.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn only_the_standard_functions_are_exported() {
    // target/<profile>/deps/exports-…: cargo has built the library beside it.
    let deps = std::env::current_exe().expect("a path");
    let object = deps.with_file_name("libjeton_pkcs11.so");
    let listing =
        Command::new("nm").args(["-D", "--defined-only", "--format=just-symbols"]).arg(object).output();
    let listing = listing.expect("nm, of the binutils that link this test");
    assert!(listing.status.success(), "{}", String::from_utf8_lossy(&listing.stderr));
    let text = String::from_utf8(listing.stdout).expect("names");
    let names: BTreeSet<_> = text.lines().collect();
    assert_eq!(names.iter().find(|name| !name.starts_with("C_")), None);
    assert_eq!(names.len(), 104);
}
