//! PINs: from the command line, from a file, or from a prompt without echo.

use std::fs;
use std::path::Path;

use clap::Args;
use jeton_driver::Error;

/// A shorter PIN is allowed, with a warning.
const SHORT: usize = 8;

/// The PINs of a token that exists. There is no option for the PIN itself: other users of the
/// machine would see it.
#[derive(Args)]
pub struct PinFiles {
    /// A file with the security officer's PIN in its first line; asked for if absent.
    #[arg(long)]
    so_pin_file: Option<std::path::PathBuf>,
    /// A file with the user's PIN in its first line; asked for if absent.
    #[arg(long)]
    pin_file: Option<std::path::PathBuf>,
}

impl PinFiles {
    /// The security officer's PIN.
    pub fn so(&self) -> Result<String, Error> {
        ask(read(self.so_pin_file.as_deref())?, "SO")
    }

    /// The user's PIN.
    pub fn user(&self) -> Result<String, Error> {
        ask(read(self.pin_file.as_deref())?, "User")
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
