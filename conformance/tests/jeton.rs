//! Jeton passes every case, under each of its backends.

use std::process::Command;

mod support;

#[test]
fn jeton_passes_every_case_under_each_backend() {
    let Some(module) = support::module() else { return };
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
