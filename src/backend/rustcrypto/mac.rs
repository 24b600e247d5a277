//! Message authentication codes: HMAC (FIPS 198-1) and the MACs with AES.

use digest::common::BlockSizeUser;
use digest::{Digest, FixedOutputReset, KeyInit, Reset, Update};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use hmac::SimpleHmacReset;
use jeton_crypto::modes::xor;
use md5::Md5;
use pbkdf2::pbkdf2_hmac;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use zeroize::{Zeroize, Zeroizing};

use super::aes::{Aes, BLOCK, Block};
use super::cipher::Gcm;
use super::clean::Clean;
use super::digest::{Blake2b160, Blake2b256, Blake2b384, Blake2b512};
use crate::backend::api::{Hash, Mac, MacScheme, Macs, output};
use crate::error::{Error, Result, require};

pub(super) struct AllMacs;

impl Macs for AllMacs {
    fn mac(&self, scheme: &MacScheme, key: &[u8]) -> Result<Box<dyn Mac>> {
        let mac: Box<dyn Mac> = match scheme {
            MacScheme::Hmac(hash) => hmac(*hash, key)?,
            MacScheme::HmacMd5 => hmac_with::<Md5>(key)?,
            MacScheme::AesCmac => Box::new(Chained::cmac(Aes::new(key)?)),
            MacScheme::AesGmac { iv } => Box::new(Gmac::new(Aes::new(key)?, iv)?),
            MacScheme::AesCbcMac => Box::new(Chained::new(Aes::new(key)?, None)),
            MacScheme::AesXcbc => Box::new(Chained::xcbc(key)?),
        };
        Ok(Box::new(Clean::new(mac)))
    }

    fn pbkdf2(
        &self,
        hash: Hash,
        password: &[u8],
        salt: &[u8],
        iterations: u32,
        out: &mut [u8],
    ) -> Result<()> {
        require(iterations != 0, Error::MechanismParamInvalid)?;
        let derive = match hash {
            Hash::Sha1 => pbkdf2_hmac::<Sha1>,
            Hash::Sha224 => pbkdf2_hmac::<Sha224>,
            Hash::Sha256 => pbkdf2_hmac::<Sha256>,
            Hash::Sha384 => pbkdf2_hmac::<Sha384>,
            Hash::Sha512 => pbkdf2_hmac::<Sha512>,
            Hash::Sha512_224 => pbkdf2_hmac::<Sha512_224>,
            Hash::Sha512_256 => pbkdf2_hmac::<Sha512_256>,
            // `CKP_PKCS5_PBKD2_*` names no other supported hash. The HMAC of the `pbkdf2` crate
            // does not support SHA-3.
            _ => return Err(Error::MechanismInvalid),
        };
        derive(password, salt, iterations, out);
        Ok(())
    }
}

fn hmac(hash: Hash, key: &[u8]) -> Result<Box<dyn Mac>> {
    match hash {
        Hash::Sha1 => hmac_with::<Sha1>(key),
        Hash::Sha224 => hmac_with::<Sha224>(key),
        Hash::Sha256 => hmac_with::<Sha256>(key),
        Hash::Sha384 => hmac_with::<Sha384>(key),
        Hash::Sha512 => hmac_with::<Sha512>(key),
        Hash::Sha512_224 => hmac_with::<Sha512_224>(key),
        Hash::Sha512_256 => hmac_with::<Sha512_256>(key),
        Hash::Sha3_224 => hmac_with::<Sha3_224>(key),
        Hash::Sha3_256 => hmac_with::<Sha3_256>(key),
        Hash::Sha3_384 => hmac_with::<Sha3_384>(key),
        Hash::Sha3_512 => hmac_with::<Sha3_512>(key),
        Hash::Blake2b160 => hmac_with::<Blake2b160>(key),
        Hash::Blake2b256 => hmac_with::<Blake2b256>(key),
        Hash::Blake2b384 => hmac_with::<Blake2b384>(key),
        Hash::Blake2b512 => hmac_with::<Blake2b512>(key),
        // FIPS 202, 7 approves HMAC with the SHA-3 hash functions, but not with the SHAKEs.
        Hash::Shake128 | Hash::Shake256 => Err(Error::MechanismInvalid),
    }
}

fn hmac_with<D>(key: &[u8]) -> Result<Box<dyn Mac>>
where
    D: Digest + BlockSizeUser + FixedOutputReset + Clone + Send + 'static,
{
    let keyed = SimpleHmacReset::<D>::new_from_slice(key).map_err(|_| Error::KeySizeRange)?;
    Ok(Box::new(Hmac(keyed)))
}

struct Hmac<D: Digest + BlockSizeUser>(SimpleHmacReset<D>);

