//! What a crypto library gives to the token: random bytes, digests, keys, signers and verifiers, in our own words.
//!
//! A backend knows no PKCS#11. It is a constant [`Provider`]; `aws_lc/` and `rustcrypto/` are mirror images with the
//! same file names. Keys cross this line as [parts](PrivateParts) once, when they are first used, and stay parsed.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::secret::Secret;

#[cfg(feature = "aws-lc")]
pub mod aws_lc;
#[cfg_attr(
    not(any(feature = "aws-lc", feature = "rustcrypto")),
    allow(dead_code, reason = "the null backend computes nothing")
)]
pub mod des3;
#[cfg_attr(
    not(any(feature = "aws-lc", feature = "rustcrypto")),
    allow(dead_code, reason = "the null backend computes nothing")
)]
mod dh;
#[cfg(feature = "null-backend")]
pub mod null;
#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;

/// A backend: one constant per library.
pub struct Provider {
    /// The name that the configuration uses: `aws-lc`, `rustcrypto`.
    pub name: &'static str,
    /// Random bytes.
    pub random: &'static dyn Random,
    /// Message digests.
    pub digest: &'static dyn Digest,
    /// Key pairs: generation and loading.
    pub keys: &'static dyn Keys,
    /// Symmetric ciphers.
    pub ciphers: &'static dyn Ciphers,
    /// Message authentication codes.
    pub macs: &'static dyn Macs,
}

impl Provider {
    /// The backends compiled into this build, the default first.
    pub const ALL: &'static [&'static Provider] = &[
        #[cfg(feature = "aws-lc")]
        &aws_lc::PROVIDER,
        #[cfg(feature = "rustcrypto")]
        &rustcrypto::PROVIDER,
        #[cfg(feature = "null-backend")]
        &null::PROVIDER,
    ];

    /// The backend of that name, if this build has it.
    pub fn named(name: &str) -> Option<&'static Provider> {
        Self::ALL.iter().copied().find(|provider| provider.name == name)
    }

    /// The code of a message in parts.
    pub fn code(&self, scheme: &MacScheme, key: &[u8], parts: &[&[u8]]) -> Result<Secret> {
        let mut mac = self.macs.mac(scheme, key)?;
        parts.iter().try_for_each(|part| mac.update(part))?;
        let mut out = Secret::zeroed(mac.mac_len());
        mac.finish(&mut out)?;
        Ok(out)
    }
}

const _: () = assert!(!Provider::ALL.is_empty(), "enable the feature aws-lc, rustcrypto or both");

/// A generator fit for keys and nonces, safe across threads and `fork`.
pub trait Random: Sync {
    /// Fills `out`.
    fn fill(&self, out: &mut [u8]) -> Result<()>;
}

/// Message digests (FIPS 180-4, FIPS 202).
pub trait Digest: Sync {
    /// The digest of `data` into `out`, which is `hash.len()` bytes long.
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()>;
    /// A digest over several parts.
    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>>;
}

