//! The encodings of RSA signatures (RFC 8017, 9): PSS, PKCS #1 v1.5, and no encoding. In PSS, the
//! mask may use another hash than the message.
//!
//! Nothing here is secret: everyone can compute the encoded message from the signature and the
//! public key.

use super::digest::State;
use super::random;
use crate::backend::api::{Hash, Hasher as _, Scheme};
use crate::error::{Error, Result, require};

/// An encoding for moduli of one size.
pub(in super::super) enum Encoding {
    Raw,
    Pkcs1 { hash: Option<Hash>, prefix: &'static [u8] },
    Pss(Pss),
}

impl Encoding {
    pub(in super::super) fn new(scheme: &Scheme, modulus_bits: usize) -> Result<Self> {
        let encoding = match *scheme {
            Scheme::RsaRaw => Self::Raw,
            Scheme::RsaPkcs1 { hash } => Self::Pkcs1 { hash, prefix: hash.map_or(Ok(&[][..]), digest_info)? },
            Scheme::RsaPss { hash, mgf, salt_len } => Self::Pss(Pss::new(hash, mgf, salt_len, modulus_bits)?),
            _ => return Err(Error::KeyTypeInconsistent),
        };
        let digest_len = match &encoding {
            Self::Pkcs1 { hash: Some(hash), prefix } => prefix.len() + hash.len(),
            _ => 0,
        };
        require(digest_len + PKCS1_OVERHEAD <= modulus_bits.div_ceil(8), Error::KeySizeRange)?;
        Ok(encoding)
    }

    /// Encodes `input` into `em`, which has the length of the modulus.
    pub(in super::super) fn encode(&mut self, input: &[u8], em: &mut [u8]) -> Result<()> {
        match self {
            Self::Raw => pad_with_zeros(input, em),
            Self::Pkcs1 { hash, prefix } => {
                expect_len(*hash, input)?;
                pkcs1(prefix, input, em)
            }
            Self::Pss(pss) => pss.encode(input, em),
        }
    }

    /// Checks whether `em` encodes `input`. `em` has the length of the modulus, and so does the
    /// scratch memory `expected`.
    pub(super) fn verify(&mut self, input: &[u8], em: &mut [u8], expected: &mut [u8]) -> Result<()> {
        if let Self::Pss(pss) = self {
            return pss.verify(input, em);
        }
        self.encode(input, expected)?;
        consistent(em == expected)
    }
}

fn consistent(is: bool) -> Result<()> {
    if is { Ok(()) } else { Err(Error::SignatureInvalid) }
}

fn expect_len(hash: Option<Hash>, digest: &[u8]) -> Result<()> {
    match hash {
        Some(hash) if hash.len() != digest.len() => Err(Error::DataLenRange),
        _ => Ok(()),
    }
}

pub(super) fn pad_with_zeros(input: &[u8], em: &mut [u8]) -> Result<()> {
    let zeros = em.len().checked_sub(input.len()).ok_or(Error::DataLenRange)?;
    em[..zeros].fill(0);
    em[zeros..].copy_from_slice(input);
    Ok(())
}

/// The least length of the padding: `00 01`, eight `ff`, and `00`.
const PKCS1_OVERHEAD: usize = 11;

/// Encodes with EMSA-PKCS1-v1_5 (RFC 8017, 9.2): `00 01 ff .. ff 00 || prefix || input`.
fn pkcs1(prefix: &[u8], input: &[u8], em: &mut [u8]) -> Result<()> {
    let len = prefix.len() + input.len();
    require(len + PKCS1_OVERHEAD <= em.len(), Error::DataLenRange)?;
    let (padding, message) = em.split_at_mut(em.len() - len);
    padding.fill(0xff);
    padding[..2].copy_from_slice(&[0, 1]);
    padding[padding.len() - 1] = 0;
    message[..prefix.len()].copy_from_slice(prefix);
    message[prefix.len()..].copy_from_slice(input);
    Ok(())
}

/// Returns the DER encoding of a DigestInfo up to the digest (RFC 8017, 9.2, note 1).
fn digest_info(hash: Hash) -> Result<&'static [u8]> {
    Ok(match hash {
        Hash::Sha1 => b"\x30\x21\x30\x09\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00\x04\x14",
        Hash::Sha224 => b"\x30\x2d\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x04\x05\x00\x04\x1c",
        Hash::Sha256 => b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20",
        Hash::Sha384 => b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30",
        Hash::Sha512 => b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40",
        Hash::Sha512_224 => b"\x30\x2d\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x05\x05\x00\x04\x1c",
        Hash::Sha512_256 => b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x06\x05\x00\x04\x20",
        Hash::Sha3_224 => b"\x30\x2d\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x07\x05\x00\x04\x1c",
        Hash::Sha3_256 => b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x08\x05\x00\x04\x20",
        Hash::Sha3_384 => b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x09\x05\x00\x04\x30",
        Hash::Sha3_512 => b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x0a\x05\x00\x04\x40",
        // RFC 8702 defines RSA signatures with a SHAKE only for PSS.
        Hash::Shake128 | Hash::Shake256 => return Err(Error::MechanismParamInvalid),
        // PKCS#11 has no PKCS #1 v1.5 mechanism with BLAKE2b.
        Hash::Blake2b160 | Hash::Blake2b256 | Hash::Blake2b384 | Hash::Blake2b512 => {
            return Err(Error::MechanismParamInvalid);
        }
    })
}

