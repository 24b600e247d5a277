//! Symmetric ciphers and their parameters.

use std::ops::{Deref, DerefMut};

use jeton_secret::try_boxed;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded;
use crate::error::{Error, Result};

/// The initial value of KW (RFC 3394, 2.2.3.1).
pub const KW_IV: [u8; 8] = [0xa6; 8];
/// The first half of the initial value of KWP (RFC 5649, 3).
pub const KWP_IV: [u8; 4] = [0xa6, 0x59, 0x59, 0xa6];

/// An authenticated cipher without its parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the ciphers'")]
pub enum AeadScheme {
    AesGcm,
    AesCcm,
    ChaCha20Poly1305,
}

impl AeadScheme {
    /// The length of the longest nonce in bytes. PKCS#11 3.2, `CK_GCM_PARAMS`, permits 2^32-1. A
    /// session keeps three copies of the nonce, and a longer one has no use: GHASH reduces it to 16
    /// bytes.
    pub const MAX_NONCE: usize = 1 << 16;
    /// The length of the longest tag in bytes.
    pub const MAX_TAG: usize = 16;

    /// The length of the only tag of ChaCha20-Poly1305 in bytes (RFC 8439, 2.8).
    pub const POLY1305_TAG: usize = 16;

    /// Fails with `MechanismParamInvalid` if nonce and tag cannot have these lengths.
    pub fn check(self, nonce_len: usize, tag_len: usize) -> Result<()> {
        if self.takes(nonce_len, tag_len) { Ok(()) } else { Err(Error::MechanismParamInvalid) }
    }

    /// Fails with `MechanismParamInvalid` if CCM cannot have a message of this length with a nonce
    /// of that length. SP 800-38C, A.1: the length of the message is encoded in the bytes of the
    /// first block that follow the nonce.
    pub fn check_ccm_len(nonce_len: usize, data_len: usize) -> Result<()> {
        let fits = (data_len as u128) >> (8 * 15usize.saturating_sub(nonce_len)) == 0;
        if fits { Ok(()) } else { Err(Error::MechanismParamInvalid) }
    }

    /// Checks whether a message can have this number of bytes without its tag.
    pub fn takes_message(self, len: usize) -> bool {
        let most: u64 = match self {
            // SP 800-38D, 5.2.1.1: 2^39 - 256 bits.
            Self::AesGcm => (1 << 36) - 32,
            // The length of the nonce gives the limit: see `check_ccm_len`.
            Self::AesCcm => u64::MAX,
            // RFC 8439, 2.8: 2^32 - 1 blocks of 64 bytes.
            Self::ChaCha20Poly1305 => (1 << 38) - 64,
        };
        len as u64 <= most
    }

