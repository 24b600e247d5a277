//! Checks the conformance of any PKCS#11 module through its C interface. Some attacks also read the
//! files of the token.
//!
//! The checks are about functions, return codes, mechanisms, published vectors and published
//! attacks. Each check produces a record of its result. If the module is Jeton and a check fails,
//! the exit status is an error. A deviation from the expected result of a vector is not a failure
//! if its reason is known.
//!
//! The program `conformance` of this package and the command `jeton-driver conformance` have the
//! same options ([`Conformance`]). The published vectors make a program 70 MB larger, so the tool
//! `jeton` is built without the feature `vectors`.

#![allow(missing_docs, reason = "of this package, only programs are used")]

mod attacks;
mod cases;
mod child;
mod choice;
mod command;
mod document;
mod fixture;
mod functions;
mod map;
mod mechanisms;
mod record;
mod run;
mod scorecard;
mod task;
#[cfg(feature = "vectors")]
mod vectors;

pub use command::Conformance;
pub use run::{Job, Role};
