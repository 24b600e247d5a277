//! `C_VerifyRecover`: verifies an RSA signature and returns the data that the signature contains.

use std::sync::Arc;

use super::operation::{Engine, Operation, Output, Parts, place};
use crate::backend::{Encryption, PublicKey};
use crate::error::{Error, Result, require};

/// The engine of a recovery.
pub struct Recovering {
    pub(crate) key: Arc<dyn PublicKey>,
    /// True to remove the padding of RSASSA-PKCS1-v1_5. Otherwise the full block is the data.
    pub(crate) padded: bool,
}

impl Recovering {
    fn recover(&self, signature: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.key.encrypted_len();
        require(signature.len() == len, Error::SignatureLenRange)?;
        let mut block = vec![0; len];
        self.key.encrypt(&Encryption::Raw, signature, &mut block).map_err(|error| match error {
            Error::DataInvalid => Error::SignatureInvalid,
            other => other,
        })?;
        let data = if self.padded { remove_padding(&block)? } else { &block };
        place(out, data.len())?.copy_from_slice(data);
        Ok(data.len())
    }
}

impl Engine for Recovering {
    /// Does nothing: the engine keeps no data between calls.
    fn forget(&mut self) {}
}

impl Operation<Recovering> {
    /// `C_VerifyRecover`
    pub fn recover(&mut self, signature: &[u8], out: Output<'_>) -> Result<usize> {
        let engine = self.engine_for(Parts::Single)?;
        let Output::Buffer(out) = out else { return Ok(engine.key.encrypted_len()) };
        let outcome = engine.recover(signature, out);
        self.finish(outcome)
    }
}

/// Removes the padding of RFC 8017, 9.2: `00 01 ff … ff 00` with at least eight bytes of ff. The
/// block is not secret, so the time may depend on it.
fn remove_padding(block: &[u8]) -> Result<&[u8]> {
    let rest = block.strip_prefix(&[0, 1]).ok_or(Error::SignatureInvalid)?;
    let filled = rest.iter().take_while(|byte| **byte == 0xff).count();
    match rest[filled..].split_first() {
        Some((0, data)) if filled >= 8 => Ok(data),
        _ => Err(Error::SignatureInvalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_padding_is_removed() {
        let good = [&[0, 1][..], &[0xff; 8], &[0, 7, 8]].concat();
        assert_eq!(remove_padding(&good), Ok(&[7, 8][..]));
        for wrong in [&good[1..], &[&[0, 1][..], &[0xff; 7], &[0, 7]].concat(), &[0, 1, 0xff], &[]] {
            assert_eq!(remove_padding(wrong), Err(Error::SignatureInvalid));
        }
    }
}
