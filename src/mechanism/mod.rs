//! The mechanism table, with one row per mechanism and one file per family. Mechanism lists,
//! mechanism info, permission checks, dispatch and key sizes read the row.

use std::sync::LazyLock;

use crate::backend::{Hash, MlDsa, MlKem, Nonce, SlhDsa};
use crate::id::{KeyType, MechanismType, ObjectHandle, mechanism_flag as does};

mod aes;
mod chacha20;
pub mod curve;
mod derive;
mod des3;
mod dh;
mod digest;
mod ec;
mod ecdh_wrap;
pub mod hmac;
pub mod message;
mod ml_dsa;
mod ml_kem;
mod otp;
pub mod parameters;
mod rsa;
mod secret;
mod slh_dsa;

mod ike;
pub mod password;
pub mod sp800_108;
pub mod tls;

use password::Password;
use sp800_108::{Field, Kdf};
use tls::{Randoms, TlsPrf};

/// A row of the mechanism table.
pub struct MechanismInfo {
    /// Its `CKM_*` number.
    pub id: MechanismType,
    /// Its flags in `CK_MECHANISM_INFO` (`CKF_*`).
    pub flags: u64,
    /// The smallest and largest key size. The unit is the one that the specification names: bits
    /// for RSA and EC, bytes for AES, 0 for digests.
    pub sizes: (u64, u64),
    /// The type of the keys that it uses or generates. `None` if it uses secret keys of every type,
    /// or generates keys of several types.
    pub key_type: Option<KeyType>,
    /// A second type of keys that it uses.
    pub other_key_type: Option<KeyType>,
    /// The keys that it wraps.
    pub wraps: Wraps,
    /// The form of its parameter.
    pub shape: Shape,
    /// The computation.
    pub action: Action,
}

impl MechanismInfo {
    /// A row without a function. The other rows name their columns, and take the rest from this.
    const BASE: Self = Self {
        id: MechanismType(u64::MAX),
        flags: 0,
        sizes: (0, 0),
        key_type: None,
        other_key_type: None,
        wraps: Wraps::Nothing,
        shape: Shape::None,
        action: Action::Encapsulate,
    };

    /// Checks whether the mechanism uses keys of this type.
    pub fn accepts(&self, key_type: Option<KeyType>, is_secret: bool) -> bool {
        match self.key_type {
            Some(_) => key_type == self.key_type || key_type.is_some() && key_type == self.other_key_type,
            None => is_secret,
        }
    }
}

/// `CKF_*` of a mechanism that signs and verifies, also in the message-based functions.
const SIGNS: u64 =
    does::SIGN | does::VERIFY | does::MESSAGE_SIGN | does::MESSAGE_VERIFY | does::MULTI_MESSAGE;

/// `CKF_*` of an authenticated cipher in the message-based functions.
const CRYPTS_MESSAGES: u64 = does::MESSAGE_ENCRYPT | does::MESSAGE_DECRYPT | does::MULTI_MESSAGE;

/// The keys that a mechanism wraps, and their form. A private key is wrapped as PKCS #8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wraps {
    /// No keys.
    Nothing,
    /// Secret keys.
    Secret,
    /// Secret keys, and zeros after them up to whole blocks of this number of bytes. PKCS#11 3.2,
    /// "AES-ECB", "AES-CBC": "padded on the trailing end with null bytes".
    SecretWithZeros(usize),
    /// Secret keys, and zeros before them up to the length of the modulus.
    SecretAfterZeros,
    /// Secret and private keys.
    Any,
}

/// The computation of a mechanism.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Digests a message.
    Digest(Hash),
    /// Signs and verifies. If there is a hash, it is applied to the message first.
    Sign(Primitive, Option<Hash>),
    /// Computes and verifies message authentication codes.
    Mac(MacFunction),
    /// Encrypts and decrypts, wraps and unwraps, with a secret key.
    Cipher(Mode),
    /// Encrypts and decrypts, wraps and unwraps, with an RSA key pair.
    Encrypt(Asymmetric),
    /// Derives a key from another.
    Derive(Derivation),
    /// Encapsulates and decapsulates a key.
    Encapsulate,
    /// Generates a secret key of `key_type`.
    Generate,
    /// Generates a key pair of `key_type`.
    GeneratePair,
    /// Generates domain parameters of `key_type`.
    GenerateParameters,
    /// Generates and verifies one-time passwords.
    Otp,
    /// Generates a secret key from a password. Its type is `key_type`, or the one in the template.
    GenerateFromPassword,
    /// Generates a TLS pre-master secret. It begins with the version from the parameter.
    GeneratePreMaster,
}

