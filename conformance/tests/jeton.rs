//! Jeton passes every case, under each of its backends.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn jeton_passes_every_case_under_each_backend() {
    let Some(module) = module() else {
        eprintln!("SKIPPED: libjeton_pkcs11.so is not beside this test; `cargo test --workspace` builds it");
        return;
    };
    for backend in ["aws-lc", "rustcrypto"] {
        let run = Command::new(env!("CARGO_BIN_EXE_conformance"))
            .args(["--module", "jeton", "--backend", backend])
            .env("JETON_MODULE", &module)
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && said.contains("ok   C_Sign"), "{backend}: {said}");
    }
}

/// The module that `cargo test --workspace` leaves beside the tests.
fn module() -> Option<PathBuf> {
    let file = std::env::current_exe().ok()?.parent()?.join("libjeton_pkcs11.so");
    file.is_file().then_some(file)
}
