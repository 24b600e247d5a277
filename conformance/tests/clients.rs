//! The guides of `docs/clients` work with the Jeton of this build: all guides that download nothing
//! and whose programs are installed.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

mod support;

#[test]
fn every_guide_works_if_its_programs_are_installed() {
    run_guides(&["--root", "no"]);
}

#[test]
fn every_guide_for_root_works_if_its_programs_are_installed() {
    run_guides_as_root(&[]);
}

#[test]
#[ignore = "in .ci/full"]
fn the_blocks_of_every_guide_work_when_pasted_into_a_fresh_shell() {
    run_guides(&["--pasted", "--root", "no"]);
}

#[test]
#[ignore = "in .ci/full"]
fn the_blocks_of_every_guide_for_root_work_when_pasted_into_a_fresh_shell() {
    run_guides_as_root(&["--pasted"]);
}

fn run_guides_as_root(options: &[&str]) {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0);
    if !is_root {
        return jeton_programs::skip("only root can follow these guides");
    }
    run_guides(&[&["--root", "yes"], options].concat());
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
    for line in said.lines() {
        let [guide, _, outcome] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
        let Some(reason) = outcome.strip_prefix("not run: ") else { continue };
        let reason = reason.trim_matches('`');
        match reason.strip_prefix("no ").and_then(|missing| missing.split_once(": apt-get install ")) {
            Some((program, packages)) => {
                let packages: Vec<_> = packages.split(' ').collect();
                jeton_programs::skip_without(&format!("{program} for the guide {guide}"), &packages);
            }
            None => jeton_programs::skip(format_args!("the guide {guide}: {reason}")),
        }
    }
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("client\tversion\tjeton"), "{said}");
}
