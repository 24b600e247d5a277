//! The password of a file. It is asked for only if the file needs one.

use zeroize::Zeroizing;

use crate::Error;

/// Returns the password of a file at the first call, and the same one at later calls.
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
