//! Message digests: one call without a context, or a context that is reused for each message.

use super::{elsewhere, ffi, output};
use crate::backend::{Digest, Hash, Hasher};
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
    use super::super::tests::hex;
    use super::*;
    use crate::error::Error;

    /// The digests of "abc" (FIPS 180-4 and FIPS 202).
    const ABC: [(Hash, &str); Hash::ALL.len()] = [
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
        (Hash::Sha512_224, "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa"),
        (Hash::Sha512_256, "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
        (Hash::Sha3_224, "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
        (Hash::Sha3_256, "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
        (
            Hash::Sha3_384,
            "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b2\
             98d88cea927ac7f539f1edf228376d25",
        ),
        (
            Hash::Sha3_512,
            "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e\
             10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
        ),
        (Hash::Shake128, "5881092dd818bf5cf8a3ddb793fbcba74097d5c526a6d35f97b83351940f2cc8"),
        (
            Hash::Shake256,
            "483366601360a8771c6863080cc4114d8db44530f8f1e1ee4f94ea37e78b5739\
             d5a15bef186a5386c75744c0527e1faa9f8726e462a12a4feb06bd8801e751e4",
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
    fn finish_and_reset_start_a_new_message() {
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
    fn a_short_output_fails_with_the_needed_length_and_keeps_the_message() {
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
