//! Modes on whole blocks: ECB and CBC (SP 800-38A), CBC with padding or ciphertext stealing (its
//! addendum), XTS (SP 800-38E).

use zeroize::{Zeroize, Zeroizing};

use super::wrong_len;
use crate::backend::rustcrypto::aes::{Aes, BLOCK, Block, xor};
use crate::backend::rustcrypto::output;
use crate::backend::{Cipher, Direction, SavedCipher, padding};
use crate::error::{Error, Result};

/// A block cipher mode. It holds back the bytes of an incomplete block, and those that the end of
/// the message may need.
#[derive(Clone)]
pub(super) struct Blocks {
    chain: Chain,
    ending: Ending,
    direction: Direction,
    held: Zeroizing<[u8; 2 * BLOCK]>,
    held_len: usize,
}

/// The treatment of the end of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The message has only whole blocks.
    Whole,
    /// PKCS #7 padding.
    Padded,
    /// Ciphertext stealing: the last whole block gives its end to the rest.
    Stealing,
}

impl Blocks {
    pub(super) fn ecb(aes: Aes, direction: Direction) -> Self {
        Self::new(Chain::Ecb(aes), Ending::Whole, direction)
    }

    pub(super) fn cbc(aes: Aes, direction: Direction, iv: &Block, padded: bool) -> Self {
        let ending = if padded { Ending::Padded } else { Ending::Whole };
        Self::new(Chain::Cbc { aes, iv: *iv, last: *iv }, ending, direction)
    }

    pub(super) fn cts(aes: Aes, direction: Direction, iv: &Block) -> Self {
        Self::new(Chain::Cbc { aes, iv: *iv, last: *iv }, Ending::Stealing, direction)
    }

    /// Builds XTS. The first half of the key encrypts the data and the second half the tweak.
    pub(super) fn xts(key: &[u8], direction: Direction, tweak: &Block) -> Result<Self> {
        if key.len() != 32 && key.len() != 64 {
            return Err(Error::KeySizeRange);
        }
        let (data, tweaks) = key.split_at(key.len() / 2);
        let mut first = *tweak;
        Aes::new(tweaks)?.encrypt_block(&mut first);
        let first = u128::from_le_bytes(first);
        Ok(Self::new(Chain::Xts { aes: Aes::new(data)?, first, tweak: first }, Ending::Stealing, direction))
    }

    fn new(chain: Chain, ending: Ending, direction: Direction) -> Self {
        Self { chain, ending, direction, held: Zeroizing::default(), held_len: 0 }
    }

    /// Returns how many of the last bytes to hold back until the end of the message is known.
    fn kept(&self) -> usize {
        match (self.ending, self.direction) {
            (Ending::Stealing, _) => BLOCK,
            (Ending::Padded, Direction::Decrypt) => 1,
            _ => 0,
        }
    }

    fn start_over(&mut self) {
        self.chain.start_over();
        self.held.zeroize();
        self.held_len = 0;
    }

    fn whole_blocks(&self) -> Result<usize> {
        if self.held_len == 0 { Ok(0) } else { Err(wrong_len(self.direction)) }
    }

    /// Pads and encrypts the held bytes, which are less than a block.
    fn pad(&mut self, out: &mut [u8]) -> Result<usize> {
        let out = output(out, BLOCK)?;
        let padding = BLOCK - self.held_len;
        self.held[self.held_len..BLOCK].fill(padding as u8);
        out.copy_from_slice(&self.held[..BLOCK]);
        self.chain.run(Direction::Encrypt, out);
        Ok(BLOCK)
    }

    /// Decrypts the last block and removes its padding. The check takes the same time for every
    /// padding.
    fn unpad(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.held_len != BLOCK {
            return Err(Error::EncryptedDataLenRange);
        }
        let mut block = Zeroizing::new([0; BLOCK]);
        block.copy_from_slice(&self.held[..BLOCK]);
        let before = self.chain.position();
        self.chain.run(Direction::Decrypt, &mut *block);
        let (good, len) = padding::pkcs7(&*block, BLOCK);
        if !bool::from(good) {
            return Err(Error::EncryptedDataInvalid);
        }
        match out.get_mut(..len) {
            Some(out) => out.copy_from_slice(&block[..len]),
            None => {
                self.chain.go_back(before);
                return Err(Error::BufferTooSmall { needed: len });
            }
        }
        Ok(len)
    }