    /// Checks whether nonce and tag can have these lengths.
    #[inline]
    pub fn takes(self, nonce_len: usize, tag_len: usize) -> bool {
        match self {
            // SP 800-38D, 5.2.1.2.
            Self::AesGcm => (1..=Self::MAX_NONCE).contains(&nonce_len) && matches!(tag_len, 4 | 8 | 12..=16),
            // SP 800-38C, A.1.
            Self::AesCcm => (7..=13).contains(&nonce_len) && matches!(tag_len, 4 | 6 | 8 | 10 | 12 | 14 | 16),
            // RFC 8439, 2.8.
            Self::ChaCha20Poly1305 => (nonce_len, tag_len) == (12, Self::POLY1305_TAG),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are clear")]
pub enum Direction {
    Encrypt,
    Decrypt,
}

/// The parameter of GCM in the caller's memory. Each message has a new nonce, which is copied only
/// to where it is kept.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct GcmParams<'a> {
    /// The nonce or initialisation vector. [`AeadScheme::takes`] checks its length.
    #[serde(borrow, with = "serde_bytes")]
    pub nonce: &'a [u8],
    /// Additional authenticated data.
    #[serde(borrow, with = "serde_bytes")]
    pub aad: &'a [u8],
    /// The length of the tag in bytes. [`AeadScheme::takes`] checks it.
    pub tag_len: usize,
}

impl GcmParams<'_> {
    /// Copies the parameter. Fails with `HostMemory` if there is no memory for the additional data.
    pub fn scheme(&self) -> Result<CipherScheme> {
        Ok(CipherScheme::Aead {
            cipher: AeadScheme::AesGcm,
            nonce: self.nonce.into(),
            aad: try_boxed(self.aad)?,
            tag_len: self.tag_len,
            data_len: 0,
        })
    }

    /// Copies the parameter over another one whose tag has the same length. If that fails, the
    /// other one does not change.
    #[inline]
    pub fn assign(&self, nonce: &mut Nonce, aad: &mut Box<[u8]>) -> Result<()> {
        if !(aad.is_empty() && self.aad.is_empty()) {
            self.assign_aad(aad)?;
        }
        nonce.assign(self.nonce);
        Ok(())
    }

    /// Not inlined, because most messages have no additional data.
    #[inline(never)]
    fn assign_aad(&self, aad: &mut Box<[u8]>) -> Result<()> {
        if **aad != *self.aad {
            *aad = try_boxed(self.aad)?;
        }
        Ok(())
    }
}

/// A nonce or initialisation vector of any length. Usual lengths need no allocation, because each
/// message has a new nonce.
#[derive(Clone, PartialEq, Eq)]
pub struct Nonce {
    /// The bytes if there are at most 16. The bytes after the first `len` are zero. Copies and
    /// comparisons have a fixed length, which takes fewer instructions than `SmallVec` needs.
    bytes: [u8; 16],
    len: usize,
    /// The bytes if there are more than 16. Otherwise empty.
    long: Box<[u8]>,
}

impl<T: AsRef<[u8]>> From<T> for Nonce {
    #[inline]
    fn from(bytes: T) -> Self {
        let given = bytes.as_ref();
        let mut nonce = Self { bytes: [0; 16], len: given.len(), long: Box::default() };
        // The usual length is copied without a call.
        if let Some(given) = given.as_array::<12>() {
            nonce.bytes[..12].copy_from_slice(given);
        } else if let Some(start) = nonce.bytes.get_mut(..given.len()) {
            start.copy_from_slice(given);
        } else {
            nonce.long = given.into();
        }
        nonce
    }
}

impl Nonce {
    /// Becomes a copy of `bytes`.
    #[inline]
    pub fn assign(&mut self, bytes: &[u8]) {
        match bytes.as_array::<12>() {
            Some(bytes) if self.long.is_empty() => {
                self.bytes[..12].copy_from_slice(bytes);
                self.bytes[12..].fill(0);
                self.len = 12;
            }
            _ => self.replace(bytes),
        }
    }

    /// Not inlined, because most nonces have 12 bytes.
    #[cold]
    fn replace(&mut self, bytes: &[u8]) {
        *self = bytes.into();
    }
}

impl Serialize for Nonce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given: &[u8] = serde_bytes::deserialize(deserializer)?;
        if given.len() <= 16 {
            return Ok(given.into());
        }
        let long = bounded::copy(given, AeadScheme::MAX_NONCE)?;
        Ok(Self { bytes: [0; 16], len: given.len(), long })
    }
}

impl Deref for Nonce {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.long)
    }
}

impl DerefMut for Nonce {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or(&mut self.long)
    }
}

/// A symmetric cipher without its parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the modes'")]
pub enum CipherMode {
    AesEcb,
    AesCbc,
    AesCbcPad,
    AesCts,
    AesCtr,
    AesOfb,
    /// Segment size in bits.
    AesCfb(u32),
    AesXts,
    AesKw,
    AesKwPkcs7,
    AesKwp,
    ChaCha20,
    Des3Ecb,
    Des3Cbc,
    Des3CbcPad,
    Aead(AeadScheme),
}

