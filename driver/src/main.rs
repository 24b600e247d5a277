//! The program `jeton-driver`: reads the command line, runs a command, and returns the exit status.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use jeton_client::safe_text::shown;
use jeton_driver::client::Module;
use jeton_driver::role::Role;
use jeton_driver::{Error, Result, pipeline, tls};
use jeton_peers::printed;

const EXIT: &str = "Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.";

/// Run workloads through PKCS#11 modules side by side, and measure them.
#[derive(Parser)]
#[command(name = "jeton-driver", version, about, after_help = EXIT)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the X.509 PKI pipeline through modules side by side.
    Pipeline(commands::pipeline::Pipeline),
    /// Order certificates from ACME servers with many clients at once.
    #[cfg(feature = "acme")]
    Acme(commands::acme::Acme),
    /// Measure TLS handshakes of a server whose key is in a token.
    Tls(commands::tls::Tls),
    /// Compare two result stores of the pipeline.
    Compare(commands::compare::Compare),
    /// Write a page with tables and plots of a result store.
    Report(commands::report::Report),
    /// Check any module against the specification, and try published attacks on its keys.
    Conformance(jeton_conformance::Conformance),
}

impl Command {
    fn run(self) -> Result<ExitCode> {
        match self {
            Self::Pipeline(command) => command.run(),
            #[cfg(feature = "acme")]
            Self::Acme(command) => command.run(),
            Self::Tls(command) => command.run(),
            Self::Compare(command) => command.run(),
            Self::Report(command) => command.run(),
            Self::Conformance(command) => Ok(command.run()?),
        }
    }
}

fn main() -> ExitCode {
    let done = match jeton_child::role() {
        Some(role) => role.map_err(Error::Usage).and_then(child),
        None => match Arguments::try_parse() {
            Err(help) if !help.use_stderr() => {
                printed(help.print()).map(|()| ExitCode::SUCCESS).map_err(Error::from)
            }
            arguments => arguments.unwrap_or_else(|error| error.exit()).command.run(),
        },
    };
    done.unwrap_or_else(|error| report(&error))
}

/// Does the work of a child process.
fn child(role: Role) -> Result<ExitCode> {
    match role {
        Role::Pipeline => measuring(pipeline::run_child::<pipeline::BatchChild>),
        Role::Tls => measuring(pipeline::run_child::<tls::CaseChild>),
        Role::LoadModule(library) => Ok(Module::load(library).map(|_| ExitCode::SUCCESS)?),
        Role::Conformance(job) => Ok(job.run().map(|()| ExitCode::SUCCESS)?),
    }
}

/// Lets the parent of this process decide what an interrupt does, because Ctrl-C reaches every
/// process of the terminal.
fn measuring(work: fn() -> Result<()>) -> Result<ExitCode> {
    // The call fails only if there is already a handler, and this process has none.
    let _ = ctrlc::set_handler(|| ());
    work().map(|()| ExitCode::SUCCESS)
}

/// Writes an error. Returns 2 if the command line is wrong, and 1 for every other failure.
fn report(error: &Error) -> ExitCode {
    eprintln!("jeton-driver: {}", shown(&error.to_string()).replace("\\u{a}", "\n"));
    let is_usage = matches!(
        error,
        Error::Usage(_) | Error::Pki(jeton_pki::Error::Usage(_)) | Error::Ca(jeton_ca::Error::Usage(_))
    );
    if is_usage { ExitCode::from(2) } else { ExitCode::FAILURE }
}