    /// Processes the last whole block and the rest after it, which may be empty.
    fn steal(&mut self, out: &mut [u8]) -> Result<usize> {
        let len = self.held_len;
        if len < BLOCK {
            return Err(wrong_len(self.direction));
        }
        let out = output(out, len)?;
        out.copy_from_slice(&self.held[..len]);
        if len == BLOCK {
            self.chain.run(self.direction, out);
        } else {
            self.chain.steal(self.direction, out);
        }
        Ok(len)
    }
}

impl Cipher for Blocks {
    fn update_len(&self, len: usize) -> usize {
        (self.held_len + len).saturating_sub(self.kept()) / BLOCK * BLOCK
    }

    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.update_len(input.len());
        let out = output(out, len)?;
        let of_held = self.held_len.min(len);
        let (before, after) = out.split_at_mut(of_held);
        let (taken, rest) = input.split_at(after.len());
        before.copy_from_slice(&self.held[..of_held]);
        after.copy_from_slice(taken);
        self.held.copy_within(of_held..self.held_len, 0);
        self.held_len -= of_held;
        self.held[self.held_len..][..rest.len()].copy_from_slice(rest);
        self.held_len += rest.len();
        self.chain.run(self.direction, out);
        Ok(len)
    }

    fn finish_len(&self) -> usize {
        match self.ending {
            Ending::Whole => 0,
            Ending::Padded => BLOCK,
            Ending::Stealing => self.held_len,
        }
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        let outcome = match (self.ending, self.direction) {
            (Ending::Whole, _) => self.whole_blocks(),
            (Ending::Padded, Direction::Encrypt) => self.pad(out),
            (Ending::Padded, Direction::Decrypt) => self.unpad(out),
            (Ending::Stealing, _) => self.steal(out),
        };
        if !matches!(outcome, Err(Error::BufferTooSmall { .. })) {
            self.start_over();
        }
        outcome
    }

    fn reset(&mut self) -> Result<()> {
        self.start_over();
        Ok(())
    }

    fn save(&self) -> Result<SavedCipher> {
        Ok(SavedCipher::Running(Box::new(self.clone())))
    }
}

/// The chaining of blocks.
#[derive(Clone)]
enum Chain {
    Ecb(Aes),
    Cbc { aes: Aes, iv: Block, last: Block },
    Xts { aes: Aes, first: u128, tweak: u128 },
}

impl Chain {
    fn start_over(&mut self) {
        match self {
            Self::Ecb(_) => (),
            Self::Cbc { iv, last, .. } => *last = *iv,
            Self::Xts { first, tweak, .. } => *tweak = *first,
        }
    }

    /// Returns the last ciphertext block. Only the removal of padding, which CBC has, goes back to
    /// it.
    fn position(&self) -> Block {
        match self {
            Self::Cbc { last, .. } => *last,
            _ => [0; BLOCK],
        }
    }

    fn go_back(&mut self, position: Block) {
        if let Self::Cbc { last, .. } = self {
            *last = position;
        }
    }

    /// Processes whole blocks in place.
    fn run(&mut self, direction: Direction, data: &mut [u8]) {
        let (blocks, _) = data.as_chunks_mut::<BLOCK>();
        match (self, direction) {
            (Self::Ecb(aes), Direction::Encrypt) => aes.encrypt(blocks),
            (Self::Ecb(aes), Direction::Decrypt) => aes.decrypt(blocks),
            (Self::Cbc { aes, last, .. }, Direction::Encrypt) => cbc_encrypt(aes, last, blocks),
            (Self::Cbc { aes, last, .. }, Direction::Decrypt) => cbc_decrypt(aes, last, blocks),
            (Self::Xts { aes, tweak, .. }, _) => xts(aes, tweak, direction, blocks),
        }
    }

