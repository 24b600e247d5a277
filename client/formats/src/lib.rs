//! Files with keys and certificates: reads them for an import, and writes public keys,
//! certificates and PKCS #12 files for an export.
//!
//! Every private key becomes PKCS #8, whatever the format of its file is. This crate generates no
//! keys and calls no PKCS#11 module. A file may be hostile, so there are limits on its size, and on
//! the iterations and the memory that it asks for.

#![forbid(unsafe_code)]

mod algorithms;
mod ber;
mod bind;
pub mod certificate;
mod composite;
mod entry;
mod error;
mod jwk;
mod keys;
mod lattice;
mod openssh;
mod password;
mod pbe;
mod pem;
mod pfx;
mod pkcs12;
mod public;
mod read;
mod secret;

pub use entry::{Entry, Item, Wanted};
pub use error::Error;
pub use keys::{SecretIdentity, algorithm, for_pss, identity, secret_identities};
pub use password::Password;
pub use pem::contents;
pub use pfx::{Random, pkcs12};
pub use pkcs12::has_no_mac;
pub use public::{PublicForm, public_key};
pub use read::{MAX_FILE, input, limited, read};
pub use secret::secret_key;