impl CipherMode {
    /// Returns the scheme of a mode whose parameter is only an initialisation vector, or which has
    /// no parameter. Fails with `MechanismParamInvalid` if the mode has another parameter, or if
    /// the length of the initialisation vector is wrong.
    pub fn scheme(self, iv: &[u8]) -> Result<CipherScheme> {
        Ok(match self {
            Self::AesEcb if iv.is_empty() => CipherScheme::AesEcb,
            Self::AesCbc => CipherScheme::AesCbc { iv: array(iv)?, padded: false },
            Self::AesCbcPad => CipherScheme::AesCbc { iv: array(iv)?, padded: true },
            Self::AesCts => CipherScheme::AesCts { iv: array(iv)? },
            Self::AesOfb => CipherScheme::AesOfb { iv: array(iv)? },
            Self::AesCfb(bits) => CipherScheme::AesCfb { iv: array(iv)?, bits },
            Self::AesXts => CipherScheme::AesXts { tweak: array(iv)? },
            Self::AesKw => CipherScheme::AesKw { iv: optional(iv)?, padded: false },
            Self::AesKwPkcs7 => CipherScheme::AesKw { iv: optional(iv)?, padded: true },
            Self::AesKwp => CipherScheme::AesKwp { iv: optional(iv)? },
            Self::Des3Ecb if iv.is_empty() => CipherScheme::Des3Ecb,
            Self::Des3Cbc => CipherScheme::Des3Cbc { iv: array(iv)?, padded: false },
            Self::Des3CbcPad => CipherScheme::Des3Cbc { iv: array(iv)?, padded: true },
            _ => return Err(Error::MechanismParamInvalid),
        })
    }

    /// Returns whether this is a key wrap, which refuses every ciphertext that was not made with
    /// the same key. With PKCS #7 padding it also refuses ciphertexts by their plaintext.
    pub fn is_key_wrap(self) -> bool {
        matches!(self, Self::AesKw | Self::AesKwp)
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| Error::MechanismParamInvalid)
}

fn optional<const N: usize>(bytes: &[u8]) -> Result<Option<[u8; N]>> {
    if bytes.is_empty() { Ok(None) } else { array(bytes).map(Some) }
}

/// A symmetric cipher with its parameter. AES keys have 16, 24 or 32 bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CipherScheme {
    /// SP 800-38A ECB. The message consists of whole blocks.
    AesEcb,
    /// SP 800-38A CBC. The message consists of whole blocks or gets a PKCS #7 padding.
    AesCbc {
        /// The initialisation vector.
        iv: [u8; 16],
        /// Whether to use PKCS #7 padding.
        padded: bool,
    },
    /// CBC with ciphertext stealing, CS1 of the addendum to SP 800-38A (the form of PKCS#11). The
    /// message has at least one block.
    AesCts {
        /// The initialisation vector.
        iv: [u8; 16],
    },
    /// SP 800-38A CTR.
    AesCtr {
        /// The first counter block.
        block: [u8; 16],
        /// The number of bits at the end of the block that form the counter, 1 to 128. A message
        /// that would overflow the counter fails with `DataLenRange`.
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
        /// The segment size: 1, 8, 64 or 128 bits. The message consists of whole segments, except
        /// that 128 allows any length.
        bits: u32,
    },
    /// SP 800-38E XTS. The key has 32 or 64 bytes, and the message at least one block.
    AesXts {
        /// The tweak (data unit sequence number), little-endian.
        tweak: [u8; 16],
    },
    /// An authenticated cipher. The tag follows the ciphertext.
    Aead {
        /// The cipher.
        cipher: AeadScheme,
        /// The nonce or initialisation vector. [`AeadScheme::takes`] checks its length.
        nonce: Nonce,
        /// Additional authenticated data.
        #[serde(with = "bounded::copied")]
        aad: Box<[u8]>,
        /// The length of the tag in bytes. [`AeadScheme::takes`] checks it.
        tag_len: usize,
        /// The announced length of the message without the tag. A message of another length fails
        /// with `DataLenRange`, or at decryption with `EncryptedDataLenRange`. Only CCM uses it.
        data_len: usize,
    },
    /// SP 800-38F KW. The length of the message is a multiple of 8 bytes and at least 16. With the
    /// padding the message has at least 8 bytes.
    AesKw {
        /// An initial value that replaces A6A6A6A6A6A6A6A6.
        iv: Option<[u8; 8]>,
        /// Whether to use PKCS #7 padding to 8 bytes.
        padded: bool,
    },
    /// SP 800-38F KWP. The message has at least 1 byte.
    AesKwp {
        /// A value that replaces A65959A6, the first half of the initial value.
        iv: Option<[u8; 4]>,
    },
    /// ChaCha20. A nonce of 12 bytes selects the variant of RFC 8439, with a counter of 32 bits. A
    /// nonce of 8 bytes selects the original, with a counter of 64 bits.
    ChaCha20 {
        /// The nonce, 8 or 12 bytes.
        #[serde(with = "bounded::copied")]
        nonce: Box<[u8]>,
        /// The counter of the first block.
        counter: u64,
    },
    /// Triple DES with three keys in ECB (SP 800-67). The message consists of whole blocks of 8
    /// bytes.
    Des3Ecb,
    /// Triple DES in CBC. The message consists of whole blocks of 8 bytes or gets a PKCS #7
    /// padding.
    Des3Cbc {
        /// The initialisation vector.
        iv: [u8; 8],
        /// Whether to use PKCS #7 padding.
        padded: bool,
    },
}