    /// Processes a block and a rest of 1 to 15 bytes in place.
    fn steal(&mut self, direction: Direction, data: &mut [u8]) {
        match (self, direction) {
            (Self::Cbc { aes, last, .. }, Direction::Encrypt) => cs1_encrypt(aes, last, data),
            (Self::Cbc { aes, last, .. }, Direction::Decrypt) => cs1_decrypt(aes, last, data),
            (Self::Xts { aes, tweak, .. }, _) => xts_steal(aes, *tweak, direction, data),
            (Self::Ecb(_), _) => (),
        }
    }
}

/// The number of blocks that are decrypted at once.
const BATCH: usize = 16;

fn cbc_encrypt(aes: &Aes, last: &mut Block, blocks: &mut [Block]) {
    for block in blocks {
        xor(block, last);
        aes.encrypt_block(block);
        *last = *block;
    }
}

fn cbc_decrypt(aes: &Aes, last: &mut Block, blocks: &mut [Block]) {
    for batch in blocks.chunks_mut(BATCH) {
        let mut ciphertext = [[0; BLOCK]; BATCH];
        ciphertext[..batch.len()].copy_from_slice(batch);
        aes.decrypt(batch);
        for (block, ciphertext) in batch.iter_mut().zip(&ciphertext) {
            xor(block, last);
            *last = *ciphertext;
        }
    }
}

/// Encrypts `P | P*` to `C* | C`. The second block is padded with zeros. Only the start of the
/// first ciphertext block is kept.
fn cs1_encrypt(aes: &Aes, last: &mut Block, data: &mut [u8]) {
    let rest_len = data.len() - BLOCK;
    let mut blocks = Zeroizing::new([[0; BLOCK]; 2]);
    blocks.as_flattened_mut()[..data.len()].copy_from_slice(data);
    cbc_encrypt(aes, last, &mut *blocks);
    data[..rest_len].copy_from_slice(&blocks[0][..rest_len]);
    data[rest_len..].copy_from_slice(&blocks[1]);
}

fn cs1_decrypt(aes: &Aes, last: &mut Block, data: &mut [u8]) {
    let rest_len = data.len() - BLOCK;
    let mut second = Zeroizing::new([0; BLOCK]);
    second.copy_from_slice(&data[rest_len..]);
    aes.decrypt_block(&mut second);
    // The padding of the plaintext was zeros, so these bytes are the end of the first ciphertext
    // block.
    let mut first = Zeroizing::new(*second);
    first[..rest_len].copy_from_slice(&data[..rest_len]);
    xor(&mut second[..], &first[..]);
    cbc_decrypt(aes, last, std::slice::from_mut(&mut *first));
    data[..BLOCK].copy_from_slice(&first[..]);
    data[BLOCK..].copy_from_slice(&second[..rest_len]);
}

fn xts(aes: &Aes, tweak: &mut u128, direction: Direction, blocks: &mut [Block]) {
    for batch in blocks.chunks_mut(BATCH) {
        let mut tweaks = [[0; BLOCK]; BATCH];
        for (block, masked) in batch.iter_mut().zip(&mut tweaks) {
            *masked = tweak.to_le_bytes();
            xor(block, masked);
            *tweak = next_tweak(*tweak);
        }
        match direction {
            Direction::Encrypt => aes.encrypt(batch),
            Direction::Decrypt => aes.decrypt(batch),
        }
        for (block, tweak) in batch.iter_mut().zip(&tweaks) {
            xor(block, tweak);
        }
    }
}

/// Returns the tweak times x in GF(2^128), little-endian.
fn next_tweak(tweak: u128) -> u128 {
    (tweak << 1) ^ ((tweak >> 127) * 0x87)
}

fn xts_steal(aes: &Aes, tweak: u128, direction: Direction, data: &mut [u8]) {
    // Decryption uses the two tweaks in the opposite order.
    let (mut first, mut second) = match direction {
        Direction::Encrypt => (tweak, next_tweak(tweak)),
        Direction::Decrypt => (next_tweak(tweak), tweak),
    };
    let (block, rest) = data.split_at_mut(BLOCK);
    let (blocks, _) = block.as_chunks_mut::<BLOCK>();
    xts(aes, &mut first, direction, blocks);
    rest.swap_with_slice(&mut blocks[0][..rest.len()]);
    xts(aes, &mut second, direction, blocks);
}
