//! The contract between the core and a backend: what each library implements, and the parameters.
//!
//! A backend does not know PKCS#11. It is a constant [`Provider`]. A backend parses the
//! [parts](PrivateParts) of a key at the first use of the key. The token then keeps the parsed key.

mod algorithm;
mod batch;
mod buffer;
mod cipher;
mod collected;
mod composite;
mod keys;
mod own;
mod parts;
mod provider;
mod scheme;

pub use algorithm::{Curve, MlDsa, MlKem, SlhDsa, Stateful};
pub use batch::Job;
pub use cipher::{Aead, Cipher, Ciphers, Mac, MacScheme, Macs, Renewal, SavedCipher};
pub use composite::{Composite, Traditional};
pub use jeton_crypto::hash_based::HssType;
pub use jeton_words::cipher::{AeadScheme, CipherMode, CipherScheme, Direction, GcmParams, Growth, Nonce};
pub use jeton_words::hash::Hash;
pub use keys::{Keys, PrivateKey, PublicKey, Signer, Uses, Verifier};
pub use parts::{PairSpec, PrivateParts, PublicParts, RsaCrt, RsaPrivate, SHORTEST_RSA};
pub use provider::{Digest, Hasher, Provider, Random};
pub use scheme::{Encryption, Scheme};

#[cfg(test)]
pub(crate) use batch::Joint;
pub(in crate::backend) use buffer::output;
#[cfg(any(feature = "aws-lc", feature = "fips"))]
pub(in crate::backend) use cipher::in_parts;
#[cfg(any(feature = "aws-lc", feature = "fips", feature = "rustcrypto"))]
pub(in crate::backend) use collected::{Whole, collected};
#[cfg(any(feature = "aws-lc", feature = "fips", feature = "rustcrypto"))]
pub(in crate::backend) use jeton_words::cipher::{KW_IV, KWP_IV};
#[cfg(any(feature = "aws-lc", feature = "fips"))]
pub(in crate::backend) use own::library_error;
pub(in crate::backend) use own::{Leaf, blocks, failure, of_key, of_signature, way};
#[cfg(any(feature = "aws-lc", feature = "fips", feature = "rustcrypto"))]
pub(in crate::backend) use own::{halves, hmac_sha256, of_key_size, of_message, streamed};
