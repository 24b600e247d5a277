//! Recovers a secret from shares, in files or at the terminal.

use std::path::PathBuf;

use jeton_client::safe_text::shown;
use jeton_tool::Error;
use jeton_tool::shares::{self, Collection, Purpose, Secret};
use zeroize::Zeroizing;

/// The number of mistyped shares in a row after which the tool stops to ask.
const MISTAKES: u32 = 10;

/// Returns the secret of the shares in these files, and of those that people type.
pub fn recover(purpose: Purpose, files: &[PathBuf]) -> Result<Secret, Error> {
    collect(&mut Collection::new(Some(purpose)), files)
}

/// Adds the shares in these files, and those that people type, until the secret can be recovered.
pub fn collect(collection: &mut Collection, files: &[PathBuf]) -> Result<Secret, Error> {
    for file in files {
        collection.add(shares::read(file)?)?;
    }
    let mut mistakes = 0;
    while !collection.is_complete() {
        let text = ask(collection)?;
        let share = text.parse().map_err(|typo: shares::Typo| Error::Failed(typo.to_string()));
        match share.and_then(|share| collection.add(share)) {
            Ok(()) => mistakes = 0,
            Err(error) if mistakes + 1 == MISTAKES => return Err(error),
            Err(error) => {
                mistakes += 1;
                eprintln!("{}; type it again", shown(&error.to_string()));
            }
        }
    }
    collection.recover()
}

/// Asks for one more share.
fn ask(collection: &Collection) -> Result<Zeroizing<String>, Error> {
    let (number, needed) = collection.progress();
    let of = needed.map_or(String::new(), |needed| format!(" of {needed}"));
    let prompt = format!("Enter a share ({}{of}, in any order): ", number + 1);
    rpassword::prompt_password(prompt).map(Zeroizing::new).map_err(|_| {
        let shortage = collection.shortage();
        Error::Usage(format!(
            "{shortage}: give a file for each of the others, as there is no terminal to ask"
        ))
    })
}
