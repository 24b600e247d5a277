//! Message digests: one call without a context, or a context that is reused for each message.

use super::{elsewhere, ffi};
use crate::backend::api::{Digest, Hash, Hasher, output};
use crate::error::Result;

pub(super) struct Digests;

impl Digest for Digests {
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()> {
        if hash.is_blake2b() {
            return elsewhere()?.digest.hash(hash, data, out);
        }
        ffi::hash(hash, data, output(out, hash.len())?)
    }

    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>> {
        if hash.is_blake2b() {
            return elsewhere()?.digest.start(hash);
        }
        Ok(Box::new(Running { hash, context: ffi::DigestCtx::new(hash)? }))
    }
}

struct Running {
    hash: Hash,
    context: ffi::DigestCtx,
}

impl Hasher for Running {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.context.update(data)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.context.finish(output(out, self.hash.len())?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.context.reset()
    }

    fn duplicate(&self) -> Result<Box<dyn Hasher>> {
        Ok(Box::new(Self { hash: self.hash, context: self.context.duplicate()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_short_output_fails_with_the_needed_length_and_keeps_the_message() {
        let too_small = Err(Error::BufferTooSmall { needed: 32 });
        assert_eq!(Digests.hash(Hash::Sha256, b"abc", &mut [0; 31]), too_small);
        let mut hasher = Digests.start(Hash::Sha256).unwrap();
        hasher.update(b"abc").unwrap();
        assert_eq!(hasher.finish(&mut [0; 31]), too_small);
        let (mut out, mut expected) = ([0; 32], [0; 32]);
        hasher.finish(&mut out).unwrap();
        Digests.hash(Hash::Sha256, b"abc", &mut expected).unwrap();
        assert_eq!(out, expected);
    }
}
