//! The tool `jeton`: reads the command line, runs a command, and returns the exit status.

#![cfg_attr(not(feature = "ca"), allow(dead_code, reason = "the commands of the CA use more of `out`"))]

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

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use jeton_client::safe_text::shown;
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
    #[cfg(feature = "ca")]
    #[command(flatten)]
    Certify(commands::certify::Command),
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
    /// Make a new token key, and encrypt all objects again.
    Rekey(commands::token_file::Rekey),
    /// Make, set, rotate or remove the second key of a token's file.
    SealingKey(commands::token_file::SealingKey),
    /// Back up, verify and restore tokens of Jeton.
    Backup(commands::backup::Backup),
    /// Make shares of a secret, and recover a secret from M of N.
    Shares(commands::shares::Shares),
    /// Record the commands of a ceremony, and verify a record.
    Ceremony(commands::ceremony::Ceremony),
    /// Examine the tokens, and show how to mend what is wrong.
    Doctor(commands::doctor::Doctor),
    /// Make a token from one of SoftHSMv2, NSS or Kryoptic.
    Migrate(commands::migrate::Migrate),
    /// List the keys of all tokens with their dates and uses.
    Inventory(commands::inventory::Inventory),
    /// Show what the agent of this host does.
    Agent(commands::agent::Agent),
    /// Verify an audit log of Jeton, or count the uses in it.
    Audit(commands::audit::Audit),
    /// Write manual pages and completions of shells to a directory.
    Manual(commands::manual::Manual),
}

impl Command {
    fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self, Self:
            Token Pin Object Key Cert Sign Verify Encrypt Decrypt Hash Random Mechanisms
            Config Rekey SealingKey Backup Shares Doctor Migrate Inventory Agent Audit;
            #[cfg(feature = "ca")]
            Self::Certify(command) => command.run(),
            Self::Ceremony(command) => command.run(&Arguments::command()),
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
    let mut tool = grouped(Arguments::command());
    let parsed = tool.try_get_matches_from_mut(arguments).and_then(|mut matches| {
        Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut tool))
    });
    let Arguments { json, command } = match parsed {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => with_tip(error).exit(),
        Err(help) => {
            let printed = jeton_peers::printed(help.print());
            return printed.map_or_else(|error| report(&error.into()), |()| ExitCode::SUCCESS);
        }
    };
    commands::out::choose_json(json);
    command.run().unwrap_or_else(|error| report(&error))
}

/// The commands by what they are for, as `jeton --help` shows them.
const GROUPS: [(&str, &str); 5] = [
    ("Tokens and objects", "token pin object inventory mechanisms"),
    ("Keys and certificates", if cfg!(feature = "ca") { "key cert csr ca crl ocsp" } else { "key cert" }),
    ("Data", "sign verify encrypt decrypt hash random"),
    ("Backups and ceremonies", "backup shares ceremony rekey sealing-key migrate"),
    ("Administration", "config doctor agent audit manual help"),
];

/// Shows the commands in groups. clap has one list.
fn grouped(tool: clap::Command) -> clap::Command {
    let header = *tool.get_styles().get_header();
    let literal = *tool.get_styles().get_literal();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups += &format!("{header}{title}:{header:#}\n");
        for name in names.split(' ') {
            let about = tool.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map_or("Show the help of a command".to_owned(), ToString::to_string);
            groups += &format!("  {literal}{name:<11}{literal:#}  {about}\n");
        }
        groups.push('\n');
    }
    let head = "{about-with-newline}\n{usage-heading} {usage}\n\n";
    tool.help_template(format!("{head}{groups}{header}Options:{header:#}\n{{options}}\n\n{{after-help}}"))
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

/// Words that are no command here, with the commands that do it. clap proposes what has similar
/// letters.
const SYNONYMS: [(&str, &str); 22] = [
    ("add", "key import"),
    ("backup-token", "backup create"),
    ("change-pin", "pin change"),
    ("create", "key generate"),
    ("delete", "object delete"),
    ("destroy", "object delete"),
    ("export", "key export"),
    ("gen", "key generate"),
    ("generate", "key generate"),
    ("init", "token init"),
    ("keygen", "key generate"),
    ("list", "object list"),
    ("login", "object list --login"),
    ("new", "token init"),
    ("remove", "object delete"),
    ("restore", "backup restore"),
    ("rm", "object delete"),
    ("show", "object show"),
    ("status", "agent status"),
    ("unblock", "pin unblock"),
    ("unlock", "pin unblock"),
    ("version", "--version"),
];

/// Replaces the proposals of an unknown command by the command that a synonym means.
fn with_tip(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && let Some((_, command)) = SYNONYMS.iter().find(|(synonym, _)| synonym == word)
    {
        let command = format!("jeton {command}");
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![command]));
    }
    error
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group_of_the_help() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        let tool = Arguments::command();
        let mut all: Vec<_> = tool.get_subcommands().map(clap::Command::get_name).chain(["help"]).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
}
