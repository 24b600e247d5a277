//! The password of a file, and the work of the keys that are derived from it. The user is asked
//! only if the file needs a password.

use zeroize::Zeroizing;

use super::Error;

/// The largest work that a file may ask for, in the unit of [`Password::count`].
const MAX_WORK: u64 = 10_000_000;

/// Asks for the password of a file at its first use, and keeps it for later uses.
pub struct Password<'a> {
    ask: &'a mut dyn FnMut() -> Option<Zeroizing<String>>,
    known: Option<Zeroizing<String>>,
    /// Whether the file has no password at all. PKCS #12 encodes this in another way than an empty
    /// password.
    is_null: bool,
    /// The work of all keys of the file until now.
    work: u64,
}

impl<'a> Password<'a> {
    /// Asks with this function. `None` means that there is no password.
    pub fn new(ask: &'a mut dyn FnMut() -> Option<Zeroizing<String>>) -> Self {
        Self { ask, known: None, is_null: false, work: 0 }
    }

    /// Counts the work of one more key. `limit` is the largest work of this kind that all keys of a
    /// file together may ask for; a file with several kinds gets a share of each. Returns whether
    /// the file may ask for this work.
    pub(crate) fn count(&mut self, work: u64, limit: u64) -> bool {
        let share = (u128::from(work) * u128::from(MAX_WORK)).div_ceil(u128::from(limit));
        self.work = self.work.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
        self.work <= MAX_WORK
    }

    /// Returns the password. Fails with `PasswordMissing` if there is none.
    pub(crate) fn get(&mut self) -> Result<&str, Error> {
        if self.known.is_none() {
            self.known = (self.ask)();
        }
        self.known.as_ref().map(|password| password.as_str()).ok_or(Error::PasswordMissing)
    }

    /// Records that the file has an empty password or none.
    pub(crate) fn is_empty(&mut self, is_null: bool) {
        self.known = Some(Zeroizing::default());
        self.is_null = is_null;
    }

    /// Decrypts a part of a PKCS #12 file. The MAC may have another password than the part, so the
    /// user is asked if the MAC has an empty one and the part does not.
    pub(crate) fn tried<T>(&mut self, decrypt: impl Fn(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        match decrypt(self) {
            Err(Error::PasswordWrong) if self.known.as_ref().is_some_and(|known| known.is_empty()) => {
                (self.known, self.is_null) = (None, false);
                decrypt(self)
            }
            other => other,
        }
    }

    /// Returns the password in the encoding of PKCS #12 (RFC 7292, B.1): UTF-16 with a zero at its
    /// end.
    pub(crate) fn utf16(&mut self) -> Result<Zeroizing<Vec<u8>>, Error> {
        if self.is_null {
            return Ok(Zeroizing::default());
        }
        let text = self.get()?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(2 * text.len() + 2));
        bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_be_bytes));
        Ok(bytes)
    }
}
