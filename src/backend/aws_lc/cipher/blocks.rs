//! Modes on whole blocks: ECB, CBC with or without padding, ciphertext stealing, and CFB with
//! segments of 64 bits.

use zeroize::Zeroizing;

use super::super::ffi::{CipherCtx, Mode};
use super::super::prefix;
use super::{BLOCK, length_error};
use crate::backend::{Cipher, CipherScheme, Direction, SavedCipher, padding};
use crate::error::{Error, Result};

pub(super) fn plain(mode: Mode, key: &[u8], iv: &[u8], direction: Direction) -> Result<Box<dyn Cipher>> {
    let context = CipherCtx::new(mode, key, direction == Direction::Encrypt)?;
    // ECB has no initialisation vector, and an empty slice becomes `None`.
    let iv = iv.as_array().copied();
    Blocks::boxed(context, iv, End::Nothing, direction)
}

pub(super) fn padded(key: &[u8], iv: &[u8; BLOCK], direction: Direction) -> Result<Box<dyn Cipher>> {
    let context = CipherCtx::new(Mode::Cbc, key, direction == Direction::Encrypt)?;
    Blocks::boxed(context, Some(*iv), End::Padding, direction)
}

pub(super) fn stealing(key: &[u8], iv: &[u8; BLOCK], direction: Direction) -> Result<Box<dyn Cipher>> {
    let context = CipherCtx::new(Mode::Cbc, key, direction == Direction::Encrypt)?;
    Blocks::boxed(context, Some(*iv), End::Stealing, direction)
}

pub(super) fn feedback64(key: &[u8], iv: &[u8; BLOCK], direction: Direction) -> Result<Box<dyn Cipher>> {
    // CFB encrypts its register in both directions.
    let context = CipherCtx::new(Mode::Ecb, key, true)?;
    Blocks::boxed(context, Some(*iv), End::Segment, direction)
}

/// The end of a message, which decides how many bytes to hold back until more data comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The message ends with a whole block.
    Nothing,
    /// The message ends with a block of PKCS #7 padding.
    Padding,
    /// The message ends with two blocks, at least one of them whole, which exchange positions or
    /// lengths.
    Stealing,
    /// The message ends with a whole segment of CFB.
    Segment,
}

/// The most bytes that are held back: the last two blocks of ciphertext stealing.
const HELD: usize = 2 * BLOCK;

struct Blocks {
    context: CipherCtx,
    iv: Option<[u8; BLOCK]>,
    end: End,
    direction: Direction,
    /// The chaining value of CBC or CFB: the last block of ciphertext or of the shift register.
    chain: [u8; BLOCK],
    held: Zeroizing<[u8; HELD]>,
    held_len: usize,
}

impl Blocks {
    fn boxed(
        context: CipherCtx,
        iv: Option<[u8; BLOCK]>,
        end: End,
        direction: Direction,
    ) -> Result<Box<dyn Cipher>> {
        let held = Zeroizing::new([0; HELD]);
        let mut blocks = Self { context, iv, end, direction, chain: [0; BLOCK], held, held_len: 0 };
        blocks.reset()?;
        Ok(Box::new(blocks))
    }

    fn block(&self) -> usize {
        if self.end == End::Segment { 8 } else { BLOCK }
    }

    /// Returns the least number of bytes to hold back.
    fn keep(&self) -> usize {
        match (self.end, self.direction) {
            // Any block can be the last and contain the padding.
            (End::Padding, Direction::Decrypt) => 1,
            (End::Stealing, _) => BLOCK + 1,
            _ => 0,
        }
    }

    /// Processes whole blocks.
    fn transform(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        if self.end == End::Segment {
            return self.feed_back(input, out);
        }
        self.context.update(input, out)?;
        let ciphertext = if self.direction == Direction::Encrypt { out } else { input };
        if let Some(last) = ciphertext.last_chunk() {
            self.chain = *last;
        }
        Ok(())
    }

    /// Computes CFB (SP 800-38A, 6.3, with s = 64). It encrypts the register, and then shifts a
    /// segment of ciphertext into it.
    fn feed_back(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let mut pad = [0; BLOCK];
        for (input, out) in input.chunks(8).zip(out.chunks_mut(8)) {
            self.context.update(&self.chain, &mut pad)?;
            for (out, (byte, pad)) in out.iter_mut().zip(input.iter().zip(pad)) {
                *out = byte ^ pad;
            }
            self.chain.copy_within(8.., 0);
            self.chain[8..].copy_from_slice(if self.direction == Direction::Encrypt { out } else { input });
        }
        Ok(())
    }

    /// Returns the mode to its state before it tried the last block.
    fn rewind(&mut self, chain: [u8; BLOCK]) -> Result<()> {
        self.chain = chain;
        self.context.start(&chain)
    }

    fn end(&mut self, out: &mut [u8]) -> Result<usize> {
        match (self.end, self.direction) {
            (End::Nothing | End::Segment, _) if self.held_len == 0 => Ok(0),
            (End::Padding, Direction::Encrypt) => self.pad(prefix(out, BLOCK)?),
            (End::Padding, Direction::Decrypt) if self.held_len == BLOCK => self.unpad(out),
            (End::Stealing, _) if self.held_len >= BLOCK => self.steal(prefix(out, self.held_len)?),
            (_, direction) => Err(length_error(direction)),
        }
    }

