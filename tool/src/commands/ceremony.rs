//! `ceremony`: records commands, for those present to sign.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use clap::{Args, Subcommand};
use jeton_client::safe_text::shown;
use jeton_tool::ceremony::{self, Event, NAMESPACE, Present, Recorder, Report, Signature};
use jeton_tool::{Cause, Error};
use serde_json::json;
use signal_hook::consts::SIGINT;

use super::out::{self, RECORDED, shown_path};
use super::pin::VALUE;

/// The longest output of a command in bytes that the record has.
const LONGEST: usize = 1 << 20;

/// Record the commands of a ceremony, and verify the record that those present signed.
#[derive(Args)]
pub struct Ceremony {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Start the record of a ceremony.
    Begin(Begin),
    /// Run a command of this tool, and record it with its output.
    ///
    /// Files with secrets, PINs and shares are not in the record, and a command that would write a
    /// secret to standard output is refused.
    Run(Run),
    /// Record a sentence.
    Note(Note),
    /// End the record, for those present to sign.
    End {
        /// The record.
        file: PathBuf,
    },
    /// Show the lines of a record.
    Show {
        /// The record.
        file: PathBuf,
    },
    /// Check the record of a ceremony: signatures, lines, certificates and CRLs.
    ///
    /// The names and keys of those present are what the record says. --present compares them. Exit
    /// status: 1 if something is wrong.
    Verify(Verify),
}

impl Ceremony {
    /// Runs the command. `tool` describes all commands and options.
    pub fn run(self, tool: &clap::Command) -> Result<ExitCode, Error> {
        match self.what {
            What::Begin(command) => command.run().map(|()| ExitCode::SUCCESS),
            What::Run(command) => command.run(tool),
            What::Note(command) => command.run().map(|()| ExitCode::SUCCESS),
            What::End { file } => end(&file).map(|()| ExitCode::SUCCESS),
            What::Show { file } => show(&file).map(|()| ExitCode::SUCCESS),
            What::Verify(command) => command.run(),
        }
    }
}

#[derive(Args)]
struct Begin {
    /// The record; it must not exist.
    file: PathBuf,
    /// What the ceremony is for.
    #[arg(long, value_name = "TEXT")]
    purpose: String,
    /// A file with the public SSH key of a person who is present, Ed25519 or ECDSA. May be
    /// repeated.
    #[arg(long, value_name = "FILE", required = true)]
    present: Vec<PathBuf>,
}

impl Begin {
    fn run(self) -> Result<(), Error> {
        let present = self.present.iter().map(|path| Present::read(path)).collect::<Result<Vec<_>, _>>()?;
        for (at, one) in present.iter().enumerate() {
            if present[..at].iter().any(|other| other.0.key_data() == one.0.key_data()) {
                return Err(Error::Usage(format!("{} is present twice", one.name())));
            }
        }
        ceremony::begin(&self.file, &self.purpose, &present)?;
        let names: Vec<_> = present.iter().map(Present::name).collect();
        let text = format!("The record {} begins. Present: {}", shown_path(&self.file), names.join(", "));
        out::result(&json!({ "file": self.file, "present": names }), text)
    }
}

#[derive(Args)]
struct Run {
    /// The record.
    file: PathBuf,
    /// A file whose hash the record gets after the command, and whose certificates and CRLs. May be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    document: Vec<PathBuf>,
    /// The command of this tool, after `--`.
    #[arg(last = true, required = true)]
    arguments: Vec<String>,
}

