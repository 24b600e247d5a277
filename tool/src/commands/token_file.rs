//! Commands for tokens of Jeton that need more than the functions of PKCS#11.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jeton_client::safe_text::shown;
use jeton_tool::output_file::Existing;
use jeton_tool::shares::Scheme;
use jeton_tool::token_file::{self, Login, PinCost, PinInfo, Pins, Role, SealingChange, TokenFile};
use jeton_tool::{Error, backup};

use super::out::{self, shown_path};
use super::pin::{self, Asked, PinFiles, SoPin, UserPin};
use super::protection::ProtectionOptions;
use super::shares::{show, split_sealing_key};
use super::target;

/// The options that choose a token.
#[derive(Args)]
pub struct Which {
    /// The token with this serial.
    #[arg(long)]
    serial: Option<String>,
    /// The token with this label.
    #[arg(long)]
    token: Option<String>,
}

impl Which {
    /// Returns the serial number and the label that were given.
    pub fn names(&self) -> (Option<&str>, Option<&str>) {
        (self.serial.as_deref(), self.token.as_deref())
    }

    /// Opens the token. If neither option is given, the token directory or the database must
    /// contain only one token.
    pub fn open(&self) -> Result<TokenFile, Error> {
        // The tokens of this user are not those of the agent. The variable names the files.
        if target::is_agent("jeton") && std::env::var_os("JETON_DIR").is_none() {
            return Err(target::not_through_agent());
        }
        let (serial, label) = self.names();
        token_file::open(serial, label)
    }
}

/// Show the properties of a Jeton token that can be read without a PIN.
#[derive(Args)]
pub struct TokenInfo {
    #[command(flatten)]
    which: Which,
}

impl TokenInfo {
    pub fn run(self) -> Result<(), Error> {
        let token = self.which.open()?;
        if out::is_json() {
            return out::json(&row(&token)?);
        }
        let info = token_file::info(&token)?;
        out::line(format_args!("File:      {}", shown_path(token.path())))?;
        out::line(format_args!("Serial:    {}", shown(&info.serial)))?;
        out::line(format_args!("Label:     {}", shown(&info.label)))?;
        out::line(format_args!("Slot:      {}", info.slot))?;
        out::line(format_args!("SO PIN:    {}", describe_pin(&info.so)))?;
        out::line(format_args!(
            "User PIN:  {}",
            info.user.as_ref().map_or("not set".to_owned(), describe_pin)
        ))
    }
}

/// Set a new SO PIN with the user's PIN, or unlock both PINs.
#[derive(Args)]
pub struct Reset {
    #[command(flatten)]
    which: Which,
    /// Set the count of wrong PINs back to 0, for the SO and for the user; the PINs stay as they
    /// are.
    #[arg(long, conflicts_with_all = ["so_pin", "SoPinShares", "pin"])]
    failures: bool,
    #[command(flatten)]
    so_pin: SoPin,
    #[command(flatten)]
    pin: UserPin,
}

impl Reset {
    pub fn run(self) -> Result<(), Error> {
        let token = self.which.open()?;
        if self.failures {
            token_file::reset_failures(&token)?;
            return out::result(&row(&token)?, "The counts of wrong PINs are 0 again.");
        }
        let user_pin = pin::ask(self.pin.given()?, "user", || Asked::of(&token))?;
        let new = pin::ask_new(self.so_pin.given()?, "SO", &token_file::info(&token)?.label)?;
        token_file::reset_so_pin(&token, &user_pin, &new)?;
        out::result(&row(&token)?, "The SO PIN is set.")
    }
}

/// Describes a token for `--json`.
pub fn row(token: &TokenFile) -> Result<serde_json::Value, Error> {
    let info = token_file::info(token)?;
    let pin = |pin: &PinInfo| {
        let (mut argon2id, mut pbkdf2) = (None, None);
        match pin.cost {
            Some(PinCost::Argon2id { memory_kib, passes }) => {
                argon2id = Some(serde_json::json!({ "memory_kib": memory_kib, "passes": passes }));
            }
            Some(PinCost::Pbkdf2 { iterations }) => {
                pbkdf2 = Some(serde_json::json!({ "iterations": iterations }));
            }
            None => {}
        }
        serde_json::json!({
            "wrong_pins": pin.failures,
            "limit": pin.limit,
            "locked": pin.failures >= pin.limit,
            "argon2id": argon2id,
            "pbkdf2": pbkdf2,
            "sealing_key": pin.sealing_key,
        })
    };
    Ok(serde_json::json!({
        "file": token.path(),
        "serial": info.serial,
        "label": info.label,
        "slot": info.slot,
        "so_pin": pin(&info.so),
        "user_pin": info.user.as_ref().map(pin),
    }))
}

fn describe_pin(pin: &PinInfo) -> String {
    let cost = match pin.cost {
        Some(PinCost::Argon2id { memory_kib, passes }) => {
            format!("Argon2id with {memory_kib} KiB, {passes} passes")
        }
        Some(PinCost::Pbkdf2 { iterations }) => format!("PBKDF2 with {iterations} iterations"),
        None => "damaged record".to_owned(),
    };
    let locked = if pin.failures >= pin.limit { ", locked" } else { "" };
    let sealing = pin.sealing_key.as_ref().map_or(String::new(), |id| format!(", sealing key {id}"));
    format!("{cost}{sealing}; {} of {} wrong PINs{locked}", pin.failures, pin.limit)
}

