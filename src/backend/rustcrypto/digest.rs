//! SHA-1, SHA-2 (FIPS 180-4), SHA-3 and the SHAKEs (FIPS 202), BLAKE2b (RFC 7693).

use blake2::Blake2b;
use digest::consts::{U20, U32, U48, U64};
use digest::{Digest as OneShot, DynDigest, XofFixedWrapper};
use jeton_crypto::modes::xor;
use jeton_secret::{CIPHER_DEPTH, wipe_stack};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use zeroize::Zeroizing;

use super::failed;
use crate::backend::api::{Digest, Hash, Hasher, output};
use crate::error::Result;

/// The SHAKEs, with the one output length that [`Hash`] defines for each.
type Shake128 = XofFixedWrapper<shake::Shake128, U32>;
type Shake256 = XofFixedWrapper<shake::Shake256, U64>;

/// BLAKE2b with its four digest lengths. A shorter digest is not the start of a longer one.
pub(super) type Blake2b160 = Blake2b<U20>;
pub(super) type Blake2b256 = Blake2b<U32>;
pub(super) type Blake2b384 = Blake2b<U48>;
pub(super) type Blake2b512 = Blake2b<U64>;

/// Evaluates an expression with the type of a hash.
macro_rules! with_hash {
    ($hash:expr, $digest:ident => $use:expr) => {
        with_hash!($hash, $digest => $use; Sha1 Sha224 Sha256 Sha384 Sha512 Sha512_224 Sha512_256 Sha3_224
            Sha3_256 Sha3_384 Sha3_512 Shake128 Shake256 Blake2b160 Blake2b256 Blake2b384 Blake2b512)
    };
    ($hash:expr, $digest:ident => $use:expr; $($name:ident)*) => {
        match $hash {
            $(Hash::$name => {
                type $digest = $name;
                $use
            })*
        }
    };
}

pub(super) struct Digests;

impl Digest for Digests {
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()> {
        with_hash!(hash, Digest => write::<Digest>(data, out))
    }

    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>> {
        Ok(Box::new(State::new(hash)))
    }
}

fn write<D: OneShot>(data: &[u8], out: &mut [u8]) -> Result<()> {
    output(out, <D as OneShot>::output_size())?.copy_from_slice(&D::digest(data));
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
        let state: Box<dyn Running> = with_hash!(hash, Digest => Box::new(Digest::default()));
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
        let out = output(out, self.len)?;
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
