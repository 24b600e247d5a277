//! The parameter of a message that an authenticated cipher encrypts or decrypts (PKCS#11 3.2,
//! "Message-based encryption functions" and "Message-based decryption functions").

use serde::{Deserialize, Serialize};

use crate::cipher::{AeadScheme, Nonce};
use crate::error::{Error, Result, require};

/// The source of the part of a nonce that is not fixed (`CK_GENERATOR_FUNCTION`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generator {
    /// `CKG_NO_GENERATE`: the application supplies the nonce.
    None,
    /// `CKG_GENERATE`: the token chooses the method.
    Any,
    /// `CKG_GENERATE_COUNTER`: the token counts from zero.
    Counter,
    /// `CKG_GENERATE_RANDOM`: the token generates random bits.
    Random,
    /// `CKG_GENERATE_COUNTER_XOR`: the token XORs a counter from zero onto the bits of the
    /// application's nonce that are not fixed.
    CounterXor,
}

/// The parameter of a message: `CK_GCM_MESSAGE_PARAMS`, `CK_CCM_MESSAGE_PARAMS` or
/// `CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS`. Encryption writes the generated nonce and the tag
/// into it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Received")]
pub struct MessageParams {
    scheme: AeadScheme,
    nonce: Nonce,
    fixed_bits: usize,
    generator: Generator,
    tag: [u8; AeadScheme::MAX_TAG],
    tag_len: usize,
    data_len: usize,
}

/// A parameter from a message, whose lengths nobody has checked.
#[derive(Deserialize)]
struct Received {
    scheme: AeadScheme,
    nonce: Nonce,
    fixed_bits: usize,
    generator: Generator,
    tag: [u8; AeadScheme::MAX_TAG],
    tag_len: usize,
    data_len: usize,
}

impl TryFrom<Received> for MessageParams {
    type Error = &'static str;

    fn try_from(given: Received) -> Result<Self, Self::Error> {
        let mut params = Self::new(given.scheme, &given.nonce, given.tag_len)
            .and_then(|mut params| params.set_generator(given.generator, given.fixed_bits).map(|()| params))
            .map_err(|_| "the lengths of a nonce or tag")?;
        (params.tag, params.data_len) = (given.tag, given.data_len);
        Ok(params)
    }
}

impl MessageParams {
    /// Builds the parameter with this nonce, no generator, and a tag of zeros. Fails with
    /// `MechanismParamInvalid` if the cipher does not support the length of the nonce or of the
    /// tag.
    pub fn new(scheme: AeadScheme, nonce: &[u8], tag_len: usize) -> Result<Self> {
        let mut params = Self::empty();
        params.set_nonce(scheme, nonce, tag_len)?;
        Ok(params)
    }

    /// Returns a parameter without nonce and tag, to be filled where it is: a processor waits if a
    /// value is moved right after its parts were written.
    #[inline]
    pub fn empty() -> Self {
        Self {
            scheme: AeadScheme::AesGcm,
            nonce: Nonce::from([]),
            fixed_bits: 0,
            generator: Generator::None,
            tag: [0; AeadScheme::MAX_TAG],
            tag_len: 0,
            data_len: 0,
        }
    }

    /// Sets the cipher, its nonce and the length of its tag. Fails with `MechanismParamInvalid` if
    /// the cipher does not support the length of the nonce or of the tag.
    #[inline]
    pub fn set_nonce(&mut self, scheme: AeadScheme, nonce: &[u8], tag_len: usize) -> Result<()> {
        require(scheme.takes(nonce.len(), tag_len), Error::MechanismParamInvalid)?;
        self.nonce.assign(nonce);
        (self.scheme, self.tag_len) = (scheme, tag_len);
        Ok(())
    }

    /// Sets the generator of the nonce and the number of leading bits that it must keep. Fails with
    /// `MechanismParamInvalid` if the nonce has fewer bits.
    #[inline]
    pub fn set_generator(&mut self, generator: Generator, fixed_bits: usize) -> Result<()> {
        if generator != Generator::None && fixed_bits > 8 * self.nonce.len() {
            return Err(Error::MechanismParamInvalid);
        }
        (self.generator, self.fixed_bits) = (generator, fixed_bits);
        Ok(())
    }

    /// Sets the length of the message. Only CCM needs it.
    #[inline]
    pub fn announce(&mut self, data_len: usize) {
        self.data_len = data_len;
    }

    /// Sets the tag for decryption. Fails with `MechanismParamInvalid` if it does not have the
    /// length given before.
    #[inline]
    pub fn set_tag(&mut self, tag: &[u8]) -> Result<()> {
        require(tag.len() == self.tag_len, Error::MechanismParamInvalid)?;
        self.tag[..tag.len()].copy_from_slice(tag);
        Ok(())
    }

    /// Returns the cipher that the parameter is for.
    pub fn scheme(&self) -> AeadScheme {
        self.scheme
    }

    /// Returns the nonce.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    /// Returns the memory of the nonce, into which the generator writes.
    pub fn nonce_mut(&mut self) -> &mut [u8] {
        &mut self.nonce
    }

    /// Returns the generator of the nonce.
    pub fn generator(&self) -> Generator {
        self.generator
    }

    /// Returns the number of leading bits of the nonce that the generator must keep.
    pub fn fixed_bits(&self) -> usize {
        self.fixed_bits
    }

    /// Returns the tag.
    pub fn tag(&self) -> &[u8] {
        &self.tag[..self.tag_len]
    }

    /// Returns the nonce, and the memory into which encryption writes the tag.
    pub fn nonce_and_tag(&mut self) -> (&[u8], &mut [u8]) {
        (&self.nonce, &mut self.tag[..self.tag_len])
    }

    /// Returns the length of the message from [`Self::announce`], or 0.
    pub fn data_len(&self) -> usize {
        self.data_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn each_cipher_checks_the_lengths_of_nonce_and_tag() {
        let new =
            |scheme, nonce_len, tag_len| MessageParams::new(scheme, &vec![0; nonce_len], tag_len).is_ok();
        for (nonce_len, tag_len, gcm, ccm, poly) in [
            (12, 16, true, true, true),
            (12, 4, true, true, false),
            (12, 6, false, true, false),
            (7, 16, true, true, false),
            (256, 16, true, false, false),
            (65_537, 16, false, false, false),
            (0, 16, false, false, false),
            (12, 17, false, false, false),
            (12, 0, false, false, false),
        ] {
            assert_eq!(new(AeadScheme::AesGcm, nonce_len, tag_len), gcm, "{nonce_len} {tag_len}");
            assert_eq!(new(AeadScheme::AesCcm, nonce_len, tag_len), ccm, "{nonce_len} {tag_len}");
            assert_eq!(new(AeadScheme::ChaCha20Poly1305, nonce_len, tag_len), poly, "{nonce_len} {tag_len}");
        }
    }
}
