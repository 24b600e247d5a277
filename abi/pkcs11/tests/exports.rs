//! The shared object exports only `C_*`, because its copies of AWS-LC and SQLite must not mix with
//! those of the host. It frees memory with the allocator that allocated it.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn only_the_standard_functions_are_exported() {
    let names = symbols("--defined-only");
    assert_eq!(names.iter().find(|name| !name.starts_with("C_")), None);
    assert_eq!(names.len(), 104);
}

/// BIND 9.20 uses jemalloc, and pkcs11-provider loads modules with `RTLD_DEEPBIND`. Then the module
/// calls `malloc` and `free` of the C library. An earlier version of the module also called
/// `sdallocx` of jemalloc. So jemalloc freed memory of the C library.
#[test]
fn memory_is_freed_by_the_allocator_that_allocated_it() {
    let names = symbols("--undefined-only");
    assert!(names.contains("free") && names.contains("malloc"), "{names:?}");
    let of_hosts = |name: &&String| *name == "sdallocx" || name.starts_with("OPENSSL_");
    assert_eq!(names.iter().find(of_hosts), None);
}

/// An earlier version of the module freed the result of `realpath`, which the C library had
/// allocated with the allocator of the host.
#[test]
fn a_host_with_its_own_allocator_loads_the_module_with_deepbind() {
    // AddressSanitizer replaces the allocator itself. A module that is built with AddressSanitizer
    // needs the sanitizer's runtime in the host.
    if symbols("--undefined-only").contains("__asan_init") {
        return;
    }
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("allocator");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(scratch.join("tokens")).expect("a directory");
    let program = scratch.join("host");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/allocator.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-rdynamic", "-fno-builtin", "-w", "-std=gnu11", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-ldl");
    let compiled = compiler.output().expect("cc, which links this test");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut host = Command::new(&program);
    host.arg(object()).env("JETON_DIR", scratch.join("tokens")).env_remove("JETON_CONF");
    let output = host.output().expect("the host starts");
    assert!(output.status.success() && output.stdout == b"worked\n", "{output:?}");
}

/// Returns the names in the dynamic symbol table of the shared object, without versions.
fn symbols(which: &str) -> BTreeSet<String> {
    let listing = Command::new("nm").args(["-D", which, "--format=just-symbols"]).arg(object()).output();
    let listing = listing.expect("nm, of the binutils that link this test");
    assert!(listing.status.success(), "{}", String::from_utf8_lossy(&listing.stderr));
    let text = String::from_utf8(listing.stdout).expect("names");
    text.lines().map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect()
}

fn object() -> PathBuf {
    // target/<profile>/deps/exports-…: cargo has built the library beside it.
    std::env::current_exe().expect("a path").with_file_name("libjeton_pkcs11.so")
}
