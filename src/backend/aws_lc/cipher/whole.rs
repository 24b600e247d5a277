//! Ciphers that collect the whole message and write all output at the end. Decrypted data is secret
//! until its tag is verified. CCM must know the length. XTS treats the last two blocks differently.

use super::super::ffi::{AeadCtx, CipherCtx, Mode};
use super::super::{ffi, prefix};
use super::message::{self, ccm_open, ccm_seal, check_ccm, open_at_once};
use super::stream::LONGEST_GCM;
use super::{BLOCK, gcm_lengths, length_error};
use crate::backend::{Cipher, CipherScheme, Direction, Nonce, SavedCipher};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Processes a whole message.
pub(super) trait Whole: Send {
    /// Returns the largest length of the output for an input of this length. Fails if the mode does
    /// not support that length.
    fn output_len(&self, input: usize) -> Result<usize>;
    /// Writes the output to the start of `out` and returns its length.
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize>;
    /// Sets another parameter. Returns false if that needs a new cipher.
    fn renew(&mut self, _scheme: &CipherScheme) -> Result<bool> {
        Ok(false)
    }
}

/// Builds a [`Cipher`] that collects its message.
pub(super) fn collected(whole: impl Whole + 'static) -> Result<Box<dyn Cipher>> {
    Ok(Box::new(Collected { input: Secret::default(), whole }))
}

struct Collected<W> {
    input: Secret,
    whole: W,
}

impl<W: Whole> Cipher for Collected<W> {
    fn update_len(&self, _len: usize) -> usize {
        0
    }

    fn update(&mut self, input: &[u8], _out: &mut [u8]) -> Result<usize> {
        self.input.extend(input)?;
        Ok(0)
    }

    fn finish_len(&self) -> usize {
        self.whole.output_len(self.input.len()).unwrap_or(0)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        let finished = self.whole.process(&self.input, out);
        if !matches!(finished, Err(Error::BufferTooSmall { .. })) {
            self.input.clear();
        }
        finished
    }

    fn reset(&mut self) -> Result<()> {
        self.input.clear();
        Ok(())
    }

    fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        // No data was collected before this call, so the message needs no copy.
        self.whole.process(input, out)
    }

    fn renew(&mut self, scheme: &CipherScheme) -> Result<bool> {
        self.whole.renew(scheme)
    }

    fn save(&self) -> Result<SavedCipher> {
        Secret::try_copy(&self.input).map(SavedCipher::Collected)
    }
}

/// Returns the length of the input after a tag is removed from its end or added there.
fn tagged_len(input: usize, tag_len: usize, direction: Direction) -> Result<usize> {
    match direction {
        Direction::Encrypt => input.checked_add(tag_len),
        Direction::Decrypt => input.checked_sub(tag_len),
    }
    .ok_or(length_error(direction))
}

pub(super) fn gcm_open(key: &[u8], iv: &[u8], aad: &[u8], tag_len: usize) -> Result<Box<dyn Cipher>> {
    gcm_lengths(iv, tag_len)?;
    let context = CipherCtx::gcm(key, iv.len(), false)?;
    let at_once = AeadCtx::aes_gcm(key)?;
    collected(GcmOpen { context, at_once, iv: iv.into(), aad: aad.into(), tag_len })
}

/// Sets another parameter. Returns false if the length of the initialisation vector changes, which
/// the context cannot do.
pub(super) fn renew_gcm(
    scheme: &CipherScheme,
    iv: &mut Nonce,
    aad: &mut Box<[u8]>,
    tag_len: &mut usize,
) -> Result<bool> {
    let CipherScheme::AesGcm { iv: new, aad: data, tag_len: tag } = scheme else { return Ok(false) };
    gcm_lengths(new, *tag)?;
    if new.len() != iv.len() {
        return Ok(false);
    }
    iv.clone_from(new);
    aad.clone_from(data);
    *tag_len = *tag;
    Ok(true)
}

struct GcmOpen {
    context: CipherCtx,
    /// For messages with a nonce of 12 bytes and a tag of 16.
    at_once: AeadCtx,
    iv: Nonce,
    aad: Box<[u8]>,
    tag_len: usize,
}

