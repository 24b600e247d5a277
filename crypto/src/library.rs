//! What a library supplies.

use jeton_secret::Secret;

use crate::error::Result;

/// What a cipher does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It encrypts the message.
    Encrypt,
    /// It decrypts the message.
    Decrypt,
}

/// A block cipher with a key, in one direction. A block has `N` bytes.
pub trait BlockCipher<const N: usize>: Send + Sized + 'static {
    /// Encrypts or decrypts blocks in place, each by itself.
    fn process(&mut self, blocks: &mut [[u8; N]]) -> Result<()>;
    /// Copies the cipher with its key.
    fn duplicate(&self) -> Result<Self>;
}

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// SHAKE128 (FIPS 202), with 32 bytes of output.
    Shake128,
    /// SHAKE256 (FIPS 202), with 64 bytes of output.
    Shake256,
}

impl Hash {
    /// Returns the length of the output in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "no output is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Sha256 | Self::Shake128 => 32,
            Self::Sha512 | Self::Shake256 => 64,
        }
    }
}

/// The hash functions of a library.
pub trait Hashes: Sync {
    /// Writes the hash of `data` to `out`, which has the length of the output.
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()>;
    /// Writes the hash of a message in parts.
    fn hash_parts(&self, hash: Hash, parts: &[&[u8]], out: &mut [u8]) -> Result<()>;
}

/// A message authentication code with a key. It computes the codes of any number of messages.
pub trait Mac {
    /// Adds a part of the message.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Writes the code to `out`, which has its length, and starts a new message.
    fn finish(&mut self, out: &mut [u8]) -> Result<()>;
}

/// A random generator. It is safe to use across threads and after `fork`.
pub trait Random: Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]) -> Result<()>;
    /// Returns `len` random bytes.
    fn secret(&self, len: usize) -> Result<Secret> {
        let mut secret = Secret::zeroed(len);
        self.fill(&mut secret)?;
        Ok(secret)
    }
}
