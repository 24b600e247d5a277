//! GCM (SP 800-38D), CCM (SP 800-38C), ChaCha20-Poly1305 (RFC 8439).

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit as _, Nonce, Tag};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use jeton_crypto::modes::xor;
use jeton_secret::Secret;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::ctr::Counter;
use crate::backend::api::AeadScheme;
use crate::backend::rustcrypto::aes::{Aes, BLOCK, Block};
use crate::backend::rustcrypto::failed;
use crate::error::{Error, Result};

/// Processes a whole message with a separate tag.
pub(super) trait Detached: Send {
    /// Checks whether a message can have this length.
    fn takes(&self, len: usize) -> bool;
    /// Encrypts a message whose length [`takes`](Self::takes) accepts. `out` has the same length.
    fn seal(&self, input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()>;
    /// Decrypts a message whose length [`takes`](Self::takes) accepts. `out` has the same length.
    /// If the tag is wrong, `out` contains no plaintext.
    fn open(&self, input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()>;
}

fn authentic(tag: &[u8], expected: &[u8]) -> Result<()> {
    if bool::from(tag.ct_eq(expected)) { Ok(()) } else { Err(Error::EncryptedDataInvalid) }
}

/// GCM with one key, nonce and additional data. The additional data is hashed once.
#[derive(Clone)]
pub(in crate::backend::rustcrypto) struct Gcm {
    aes: Aes,
    /// GHASH after the additional data.
    hash: GHash,
    aad_len: usize,
    /// The counter block of the tag.
    first: u128,
    tag_len: usize,
}

const GCM_COUNTER: u128 = 0xffff_ffff;

impl Gcm {
    pub(in crate::backend::rustcrypto) fn new(
        aes: Aes,
        iv: &[u8],
        aad: &[u8],
        tag_len: usize,
    ) -> Result<Self> {
        AeadScheme::AesGcm.check(iv.len(), tag_len)?;
        let mut h = Zeroizing::new([0; BLOCK]);
        aes.encrypt_block(&mut h);
        let mut hash = GHash::new(&(*h).into());
        let first = gcm_first_block(&hash, iv);
        hash.update_padded(aad);
        Ok(Self { aes, hash, aad_len: aad.len(), first, tag_len })
    }

    fn tag(&self, ciphertext: &[u8]) -> Block {
        let mut hash = self.hash.clone();
        hash.update_padded(ciphertext);
        self.seal(hash, self.aad_len, ciphertext.len())
    }

    /// Returns the tag. `hash` has processed additional data and ciphertext of these lengths.
    fn seal(&self, mut hash: GHash, aad_len: usize, len: usize) -> Block {
        hash.update(&[lengths(aad_len, len).into()]);
        let mut tag: Block = hash.finalize().into();
        let mut mask = self.first.to_be_bytes();
        self.aes.encrypt_block(&mut mask);
        xor(&mut tag, &mask);
        tag
    }

    /// Returns GHASH after the additional data. GMAC creates the cipher without additional data and
    /// adds its message to this hash.
    pub(in crate::backend::rustcrypto) fn hash(&self) -> GHash {
        self.hash.clone()
    }

    /// Returns the MAC from a [`hash`](Self::hash) that has processed `len` bytes.
    pub(in crate::backend::rustcrypto) fn mac(&self, hash: GHash, len: usize) -> Block {
        self.seal(hash, len, 0)
    }

    fn crypt(&self, data: &mut [u8]) {
        let second = self.first & !GCM_COUNTER | self.first.wrapping_add(1) & GCM_COUNTER;
        Counter::new(second, GCM_COUNTER).apply(&self.aes, data);
    }
}

/// Returns the first counter block (SP 800-38D, 7.1, step 2). A nonce of 12 bytes is used directly;
/// others are hashed.
fn gcm_first_block(hash: &GHash, iv: &[u8]) -> u128 {
    if let Ok(iv) = <[u8; 12]>::try_from(iv) {
        let mut block = [0; BLOCK];
        block[..12].copy_from_slice(&iv);
        return u128::from_be_bytes(block) | 1;
    }
    let mut hash = hash.clone();
    hash.update_padded(iv);
    hash.update(&[lengths(0, iv.len()).into()]);
    u128::from_be_bytes(hash.finalize().into())
}

/// Encodes two lengths in bits. The arguments are in bytes.
fn lengths(one: usize, other: usize) -> Block {
    (((one as u128) << 64 | other as u128) << 3).to_be_bytes()
}

impl Detached for Gcm {
    fn takes(&self, len: usize) -> bool {
        AeadScheme::AesGcm.takes_message(len)
    }

    fn seal(&self, input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()> {
        out.copy_from_slice(input);
        self.crypt(out);
        tag.copy_from_slice(&self.tag(out)[..self.tag_len]);
        Ok(())
    }

    fn open(&self, input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()> {
        authentic(tag, &self.tag(input)[..self.tag_len])?;
        out.copy_from_slice(input);
        self.crypt(out);
        Ok(())
    }
}

/// CCM with one key, nonce, additional data and announced length.
pub(super) struct Ccm {
    aes: Aes,
    /// CBC-MAC after the additional data.
    chain: Zeroizing<Block>,
    /// The counter block of the tag.
    first: u128,
    /// The counter bits of that block.
    mask: u128,
    tag_len: usize,
    data_len: usize,
}

impl Ccm {
    pub(super) fn new(aes: Aes, nonce: &[u8], aad: &[u8], tag_len: usize, data_len: usize) -> Result<Self> {
        AeadScheme::AesCcm.check(nonce.len(), tag_len)?;
        AeadScheme::check_ccm_len(nonce.len(), data_len)?;
        // The length in bytes of the length field and of the counter.
        let q = BLOCK - 1 - nonce.len();
        let mut block = [0; BLOCK];
        block[0] = (q - 1) as u8;
        block[1..=nonce.len()].copy_from_slice(nonce);
        let first = u128::from_be_bytes(block);
        let flags = if aad.is_empty() { 0 } else { 0x40 } | (((tag_len - 2) / 2) << 3) as u8;
        let mut chain = Zeroizing::new((first | data_len as u128).to_be_bytes());
        chain[0] |= flags;
        aes.encrypt_block(&mut chain);
        if !aad.is_empty() {
            let mut data = Secret::from(&aad_len(aad.len())[..]);
            data.extend(aad)?;
            absorb(&aes, &mut chain, &data);
        }
        Ok(Self { aes, chain, first, mask: u128::MAX >> (128 - 8 * q), tag_len, data_len })
    }

    fn tag(&self, counter: &mut Counter, plaintext: &[u8]) -> Zeroizing<Block> {
        let mut tag = self.chain.clone();
        absorb(&self.aes, &mut tag, plaintext);
        counter.apply(&self.aes, &mut *tag);
        tag
    }
}

/// Encodes the length of the additional data (SP 800-38C, A.2.2).
fn aad_len(len: usize) -> Vec<u8> {
    match len {
        0..0xff00 => (len as u16).to_be_bytes().to_vec(),
        0xff00..=0xffff_ffff => [&[0xff, 0xfe][..], &(len as u32).to_be_bytes()].concat(),
        _ => [&[0xff, 0xff][..], &(len as u64).to_be_bytes()].concat(),
    }
}

/// Continues the CBC-MAC in `chain` with `data`, padded with zeros.
fn absorb(aes: &Aes, chain: &mut Block, data: &[u8]) {
    for block in data.chunks(BLOCK) {
        xor(chain, block);
        aes.encrypt_block(chain);
    }
}

impl Detached for Ccm {
    fn takes(&self, len: usize) -> bool {
        len == self.data_len
    }

    fn seal(&self, input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()> {
        // The first block of the keystream encrypts the tag.
        let mut tags = Counter::new(self.first, self.mask);
        tag.copy_from_slice(&self.tag(&mut tags, input)[..self.tag_len]);
        out.copy_from_slice(input);
        tags.apply(&self.aes, out);
        Ok(())
    }

    fn open(&self, input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(input);
        let mut counter = Counter::new(self.first, self.mask);
        let mut skipped = [0; BLOCK];
        counter.apply(&self.aes, &mut skipped);
        counter.apply(&self.aes, out);
        let expected = self.tag(&mut Counter::new(self.first, self.mask), out);
        authentic(tag, &expected[..self.tag_len]).inspect_err(|_| {
            // The tag covers the plaintext, so the plaintext was written before the tag was
            // verified.
            out.fill(0);
        })
    }
}

/// ChaCha20-Poly1305 with one key, nonce and additional data.
pub(super) struct ChaChaPoly<'a> {
    cipher: ChaCha20Poly1305,
    nonce: [u8; 12],
    aad: &'a [u8],
}

impl<'a> ChaChaPoly<'a> {
    pub(super) fn new(key: &[u8], nonce: &[u8], aad: &'a [u8], tag_len: usize) -> Result<Self> {
        AeadScheme::ChaCha20Poly1305.check(nonce.len(), tag_len)?;
        let nonce = nonce.as_array().ok_or(Error::MechanismParamInvalid)?;
        let cipher = ChaCha20Poly1305::new_from_slice(key).map_err(|_| Error::KeySizeRange)?;
        Ok(Self { cipher, nonce: *nonce, aad })
    }
}

impl Detached for ChaChaPoly<'_> {
    fn takes(&self, len: usize) -> bool {
        AeadScheme::ChaCha20Poly1305.takes_message(len)
    }

    fn seal(&self, input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()> {
        out.copy_from_slice(input);
        let made = self.cipher.encrypt_inout_detached(&Nonce::from(self.nonce), self.aad, out.into());
        tag.copy_from_slice(&made.map_err(|error| failed("ChaCha20-Poly1305")(&error))?);
        Ok(())
    }

    fn open(&self, input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()> {
        let tag = Tag::try_from(tag).map_err(|_| Error::EncryptedDataLenRange)?;
        out.copy_from_slice(input);
        // The library verifies before it decrypts.
        self.cipher
            .decrypt_inout_detached(&Nonce::from(self.nonce), self.aad, (&mut *out).into(), &tag)
            .map_err(|_| {
                out.fill(0);
                Error::EncryptedDataInvalid
            })
    }
}
