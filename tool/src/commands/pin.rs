//! PINs: from the command line, a file, a file descriptor, a systemd credential, the environment,
//! or a prompt.

use std::env::VarError;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use jeton_client::safe_text::shown;
use jeton_tool::Error;
use jeton_tool::shares::{self, Purpose};
use jeton_tool::token_file::{self, PinInfo, TokenFile};
use zeroize::Zeroizing;

use super::recovery::recover;

/// The tool warns about a new PIN with fewer bytes.
const SHORT: usize = 8;
/// At most this number of bytes is read from a file with a PIN. The file may be an endless device.
const MAX_FILE: u64 = 64 << 10;

/// The PINs of a token. There is no option for the PIN itself: other users of the machine would see
/// it. The tool asks for a PIN that neither an option nor an environment variable gives.
#[derive(Args)]
pub struct PinFiles {
    /// A file with the security officer's PIN in its first line, or set JETON_SO_PIN. The tool asks
    /// for a PIN that is absent.
    #[arg(long, conflicts_with = "SoPinShares")]
    so_pin_file: Option<PathBuf>,
    /// An open file descriptor with the security officer's PIN in its first line.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["so_pin_file", "SoPinShares"])]
    so_pin_fd: Option<u32>,
    #[command(flatten)]
    so_pin_shares: SoPinShares,
    /// A file with the user's PIN in its first line, or set JETON_PIN. The tool asks for a
    /// PIN that is absent.
    #[arg(long)]
    pin_file: Option<PathBuf>,
    /// An open file descriptor with the user's PIN in its first line.
    #[arg(long, value_name = "NUMBER", conflicts_with = "pin_file")]
    pin_fd: Option<u32>,
}

impl PinFiles {
    /// Returns the security officer's PIN, and asks for it if nothing gives it.
    pub fn so(&self, token: impl FnOnce() -> Result<Asked, Error>) -> Result<Zeroizing<String>, Error> {
        ask(self.given_so()?, "SO", token)
    }

    /// Returns the user's PIN, and asks for it if nothing gives it.
    pub fn user(&self, token: impl FnOnce() -> Result<Asked, Error>) -> Result<Zeroizing<String>, Error> {
        ask(given(self.pin_file.as_deref(), self.pin_fd, "JETON_PIN")?, "user", token)
    }

    pub fn given_so(&self) -> Result<Option<Zeroizing<String>>, Error> {
        match self.so_pin_shares.given()? {
            Some(pin) => Ok(Some(pin)),
            None => given(self.so_pin_file.as_deref(), self.so_pin_fd, "JETON_SO_PIN"),
        }
    }
}

/// The name of the value of each option that has a secret as its value. The record of a ceremony
/// refuses these options.
pub const VALUE: &str = "SECRET";

/// Options for a secret: its file, its file descriptor, its systemd credential, or its value. Other
/// users of the machine see the value in the list of processes.
macro_rules! secret_options {
    ($(#[$group:meta])* $name:ident, $whose:literal, $variable:literal, $value:ident, $file:ident, $descriptor:ident, $credential:ident) => {
        #[doc = concat!("The options for ", $whose, ".")]
        #[derive(Args, Clone)]
        $(#[$group])*
        pub struct $name {
            #[arg(long, value_name = VALUE, help = concat!("Pass ", $whose, "; other users can see it: prefer ", $variable, " or a file"))]
            $value: Option<String>,
            #[arg(long, value_name = "FILE", conflicts_with = stringify!($value),
                  help = concat!("A file with ", $whose, " in its first line"))]
            $file: Option<PathBuf>,
            #[arg(long, value_name = "NUMBER", conflicts_with_all = [stringify!($value), stringify!($file)],
                  help = concat!("An open file descriptor with ", $whose, " in its first line"))]
            $descriptor: Option<u32>,
            #[arg(long, value_name = "NAME",
                  conflicts_with_all = [stringify!($value), stringify!($file), stringify!($descriptor)],
                  help = concat!("The systemd credential (LoadCredential=) with ", $whose))]
            $credential: Option<String>,
        }

        impl $name {
            /// Returns the secret that an option or the environment variable gives.
            pub fn given(&self) -> Result<Option<Zeroizing<String>>, Error> {
                if let Some(value) = &self.$value {
                    return Ok(Some(Zeroizing::new(value.clone())));
                }
                let credential = self.$credential.as_deref().map(credential).transpose()?;
                let file = self.$file.as_deref().or(credential.as_deref());
                given(file, self.$descriptor, $variable)
            }
        }
    };
}

