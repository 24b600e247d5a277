//! For the build scripts of the shared objects that contain AWS-LC.

/// Links `aws_lc.c` of `directory`, which is that of this file, into the shared object.
pub fn link(directory: &str) {
    let source = format!("{directory}/aws_lc.c");
    println!("cargo::rerun-if-changed={source}");
    for function in ["rdlock", "wrlock", "tryrdlock", "unlock"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap=pthread_rwlock_{function}");
    }
    // Not as a library, which cargo would also link into the programs and tests that use this
    // package. They are linked without `--wrap`.
    for object in cc::Build::new().file(source).std("gnu11").warnings(true).compile_intermediates() {
        println!("cargo::rustc-cdylib-link-arg={}", object.display());
    }
}