impl CipherScheme {
    /// Returns the mode.
    pub fn mode(&self) -> CipherMode {
        match self {
            Self::AesEcb => CipherMode::AesEcb,
            Self::AesCbc { padded: false, .. } => CipherMode::AesCbc,
            Self::AesCbc { padded: true, .. } => CipherMode::AesCbcPad,
            Self::AesCts { .. } => CipherMode::AesCts,
            Self::AesCtr { .. } => CipherMode::AesCtr,
            Self::AesOfb { .. } => CipherMode::AesOfb,
            Self::AesCfb { bits, .. } => CipherMode::AesCfb(*bits),
            Self::AesXts { .. } => CipherMode::AesXts,
            Self::AesKw { padded: false, .. } => CipherMode::AesKw,
            Self::AesKw { padded: true, .. } => CipherMode::AesKwPkcs7,
            Self::AesKwp { .. } => CipherMode::AesKwp,
            Self::ChaCha20 { .. } => CipherMode::ChaCha20,
            Self::Des3Ecb => CipherMode::Des3Ecb,
            Self::Des3Cbc { padded: false, .. } => CipherMode::Des3Cbc,
            Self::Des3Cbc { padded: true, .. } => CipherMode::Des3CbcPad,
            Self::Aead { cipher, .. } => CipherMode::Aead(*cipher),
        }
    }

