//! The rules of the program that uses this library. They are those of its token, which this library
//! does not know.

use std::fs::File;
use std::io;
use std::path::Path;

use jeton_client::Attribute;
use jeton_formats::SecretIdentity;
use jeton_pki::software::IsSigned;

/// What the program accepts as a file, and as a key of a stranger.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Opens a list for reading and writing, if no other user can have put another file there.
    pub open: fn(&Path) -> io::Result<File>,
    /// Checks a public key, by the template that creates it. Returns it as SubjectPublicKeyInfo,
    /// whose point is not compressed, or says why it is refused.
    pub check_key: fn(&[Attribute]) -> Result<Vec<u8>, String>,
    /// Returns whether the owner of one of two secrets knows the other.
    pub have_one_secret: fn(&SecretIdentity, &SecretIdentity) -> bool,
    /// Verifies signatures that no module verifies.
    pub is_signed: IsSigned,
}

impl Rules {
    /// Returns whether the owner of one of two public keys knows a private key of the other, by the
    /// secrets of both.
    pub(crate) fn have_common_secret(&self, one: &[SecretIdentity], other: &[SecretIdentity]) -> bool {
        one.iter().any(|one| other.iter().any(|other| (self.have_one_secret)(one, other)))
    }
}
