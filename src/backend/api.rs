//! The contract between the core and a backend: what each library implements, and the parameters.
//!
//! A backend does not know PKCS#11. It is a constant [`Provider`]. A backend parses the
//! [parts](PrivateParts) of a key at the first use of the key. The token then keeps the parsed key.

mod algorithm;
mod batch;
mod buffer;
mod cipher;
mod keys;
mod parts;
mod provider;
mod scheme;
mod symmetric;

pub use algorithm::{Curve, Hash, MlDsa, MlKem, SlhDsa, Stateful};
pub use batch::Job;
pub use cipher::{Aead, Cipher, Ciphers, Mac, Macs, SavedCipher};
pub use keys::{Keys, PrivateKey, PublicKey, Signer, Uses, Verifier};
pub use parts::{DsaGroup, HssType, PairSpec, PrivateParts, PublicParts, RsaCrt, RsaPrivate, SHORTEST_RSA};
pub use provider::{Digest, Hasher, Provider, Random};
pub use scheme::{Encryption, Scheme};
pub use symmetric::{
    AeadScheme, CipherMode, CipherScheme, Direction, GcmParams, Growth, MacScheme, Nonce, Renewal,
};

#[cfg(any(all(feature = "aws-lc", feature = "rustcrypto"), test))]
pub(crate) use batch::Joint;
pub(in crate::backend) use buffer::output;
#[cfg(any(feature = "aws-lc", feature = "fips"))]
pub(in crate::backend) use cipher::in_parts;
pub(in crate::backend) use symmetric::{KW_IV, KWP_IV};
