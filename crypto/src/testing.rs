//! The crates that tests compute with.

use sha2::{Digest, Sha256, Sha512};
use shake::digest::{ExtendableOutput, Update};
use shake::{Shake128, Shake256};

use crate::error::{Error, Result};
use crate::library::{BlockCipher, Hash, Hashes, Random};

pub(crate) struct Crates;

impl Hashes for Crates {
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()> {
        match hash {
            Hash::Sha256 => out.copy_from_slice(&Sha256::digest(data)),
            Hash::Sha512 => out.copy_from_slice(&Sha512::digest(data)),
            Hash::Shake128 => Shake128::default().chain(data).finalize_xof_into(out),
            Hash::Shake256 => Shake256::default().chain(data).finalize_xof_into(out),
        }
        Ok(())
    }

    fn hash_parts(&self, hash: Hash, parts: &[&[u8]], out: &mut [u8]) -> Result<()> {
        self.hash(hash, &parts.concat(), out)
    }
}

impl Random for Crates {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        getrandom::fill(out).map_err(|_| Error::Library)
    }
}

/// A block cipher without secrets.
pub(crate) struct Xor(pub(crate) u8);

impl<const N: usize> BlockCipher<N> for Xor {
    fn process(&mut self, blocks: &mut [[u8; N]]) -> Result<()> {
        blocks.as_flattened_mut().iter_mut().for_each(|byte| *byte ^= self.0);
        Ok(())
    }

    fn duplicate(&self) -> Result<Self> {
        Ok(Self(self.0))
    }
}
