//! The mechanisms: a row each. Lists, info, permission, dispatch and sizes read the row; a family is a file.

use std::sync::LazyLock;

use crate::backend::{Hash, MlDsa, MlKem, Nonce, SlhDsa};
use crate::id::{KeyType, MechanismType, ObjectHandle};

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

/// A mechanism.
pub struct Mechanism {
    /// Its number.
    pub id: MechanismType,
    /// What it does, as `CK_MECHANISM_INFO` says it (`CKF_*`).
    pub flags: u64,
    /// The smallest and largest key, in the unit that the specification names for the mechanism (bits for RSA and
    /// EC, bytes for AES, nothing for digests).
    pub sizes: (u64, u64),
    /// The type of the key that it works with or makes.
    pub key_type: Option<KeyType>,
    /// The parameter that it takes.
    pub shape: Shape,
    /// What is done.
    pub action: Action,
}

/// What a mechanism does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Digests a message.
    Digest(Hash),
    /// Signs and verifies; the hash is applied to the message first.
    Sign(Primitive, Option<Hash>),
    /// Makes and compares message authentication codes.
    Mac(Code),
    /// Encrypts and decrypts, wraps and unwraps, with a secret key.
    Cipher(Mode),
    /// Encrypts and decrypts, wraps and unwraps, with an RSA key pair.
    Encrypt(Asymmetric),
    /// Makes a key out of another.
    Derive(Derivation),
    /// Encapsulates and decapsulates a key.
    Encapsulate,
    /// Makes a secret key of `key_type`.
    Generate,
    /// Makes a key pair of `key_type`.
    GeneratePair,
    /// Makes domain parameters of `key_type`.
    GenerateParameters,
    /// Makes and compares one-time passwords.
    Otp,
    /// Makes a secret key from a password: of `key_type`, or of the type that the template names.
    GenerateFromPassword,
    /// Makes a pre-master secret of TLS, which begins with the version that the parameter names.
    GeneratePreMaster,
}

/// The signature primitive below a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the schemes'")]
pub enum Primitive {
    RsaRaw,
    RsaPkcs1,
    RsaPss,
    Ecdsa,
    Eddsa,
    MlDsa,
    /// HashML-DSA; the hash is the row's, or the one that the parameter names.
    HashMlDsa,
    SlhDsa,
    /// HashSLH-DSA; the hash is the row's, or the one that the parameter names.
    HashSlhDsa,
}

/// A message authentication code below a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the codes'")]
pub enum Code {
    /// With [`Params::Length`] the code is cut to that length.
    Hmac(Hash),
    AesCmac,
    AesGmac,
    /// Half a block without [`Params::Length`], as `CKM_AES_MAC` says.
    AesCbcMac,
    /// Cut to so many bytes: 16 or 12.
    AesXcbc(usize),
    /// `verify_data` of a TLS "finished" message, with [`Params::TlsMac`].
    TlsFinished,
    /// `CKM_TLS_PRF_GENERAL`: as long as the caller's buffer.
    TlsPrf,
}

/// A cipher below a mechanism; its parameter completes it.
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

/// An RSA encryption below a mechanism that does not sign as well; `CKM_RSA_PKCS` and `CKM_RSA_X_509` are
/// [`Action::Sign`] and encrypt with the same padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asymmetric {
    /// RSAES-OAEP
    Oaep,
    /// `CKM_RSA_AES_KEY_WRAP`: a fresh AES key under OAEP, and what is wrapped under that with KWP.
    AesWrap,
    /// `CKM_ECDH_AES_KEY_WRAP`: an AES key by an agreement with a fresh pair, and what is wrapped under that with KWP.
    EcdhAesWrap(PointForm),
}

/// The form of the fresh public key in front of what `CKM_ECDH_AES_KEY_WRAP` and its like wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointForm {
    /// The point, uncompressed, or the u-coordinate.
    Bare,
    /// A DER octet string that holds it.
    Octets,
}