    /// Returns the parameter of GCM, or `None` if this is another cipher.
    #[inline]
    pub fn gcm(&self) -> Option<GcmParams<'_>> {
        match self {
            Self::Aead { cipher: AeadScheme::AesGcm, nonce, aad, tag_len, .. } => {
                Some(GcmParams { nonce, aad, tag_len: *tag_len })
            }
            _ => None,
        }
    }

    /// Sets another parameter of GCM with the same tag length. Fails with `GeneralError` if this is
    /// another cipher.
    #[inline]
    pub fn assign_gcm(&mut self, gcm: &GcmParams<'_>) -> Result<()> {
        match self {
            Self::Aead { cipher: AeadScheme::AesGcm, nonce, aad, tag_len, .. } if *tag_len == gcm.tag_len => {
                gcm.assign(nonce, aad)
            }
            _ => Err(Error::GeneralError),
        }
    }

    /// Returns the rule for the length of the output.
    pub fn growth(&self) -> Growth {
        match self {
            Self::AesCbc { padded: true, .. } => Growth::Padded(16),
            Self::Des3Cbc { padded: true, .. } => Growth::Padded(8),
            Self::AesKwp { .. } => Growth::KeyWrapPadded,
            Self::Aead { tag_len, .. } => Growth::By(*tag_len),
            Self::AesKw { padded: false, .. } => Growth::By(8),
            Self::AesKw { padded: true, .. } => Growth::KeyWrapPkcs7,
            _ => Growth::By(0),
        }
    }

    /// Returns the initialisation vector of CBC, also with ciphertext stealing. Returns `None` for
    /// other modes.
    #[inline]
    pub fn iv(&self) -> Option<&[u8]> {
        match self {
            Self::AesCbc { iv, .. } | Self::AesCts { iv } => Some(iv),
            Self::Des3Cbc { iv, .. } => Some(iv),
            _ => None,
        }
    }

    /// Returns whether this is a key wrap: see [`CipherMode::is_key_wrap`].
    pub fn is_key_wrap(&self) -> bool {
        self.mode().is_key_wrap()
    }

    /// Returns whether this is a key wrap under an initial value that is not the one of its
    /// standard.
    pub fn has_own_initial_value(&self) -> bool {
        match self {
            Self::AesKw { iv, .. } => iv.is_some_and(|iv| iv != KW_IV),
            Self::AesKwp { iv } => iv.is_some_and(|iv| iv != KWP_IV),
            _ => false,
        }
    }

    /// Returns whether the length of the ciphertext gives the exact length of the message.
    pub fn shows_length(&self) -> bool {
        let padded = matches!(self, Self::AesKwp { .. } | Self::AesKw { padded: true, .. });
        self.without_padding().is_none() && !padded
    }

    /// Returns the same scheme without PKCS #7 padding, and the length of its blocks. Returns
    /// `None` if the scheme has no such padding.
    pub fn without_padding(&self) -> Option<(Self, usize)> {
        match *self {
            Self::AesCbc { iv, padded: true } => Some((Self::AesCbc { iv, padded: false }, 16)),
            Self::Des3Cbc { iv, padded: true } => Some((Self::Des3Cbc { iv, padded: false }, 8)),
            _ => None,
        }
    }

    /// Returns the same scheme with another announced length. Returns `None` if the scheme does not
    /// use it.
    pub fn announcing(&self, data_len: usize) -> Option<Self> {
        let Self::Aead { cipher: cipher @ AeadScheme::AesCcm, nonce, aad, tag_len, .. } = self else {
            return None;
        };
        let (cipher, nonce, aad, tag_len) = (*cipher, nonce.clone(), aad.clone(), *tag_len);
        Some(Self::Aead { cipher, nonce, aad, tag_len, data_len })
    }
}

/// A rule for the length of a ciphertext: the bytes that encryption adds to a whole message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// PKCS #7 padding to whole blocks of this length in bytes.
    Padded(usize),
    /// The padding of KWP to 8 bytes, and its initial value of 8 bytes.
    KeyWrapPadded,
    /// PKCS #7 padding to 8 bytes, and the initial value of KW of 8 bytes.
    KeyWrapPkcs7,
    /// Always this number of bytes.
    By(usize),
}

impl Growth {
    /// Returns the length of the output for a whole message of `len` bytes. It is exact unless
    /// decryption removes a padding; then it is the largest possible length.
    pub fn output_len(self, direction: Direction, len: usize) -> usize {
        match (direction, self) {
            (Direction::Encrypt, Self::Padded(block)) => len - len % block + block,
            (Direction::Encrypt, Self::KeyWrapPadded) => len.next_multiple_of(8) + 8,
            (Direction::Encrypt, Self::KeyWrapPkcs7) => len - len % 8 + 16,
            (Direction::Encrypt, Self::By(bytes)) => len + bytes,
            (Direction::Decrypt, Self::Padded(_)) => len,
            (Direction::Decrypt, Self::KeyWrapPadded | Self::KeyWrapPkcs7) => len.saturating_sub(8),
            (Direction::Decrypt, Self::By(bytes)) => len.saturating_sub(bytes),
        }
    }
}