/// A digest in the making.
pub trait Hasher: Send {
    /// Takes more input.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Writes the digest into `out` (`hash.len()` bytes) and starts over.
    fn finish(&mut self, out: &mut [u8]) -> Result<()>;
    /// Forgets the input so far and starts over.
    fn reset(&mut self) -> Result<()>;
    /// A second digest that goes on from here; `StateUnsaveable` where the library makes none.
    fn duplicate(&self) -> Result<Box<dyn Hasher>> {
        Err(Error::StateUnsaveable)
    }
}

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
fn in_parts<C: Cipher + ?Sized>(cipher: &mut C, input: &[u8], out: &mut [u8]) -> Result<usize> {
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

/// Key pairs.
pub trait Keys: Sync {
    /// Makes a key pair. Slow for RSA: no lock may be held by the caller.
    fn generate(&self, spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)>;
    /// Parses a private key once. `DataInvalid` where the parts are no key; `KeySizeRange` where its size is not
    /// supported.
    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>>;
    /// Parses a public key once; a point off its curve is `DataInvalid`.
    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>>;
    /// A prime of so many bits, the half of which less one is prime too. Slow: no lock may be held by the caller.
    fn safe_prime(&self, bits: usize) -> Result<Vec<u8>>;
    /// Sees that a prime and a base may be those of a Diffie-Hellman group; the errors of [`PairSpec::Dh`].
    fn check_group(&self, prime: &[u8], base: &[u8]) -> Result<()> {
        dh::check_group(prime, base)
    }
}

/// A parsed private key, shared by the sessions that use it.
pub trait PrivateKey: Send + Sync {
    /// The public half, computed from the private one (`DataInvalid` where the parts do not suffice, as for RSA
    /// without its public exponent).
    fn public(&self) -> Result<PublicParts>;
    /// A signer owned by one session. `KeyTypeInconsistent` where key and scheme do not fit; `KeySizeRange` where
    /// the key is too small for the scheme (RSA-512 with SHA-512).
    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>>;
    /// Decrypts with RSA; the plaintext into the front of `out` (at least the modulus' length), how long it is.
    /// `EncryptedDataInvalid` where it does not decrypt, `EncryptedDataLenRange` where the length is not the
    /// modulus'. Constant time as far as the library goes.
    fn decrypt(&self, _scheme: &Encryption, _input: &[u8], _out: &mut [u8]) -> Result<usize> {
        Err(Error::KeyTypeInconsistent)
    }
    /// The shared secret with a peer's public key in its raw form (an uncompressed or compressed SEC 1 point, a
    /// u-coordinate, or an integer): the x-coordinate, RFC 7748's output, or an integer as long as the prime; `DataInvalid` where the peer's key is none or the
    /// result is the neutral element.
    fn agree(&self, _peer: &[u8]) -> Result<Secret> {
        Err(Error::KeyTypeInconsistent)
    }
    /// ML-KEM decapsulation: 32 bytes, by implicit rejection for a wrong ciphertext; `EncryptedDataLenRange` where
    /// its length is wrong.
    fn decapsulate(&self, _ciphertext: &[u8]) -> Result<Secret> {
        Err(Error::KeyTypeInconsistent)
    }
}

/// A parsed public key, shared by the sessions that use it.
pub trait PublicKey: Send + Sync {
    /// A verifier owned by one session; the errors of [`PrivateKey::signer`].
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>>;
    /// Encrypts with RSA; the ciphertext, of the modulus' length, into the front of `out`. `DataLenRange` where the
    /// input is too long, `DataInvalid` where a raw one is not below the modulus.
    fn encrypt(&self, _scheme: &Encryption, _input: &[u8], _out: &mut [u8]) -> Result<usize> {
        Err(Error::KeyTypeInconsistent)
    }
    /// Length of an RSA modulus in bytes, 0 for other keys.
    fn encrypted_len(&self) -> usize {
        0
    }
    /// ML-KEM encapsulation: the ciphertext and the 32 bytes of the secret.
    fn encapsulate(&self) -> Result<(Vec<u8>, Secret)> {
        Err(Error::KeyTypeInconsistent)
    }
}

/// How an RSA key encrypts.
#[derive(Clone, PartialEq, Eq)]
pub enum Encryption {
    /// RFC 8017 RSAEP on the input as an integer, padded with zeros on the left.
    Raw,
    /// RSAES-PKCS1-v1_5. A wrong padding is `EncryptedDataInvalid`.
    Pkcs1,
    /// RSAES-OAEP.
    Oaep {
        /// The hash of the label.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// The label.
        label: Box<[u8]>,
    },
}

/// Signs, again and again, with one key and one scheme; keeps its scratch memory and library contexts.
pub trait Signer: Send {
    /// The length in bytes of every signature that it makes.
    fn signature_len(&self) -> usize;
    /// Signs `input` (a digest or a message, as the [`Scheme`] says) into `out[..signature_len]`.
    /// `DataLenRange` where the input's length does not fit, `BufferTooSmall` where `out` is shorter; nothing is
    /// allocated on this path by us.
    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()>;
}

/// Verifies, again and again, with one key and one scheme.
pub trait Verifier: Send {
    /// The length in bytes of a signature of this key.
    fn signature_len(&self) -> usize;
    /// `Ok` for a good signature, `SignatureInvalid` for a wrong one, `SignatureLenRange` for one of a length that
    /// none has, `DataLenRange` for an input that no signature can be of (a raw RSA input that is not below the
    /// modulus is `SignatureInvalid`).
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()>;
}

/// How a key signs. Hashing a message first is the caller's work where the scheme takes a digest.
#[derive(Clone, PartialEq, Eq)]
pub enum Scheme {
    /// RFC 8017 RSASP1 on the input as an integer; a shorter input is padded with zeros on the left, and one that
    /// is not below the modulus is `DataInvalid`.
    RsaRaw,
    /// RSASSA-PKCS1-v1_5. With a hash the input is its digest and the DigestInfo is made here; without, the input
    /// is padded as it is (at most the modulus less 11 bytes).
    RsaPkcs1 {
        /// The hash of the DigestInfo.
        hash: Option<Hash>,
    },
    /// RSASSA-PSS; the input is the digest of `hash`.
    RsaPss {
        /// The hash that made the input.
        hash: Hash,
        /// The hash of the mask generation function MGF1.
        mgf: Hash,
        /// Length of the salt in bytes.
        salt_len: usize,
    },
    /// ECDSA; the input is a digest of any length, cut to the curve's order on the left (FIPS 186-5, 6.4); the
    /// signature is r || s, each of the order's length. Verification also takes r || s of equal, shorter halves
    /// (common leading zeros removed).
    Ecdsa,
    /// Ed25519 (RFC 8032, pure); the input is the message.
    Ed25519,
    /// Ed25519ctx or Ed25519ph (RFC 8032); the input is the message, or its SHA-512 digest where `prehash`.
    Ed25519Context {
        /// Ed25519ph.
        prehash: bool,
        /// At most 255 bytes; Ed25519ctx wants at least one (`MechanismParamInvalid`).
        context: Box<[u8]>,
    },
    /// Ed448 or Ed448ph (RFC 8032); the input is the message, or its SHAKE256 digest of 64 bytes where `prehash`.
    Ed448 {
        /// Ed448ph.
        prehash: bool,
        /// At most 255 bytes.
        context: Box<[u8]>,
    },
    /// HashML-DSA (FIPS 204, 5.4); the input is the digest of `hash`.
    HashMlDsa {
        /// The hash that made the input.
        hash: Hash,
        /// At most 255 bytes.
        context: Box<[u8]>,
        /// Whether randomness enters a signature.
        deterministic: bool,
    },
    /// SLH-DSA (FIPS 205): pure, the input is the message; with a hash HashSLH-DSA, the input is its digest.
    SlhDsa {
        /// The hash that made the input.
        hash: Option<Hash>,
        /// At most 255 bytes.
        context: Box<[u8]>,
        /// Whether randomness enters a signature.
        deterministic: bool,
    },
    /// ML-DSA (FIPS 204, pure); the input is the message.
    MlDsa {
        /// At most 255 bytes; `MechanismParamInvalid` beyond.
        context: Box<[u8]>,
        /// Whether randomness enters a signature; verification does not read it.
        deterministic: bool,
    },
}

/// Hash functions (FIPS 180-4, FIPS 202, RFC 7693); the SHAKEs at the lengths at which signatures use them (FIPS 204, 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Sha512_224,
    Sha512_256,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    Shake128,
    Shake256,
    Blake2b160,
    Blake2b256,
    Blake2b384,
    Blake2b512,
}

