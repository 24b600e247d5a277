//! What a file has, and what a caller uses of it.

use zeroize::Zeroizing;

/// A key or a certificate of a file, in DER.
pub enum Item {
    /// A private key in PKCS #8.
    PrivateKey(Zeroizing<Vec<u8>>),
    /// A public key as SubjectPublicKeyInfo.
    PublicKey(Vec<u8>),
    /// An X.509 certificate.
    Certificate(Vec<u8>),
    /// A secret key of a PKCS #12 file, which is not read.
    SecretKey,
}

/// An item, and what the file says of it.
pub struct Entry {
    /// The item.
    pub item: Item,
    /// The comment of an OpenSSH key, or the friendly name in a PKCS #12 file.
    pub name: Option<String>,
    /// Whether the private key is an RSA key for RSASSA-PSS only.
    pub is_pss: bool,
}

impl Entry {
    pub(crate) fn of(item: Item) -> Self {
        Self { item, name: None, is_pss: false }
    }
}

/// What a caller uses of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Keys and certificates.
    All,
    /// Public keys and certificates. Private keys are not read, so their encryption does not
    /// matter.
    Public,
}