/// A token and its PINs.
#[derive(Args)]
struct Opened {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    pins: PinFiles,
}

impl Opened {
    /// Opens the token, asks for the PINs that it has, and calls `work` with the token and these
    /// PINs.
    fn run(&self, work: impl FnOnce(&TokenFile, &Pins<'_>) -> Result<(), Error>) -> Result<String, Error> {
        let token = self.which.open()?;
        let info = token_file::info(&token)?;
        let so = self.pins.so(|| Asked::of(&token))?;
        let user = info.user.is_some().then(|| self.pins.user(|| Asked::of(&token))).transpose()?;
        let user = user.as_ref().map(|pin| pin.as_bytes());
        work(&token, &Pins { so: so.as_bytes(), user })?;
        Ok(info.serial)
    }
}

/// Make a new token key for a Jeton token, and encrypt its objects again.
///
/// Needs both PINs, which stay as they are. Every application that is logged in is logged out. If
/// the command is killed, the token is as it was before or has the new key. An older copy of the
/// file still has the old key.
#[derive(Args)]
pub struct Rekey {
    #[command(flatten)]
    opened: Opened,
    /// Protect the token with these algorithms from now on, after a backup.
    #[arg(long, requires = "backup")]
    format: Option<Format>,
    /// The file of this backup; it must not exist.
    #[arg(long, value_name = "FILE", requires = "format")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    protection: ProtectionOptions,
}

/// The algorithms that protect a token.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Argon2id, XChaCha20-Poly1305 and SipHash.
    Standard,
    /// PBKDF2, AES-GCM and HMAC, which are approved for FIPS 140-3.
    Fips,
}

impl Rekey {
    pub fn run(self) -> Result<(), Error> {
        let Self { opened, format, backup, protection } = self;
        let serial = opened.run(|token, pins| {
            let (Some(format), Some(file)) = (format, backup) else { return token_file::rekey(token, pins) };
            // The backup tries the PIN with a copy of the token, which counts nothing.
            token_file::try_pins(token, pins)?;
            let login = Login { role: Role::SecurityOfficer, pin: pins.so };
            let output = backup::Output::File(&file, Existing::Keep);
            backup::create(token, Some(login), &protection.protection()?, output)?;
            token_file::convert(token, pins, format == Format::Fips)
        })?;
        let text = format!("The token with serial {serial} has a new key.");
        out::result(&serde_json::json!({ "serial": serial }), text)
    }
}

/// Make, set, rotate or remove the sealing key, without which no PIN opens the token's file.
#[derive(Args)]
pub struct SealingKey {
    #[command(subcommand)]
    what: SealingCommand,
}

#[derive(Subcommand)]
enum SealingCommand {
    /// Make a file with a new sealing key of 32 random bytes.
    New {
        /// The file; it must not exist.
        file: PathBuf,
        /// Also write shares of the key, to files with `.1`, `.2` and so on after the name: any M
        /// of N recover it, as in 2/3.
        #[arg(long, value_name = "M/N")]
        shares: Option<Scheme>,
    },
    /// Set the sealing key that [store] sealing-key of the configuration names. The PINs of the
    /// token then need it.
    Set(ChangeSealing),
    /// Replace the token's sealing key by the configured one; --old names the key that is replaced.
    Rotate(ChangeSealing),
    /// Remove the sealing key. The PINs then open the token without it.
    Remove(ChangeSealing),
}

#[derive(Args)]
struct ChangeSealing {
    #[command(flatten)]
    opened: Opened,
    /// The location of the present sealing key, if the configuration does not name it: file:/PATH,
    /// credential:NAME or keyring:NAME.
    #[arg(long)]
    old: Option<String>,
}

impl SealingKey {
    pub fn run(self) -> Result<(), Error> {
        let (command, change, done) = match self.what {
            SealingCommand::New { file, shares } => {
                token_file::new_sealing_key(&file)?;
                if let Some(scheme) = shares {
                    let files = split_sealing_key(&file, scheme);
                    if files.is_err() {
                        // No token needs this key yet.
                        let _ = std::fs::remove_file(&file);
                    }
                    return show(&files?);
                }
                let text = format!(
                    "{} holds a new sealing key. Keep a copy of it apart from the token.",
                    file.display()
                );
                return out::result(&serde_json::json!({ "file": file }), text);
            }
            SealingCommand::Set(command) => (command, SealingChange::Set, "needs the configured sealing key"),
            SealingCommand::Rotate(command) => {
                (command, SealingChange::Rotate, "needs the configured sealing key")
            }
            SealingCommand::Remove(command) => (command, SealingChange::Remove, "needs no sealing key"),
        };
        let old = command.old.as_deref();
        let serial =
            command.opened.run(|token, pins| token_file::change_sealing_key(token, pins, change, old))?;
        out::result(
            &serde_json::json!({ "serial": serial }),
            format_args!("The token with serial {serial} {done}."),
        )?;
        if change == SealingChange::Remove {
            pin::warn("a sealing-key in the configuration makes every new PIN need the key again; remove it");
        }
        Ok(())
    }
}
