//! SHA-1 and SHA-2.

use digest::{Digest as OneShot, DynDigest};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::failed;
use crate::backend::{Digest, Hash, Hasher};
use crate::error::Result;

pub(super) struct Digests;

impl Digest for Digests {
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()> {
        match hash {
            Hash::Sha1 => write(out, &Sha1::digest(data)),
            Hash::Sha224 => write(out, &Sha224::digest(data)),
            Hash::Sha256 => write(out, &Sha256::digest(data)),
            Hash::Sha384 => write(out, &Sha384::digest(data)),
            Hash::Sha512 => write(out, &Sha512::digest(data)),
        }
    }

    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>> {
        Ok(Box::new(State::new(hash)))
    }
}

fn write(out: &mut [u8], digest: &[u8]) -> Result<()> {
    super::output(out, digest.len())?.copy_from_slice(digest);
    Ok(())
}

/// A digest whose function is chosen at run time.
pub(super) struct State {
    state: Box<dyn DynDigest + Send>,
    len: usize,
}

impl State {
    pub(super) fn new(hash: Hash) -> Self {
        let state: Box<dyn DynDigest + Send> = match hash {
            Hash::Sha1 => Box::new(Sha1::default()),
            Hash::Sha224 => Box::new(Sha224::default()),
            Hash::Sha256 => Box::new(Sha256::default()),
            Hash::Sha384 => Box::new(Sha384::default()),
            Hash::Sha512 => Box::new(Sha512::default()),
        };
        Self { state, len: hash.len() }
    }
}

impl Hasher for State {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.state.update(data);
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let out = super::output(out, self.len)?;
        self.state.finalize_into_reset(out).map_err(|error| failed("a digest")(&error))
    }

    fn reset(&mut self) -> Result<()> {
        self.state.reset();
        Ok(())
    }
}
