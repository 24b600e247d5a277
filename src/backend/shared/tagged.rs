//! Authenticated ciphers whose tag follows the ciphertext, as `C_Encrypt` writes it and `C_Decrypt`
//! expects it. Each encrypts or decrypts one whole message with an [`Aead`].

use crate::backend::api::{
    Aead, AeadScheme, Cipher, CipherScheme, Direction, Nonce, Renewal, Whole, collected, of_message, output,
};
use crate::error::{Error, Result};

/// Builds the cipher of a [`CipherScheme::Aead`]. `aead` has the key. Fails with
/// `MechanismParamInvalid` for lengths that the standard of the cipher does not allow.
pub(in crate::backend) fn tagged(
    aead: Box<dyn Aead>,
    scheme: &CipherScheme,
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    let CipherScheme::Aead { cipher, nonce, aad, tag_len, data_len } = scheme else {
        return Err(Error::MechanismInvalid);
    };
    let (cipher, tag_len, data_len) = (*cipher, *tag_len, *data_len);
    cipher.check(nonce.len(), tag_len)?;
    if cipher == AeadScheme::AesCcm {
        AeadScheme::check_ccm_len(nonce.len(), data_len)?;
    }
    let (nonce, aad) = (nonce.clone(), aad.clone());
    collected(Tagged { aead, cipher, direction, nonce, aad, tag_len, data_len })
}

struct Tagged {
    aead: Box<dyn Aead>,
    cipher: AeadScheme,
    direction: Direction,
    nonce: Nonce,
    aad: Box<[u8]>,
    tag_len: usize,
    /// The length of the message without its tag. Only CCM requires it.
    data_len: usize,
}

impl Tagged {
    /// Returns whether a message without its tag may have this length.
    fn takes(&self, len: usize) -> bool {
        match self.cipher {
            AeadScheme::AesCcm => len == self.data_len,
            _ => self.cipher.takes_message(len),
        }
    }
}

impl Whole for Tagged {
    fn output_len(&self, input: usize) -> Result<usize> {
        let (message, out) = match self.direction {
            Direction::Encrypt => (Some(input), input.checked_add(self.tag_len)),
            Direction::Decrypt => (input.checked_sub(self.tag_len), input.checked_sub(self.tag_len)),
        };
        match out {
            Some(out) if message.is_some_and(|len| self.takes(len)) => Ok(out),
            _ => Err(of_message(self.direction)(jeton_crypto::Error::Length)),
        }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        let out = output(out, len)?;
        match self.direction {
            Direction::Encrypt => {
                let (ciphertext, tag) = out.split_at_mut(input.len());
                self.aead.seal(&self.nonce, &self.aad, input, ciphertext, tag)?;
            }
            Direction::Decrypt => {
                let (ciphertext, tag) = input.split_at(len);
                self.aead.open(&self.nonce, &self.aad, ciphertext, tag, out)?;
            }
        }
        Ok(len)
    }

    fn renew(&mut self, new: Renewal<'_>) -> Result<bool> {
        match self.cipher {
            AeadScheme::AesGcm => renew_gcm(new, &mut self.nonce, &mut self.aad, self.tag_len),
            AeadScheme::AesCcm | AeadScheme::ChaCha20Poly1305 => Ok(false),
        }
    }
}

/// Sets another parameter of GCM. Returns false for the parameters of other ciphers. Also returns
/// false if the length of the nonce or of the tag changes: a context of AWS-LC has a fixed length
/// for the nonce, and the policy checks both lengths when an operation gets a new cipher.
pub(in crate::backend) fn renew_gcm(
    new: Renewal<'_>,
    nonce: &mut Nonce,
    aad: &mut Box<[u8]>,
    tag_len: usize,
) -> Result<bool> {
    let Renewal::Gcm(gcm) = new else { return Ok(false) };
    if gcm.nonce.len() != nonce.len() || gcm.tag_len != tag_len {
        return Ok(false);
    }
    gcm.assign(nonce, aad)?;
    Ok(true)
}
