//! The guides of `docs/clients` work with the Jeton of this build: all guides that download nothing
//! and whose programs are installed.

use std::io::Write;
use std::process::Command;

mod support;

#[test]
fn every_guide_works_if_its_programs_are_installed() {
    run_guides(&[]);
}

#[test]
#[ignore = "in .ci/full"]
fn the_blocks_of_every_guide_work_when_pasted_into_a_fresh_shell() {
    run_guides(&["--pasted"]);
}

/// Runs the guides with more options. Panics with the output if one fails.
fn run_guides(options: &[&str]) {
    let Some(module) = support::module() else { return };
    let run = Command::new(env!("CARGO_BIN_EXE_clients"))
        .args(["--module", "jeton", "--offline"])
        .args(options)
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
