//! Checks the conformance of any PKCS#11 module through its C interface. Some attacks also read the
//! files of the token.
//!
//! Each check of functions, cases, mechanisms, vectors and attacks leaves a record of its result.
//! The tool shows the deviations of every module. If Jeton has a deviation without a known reason,
//! the tool exits with an error.
//!
//! The program `conformance` of this package and the verb `jeton conformance` of the tool have the
//! same options ([`Conformance`]). The published vectors make a program 70 MB larger, so the tool
//! is built without the feature `vectors`.

mod attacks;
mod cases;
mod child;
mod choice;
mod command;
mod document;
mod fixture;
mod functions;
mod mechanisms;
mod record;
mod run;
mod scorecard;
mod task;
#[cfg(feature = "vectors")]
mod vectors;

pub use command::Conformance;