impl Hash {
    /// Every hash of NIST.
    pub const ALL: [Hash; 13] = [
        Hash::Sha1,
        Hash::Sha224,
        Hash::Sha256,
        Hash::Sha384,
        Hash::Sha512,
        Hash::Sha512_224,
        Hash::Sha512_256,
        Hash::Sha3_224,
        Hash::Sha3_256,
        Hash::Sha3_384,
        Hash::Sha3_512,
        Hash::Shake128,
        Hash::Shake256,
    ];

    /// BLAKE2b at the lengths that PKCS#11 has.
    pub const BLAKE2B: [Hash; 4] = [Hash::Blake2b160, Hash::Blake2b256, Hash::Blake2b384, Hash::Blake2b512];

    /// Whether it is one of RFC 7693, which not every backend has.
    pub const fn is_blake2b(self) -> bool {
        matches!(self, Self::Blake2b160 | Self::Blake2b256 | Self::Blake2b384 | Self::Blake2b512)
    }

    /// The longest digest of all, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Length of the digest in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no digest is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Sha1 | Self::Blake2b160 => 20,
            Self::Sha224 | Self::Sha512_224 | Self::Sha3_224 => 28,
            Self::Sha256 | Self::Sha512_256 | Self::Sha3_256 | Self::Shake128 | Self::Blake2b256 => 32,
            Self::Sha384 | Self::Sha3_384 | Self::Blake2b384 => 48,
            Self::Sha512 | Self::Sha3_512 | Self::Shake256 | Self::Blake2b512 => 64,
        }
    }
}