/// The signature primitive of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the schemes'")]
pub enum Primitive {
    RsaRaw,
    RsaPkcs1,
    RsaPss,
    Ecdsa,
    Eddsa,
    MlDsa,
    /// HashML-DSA. The row or the parameter names the hash.
    HashMlDsa,
    SlhDsa,
    /// HashSLH-DSA. The row or the parameter names the hash.
    HashSlhDsa,
}

/// The message authentication code of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the algorithms'")]
pub enum MacFunction {
    /// [`Params::Length`] truncates the output to that length.
    Hmac(Hash),
    AesCmac,
    AesGmac,
    /// Without [`Params::Length`] the output is half a block, as `CKM_AES_MAC` requires.
    AesCbcMac,
    /// The output is truncated to this number of bytes: 16 or 12.
    AesXcbc(usize),
    /// `verify_data` of a TLS "finished" message, with [`Params::TlsMac`].
    TlsFinished,
    /// `CKM_TLS_PRF_GENERAL`: the output is as long as the caller's buffer.
    TlsPrf,
}

/// The cipher of a mechanism. The parameter of the mechanism supplies the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the modes'")]
pub enum Mode {
    AesEcb,
    AesCbc,
    AesCbcPad,
    AesCts,
    AesCtr,
    AesOfb,
    /// Segment size in bits.
    AesCfb(u32),
    AesXts,
    AesGcm,
    AesCcm,
    AesKw,
    AesKwp,
    Des3Ecb,
    Des3Cbc,
    Des3CbcPad,
    ChaCha20,
    ChaCha20Poly1305,
}

/// The asymmetric encryption of a mechanism that cannot sign. `CKM_RSA_PKCS` and `CKM_RSA_X_509`
/// are [`Action::Sign`], and encrypt with the same padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asymmetric {
    /// RSAES-OAEP.
    Oaep,
    /// `CKM_RSA_AES_KEY_WRAP`: OAEP encrypts a new AES key, and KWP wraps the target key with that
    /// AES key.
    AesWrap,
    /// `CKM_ECDH_AES_KEY_WRAP`: ECDH with an ephemeral pair gives an AES key, and KWP wraps the
    /// target key with it.
    EcdhAesWrap(PointForm),
}

/// The form of the ephemeral public key at the start of the output of `CKM_ECDH_AES_KEY_WRAP` and
/// its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointForm {
    /// The uncompressed point, or the u-coordinate.
    Bare,
    /// A DER octet string that contains it.
    Octets,
}

/// The method that derives a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Derivation {
    /// ECDH. Both mechanisms use it: the cofactor of every supported curve is 1 or part of the
    /// curve's function.
    Ecdh,
    /// HKDF that creates a key.
    Hkdf,
    /// HKDF that creates a data object.
    HkdfData,
    /// `CKM_SHA256_KEY_DERIVATION` and its variants.
    HashOfKey(Hash),
    ConcatenateBaseAndKey,
    ConcatenateBaseAndData,
    ConcatenateDataAndBase,
    XorBaseAndData,
    ExtractKeyFromKey,
    AesEcbEncryptData,
    AesCbcEncryptData,
    /// Diffie-Hellman of PKCS #3.
    Dh,
    /// The public key of a private key.
    PublicKey,
    Sp800_108(Kdf),
    /// The master secret. With [`Params::TlsExtendedMaster`] it is the one of RFC 7627.
    TlsMaster {
        /// Whether the pre-master secret begins with the client's version: true for RSA, false for
        /// Diffie-Hellman.
        versioned: bool,
    },
    /// The MAC keys and encryption keys of a connection.
    TlsKeys,
    /// The exporter of RFC 5705.
    TlsKdf,
    /// The output of the pseudo-random function of TLS 1.0 and 1.1.
    TlsPrf,
    IkePrf,
    Ike1Prf,
    Ike1Extended,
    Ike2PrfPlus,
}

