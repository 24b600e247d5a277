//! `backup`: create, verify, restore.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use jeton_client::safe_text::shown;
use jeton_tool::backup::{self, Header, Keys, Opened};
use jeton_tool::output_file::Existing;
use jeton_tool::shares::{self, Purpose, Scheme};
use jeton_tool::token_file::{self, Login, Pins, Restore, Role};
use jeton_tool::{Error, certificate_list};
use serde::Serialize;
use zeroize::Zeroizing;

use super::out::{self, shown_path};
use super::pin::{self, Passphrase, SoPin, UserPin};
use super::protection::ProtectionOptions;
use super::recovery::recover;
use super::shares::new_identity;
use super::token_file::Which;

/// Back up, verify and restore tokens of Jeton.
#[derive(Args)]
pub struct Backup {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write an encrypted backup of a token, while other programs use it.
    ///
    /// The file has the format of age. The tool decrypts it again and compares it before the file
    /// gets its name. With the user's or the SO's PIN, it also opens every record.
    Create(Create),
    /// Check a backup. With a PIN, open every record.
    Verify(Verify),
    /// Make a token from a backup, in the token directory of the configuration.
    ///
    /// The restored token has the serial number of the original and a later state. So running
    /// programs and a change counter ([store] counter-dir) detect that the original is older. The
    /// command needs one PIN.
    Restore(RestoreCommand),
    /// Make a file with a new key. `create` needs the recipient of the key. `verify` and `restore`
    /// need the file.
    NewKey {
        /// The file; it must not exist.
        file: PathBuf,
        /// If the file exists, keep it, write its recipients, and exit with 0.
        #[arg(long)]
        if_absent: bool,
        /// Write shares of the key instead of the key, to files with `.1`, `.2` and so on after the
        /// name: any M of N recover it, as in 2/3.
        #[arg(long, value_name = "M/N")]
        shares: Option<Scheme>,
    },
}

impl Backup {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self.what, What: Create Verify Restore;
            What::NewKey { file, if_absent, shares } => {
                let written = if shares.is_some() { shares::first(&file) } else { file.clone() };
                let recipient = match shares {
                    _ if if_absent && written.exists() => backup::recipient_of(&written)?,
                    Some(scheme) => new_identity(&file, scheme)?,
                    None => backup::new_identity(&file)?,
                };
                let row = serde_json::json!({ "file": written, "recipient": recipient });
                out::result(&row, format_args!("Recipient: {recipient}")).map(Termination::report)
            }
        }
    }
}

#[derive(Args)]
struct Create {
    /// The backup. `-` is standard output.
    file: PathBuf,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    protection: ProtectionOptions,
    #[command(flatten)]
    pins: EitherPin,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// If the file exists, keep it, and exit with 0.
    #[arg(long, conflicts_with = "force")]
    if_absent: bool,
}

impl Create {
    fn run(self) -> Result<(), Error> {
        if self.if_absent && self.file.exists() {
            let text = format!("{} exists already.", self.file.display());
            return out::result(&serde_json::json!({ "file": self.file }), text);
        }
        let stream = self.file == Path::new("-");
        let mut stdout = std::io::stdout();
        if stream && stdout.is_terminal() {
            return Err(Error::Usage("a backup is not text: give a file, or use a pipe".to_owned()));
        }
        if stream && out::is_json() {
            return Err(Error::Usage("standard output cannot have both the backup and JSON".to_owned()));
        }
        let protection = self.protection.protection()?;
        let token = self.which.open()?;
        let known = self.pins.given()?;
        let login = known.as_ref().map(KnownPin::login);
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let output = if stream {
            backup::Output::Stream(&mut stdout)
        } else {
            backup::Output::File(&self.file, existing)
        };
        let waiting = out::waiting("writing the backup");
        let header = backup::create(&token, login, &protection, output)?;
        drop(waiting);
        if stream {
            pin::warn("the backup was not read again; `jeton backup verify` checks it");
            return Ok(());
        }
        show(&self.file, &header, login.is_some())
    }
}

/// The options that decrypt a backup.
#[derive(Args)]
struct Decryption {
    /// The backup. `-` is standard input.
    file: PathBuf,
    /// A file with the private key of a recipient (AGE-SECRET-KEY-...). May be repeated.
    #[arg(long, value_name = "FILE")]
    identity: Vec<PathBuf>,
    /// A file with a share of a recipient's private key. May be repeated, in any order. The tool
    /// asks for the shares that are missing.
    #[arg(long, value_name = "FILE")]
    share: Vec<PathBuf>,
    /// Ask for the shares of a recipient's private key.
    #[arg(long)]
    ask_shares: bool,
    #[command(flatten)]
    passphrase: Passphrase,
}

impl Decryption {
    fn open(&self, directory: &Path) -> Result<Opened, Error> {
        let keys = self.keys()?;
        let input: Box<dyn Read> = if self.file == Path::new("-") {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(&self.file).map_err(Error::io(&self.file))?)
        };
        let _waiting = out::waiting("reading the backup");
        Opened::open(&self.file, input, &keys, directory)
    }

    fn keys(&self) -> Result<Keys, Error> {
        let has_shares = self.ask_shares || !self.share.is_empty();
        if self.identity.is_empty() && !has_shares {
            return Ok(Keys::Passphrase(match self.passphrase.given()? {
                Some(passphrase) => passphrase,
                None => pin::ask_file(&self.file)?,
            }));
        }
        let mut all = Vec::new();
        for file in &self.identity {
            all.extend(backup::read_keys(file)?);
        }
        if has_shares {
            all.push(backup::identity(&*recover(Purpose::Identity, &self.share)?)?);
        }
        Ok(Keys::Identities(all))
    }
}

