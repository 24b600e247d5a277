//! `shares`: make shares of a secret, and recover it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use jeton_client::safe_text::hex;
use jeton_tool::shares::{self, Collection, Purpose, Scheme, Secret};
use jeton_tool::{Error, backup};
use zeroize::Zeroizing;

use super::out::{self, Output, shown_path};
use super::pin;
use super::recovery::collect;

/// The random bytes of an SO PIN.
const PIN_BYTES: usize = 15;

/// Make shares of a secret, of which any M of N recover it, and recover secrets from shares.
#[derive(Args)]
pub struct Shares {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Make shares of a secret that exists.
    Split(Split),
    /// Make a random SO PIN and its shares. The PIN itself is not written or shown.
    ///
    /// `token init --so-pin-share` and `pin reset --so-pin-share` set it.
    NewPin(NewPin),
    /// Recover a secret from its shares, in any order.
    Combine(Combine),
}

impl Shares {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! { self.what, What: Split NewPin Combine; }
    }
}

/// What a secret is for.
#[derive(Clone, Copy, ValueEnum)]
enum Of {
    /// A file with an identity of age, which decrypts backups.
    Identity,
    /// A file with a sealing key.
    SealingKey,
    /// A file with the SO's PIN in its first line.
    SoPin,
}

#[derive(Args)]
struct Split {
    /// The file with the secret. The shares are beside it, with `.1`, `.2` and so on after its
    /// name.
    file: PathBuf,
    /// What the secret is.
    #[arg(long)]
    of: Of,
    /// The number of shares that recover the secret, and the number of all shares, as in 2/3.
    #[arg(long, value_name = "M/N")]
    shares: Scheme,
}

impl Split {
    fn run(self) -> Result<(), Error> {
        let path = &self.file;
        match self.of {
            Of::Identity => {
                let secret = backup::read_identity(path)?;
                let note = backup::recipient_line(&backup::identity(&secret)?);
                write(path, Purpose::Identity, &secret, self.shares, &note)
            }
            Of::SealingKey => split_sealing_key(path, self.shares),
            Of::SoPin => {
                let pin = pin::read(Some(path))?.unwrap_or_default();
                write(path, Purpose::SoPin, &shares::of_pin(&pin)?, self.shares, "")
            }
        }
        .and_then(|files| show(&files))
    }
}

/// Writes the shares of the sealing key in a file beside it.
pub fn split_sealing_key(path: &Path, scheme: Scheme) -> Result<Vec<PathBuf>, Error> {
    let bytes = Zeroizing::new(out::input(path, size_of::<Secret>())?);
    let wrong = |_| Error::Failed(format!("{}: a sealing key has 32 bytes", path.display()));
    let secret = Zeroizing::new(bytes.as_slice().try_into().map_err(wrong)?);
    write(path, Purpose::SealingKey, &secret, scheme, "")
}

/// Writes the shares of a new identity of a backup beside a path. Returns its recipient.
pub fn new_identity(path: &Path, scheme: Scheme) -> Result<String, Error> {
    let secret = shares::random()?;
    let identity = backup::identity(&secret)?;
    write(path, Purpose::Identity, &secret, scheme, &backup::recipient_line(&identity))?;
    Ok(identity.public.to_string())
}

#[derive(Args)]
struct NewPin {
    /// The name of the shares, which get `.1`, `.2` and so on after it.
    file: PathBuf,
    /// The number of shares that recover the PIN, and the number of all shares, as in 2/3.
    #[arg(long, value_name = "M/N")]
    shares: Scheme,
}

impl NewPin {
    fn run(self) -> Result<(), Error> {
        let pin = Zeroizing::new(hex(&shares::random()?[..PIN_BYTES]));
        let files = write(&self.file, Purpose::SoPin, &shares::of_pin(&pin)?, self.shares, "")?;
        show(&files)
    }
}

fn write(
    path: &Path,
    purpose: Purpose,
    secret: &Secret,
    scheme: Scheme,
    note: &str,
) -> Result<Vec<PathBuf>, Error> {
    shares::sheets(path, &shares::split(purpose, secret, scheme)?, note)?.publish()
}

/// Writes the names of the files with shares.
pub fn show(files: &[PathBuf]) -> Result<(), Error> {
    let names: Vec<_> = files.iter().map(|file| shown_path(file)).collect();
    let text = format!("Shares: {}. Give each to another person, and keep no copy.", names.join(", "));
    out::result(&serde_json::json!({ "shares": files }), text)
}

#[derive(Args)]
struct Combine {
    /// The files with the shares. The tool asks for the shares that are missing.
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Combine {
    fn run(self) -> Result<(), Error> {
        self.output.expect_writable()?;
        let mut collection = Collection::new(None);
        let secret = collect(&mut collection, &self.files)?;
        match collection.purpose() {
            Some(Purpose::Identity) => {
                let text = backup::identity_file(&backup::identity(&secret)?, &secret);
                self.output.text(text.as_bytes())
            }
            Some(Purpose::SoPin) => {
                let text = Zeroizing::new(format!("{}\n", *shares::pin(&secret)?));
                self.output.text(text.as_bytes())
            }
            Some(Purpose::SealingKey) | None => self.output.binary(&secret[..]),
        }
    }
}