impl Whole for GcmOpen {
    fn output_len(&self, input: usize) -> Result<usize> {
        let len = tagged_len(input, self.tag_len, Direction::Decrypt)?;
        if len as u64 > LONGEST_GCM { Err(Error::EncryptedDataLenRange) } else { Ok(len) }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        let out = prefix(out, len)?;
        let (ciphertext, tag) = input.split_at(len);
        match (self.iv.as_array(), tag.len()) {
            (Some(nonce), AeadCtx::TAG_LEN) => {
                open_at_once(&self.at_once, nonce, &self.aad, ciphertext, tag, out)
            }
            _ => message::gcm_open(&mut self.context, &self.iv, &self.aad, ciphertext, tag, out),
        }?;
        Ok(len)
    }

    fn renew(&mut self, scheme: &CipherScheme) -> Result<bool> {
        renew_gcm(scheme, &mut self.iv, &mut self.aad, &mut self.tag_len)
    }
}

pub(super) struct CcmParams<'a> {
    pub(super) nonce: &'a [u8],
    pub(super) aad: &'a [u8],
    pub(super) tag_len: usize,
    pub(super) data_len: usize,
}

pub(super) fn ccm(key: &[u8], params: CcmParams<'_>, direction: Direction) -> Result<Box<dyn Cipher>> {
    let CcmParams { nonce, aad, tag_len, data_len } = params;
    check_ccm(nonce, aad, tag_len, data_len)?;
    let context = CipherCtx::ccm(key, nonce.len(), tag_len, direction == Direction::Encrypt)?;
    collected(Ccm { context, nonce: nonce.into(), aad: aad.into(), tag_len, data_len, direction })
}

struct Ccm {
    context: CipherCtx,
    nonce: Box<[u8]>,
    aad: Box<[u8]>,
    tag_len: usize,
    data_len: usize,
    direction: Direction,
}

impl Whole for Ccm {
    fn output_len(&self, input: usize) -> Result<usize> {
        let (taken, given) = match self.direction {
            Direction::Encrypt => (self.data_len, self.data_len + self.tag_len),
            Direction::Decrypt => (self.data_len + self.tag_len, self.data_len),
        };
        if input == taken { Ok(given) } else { Err(length_error(self.direction)) }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        let out = prefix(out, len)?;
        match self.direction {
            Direction::Encrypt => {
                let (ciphertext, tag) = out.split_at_mut(self.data_len);
                ccm_seal(&mut self.context, &self.nonce, &self.aad, input, ciphertext, tag)
            }
            Direction::Decrypt => {
                let (ciphertext, tag) = input.split_at(self.data_len);
                ccm_open(&mut self.context, &self.nonce, &self.aad, ciphertext, tag, out)
            }
        }?;
        Ok(len)
    }
}

pub(super) fn chacha20_poly1305(
    key: &[u8],
    nonce: &[u8; 12],
    aad: &[u8],
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    let context = AeadCtx::chacha20_poly1305(key.as_array().ok_or(Error::KeySizeRange)?)?;
    collected(Poly1305 { context, nonce: *nonce, aad: aad.into(), direction })
}

/// RFC 8439, 2.8: 2^32 - 1 blocks of 64 bytes.
pub(super) const LONGEST_CHACHA: u64 = (1 << 38) - 64;

struct Poly1305 {
    context: AeadCtx,
    nonce: [u8; 12],
    aad: Box<[u8]>,
    direction: Direction,
}

impl Whole for Poly1305 {
    fn output_len(&self, input: usize) -> Result<usize> {
        let len = tagged_len(input, AeadCtx::TAG_LEN, self.direction)?;
        if input.min(len) as u64 > LONGEST_CHACHA { Err(length_error(self.direction)) } else { Ok(len) }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        let out = prefix(out, len)?;
        match self.direction {
            Direction::Encrypt => {
                let (ciphertext, tag) = out.split_last_chunk_mut().ok_or(Error::GeneralError)?;
                self.context.seal(&self.nonce, &self.aad, input, ciphertext, tag)?;
            }
            Direction::Decrypt => {
                let (ciphertext, tag) = input.split_at(len);
                open_at_once(&self.context, &self.nonce, &self.aad, ciphertext, tag, out)?;
            }
        }
        Ok(len)
    }
}

/// SP 800-38E: a data unit has at most 2^20 blocks.
const LONGEST_XTS: usize = BLOCK << 20;

