//! Decoding of RSAES-PKCS1-v1_5 with implicit rejection (draft-irtf-cfrg-rsa-guidance), over the
//! decryption, the SHA-256 and the HMAC of a library.
//!
//! A wrong padding gives a synthetic message, not an error. Bleichenbacher's attack needs that
//! error. The synthetic message depends only on the key, the ciphertext and the lengths that the
//! caller accepts. So a repeated decryption reveals nothing. If the caller accepts every length,
//! OpenSSL 3.2 and NSS compute the same message.

use jeton_secret::Secret;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeLess};

use crate::error::{Error, Result, require};
use crate::library::{Hash, Hashes, Mac};

/// The least length of the padding: `00 02`, eight nonzero bytes, and `00`.
const OVERHEAD: usize = 11;
/// The lowest index of the zero that ends the padding.
const FIRST_END: u16 = 10;
/// The number of candidates for the length of a synthetic message. Each is in range with a
/// probability of at least 1/2.
const CANDIDATES: usize = 128;

/// The part of a private key that implicit rejection needs.
pub struct Rejection {
    /// SHA-256 of the private exponent.
    exponent_hash: Secret,
    modulus_len: usize,
}

impl Rejection {
    /// Hashes the private exponent `d`. Without leading zeros, `d` must not be longer than the
    /// modulus.
    pub fn new(hashes: &impl Hashes, d: &[u8], modulus_len: usize) -> Result<Self> {
        let mut padded = Secret::zeroed(modulus_len);
        for (byte, digit) in padded.iter_mut().rev().zip(d.iter().rev()) {
            *byte = *digit;
        }
        let mut exponent_hash = Secret::zeroed(Hash::Sha256.len());
        hashes.hash(Hash::Sha256, &padded, &mut exponent_hash)?;
        Ok(Self { exponent_hash, modulus_len })
    }

    /// Decodes `em`, the decryption of `ciphertext`. Both are as long as the modulus.
    ///
    /// Returns the message. Returns a synthetic message if the padding is wrong or the length of
    /// the message does not fit. Calls `fits` for every possible length. The synthetic message
    /// always has a length that fits. Fails with `Length` if no length fits.
    /// `hmac` returns HMAC-SHA-256 with a key.
    pub fn decode<M: Mac>(
        &self,
        hmac: impl Fn(&[u8]) -> Result<M>,
        ciphertext: &[u8],
        em: &[u8],
        fits: &dyn Fn(usize) -> bool,
    ) -> Result<Secret> {
        let longest = self.modulus_len - OVERHEAD;
        let lengths: Vec<u16> = (0..=longest).filter(|len| fits(*len)).map(|len| len as u16).collect();
        require(!lengths.is_empty(), Error::Length)?;
        let mut synthetic = Secret::zeroed(em.len());
        let synthetic_len = self.synthesize(hmac, ciphertext, &lengths, &mut synthetic)?;

        let (padded, message_len) = message_len(em);
        let allowed = lengths.iter().fold(Choice::from(0), |any, len| any | len.ct_eq(&message_len));
        let good = padded & allowed;
        let len = u16::conditional_select(&synthetic_len, &message_len, good);
        for (byte, decrypted) in synthetic.iter_mut().zip(em) {
            byte.conditional_assign(decrypted, good);
        }
        Ok(Secret::from(&synthetic[em.len() - usize::from(len)..]))
    }

    /// Fills `out` with bytes whose end is the synthetic message. Returns the length of that
    /// message.
    fn synthesize<M: Mac>(
        &self,
        hmac: impl Fn(&[u8]) -> Result<M>,
        ciphertext: &[u8],
        lengths: &[u16],
        out: &mut [u8],
    ) -> Result<u16> {
        let mut key = Secret::zeroed(Hash::Sha256.len());
        let mut mac = hmac(&self.exponent_hash)?;
        mac.update(ciphertext)?;
        mac.finish(&mut key)?;

        let mut mac = hmac(&key)?;
        let mut candidates = Secret::zeroed(2 * CANDIDATES);
        expand(&mut mac, b"length", &mut candidates)?;
        expand(&mut mac, b"message", out)?;

        // If every length fits, this chooses the same length as the draft.
        let count = lengths.len() as u16;
        let mask = u16::MAX >> count.leading_zeros();
        let mut chosen = 0u16;
        for pair in candidates.as_chunks().0 {
            let candidate = u16::from_be_bytes(*pair) & mask;
            chosen.conditional_assign(&candidate, candidate.ct_lt(&count));
        }
        let mut len = lengths[0];
        for (index, other) in (0u16..).zip(lengths) {
            len.conditional_assign(other, index.ct_eq(&chosen));
        }
        Ok(len)
    }
}

/// The IRPRF of the draft: HMAC over a counter, the label and the length of the output in bits.
fn expand(mac: &mut impl Mac, label: &[u8], out: &mut [u8]) -> Result<()> {
    let bits = (8 * out.len() as u16).to_be_bytes();
    let mut block = Secret::zeroed(Hash::Sha256.len());
    for (counter, chunk) in (0u16..).zip(out.chunks_mut(Hash::Sha256.len())) {
        mac.update(&counter.to_be_bytes())?;
        mac.update(label)?;
        mac.update(&bits)?;
        mac.finish(&mut block)?;
        chunk.copy_from_slice(&block[..chunk.len()]);
    }
    Ok(())
}

/// Returns whether the padding is right, and the length of the message after it.
fn message_len(em: &[u8]) -> (Choice, u16) {
    let (mut end, mut found) = (0u16, Choice::from(0));
    for (index, byte) in (0u16..).zip(em).skip(2) {
        let zero = byte.ct_eq(&0);
        end.conditional_assign(&index, zero & !found);
        found |= zero;
    }
    // `end` is 0 if no zero was found.
    let padded = em[0].ct_eq(&0) & em[1].ct_eq(&2) & !end.ct_lt(&FIRST_END);
    (padded, (em.len() as u16 - 1).wrapping_sub(end))
}
