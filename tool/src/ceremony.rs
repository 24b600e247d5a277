//! The record of a ceremony: the commands that people ran together, what these wrote, and hashes of
//! files. Those present sign the file with `ssh-keygen -Y sign` after its last line.
//!
//! The record is a file of lines in JSON with the hash chain of the audit log ([`crate::audit`]).
//! The signatures are beside it, so that signing does not change it.
//!
//! Not here: secrets. The commands refuse those before they reach the record.

mod check;
mod paper;
mod record;

pub use check::{NAMESPACE, Report, Signature, Signer, check};
pub use paper::{Document, document, hash_file};
pub use record::{Event, Line, Present, Recorder, begin, lines, read};