pub(super) fn xts(key: &[u8], tweak: &[u8; BLOCK], direction: Direction) -> Result<Box<dyn Cipher>> {
    let encrypt = direction == Direction::Encrypt;
    if !matches!(key.len(), 32 | 64) {
        return Err(Error::KeySizeRange);
    }
    let (data, tweaks) = key.split_at(key.len() / 2);
    // FIPS 140-3 IG, C.I: XTS with two equal keys is not secure, and AWS-LC refuses it.
    if ffi::equal(data, tweaks) {
        return Err(Error::DataInvalid);
    }
    let tweak = *tweak;
    if key.len() == 64 {
        return collected(Xts { unit: Xts256(CipherCtx::new(Mode::Xts, key, encrypt)?), tweak, direction });
    }
    let data = CipherCtx::new(Mode::Ecb, data, encrypt)?;
    let tweaks = CipherCtx::new(Mode::Ecb, tweaks, true)?;
    collected(Xts { unit: Xts128 { data, tweaks, encrypt }, tweak, direction })
}

/// Processes one data unit, which has at least one block.
trait Unit: Send {
    fn transform(&mut self, tweak: &[u8; BLOCK], input: &[u8], out: &mut [u8]) -> Result<()>;
}

struct Xts<U> {
    unit: U,
    tweak: [u8; BLOCK],
    direction: Direction,
}

impl<U: Unit> Whole for Xts<U> {
    fn output_len(&self, input: usize) -> Result<usize> {
        if (BLOCK..=LONGEST_XTS).contains(&input) { Ok(input) } else { Err(length_error(self.direction)) }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        self.unit.transform(&self.tweak, input, prefix(out, len)?)?;
        Ok(len)
    }
}

struct Xts256(CipherCtx);

impl Unit for Xts256 {
    fn transform(&mut self, tweak: &[u8; BLOCK], input: &[u8], out: &mut [u8]) -> Result<()> {
        self.0.start(tweak)?;
        self.0.update(input, out)
    }
}

/// XTS with AES-128, which AWS-LC lacks. It is built on ECB.
struct Xts128 {
    data: CipherCtx,
    tweaks: CipherCtx,
    encrypt: bool,
}

impl Xts128 {
    /// The number of blocks that go through ECB at once.
    const BATCH: usize = 32;

    /// Processes whole blocks. `tweak` belongs to the first; returns the tweak of the block after
    /// them.
    fn blocks(&mut self, mut tweak: u128, input: &[u8], out: &mut [u8]) -> Result<u128> {
        const BYTES: usize = Xts128::BATCH * BLOCK;
        let (mut masks, mut masked) = ([0; BYTES], Secret::zeroed(BYTES.min(input.len())));
        for (input, out) in input.chunks(BYTES).zip(out.chunks_mut(BYTES)) {
            for mask in masks[..input.len()].chunks_mut(BLOCK) {
                mask.copy_from_slice(&tweak.to_le_bytes());
                tweak = double(tweak);
            }
            let masked = &mut masked[..input.len()];
            masked.copy_from_slice(input);
            xor(masked, &masks);
            self.data.update(masked, out)?;
            xor(out, &masks);
        }
        Ok(tweak)
    }
}

impl Unit for Xts128 {
    fn transform(&mut self, tweak: &[u8; BLOCK], input: &[u8], out: &mut [u8]) -> Result<()> {
        let mut first = [0; BLOCK];
        self.tweaks.update(tweak, &mut first)?;
        let first = u128::from_le_bytes(first);
        let rest = input.len() % BLOCK;
        if rest == 0 {
            return self.blocks(first, input, out).map(|_| ());
        }
        // IEEE 1619, 5.3.2: the last whole block gives its end to the incomplete block, and both
        // exchange positions.
        let before = input.len() - rest - BLOCK;
        let (head, tail) = input.split_at(before);
        let (out, tail_out) = out.split_at_mut(before);
        let near = self.blocks(first, head, out)?;
        let far = double(near);
        let (of_whole, of_stub) = if self.encrypt { (near, far) } else { (far, near) };
        let (mut lender, mut joined) = (Secret::zeroed(BLOCK), Secret::zeroed(BLOCK));
        self.blocks(of_whole, &tail[..BLOCK], &mut lender)?;
        joined[..rest].copy_from_slice(&tail[BLOCK..]);
        joined[rest..].copy_from_slice(&lender[rest..]);
        self.blocks(of_stub, &joined, &mut tail_out[..BLOCK])?;
        tail_out[BLOCK..].copy_from_slice(&lender[..rest]);
        Ok(())
    }
}

/// Multiplies by x in GF(2^128), in the bit order of IEEE 1619.
fn double(tweak: u128) -> u128 {
    (tweak << 1) ^ ((tweak >> 127) * 0x87)
}

fn xor(bytes: &mut [u8], mask: &[u8]) {
    for (byte, mask) in bytes.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}
