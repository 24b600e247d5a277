//! AES of AWS-LC as a [`BlockCipher`] for the shared modes, and ECB and CBC of AWS-LC as a
//! [`Chain`].

use jeton_crypto::library::{self, BlockCipher};
use jeton_crypto::modes::{Chain, cs1};

use super::super::ffi::{CipherCtx, Mode};
use super::BLOCK;
use crate::backend::api::{Direction, library_error};
use crate::error::Result;

/// AES in one direction.
pub(super) struct OneWay(CipherCtx);

impl OneWay {
    pub(super) fn new(key: &[u8], direction: Direction) -> Result<Self> {
        CipherCtx::new(Mode::Ecb, key, direction).map(Self)
    }
}

impl BlockCipher<BLOCK> for OneWay {
    fn process(&mut self, blocks: &mut [[u8; BLOCK]]) -> jeton_crypto::Result<()> {
        self.0.update_in_place(blocks.as_flattened_mut()).map_err(library_error)
    }

    fn duplicate(&self) -> jeton_crypto::Result<Self> {
        self.0.duplicate().map(Self).map_err(library_error)
    }
}

pub(super) struct Ecb(OneWay);

impl Ecb {
    pub(super) fn new(key: &[u8], direction: Direction) -> Result<Self> {
        OneWay::new(key, direction).map(Self)
    }
}

impl Chain<BLOCK> for Ecb {
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> jeton_crypto::Result<()> {
        self.0.0.update(input, out).map_err(library_error)
    }

    fn duplicate(&self) -> jeton_crypto::Result<Self> {
        self.0.duplicate().map(Self)
    }
}

pub(super) struct Cbc {
    context: CipherCtx,
    direction: Direction,
    iv: [u8; BLOCK],
    last: [u8; BLOCK],
}

impl Cbc {
    pub(super) fn new(key: &[u8], direction: Direction, iv: &[u8; BLOCK]) -> Result<Self> {
        let context = CipherCtx::new(Mode::Cbc, key, direction)?;
        Ok(Self { context, direction, iv: *iv, last: *iv })
    }
}

impl Chain<BLOCK> for Cbc {
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> jeton_crypto::Result<()> {
        self.context.update(input, out).map_err(library_error)?;
        let ciphertext = if self.direction == Direction::Encrypt { out } else { input };
        if let Some(last) = ciphertext.last_chunk() {
            self.last = *last;
        }
        Ok(())
    }

    fn steal(
        &mut self,
        direction: library::Direction,
        input: &[u8],
        out: &mut [u8],
    ) -> jeton_crypto::Result<()> {
        cs1(self, direction, input, out)
    }

    fn start_over(&mut self) -> jeton_crypto::Result<()> {
        self.go_to(self.iv)
    }

    fn position(&self) -> [u8; BLOCK] {
        self.last
    }

    fn go_to(&mut self, position: [u8; BLOCK]) -> jeton_crypto::Result<()> {
        self.last = position;
        self.context.start(&position).map_err(library_error)
    }

    fn set_iv(&mut self, iv: [u8; BLOCK]) -> bool {
        self.iv = iv;
        true
    }

    fn duplicate(&self) -> jeton_crypto::Result<Self> {
        Ok(Self { context: self.context.duplicate().map_err(library_error)?, ..*self })
    }
}
