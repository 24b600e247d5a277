//! `migrate`: makes a token of Jeton from a token of another module.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use jeton_migrate::Token;
use jeton_peers::Known;
use jeton_tool::migrate::{Job, Line, Outcome, Plan, Presence, Stage, WRITER, presence};
use jeton_tool::{Error, token_file};
use zeroize::Zeroizing;

use super::pin::{self, PinFiles};
use super::{out, target, token};

/// Make a token of Jeton from a token of SoftHSMv2, a database of NSS or a token of Kryoptic.
///
/// Reads the old store with its PIN, including private keys that are not extractable. The old store
/// is never changed. The new token appears when it is complete, or not at all.
#[derive(Args)]
pub struct Migrate {
    /// The token directory of SoftHSMv2, the directory of one of its tokens, the directory of an
    /// NSS database, or the database file of Kryoptic.
    from: PathBuf,
    /// The label of the old token, if the directory has several.
    #[arg(long)]
    token: Option<String>,
    /// The serial number of the old token.
    #[arg(long)]
    serial: Option<String>,
    /// The label of the new token. The default is the label of the old one.
    #[arg(long)]
    label: Option<String>,
    /// Show which objects would be migrated and which not, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Leave out the objects that cannot be migrated, instead of failing.
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    pins: PinFiles,
    /// A file with the user's PIN of the new token, or set JETON_NEW_PIN. The default is the old
    /// PIN.
    #[arg(long)]
    new_pin_file: Option<PathBuf>,
    /// An open file descriptor with the user's PIN of the new token.
    #[arg(long, value_name = "NUMBER", conflicts_with = "new_pin_file")]
    new_pin_fd: Option<u32>,
}

impl Migrate {
    pub fn run(self) -> Result<(), Error> {
        let library = jeton_peers::library_of(Known::Jeton.name())?;
        let old = self.old_token()?;
        let label = self.label.as_ref().unwrap_or(&old.label).clone();
        token::check_label(&label)?;
        let old_pin = self.pins.user(|| Ok(pin::Asked { label: old.label.clone(), tries: (None, None) }))?;
        let waiting = out::waiting("reading the old store");
        let objects = old.read(old_pin.as_bytes())?;
        drop(waiting);
        say(format_args!(
            "{} token {:?}: {} objects in {}",
            old.format.name(),
            old.label,
            objects.len(),
            old.path().display()
        ))?;
        let (so_pin, pin) =
            if self.dry_run { rehearsal_pins()? } else { (String::new(), self.new_pin(&old_pin, &label)?) };
        let tokens = token_file::directory()?;
        if !self.dry_run && self.is_done(&objects, &label, &pin)? {
            return Ok(());
        }
        let ask = || pin::ask_new(self.pins.given_so()?, "SO", &label);
        let so_pin = if self.dry_run { so_pin } else { ask()?.to_string() };
        let stage = if self.dry_run { Stage::temporary()? } else { Stage::in_tokens(&tokens)? };
        // Another migration may have made the token while this one waited for the directory.
        if !self.dry_run && self.is_done(&objects, &label, &pin)? {
            return Ok(());
        }
        let job = Job { objects, library, label: label.clone(), so_pin, pin };
        let waiting = out::waiting(format!("writing and proving {} objects", job.objects.len()));
        let outcome = write(&job, &stage)?;
        drop(waiting);
        self.report(&outcome)?;
        if self.dry_run {
            return out::if_json(
                &serde_json::json!({ "token": label, "written": false, "objects": rows(&outcome) }),
            );
        }
        let left_out = outcome.left_out().count();
        if left_out > 0 && !self.partial {
            return Err(Error::Failed(format!(
                "{left_out} of {} objects cannot be migrated, so nothing was written; --partial leaves them out",
                outcome.lines.len()
            )));
        }
        let file = stage.publish(&tokens, &outcome.serial)?;
        say(format_args!(
            "The token {label:?} with serial {} has {} objects: {}",
            outcome.serial,
            outcome.migrated(),
            file.display()
        ))?;
        let (serial, objects) = (&outcome.serial, rows(&outcome));
        out::if_json(&serde_json::json!({
            "token": label, "serial": serial, "file": file, "written": true, "objects": objects
        }))
    }

    /// Returns the token that the options name.
    fn old_token(&self) -> Result<Token, Error> {
        let fits = |token: &Token| {
            self.token.as_ref().is_none_or(|label| token.label == *label)
                && self.serial.as_ref().is_none_or(|serial| token.serial == *serial)
        };
        let all = jeton_migrate::tokens(&self.from)?;
        let names: Vec<_> =
            all.iter().map(|token| format!("{:?} (serial {})", token.label, token.serial)).collect();
        let mut fitting: Vec<_> = all.into_iter().filter(fits).collect();
        match fitting.len() {
            1 => Ok(fitting.remove(0)),
            0 => Err(Error::Usage(format!("no such token; there are: {}", names.join(", ")))),
            _ => Err(Error::Usage(format!("choose a token with --token or --serial: {}", names.join(", ")))),
        }
    }

