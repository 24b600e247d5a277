//! PINs: from the command line, a file, a file descriptor, the environment, or a prompt.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use jeton_driver::Error;

/// A shorter PIN is allowed, with a warning.
const SHORT: usize = 8;

/// The PINs of a token. There is no option for the PIN itself: other users of the machine would see
/// it. A PIN that no option and no environment variable gives is asked for.
#[derive(Args)]
pub struct PinFiles {
    /// A file with the security officer's PIN in its first line, or set JETON_SO_PIN. The tool asks
    /// for a PIN that is absent.
    #[arg(long)]
    so_pin_file: Option<PathBuf>,
    /// An open file descriptor with the security officer's PIN in its first line.
    #[arg(long, value_name = "NUMBER", conflicts_with = "so_pin_file")]
    so_pin_fd: Option<u32>,
    /// A file with the user's PIN in its first line, or set JETON_PIN. The tool asks for a
    /// PIN that is absent.
    #[arg(long)]
    pin_file: Option<PathBuf>,
    /// An open file descriptor with the user's PIN in its first line.
    #[arg(long, value_name = "NUMBER", conflicts_with = "pin_file")]
    pin_fd: Option<u32>,
}

impl PinFiles {
    /// The security officer's PIN.
    pub fn so(&self) -> Result<String, Error> {
        ask(self.given_so()?, "SO")
    }

    /// The user's PIN.
    pub fn user(&self) -> Result<String, Error> {
        ask(given(self.pin_file.as_deref(), self.pin_fd, "JETON_PIN")?, "User")
    }

    /// A new PIN of the security officer.
    pub fn new_so(&self) -> Result<String, Error> {
        ask_new(self.given_so()?, "SO")
    }

    fn given_so(&self) -> Result<Option<String>, Error> {
        given(self.so_pin_file.as_deref(), self.so_pin_fd, "JETON_SO_PIN")
    }
}

/// The PIN of a file, of a file descriptor or of an environment variable, in this order.
pub fn given(file: Option<&Path>, descriptor: Option<u32>, variable: &str) -> Result<Option<String>, Error> {
    let descriptor = descriptor.map(|number| PathBuf::from(format!("/dev/fd/{number}")));
    match read(file.or(descriptor.as_deref()))? {
        Some(pin) => Ok(Some(pin)),
        None => Ok(std::env::var(variable).ok()),
    }
}

/// The first line of a file.
pub fn read(file: Option<&Path>) -> Result<Option<String>, Error> {
    let Some(path) = file else { return Ok(None) };
    let text = fs::read_to_string(path).map_err(Error::io(path))?;
    Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
}

/// A PIN that exists.
pub fn ask(given: Option<String>, whose: &str) -> Result<String, Error> {
    given.map_or_else(|| prompt(&format!("{whose} PIN: ")), Ok)
}

/// A PIN that is to be set: asked for twice.
pub fn ask_new(given: Option<String>, whose: &str) -> Result<String, Error> {
    let pin = match given {
        Some(pin) => pin,
        None => {
            let pin = prompt(&format!("New {whose} PIN: "))?;
            if prompt(&format!("New {whose} PIN again: "))? != pin {
                return Err(Error::Usage(format!("the two {whose} PINs differ")));
            }
            pin
        }
    };
    if pin.len() < SHORT {
        eprintln!(
            "jeton: the {whose} PIN has fewer than {SHORT} characters: a thief of the token's file can guess it"
        );
    }
    Ok(pin)
}

fn prompt(text: &str) -> Result<String, Error> {
    rpassword::prompt_password(text).map_err(Error::io("terminal"))
}
