//! The password of a file. The user is asked only if the file needs a password.

use zeroize::Zeroizing;

use crate::Error;

/// Asks for the password of a file at its first use, and keeps it for later uses.
pub struct Password<'a> {
    ask: &'a mut dyn FnMut() -> Option<Zeroizing<String>>,
    known: Option<Zeroizing<String>>,
}

impl<'a> Password<'a> {
    /// Asks with this function. `None` means that there is no password.
    pub fn new(ask: &'a mut dyn FnMut() -> Option<Zeroizing<String>>) -> Self {
        Self { ask, known: None }
    }

    /// Returns the password. Fails with `PasswordMissing` if there is none.
    pub(crate) fn get(&mut self) -> Result<&str, Error> {
        if self.known.is_none() {
            self.known = (self.ask)();
        }
        self.known.as_ref().map(|password| password.as_str()).ok_or(Error::PasswordMissing)
    }
}