    /// Returns the user's PIN of the new token.
    fn new_pin(&self, old: &str, label: &str) -> Result<String, Error> {
        let given = pin::given(self.new_pin_file.as_deref(), self.new_pin_fd, "JETON_NEW_PIN")?;
        match given {
            None if !old.is_empty() => Ok(old.to_owned()),
            given => pin::ask_new(given, "user", label).map(|pin| pin.to_string()),
        }
    }

    /// Returns whether a token with this label already has all objects that can be migrated. Fails
    /// if a token with this label lacks one of these objects.
    fn is_done(&self, objects: &[jeton_migrate::Object], label: &str, pin: &str) -> Result<bool, Error> {
        let plans: Vec<_> = objects.iter().filter_map(|object| Plan::of(object).ok()).collect();
        let module = target::open(Known::Jeton.name(), None)?;
        let presence = presence(&module, label, pin, &plans)?;
        module.finalize()?;
        match presence {
            Presence::NoToken => Ok(false),
            Presence::Token { objects, serial } if objects == plans.len() => {
                say(format_args!(
                    "The token {label:?} with serial {serial} has all {objects} objects already. Nothing was written."
                ))?;
                out::if_json(&serde_json::json!({ "token": label, "serial": serial, "written": false }))?;
                Ok(true)
            }
            Presence::Token { objects, .. } => Err(Error::Failed(format!(
                "Jeton has a token {label:?} already, with {objects} of the {} objects; nothing was written. --label \
                 gives the new token another label",
                plans.len()
            ))),
        }
    }

    fn report(&self, outcome: &Outcome) -> Result<(), Error> {
        if self.dry_run {
            for line in outcome.lines.iter().filter(|line| line.result.is_ok()) {
                say(format_args!("migrated      {}", described(line)))?;
            }
        }
        for (line, reason) in outcome.left_out() {
            say(format_args!("not migrated  {}: {reason}", described(line)))?;
        }
        let migrated = || outcome.lines.iter().filter_map(|line| line.result.as_ref().ok());
        let mut differences = std::collections::BTreeMap::<&str, usize>::new();
        for difference in migrated().flat_map(|object| &object.differences) {
            *differences.entry(difference).or_default() += 1;
        }
        for (difference, count) in differences {
            say(format_args!("differs       {difference} ({count} objects)"))?;
        }
        let proved = migrated().filter(|object| object.proof == Some(Ok(()))).count();
        let keys = migrated().filter(|object| object.proof.is_some()).count();
        say(format_args!(
            "{} of {} objects are migrated; {proved} of {keys} private keys are proved.",
            outcome.migrated(),
            outcome.lines.len()
        ))?;
        for line in &outcome.lines {
            if let Ok(object) = &line.result
                && let Some(Err(reason)) = &object.proof
            {
                say(format_args!("not proved    {}: {reason}", described(line)))?;
            }
        }
        Ok(())
    }
}

/// Writes a line, unless the result is JSON.
fn say(text: impl std::fmt::Display) -> Result<(), Error> {
    if out::is_json() { Ok(()) } else { out::line(text) }
}

/// Returns the objects for `--json`.
fn rows(outcome: &Outcome) -> Vec<serde_json::Value> {
    let row = |line: &Line| match &line.result {
        Ok(object) => serde_json::json!({
            "object": described(line), "migrated": true, "proved": object.proof == Some(Ok(())), "differences": object.differences
        }),
        Err(reason) => {
            serde_json::json!({ "object": described(line), "migrated": false, "reason": reason.to_string() })
        }
    };
    outcome.lines.iter().map(row).collect()
}

/// Starts the child process that writes the new token, and returns its result.
fn write(job: &Job, stage: &Stage) -> Result<Outcome, Error> {
    let text = serde_json::to_string(job).map_err(|error| Error::Failed(error.to_string()))?;
    let text = Zeroizing::new(text);
    let failed = || Error::io("the tool");
    let mut command = Command::new(std::env::current_exe().map_err(failed())?);
    command.arg(WRITER).env("JETON_DIR", stage.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed())?;
    // A child that ended early has printed the reason itself.
    let _ = child.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(failed())?;
    // The module may write to standard output too.
    let mut lines = output.stdout.split(|byte| *byte == b'\n');
    let outcome = lines.find_map(|line| serde_json::from_slice(line).ok());
    let outcome = outcome.filter(|_| output.status.success());
    outcome.ok_or_else(|| Error::Failed("the new token was not written; nothing was changed".to_owned()))
}

/// Returns random PINs for the temporary token of a dry run.
fn rehearsal_pins() -> Result<(String, String), Error> {
    let pin = || {
        let mut bytes = [0; 16];
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| Error::Failed("AWS-LC made no random PIN".to_owned()))?;
        Ok::<_, Error>(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    Ok((pin()?, pin()?))
}

/// Returns the description of one object.
fn described(line: &Line) -> String {
    let mut text = line.what.clone();
    if !line.label.is_empty() {
        text += &format!(", label {:?}", line.label);
    }
    if !line.id.is_empty() {
        text += &format!(", ID {}", line.id);
    }
    if let Ok(object) = &line.result
        && object.proof == Some(Ok(()))
    {
        text += ", proved";
    }
    text
}
