//! What the tests here share.

use std::path::PathBuf;

/// The module that `cargo test --workspace` leaves beside the tests; said aloud where it is not
/// there.
pub fn module() -> Option<PathBuf> {
    let file = std::env::current_exe().ok()?.parent()?.join("libjeton_pkcs11.so");
    if !file.is_file() {
        eprintln!("SKIPPED: libjeton_pkcs11.so is not beside this test; `cargo test --workspace` builds it");
        return None;
    }
    Some(file)
}
