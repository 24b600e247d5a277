//! SHA-1, SHA-2 (FIPS 180-4), SHA-3 and the SHAKEs (FIPS 202), BLAKE2b (RFC 7693).

use blake2::Blake2b;
use digest::consts::{U20, U32, U48, U64};
use digest::{Digest as OneShot, DynDigest, XofFixedWrapper};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use zeroize::Zeroizing;

use super::failed;
use crate::backend::modes::xor;
use crate::backend::{Digest, Hash, Hasher};
use crate::error::Result;
use crate::secret::{CIPHER_DEPTH, wipe_stack};

/// The SHAKEs, with the one output length that [`Hash`] defines for each.
type Shake128 = XofFixedWrapper<shake::Shake128, U32>;
type Shake256 = XofFixedWrapper<shake::Shake256, U64>;

/// BLAKE2b with its four digest lengths. A shorter digest is not the start of a longer one.
pub(super) type Blake2b160 = Blake2b<U20>;
pub(super) type Blake2b256 = Blake2b<U32>;
pub(super) type Blake2b384 = Blake2b<U48>;
pub(super) type Blake2b512 = Blake2b<U64>;

pub(super) struct Digests;

impl Digest for Digests {
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()> {
        match hash {
            Hash::Sha1 => write::<Sha1>(data, out),
            Hash::Sha224 => write::<Sha224>(data, out),
            Hash::Sha256 => write::<Sha256>(data, out),
            Hash::Sha384 => write::<Sha384>(data, out),
            Hash::Sha512 => write::<Sha512>(data, out),
            Hash::Sha512_224 => write::<Sha512_224>(data, out),
            Hash::Sha512_256 => write::<Sha512_256>(data, out),
            Hash::Sha3_224 => write::<Sha3_224>(data, out),
            Hash::Sha3_256 => write::<Sha3_256>(data, out),
            Hash::Sha3_384 => write::<Sha3_384>(data, out),
            Hash::Sha3_512 => write::<Sha3_512>(data, out),
            Hash::Shake128 => write::<Shake128>(data, out),
            Hash::Shake256 => write::<Shake256>(data, out),
            Hash::Blake2b160 => write::<Blake2b160>(data, out),
            Hash::Blake2b256 => write::<Blake2b256>(data, out),
            Hash::Blake2b384 => write::<Blake2b384>(data, out),
            Hash::Blake2b512 => write::<Blake2b512>(data, out),
        }
    }

    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>> {
        Ok(Box::new(State::new(hash)))
    }
}

fn write<D: OneShot>(data: &[u8], out: &mut [u8]) -> Result<()> {
    super::output(out, <D as OneShot>::output_size())?.copy_from_slice(&D::digest(data));
    Ok(())
}

/// A digest whose hash is chosen at run time.
pub(super) struct State {
    state: Box<dyn Running>,
    len: usize,
}

/// A digest that can be copied. The crates' own `box_clone` returns a type that is not `Send`.
trait Running: DynDigest + Send {
    fn copied(&self) -> Box<dyn Running>;
}

impl<D: DynDigest + Clone + Send + 'static> Running for D {
    fn copied(&self) -> Box<dyn Running> {
        Box::new(self.clone())
    }
}

impl State {
    pub(super) fn new(hash: Hash) -> Self {
        let state: Box<dyn Running> = match hash {
            Hash::Sha1 => Box::new(Sha1::default()),
            Hash::Sha224 => Box::new(Sha224::default()),
            Hash::Sha256 => Box::new(Sha256::default()),
            Hash::Sha384 => Box::new(Sha384::default()),
            Hash::Sha512 => Box::new(Sha512::default()),
            Hash::Sha512_224 => Box::new(Sha512_224::default()),
            Hash::Sha512_256 => Box::new(Sha512_256::default()),
            Hash::Sha3_224 => Box::new(Sha3_224::default()),
            Hash::Sha3_256 => Box::new(Sha3_256::default()),
            Hash::Sha3_384 => Box::new(Sha3_384::default()),
            Hash::Sha3_512 => Box::new(Sha3_512::default()),
            Hash::Shake128 => Box::new(Shake128::default()),
            Hash::Shake256 => Box::new(Shake256::default()),
            Hash::Blake2b160 => Box::new(Blake2b160::default()),
            Hash::Blake2b256 => Box::new(Blake2b256::default()),
            Hash::Blake2b384 => Box::new(Blake2b384::default()),
            Hash::Blake2b512 => Box::new(Blake2b512::default()),
        };
        Self { state, len: hash.len() }
    }

    /// XORs `MGF1(seed)` onto `data` (RFC 8017, B.2.1).
    pub(super) fn mask(&mut self, seed: &[u8], data: &mut [u8]) -> Result<()> {
        let mut block = Zeroizing::new([0; Hash::MAX_LEN]);
        for (counter, chunk) in (0u32..).zip(data.chunks_mut(self.len)) {
            self.update(seed)?;
            self.update(&counter.to_be_bytes())?;
            self.finish(&mut block[..])?;
            xor(chunk, &block[..]);
        }
        Ok(())
    }
}

impl Hasher for State {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.state.update(data);
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let out = super::output(out, self.len)?;
        let outcome = self.state.finalize_into_reset(out).map_err(|error| failed("a digest")(&error));
        // The last block may be a key (`C_DigestKey`). Padding this block copies it to the stack.
        wipe_stack::<CIPHER_DEPTH>();
        outcome
    }

    fn reset(&mut self) -> Result<()> {
        self.state.reset();
        Ok(())
    }

    fn duplicate(&self) -> Result<Box<dyn Hasher>> {
        Ok(Box::new(Self { state: (*self.state).copied(), len: self.len }))
    }
}
