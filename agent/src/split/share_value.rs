//! What the value of a share object is.

use jeton::error::Error;
use jeton_secret::Secret;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

/// The value of an object of the type `CKK_JETON_SHARE`.
#[derive(Serialize, Deserialize)]
pub enum Kept<'a> {
    /// The key by which other agents know this one.
    Identity(#[serde(borrow)] &'a Bytes),
    /// A share of a key.
    Share {
        /// The number of the agent, from 1.
        number: u8,
        /// Which shares of the key these are. Shares of two generations do not sign together.
        generation: u32,
        /// The digest of the first round of the generation.
        transcript: [u8; 32],
        /// The share, in the encoding of `frost-core`.
        #[serde(borrow)]
        package: &'a Bytes,
        /// The public shares of all agents.
        #[serde(borrow)]
        public: &'a Bytes,
    },
}

impl<'a> Kept<'a> {
    pub fn decode(value: &'a [u8]) -> Result<Self, Error> {
        postcard::from_bytes(value).map_err(|_| Error::GeneralError)
    }

    pub fn encode(&self) -> Result<Secret, Error> {
        postcard::to_stdvec(self).map(Secret::new).map_err(|_| Error::GeneralError)
    }
}
