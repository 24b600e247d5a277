//! The interface to ciphers and message authentication codes.

use jeton_secret::Secret;
use jeton_words::cipher::{AeadScheme, CipherScheme, Direction, GcmParams};
use jeton_words::hash::Hash;

use crate::error::{Error, Result};

/// Symmetric ciphers, including authenticated ciphers and key wraps.
pub trait Ciphers: Sync {
    /// Creates a cipher for one session. Fails with `KeySizeRange` if the length of the key does
    /// not fit, and with `DataInvalid` if the two halves of an XTS key are equal. Fails with
    /// `MechanismParamInvalid` if the parameter does not fit: a nonce length, a tag length, a
    /// counter width. Fails with `MechanismInvalid` if this backend lacks the cipher.
    fn cipher(&self, scheme: &CipherScheme, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>>;
    /// Creates an authenticated cipher for whole messages, for one session. Fails with
    /// `KeySizeRange` if the length of the key does not fit.
    fn aead(&self, scheme: AeadScheme, key: &[u8]) -> Result<Box<dyn Aead>>;
    /// Encrypts a message with GCM, AES-256 and a random nonce that the library chooses. Returns
    /// the nonce of 12 bytes, the ciphertext and the tag of 16 bytes.
    fn seal_gcm(&self, key: &[u8], aad: &[u8], input: &[u8]) -> Result<Vec<u8>> {
        let mut sealed = vec![0; 12 + input.len() + 16];
        let (nonce, rest) = sealed.split_at_mut(12);
        let (out, tag) = rest.split_at_mut(input.len());
        getrandom::fill(nonce).map_err(|_| Error::DeviceError)?;
        self.aead(AeadScheme::AesGcm, key)?.seal(nonce, aad, input, out, tag)?;
        Ok(sealed)
    }
}

/// Encrypts and decrypts whole messages with one key. Each message has its own nonce and tag
/// length. The cipher keeps reusable state between messages. Both methods fail with
/// `MechanismParamInvalid` if the [scheme does not support](AeadScheme::takes) the lengths. They
/// fail with the same error if the message or the additional data is too long for CCM.
pub trait Aead: Send {
    /// Encrypts `input` into `out`, which has the same length. Except with CCM, fails with
    /// `DataLenRange` if the message is too long.
    fn seal(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()>;
    /// Decrypts `input` into `out`, which has the same length. Fails with `EncryptedDataInvalid` if
    /// the tag is wrong, and then `out` contains no plaintext. Except with CCM, fails with
    /// `EncryptedDataLenRange` if the message is too long.
    fn open(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()>;
}

/// Encrypts or decrypts a message in any number of parts. It can process any number of messages
/// with the same key and parameter.
///
/// An authenticated cipher returns plaintext only from [`finish`](Self::finish), after it has
/// verified the tag.
pub trait Cipher: Send {
    /// Returns the exact number of bytes that [`update`](Self::update) writes for an input of `len`
    /// bytes. A stream cipher writes as many bytes as it reads.
    fn update_len(&self, len: usize) -> usize {
        len
    }
    /// Adds a part of the message. Writes [`update_len`](Self::update_len) bytes to the start of
    /// `out`, and returns their number. `input` and `out` do not overlap. If `out` is too short,
    /// fails with `BufferTooSmall` and keeps its state.
    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize>;
    /// Returns the largest number of bytes that [`finish`](Self::finish) can write. The number is
    /// exact unless decryption removes a padding. It is 0 for a stream cipher.
    fn finish_len(&self) -> usize {
        0
    }
    /// Writes the end of the message and starts a new message. Encryption fails with `DataLenRange`
    /// if the mode does not support the length of the message, such as an incomplete block.
    /// Decryption then fails with `EncryptedDataLenRange`, and also if the input is shorter than a
    /// tag. Decryption fails with `EncryptedDataInvalid` if the tag or the padding is wrong.
    fn finish(&mut self, out: &mut [u8]) -> Result<usize>;
    /// Discards the message so far and starts a new one.
    fn reset(&mut self) -> Result<()>;
    /// Processes a whole message: [`update`](Self::update) and [`finish`](Self::finish), with their
    /// errors. `out` has room for the lengths that both report.
    fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        in_parts(self, input, out)
    }
    /// Starts a new message with another parameter and the same key. Returns false if that needs a
    /// new cipher. Then, and after an error, this cipher keeps its parameter.
    fn renew(&mut self, _new: Renewal<'_>) -> Result<bool> {
        Ok(false)
    }
    /// Saves the state of the message, to continue it later. Fails with `StateUnsaveable` if the
    /// library cannot copy a cipher.
    fn save(&self) -> Result<SavedCipher> {
        Err(Error::StateUnsaveable)
    }
}

/// Processes a whole message as one part and the end.
pub(in crate::backend) fn in_parts<C: Cipher + ?Sized>(
    cipher: &mut C,
    input: &[u8],
    out: &mut [u8],
) -> Result<usize> {
    let written = cipher.update(input, out)?;
    Ok(written + cipher.finish(&mut out[written..])?)
}

/// Another parameter for a cipher that keeps its key.
#[derive(Clone, Copy)]
pub enum Renewal<'a> {
    /// The initialisation vector of CBC.
    Iv(&'a [u8]),
    /// The parameter of GCM.
    Gcm(&'a GcmParams<'a>),
}

/// The saved state of a cipher in a message.
pub enum SavedCipher {
    /// A second cipher that continues from this state.
    Running(Box<dyn Cipher>),
    /// The message so far. The cipher has written no output yet, so a new cipher can process the
    /// message again.
    Collected(Secret),
}

/// A message authentication code.
#[derive(Clone, PartialEq, Eq)]
pub enum MacScheme {
    /// HMAC of FIPS 198-1, with a key of any length.
    Hmac(Hash),
    /// CMAC of SP 800-38B with AES.
    AesCmac,
    /// GMAC of SP 800-38D with AES and a tag of 16 bytes.
    AesGmac {
        /// The initialisation vector.
        iv: Box<[u8]>,
    },
    /// Algorithm 1 of ISO/IEC 9797-1 with zero padding, for `CKM_AES_MAC` (FIPS 113 with AES).
    AesCbcMac,
    /// AES-XCBC-MAC of RFC 3566, with all 16 bytes. The key has 16 bytes.
    AesXcbc,
    /// HMAC of RFC 2104 with MD5. Only the pseudo-random function of TLS 1.0 and 1.1 uses it (RFC
    /// 2246, 5).
    HmacMd5,
}

/// Message authentication codes.
pub trait Macs: Sync {
    /// Creates a MAC for one session. Fails with the errors of [`Ciphers::cipher`].
    fn mac(&self, scheme: &MacScheme, key: &[u8]) -> Result<Box<dyn Mac>>;
    /// Fills `out` with the output of PBKDF2 with HMAC (RFC 8018, 5.2). Fails with
    /// `MechanismInvalid` if the backend does not support the hash. `aws_lc` and `rustcrypto`
    /// support SHA-1 and SHA-2. Fails with `MechanismParamInvalid` if `iterations` is 0.
    fn pbkdf2(&self, hash: Hash, password: &[u8], salt: &[u8], iterations: u32, out: &mut [u8])
    -> Result<()>;
}

/// Computes MACs of any number of messages with one key.
pub trait Mac: Send {
    /// Returns the length of the full MAC in bytes. The caller truncates and compares it.
    fn mac_len(&self) -> usize;
    /// Adds a part of the message.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Writes the MAC to `out[..mac_len]` and starts a new message.
    fn finish(&mut self, out: &mut [u8]) -> Result<()>;
    /// Discards the message so far.
    fn reset(&mut self) -> Result<()>;
    /// Returns whether it keeps all parts until the end of the message.
    fn collects(&self) -> bool {
        false
    }
    /// Copies the MAC with its current state. Fails with `StateUnsaveable` if the library cannot
    /// copy.
    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Err(Error::StateUnsaveable)
    }
}
