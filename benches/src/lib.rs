//! The comparative bench: what PKCS#11 costs above the library, for us and for the others.
//!
//! Each group is an operation; its rows are who does it: the `floor` (the library called directly), `jeton` (our module
//! through its C interface), `core` (the same without the interface), our module with its other backends, and the
//! peers. `cargo bench` measures, `cargo run --release -p jeton-benches -- report` writes `docs/benchmarks.md` from what
//! was measured.

#![deny(unsafe_code)]

pub mod artefacts;
// The calls that are timed, straight through the function list.
#[allow(unsafe_code)]
mod calls;
pub mod child;
mod facts;
mod floor;
mod groups;
mod independent;
pub mod instructions;
mod operation;
pub mod report;
mod rows;
mod scheme;
mod settings;
pub mod startup;
mod suite;
mod target;
mod turns;