secret_options!(UserPin, "the user's PIN", "JETON_PIN", pin, pin_file, pin_fd, pin_credential);
secret_options!(
    #[group(conflicts_with = "SoPinShares")]
    WholeSoPin,
    "the SO's PIN",
    "JETON_SO_PIN",
    so_pin,
    so_pin_file,
    so_pin_fd,
    so_pin_credential
);
secret_options!(
    NewPin,
    "the new PIN",
    "JETON_NEW_PIN",
    new_pin,
    new_pin_file,
    new_pin_fd,
    new_pin_credential
);
secret_options!(
    FilePin,
    "the password of the file",
    "JETON_FILE_PIN",
    file_pin,
    file_pin_file,
    file_pin_fd,
    file_pin_credential
);
secret_options!(
    Passphrase,
    "the passphrase of the backup",
    "JETON_BACKUP_PASSPHRASE",
    passphrase,
    passphrase_file,
    passphrase_fd,
    passphrase_credential
);

/// The options for the SO's PIN, whole or in shares.
#[derive(Args, Clone)]
pub struct SoPin {
    #[command(flatten)]
    whole: WholeSoPin,
    #[command(flatten)]
    shares: SoPinShares,
}

impl SoPin {
    /// Returns the PIN that an option or the environment variable gives.
    pub fn given(&self) -> Result<Option<Zeroizing<String>>, Error> {
        match self.shares.given()? {
            Some(pin) => Ok(Some(pin)),
            None => self.whole.given(),
        }
    }
}

/// The options for shares of the SO's PIN.
#[derive(Args, Clone)]
pub struct SoPinShares {
    /// A file with a share of the SO's PIN. May be repeated, in any order. The tool asks for the
    /// shares that are missing.
    #[arg(long, value_name = "FILE")]
    so_pin_share: Vec<PathBuf>,
    /// Ask for the shares of the SO's PIN.
    #[arg(long)]
    ask_so_pin_shares: bool,
}

impl SoPinShares {
    fn given(&self) -> Result<Option<Zeroizing<String>>, Error> {
        if self.so_pin_share.is_empty() && !self.ask_so_pin_shares {
            return Ok(None);
        }
        let secret = recover(Purpose::SoPin, &self.so_pin_share)?;
        shares::pin(&secret).map(Some)
    }
}

/// Returns the path of a systemd credential.
fn credential(name: &str) -> Result<PathBuf, Error> {
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY");
    let folder = folder.ok_or_else(|| {
        Error::Failed("systemd gives this process no credentials: CREDENTIALS_DIRECTORY is unset".to_owned())
    })?;
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(Error::Usage(format!("{name:?} is not the name of a credential")));
    }
    Ok(Path::new(&folder).join(name))
}

/// Returns the PIN from the file, from the file descriptor or from the environment variable. Uses
/// the first one that is given.
pub fn given(
    file: Option<&Path>,
    descriptor: Option<u32>,
    variable: &str,
) -> Result<Option<Zeroizing<String>>, Error> {
    let descriptor = descriptor.map(|number| PathBuf::from(format!("/dev/fd/{number}")));
    match read(file.or(descriptor.as_deref()))? {
        Some(pin) => Ok(Some(pin)),
        None => match std::env::var(variable) {
            Ok(pin) => Ok(Some(Zeroizing::new(pin))),
            Err(VarError::NotPresent) => Ok(None),
            // The message does not have the value.
            Err(VarError::NotUnicode(_)) => Err(Error::Usage(format!("{variable} is not UTF-8"))),
        },
    }
}

