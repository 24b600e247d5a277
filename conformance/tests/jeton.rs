//! With each backend, Jeton passes every case, every mechanism that it lists, and every vector.

use std::process::Command;

mod support;

#[test]
fn jeton_conforms_with_aws_lc() {
    conforms("aws-lc");
}

#[test]
fn jeton_conforms_with_rustcrypto() {
    conforms("rustcrypto");
}

/// Here only a part of long sets of vectors runs. The program runs all vectors.
fn conforms(backend: &str) {
    let Some(module) = support::module() else { return };
    let run = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["--module", "jeton", "--quick", "--backend", backend])
        .env("JETON_MODULE", &module)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&run.stdout);
    let wrong: Vec<_> =
        said.lines().filter(|line| line.starts_with("FAIL") || line.starts_with("     ")).collect();
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(wrong.is_empty(), "{backend}: {}", wrong.join("\n"));
    // All mechanisms of the peers together. A mechanism that the suite cannot test counts as
    // absent.
    for sum in ["104 of 104 functions are implemented", "182 of 182 mechanisms work, 0 are absent"] {
        assert!(said.contains(sum), "{backend}: not {sum}");
    }
    assert!(run.status.success() && said.contains("ok   C_Sign"), "{backend}: {error}");
}
