//! The subcommands. They read the options and print the results; the library does the work.

#[cfg(feature = "acme")]
pub mod acme;
pub mod compare;
mod modules;
pub mod pipeline;
pub mod report;
pub mod tls;
