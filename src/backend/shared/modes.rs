//! Modes of operation, each written once over a block cipher.
//!
//! The backend `rustcrypto` takes no mode from its crates, and uses every mode here. AWS-LC has
//! modes of its own. The backend `aws-lc` uses this module for ciphertext stealing, PKCS #7
//! padding, CFB with segments of 64 bits, XTS with AES-128, and the key wraps. It also uses the
//! code that holds back blocks and the code that collects a message. Triple DES of both backends
//! uses this module too.

mod blocks;
mod chain;
mod collected;
mod key_wrap;
mod stream;
mod tagged;
mod xts;

pub(in crate::backend) use blocks::{Blocks, Chain, Ending};
pub(in crate::backend) use chain::{Cbc, Ecb, cs1};
pub(in crate::backend) use collected::{Whole, collected};
pub(in crate::backend) use key_wrap::{Kw, Kwp};
pub(in crate::backend) use stream::{Cfb, Mode, Stream};
pub(in crate::backend) use tagged::{renew_gcm, tagged};
pub(in crate::backend) use xts::{Xts, halves, within_unit};

use crate::backend::api::Direction;
use crate::error::{Error, Result};

pub(in crate::backend) trait BlockCipher<const N: usize>: Send + Sized + 'static {
    /// Encrypts or decrypts blocks in place, each by itself.
    fn process(&mut self, blocks: &mut [[u8; N]]) -> Result<()>;
    /// Copies the cipher with its key.
    fn duplicate(&self) -> Result<Self>;
}

/// Returns the error for a message length that the mode does not support.
pub(in crate::backend) fn wrong_len(direction: Direction) -> Error {
    match direction {
        Direction::Encrypt => Error::DataLenRange,
        Direction::Decrypt => Error::EncryptedDataLenRange,
    }
}

/// XORs `mask` into `data`, up to the shorter length.
pub(in crate::backend) fn xor(data: &mut [u8], mask: &[u8]) {
    for (byte, mask) in data.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}
