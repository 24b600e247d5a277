//! Our own cryptography (`crypto/`) behind this contract: its errors and ciphers, and what a
//! backend supplies to it.

use jeton_crypto::library;
use jeton_crypto::modes::{self, Blocks, Chain, Ending, KeyWrap, Mode};
use jeton_words::cipher::Direction;
use jeton_words::hash::Hash;

use super::buffer::output;
use super::cipher::{Cipher, Mac, MacScheme, Macs, Renewal, SavedCipher};
use super::collected::Whole;
use super::provider::{Digest, Random};
use crate::error::{Error, Result};

/// Returns the error for a message that is encrypted or decrypted.
pub(in crate::backend) fn of_message(direction: Direction) -> impl Fn(jeton_crypto::Error) -> Error {
    move |error| match error {
        jeton_crypto::Error::Invalid => Error::EncryptedDataInvalid,
        jeton_crypto::Error::Length if direction == Direction::Encrypt => Error::DataLenRange,
        jeton_crypto::Error::Length => Error::EncryptedDataLenRange,
        jeton_crypto::Error::TooSmall { needed } => Error::BufferTooSmall { needed },
        other => failure(other),
    }
}

/// Returns the error for a key.
pub(in crate::backend) fn of_key(error: jeton_crypto::Error) -> Error {
    match error {
        jeton_crypto::Error::Invalid | jeton_crypto::Error::Length => Error::DataInvalid,
        other => failure(other),
    }
}

/// Returns the error for a key whose length is wrong if a length is.
pub(in crate::backend) fn of_key_size(error: jeton_crypto::Error) -> Error {
    match error {
        jeton_crypto::Error::Length => Error::KeySizeRange,
        other => of_key(other),
    }
}

/// Returns the error for a signature that is verified.
pub(in crate::backend) fn of_signature(error: jeton_crypto::Error) -> Error {
    match error {
        jeton_crypto::Error::Invalid => Error::SignatureInvalid,
        jeton_crypto::Error::Length => Error::SignatureLenRange,
        other => failure(other),
    }
}

/// Returns the error for a failure that the input of the caller cannot cause.
pub(in crate::backend) fn failure(error: jeton_crypto::Error) -> Error {
    match error {
        jeton_crypto::Error::Memory => Error::HostMemory,
        _ => Error::DeviceError,
    }
}

/// Returns the error for our own cryptography. The backend logged the reason.
pub(in crate::backend) fn library_error(error: Error) -> jeton_crypto::Error {
    match error {
        Error::HostMemory => jeton_crypto::Error::Memory,
        _ => jeton_crypto::Error::Library,
    }
}

/// What a backend supplies to our own cryptography.
pub(in crate::backend) struct Leaf<'a, T: ?Sized>(pub(in crate::backend) &'a T);

impl library::Random for Leaf<'_, dyn Random + '_> {
    fn fill(&self, out: &mut [u8]) -> jeton_crypto::Result<()> {
        self.0.fill(out).map_err(library_error)
    }
}

impl library::Hashes for Leaf<'_, dyn Digest + '_> {
    #[inline]
    fn hash(&self, hash: library::Hash, data: &[u8], out: &mut [u8]) -> jeton_crypto::Result<()> {
        self.0.hash(named(hash), data, out).map_err(library_error)
    }

    fn hash_parts(&self, hash: library::Hash, parts: &[&[u8]], out: &mut [u8]) -> jeton_crypto::Result<()> {
        let mut hasher = self.0.start(named(hash)).map_err(library_error)?;
        parts.iter().try_for_each(|part| hasher.update(part)).map_err(library_error)?;
        hasher.finish(out).map_err(library_error)
    }
}

#[inline]
fn named(hash: library::Hash) -> Hash {
    match hash {
        library::Hash::Sha256 => Hash::Sha256,
        library::Hash::Sha512 => Hash::Sha512,
        library::Hash::Shake128 => Hash::Shake128,
        library::Hash::Shake256 => Hash::Shake256,
    }
}

pub(in crate::backend) fn way(direction: Direction) -> library::Direction {
    match direction {
        Direction::Encrypt => library::Direction::Encrypt,
        Direction::Decrypt => library::Direction::Decrypt,
    }
}

fn of(direction: library::Direction) -> impl Fn(jeton_crypto::Error) -> Error {
    of_message(match direction {
        library::Direction::Encrypt => Direction::Encrypt,
        library::Direction::Decrypt => Direction::Decrypt,
    })
}

