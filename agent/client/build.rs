//! Sets the linker's options for the shared object.

#[path = "../../abi/pkcs11/fork/link.rs"]
mod fork;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The fork handler stays registered after `dlclose`.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // rustls has AWS-LC.
        if std::env::var_os("CARGO_FEATURE_TLS").is_some() {
            fork::link("../../abi/pkcs11/fork");
        }
    }
}