#[derive(Args)]
struct Verify {
    #[command(flatten)]
    backup: Decryption,
    #[command(flatten)]
    pins: EitherPin,
}

impl Verify {
    fn run(self) -> Result<(), Error> {
        // SQLite reads files only. The directory and its file are private, and removed at the end.
        let folder = tempfile::tempdir().map_err(Error::io(std::env::temp_dir()))?;
        let known = self.pins.given()?;
        let opened = self.backup.open(folder.path())?;
        if let Some(known) = &known {
            let _waiting = out::waiting("opening every record");
            opened.check(known.login())?;
        }
        show(&self.backup.file, &opened.header, known.is_some())
    }
}

#[derive(Args)]
struct RestoreCommand {
    #[command(flatten)]
    backup: Decryption,
    /// Give the token a new serial number and a new key, so that it can be used beside the
    /// original. Needs both PINs.
    #[arg(long, conflicts_with = "as_it_is")]
    new_serial: bool,
    /// Keep the state of the backup. Needs no PIN. Fails if the change counter ([store]
    /// counter-dir) knows a later state.
    #[arg(long)]
    as_it_is: bool,
    #[command(flatten)]
    pins: EitherPin,
}

impl RestoreCommand {
    fn run(self) -> Result<(), Error> {
        let opened = self.backup.open(&token_file::directory()?)?;
        let header = opened.header.clone();
        let asked = || Ok(pin::Asked { label: header.label.clone(), tries: (None, None) });
        let restore = |opened: Opened, how: Restore<'_>| {
            let _waiting = out::waiting("restoring the token");
            opened.restore(how)
        };
        let (facts, path, list) = if self.as_it_is {
            restore(opened, Restore::AsItIs)?
        } else if self.new_serial {
            let so = pin::ask(self.pins.so.given()?, "SO", asked)?;
            let ask = || pin::ask(self.pins.user.given()?, "user", asked);
            let user = opened.facts.has_user_pin.then(ask).transpose()?;
            let pins = Pins { so: so.as_bytes(), user: user.as_ref().map(|pin| pin.as_bytes()) };
            restore(opened, Restore::NewSerial(&pins))?
        } else {
            let known = match self.pins.given()? {
                Some(known) => known,
                None if opened.facts.has_user_pin => KnownPin(Role::User, pin::ask(None, "user", asked)?),
                None => KnownPin(Role::SecurityOfficer, pin::ask(None, "SO", asked)?),
            };
            restore(opened, Restore::NewState(known.login()))?
        };
        if out::is_json() {
            let restored = Header { serial: facts.serial, state: facts.state, ..header };
            let report = Report { header: restored, every_record_opened: !self.as_it_is };
            out::json(&Restored { report, file: path.display().to_string() })?;
        } else {
            out::line(format_args!("Restored {}.", describe(&header)))?;
            out::line(format_args!("File: {}, serial {}", shown_path(&path), facts.serial))?;
            if let Some(restored) = list {
                let what = if restored { "restored; `jeton ca adopt` reads the last CRL" } else { "kept" };
                let path = shown_path(&certificate_list::path()?);
                out::line(format_args!("List of issued certificates: {path}, {what}"))?;
            }
        }
        Ok(())
    }
}

/// The options with the PINs that open the records of a token.
#[derive(Args)]
pub struct EitherPin {
    #[command(flatten)]
    user: UserPin,
    #[command(flatten)]
    so: SoPin,
}

impl EitherPin {
    /// Returns the PIN that an option or a variable gives: the user's, or else the SO's.
    pub fn given(&self) -> Result<Option<KnownPin>, Error> {
        if let Some(pin) = self.user.given()? {
            return Ok(Some(KnownPin(Role::User, pin)));
        }
        Ok(self.so.given()?.map(|pin| KnownPin(Role::SecurityOfficer, pin)))
    }
}

/// The PIN that opens the records: the user's, or else the SO's.
pub struct KnownPin(Role, Zeroizing<String>);

impl KnownPin {
    /// Returns the login of the copy of a token.
    pub fn login(&self) -> Login<'_> {
        Login { role: self.0, pin: self.1.as_bytes() }
    }
}

/// A backup in `--json`.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    header: Header,
    /// Whether every record was opened with a PIN.
    every_record_opened: bool,
}

/// A restored token in `--json`.
#[derive(Serialize)]
struct Restored {
    #[serde(flatten)]
    report: Report,
    file: String,
}

fn describe(header: &Header) -> String {
    let created = std::time::Duration::from_secs(header.created);
    let created = der::DateTime::from_unix_duration(created)
        .map_or("an unknown time".to_owned(), |date| date.to_string());
    format!(
        "the token {} with the serial number {}, {} objects{}, backed up at {created}",
        shown(&header.label),
        shown(&header.serial),
        header.objects,
        if header.list.is_some() { " and the list of issued certificates" } else { "" }
    )
}

/// Writes what a backup holds, and whether every record of it was opened.
fn show(file: &Path, header: &Header, opened: bool) -> Result<(), Error> {
    let depth = if opened {
        "Every record opens."
    } else {
        "The file is complete and unaltered. Without a PIN, encrypted records were not opened."
    };
    let text = format!("{} holds {}.\n{depth}", shown_path(file), describe(header));
    out::result(&Report { header: header.clone(), every_record_opened: opened }, text)
}
