//! Message digests: one call without a context, or a context that is reused for message after message.

use super::{ffi, prefix};
use crate::backend::{Digest, Hash, Hasher};
use crate::error::Result;

pub(super) struct Digests;

impl Digest for Digests {
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()> {
        ffi::hash(hash, data, prefix(out, hash.len())?)
    }

    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>> {
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
        self.context.finish(prefix(out, self.hash.len())?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.context.reset(self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;
    use crate::error::Error;

    /// The digests of "abc" in the examples to FIPS 180-4.
    const ABC: [(Hash, &str); 5] = [
        (Hash::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (Hash::Sha224, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        (Hash::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            Hash::Sha384,
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
             8086072ba1e7cc2358baeca134c825a7",
        ),
        (
            Hash::Sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ];

    #[test]
    fn published_digests_in_one_call_and_in_parts() {
        for (hash, expected) in ABC {
            let expected = hex(expected);
            let mut out = vec![0; hash.len()];
            Digests.hash(hash, b"abc", &mut out).unwrap();
            assert_eq!(out, expected, "{hash:?}");

            let mut hasher = Digests.start(hash).unwrap();
            for byte in b"abc" {
                hasher.update(&[*byte]).unwrap();
            }
            out.fill(0);
            hasher.finish(&mut out).unwrap();
            assert_eq!(out, expected, "{hash:?}");
        }
    }

    #[test]
    fn finish_and_reset_start_over() {
        let mut hasher = Digests.start(Hash::Sha256).unwrap();
        let mut out = [0; 32];
        for _ in 0..3 {
            hasher.update(b"forgotten").unwrap();
            hasher.reset().unwrap();
            hasher.update(b"ab").unwrap();
            hasher.update(b"").unwrap();
            hasher.update(b"c").unwrap();
            hasher.finish(&mut out).unwrap();
            assert_eq!(out.as_slice(), hex(ABC[2].1));
        }
    }

    #[test]
    fn the_empty_message_has_a_digest() {
        let mut out = [0; 32];
        Digests.hash(Hash::Sha256, b"", &mut out).unwrap();
        assert_eq!(out.as_slice(), hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    }

    #[test]
    fn a_short_output_is_told_the_length_and_loses_nothing() {
        let too_small = Err(Error::BufferTooSmall { needed: 32 });
        assert_eq!(Digests.hash(Hash::Sha256, b"abc", &mut [0; 31]), too_small);
        let mut hasher = Digests.start(Hash::Sha256).unwrap();
        hasher.update(b"abc").unwrap();
        assert_eq!(hasher.finish(&mut [0; 31]), too_small);
        let mut out = [0; 32];
        hasher.finish(&mut out).unwrap();
        assert_eq!(out.as_slice(), hex(ABC[2].1));
    }
}
