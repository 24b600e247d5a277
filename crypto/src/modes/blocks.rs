//! Ciphers on whole blocks. They hold back the bytes of an incomplete block, and the bytes that the
//! end of the message may need.

use zeroize::{Zeroize, Zeroizing};

use super::bytes::output;
use crate::error::{Error, Result, require};
use crate::library::Direction;
use crate::padding;

/// A chain of blocks: ECB, CBC or XTS with a key and a direction.
pub trait Chain<const N: usize>: Send + Sized + 'static {
    /// Processes whole blocks. `out` has the length of `input`.
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<()>;
    /// Processes the last whole block and the 1 to `N - 1` bytes after it.
    fn steal(&mut self, _direction: Direction, _input: &[u8], _out: &mut [u8]) -> Result<()> {
        Err(Error::Length)
    }
    /// Starts a new message.
    fn start_over(&mut self) -> Result<()> {
        Ok(())
    }
    /// Returns the value that the next block depends on. In CBC it is the last block of ciphertext.
    fn position(&self) -> [u8; N] {
        [0; N]
    }
    /// Continues from a value that [`position`](Self::position) returned.
    fn go_to(&mut self, _position: [u8; N]) -> Result<()> {
        Ok(())
    }
    /// Sets the initialisation vector of the next messages. Returns false if that needs a new
    /// chain.
    fn set_iv(&mut self, _iv: [u8; N]) -> bool {
        false
    }
    /// Copies the chain with its current state.
    fn duplicate(&self) -> Result<Self>;
}

/// The treatment of the end of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The message has only whole blocks.
    Whole,
    /// PKCS #7 padding.
    Padded,
    /// Ciphertext stealing: [`Chain::steal`] processes the last whole block and the incomplete
    /// block after it together.
    Stealing,
}

/// A chain with an ending: the cipher of a message in parts.
pub struct Blocks<C, const N: usize> {
    chain: C,
    ending: Ending,
    direction: Direction,
    held: Zeroizing<[[u8; N]; 2]>,
    held_len: usize,
}

impl<C: Chain<N>, const N: usize> Blocks<C, N> {
    /// Builds the cipher, for its first message.
    pub fn new(mut chain: C, ending: Ending, direction: Direction) -> Result<Self> {
        chain.start_over()?;
        Ok(Self { chain, ending, direction, held: Zeroizing::new([[0; N]; 2]), held_len: 0 })
    }

    /// Returns what the cipher does.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the least number of bytes to hold back until the end of the message is known.
    fn kept(&self) -> usize {
        match (self.ending, self.direction) {
            (Ending::Stealing, _) => N,
            // Any block can be the last and contain the padding.
            (Ending::Padded, Direction::Decrypt) => 1,
            _ => 0,
        }
    }

    /// Discards the message so far and starts a new one.
    pub fn start_over(&mut self) -> Result<()> {
        self.held.zeroize();
        self.held_len = 0;
        self.chain.start_over()
    }

    fn end(&mut self, out: &mut [u8]) -> Result<usize> {
        match (self.ending, self.direction, self.held_len) {
            (Ending::Whole, _, 0) => Ok(0),
            (Ending::Padded, Direction::Encrypt, _) => self.pad(output(out, N)?),
            (Ending::Padded, Direction::Decrypt, len) if len == N => self.unpad(out),
            (Ending::Stealing, _, len) if len >= N => self.steal(output(out, len)?),
            _ => Err(Error::Length),
        }
    }

    /// Pads and encrypts the held bytes, which are less than a block.
    fn pad(&mut self, out: &mut [u8]) -> Result<usize> {
        let padding = N - self.held_len;
        self.held[0][self.held_len..].fill(padding as u8);
        self.chain.process(&self.held[0], out)?;
        Ok(N)
    }

    /// Decrypts the last block and removes its padding. The check takes the same time for every
    /// padding.
    fn unpad(&mut self, out: &mut [u8]) -> Result<usize> {
        let before = self.chain.position();
        let mut plain = Zeroizing::new([0; N]);
        self.chain.process(&self.held[0], &mut *plain)?;
        let (good, len) = padding::pkcs7(&*plain, N);
        require(bool::from(good), Error::Invalid)?;
        match output(out, len) {
            Ok(out) => out.copy_from_slice(&plain[..len]),
            Err(too_small) => {
                self.chain.go_to(before)?;
                return Err(too_small);
            }
        }
        Ok(len)
    }

    /// Processes the last whole block and the rest after it, which may be empty.
    fn steal(&mut self, out: &mut [u8]) -> Result<usize> {
        let held = &self.held.as_flattened()[..self.held_len];
        if held.len() == N {
            self.chain.process(held, out)?;
        } else {
            self.chain.steal(self.direction, held, out)?;
        }
        Ok(held.len())
    }

    /// Returns the exact number of bytes that [`update`](Self::update) writes for an input of `len`
    /// bytes.
    pub fn update_len(&self, len: usize) -> usize {
        (self.held_len + len).saturating_sub(self.kept()) / N * N
    }

    /// Adds a part of the message. Writes to the start of `out`, and returns the number of bytes.
    /// If `out` is too short, fails with `TooSmall` and keeps its state.
    pub fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.update_len(input.len());
        let out = output(out, len)?;
        // The held bytes go first, filled up to whole blocks. The other blocks come directly from
        // the input.
        let head = if self.held_len == 0 { 0 } else { self.held_len.next_multiple_of(N).min(len) };
        let (old, new) = (self.held_len.min(head), head.saturating_sub(self.held_len));
        let (first, rest_out) = out.split_at_mut(head);
        if head > 0 {
            let held = self.held.as_flattened_mut();
            held[old..][..new].copy_from_slice(&input[..new]);
            self.chain.process(&held[..head], first)?;
            held.copy_within(old..self.held_len, 0);
            self.held_len -= old;
        }
        let (whole, rest) = input[new..].split_at(len - head);
        self.chain.process(whole, rest_out)?;
        self.held.as_flattened_mut()[self.held_len..][..rest.len()].copy_from_slice(rest);
        self.held_len += rest.len();
        Ok(len)
    }

    /// Returns the largest number of bytes that [`finish`](Self::finish) can write.
    pub fn finish_len(&self) -> usize {
        match self.ending {
            Ending::Whole => 0,
            Ending::Padded => N,
            Ending::Stealing => self.held_len,
        }
    }

    /// Writes the end of the message and starts a new message. Fails with `Length` if the message
    /// cannot have its length, and with `Invalid` if the padding is wrong.
    pub fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        let ended = self.end(out);
        if !matches!(ended, Err(Error::TooSmall { .. })) {
            self.start_over()?;
        }
        ended
    }

    /// Starts a new message with another initialisation vector. Returns false if that needs a new
    /// cipher.
    pub fn set_iv(&mut self, iv: &[u8]) -> Result<bool> {
        let set = iv.as_array().is_some_and(|iv| self.chain.set_iv(*iv));
        if set {
            self.start_over()?;
        }
        Ok(set)
    }

    /// Copies the cipher with the state of its message.
    pub fn duplicate(&self) -> Result<Self> {
        let (chain, held) = (self.chain.duplicate()?, self.held.clone());
        Ok(Self { chain, held, ..*self })
    }
}