impl<D: Digest + BlockSizeUser + FixedOutputReset + Clone + Send + 'static> Mac for Hmac<D> {
    fn mac_len(&self) -> usize {
        <D as Digest>::output_size()
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        Update::update(&mut self.0, data);
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let out = output(out, self.mac_len())?;
        out.copy_from_slice(&self.0.finalize_fixed_reset());
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        Reset::reset(&mut self.0);
        Ok(())
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

/// CBC-MAC. The last block is masked as in CMAC (SP 800-38B) or XCBC (RFC 3566), or only padded
/// with zeros (ISO/IEC 9797-1, algorithm 1).
#[derive(Clone)]
struct Chained {
    aes: Aes,
    /// The masks for the last block. `None` pads the last block with zeros.
    masks: Option<Masks>,
    chain: Zeroizing<Block>,
    /// The block that is held back because it may be the last.
    held: Zeroizing<Block>,
    held_len: usize,
}

#[derive(Clone)]
struct Masks {
    /// The mask of a complete last block.
    whole: Zeroizing<Block>,
    /// The mask of a last block that is padded with a one bit and zeros.
    padded: Zeroizing<Block>,
}

impl Chained {
    fn new(aes: Aes, masks: Option<Masks>) -> Self {
        Self { aes, masks, chain: Zeroizing::default(), held: Zeroizing::default(), held_len: 0 }
    }

    fn cmac(aes: Aes) -> Self {
        let mut zero = Zeroizing::new([0; BLOCK]);
        aes.encrypt_block(&mut zero);
        let whole = doubled(&zero);
        let padded = doubled(&whole);
        Self::new(aes, Some(Masks { whole, padded }))
    }

    fn xcbc(key: &[u8]) -> Result<Self> {
        require(key.len() == BLOCK, Error::KeySizeRange)?;
        let aes = Aes::new(key)?;
        let [key, whole, padded] = [1, 2, 3].map(|number| {
            let mut block = Zeroizing::new([number; BLOCK]);
            aes.encrypt_block(&mut block);
            block
        });
        Ok(Self::new(Aes::new(&key[..])?, Some(Masks { whole, padded })))
    }

    fn absorb(&mut self) {
        xor(&mut self.chain[..], &self.held[..]);
        self.aes.encrypt_block(&mut self.chain);
        self.held_len = 0;
    }
}

/// Returns the block times x in GF(2^128), big-endian (SP 800-38B, 6.1).
fn doubled(block: &Block) -> Zeroizing<Block> {
    let number = u128::from_be_bytes(*block);
    Zeroizing::new(((number << 1) ^ ((number >> 127) * 0x87)).to_be_bytes())
}

impl Mac for Chained {
    fn mac_len(&self) -> usize {
        BLOCK
    }

    fn update(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            if self.held_len == BLOCK {
                self.absorb();
            }
            let (now, later) = data.split_at(data.len().min(BLOCK - self.held_len));
            self.held[self.held_len..][..now.len()].copy_from_slice(now);
            self.held_len += now.len();
            data = later;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let out = output(out, BLOCK)?;
        self.held[self.held_len..].fill(0);
        match &self.masks {
            Some(masks) if self.held_len == BLOCK => xor(&mut self.held[..], &masks.whole[..]),
            Some(masks) => {
                self.held[self.held_len] = 0x80;
                xor(&mut self.held[..], &masks.padded[..]);
            }
            None => (),
        }
        self.absorb();
        out.copy_from_slice(&self.chain[..]);
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.chain.zeroize();
        self.held.zeroize();
        self.held_len = 0;
        Ok(())
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(self.clone()))
    }
}

/// GCM without a message: all its data is additional data.
#[derive(Clone)]
struct Gmac {
    gcm: Gcm,
    hash: GHash,
    held: Block,
    len: usize,
}

impl Gmac {
    fn new(aes: Aes, iv: &[u8]) -> Result<Self> {
        let gcm = Gcm::new(aes, iv, &[], BLOCK)?;
        let hash = gcm.hash();
        Ok(Self { gcm, hash, held: [0; BLOCK], len: 0 })
    }
}

impl Mac for Gmac {
    fn mac_len(&self) -> usize {
        BLOCK
    }

    fn update(&mut self, mut data: &[u8]) -> Result<()> {
        let held_len = self.len % BLOCK;
        self.len += data.len();
        if held_len > 0 {
            let (now, later) = data.split_at(data.len().min(BLOCK - held_len));
            self.held[held_len..][..now.len()].copy_from_slice(now);
            if held_len + now.len() < BLOCK {
                return Ok(());
            }
            self.hash.update(&[self.held.into()]);
            data = later;
        }
        let (whole, rest) = data.split_at(data.len() / BLOCK * BLOCK);
        self.hash.update_padded(whole);
        self.held[..rest.len()].copy_from_slice(rest);
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let out = output(out, BLOCK)?;
        let mut hash = self.hash.clone();
        hash.update_padded(&self.held[..self.len % BLOCK]);
        out.copy_from_slice(&self.gcm.mac(hash, self.len));
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.hash = self.gcm.hash();
        self.len = 0;
        Ok(())
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(self.clone()))
    }
}