/// Elliptic curves for ECDSA (SP 800-186, RFC 5639).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum Curve {
    P224,
    P256,
    P384,
    P521,
    Secp256k1,
    BrainpoolP256r1,
    BrainpoolP256t1,
    BrainpoolP384r1,
    BrainpoolP384t1,
}

impl Curve {
    /// Every curve.
    pub const ALL: [Curve; 9] = [
        Curve::P224,
        Curve::P256,
        Curve::P384,
        Curve::P521,
        Curve::Secp256k1,
        Curve::BrainpoolP256r1,
        Curve::BrainpoolP256t1,
        Curve::BrainpoolP384r1,
        Curve::BrainpoolP384t1,
    ];

    /// Whether it is one of RFC 5639, which not every backend has.
    pub const fn is_brainpool(self) -> bool {
        matches!(
            self,
            Self::BrainpoolP256r1 | Self::BrainpoolP256t1 | Self::BrainpoolP384r1 | Self::BrainpoolP384t1
        )
    }

    /// Size of the order in bits.
    pub const fn bits(self) -> usize {
        match self {
            Self::P224 => 224,
            Self::P256 | Self::Secp256k1 | Self::BrainpoolP256r1 | Self::BrainpoolP256t1 => 256,
            Self::P384 | Self::BrainpoolP384r1 | Self::BrainpoolP384t1 => 384,
            Self::P521 => 521,
        }
    }

    /// Length in bytes of a coordinate, a scalar, and of half a signature.
    #[allow(clippy::len_without_is_empty, reason = "no scalar is empty")]
    pub const fn len(self) -> usize {
        self.bits().div_ceil(8)
    }
}

/// Parameter sets of ML-DSA (FIPS 204, table 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum MlDsa {
    MlDsa44,
    MlDsa65,
    MlDsa87,
}

impl MlDsa {
    /// Every parameter set.
    pub const ALL: [MlDsa; 3] = [MlDsa::MlDsa44, MlDsa::MlDsa65, MlDsa::MlDsa87];
    /// Length of a seed in bytes.
    pub const SEED_LEN: usize = 32;
    /// Longest context in bytes.
    pub const MAX_CONTEXT: usize = 255;

    /// Length of a public key in bytes.
    pub const fn public_len(self) -> usize {
        match self {
            Self::MlDsa44 => 1312,
            Self::MlDsa65 => 1952,
            Self::MlDsa87 => 2592,
        }
    }

    /// Length of an expanded private key in bytes.
    pub const fn private_len(self) -> usize {
        match self {
            Self::MlDsa44 => 2560,
            Self::MlDsa65 => 4032,
            Self::MlDsa87 => 4896,
        }
    }

    /// Length of a signature in bytes.
    pub const fn signature_len(self) -> usize {
        match self {
            Self::MlDsa44 => 2420,
            Self::MlDsa65 => 3309,
            Self::MlDsa87 => 4627,
        }
    }
}

