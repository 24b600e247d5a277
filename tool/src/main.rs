//! The tool `jeton`: reads the command line, runs a command, and returns the exit status.

/// Writes to standard error. Unlike the macros of the standard library, these do not panic if the
/// reader has closed the pipe.
macro_rules! eprint {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = std::io::stderr().write_all(format!($($text)*).as_bytes());
    }};
}
macro_rules! eprintln {
    ($($text:tt)*) => { eprint!("{}\n", format_args!($($text)*)) };
}

/// Runs the command of a variant: of each of these, and as the arms at the end say.
macro_rules! run_each {
    ($command:expr, $type:ident: $($variant:ident)*; $($arms:tt)*) => {
        match $command {
            $($type::$variant(command) => command.run().map(std::process::Termination::report),)*
            $($arms)*
        }
    };
}

mod commands;

use std::ffi::OsString;
use std::process::{ExitCode, Termination};
use std::sync::Arc;

use clap::{CommandFactory, Parser, Subcommand};
use jeton_client::text::shown;
use jeton_tool::{Error, migrate};
use signal_hook::consts::SIGXFSZ;

/// The tool links the core, and has PINs of its own.
#[global_allocator]
static ALLOCATOR: jeton_secret::WipingAllocator = jeton_secret::WipingAllocator;

const EXIT: &str = "Exit status: 0 if the work is done. The manual page lists the other ones.";

/// Administer tokens of any PKCS#11 module.
#[derive(Parser)]
#[command(name = "jeton", version, about, after_help = EXIT, max_term_width = 80)]
struct Arguments {
    /// Write the result as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Initialise, list, delete, rename, move and show tokens.
    Token(commands::token::Token),
    /// Change, unblock and reset PINs.
    Pin(commands::pins::Pin),
    /// List, show, delete, copy and change objects.
    Object(commands::object::Object),
    /// Generate, import, export, wrap and unwrap keys.
    Key(commands::key::Key),
    /// Import, export, list and make certificates.
    Cert(commands::cert::Cert),
    /// Make a certificate request.
    Csr(commands::cert::Csr),
    /// Make the list of a CA, without which it signs nothing.
    Ca(commands::ca::Ca),
    /// Sign a certificate revocation list (CRL).
    Crl(commands::crl::Crl),
    /// Answer an OCSP request, or run a responder on a loopback address.
    Ocsp(commands::ocsp::Ocsp),
    /// Sign a file.
    Sign(commands::compute::Sign),
    /// Verify the signature of a file.
    Verify(commands::compute::Verify),
    /// Encrypt a file.
    Encrypt(commands::compute::Encrypt),
    /// Decrypt a file.
    Decrypt(commands::compute::Decrypt),
    /// Hash a file.
    Hash(commands::compute::Hash),
    /// Write random bytes.
    Random(commands::compute::Random),
    /// Show the mechanisms of a module.
    Mechanisms(commands::mechanisms::Mechanisms),
    /// Show and check the configuration of Jeton.
    Config(commands::config::Config),
    /// Make a new token key for a Jeton token, and encrypt its objects again.
    Rekey(commands::token_file::Rekey),
    /// Make, set, rotate or remove the sealing key, without which no PIN opens the token's file.
    SealingKey(commands::token_file::SealingKey),
    /// Back up, verify and restore tokens of Jeton.
    Backup(commands::backup::Backup),
    /// Examine the token directory or the database, and show what is wrong and how to mend it.
    Doctor(commands::doctor::Doctor),
    /// Make a token of Jeton from a token of SoftHSMv2, a database of NSS or a token of Kryoptic.
    Migrate(commands::migrate::Migrate),
    /// Show what the agent of this host does.
    Agent(commands::agent::Agent),
    /// Verify an audit log of Jeton, or count the uses in it.
    Audit(commands::audit::Audit),
    /// Write the manual pages and the completions of shells to a directory.
    Manual(commands::manual::Manual),
}

