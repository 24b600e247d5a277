//! The PIN of a module that is given by its path.

use std::path::Path;

use jeton_driver::Error;
use jeton_driver::role::Role;
use zeroize::Zeroizing;

/// Returns the user's PIN for a module that is given by its path. Checks that the file is a module
/// before it asks for the PIN.
pub fn ask_for_module(library: &Path, given: Option<String>) -> Result<Zeroizing<String>, Error> {
    if let Some(pin) = given {
        return Ok(Zeroizing::new(pin));
    }
    loads(library)?;
    let absent = |_| Error::Failed("no PIN: give --pin, JETON_PIN, or a terminal".to_owned());
    rpassword::prompt_password("User PIN: ").map(Zeroizing::new).map_err(absent)
}

/// Loads a module in a separate process, because a module runs code when it is loaded and may end
/// the process.
fn loads(library: &Path) -> Result<(), Error> {
    let mut command = jeton_child::of_role(&Role::LoadModule(library.to_owned()));
    let output = command.output().map_err(Error::io("the driver"))?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(Error::Failed(match reason.trim() {
        "" => format!("loading {} ended the process: {}", library.display(), output.status),
        reason => reason.trim_start_matches("jeton-driver: ").to_owned(),
    }))
}
