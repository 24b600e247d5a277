//! What administration does with the tokens of a database server.

use std::path::Path;

use super::source::TokenSource;
use super::sqlite::detached::Detached;
use crate::error::Result;

pub(crate) trait TokenServer: TokenSource {
    /// Adds the token of a file, in one transaction. Reads the new token again and compares it with
    /// the file. Then calls `ready`, and commits if it returns `Ok`.
    fn receive(&self, file: &Detached, ready: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// Removes a token in one transaction. Before that, writes it into the empty file at `path`,
    /// reads the file again and compares it. Then calls `ready`, and commits if it returns `Ok`.
    fn release(&self, serial: &str, path: &Path, ready: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// Returns whether there is a token with this serial number. Waits until no process receives or
    /// releases a token.
    fn has(&self, serial: &str) -> Result<bool>;

    /// Removes a token with its objects. Fails with `DeviceRemoved` if there is no such token.
    fn remove(&self, serial: &str) -> Result<()>;

    /// Examines the server, and this module's rights on its tables.
    fn examine(&self) -> Result<ServerState>;
}

/// The state of a database server.
pub struct ServerState {
    /// The version of the server, and how it was reached, for the user.
    pub description: String,
    /// What is wrong.
    pub remarks: Vec<Remark>,
}

/// Something that is wrong with a database server.
pub struct Remark {
    /// The name of the check.
    pub check: &'static str,
    /// What is wrong.
    pub problem: String,
    /// The command or the action that mends it.
    pub remedy: String,
}
