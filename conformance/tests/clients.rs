//! The guides of `docs/clients` work with the Jeton of this build: all guides that download nothing
//! and whose programs are installed.

use std::io::Write;
use std::process::Command;

mod support;

#[test]
fn every_installed_client_passes_its_guide() {
    let Some(module) = support::module() else { return };
    let run = Command::new(env!("CARGO_BIN_EXE_clients"))
        .args(["--module", "jeton", "--offline"])
        .env("JETON_MODULE", &module)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&run.stdout);
    for line in said.lines().filter(|line| line.contains(", not run: ")) {
        // Not with eprintln!, because the test runner captures its output.
        let note = format!("SKIPPED: {}\n", line.trim_start_matches("- "));
        std::io::stderr().write_all(note.as_bytes()).expect("standard error");
    }
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("| client |"), "{said}");
}
