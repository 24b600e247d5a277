//! The command `jeton-driver conformance` as a separate program, with the published vectors.

use std::process::ExitCode;

use clap::Parser;
use jeton_conformance::{Conformance, Role};
use jeton_peers::Error;

/// Checks any PKCS#11 module.
#[derive(Parser)]
#[command(name = "conformance", version)]
struct Options {
    #[command(flatten)]
    conformance: Conformance,
}

fn main() -> ExitCode {
    let done = match jeton_child::role() {
        Some(Ok(Role::Conformance(job))) => job.run().map(|()| ExitCode::SUCCESS),
        Some(Err(error)) => Err(Error::Message(error)),
        None => Options::parse().conformance.run(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("conformance: {error}");
        ExitCode::FAILURE
    })
}
