//! The tokens of a token directory, and their own directories.

use std::collections::HashSet;
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

use jeton_words::general::Threads;
use rustix::fs::{Access, access};

use super::backup::{Outcome, failure};
use super::{label, note};
use crate::config::Settings;
use crate::error::Result;
use crate::id::SlotId;
use crate::store::Header;
use crate::store::source::slots;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::layout::own_directory;
use crate::store::sqlite::relocation::relocate;
use crate::store::sqlite::source::TokenDirectory;

/// A token of a token directory, as its header shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The serial number.
    pub serial: String,
    /// The slot that a module gives to the token.
    pub slot: SlotId,
    /// The label without its padding.
    pub label: String,
    /// The token's own directory, which has all its files. `None` if the token is flat: its files
    /// are in the token directory.
    pub directory: Option<PathBuf>,
}

/// Returns the tokens of a token directory, by their headers. Needs no PIN and no configuration,
/// and leaves no file open. Leaves out damaged files and copies, as the module does.
pub fn list(directory: &Path) -> Result<Vec<Listed>> {
    let headers = TokenDirectory::headers(directory)?;
    let slots = slots(HashSet::new(), headers.iter().map(|(header, _)| header));
    let listed = |((header, path), slot): ((Header, PathBuf), SlotId)| Listed {
        label: label(&header),
        serial: header.serial,
        slot,
        directory: own_directory(&path).map(Path::to_owned),
    };
    Ok(headers.into_iter().zip(slots).map(listed).collect())
}

/// Returns the files of tokens that this user cannot read, and why. In a directory that several
/// users share they may be those of others, so the module logs them at level warn.
pub fn unreadable(directory: &Path) -> Vec<(PathBuf, IoError)> {
    let reason = |path: &PathBuf| access(path, Access::READ_OK).err().map(IoError::from);
    let files = SqliteStore::files(directory).unwrap_or_default().into_iter();
    let refused = files.filter_map(|path| reason(&path).map(|reason| (path, reason)));
    refused.filter(|(_, reason)| reason.kind() == ErrorKind::PermissionDenied).collect()
}

/// Moves the flat token of this file into a directory of its own. Returns its new path. Fails if a
/// process has the token open. A crash leaves the token in one of the two places. `parameters` are
/// library parameters as `C_Initialize` takes them.
pub fn give_own_directory(parameters: Option<&str>, path: &Path) -> Outcome<PathBuf> {
    let settings = Settings::load(parameters, Threads::Forbidden)?;
    SqliteStore::check_directory(&settings.token_dir)?;
    let (serial, moved) = relocate(path).map_err(failure(path))?;
    note(&settings, &serial, "jeton doctor --repair", &Ok(()));
    Ok(moved)
}
