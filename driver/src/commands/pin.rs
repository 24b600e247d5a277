//! PINs: from the command line, or from a prompt without echo.

use jeton_driver::Error;

/// A PIN that exists.
pub fn ask(given: Option<String>, whose: &str) -> Result<String, Error> {
    given.map_or_else(|| prompt(&format!("{whose} PIN: ")), Ok)
}

/// A PIN that is to be set: asked for twice.
pub fn ask_new(given: Option<String>, whose: &str) -> Result<String, Error> {
    if let Some(pin) = given {
        return Ok(pin);
    }
    let pin = prompt(&format!("New {whose} PIN: "))?;
    if prompt(&format!("New {whose} PIN again: "))? != pin {
        return Err(Error::Usage(format!("the two {whose} PINs differ")));
    }
    Ok(pin)
}

fn prompt(text: &str) -> Result<String, Error> {
    rpassword::prompt_password(text).map_err(Error::io("terminal"))
}