/// Builds the cipher of a chain of blocks.
pub(in crate::backend) fn blocks<C: Chain<N>, const N: usize>(
    chain: C,
    ending: Ending,
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    Ok(Box::new(Blocks::new(chain, ending, way(direction)).map_err(failure)?))
}

impl<C: Chain<N>, const N: usize> Cipher for Blocks<C, N> {
    fn update_len(&self, len: usize) -> usize {
        self.update_len(len)
    }

    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        self.update(input, out).map_err(of(self.direction()))
    }

    fn finish_len(&self) -> usize {
        self.finish_len()
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        self.finish(out).map_err(of(self.direction()))
    }

    fn reset(&mut self) -> Result<()> {
        self.start_over().map_err(failure)
    }

    fn renew(&mut self, new: Renewal<'_>) -> Result<bool> {
        let Renewal::Iv(iv) = new else { return Ok(false) };
        self.set_iv(iv).map_err(failure)
    }

    fn save(&self) -> Result<SavedCipher> {
        Ok(SavedCipher::Running(Box::new(self.duplicate().map_err(failure)?)))
    }
}

/// Builds the cipher of a stream mode.
pub(in crate::backend) fn streamed(
    mode: impl Mode + 'static,
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    Ok(Box::new(Stream { mode, direction }))
}

struct Stream<M> {
    mode: M,
    direction: Direction,
}

impl<M: Mode + 'static> Cipher for Stream<M> {
    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let out = output(out, input.len())?;
        // The end of the keystream is an error of the data, also in decryption.
        self.mode.fits(input.len()).map_err(of_message(Direction::Encrypt))?;
        out.copy_from_slice(input);
        self.mode.apply(out).map_err(of_message(Direction::Encrypt))?;
        Ok(input.len())
    }

    fn finish(&mut self, _out: &mut [u8]) -> Result<usize> {
        let outcome = self.mode.end();
        self.mode.start_over();
        outcome.map(|()| 0).map_err(of_message(self.direction))
    }

    fn reset(&mut self) -> Result<()> {
        self.mode.start_over();
        Ok(())
    }

    fn save(&self) -> Result<SavedCipher> {
        let mode = self.mode.copied().map_err(failure)?;
        Ok(SavedCipher::Running(Box::new(Self { mode, direction: self.direction })))
    }
}

impl<W: KeyWrap + Send> Whole for W {
    fn output_len(&self, input: usize) -> Result<usize> {
        KeyWrap::output_len(self, input).map_err(of(self.direction()))
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        KeyWrap::process(self, input, out).map_err(of(self.direction()))
    }
}

/// Returns the halves of a key of XTS.
pub(in crate::backend) fn halves(key: &[u8]) -> Result<(&[u8], &[u8])> {
    modes::halves(key).map_err(of_key_size)
}

/// A message authentication code of a backend.
pub(in crate::backend) struct Keyed(Box<dyn Mac>);

impl library::Mac for Keyed {
    fn update(&mut self, data: &[u8]) -> jeton_crypto::Result<()> {
        self.0.update(data).map_err(library_error)
    }

    fn finish(&mut self, out: &mut [u8]) -> jeton_crypto::Result<()> {
        self.0.finish(out).map_err(library_error)
    }
}

/// Returns HMAC-SHA-256 of a backend.
pub(in crate::backend) fn hmac_sha256(macs: &dyn Macs) -> impl Fn(&[u8]) -> jeton_crypto::Result<Keyed> + '_ {
    |key| macs.mac(&MacScheme::Hmac(Hash::Sha256), key).map(Keyed).map_err(library_error)
}

#[cfg(all(feature = "aws-lc", feature = "rustcrypto"))]
mod lanes {
    use std::any::Any;
    use std::{iter, ptr};

    use jeton_crypto::lanes::{Job, Queue, most};
    use jeton_secret::Secret;

    use super::super::batch::Joint;

    impl Joint for (&'static Queue<Job>, Job) {
        fn kind(&self) -> usize {
            ptr::from_ref(self.0).addr()
        }

        fn most(&self, waiting: usize) -> usize {
            most(waiting)
        }

        fn compute(self: Box<Self>, others: Vec<Box<dyn Any>>) -> Vec<Option<Secret>> {
            let (queue, job) = *self;
            let others = others.into_iter().filter_map(|other| other.downcast::<Self>().ok());
            let mut jobs: Vec<_> = iter::once(job).chain(others.map(|other| other.1)).collect();
            queue.compute(&mut jobs);
            jobs.into_iter().map(|job| job.result).collect()
        }
    }
}