/// A way to make a key out of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Derivation {
    /// ECDH; the cofactor of every curve here is 1 or part of the computation, so both mechanisms are this.
    Ecdh,
    /// HKDF to a key.
    Hkdf,
    /// HKDF to a data object.
    HkdfData,
    /// `CKM_SHA256_KEY_DERIVATION` and its like.
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
    /// The public half of a private key.
    PublicKey,
    Sp800_108(Kdf),
    /// The master secret; with [`Params::TlsExtendedMaster`] that of RFC 7627.
    TlsMaster {
        /// Whether the pre-master secret begins with the client's version (RSA; not Diffie-Hellman).
        versioned: bool,
    },
    /// The keys and MAC keys of a connection.
    TlsKeys,
    /// RFC 5705.
    TlsKdf,
    /// The pseudo-random function of TLS 1.0 and 1.1 itself.
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
    /// `CK_EDDSA_PARAMS`, or none.
    Eddsa,
    /// `CK_SIGN_ADDITIONAL_CONTEXT`, or none.
    SignContext,
    /// `CK_HASH_SIGN_ADDITIONAL_CONTEXT`.
    HashSignContext,
    /// `CK_RSA_PKCS_OAEP_PARAMS`.
    Oaep,
    /// `CK_RSA_AES_KEY_WRAP_PARAMS`.
    RsaAesWrap,
    /// So many bytes of initialisation vector: [`Params::Iv`].
    Iv(usize),
    /// So many bytes of initialisation vector, or none.
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
    /// `CK_ECDH1_DERIVE_PARAMS`, and `CK_ECDH2_DERIVE_PARAMS` not.
    Ecdh,
    /// `CK_HKDF_PARAMS`.
    Hkdf,
    /// `CK_KEY_DERIVATION_STRING_DATA`.
    Data,
    /// `CK_AES_CBC_ENCRYPT_DATA_PARAMS`.
    CbcData,
    /// `CK_OBJECT_HANDLE`.
    Key,
    /// `CK_EXTRACT_PARAMS`: the first bit.
    Bit,
    /// A "Big integer": [`Params::Data`].
    Integer,
    /// `CK_ECDH_AES_KEY_WRAP_PARAMS`.
    EcdhAesWrap,
    /// `CK_OTP_PARAMS`.
    Otp,
    /// `CK_SP800_108_KDF_PARAMS`, or `CK_SP800_108_FEEDBACK_KDF_PARAMS`.
    Sp800_108(Kdf),
    /// `CK_PKCS5_PBKD2_PARAMS2`, or `CK_PKCS5_PBKD2_PARAMS`.
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
    /// `CK_TLS12_KEY_MAT_PARAMS` without initialisation vectors, whatever it says of them.
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
    /// None was given.
    None,
    /// RSASSA-PSS.
    Pss {
        /// The hash of the message.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// Length of the salt in bytes.
        salt_len: usize,
    },
    /// EdDSA.
    Eddsa {
        /// `phFlag`: Ed25519ph, Ed448ph.
        prehash: bool,
        /// The context, at most 255 bytes.
        context: Box<[u8]>,
    },
    /// ML-DSA and SLH-DSA, and their forms with a hash.
    SignContext {
        /// `CKH_DETERMINISTIC_REQUIRED`.
        deterministic: bool,
        /// The context, at most 255 bytes.
        context: Box<[u8]>,
        /// The hash, in `CK_HASH_SIGN_ADDITIONAL_CONTEXT`.
        hash: Option<Hash>,
    },
    /// RSAES-OAEP.
    Oaep {
        /// The hash of the label.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// The label (`CKZ_DATA_SPECIFIED`), or nothing.
        label: Box<[u8]>,
    },
    /// `CKM_RSA_AES_KEY_WRAP`.
    RsaAesWrap {
        /// Size of the AES key in bits.
        aes_bits: u64,
        /// OAEP: the hash of the label.
        hash: Hash,
        /// OAEP: the hash of MGF1.
        mgf: Hash,
        /// OAEP: the label.
        label: Box<[u8]>,
    },
    /// An initialisation vector.
    Iv(Box<[u8]>),
    /// AES-CTR.
    Counter {
        /// The first counter block.
        block: [u8; 16],
        /// How many of its last bits count.
        bits: u32,
    },
    /// AES-GCM, AES-CCM, ChaCha20-Poly1305.
    Aead {
        /// The initialisation vector or nonce.
        nonce: Nonce,
        /// Additional authenticated data.
        aad: Box<[u8]>,
        /// Length of the tag in bytes.
        tag_len: usize,
        /// Length of the message that CCM announces.
        data_len: usize,
    },
    /// ChaCha20.
    ChaCha20 {
        /// 8 or 12 bytes.
        nonce: Box<[u8]>,
        /// The first block's counter.
        counter: u64,
    },
    /// A length in bytes.
    Length(usize),
    /// ECDH.
    Ecdh {
        /// The hash of X9.63's key derivation function; the shared secret itself without (`CKD_NULL`).
        kdf: Option<Hash>,
        /// The shared information.
        shared: Box<[u8]>,
        /// The peer's public key: a point or u-coordinate, raw or as a DER octet string.
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
    /// Bytes.
    Data(Box<[u8]>),
    /// An initialisation vector and bytes.
    CbcData {
        /// The initialisation vector.
        iv: [u8; 16],
        /// The bytes.
        data: Box<[u8]>,
    },
    /// Another key.
    Key(ObjectHandle),
    /// The number of a bit.
    Bit(u64),
    /// `CKM_ECDH_AES_KEY_WRAP` and its like.
    EcdhAesWrap {
        /// Size of the AES key in bits: 128, 192 or 256.
        aes_bits: usize,
        /// The hash of X9.63's key derivation function; the shared secret itself without (`CKD_NULL`).
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
        prf: Code,
        /// What it is applied to, in this order.
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
        /// How often.
        iterations: u32,
        /// The password.
        password: Password,
    },
    /// A version of TLS, major and minor.
    Version([u8; 2]),
    /// The master secret of TLS.
    TlsMaster {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// Those of the handshake.
        randoms: Randoms,
    },
    /// The extended master secret of TLS 1.2.
    TlsExtendedMaster {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// The hash of the handshake so far.
        session_hash: Box<[u8]>,
    },
    /// The keys of a TLS connection; lengths in bytes, each for the client and for the server.
    TlsKeys {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// Those of the handshake.
        randoms: Randoms,
        /// Length of a MAC key.
        mac_len: usize,
        /// Length of a key.
        key_len: usize,
        /// Length of an initialisation vector.
        iv_len: usize,
    },
    /// RFC 5705.
    TlsKdf {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// What the key is for.
        label: Box<[u8]>,
        /// Those of the handshake.
        randoms: Randoms,
        /// The context; an empty one is not the same as none.
        context: Option<Box<[u8]>>,
    },
    /// A TLS "finished" message.
    TlsMac {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// Length of `verify_data` in bytes.
        len: usize,
        /// Whether the server says it.
        server: bool,
    },
    /// The pseudo-random function of TLS 1.0 and 1.1.
    TlsPrf {
        /// The seed.
        seed: Box<[u8]>,
        /// The label.
        label: Box<[u8]>,
        /// How many bytes are wanted.
        len: usize,
    },
    /// The first key of IKE.
    IkePrf {
        /// The pseudo-random function.
        prf: Code,
        /// Whether the nonces are the function's key and the base key is its message.
        data_as_key: bool,
        /// Ni and Nr, one after the other.
        nonces: Box<[u8]>,
        /// The key of a rekeying.
        new_key: Option<ObjectHandle>,
    },
    /// The further keys of IKEv1.
    Ike1Prf {
        /// The pseudo-random function.
        prf: Code,
        /// g^xy
        shared: ObjectHandle,
        /// The key that was derived before.
        previous: Option<ObjectHandle>,
        /// CKYi and CKYr, one after the other.
        cookies: Box<[u8]>,
        /// The number of the key.
        number: u8,
    },
    /// Longer keys of IKEv1, and those of its quick mode.
    Ike1Extended {
        /// The pseudo-random function.
        prf: Code,
        /// g^xy
        shared: Option<ObjectHandle>,
        /// Extra data.
        extra: Box<[u8]>,
    },
    /// The further keys of IKEv2.
    Ike2PrfPlus {
        /// The pseudo-random function.
        prf: Code,
        /// The key that the seed begins with.
        seed_key: Option<ObjectHandle>,
        /// The rest of the seed.
        seed: Box<[u8]>,
    },
}

