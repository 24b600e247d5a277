//! Sets the linker's options for the shared object.

#[path = "fork/link.rs"]
mod fork;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has = |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The module must stay mapped after `dlclose`, because the process can still call its code.
        // Its libraries have thread-locals, whose destructors run at the end of each thread that
        // called the module. Its fork handlers stay registered.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // AWS-LC calls `sdallocx` and the `OPENSSL_memory_…` functions if any library in the
        // process has them. A program with jemalloc may load the module with `RTLD_DEEPBIND`, for
        // example through OpenSSL's pkcs11-provider. Then jemalloc would free memory of the C
        // library.
        // `--wrap` renames these symbols, so that AWS-LC finds none of them and calls `free`.
        for theirs in ALLOCATORS {
            println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={theirs}");
        }
        if has("AWS_LC") || has("FIPS") {
            fork::link("fork");
        }
    }
}

/// Functions that AWS-LC declares as weak symbols. AWS-LC would call those of the program that
/// loads the module.
const ALLOCATORS: [&str; 5] = [
    "sdallocx",
    "OPENSSL_memory_alloc",
    "OPENSSL_memory_free",
    "OPENSSL_memory_get_size",
    "OPENSSL_memory_realloc",
];
