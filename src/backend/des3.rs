//! Triple DES (SP 800-67, FIPS 46-3) for both backends. It is obsolete, and available only if the
//! configuration enables it.

use cbc::cipher::block_padding::{NoPadding, Pkcs7};
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyInit, KeyIvInit};
use des::TdesEde3;

use super::{Cipher, Direction, SavedCipher, padding};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// The length of a block in bytes.
const BLOCK: usize = 8;
/// The length of a key in bytes, with parity bits.
pub const KEY: usize = 24;

/// Checks whether each byte has an odd number of set bits.
pub fn has_parity(key: &[u8]) -> bool {
    key.iter().all(|byte| byte.count_ones() % 2 == 1)
}

/// Sets the parity bit of each byte, which is its lowest bit.
pub fn set_parity(key: &mut [u8]) {
    key.iter_mut().for_each(|byte| *byte ^= u8::from(byte.count_ones().is_multiple_of(2)));
}

/// Builds a cipher: ECB without an initialisation vector, CBC with one. Fails with `KeySizeRange`
/// if the key does not have [`KEY`] bytes.
pub(super) fn cipher(
    key: &[u8],
    iv: Option<[u8; BLOCK]>,
    padded: bool,
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    if key.len() != KEY {
        return Err(Error::KeySizeRange);
    }
    Ok(Box::new(Des3 {
        key: key.into(),
        iv: iv.unwrap_or_default(),
        chained: iv.is_some(),
        padded,
        direction,
        message: Secret::default(),
    }))
}

/// Collects the whole message and writes all output at the end.
struct Des3 {
    key: Secret,
    iv: [u8; BLOCK],
    chained: bool,
    padded: bool,
    direction: Direction,
    message: Secret,
}

impl Des3 {
    fn encrypt(&self, out: &mut [u8]) -> Result<usize> {
        if !self.chained {
            let cipher = ecb::Encryptor::<TdesEde3>::new_from_slice(&self.key).map_err(of_key)?;
            return len(cipher.encrypt_padded_b2b::<NoPadding>(&self.message, out), Error::DataLenRange);
        }
        let cipher = cbc::Encryptor::<TdesEde3>::new_from_slices(&self.key, &self.iv).map_err(of_key)?;
        let done = if self.padded {
            cipher.encrypt_padded_b2b::<Pkcs7>(&self.message, out)
        } else {
            cipher.encrypt_padded_b2b::<NoPadding>(&self.message, out)
        };
        len(done, Error::DataLenRange)
    }

    fn decrypt(&self, out: &mut [u8]) -> Result<usize> {
        if !self.chained {
            let cipher = ecb::Decryptor::<TdesEde3>::new_from_slice(&self.key).map_err(of_key)?;
            return len(
                cipher.decrypt_padded_b2b::<NoPadding>(&self.message, out),
                Error::EncryptedDataInvalid,
            );
        }
        let cipher = cbc::Decryptor::<TdesEde3>::new_from_slices(&self.key, &self.iv).map_err(of_key)?;
        if !self.padded {
            return len(
                cipher.decrypt_padded_b2b::<NoPadding>(&self.message, out),
                Error::EncryptedDataInvalid,
            );
        }
        let mut plain = Secret::try_zeroed(self.message.len())?;
        len(cipher.decrypt_padded_b2b::<NoPadding>(&self.message, &mut plain), Error::EncryptedDataInvalid)?;
        // The crate's own check stops at the first wrong byte, so its time depends on the padding.
        let (good, needed) = padding::pkcs7(&plain, BLOCK);
        if !bool::from(good) {
            return Err(Error::EncryptedDataInvalid);
        }
        let out = out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?;
        out.copy_from_slice(&plain[..needed]);
        Ok(needed)
    }

    fn run(&self, out: &mut [u8]) -> Result<usize> {
        let (encrypts, given) = (self.direction == Direction::Encrypt, self.message.len());
        match (encrypts, self.padded) {
            (true, true) => {}
            (true, false) if given.is_multiple_of(BLOCK) => {}
            (true, false) => return Err(Error::DataLenRange),
            (false, padded) if !given.is_multiple_of(BLOCK) || (padded && given == 0) => {
                return Err(Error::EncryptedDataLenRange);
            }
            (false, true) => return self.decrypt(out),
            (false, false) => {}
        }
        let needed = self.finish_len();
        let out = out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?;
        if encrypts { self.encrypt(out) } else { self.decrypt(out) }
    }
}

fn of_key<E>(_: E) -> Error {
    Error::KeySizeRange
}

fn len<E>(done: std::result::Result<&[u8], E>, wrong: Error) -> Result<usize> {
    done.map(<[u8]>::len).map_err(|_| wrong)
}

impl Cipher for Des3 {
    fn update_len(&self, _len: usize) -> usize {
        0
    }

    fn update(&mut self, input: &[u8], _out: &mut [u8]) -> Result<usize> {
        self.message.extend(input)?;
        Ok(0)
    }

    fn finish_len(&self) -> usize {
        let len = self.message.len();
        if self.padded && self.direction == Direction::Encrypt { len - len % BLOCK + BLOCK } else { len }
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        let outcome = self.run(out);
        if !matches!(outcome, Err(Error::BufferTooSmall { .. })) {
            self.message.clear();
        }
        outcome
    }

    fn reset(&mut self) -> Result<()> {
        self.message.clear();
        Ok(())
    }

    fn save(&self) -> Result<SavedCipher> {
        Ok(SavedCipher::Collected(self.message.duplicate()))
    }
}
