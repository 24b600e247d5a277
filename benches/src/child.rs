//! The child processes of the bench: the executable starts itself with a role in the environment.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::artefacts::parameters;

/// The variable that holds the role of the child, as JSON.
const ROLE: &str = "JETON_BENCH_ROLE";

/// The work of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Measures the groups that the command line selects.
    Compare {
        /// The directory of the tokens.
        directory: PathBuf,
    },
    /// Repeats an operation of a module.
    Count(Instance, Repeated),
    /// Repeats an operation of the baseline.
    CountBaseline(Repeated),
    /// Loads and initialises a module, and prints the milliseconds.
    Load(Instance),
    /// Makes this number of tokens.
    MakeTokens(Library, usize),
    /// Measures a module that has many tokens.
    Tokens(Library),
    /// Creates or reads this number of objects, and prints by how many bytes the process grows.
    Memory(Instance, Objects, usize),
    /// Works on a token of the group that compares a file with a database.
    Store(Instance, Work),
}

/// Any module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Library {
    /// The shared object.
    pub path: PathBuf,
    /// The library parameters of `C_Initialize`.
    pub reserved: Option<String>,
}

/// One of our modules, with a place for its tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Instance {
    /// The shared object.
    pub library: PathBuf,
    /// The directory of the tokens.
    pub directory: PathBuf,
    /// The backend.
    pub backend: String,
    /// The address of the database that has the tokens, and their schema.
    pub database: Option<(String, String)>,
}

impl Instance {
    /// Names a module, a directory and a backend.
    pub fn of(library: &Path, directory: &Path, backend: &str) -> Self {
        let (library, directory) = (library.to_owned(), directory.to_owned());
        Self { library, directory, backend: backend.to_owned(), database: None }
    }

    /// Returns the module with its tokens in a database.
    pub fn in_database(self, url: &str, schema: &str) -> Self {
        Self { database: Some((url.to_owned(), schema.to_owned())), ..self }
    }

    /// Returns the library parameters of `C_Initialize`.
    pub fn parameters(&self) -> String {
        let parameters = parameters(&self.directory, &self.backend);
        match &self.database {
            Some((url, schema)) => format!("{parameters}, store = {{ url = '{url}', schema = '{schema}' }}"),
            None => parameters,
        }
    }
}

/// An operation whose instructions are counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Repeated {
    /// The name of the operation.
    pub operation: String,
    /// The number of repetitions.
    pub count: u64,
}

/// The objects whose memory is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Objects {
    /// Session objects, created by the measured process.
    Session,
    /// Token objects that another process has created.
    Stored,
    /// Creates token objects and measures nothing.
    Store,
}

/// The work of a child that compares a token file with a token in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Makes the token with this number of objects.
    Prepare(usize),
    /// Creates, changes and destroys objects, and signs. Prints the times.
    Change,
    /// Starts and finds one of this number of objects. Prints the time.
    Start(usize),
    /// Makes changes that another process notices. Prints the times until it does.
    Tell,
    /// Notices the changes of the process that started this one.
    Notice,
    /// Makes the token with a key pair, and signs this number of times.
    Sign(u64),
}

/// Returns the command that starts this executable in this role. Clears the variables that would
/// select another token directory for our modules.
pub fn of_role(role: &Role) -> Command {
    let mut command = Command::new(env::current_exe().unwrap_or_default());
    set_up(&mut command, role);
    command
}

/// Returns the command that starts `program`, which runs this executable in this role and measures
/// it.
pub fn below(program: &str, arguments: &[&OsStr], role: &Role) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(env::current_exe().unwrap_or_default());
    set_up(&mut command, role);
    command
}

fn set_up(command: &mut Command, role: &Role) {
    let role = serde_json::to_string(role).expect("a role is plain data");
    command.env(ROLE, role).env_remove("JETON_DIR").env_remove("JETON_CONF");
}

/// Returns the role of this process, if it is a child.
pub fn role() -> Option<Result<Role, String>> {
    let text = env::var(ROLE).ok()?;
    Some(serde_json::from_str(&text).map_err(|error| format!("{ROLE}={text:?}: {error}")))
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