/// Parameter sets of ML-KEM (FIPS 203, table 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum MlKem {
    MlKem512,
    MlKem768,
    MlKem1024,
}

impl MlKem {
    /// Every parameter set.
    pub const ALL: [MlKem; 3] = [MlKem::MlKem512, MlKem::MlKem768, MlKem::MlKem1024];
    /// Length of a seed (d || z) in bytes.
    pub const SEED_LEN: usize = 64;
    /// Length of the shared secret in bytes.
    pub const SECRET_LEN: usize = 32;

    /// Length of an encapsulation key in bytes.
    pub const fn public_len(self) -> usize {
        match self {
            Self::MlKem512 => 800,
            Self::MlKem768 => 1184,
            Self::MlKem1024 => 1568,
        }
    }

    /// Length of a decapsulation key in bytes.
    pub const fn private_len(self) -> usize {
        match self {
            Self::MlKem512 => 1632,
            Self::MlKem768 => 2400,
            Self::MlKem1024 => 3168,
        }
    }

    /// Length of a ciphertext in bytes.
    pub const fn ciphertext_len(self) -> usize {
        match self {
            Self::MlKem512 => 768,
            Self::MlKem768 => 1088,
            Self::MlKem1024 => 1568,
        }
    }
}

/// Parameter sets of SLH-DSA (FIPS 205, table 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum SlhDsa {
    Sha2_128s,
    Shake128s,
    Sha2_128f,
    Shake128f,
    Sha2_192s,
    Shake192s,
    Sha2_192f,
    Shake192f,
    Sha2_256s,
    Shake256s,
    Sha2_256f,
    Shake256f,
}

impl SlhDsa {
    /// Every parameter set, in the order of `CKP_SLH_DSA_*`.
    pub const ALL: [SlhDsa; 12] = [
        SlhDsa::Sha2_128s,
        SlhDsa::Shake128s,
        SlhDsa::Sha2_128f,
        SlhDsa::Shake128f,
        SlhDsa::Sha2_192s,
        SlhDsa::Shake192s,
        SlhDsa::Sha2_192f,
        SlhDsa::Shake192f,
        SlhDsa::Sha2_256s,
        SlhDsa::Shake256s,
        SlhDsa::Sha2_256f,
        SlhDsa::Shake256f,
    ];

    /// The security parameter n in bytes; a public key has two of them, a private key four.
    pub const fn n(self) -> usize {
        match self {
            Self::Sha2_128s | Self::Shake128s | Self::Sha2_128f | Self::Shake128f => 16,
            Self::Sha2_192s | Self::Shake192s | Self::Sha2_192f | Self::Shake192f => 24,
            Self::Sha2_256s | Self::Shake256s | Self::Sha2_256f | Self::Shake256f => 32,
        }
    }

    /// Length of a signature in bytes.
    pub const fn signature_len(self) -> usize {
        match self {
            Self::Sha2_128s | Self::Shake128s => 7856,
            Self::Sha2_128f | Self::Shake128f => 17088,
            Self::Sha2_192s | Self::Shake192s => 16224,
            Self::Sha2_192f | Self::Shake192f => 35664,
            Self::Sha2_256s | Self::Shake256s => 29792,
            Self::Sha2_256f | Self::Shake256f => 49856,
        }
    }
}

