//! Passes every input of the corpora to its fuzz target, without the fuzz engine. `run` searches
//! for new inputs.
//!
//! A process has one module with one token, so each target runs in a process of its own. Without an
//! argument, the program starts the process of each target.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, exit};
use std::sync::{Arc, Mutex};
use std::{env, fs, panic, process};

use jeton_fuzz::targets::{self, Target};

fn main() {
    let argument = env::args().nth(1);
    let named = |target: &&Target| argument.as_deref() == Some(target.0);
    match targets::ALL.iter().find(named) {
        Some(target) => replay(target),
        None => replay_all(),
    }
}

/// Starts the processes of all targets, and fails if one of them fails.
fn replay_all() {
    let program = env::current_exe().expect("the path of this program");
    let start = |target: &Target| Command::new(&program).arg(target.0).spawn().expect("a process");
    let running: Vec<(&str, Child)> = targets::ALL.iter().map(|target| (target.0, start(target))).collect();
    let mut failed = 0;
    for (name, mut child) in running {
        if !child.wait().expect("a process").success() {
            eprintln!("the target {name} failed");
            failed += 1;
        }
    }
    println!("test result: {} passed; {failed} failed", targets::ALL.len() - failed);
    exit(i32::from(failed > 0));
}

/// Passes the inputs to the target. A panic ends the process, because the C interface would
/// otherwise turn it into `CKR_GENERAL_ERROR`.
fn replay((name, read): &Target) {
    let inputs = inputs(name);
    assert!(!inputs.is_empty(), "no corpus for {name}");
    let current = Arc::new(Mutex::new(PathBuf::new()));
    let (report, seen) = (panic::take_hook(), Arc::clone(&current));
    panic::set_hook(Box::new(move |panic| {
        report(panic);
        eprintln!("the input is {}", seen.lock().expect("the path").display());
        process::abort();
    }));
    for input in &inputs {
        current.lock().expect("the path").clone_from(input);
        read(&fs::read(input).expect("an input"));
    }
    println!("test {name}: {} inputs ... ok", inputs.len());
}

/// Returns the files of the target's corpus.
fn inputs(name: &str) -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> =
        fs::read_dir(corpus).expect("the corpus").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}
