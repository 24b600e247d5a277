//! A backend as a whole, its random generator and its digests.

use jeton_secret::Secret;
use jeton_words::hash::Hash;

use super::cipher::{Ciphers, MacScheme, Macs};
use super::keys::Keys;
use crate::error::{Error, Result};

/// A backend. Each library has one constant of this type.
pub struct Provider {
    /// The name in the configuration, such as `aws-lc` or `rustcrypto`.
    pub name: &'static str,
    /// The random generator.
    pub random: &'static dyn Random,
    /// Message digests.
    pub digest: &'static dyn Digest,
    /// Generation and loading of key pairs.
    pub keys: &'static dyn Keys,
    /// Symmetric ciphers.
    pub ciphers: &'static dyn Ciphers,
    /// Message authentication codes.
    pub macs: &'static dyn Macs,
}

impl Provider {
    /// Computes the MAC of a message that consists of several parts.
    pub fn mac(&self, scheme: &MacScheme, key: &[u8], parts: &[&[u8]]) -> Result<Secret> {
        let mut mac = self.macs.mac(scheme, key)?;
        parts.iter().try_for_each(|part| mac.update(part))?;
        let mut out = Secret::zeroed(mac.mac_len());
        mac.finish(&mut out)?;
        Ok(out)
    }
}

/// A random generator for keys and nonces. It is safe to use across threads and after `fork`.
pub trait Random: Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]) -> Result<()>;
    /// Returns `len` random bytes.
    fn secret(&self, len: usize) -> Result<Secret> {
        let mut secret = Secret::zeroed(len);
        self.fill(&mut secret)?;
        Ok(secret)
    }
    /// Returns a copy of the caller's seed, or `len` random bytes if there is none.
    fn seed(&self, given: Option<&Secret>, len: usize) -> Result<Secret> {
        given.map_or_else(|| self.secret(len), |seed| Ok(seed.duplicate()))
    }
}

/// Message digests (FIPS 180-4, FIPS 202, RFC 7693).
pub trait Digest: Sync {
    /// Writes the digest of `data` to `out`, which has `hash.len()` bytes.
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()>;
    /// Starts a digest of a message in several parts.
    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>>;
}

/// A running digest.
pub trait Hasher: Send {
    /// Adds data to the message.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Writes the digest to `out` (`hash.len()` bytes) and starts a new message.
    fn finish(&mut self, out: &mut [u8]) -> Result<()>;
    /// Discards the current message and starts a new one.
    fn reset(&mut self) -> Result<()>;
    /// Copies the digest with its current state. Fails with `StateUnsaveable` if the library cannot
    /// copy.
    fn duplicate(&self) -> Result<Box<dyn Hasher>> {
        Err(Error::StateUnsaveable)
    }
}