/// Returns the first line of a file.
pub fn read(file: Option<&Path>) -> Result<Option<Zeroizing<String>>, Error> {
    let Some(path) = file else { return Ok(None) };
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE as usize));
    File::open(path)
        .and_then(|file| file.take(MAX_FILE).read_to_string(&mut text))
        .map_err(Error::io(path))?;
    Ok(Some(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned())))
}

/// The token whose PIN a prompt asks for.
pub struct Asked {
    /// The label.
    pub label: String,
    /// The wrong PINs that the SO and the user may still try. `None` if the module does not say.
    pub tries: (Option<u32>, Option<u32>),
}

impl Asked {
    /// Describes a token of Jeton.
    pub fn of(token: &TokenFile) -> Result<Self, Error> {
        let info = token_file::info(token)?;
        let left = |pin: &PinInfo| pin.limit.saturating_sub(pin.failures);
        Ok(Self { label: info.label.clone(), tries: (Some(left(&info.so)), info.user.as_ref().map(left)) })
    }

    /// Returns the number of wrong PINs that may still be tried, in words.
    pub fn left(&self, whose: &str) -> Option<String> {
        let tries = if whose == "SO" { self.tries.0 } else { self.tries.1 };
        tries.map(|tries| if tries == 1 { "1 try left".to_owned() } else { format!("{tries} tries left") })
    }
}

/// Returns the given PIN, or asks for it. `whose` is `user` or `SO`.
pub fn ask(
    given: Option<Zeroizing<String>>,
    whose: &str,
    token: impl FnOnce() -> Result<Asked, Error>,
) -> Result<Zeroizing<String>, Error> {
    if let Some(pin) = given {
        return Ok(pin);
    }
    let token = token()?;
    let left = token.left(whose).map_or(String::new(), |left| format!(" ({left})"));
    prompt(&format!("the {whose} PIN of the token \"{}\"{left}", shown(&token.label)))
}

/// Returns the given new PIN, or asks for it twice. Warns if the PIN is short. `label` is the label
/// of the token.
pub fn ask_new(
    given: Option<Zeroizing<String>>,
    whose: &str,
    label: &str,
) -> Result<Zeroizing<String>, Error> {
    let what = format!("the new {whose} PIN of the token \"{}\"", shown(label));
    let pin = given.map_or_else(|| prompt_twice(&what, &format!("{whose} PINs")), Ok)?;
    if pin.len() < SHORT {
        warn(&format!(
            "the {whose} PIN has fewer than {SHORT} characters: a thief of the token's file can guess it"
        ));
    }
    Ok(pin)
}

/// Writes a warning to standard error.
pub fn warn(text: &str) {
    eprintln!("warning: {}", shown(text));
}

/// Asks for the password of a file.
pub fn ask_file(path: &Path) -> Result<Zeroizing<String>, Error> {
    prompt(&format!("the password of {}", shown(&path.display().to_string())))
}

pub fn prompt_twice(what: &str, plural: &str) -> Result<Zeroizing<String>, Error> {
    let secret = prompt(what)?;
    if prompt(&format!("{what} again"))? != secret {
        return Err(Error::Usage(format!("the two {plural} differ")));
    }
    Ok(secret)
}

fn prompt(what: &str) -> Result<Zeroizing<String>, Error> {
    rpassword::prompt_password(format!("Enter {what}: ")).map(Zeroizing::new).map_err(|_| {
        Error::Usage(format!(
            "no terminal to ask for {what}; pass it by a file, a file descriptor, a credential or a variable (--help)"
        ))
    })
}