/// The form of a mechanism's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// No parameter.
    None,
    /// `CK_RSA_PKCS_PSS_PARAMS`.
    Pss,
    /// `CK_EDDSA_PARAMS`, optional.
    Eddsa,
    /// `CK_SIGN_ADDITIONAL_CONTEXT`, optional.
    SignContext,
    /// `CK_HASH_SIGN_ADDITIONAL_CONTEXT`.
    HashSignContext,
    /// `CK_RSA_PKCS_OAEP_PARAMS`.
    Oaep,
    /// `CK_RSA_AES_KEY_WRAP_PARAMS`.
    RsaAesWrap,
    /// An initialisation vector of this number of bytes: [`Params::Iv`].
    Iv(usize),
    /// An initialisation vector of this number of bytes, optional.
    OptionalIv(usize),
    /// `CK_AES_CTR_PARAMS`.
    Counter,
    /// `CK_GCM_PARAMS`.
    Gcm,
    /// `CK_CCM_PARAMS`.
    Ccm,
    /// The initialisation vector of GMAC: 1 to 256 bytes.
    Gmac,
    /// `CK_CHACHA20_PARAMS`.
    ChaCha20,
    /// `CK_SALSA20_CHACHA20_POLY1305_PARAMS`.
    ChaCha20Poly1305,
    /// `CK_MAC_GENERAL_PARAMS`: a length in bytes.
    Length,
    /// `CK_ECDH1_DERIVE_PARAMS`. `CK_ECDH2_DERIVE_PARAMS` is not supported.
    Ecdh,
    /// `CK_HKDF_PARAMS`.
    Hkdf,
    /// `CK_KEY_DERIVATION_STRING_DATA`.
    Data,
    /// `CK_AES_CBC_ENCRYPT_DATA_PARAMS`.
    CbcData,
    /// `CK_OBJECT_HANDLE`.
    Key,
    /// `CK_EXTRACT_PARAMS`: the number of the first bit.
    Bit,
    /// A "Big integer": [`Params::Data`].
    Integer,
    /// `CK_ECDH_AES_KEY_WRAP_PARAMS`.
    EcdhAesWrap,
    /// `CK_OTP_PARAMS`.
    Otp,
    /// `CK_SP800_108_KDF_PARAMS` or `CK_SP800_108_FEEDBACK_KDF_PARAMS`.
    Sp800_108(Kdf),
    /// `CK_PKCS5_PBKD2_PARAMS2` or `CK_PKCS5_PBKD2_PARAMS`.
    Pbkdf2,
    /// `CK_VERSION`.
    Version,
    /// `CK_SSL3_MASTER_KEY_DERIVE_PARAMS`.
    TlsMaster,
    /// `CK_TLS12_MASTER_KEY_DERIVE_PARAMS`.
    Tls12Master,
    /// `CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS`.
    Tls12ExtendedMaster,
    /// `CK_SSL3_KEY_MAT_PARAMS`.
    TlsKeys,
    /// `CK_TLS12_KEY_MAT_PARAMS`.
    Tls12Keys,
    /// `CK_TLS12_KEY_MAT_PARAMS`. Its length of initialisation vectors is ignored and taken as 0.
    Tls12SafeKeys,
    /// `CK_TLS_KDF_PARAMS`.
    TlsKdf,
    /// `CK_TLS_MAC_PARAMS`.
    TlsMac,
    /// `CK_TLS_PRF_PARAMS`.
    TlsPrf,
    /// `CK_IKE_PRF_DERIVE_PARAMS`.
    IkePrf,
    /// `CK_IKE1_PRF_DERIVE_PARAMS`.
    Ike1Prf,
    /// `CK_IKE1_EXTENDED_DERIVE_PARAMS`.
    Ike1Extended,
    /// `CK_IKE2_PRF_PLUS_DERIVE_PARAMS`.
    Ike2PrfPlus,
}

