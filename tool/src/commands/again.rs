//! The options of commands that make something, for scripts that run them again.

use clap::Args;
use jeton_tool::{Cause, Error};

/// What happens if there is one already.
#[derive(Args, Clone)]
pub struct Again {
    /// If there is one already, show it, change nothing, and exit with 0.
    #[arg(long)]
    pub if_absent: bool,
    /// Make another one, even if there is one with this label or ID.
    #[arg(long, conflicts_with = "if_absent")]
    pub allow_duplicate: bool,
}

impl Again {
    /// Returns the error of a command that would make a second one.
    pub fn refused(what: &str) -> Error {
        let text =
            format!("there is {what} already; --if-absent keeps it, --allow-duplicate makes another one");
        Error::Caused(Cause::Exists, text)
    }
}
