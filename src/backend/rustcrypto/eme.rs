//! The encodings of RSA encryption (RFC 8017, 7): OAEP with a separate hash for the mask, PKCS #1
//! v1.5, and no encoding. `crypto/src/rejection.rs` decodes PKCS #1 v1.5.
//!
//! The decrypted bytes are secret, and so is the position of an error in them. The decoding has no
//! branch on them until the result is known.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::digest::State;
use super::emsa::pad_with_zeros;
use super::random;
use crate::backend::api::{Encryption, Hash, Hasher as _, output};
use crate::error::{Error, Result, require};

/// Encodes `input` into `em`, which has the length of the modulus.
pub(super) fn encode(scheme: &Encryption, input: &[u8], em: &mut [u8]) -> Result<()> {
    match scheme {
        Encryption::Raw => pad_with_zeros(input, em),
        Encryption::Pkcs1 => pkcs1_encode(input, em),
        Encryption::Oaep { hash, mgf, label } => Oaep::new(*hash, *mgf, label, em.len())?.encode(input, em),
    }
}

/// Decodes `em`, which has the length of the modulus, into the start of `out`. Returns the length
/// of the message.
pub(super) fn decode(scheme: &Encryption, em: &mut [u8], out: &mut [u8]) -> Result<usize> {
    let message = match scheme {
        Encryption::Raw => em,
        // `crypto/src/rejection.rs` decodes it with implicit rejection.
        Encryption::Pkcs1 => return Err(Error::GeneralError),
        Encryption::Oaep { hash, mgf, label } => Oaep::new(*hash, *mgf, label, em.len())?.decode(em)?,
    };
    output(out, message.len())?.copy_from_slice(message);
    Ok(message.len())
}

/// The least length of the padding: `00 02`, eight random bytes, and `00`.
const PKCS1_OVERHEAD: usize = 11;

fn pkcs1_encode(input: &[u8], em: &mut [u8]) -> Result<()> {
    require(input.len() + PKCS1_OVERHEAD <= em.len(), Error::DataLenRange)?;
    let (padding, message) = em.split_at_mut(em.len() - input.len());
    message.copy_from_slice(input);
    let random_len = padding.len() - 3;
    padding[..2].copy_from_slice(&[0, 2]);
    padding[2 + random_len] = 0;
    let random = &mut padding[2..][..random_len];
    random::fill(random)?;
    for byte in random {
        while *byte == 0 {
            random::fill(std::slice::from_mut(byte))?;
        }
    }
    Ok(())
}

/// Returns the index of the first byte with this value, or the length if there is none. Also
/// returns whether all bytes before it are zero.
fn position(data: &[u8], value: u8) -> (u32, Choice) {
    let (mut position, mut found, mut zeros) = (data.len() as u32, Choice::from(0), Choice::from(1));
    for (index, byte) in (0u32..).zip(data) {
        let here = byte.ct_eq(&value) & !found;
        position.conditional_assign(&index, here);
        found |= here;
        zeros &= found | byte.ct_eq(&0);
    }
    (position, zeros)
}

fn message(data: &mut [u8], good: Choice, separator: u32) -> Result<&mut [u8]> {
    if bool::from(good) { Ok(&mut data[separator as usize + 1..]) } else { Err(Error::EncryptedDataInvalid) }
}

/// EME-OAEP (RFC 8017, 7.1), with the names of that section.
struct Oaep {
    l_hash: [u8; Hash::MAX_LEN],
    hash_len: usize,
    mgf: State,
}

impl Oaep {
    fn new(hash: Hash, mgf: Hash, label: &[u8], modulus_len: usize) -> Result<Self> {
        require(2 * hash.len() + 2 <= modulus_len, Error::KeySizeRange)?;
        let mut l_hash = [0; Hash::MAX_LEN];
        let mut state = State::new(hash);
        state.update(label)?;
        state.finish(&mut l_hash)?;
        Ok(Self { l_hash, hash_len: hash.len(), mgf: State::new(mgf) })
    }

    fn l_hash(&self) -> &[u8] {
        &self.l_hash[..self.hash_len]
    }

    fn encode(&mut self, input: &[u8], em: &mut [u8]) -> Result<()> {
        require(input.len() + 2 * self.hash_len + 2 <= em.len(), Error::DataLenRange)?;
        em.fill(0);
        let (seed, db) = em[1..].split_at_mut(self.hash_len);
        random::fill(seed)?;
        db[..self.hash_len].copy_from_slice(self.l_hash());
        let start = db.len() - input.len();
        db[start - 1] = 1;
        db[start..].copy_from_slice(input);
        self.mgf.mask(seed, db)?;
        self.mgf.mask(db, seed)
    }

    fn decode<'a>(&mut self, em: &'a mut [u8]) -> Result<&'a mut [u8]> {
        let (y, rest) = em.split_at_mut(1);
        let (seed, db) = rest.split_at_mut(self.hash_len);
        self.mgf.mask(db, seed)?;
        self.mgf.mask(seed, db)?;
        let (l_hash, padded) = db.split_at_mut(self.hash_len);
        let (one, zeros) = position(padded, 1);
        let ends = !one.ct_eq(&(padded.len() as u32));
        let good = y[0].ct_eq(&0) & l_hash.ct_eq(self.l_hash()) & zeros & ends;
        message(padded, good, one)
    }
}