/// What key pair to make.
pub enum PairSpec<'a> {
    /// RSA; the exponent is a big-endian integer without leading zeros.
    Rsa {
        /// Size of the modulus in bits, 2048 to 8192.
        bits: usize,
        /// An odd integer of at least 3 (65537 in practice; `DataInvalid` where the backend will not take it).
        public_exponent: &'a [u8],
    },
    /// An elliptic curve.
    Ec(Curve),
    /// Ed25519.
    Ed25519,
    /// ML-DSA, from a seed where one is given.
    MlDsa {
        /// The parameter set.
        set: MlDsa,
        /// 32 bytes; random without.
        seed: Option<&'a Secret>,
    },
    /// Ed448.
    Ed448,
    /// X25519.
    X25519,
    /// X448.
    X448,
    /// ML-KEM, from a seed (d || z) where one is given.
    MlKem {
        /// The parameter set.
        set: MlKem,
        /// 64 bytes; random without.
        seed: Option<&'a Secret>,
    },
    /// SLH-DSA, from a seed (SK.seed || SK.prf || PK.seed) where one is given.
    SlhDsa {
        /// The parameter set.
        set: SlhDsa,
        /// `3 * set.n()` bytes; random without.
        seed: Option<&'a Secret>,
    },
    /// Diffie-Hellman (PKCS #3), from integers without leading zeros. `DomainParamsInvalid` where they make no group
    /// (the prime even, the base not between 2 and the prime less 2), `KeySizeRange` where the prime has not 1024 to
    /// 8192 bits or the private value not at least 160 and fewer than the prime.
    Dh {
        /// The prime.
        prime: &'a [u8],
        /// The base.
        base: &'a [u8],
        /// Size of the private value in bits; one less than the prime's without.
        private_bits: Option<usize>,
    },
}

/// A public key as its numbers: unsigned big-endian integers without leading zeros, points uncompressed.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the algorithms' own")]
pub enum PublicParts {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    Ec {
        curve: Curve,
        /// `04 || x || y` (SEC 1).
        point: Vec<u8>,
    },
    Ed25519 {
        point: [u8; 32],
    },
    MlDsa {
        set: MlDsa,
        key: Vec<u8>,
    },
    Ed448 {
        point: [u8; 57],
    },
    X25519 {
        point: [u8; 32],
    },
    X448 {
        point: [u8; 56],
    },
    MlKem {
        set: MlKem,
        key: Vec<u8>,
    },
    SlhDsa {
        set: SlhDsa,
        /// PK.seed || PK.root
        key: Vec<u8>,
    },
    Dh {
        prime: Vec<u8>,
        base: Vec<u8>,
        value: Vec<u8>,
    },
}

/// A private key as its numbers, in the forms of [`PublicParts`].
#[allow(missing_docs, reason = "the names are the algorithms' own")]
pub enum PrivateParts {
    Rsa(RsaPrivate),
    Ec {
        curve: Curve,
        /// The scalar, `curve.len()` bytes.
        scalar: Secret,
    },
    Ed25519 {
        /// 32 bytes (RFC 8032).
        seed: Secret,
    },
    MlDsa {
        set: MlDsa,
        /// 32 bytes, where known.
        seed: Option<Secret>,
        /// The expanded key, `set.private_len()` bytes.
        key: Secret,
    },
    Ed448 {
        /// 57 bytes (RFC 8032).
        seed: Secret,
    },
    X25519 {
        /// 32 bytes (RFC 7748), as given: clamping is the computation's work.
        scalar: Secret,
    },
    X448 {
        /// 56 bytes (RFC 7748).
        scalar: Secret,
    },
    MlKem {
        set: MlKem,
        /// 64 bytes (d || z), where known.
        seed: Option<Secret>,
        /// The expanded decapsulation key, `set.private_len()` bytes.
        key: Secret,
    },
    SlhDsa {
        set: SlhDsa,
        /// SK.seed || SK.prf || PK.seed || PK.root
        key: Secret,
    },
    Dh {
        prime: Vec<u8>,
        base: Vec<u8>,
        value: Secret,
    },
}

/// An RSA private key. Without the primes it works slower; without `e` it is not blinded by every library.
#[allow(missing_docs, reason = "the names are the algorithm's own")]
pub struct RsaPrivate {
    pub n: Vec<u8>,
    pub e: Option<Vec<u8>>,
    pub d: Secret,
    pub crt: Option<RsaCrt>,
}

/// The factors and exponents of the Chinese remainder theorem (RFC 8017, 3.2).
#[allow(missing_docs, reason = "the names are the algorithm's own")]
pub struct RsaCrt {
    pub p: Secret,
    pub q: Secret,
    pub dp: Secret,
    pub dq: Secret,
    pub qinv: Secret,
}