impl Command {
    fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self, Self:
            Token Pin Object Key Cert Csr Ca Crl Ocsp Sign Verify Encrypt Decrypt Hash Random Mechanisms
            Config Rekey SealingKey Backup Doctor Migrate Agent Audit;
            Self::Manual(command) => command.run(Arguments::command()).map(Termination::report),
        }
    }
}

fn main() -> ExitCode {
    // With a handler, a file that exceeds `ulimit -f` is an error of the write.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == migrate::WRITER) {
        return migrate::write_token().map_or_else(|error| report(&error), |()| ExitCode::SUCCESS);
    }
    let mut arguments = options_last(as_subcommand(arguments));
    let is_first = |(name, _): &&(&str, &[&str])| arguments.get(1).is_some_and(|first| first == name);
    if let Some((_, words)) = ALIASES.iter().find(is_first) {
        arguments.splice(1..2, words.iter().map(OsString::from));
    }
    let Arguments { json, command } = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => {
            let printed = jeton_peers::printed(help.print());
            return printed.map_or_else(|error| report(&error.into()), |()| ExitCode::SUCCESS);
        }
    };
    commands::out::choose_json(json);
    command.run().unwrap_or_else(|error| report(&error))
}

/// Writes an error. Returns the exit status of its cause.
fn report(error: &Error) -> ExitCode {
    let (cause, text) = (error.cause(), format!("{error}{}", error.hint()));
    if commands::out::is_json() {
        let error = serde_json::json!({ "status": cause as u8, "error": cause.name(), "message": text });
        eprintln!("{}", commands::out::escaped(&error.to_string()));
    } else {
        eprintln!("jeton: {}", shown(&text).replace("\\u{a}", "\n"));
    }
    ExitCode::from(cause as u8)
}

/// Other names of commands. Those of [`ACTIONS`] are options of `softhsm2-util`.
const ALIASES: [(&str, &[&str]); 6] = [
    ("init-token", &["token", "init"]),
    ("show-slots", &["token", "list", "--all", "--long"]),
    ("delete-token", &["token", "delete"]),
    ("import", &["key", "import"]),
    ("token-info", &["token", "info"]),
    ("ls", &["object", "list"]),
];
const ACTIONS: [&str; 4] = ["--init-token", "--show-slots", "--delete-token", "--import"];

/// Turns the actions of `softhsm2-util`, which are options, into commands.
fn as_subcommand(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let first_is_option = arguments.get(1).is_some_and(|first| first.to_string_lossy().starts_with("--"));
    let is_action = |argument: &OsString| ACTIONS.iter().any(|action| argument == action);
    if first_is_option && let Some(at) = arguments.iter().position(is_action) {
        let action = arguments.remove(at).to_string_lossy().trim_start_matches('-').to_owned();
        arguments.insert(1, action.into());
    }
    arguments
}

/// Moves options before the command, and between its words, behind it, where clap takes them.
fn options_last(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let tool = Arguments::command();
    let (mut command, mut verb, mut options) = (Some(&tool), 1, Vec::new());
    while let Some(above) = command.filter(|command| command.has_subcommands()) {
        let text = |at: usize| arguments.get(at).and_then(|argument| argument.to_str());
        let mut end = verb;
        while let Some(name) =
            text(end).and_then(|text| text.strip_prefix("--")).filter(|name| !name.is_empty())
        {
            end += if takes_value(&tool, name) { 2 } else { 1 };
        }
        if end >= arguments.len() {
            break;
        }
        command = text(end).and_then(|name| above.find_subcommand(name));
        options.extend(arguments.drain(verb..end));
        verb += 1;
    }
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, options);
    arguments
}

/// Returns whether an option of any command has this name and a value.
fn takes_value(command: &clap::Command, name: &str) -> bool {
    let fits = |option: &clap::Arg| option.get_long() == Some(name) && option.get_action().takes_values();
    command.get_arguments().any(fits) || command.get_subcommands().any(|below| takes_value(below, name))
}
