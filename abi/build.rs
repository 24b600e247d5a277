//! How the shared object is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The module stays mapped after `dlclose`: the thread-locals of its libraries have destructors, which run when
        // a thread ends that once called it, and the fork handler would dangle too.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
