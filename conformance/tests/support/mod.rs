//! Helpers of these tests.

use std::path::PathBuf;

/// Returns the module that `cargo test --workspace` builds beside the tests. If the module is
/// missing, prints a line and returns `None`.
pub fn module() -> Option<PathBuf> {
    let file = std::env::current_exe().ok()?.parent()?.join("libjeton_pkcs11.so");
    if !file.is_file() {
        jeton_programs::skip("jeton is not built: cargo test --workspace builds it");
        return None;
    }
    Some(file)
}
