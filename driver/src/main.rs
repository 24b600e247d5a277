//! The tool `jeton`: tokens of any PKCS#11 module, and the X.509 PKI pipeline through several of
//! them.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tokens of any PKCS#11 module, and an X.509 PKI pipeline through several of them side by side.
#[derive(Parser)]
#[command(name = "jeton", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Initialise a token and set its PINs.
    InitToken(commands::token::InitToken),
    /// Show the slots of a module and their tokens.
    ShowSlots(commands::token::ShowSlots),
    /// Delete a token of Jeton with all it holds.
    DeleteToken(commands::token::DeleteToken),
    /// Show what the file of a Jeton token tells without a PIN.
    TokenInfo(commands::token_file::TokenInfo),
    /// Unlock the PINs of a Jeton token, or set a new SO PIN with the user's PIN.
    Pin(commands::token_file::Pin),
    /// Make a new token key for a Jeton token, and encrypt its objects again.
    Rekey(commands::token_file::Rekey),
    /// Make, set, rotate or remove the sealing key, without which no PIN opens the token's file.
    SealingKey(commands::token_file::SealingKey),
    /// Make a token of Jeton from a token of SoftHSMv2 or a database of NSS.
    Migrate(commands::migrate::Migrate),
    /// Run the X.509 PKI pipeline through modules side by side.
    Pipeline(commands::pipeline::Pipeline),
    /// Compare two result stores of the pipeline.
    Compare(commands::compare::Compare),
    /// Write a page with tables and plots of a result store.
    Report(commands::report::Report),
    /// Verify the contents of a database of the pipeline.
    VerifyDb(commands::verify_db::VerifyDb),
    /// Show the mechanisms of a module.
    Mechanisms(commands::mechanisms::Mechanisms),
    /// Verify an audit log of Jeton.
    Audit(commands::audit::Audit),
    /// The process of one module: it reads a job and writes events.
    #[command(hide = true)]
    PipelineChild,
    /// The process that writes the token of a migration: it reads a job and writes the outcome.
    #[command(hide = true)]
    MigrateChild,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::InitToken(command) => command.run(),
        Command::ShowSlots(command) => command.run(),
        Command::DeleteToken(command) => command.run(),
        Command::TokenInfo(command) => command.run(),
        Command::Pin(command) => command.run(),
        Command::Rekey(command) => command.run(),
        Command::SealingKey(command) => command.run(),
        Command::Migrate(command) => command.run(),
        Command::Pipeline(command) => command.run(),
        Command::Compare(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::VerifyDb(command) => command.run(),
        Command::Mechanisms(command) => command.run(),
        Command::Audit(command) => command.run(),
        Command::PipelineChild => commands::pipeline::child(),
        Command::MigrateChild => commands::migrate::child(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("jeton: {error}");
        ExitCode::FAILURE
    })
}
