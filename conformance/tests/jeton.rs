//! Jeton passes every case, proves every mechanism that it lists and gives every vector its result,
//! under each of its backends.

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

/// Long sets of vectors are cut short here; the program itself runs them whole.
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
    // All that the peers have between them; a mechanism that the suite cannot prove is counted as
    // absent.
    for sum in ["104 of 104 functions are implemented", "182 of 182 mechanisms work, 0 are absent"] {
        assert!(said.contains(sum), "{backend}: not {sum}");
    }
    assert!(run.status.success() && said.contains("ok   C_Sign"), "{backend}: {error}");
}
