//! How the shared object is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The module stays mapped after `dlclose`: the thread-locals of its libraries have
        // destructors, which run when a thread ends that once called it, and the fork handler would
        // dangle too.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // AWS-LC takes an allocator's `sdallocx` and the `OPENSSL_memory_…` functions of whatever
        // has them in the process. A program may have jemalloc and load modules with
        // `RTLD_DEEPBIND`, as OpenSSL's pkcs11-provider does: memory then comes from the C library
        // and was given back to jemalloc. Renamed, they are found nowhere, and `free` is used.
        for theirs in ALLOCATORS {
            println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={theirs}");
        }
    }
}

/// Weak symbols of AWS-LC.
const ALLOCATORS: [&str; 5] = [
    "sdallocx",
    "OPENSSL_memory_alloc",
    "OPENSSL_memory_free",
    "OPENSSL_memory_get_size",
    "OPENSSL_memory_realloc",
];