impl Run {
    fn run(self, tool: &clap::Command) -> Result<ExitCode, Error> {
        expect_no_secret(&self.arguments, tool)?;
        let mut recorder = Recorder::open(&self.file)?;
        // The interrupt key ends the command, and its end is recorded.
        let _ = signal_hook::flag::register(SIGINT, Arc::default());
        recorder.add(Event::Command { arguments: self.arguments.clone() })?;
        let program = std::env::current_exe().map_err(Error::io("/proc/self/exe"))?;
        let mut child = Command::new(&program)
            .args(&self.arguments)
            .env(RECORDED, "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::io(program))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let errors = std::thread::spawn(move || stderr.map(|pipe| copy(pipe, std::io::stderr())));
        let output = stdout.map(|pipe| copy(pipe, std::io::stdout())).unwrap_or_default();
        let errors = errors.join().ok().flatten().unwrap_or_default();
        let status = child.wait().map_err(Error::io("jeton"))?.code();
        let files = if status == Some(0) {
            self.document.iter().map(|path| ceremony::document(path)).collect()
        } else {
            Ok(Vec::new())
        };
        let (files, missing) = match files {
            Ok(files) => (files, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        recorder.add(Event::Exit { status, output, errors, files })?;
        match missing {
            Some(error) => Err(error),
            None => Ok(ExitCode::from(status.map_or(1, |status| status as u8))),
        }
    }
}

/// Copies a pipe to a stream, and returns the start of it as text.
fn copy(mut pipe: impl Read, mut stream: impl Write) -> String {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(len @ 1..) = pipe.read(&mut part) {
        // The reader of the stream may have gone.
        let _ = stream.write_all(&part[..len]).and_then(|()| stream.flush());
        text.extend_from_slice(&part[..len.min(LONGEST - text.len())]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Fails if an argument has a secret: the record would have it.
fn expect_no_secret(arguments: &[String], tool: &clap::Command) -> Result<(), Error> {
    let secrets = secrets(tool);
    for argument in arguments {
        let name = argument.split('=').next().unwrap_or_default();
        let is_secret = name.strip_prefix("--").is_some_and(|name| secrets.iter().any(|one| one == name));
        if is_secret || argument.contains("pin-value=") {
            return Err(Cause::Refused.error(format!(
                "the record would have the secret of {}: pass it by a file, a variable or the terminal",
                if is_secret { name } else { "pin-value" }
            )));
        }
    }
    match arguments.first().map(String::as_str) {
        Some("ceremony") => Err(Error::Usage("a ceremony records no other ceremony".to_owned())),
        _ => Ok(()),
    }
}

/// Returns the options of all commands whose value is a secret.
fn secrets(command: &clap::Command) -> Vec<String> {
    let is_secret = |option: &&clap::Arg| {
        option.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == VALUE))
    };
    let own = command.get_arguments().filter(is_secret).filter_map(|option| option.get_long());
    own.map(str::to_owned).chain(command.get_subcommands().flat_map(secrets)).collect()
}

#[derive(Args)]
struct Note {
    /// The record.
    file: PathBuf,
    /// The sentence.
    text: String,
}

impl Note {
    fn run(self) -> Result<(), Error> {
        Recorder::open(&self.file)?.add(Event::Note { text: self.text })?;
        out::result(&json!({ "file": self.file }), "")
    }
}

fn end(file: &Path) -> Result<(), Error> {
    Recorder::open(file)?.add(Event::End {})?;
    let sign = format!("ssh-keygen -Y sign -n {NAMESPACE} -f KEY < {} > NAME.sig", shown_path(file));
    out::result(&json!({ "file": file, "sign": sign }), format_args!("Each person present signs:\n{sign}"))
}

/// Writes what each line of a record says. The output of a command is indented.
fn show(file: &Path) -> Result<(), Error> {
    let lines = ceremony::lines(&ceremony::read(file)?)
        .map_err(|line| Cause::Damaged.error(format!("{}: line {line} is damaged", file.display())))?;
    if out::is_json() {
        return out::json(&lines);
    }
    for line in &lines {
        out::line(format_args!("{} {}", line.time, summary(&line.event)))?;
        if let Event::Exit { output, errors, files, .. } = &line.event {
            output
                .lines()
                .chain(errors.lines())
                .try_for_each(|text| out::line(format_args!("    {text}")))?;
            for file in files {
                out::line(format_args!("  file {} {}", file.sha256, shown(&file.path)))?;
            }
        }
    }
    Ok(())
}

fn summary(event: &Event) -> String {
    match event {
        Event::Begin { purpose, tool, program, present } => {
            let present = shown(&present.join("; "));
            format!("begins: {}. jeton {tool} with the hash {program}. Present: {present}", shown(purpose))
        }
        Event::Command { arguments } => format!("runs: jeton {}", shown(&arguments.join(" "))),
        Event::Exit { status: Some(status), .. } => format!("exits with {status}"),
        Event::Exit { status: None, .. } => "was killed".to_owned(),
        Event::Note { text } => format!("notes: {}", shown(text)),
        Event::End {} => "ends".to_owned(),
    }
}

#[derive(Args)]
struct Verify {
    /// The record.
    file: PathBuf,
    /// The signatures of those present, as `ssh-keygen -Y sign` wrote them.
    signatures: Vec<PathBuf>,
    /// A file with the public SSH key of a person who must have been present. May be repeated.
    #[arg(long, value_name = "FILE")]
    present: Vec<PathBuf>,
    /// A file that must be one of the record's. May be repeated.
    #[arg(long, value_name = "FILE")]
    document: Vec<PathBuf>,
}

impl Verify {
    fn run(self) -> Result<ExitCode, Error> {
        let record = ceremony::read(&self.file)?;
        let signatures = self
            .signatures
            .iter()
            .map(|path| Ok::<_, Error>(Signature { name: shown_path(path), bytes: ceremony::read(path)? }));
        let mut report = ceremony::check(&record, &signatures.collect::<Result<Vec<_>, _>>()?)?;
        for path in &self.present {
            let key = Present::read(path)?;
            if !report.signers.iter().any(|one| one.key.0.key_data() == key.0.key_data()) {
                report.faults.push(format!("{} was not present", key.name()));
            }
        }
        for path in &self.document {
            if !report.hashes.contains(&ceremony::hash_file(path)?) {
                report.faults.push(format!("{} is not a file of the record", path.display()));
            }
        }
        report_of(&report)?;
        Ok(if report.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn report_of(report: &Report) -> Result<(), Error> {
    let signed: Vec<_> = report.signers.iter().filter(|one| one.has_signed).map(|one| &one.name).collect();
    if out::is_json() {
        return out::json(&json!({
            "purpose": report.purpose, "commands": report.commands, "signed": signed, "papers": report.papers,
            "faults": report.faults,
        }));
    }
    // A name or a purpose may have the ends of lines.
    out::line(format_args!("{}: {} commands", shown(&report.purpose), report.commands))?;
    report.papers.iter().try_for_each(|paper| out::line(shown(paper)))?;
    signed.iter().try_for_each(|name| out::line(format_args!("signed by {}", shown(name))))?;
    report.faults.iter().try_for_each(|fault| out::line(format_args!("wrong: {}", shown(fault))))?;
    out::line(if report.faults.is_empty() { "valid" } else { "not valid" })
}