/// A mechanism's parameter, parsed.
#[derive(Clone, PartialEq, Eq)]
pub enum Params {
    /// The mechanism has no parameter.
    None,
    /// RSASSA-PSS.
    Pss {
        /// The hash of the message.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// The length of the salt in bytes.
        salt_len: usize,
    },
    /// EdDSA.
    Eddsa {
        /// `phFlag`: Ed25519ph, Ed448ph.
        prehash: bool,
        /// The context, at most 255 bytes.
        context: Box<[u8]>,
    },
    /// ML-DSA and SLH-DSA, also with a hash of the message.
    SignContext {
        /// `CKH_DETERMINISTIC_REQUIRED`.
        deterministic: bool,
        /// The context, at most 255 bytes.
        context: Box<[u8]>,
        /// The hash from `CK_HASH_SIGN_ADDITIONAL_CONTEXT`.
        hash: Option<Hash>,
    },
    /// RSAES-OAEP.
    Oaep {
        /// The hash of the label.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// The label (`CKZ_DATA_SPECIFIED`), or empty.
        label: Box<[u8]>,
    },
    /// `CKM_RSA_AES_KEY_WRAP`.
    RsaAesWrap {
        /// The size of the AES key in bits.
        aes_bits: u64,
        /// The hash of the OAEP label.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// The OAEP label.
        label: Box<[u8]>,
    },
    /// An initialisation vector.
    Iv(Box<[u8]>),
    /// AES-CTR.
    Counter {
        /// The first counter block.
        block: [u8; 16],
        /// The number of its last bits that form the counter.
        bits: u32,
    },
    /// AES-GCM, AES-CCM, ChaCha20-Poly1305.
    Aead {
        /// The initialisation vector or nonce.
        nonce: Nonce,
        /// Additional authenticated data.
        aad: Box<[u8]>,
        /// The length of the tag in bytes.
        tag_len: usize,
        /// The length of the message. Only CCM uses it.
        data_len: usize,
    },
    /// ChaCha20.
    ChaCha20 {
        /// 8 or 12 bytes.
        nonce: Box<[u8]>,
        /// The counter of the first block.
        counter: u64,
    },
    /// A length in bytes.
    Length(usize),
    /// ECDH.
    Ecdh {
        /// The hash of the key derivation function of X9.63. `None` (`CKD_NULL`) uses the shared
        /// secret itself.
        kdf: Option<Hash>,
        /// The shared information.
        shared: Box<[u8]>,
        /// The peer's public key: a point or u-coordinate, bare or in a DER octet string.
        peer: Box<[u8]>,
    },
    /// HKDF.
    Hkdf {
        /// `bExtract`
        extract: bool,
        /// `bExpand`
        expand: bool,
        /// The hash.
        hash: Hash,
        /// The salt.
        salt: HkdfSalt,
        /// `pInfo`
        info: Box<[u8]>,
    },
    /// Data for the derivation.
    Data(Box<[u8]>),
    /// An initialisation vector and data.
    CbcData {
        /// The initialisation vector.
        iv: [u8; 16],
        /// The data.
        data: Box<[u8]>,
    },
    /// Another key.
    Key(ObjectHandle),
    /// The number of the first bit.
    Bit(u64),
    /// `CKM_ECDH_AES_KEY_WRAP` and its variants.
    EcdhAesWrap {
        /// The size of the AES key in bits: 128, 192 or 256.
        aes_bits: usize,
        /// The hash of the key derivation function of X9.63. `None` (`CKD_NULL`) uses the shared
        /// secret itself.
        kdf: Option<Hash>,
        /// The shared information.
        shared: Box<[u8]>,
    },
    /// One-time passwords.
    Otp {
        /// `CK_OTP_COUNTER`
        counter: Option<[u8; 8]>,
        /// `CK_OTP_OUTPUT_LENGTH`
        digits: Option<u64>,
        /// `CK_OTP_OUTPUT_FORMAT`
        format: Option<u64>,
        /// `CK_OTP_FLAGS`
        flags: u64,
    },
    /// SP 800-108.
    Sp800_108 {
        /// The pseudo-random function.
        prf: MacFunction,
        /// The parts of its input, in this order.
        fields: Vec<Field>,
        /// The first iteration variable of the feedback mode.
        iv: Box<[u8]>,
    },
    /// PBKDF2.
    Pbkdf2 {
        /// The hash of HMAC.
        hash: Hash,
        /// The salt.
        salt: Box<[u8]>,
        /// The number of iterations.
        iterations: u32,
        /// The password.
        password: Password,
    },
    /// A TLS version, major and minor.
    Version([u8; 2]),
    /// The TLS master secret.
    TlsMaster {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// The random values of the handshake.
        randoms: Randoms,
    },
    /// The extended master secret of TLS 1.2.
    TlsExtendedMaster {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// The hash of the handshake messages so far.
        session_hash: Box<[u8]>,
    },
    /// The keys of a TLS connection. The lengths are in bytes; the client and the server each get
    /// one of each.
    TlsKeys {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// The random values of the handshake.
        randoms: Randoms,
        /// The length of a MAC key.
        mac_len: usize,
        /// The length of an encryption key.
        key_len: usize,
        /// The length of an initialisation vector.
        iv_len: usize,
    },
    /// The exporter of RFC 5705.
    TlsKdf {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// The label: the purpose of the key.
        label: Box<[u8]>,
        /// The random values of the handshake.
        randoms: Randoms,
        /// The context. An empty context is not the same as `None`.
        context: Option<Box<[u8]>>,
    },
    /// A TLS "finished" message.
    TlsMac {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// The length of `verify_data` in bytes.
        len: usize,
        /// Whether the server sends the message.
        server: bool,
    },
    /// The pseudo-random function of TLS 1.0 and 1.1.
    TlsPrf {
        /// The seed.
        seed: Box<[u8]>,
        /// The label.
        label: Box<[u8]>,
        /// The length of the output in bytes.
        len: usize,
    },
    /// The first key of IKE.
    IkePrf {
        /// The pseudo-random function.
        prf: MacFunction,
        /// Whether the nonces are the key of the function and the base key is its message.
        data_as_key: bool,
        /// Ni and Nr, concatenated.
        nonces: Box<[u8]>,
        /// The new key, when IKE replaces its keys.
        new_key: Option<ObjectHandle>,
    },
    /// The later keys of IKEv1.
    Ike1Prf {
        /// The pseudo-random function.
        prf: MacFunction,
        /// The shared secret g^xy.
        shared: ObjectHandle,
        /// The key that was derived before.
        previous: Option<ObjectHandle>,
        /// CKYi and CKYr, concatenated.
        cookies: Box<[u8]>,
        /// The number of the key.
        number: u8,
    },
    /// Longer keys of IKEv1, and the keys of its quick mode.
    Ike1Extended {
        /// The pseudo-random function.
        prf: MacFunction,
        /// The shared secret g^xy.
        shared: Option<ObjectHandle>,
        /// Extra data.
        extra: Box<[u8]>,
    },
    /// The later keys of IKEv2.
    Ike2PrfPlus {
        /// The pseudo-random function.
        prf: MacFunction,
        /// The key at the start of the seed.
        seed_key: Option<ObjectHandle>,
        /// The rest of the seed.
        seed: Box<[u8]>,
    },
}