    fn pad(&mut self, out: &mut [u8]) -> Result<usize> {
        let padding = BLOCK - self.held_len;
        let mut last = self.held.clone();
        last[self.held_len..].fill(padding as u8);
        self.transform(&last[..BLOCK], out)?;
        Ok(BLOCK)
    }

    fn unpad(&mut self, out: &mut [u8]) -> Result<usize> {
        let chain = self.chain;
        let (last, mut plain) = (self.held.clone(), Zeroizing::new([0; BLOCK]));
        self.transform(&last[..BLOCK], &mut *plain)?;
        let (good, len) = padding::pkcs7(&*plain, BLOCK);
        if !bool::from(good) {
            return Err(Error::EncryptedDataInvalid);
        }
        match prefix(out, len) {
            Ok(out) => out.copy_from_slice(&plain[..len]),
            Err(too_small) => {
                self.rewind(chain)?;
                return Err(too_small);
            }
        }
        Ok(len)
    }

    /// Ends the message with CS1 of the addendum to SP 800-38A. `out` is as long as the held bytes,
    /// which are one block or more.
    fn steal(&mut self, out: &mut [u8]) -> Result<usize> {
        let (len, held) = (self.held_len, self.held.clone());
        match (len % BLOCK, self.direction) {
            (0, _) => self.transform(&held[..len], out),
            (rest, Direction::Encrypt) => self.steal_encrypting(&held[..len], rest, out),
            (rest, Direction::Decrypt) => self.steal_decrypting(&held[..len], rest, out),
        }?;
        Ok(len)
    }

    /// Encrypts the last two blocks. The last block is padded with zeros, and the ciphertext of the
    /// block before it is cut to the same length.
    fn steal_encrypting(&mut self, plain: &[u8], rest: usize, out: &mut [u8]) -> Result<()> {
        let (mut padded, mut cipher) = (Zeroizing::new([0; HELD]), [0; HELD]);
        padded[..plain.len()].copy_from_slice(plain);
        self.transform(&*padded, &mut cipher)?;
        out[..rest].copy_from_slice(&cipher[..rest]);
        out[rest..].copy_from_slice(&cipher[BLOCK..]);
        Ok(())
    }

    fn steal_decrypting(&mut self, cipher: &[u8], rest: usize, out: &mut [u8]) -> Result<()> {
        let chain = self.chain;
        // With a chaining value of zero the last block decrypts to its own input. This input is the
        // last plaintext XORed with the incomplete block, followed by the missing end of that
        // block.
        self.rewind([0; BLOCK])?;
        let mut input = Zeroizing::new([0; BLOCK]);
        self.transform(&cipher[rest..], &mut *input)?;
        let (last, before) = (&cipher[..rest], &mut [0; BLOCK]);
        before[..rest].copy_from_slice(last);
        before[rest..].copy_from_slice(&input[rest..]);
        self.rewind(chain)?;
        let (plain, end) = out.split_at_mut(BLOCK);
        self.transform(before, plain)?;
        for (out, (byte, stub)) in end.iter_mut().zip(input.iter().zip(last)) {
            *out = byte ^ stub;
        }
        Ok(())
    }
}

impl Cipher for Blocks {
    fn update_len(&self, len: usize) -> usize {
        (self.held_len + len).saturating_sub(self.keep()) / self.block() * self.block()
    }

    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.update_len(input.len());
        let out = prefix(out, len)?;
        // The held bytes go first, filled up to whole blocks. The other blocks come directly from
        // the input.
        let head = if self.held_len == 0 { 0 } else { self.held_len.next_multiple_of(self.block()).min(len) };
        let (old, new) = (self.held_len.min(head), head.saturating_sub(self.held_len));
        if head > 0 {
            let mut first = self.held.clone();
            first[old..head].copy_from_slice(&input[..new]);
            self.transform(&first[..head], &mut out[..head])?;
            self.held.copy_within(old..self.held_len, 0);
            self.held_len -= old;
        }
        let end = new + len - head;
        self.transform(&input[new..end], &mut out[head..])?;
        let rest = &input[end..];
        self.held[self.held_len..][..rest.len()].copy_from_slice(rest);
        self.held_len += rest.len();
        Ok(len)
    }

    fn finish_len(&self) -> usize {
        match self.end {
            End::Nothing | End::Segment => 0,
            End::Padding => BLOCK,
            End::Stealing => self.held_len,
        }
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        let ended = self.end(out);
        if !matches!(ended, Err(Error::BufferTooSmall { .. })) {
            self.reset()?;
        }
        ended
    }

    fn reset(&mut self) -> Result<()> {
        self.held.fill(0);
        self.held_len = 0;
        let Some(iv) = self.iv else { return Ok(()) };
        self.chain = iv;
        // For CFB the context uses ECB, which has no initialisation vector.
        if self.end == End::Segment { Ok(()) } else { self.context.start(&iv) }
    }

    fn renew(&mut self, scheme: &CipherScheme) -> Result<bool> {
        let (CipherScheme::AesCbc { iv, .. } | CipherScheme::AesCts { iv }) = scheme else {
            return Ok(false);
        };
        self.iv = Some(*iv);
        self.reset()?;
        Ok(true)
    }

    fn save(&self) -> Result<SavedCipher> {
        let context = self.context.duplicate()?;
        Ok(SavedCipher::Running(Box::new(Self { context, held: self.held.clone(), ..*self })))
    }
}
