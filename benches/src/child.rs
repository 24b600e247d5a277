//! The child processes of the bench: the executable starts itself with a role in the environment.

use std::env;
use std::ffi::OsStr;
use std::process::Command;

use crate::artefacts::{Artefacts, target_directory};
use crate::{groups, instructions, rows, startup};

/// The variable that holds the role of the child.
const ROLE: &str = "JETON_BENCH_ROLE";

/// Returns the command that starts this executable in this role. Clears the variables that would
/// move the tokens of our modules.
pub fn of_role(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap_or_default());
    set_up(&mut command, role);
    command
}

/// Returns the same command, run by a program that watches it.
pub fn below(program: &str, arguments: &[&OsStr], role: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(env::current_exe().unwrap_or_default());
    set_up(&mut command, role);
    command
}

fn set_up(command: &mut Command, role: &str) {
    command.env(ROLE, role).env_remove("JETON_DIR").env_remove("JETON_CONF");
}

/// Runs the role and ends the process, if this process is a child.
pub fn if_child() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<_> = role.split('\t').collect();
    let outcome = match words.as_slice() {
        ["compare", directory] => {
            groups::run(filter(), directory.as_ref(), &Artefacts::of(&target_directory()))
        }
        ["count", library, directory, backend, operation, repetitions] => {
            instructions::count(library, directory, backend, operation, repetitions)
        }
        ["count-floor", operation, repetitions] => instructions::count_floor(operation, repetitions),
        ["load", library, directory] => startup::load(library, directory),
        ["memory", library, directory, home, objects] => startup::memory(library, directory, home, objects),
        _ => Err(format!("no such role: {role:?}")),
    };
    if let Err(reason) = outcome {
        eprintln!("{reason}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// Returns the filter of the command line, if there is one.
pub fn filter() -> Option<String> {
    env::args().skip(1).find(|argument| !argument.starts_with('-'))
}

/// Measures all groups in one child, with a temporary directory for its tokens.
pub fn compare() -> Result<(), String> {
    let artefacts = Artefacts::build()?;
    let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(target_directory());
    let directory = directory.map_err(|error| error.to_string())?;
    let data = crate::artefacts::data_directory();
    let mut command = of_role(&format!("compare\t{}", directory.path().display()));
    // Criterion has another option `--quick`.
    let quick = env::args().any(|argument| argument == "--quick");
    command.args(env::args().skip(1).filter(|argument| argument != "--quick"));
    command.envs(rows::environment(directory.path())).env("CRITERION_HOME", &data);
    if quick {
        command.env(crate::settings::SHORT, "1");
    }
    if filter().is_none() && data.is_dir() {
        // The report describes one run, so the data of earlier runs is removed.
        std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
    }
    finished(command)?;
    if filter().is_none() {
        startup::measure(&artefacts)?;
        instructions::measure(&artefacts)?;
    }
    Ok(())
}

/// Runs a child and waits for it.
pub fn finished(mut command: Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the child process: {status}")),
        Err(error) => Err(format!("the child process: {error}")),
    }
}

/// Runs a child and returns its standard output and standard error.
pub fn heard(mut command: Command) -> Result<(String, String), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (out, err) = (text(output.stdout), text(output.stderr));
    if output.status.success() { Ok((out, err)) } else { Err(format!("{}: {err}", output.status)) }
}
