//! The child processes of the bench: their roles.

use std::path::{Path, PathBuf};
use std::process::Command;

use jeton_child::{Child, UNLIMITED};
use jeton_peers::TokenAccess;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::AnyError;
use crate::artefacts::parameters;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Measures the groups that the command line selects.
    Compare {
        directory: PathBuf,
    },
    /// Repeats the operation with this number in `instructions` so often, with a module or the
    /// baseline.
    Count(Option<Instance>, usize, u64),
    /// Loads and initialises a module, and prints the milliseconds.
    Load(Instance),
    MakeTokens(Library, usize),
    /// Measures a module that has many tokens.
    Tokens(Library),
    /// Creates or reads this number of objects, and prints by how many bytes the process grows.
    Memory(Instance, Objects, usize),
    /// Works on a token of the group that compares a file with a database.
    Store(Instance, Work),
    /// Does the operations that the parent asks for.
    Served(Reached),
    /// Signs for the times that the parent says, and measures each call.
    Neighbour(Reached),
    /// Disturbs the agent at this socket.
    Disturb(PathBuf, Conduct),
    /// Tests whether times of a library with this backend reveal secrets.
    Timing(PathBuf, String),
}

/// What one client does beside another one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Conduct {
    Nothing,
    /// It has many connections.
    Connects,
    /// It sends wrong messages, each by a new connection, from as many threads as there are
    /// processors.
    SendsWrong,
    /// It connects again and again to its process, which crashes.
    Crashes,
    /// It connects to its process, which is stopped.
    Stops,
    /// It signs with as many threads as there are processors.
    Signs,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Library {
    pub path: PathBuf,
    /// The library parameters of `C_Initialize`.
    pub reserved: Option<String>,
}

/// A module with a token, as a client of `agent` uses it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reached {
    pub library: PathBuf,
    /// The library parameters of `C_Initialize`.
    pub reserved: Option<String>,
    pub token: TokenAccess,
    /// Does nothing but the login until its parent asks for signatures.
    pub only_signs: bool,
}

/// One of our modules, with a place for its tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Instance {
    pub library: PathBuf,
    pub directory: PathBuf,
    pub backend: String,
    /// The address of the database that has the tokens, and their schema.
    pub database: Option<(String, String)>,
}

impl Instance {
    pub fn of(library: &Path, directory: &Path, backend: &str) -> Self {
        let (library, directory) = (library.to_owned(), directory.to_owned());
        Self { library, directory, backend: backend.to_owned(), database: None }
    }

    pub fn in_database(self, url: &str, schema: &str) -> Self {
        Self { database: Some((url.to_owned(), schema.to_owned())), ..self }
    }

    pub fn parameters(&self) -> String {
        let parameters = parameters(&self.directory, &self.backend);
        match &self.database {
            Some((url, schema)) => format!("{parameters}, store = {{ url = '{url}', schema = '{schema}' }}"),
            None => parameters,
        }
    }
}

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

pub fn of_role(role: &Role) -> Command {
    configured(jeton_child::of_role(role))
}

/// Returns the command that starts `program`, which runs this executable in this role and measures
/// it.
pub fn below(program: &str, arguments: &[&str], role: &Role) -> Command {
    configured(jeton_child::below(program, arguments, role))
}

/// Runs a child to its end, and returns the JSON that it prints. Nothing counts as `null`.
pub fn ask<T: DeserializeOwned>(command: Command) -> Result<T, AnyError> {
    let (said, _) = jeton_child::output(command)?;
    let said = if said.is_empty() { "null" } else { &said };
    Ok(serde_json::from_str(said).map_err(|reason| format!("{reason}: {said:?}"))?)
}

/// Returns the next message of a child, which may take any time. An error has its name.
pub fn hear<T: DeserializeOwned>(child: &mut Child, name: &str) -> Result<T, AnyError> {
    Ok(child.hear(UNLIMITED).map_err(|silence| format!("{name}: {silence:?}"))?)
}

/// Lets each of `count` columns take a turn in each round, in changing order.
pub fn in_turns(
    rounds: usize,
    count: usize,
    mut turn: impl FnMut(usize) -> Result<(), AnyError>,
) -> Result<(), AnyError> {
    (0..rounds).try_for_each(|round| (0..count).try_for_each(|place| turn((place + round) % count)))
}

/// Clears the variables that would select another token directory for our modules.
fn configured(mut command: Command) -> Command {
    command.env_remove("JETON_DIR").env_remove("JETON_CONF");
    command
}
