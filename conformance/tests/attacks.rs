//! Jeton resists the attacks with each backend and policy. Only attacks that the standard allows
//! may succeed under *compatible* (`src/attacks/allowed.rs`). No attack succeeds under *strict*.

use std::process::Command;

mod support;

#[test]
#[ignore = "in .ci/full"]
fn aws_lc_resists_the_attacks_under_compatible() {
    resists("aws-lc", "compatible");
}

#[test]
fn rustcrypto_resists_the_attacks_under_compatible() {
    resists("rustcrypto", "compatible");
}

#[test]
fn aws_lc_resists_the_attacks_under_strict() {
    resists("aws-lc", "strict");
}

#[test]
#[ignore = "in .ci/full"]
fn rustcrypto_resists_the_attacks_under_strict() {
    resists("rustcrypto", "strict");
}

fn resists(backend: &str, policy: &str) {
    let Some(module) = support::module() else { return };
    let run = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["--module", "jeton", "--attacks", "--backend", backend, "--policy", policy])
        .env("JETON_MODULE", &module)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&run.stdout);
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("attacks: "), "{backend}, {policy}: no attack was tried: {error}");
    let failed: Vec<_> = said.lines().filter(|line| line.starts_with("FAIL")).collect();
    assert!(failed.is_empty(), "{backend}, {policy}: {failed:#?}");
    if policy == "strict" {
        assert!(said.contains(" 0 allowed by the standard"), "{backend}: {said}");
    }
}
