//! Measures libraries that read certificates, or build CRLs and OCSP responses. Compares their
//! speed with that of the pipeline's library.
//!
//! - `library`: the libraries, each with up to three operations: parse, parse with all fields, and
//!   split into the parts that a verification needs.
//! - `set`: the sets of certificates: the roots of Mozilla, a CA and subscribers for each algorithm
//!   of the pipeline, and a hierarchy.
//! - `hierarchy`: 9,889 ML-DSA certificates in five levels, verified as chains.
//! - `build`: CRLs and OCSP responses.
//! - `measure`: the libraries take turns; `report`: the tables and JSON.

mod build;
mod hierarchy;
mod library;
mod measure;
mod report;
mod set;

pub use hierarchy::LEVELS;
pub use measure::{MeasuredSet, Row, measure};
pub use report::{Report, print};
pub use set::Choice;
