//! Ciphers and authentication codes: what a backend makes of them, and the parameters with which it is asked.

use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

use super::Hash;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Symmetric ciphers, authenticated ones and key wraps too.
pub trait Ciphers: Sync {
    /// A cipher owned by one session. `KeySizeRange` where the key's length does not fit, `MechanismParamInvalid`
    /// where the parameter does not (a nonce length, a tag length, a counter width), `MechanismInvalid` where this
    /// backend lacks the cipher.
    fn cipher(&self, scheme: &CipherScheme, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>>;
    /// An authenticated cipher for whole messages, owned by one session. `KeySizeRange` as above.
    fn aead(&self, scheme: AeadScheme, key: &[u8]) -> Result<Box<dyn Aead>>;
}

/// Encrypts and decrypts whole messages with one key, each under a nonce and a tag length of its own, and keeps what
/// can be kept from one to the next. `MechanismParamInvalid` where the lengths are not what the
/// [scheme takes](AeadScheme::takes).
pub trait Aead: Send {
    /// Encrypts `input` into `out`, of the same length. `DataLenRange` where the message is too long.
    fn seal(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()>;
    /// Decrypts `input` into `out`, of the same length, which holds no plaintext where the tag is wrong:
    /// `EncryptedDataInvalid`. `EncryptedDataLenRange` where the message is too long.
    fn open(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()>;
}

/// An authenticated cipher without its parameter; the variants are those of [`CipherScheme`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the ciphers'")]
pub enum AeadScheme {
    AesGcm,
    AesCcm,
    ChaCha20Poly1305,
}

impl AeadScheme {
    /// The longest nonce of all in bytes.
    pub const MAX_NONCE: usize = 256;
    /// The longest tag of all in bytes.
    pub const MAX_TAG: usize = 16;

    /// Whether nonce and tag may have these lengths.
    pub fn takes(self, nonce_len: usize, tag_len: usize) -> bool {
        match self {
            // SP 800-38D, 5.2.1.2.
            Self::AesGcm => (1..=Self::MAX_NONCE).contains(&nonce_len) && matches!(tag_len, 4 | 8 | 12..=16),
            // SP 800-38C, A.1.
            Self::AesCcm => (7..=13).contains(&nonce_len) && matches!(tag_len, 4 | 6 | 8 | 10 | 12 | 14 | 16),
            // RFC 8439, 2.8.
            Self::ChaCha20Poly1305 => (nonce_len, tag_len) == (12, 16),
        }
    }
}

/// Encrypts or decrypts one message in any number of parts, again and again with the same key and parameter.
///
/// What an authenticated cipher decrypts is given out by [`finish`](Self::finish) alone, after the tag was verified.
pub trait Cipher: Send {
    /// How many bytes [`update`](Self::update) will write for an input of `len` bytes: exact.
    fn update_len(&self, len: usize) -> usize;
    /// Takes a part of the message and writes what is complete into the front of `out`; how much. `input` and
    /// `out` do not overlap. `BufferTooSmall` leaves the state as it was.
    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize>;
    /// How many bytes [`finish`](Self::finish) will write at most; exact but for the removal of padding.
    fn finish_len(&self) -> usize;
    /// Writes the end of the message and starts over. Encryption: `DataLenRange` where the message has no whole
    /// number of blocks and the mode wants one. Decryption: `EncryptedDataLenRange` likewise (and for input shorter
    /// than a tag), `EncryptedDataInvalid` where tag or padding is wrong.
    fn finish(&mut self, out: &mut [u8]) -> Result<usize>;
    /// Forgets the message so far and starts over.
    fn reset(&mut self) -> Result<()>;
    /// A whole message: [`update`](Self::update) and [`finish`](Self::finish), with their errors. `out` has room for what
    /// both say.
    fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        in_parts(self, input, out)
    }
    /// Starts over with another parameter, which is of the same kind, under the same key. False where that takes a new
    /// cipher; this one is then as it was, as after an error of the parameter.
    fn renew(&mut self, _scheme: &CipherScheme) -> Result<bool> {
        Ok(false)
    }
    /// What it takes to go on from here later; `StateUnsaveable` where the library makes no second cipher.
    fn save(&self) -> Result<SavedCipher> {
        Err(Error::StateUnsaveable)
    }
}

/// A whole message as one part and the end.
pub(super) fn in_parts<C: Cipher + ?Sized>(cipher: &mut C, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let written = cipher.update(input, out)?;
    Ok(written + cipher.finish(&mut out[written..])?)
}

/// Where a cipher stands in its message.
pub enum SavedCipher {
    /// A second cipher that goes on from here.
    Running(Box<dyn Cipher>),
    /// The message so far: nothing was given out yet, and a new cipher takes it again.
    Collected(Secret),
}

/// Which way a cipher works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Direction {
    Encrypt,
    Decrypt,
}

/// A nonce or initialisation vector of any length. The usual ones are held without an allocation: each message has
/// another, and a session takes it three times on its way.
#[derive(PartialEq, Eq)]
pub struct Nonce(SmallVec<[u8; 16]>);

impl Clone for Nonce {
    fn clone(&self) -> Self {
        // The vector's own goes byte by byte.
        Self::from(&self.0)
    }
}

impl<T: AsRef<[u8]>> From<T> for Nonce {
    fn from(bytes: T) -> Self {
        Self(SmallVec::from_slice(bytes.as_ref()))
    }
}

impl Deref for Nonce {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Nonce {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A symmetric cipher with its parameter. AES keys are of 16, 24 or 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub enum CipherScheme {
    /// SP 800-38A ECB; whole blocks.
    AesEcb,
    /// SP 800-38A CBC; whole blocks, or padded as PKCS #7 does.
    AesCbc {
        /// The initialisation vector.
        iv: [u8; 16],
        /// PKCS #7 padding.
        padded: bool,
    },
    /// CBC with ciphertext stealing, CS1 of the addendum to SP 800-38A (the PKCS#11 form); at least one block.
    AesCts {
        /// The initialisation vector.
        iv: [u8; 16],
    },
    /// SP 800-38A CTR.
    AesCtr {
        /// The first counter block.
        block: [u8; 16],
        /// How many of its last bits count (1 to 128); a message that would make them wrap is `DataLenRange`.
        bits: u32,
    },
    /// SP 800-38A OFB.
    AesOfb {
        /// The initialisation vector.
        iv: [u8; 16],
    },
    /// SP 800-38A CFB.
    AesCfb {
        /// The initialisation vector.
        iv: [u8; 16],
        /// Segment size: 1, 8, 64 or 128 bits. Whole segments, but for 128, which takes any length.
        bits: u32,
    },
    /// SP 800-38E XTS; a key of 32 or 64 bytes, at least one block.
    AesXts {
        /// The tweak (data unit sequence number), little-endian.
        tweak: [u8; 16],
    },
    /// SP 800-38D GCM; ciphertext with the tag behind it.
    AesGcm {
        /// 1 to 256 bytes.
        iv: Nonce,
        /// Additional authenticated data.
        aad: Box<[u8]>,
        /// 4, 8, 12 to 16 bytes.
        tag_len: usize,
    },
    /// SP 800-38C CCM; ciphertext with the tag behind it.
    AesCcm {
        /// 7 to 13 bytes.
        nonce: Nonce,
        /// Additional authenticated data.
        aad: Box<[u8]>,
        /// 4, 6, … 16 bytes.
        tag_len: usize,
        /// Length of the message, without the tag, that was announced; another is `DataLenRange`.
        data_len: usize,
    },
    /// SP 800-38F KW; a multiple of 8 bytes, at least 16.
    AesKw {
        /// The initial value in place of A6A6A6A6A6A6A6A6.
        iv: Option<[u8; 8]>,
    },
    /// SP 800-38F KWP; 1 byte or more.
    AesKwp {
        /// The first half of the initial value in place of A65959A6.
        iv: Option<[u8; 4]>,
    },
    /// ChaCha20 (RFC 8439 with a nonce of 12 bytes and a counter of 32 bits; the original with 8 and 64).
    ChaCha20 {
        /// 8 or 12 bytes.
        nonce: Box<[u8]>,
        /// The first block's counter.
        counter: u64,
    },
    /// Triple DES with three keys, ECB (SP 800-67); whole blocks of 8 bytes.
    Des3Ecb,
    /// Triple DES in CBC; whole blocks of 8 bytes, or padded as PKCS #7 does.
    Des3Cbc {
        /// The initialisation vector.
        iv: [u8; 8],
        /// PKCS #7 padding.
        padded: bool,
    },
    /// ChaCha20-Poly1305 (RFC 8439); ciphertext with the tag of 16 bytes behind it.
    ChaCha20Poly1305 {
        /// 12 bytes.
        nonce: [u8; 12],
        /// Additional authenticated data.
        aad: Box<[u8]>,
    },
}

impl CipherScheme {
    /// The length of the result of a whole message of `len` bytes: exact, but for the padding that a decryption
    /// removes, where it is what the result has at most.
    pub fn output_len(&self, direction: Direction, len: usize) -> usize {
        let encrypts = direction == Direction::Encrypt;
        let grown = match self {
            Self::AesCbc { padded: true, .. } if encrypts => return len - len % 16 + 16,
            Self::Des3Cbc { padded: true, .. } if encrypts => return len - len % 8 + 8,
            Self::AesKwp { .. } if encrypts => return len.next_multiple_of(8) + 8,
            Self::AesGcm { tag_len, .. } | Self::AesCcm { tag_len, .. } => *tag_len,
            Self::ChaCha20Poly1305 { .. } => 16,
            Self::AesKw { .. } | Self::AesKwp { .. } => 8,
            _ => 0,
        };
        if encrypts { len + grown } else { len.saturating_sub(grown) }
    }
}

/// Message authentication codes.
pub trait Macs: Sync {
    /// A code owned by one session; the errors of [`Ciphers::cipher`].
    fn mac(&self, scheme: &MacScheme, key: &[u8]) -> Result<Box<dyn Mac>>;
    /// PBKDF2 (RFC 8018, 5.2) with HMAC fills `out`; `MechanismInvalid` for other hashes than SHA-1 and SHA-2
    /// where a backend lacks them, `MechanismParamInvalid` without an iteration.
    fn pbkdf2(&self, hash: Hash, password: &[u8], salt: &[u8], iterations: u32, out: &mut [u8])
    -> Result<()>;
}

/// Makes codes, again and again with one key.
pub trait Mac: Send {
    /// Length of the whole code in bytes. Cutting it and comparing it is the caller's work.
    fn mac_len(&self) -> usize;
    /// Takes a part of the message.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Writes the code into `out[..mac_len]` and starts over.
    fn finish(&mut self, out: &mut [u8]) -> Result<()>;
    /// Forgets the message so far.
    fn reset(&mut self) -> Result<()>;
    /// A second code that goes on from here; `StateUnsaveable` where the library makes none.
    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Err(Error::StateUnsaveable)
    }
}

/// A message authentication code.
#[derive(Clone, PartialEq, Eq)]
pub enum MacScheme {
    /// FIPS 198-1, any key length.
    Hmac(Hash),
    /// SP 800-38B with AES.
    AesCmac,
    /// SP 800-38D GMAC with AES, tag of 16 bytes.
    AesGmac {
        /// 1 to 256 bytes.
        iv: Box<[u8]>,
    },
    /// ISO/IEC 9797-1 algorithm 1 with zero padding, as `CKM_AES_MAC` (FIPS 113 with AES).
    AesCbcMac,
    /// RFC 3566 AES-XCBC-MAC, whole (16 bytes); keys of 16 bytes.
    AesXcbc,
    /// RFC 2104 with MD5, for the pseudo-random function of TLS 1.0 and 1.1 (RFC 2246, 5); nothing else is offered it.
    HmacMd5,
}
