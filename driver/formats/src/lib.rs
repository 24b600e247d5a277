//! Files with keys and certificates: reads them for an import, writes public keys for an export.
//!
//! Every private key becomes PKCS #8, whatever its file is. This crate computes no keys and calls
//! no PKCS#11 module. A file may be hostile, so its size, its iterations and its memory have
//! limits.

#![forbid(unsafe_code)]

mod bind;
mod error;
mod keys;
mod openssh;
mod password;
mod pem;
mod pkcs12;
mod public;
mod read;
mod secret;

pub use error::Error;
pub use password::Password;
pub use public::{PublicForm, certificate_pem, public_key};
pub use read::{Entry, Item, MAX_FILE, read};
pub use secret::secret_key;