impl Params {
    /// Checks whether both are equal. The inlined first test answers without a call for two empty
    /// parameters, which most mechanisms have.
    #[inline]
    pub fn same(&self, other: &Self) -> bool {
        matches!((self, other), (Self::None, Self::None)) || self == other
    }
}

impl Params {
    /// Returns the handles of the keys in the parameter.
    pub fn keys(&self) -> Vec<ObjectHandle> {
        match self {
            Self::Key(key) | Self::Hkdf { salt: HkdfSalt::Key(key), .. } => vec![*key],
            Self::Sp800_108 { fields, .. } => fields.iter().filter_map(Field::key).collect(),
            Self::IkePrf { new_key, .. } => new_key.iter().copied().collect(),
            Self::Ike1Prf { shared, previous, .. } => [*shared].into_iter().chain(*previous).collect(),
            Self::Ike1Extended { shared, .. } => shared.iter().copied().collect(),
            Self::Ike2PrfPlus { seed_key, .. } => seed_key.iter().copied().collect(),
            _ => Vec::new(),
        }
    }
}

/// The salt of HKDF (`CKF_HKDF_SALT_*`).
#[derive(Clone, PartialEq, Eq)]
pub enum HkdfSalt {
    /// Zeros, as many as the hash has bytes.
    Null,
    /// These bytes.
    Data(Box<[u8]>),
    /// The value of a key.
    Key(ObjectHandle),
}

/// A mechanism and its parameter: the `CK_MECHANISM` of an `Init` function or a key generation.
#[derive(Clone)]
pub struct Mechanism {
    /// The row of the mechanism table.
    pub info: &'static MechanismInfo,
    /// The parameter.
    pub params: Params,
}

impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.info, other.info) && self.params == other.params
    }
}

