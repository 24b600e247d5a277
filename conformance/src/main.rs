//! The command `jeton conformance` as a separate program, with the published vectors.

use std::process::ExitCode;

use clap::Parser;
use jeton_conformance::Conformance;

/// Checks any PKCS#11 module.
#[derive(Parser)]
#[command(name = "conformance", version)]
struct Options {
    #[command(flatten)]
    conformance: Conformance,
}

fn main() -> ExitCode {
    Options::parse().conformance.run(&[]).unwrap_or_else(|error| {
        eprintln!("conformance: {error}");
        ExitCode::FAILURE
    })
}
