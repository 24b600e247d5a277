//! The run of `cargo bench`, and the work of all child processes of the benches.

use std::{env, fs};

use super::{AnyError, child};
use crate::artefacts::{Artefacts, data_directory, target_directory, temporary};
use crate::child::Role;
#[cfg(feature = "parse")]
use crate::parse;
use crate::{agent, groups, instructions, neighbours, rows, settings, startup, store, timing, tokens};

/// Does the work of the role and ends the process, if this process is a child.
pub fn if_child() {
    let Some(role) = jeton_child::role() else { return };
    if let Err(reason) = role.map_err(AnyError::from).and_then(work) {
        eprintln!("{reason}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

fn work(role: Role) -> Result<(), AnyError> {
    match role {
        Role::Compare { directory } => groups::run(filter(), &directory, &Artefacts::of(&target_directory())),
        Role::Count(instance, operation, count) => instructions::count(instance.as_ref(), operation, count),
        Role::Load(instance) => startup::load(&instance),
        Role::MakeTokens(library, count) => tokens::make(&library, count),
        Role::Tokens(library) => tokens::count(&library),
        Role::Memory(instance, objects, count) => startup::memory(&instance, objects, count),
        Role::Store(instance, work) => store::work(&instance, work),
        Role::Served(reached) => agent::serve(&reached),
        Role::Neighbour(reached) => neighbours::sign(&reached),
        Role::Disturb(socket, conduct) => neighbours::disturb(&socket, conduct),
        Role::Timing(library, backend) => timing::of_backend(&library, &backend),
    }
}

/// Returns the first argument after `--quick`, if it is not an option. Options of criterion come
/// after the filter, because some take the next argument as their value.
fn filter() -> Option<String> {
    env::args().skip(1).find(|one| one != "--quick").filter(|first| !first.starts_with('-'))
}

/// Starts one child, which measures the groups that the filter selects. The child's tokens are in a
/// temporary directory. Without a filter, also builds and measures the null backend, and measures
/// loading, memory, instructions, many tokens and tokens in a database.
pub fn compare() -> Result<(), AnyError> {
    // Criterion must not see `--quick`, because it has an option with this name and another
    // meaning.
    let quick = env::args().any(|argument| argument == "--quick");
    if filter().as_deref() == Some("parse") {
        return parse(quick);
    }
    let artefacts = if filter().is_none() { Artefacts::with_null()? } else { Artefacts::without_null() };
    let directory = temporary()?;
    let data = data_directory();
    let mut command = child::of_role(&Role::Compare { directory: directory.path().to_owned() });
    command.args(env::args().skip(1).filter(|argument| argument != "--quick"));
    command.envs(rows::environment(directory.path())).env("CRITERION_HOME", &data);
    if quick {
        command.env(settings::SHORT, "1");
    }
    if filter().is_none() && data.is_dir() {
        // The report describes one run, so the data of earlier runs is removed.
        fs::remove_dir_all(&data)?;
    }
    let status = command.status()?;
    if !status.success() {
        return Err(format!("the child process: {status}").into());
    }
    if filter().is_none() {
        startup::measure(&artefacts)?;
        instructions::measure(&artefacts)?;
        tokens::measure(&artefacts, if quick { 1_000 } else { 10_000 })?;
        store::measure(&artefacts)?;
    }
    Ok(())
}

#[cfg(feature = "parse")]
fn parse(quick: bool) -> Result<(), AnyError> {
    parse::measure(quick)
}

#[cfg(not(feature = "parse"))]
fn parse(_: bool) -> Result<(), AnyError> {
    Err("`parse` needs `-p jeton-benches --features parse`".into())
}