/// EMSA-PSS (RFC 8017, 9.1), with the names of that section.
pub(in super::super) struct Pss {
    hash: State,
    mgf: State,
    hash_len: usize,
    salt_len: usize,
    em_len: usize,
    /// A mask: the bits of EM in its first byte. EM has one bit less than the modulus.
    top: u8,
}

impl Pss {
    fn new(hash: Hash, mgf: Hash, salt_len: usize, modulus_bits: usize) -> Result<Self> {
        let em_bits = modulus_bits - 1;
        let em_len = em_bits.div_ceil(8);
        let needed = salt_len.checked_add(hash.len() + 2).ok_or(Error::KeySizeRange)?;
        require(em_len >= needed, Error::KeySizeRange)?;
        Ok(Self {
            hash: State::new(hash),
            mgf: State::new(mgf),
            hash_len: hash.len(),
            salt_len,
            em_len,
            top: 0xff >> (8 * em_len - em_bits),
        })
    }

    fn encode(&mut self, m_hash: &[u8], em: &mut [u8]) -> Result<()> {
        require(m_hash.len() == self.hash_len, Error::DataLenRange)?;
        // A modulus of 8k + 1 bits has one byte more than EM.
        let em = self.strip(em, |byte| *byte = 0);
        let (db, h, trailer) = self.split(em);
        let (padding, salt) = db.split_at_mut(db.len() - self.salt_len);
        padding.fill(0);
        padding[padding.len() - 1] = 1;
        random::fill(salt)?;
        self.hash_with_salt(m_hash, salt, h)?;
        *trailer = TRAILER;
        self.mgf.mask(h, db)?;
        db[0] &= self.top;
        Ok(())
    }

    fn verify(&mut self, m_hash: &[u8], em: &mut [u8]) -> Result<()> {
        require(m_hash.len() == self.hash_len, Error::DataLenRange)?;
        let mut surplus = 0;
        let em = self.strip(em, |byte| surplus = *byte);
        let (db, h, trailer) = self.split(em);
        consistent(surplus == 0 && *trailer == TRAILER && db[0] & !self.top == 0)?;
        self.mgf.mask(h, db)?;
        db[0] &= self.top;
        let (padding, salt) = db.split_at(db.len() - self.salt_len);
        let (one, zeros) = padding.split_last().ok_or(Error::SignatureInvalid)?;
        consistent(*one == 1 && zeros.iter().all(|byte| *byte == 0))?;
        let mut expected = [0; Hash::MAX_LEN];
        let expected = &mut expected[..self.hash_len];
        self.hash_with_salt(m_hash, salt, expected)?;
        consistent(h == expected)
    }

    /// Returns the part of `em` that is EM. `em` has the length of the modulus, so there may be a
    /// byte before EM. Calls `surplus` with this byte.
    fn strip<'a>(&self, em: &'a mut [u8], surplus: impl FnOnce(&mut u8)) -> &'a mut [u8] {
        let (before, em) = em.split_at_mut(em.len() - self.em_len);
        before.first_mut().map(surplus);
        em
    }

    /// Splits EM into `maskedDB || H || bc`.
    fn split<'a>(&self, em: &'a mut [u8]) -> (&'a mut [u8], &'a mut [u8], &'a mut u8) {
        let (db, rest) = em.split_at_mut(self.em_len - self.hash_len - 1);
        let (h, trailer) = rest.split_at_mut(self.hash_len);
        (db, h, &mut trailer[0])
    }

    /// Computes `H = Hash(00 00 00 00 00 00 00 00 || mHash || salt)`.
    fn hash_with_salt(&mut self, m_hash: &[u8], salt: &[u8], h: &mut [u8]) -> Result<()> {
        self.hash.update(&[0; 8])?;
        self.hash.update(m_hash)?;
        self.hash.update(salt)?;
        self.hash.finish(h)
    }
}

const TRAILER: u8 = 0xbc;

#[cfg(test)]
mod tests {
    use super::*;

    const PSS: Scheme = Scheme::RsaPss { hash: Hash::Sha256, mgf: Hash::Sha1, salt_len: 20 };

    #[test]
    fn pss_keeps_within_the_modulus_at_every_bit_length() {
        for bits in 1024..1034 {
            let mut encoding = Encoding::new(&PSS, bits).unwrap();
            let len = bits.div_ceil(8);
            let (mut em, mut scratch) = (vec![0xff; len], vec![0; len]);
            encoding.encode(&[7; 32], &mut em).unwrap();
            let used = 8 * len - em.iter().position(|byte| *byte != 0).unwrap() * 8;
            let leading = em.iter().find(|byte| **byte != 0).unwrap().leading_zeros() as usize;
            assert!(used - leading < bits, "{bits}");
            let mut surplus = em.clone();
            assert_eq!(encoding.verify(&[7; 32], &mut em, &mut scratch), Ok(()), "{bits}");
            surplus[0] |= 0x80 >> ((8 - bits % 8) % 8);
            let outcome = encoding.verify(&[7; 32], &mut surplus, &mut scratch);
            assert_eq!(outcome, Err(Error::SignatureInvalid), "{bits}: the top bit");
        }
    }
}
