//! The interface of modes whose output has the length of the input at each step, and CFB (SP
//! 800-38A).

use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::library::{BlockCipher, Direction};

/// The length of a block in bytes.
const N: usize = 16;

/// A mode whose output has the length of the input at each step.
pub trait Mode: Sized + Send {
    /// Processes `data` in place. The caller has checked its length with [`fits`](Self::fits).
    fn apply(&mut self, data: &mut [u8]) -> Result<()>;
    /// Fails with `Length` if the message cannot have `len` more bytes.
    fn fits(&self, _len: usize) -> Result<()> {
        Ok(())
    }
    /// Fails with `Length` if the message cannot end here.
    fn end(&self) -> Result<()> {
        Ok(())
    }
    /// Starts a new message.
    fn start_over(&mut self);
    /// Copies the mode with its current state.
    fn copied(&self) -> Result<Self>;
}

/// CFB with segments of whole bytes.
pub struct Cfb<E> {
    cipher: E,
    direction: Direction,
    iv: [u8; N],
    /// The length of a segment in bytes.
    segment: usize,
    /// The last `N` bytes of the initialisation vector and the ciphertext after it. During a
    /// segment, its bytes replace the end of the register one by one.
    register: [u8; N],
    keystream: Zeroizing<[u8; N]>,
    /// The number of processed bytes of the current segment.
    used: usize,
}

impl<E: BlockCipher<N>> Cfb<E> {
    /// Builds the mode. `cipher` encrypts in both directions. Returns `None` unless a segment has
    /// 8, 64 or 128 bits.
    pub fn new(cipher: E, direction: Direction, iv: &[u8; N], bits: u32) -> Option<Self> {
        let segment = match bits {
            8 => 1,
            64 => 8,
            128 => 16,
            _ => return None,
        };
        Some(Self {
            cipher,
            direction,
            iv: *iv,
            segment,
            register: *iv,
            keystream: Zeroizing::default(),
            used: 0,
        })
    }
}

impl<E: BlockCipher<N>> Mode for Cfb<E> {
    fn apply(&mut self, data: &mut [u8]) -> Result<()> {
        let start = N - self.segment;
        for byte in data {
            if self.used == 0 {
                *self.keystream = self.register;
                self.cipher.process(std::slice::from_mut(&mut *self.keystream))?;
                self.register.copy_within(self.segment.., 0);
            }
            let given = *byte;
            *byte ^= self.keystream[self.used];
            self.register[start + self.used] =
                if self.direction == Direction::Encrypt { *byte } else { given };
            self.used = (self.used + 1) % self.segment;
        }
        Ok(())
    }

    fn end(&self) -> Result<()> {
        if self.used == 0 || self.segment == N { Ok(()) } else { Err(Error::Length) }
    }

    fn start_over(&mut self) {
        self.register = self.iv;
        self.used = 0;
    }

    fn copied(&self) -> Result<Self> {
        let (cipher, keystream) = (self.cipher.duplicate()?, self.keystream.clone());
        Ok(Self { cipher, keystream, ..*self })
    }
}
