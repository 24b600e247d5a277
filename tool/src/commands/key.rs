//! `key`: generate, import, export, wrap and unwrap.

mod dates;
mod derive;
mod export;
mod generate;
mod import;
mod wrap;

use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use cryptoki_sys::*;
use jeton_pki::key_type::{Usage, Usages};
use jeton_tool::client::{Access, Attribute, ObjectHandle, Session};
use jeton_tool::import::{Protection, names, protected};
use jeton_tool::object::describe;
use jeton_tool::{Error, token_file};

use self::dates::SetDates;
use self::derive::Derive;
use self::export::Export;
use self::generate::Generate;
use self::wrap::{Unwrap, Wrap};
use super::again::Again;
use super::object::{List, show};
use super::pin::UserPin;
use super::target::{Need, Opened, Target, id_of};

pub use self::import::{Import, ImportType};
pub use self::wrap::rsa_oaep;

/// The keys of a token.
#[derive(Args)]
pub struct Key {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Generate a key or a key pair.
    Generate(Generate),
    /// Import keys and certificates from a file.
    Import(Import),
    /// Write a public key, or a key file that names a private key, to a file.
    Export(Export),
    /// Encrypt a key with another key of the token.
    Wrap(Wrap),
    /// Import a key that was encrypted with a key of the token.
    Unwrap(Unwrap),
    /// Derive a secret key with ECDH.
    Derive(Derive),
    /// Set the first and the last day of a key, for an inventory.
    Dates(SetDates),
    /// The same as `object list` for keys.
    #[command(hide = true)]
    List(List),
}

impl Key {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self.what, What: Generate Import Export Wrap Unwrap Derive Dates;
            What::List(command) => command.run(&["private", "public", "secret-key"]).map(Termination::report),
        }
    }
}

/// Returns whether the configuration of Jeton says *strict*. Another module needs no configuration.
fn is_strict() -> bool {
    token_file::is_strict().unwrap_or(false)
}

/// The options that set the permissions of a new key.
#[derive(Args)]
struct Permissions {
    /// What the key may do, and nothing else: sign, decrypt, wrap, derive, decapsulate. A public
    /// key may do the opposite. The default depends on the type.
    #[arg(long, value_delimiter = ',')]
    usage: Vec<String>,
    /// Allow the private or secret key to be wrapped.
    #[arg(long)]
    extractable: bool,
}

impl Permissions {
    /// Reads `--usage`. Under *strict* a key has one role: the first of the defaults.
    fn usages(&self, default: &[Usage]) -> Result<Usages, Error> {
        let most = if is_strict() { default.len().min(1) } else { default.len() };
        Ok(Usages::parse(&self.usage, &default[..most])?)
    }

    fn protection(&self) -> Protection {
        if self.extractable { Protection::Extractable } else { Protection::Sensitive }
    }
}

/// The options of a new key: its token, its label, its ID and its permissions.
#[derive(Args)]
struct NewKey {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pin: UserPin,
    /// The label.
    #[arg(long)]
    label: String,
    /// The ID in hexadecimal digits. Without it, 8 random bytes.
    #[arg(long, value_name = "HEX")]
    id: Option<String>,
    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    again: Again,
}

impl NewKey {
    /// Finds the token, opens a session that may write, and logs the user in.
    fn session(&self) -> Result<(Opened, Session), Error> {
        let opened = self.target.open(None)?;
        let session = opened.session(&self.pin, Access::ReadWrite, Need::Login)?;
        Ok((opened, session))
    }

    /// Shows the key of this class that `kept` returns, or else the one that `make` makes.
    fn show(
        &self,
        class: CK_OBJECT_CLASS,
        make: impl FnOnce(&Session) -> Result<ObjectHandle, Error>,
    ) -> Result<(), Error> {
        let (opened, session) = self.session()?;
        let key = self.kept(&session, class)?.map_or_else(|| make(&session), Ok)?;
        show(&[describe(&session, &opened.info, key)])
    }

    /// Returns the attributes that a public key has too, and those of a private or secret key only.
    fn attributes(&self, session: &Session) -> Result<[[Attribute; 3]; 2], Error> {
        let id = id_or_random(self.id.as_deref(), session)?;
        Ok([names(&self.label, &id), protected(self.permissions.protection())])
    }

    /// Returns the key of this class with the same label, and the same ID if --id is given, if
    /// --if-absent keeps it. Fails if the token has a key of the class with the label or the ID,
    /// and no option says what to do.
    fn kept(&self, session: &Session, class: CK_OBJECT_CLASS) -> Result<Option<ObjectHandle>, Error> {
        if self.again.allow_duplicate {
            return Ok(None);
        }
        let class = Attribute::number(CKA_CLASS, class);
        let label = Attribute::bytes(CKA_LABEL, self.label.as_bytes());
        let id = self.id.as_deref().map(id_of).transpose()?.map(|id| Attribute::bytes(CKA_ID, id));
        let both: Vec<_> = [class.clone(), label.clone()].into_iter().chain(id.clone()).collect();
        if self.again.if_absent
            && let [key] = session.find(&both)?.as_slice()
        {
            return Ok(Some(*key));
        }
        for name in [Some(label), id].into_iter().flatten() {
            if !session.find(&[class.clone(), name])?.is_empty() {
                return Err(Again::refused(&format!(
                    "a key with the label {:?} or with this ID",
                    self.label
                )));
            }
        }
        Ok(None)
    }
}

/// Reads `--id`. Without it, returns 8 random bytes that the token generates.
fn id_or_random(id: Option<&str>, session: &Session) -> Result<Vec<u8>, Error> {
    if let Some(id) = id {
        return id_of(id);
    }
    let mut id = vec![0; 8];
    session.random(&mut id)?;
    Ok(id)
}
