//! XTS with AES-256. It collects the message, because AWS-LC processes a data unit in one call.

use jeton_crypto::modes::within_unit;

use super::super::ffi::{CipherCtx, Mode};
use super::BLOCK;
use crate::backend::api::{Cipher, Direction, Whole, collected, of_message, output};
use crate::error::Result;

/// Builds XTS from a key of 64 bytes.
pub(super) fn xts256(key: &[u8], tweak: [u8; BLOCK], direction: Direction) -> Result<Box<dyn Cipher>> {
    let context = CipherCtx::new(Mode::Xts, key, direction)?;
    collected(Xts256 { context, tweak, direction })
}

struct Xts256 {
    context: CipherCtx,
    tweak: [u8; BLOCK],
    direction: Direction,
}

impl Whole for Xts256 {
    fn output_len(&self, input: usize) -> Result<usize> {
        within_unit(input).map(|()| input).map_err(of_message(self.direction))
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        self.context.start(&self.tweak)?;
        self.context.update(input, output(out, len)?)?;
        Ok(len)
    }
}