impl Params {
    /// Whether they are equal; that there is none, as for most mechanisms, is told without a call.
    #[inline]
    pub fn same(&self, other: &Self) -> bool {
        matches!((self, other), (Self::None, Self::None)) || self == other
    }
}

/// The salt of HKDF (`CKF_HKDF_SALT_*`).
#[derive(Clone, PartialEq, Eq)]
pub enum HkdfSalt {
    /// As many zeros as the hash is long.
    Null,
    /// These bytes.
    Data(Box<[u8]>),
    /// The value of a key.
    Key(ObjectHandle),
}

/// A mechanism with its parameter: what an `Init` function or a key generation is given.
#[derive(Clone)]
pub struct Invocation {
    /// The row.
    pub mechanism: &'static Mechanism,
    /// The parameter.
    pub params: Params,
}

impl PartialEq for Invocation {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.mechanism, other.mechanism) && self.params == other.params
    }
}

/// The families, each sorted as it likes.
const FAMILIES: &[&[Mechanism]] = &[
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

/// Every mechanism of this build.
pub fn all() -> impl Iterator<Item = &'static Mechanism> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Whether a mechanism is of a time that is over: it is offered only where the configuration has it.
pub fn is_legacy(mechanism: &Mechanism) -> bool {
    mechanism.key_type == Some(KeyType::DES3)
}

/// The mechanism of that number.
pub fn find(id: MechanismType) -> Option<&'static Mechanism> {
    static BY_NUMBER: LazyLock<Box<[Option<&Mechanism>]>> = LazyLock::new(|| {
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

/// The numbers of mechanisms but for a few, vendors' among them, are below; every Init function looks one up.
const COMMON: usize = 0x4100;

/// The hash that a digest mechanism computes, as parameters name it.
pub fn hash_named(id: MechanismType) -> Option<Hash> {
    match find(id)?.action {
        Action::Digest(hash) => Some(hash),
        _ => None,
    }
}

/// The code that a mechanism makes, as parameters name it: a pseudo-random function.
pub fn code_named(id: MechanismType) -> Option<Code> {
    let row = find(id)?;
    match row.action {
        Action::Mac(code) if row.shape == Shape::None => Some(code),
        _ => None,
    }
}

/// The parameter set of ML-DSA that `CKA_PARAMETER_SET` names.
pub fn ml_dsa_set(number: u64) -> Option<MlDsa> {
    MlDsa::ALL.into_iter().find(|set| ml_dsa_number(*set) == number)
}

/// The parameter set of ML-KEM that `CKA_PARAMETER_SET` names.
pub fn ml_kem_set(number: u64) -> Option<MlKem> {
    MlKem::ALL.into_iter().find(|set| ml_kem_number(*set) == number)
}

/// The parameter set of SLH-DSA that `CKA_PARAMETER_SET` names.
pub fn slh_dsa_set(number: u64) -> Option<SlhDsa> {
    SlhDsa::ALL.into_iter().find(|set| slh_dsa_number(*set) == number)
}

/// The number by which `CKA_PARAMETER_SET` names a parameter set of ML-DSA.
pub fn ml_dsa_number(set: MlDsa) -> u64 {
    ml_dsa::number(set)
}

/// The number by which `CKA_PARAMETER_SET` names a parameter set of ML-KEM.
pub fn ml_kem_number(set: MlKem) -> u64 {
    ml_kem::number(set)
}

/// The number by which `CKA_PARAMETER_SET` names a parameter set of SLH-DSA.
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