/// The rows of each family. The order inside a family has no meaning.
const FAMILIES: &[&[MechanismInfo]] = &[
    rsa::ROWS,
    ec::ROWS,
    ml_dsa::ROWS,
    slh_dsa::ROWS,
    ml_kem::ROWS,
    aes::ROWS,
    chacha20::ROWS,
    hmac::ROWS,
    derive::ROWS,
    secret::ROWS,
    digest::ROWS,
    dh::ROWS,
    ecdh_wrap::ROWS,
    otp::ROWS,
    sp800_108::ROWS,
    password::ROWS,
    tls::ROWS,
    ike::ROWS,
    des3::ROWS,
];

/// Returns every mechanism of this build.
pub fn all() -> impl Iterator<Item = &'static MechanismInfo> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Checks whether a mechanism is obsolete. The token offers obsolete mechanisms only if the
/// configuration enables them.
pub fn is_legacy(mechanism: &MechanismInfo) -> bool {
    mechanism.key_type == Some(KeyType::DES3)
}

/// Returns the mechanism with this number.
pub fn find(id: MechanismType) -> Option<&'static MechanismInfo> {
    static BY_NUMBER: LazyLock<Box<[Option<&MechanismInfo>]>> = LazyLock::new(|| {
        let mut rows = vec![None; COMMON];
        for row in all() {
            if let Some(place) = usize::try_from(row.id.0).ok().and_then(|number| rows.get_mut(number)) {
                *place = Some(row);
            }
        }
        rows.into()
    });
    match usize::try_from(id.0).ok().and_then(|number| BY_NUMBER.get(number)) {
        Some(row) => *row,
        None => all().find(|row| row.id == id),
    }
}

/// The length of the lookup table, because every `Init` function looks up a mechanism. Numbers from
/// here on, such as vendor numbers, are searched for.
const COMMON: usize = 0x4100;

/// Returns the hash that a digest mechanism computes. Parameters name a hash by its mechanism.
pub fn hash_named(id: MechanismType) -> Option<Hash> {
    match find(id)?.action {
        Action::Digest(hash) => Some(hash),
        _ => None,
    }
}

/// Returns the code that a MAC mechanism computes. Parameters name a pseudo-random function by its
/// mechanism.
pub fn mac_of_hmac(id: MechanismType) -> Option<MacFunction> {
    let row = find(id)?;
    match row.action {
        Action::Mac(code) if row.shape == Shape::None => Some(code),
        _ => None,
    }
}

/// Returns the ML-DSA parameter set with this `CKA_PARAMETER_SET` value.
pub fn ml_dsa_set(number: u64) -> Option<MlDsa> {
    MlDsa::ALL.into_iter().find(|set| ml_dsa_number(*set) == number)
}

/// Returns the ML-KEM parameter set with this `CKA_PARAMETER_SET` value.
pub fn ml_kem_set(number: u64) -> Option<MlKem> {
    MlKem::ALL.into_iter().find(|set| ml_kem_number(*set) == number)
}

/// Returns the SLH-DSA parameter set with this `CKA_PARAMETER_SET` value.
pub fn slh_dsa_set(number: u64) -> Option<SlhDsa> {
    SlhDsa::ALL.into_iter().find(|set| slh_dsa_number(*set) == number)
}

/// Returns the `CKA_PARAMETER_SET` value of an ML-DSA parameter set.
pub fn ml_dsa_number(set: MlDsa) -> u64 {
    ml_dsa::number(set)
}

/// Returns the `CKA_PARAMETER_SET` value of an ML-KEM parameter set.
pub fn ml_kem_number(set: MlKem) -> u64 {
    ml_kem::number(set)
}

/// Returns the `CKA_PARAMETER_SET` value of an SLH-DSA parameter set.
pub fn slh_dsa_number(set: SlhDsa) -> u64 {
    slh_dsa::number(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_stands_twice() {
        let mut ids: Vec<_> = all().map(|mechanism| mechanism.id).collect();
        let rows = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), rows);
    }

    #[test]
    fn every_row_has_a_name_and_a_sensible_size_range() {
        for mechanism in all() {
            assert!(mechanism.id.name().is_some());
            assert!(mechanism.sizes.0 <= mechanism.sizes.1, "{}", mechanism.id);
        }
    }
}
