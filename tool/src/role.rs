//! The roles in which the tool starts itself as a child process.

use serde::{Deserialize, Serialize};

/// The work of a child process of the tool. A job that may contain a PIN of the user goes through
/// standard input.
#[derive(Serialize, Deserialize)]
pub enum Role {
    /// The process that writes the token of a migration: it reads a job and writes the outcome.
    Migrate,
}
