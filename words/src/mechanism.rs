//! The mechanisms, each with the form of its parameter. The core has what they do.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cipher::{AeadScheme as Aead, CipherMode as Mode};
use crate::hash::Hash;
use crate::id::MechanismType as M;
use crate::limit::fits;
use crate::params::Params;
use crate::shape::{KeyExchange, MacFunction as Mac, Shape};
use crate::sp800_108::Kdf;

/// A mechanism.
pub struct MechanismWord {
    /// Its `CKM_*` number.
    pub id: M,
    /// The form of its parameter.
    pub shape: Shape,
    /// The digest or MAC that it computes. Parameters of other mechanisms name these by its number.
    pub function: Option<Function>,
    /// Its place in [`MECHANISMS`].
    pub index: usize,
}

/// A function that a mechanism computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// A message digest.
    Digest(Hash),
    /// A message authentication code.
    Mac(Mac),
}

impl MechanismWord {
    /// Returns the authenticated cipher of this mechanism, or `None` if it is another mechanism.
    #[inline]
    pub const fn aead(&self) -> Option<Aead> {
        match self.shape {
            Shape::Cipher(Mode::Aead(scheme)) => Some(scheme),
            _ => None,
        }
    }
}

/// A mechanism and its parameter: a parsed `CK_MECHANISM`.
#[derive(Clone)]
pub struct Mechanism {
    /// The mechanism.
    pub info: &'static MechanismWord,
    /// The parameter.
    pub params: Params,
}

impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.info, other.info) && self.params == other.params
    }
}

impl Serialize for Mechanism {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.info.id, &self.params).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Mechanism {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (id, params) = <(M, Params)>::deserialize(deserializer)?;
        let info = find(id).ok_or_else(|| D::Error::custom("an unknown mechanism"))?;
        if !fits(&params, info.shape) {
            return Err(D::Error::custom("a parameter beyond its limits"));
        }
        Ok(Self { info, params })
    }
}

/// Returns the mechanism with this number.
#[inline]
pub const fn find(id: M) -> Option<&'static MechanismWord> {
    if id.0 >= COMMON as u64 {
        return search(id);
    }
    let index = BY_NUMBER[id.0 as usize] as usize;
    if index < MECHANISMS.len() { Some(&MECHANISMS[index]) } else { None }
}

const fn search(id: M) -> Option<&'static MechanismWord> {
    let mut index = 0;
    while index < MECHANISMS.len() {
        if MECHANISMS[index].id.0 == id.0 {
            return Some(&MECHANISMS[index]);
        }
        index += 1;
    }
    None
}

/// The length of [`BY_NUMBER`]. `find` must be fast, because every `Init` function looks up a
/// mechanism. For `COMMON` and greater numbers, such as vendor numbers, `find` searches all.
const COMMON: usize = 0x4100;

/// The place of each mechanism by its number; [`NOWHERE`] for a number without a mechanism.
static BY_NUMBER: [u16; COMMON] = {
    let (mut places, mut index) = ([NOWHERE; COMMON], 0);
    while index < LIST.len() {
        let number = LIST[index].id.0;
        if number < COMMON as u64 {
            assert!(places[number as usize] == NOWHERE, "a number is in the list twice");
            places[number as usize] = index as u16;
        }
        index += 1;
    }
    places
};

const NOWHERE: u16 = u16::MAX;

/// All mechanisms, by family. The order has no meaning.
pub static MECHANISMS: [MechanismWord; LIST.len()] = {
    let mut words = [const { plain(M(0)) }; LIST.len()];
    let mut index = 0;
    while index < LIST.len() {
        let MechanismWord { id, shape, function, .. } = LIST[index];
        words[index] = MechanismWord { id, shape, function, index };
        index += 1;
    }
    words
};

const LIST: &[MechanismWord] = &[
    plain(M::RSA_PKCS_KEY_PAIR_GEN),
    plain(M::RSA_X_509),
    plain(M::RSA_PKCS),
    with(M::RSA_PKCS_OAEP, Shape::Oaep),
    with(M::RSA_AES_KEY_WRAP, Shape::RsaAesWrap),
    plain(M::SHA1_RSA_PKCS),
    plain(M::SHA224_RSA_PKCS),
    plain(M::SHA256_RSA_PKCS),
    plain(M::SHA384_RSA_PKCS),
    plain(M::SHA512_RSA_PKCS),
    plain(M::SHA3_224_RSA_PKCS),
    plain(M::SHA3_256_RSA_PKCS),
    plain(M::SHA3_384_RSA_PKCS),
    plain(M::SHA3_512_RSA_PKCS),
    with(M::RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA1_RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA224_RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA256_RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA384_RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA512_RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA3_224_RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA3_256_RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA3_384_RSA_PKCS_PSS, Shape::Pss),
    with(M::SHA3_512_RSA_PKCS_PSS, Shape::Pss),
    plain(M::EC_KEY_PAIR_GEN),
    plain(M::EC_KEY_PAIR_GEN_W_EXTRA_BITS),
    plain(M::ECDSA),
    plain(M::ECDSA_SHA1),
    plain(M::ECDSA_SHA224),
    plain(M::ECDSA_SHA256),
    plain(M::ECDSA_SHA384),
    plain(M::ECDSA_SHA512),
    plain(M::ECDSA_SHA3_224),
    plain(M::ECDSA_SHA3_256),
    plain(M::ECDSA_SHA3_384),
    plain(M::ECDSA_SHA3_512),
    with(M::ECDH1_DERIVE, Shape::Ecdh),
    with(M::ECDH1_COFACTOR_DERIVE, Shape::Ecdh),
    plain(M::EC_MONTGOMERY_KEY_PAIR_GEN),
    plain(M::EC_EDWARDS_KEY_PAIR_GEN),
    with(M::EDDSA, Shape::Eddsa),
    with(M::ECDH_AES_KEY_WRAP, Shape::EcdhAesWrap),
    with(M::ECDH_COF_AES_KEY_WRAP, Shape::EcdhAesWrap),
    with(M::ECDH_X_AES_KEY_WRAP, Shape::EcdhAesWrap),
    plain(M::ML_DSA_KEY_PAIR_GEN),
    with(M::ML_DSA, Shape::SignContext),
    with(M::ML_DSA_EXTERNAL_MU_GEN, Shape::MuGen),
    with(M::ML_DSA_EXTERNAL_MU, Shape::SignContext),
    with(M::HASH_ML_DSA, Shape::HashSignContext),
    with(M::HASH_ML_DSA_SHA224, Shape::SignContext),
    with(M::HASH_ML_DSA_SHA256, Shape::SignContext),
    with(M::HASH_ML_DSA_SHA384, Shape::SignContext),
    with(M::HASH_ML_DSA_SHA512, Shape::SignContext),
    with(M::HASH_ML_DSA_SHA3_224, Shape::SignContext),
    with(M::HASH_ML_DSA_SHA3_256, Shape::SignContext),
    with(M::HASH_ML_DSA_SHA3_384, Shape::SignContext),
    with(M::HASH_ML_DSA_SHA3_512, Shape::SignContext),
    with(M::HASH_ML_DSA_SHAKE128, Shape::SignContext),
    with(M::HASH_ML_DSA_SHAKE256, Shape::SignContext),
    plain(M::JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN),
    with(M::JETON_COMPOSITE_ML_DSA, Shape::SignContext),
    plain(M::SLH_DSA_KEY_PAIR_GEN),
    with(M::SLH_DSA, Shape::SignContext),
    with(M::HASH_SLH_DSA, Shape::HashSignContext),
    with(M::HASH_SLH_DSA_SHA224, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHA256, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHA384, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHA512, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHA3_224, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHA3_256, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHA3_384, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHA3_512, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHAKE128, Shape::SignContext),
    with(M::HASH_SLH_DSA_SHAKE256, Shape::SignContext),
    plain(M::HSS_KEY_PAIR_GEN),
    plain(M::HSS),
    plain(M::XMSS),
    plain(M::XMSSMT),
    plain(M::ML_KEM_KEY_PAIR_GEN),
    plain(M::ML_KEM),
    plain(M::AES_KEY_GEN),
    cipher(M::AES_ECB, Mode::AesEcb),
    cipher(M::AES_CBC, Mode::AesCbc),
    cipher(M::AES_CBC_PAD, Mode::AesCbcPad),
    cipher(M::AES_CTS, Mode::AesCts),
    cipher(M::AES_CTR, Mode::AesCtr),
    cipher(M::AES_OFB, Mode::AesOfb),
    cipher(M::AES_CFB1, Mode::AesCfb(1)),
    cipher(M::AES_CFB8, Mode::AesCfb(8)),
    cipher(M::AES_CFB64, Mode::AesCfb(64)),
    cipher(M::AES_CFB128, Mode::AesCfb(128)),
    cipher(M::AES_GCM, Mode::Aead(Aead::AesGcm)),
    cipher(M::AES_CCM, Mode::Aead(Aead::AesCcm)),
    cipher(M::AES_KEY_WRAP, Mode::AesKw),
    cipher(M::AES_KEY_WRAP_KWP, Mode::AesKwp),
    cipher(M::AES_KEY_WRAP_PAD, Mode::AesKwp),
    cipher(M::AES_KEY_WRAP_PKCS7, Mode::AesKwPkcs7),
    cipher(M::AES_XTS, Mode::AesXts),
    plain(M::AES_XTS_KEY_GEN),
    mac(M::AES_CMAC, Shape::None, Mac::AesCmac),
    mac(M::AES_CMAC_GENERAL, Shape::Length, Mac::AesCmac),
    mac(M::AES_GMAC, Shape::Gmac, Mac::AesGmac),
    mac(M::AES_MAC, Shape::None, Mac::AesCbcMac),
    mac(M::AES_MAC_GENERAL, Shape::Length, Mac::AesCbcMac),
    mac(M::AES_XCBC_MAC, Shape::None, Mac::AesXcbc(16)),
    mac(M::AES_XCBC_MAC_96, Shape::None, Mac::AesXcbc(12)),
    plain(M::CHACHA20_KEY_GEN),
    cipher(M::CHACHA20, Mode::ChaCha20),
    cipher(M::CHACHA20_POLY1305, Mode::Aead(Aead::ChaCha20Poly1305)),
    mac(M::SHA_1_HMAC, Shape::None, Mac::Hmac(Hash::Sha1)),
    mac(M::SHA_1_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha1)),
    plain(M::SHA_1_KEY_GEN),
    mac(M::SHA224_HMAC, Shape::None, Mac::Hmac(Hash::Sha224)),
    mac(M::SHA224_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha224)),
    plain(M::SHA224_KEY_GEN),
    mac(M::SHA256_HMAC, Shape::None, Mac::Hmac(Hash::Sha256)),
    mac(M::SHA256_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha256)),
    plain(M::SHA256_KEY_GEN),
    mac(M::SHA384_HMAC, Shape::None, Mac::Hmac(Hash::Sha384)),
    mac(M::SHA384_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha384)),
    plain(M::SHA384_KEY_GEN),
    mac(M::SHA512_HMAC, Shape::None, Mac::Hmac(Hash::Sha512)),
    mac(M::SHA512_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha512)),
    plain(M::SHA512_KEY_GEN),
    mac(M::SHA512_224_HMAC, Shape::None, Mac::Hmac(Hash::Sha512_224)),
    mac(M::SHA512_224_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha512_224)),
    plain(M::SHA512_224_KEY_GEN),
    mac(M::SHA512_256_HMAC, Shape::None, Mac::Hmac(Hash::Sha512_256)),
    mac(M::SHA512_256_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha512_256)),
    plain(M::SHA512_256_KEY_GEN),
    mac(M::SHA3_224_HMAC, Shape::None, Mac::Hmac(Hash::Sha3_224)),
    mac(M::SHA3_224_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha3_224)),
    plain(M::SHA3_224_KEY_GEN),
    mac(M::SHA3_256_HMAC, Shape::None, Mac::Hmac(Hash::Sha3_256)),
    mac(M::SHA3_256_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha3_256)),
    plain(M::SHA3_256_KEY_GEN),
    mac(M::SHA3_384_HMAC, Shape::None, Mac::Hmac(Hash::Sha3_384)),
    mac(M::SHA3_384_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha3_384)),
    plain(M::SHA3_384_KEY_GEN),
    mac(M::SHA3_512_HMAC, Shape::None, Mac::Hmac(Hash::Sha3_512)),
    mac(M::SHA3_512_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Sha3_512)),
    plain(M::SHA3_512_KEY_GEN),
    mac(M::BLAKE2B_160_HMAC, Shape::None, Mac::Hmac(Hash::Blake2b160)),
    mac(M::BLAKE2B_160_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Blake2b160)),
    plain(M::BLAKE2B_160_KEY_GEN),
    mac(M::BLAKE2B_256_HMAC, Shape::None, Mac::Hmac(Hash::Blake2b256)),
    mac(M::BLAKE2B_256_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Blake2b256)),
    plain(M::BLAKE2B_256_KEY_GEN),
    mac(M::BLAKE2B_384_HMAC, Shape::None, Mac::Hmac(Hash::Blake2b384)),
    mac(M::BLAKE2B_384_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Blake2b384)),
    plain(M::BLAKE2B_384_KEY_GEN),
    mac(M::BLAKE2B_512_HMAC, Shape::None, Mac::Hmac(Hash::Blake2b512)),
    mac(M::BLAKE2B_512_HMAC_GENERAL, Shape::Length, Mac::Hmac(Hash::Blake2b512)),
    plain(M::BLAKE2B_512_KEY_GEN),
    plain(M::GENERIC_SECRET_KEY_GEN),
    with(M::HKDF_DERIVE, Shape::Hkdf),
    with(M::HKDF_DATA, Shape::Hkdf),
    plain(M::HKDF_KEY_GEN),
    with(M::CONCATENATE_BASE_AND_KEY, Shape::Key),
    with(M::CONCATENATE_BASE_AND_DATA, Shape::Data),
    with(M::CONCATENATE_DATA_AND_BASE, Shape::Data),
    with(M::XOR_BASE_AND_DATA, Shape::Data),
    with(M::EXTRACT_KEY_FROM_KEY, Shape::Bit),
    plain(M::PUB_KEY_FROM_PRIV_KEY),
    with(M::AES_ECB_ENCRYPT_DATA, Shape::Data),
    with(M::AES_CBC_ENCRYPT_DATA, Shape::CbcData),
    plain(M::SHA1_KEY_DERIVATION),
    plain(M::SHA224_KEY_DERIVATION),
    plain(M::SHA256_KEY_DERIVATION),
    plain(M::SHA384_KEY_DERIVATION),
    plain(M::SHA512_KEY_DERIVATION),
    plain(M::SHA512_224_KEY_DERIVATION),
    plain(M::SHA512_256_KEY_DERIVATION),
    plain(M::SHA3_224_KEY_DERIVATION),
    plain(M::SHA3_256_KEY_DERIVATION),
    plain(M::SHA3_384_KEY_DERIVATION),
    plain(M::SHA3_512_KEY_DERIVATION),
    plain(M::BLAKE2B_160_KEY_DERIVE),
    plain(M::BLAKE2B_256_KEY_DERIVE),
    plain(M::BLAKE2B_384_KEY_DERIVE),
    plain(M::BLAKE2B_512_KEY_DERIVE),
    plain(M::SHAKE_128_KEY_DERIVATION),
    plain(M::SHAKE_256_KEY_DERIVATION),
    digest(M::SHA_1, Hash::Sha1),
    digest(M::SHA224, Hash::Sha224),
    digest(M::SHA256, Hash::Sha256),
    digest(M::SHA384, Hash::Sha384),
    digest(M::SHA512, Hash::Sha512),
    digest(M::SHA512_224, Hash::Sha512_224),
    digest(M::SHA512_256, Hash::Sha512_256),
    digest(M::SHA3_224, Hash::Sha3_224),
    digest(M::SHA3_256, Hash::Sha3_256),
    digest(M::SHA3_384, Hash::Sha3_384),
    digest(M::SHA3_512, Hash::Sha3_512),
    digest(M::BLAKE2B_160, Hash::Blake2b160),
    digest(M::BLAKE2B_256, Hash::Blake2b256),
    digest(M::BLAKE2B_384, Hash::Blake2b384),
    digest(M::BLAKE2B_512, Hash::Blake2b512),
    plain(M::DH_PKCS_KEY_PAIR_GEN),
    plain(M::DH_PKCS_PARAMETER_GEN),
    with(M::DH_PKCS_DERIVE, Shape::Integer),
    plain(M::HOTP_KEY_GEN),
    with(M::HOTP, Shape::Otp),
    with(M::SP800_108_COUNTER_KDF, Shape::Sp800_108(Kdf::Counter)),
    with(M::SP800_108_FEEDBACK_KDF, Shape::Sp800_108(Kdf::Feedback)),
    with(M::SP800_108_DOUBLE_PIPELINE_KDF, Shape::Sp800_108(Kdf::DoublePipeline)),
    with(M::PKCS5_PBKD2, Shape::Pbkdf2),
    with(M::SSL3_PRE_MASTER_KEY_GEN, Shape::Version),
    with(M::TLS_PRE_MASTER_KEY_GEN, Shape::Version),
    with(M::TLS_MASTER_KEY_DERIVE, Shape::TlsMaster(KeyExchange::Rsa)),
    with(M::TLS_MASTER_KEY_DERIVE_DH, Shape::TlsMaster(KeyExchange::DiffieHellman)),
    with(M::TLS_KEY_AND_MAC_DERIVE, Shape::TlsKeys),
    with(M::TLS_PRF, Shape::TlsPrf),
    with(M::TLS12_MASTER_KEY_DERIVE, Shape::Tls12Master(KeyExchange::Rsa)),
    with(M::TLS12_MASTER_KEY_DERIVE_DH, Shape::Tls12Master(KeyExchange::DiffieHellman)),
    with(M::TLS12_EXTENDED_MASTER_KEY_DERIVE, Shape::Tls12ExtendedMaster(KeyExchange::Rsa)),
    with(M::TLS12_EXTENDED_MASTER_KEY_DERIVE_DH, Shape::Tls12ExtendedMaster(KeyExchange::DiffieHellman)),
    with(M::TLS12_KEY_AND_MAC_DERIVE, Shape::Tls12Keys),
    with(M::TLS12_KEY_SAFE_DERIVE, Shape::Tls12SafeKeys),
    with(M::TLS_KDF, Shape::TlsKdf),
    with(M::TLS12_KDF, Shape::TlsKdf),
    mac(M::TLS_MAC, Shape::TlsMac, Mac::TlsFinished),
    mac(M::TLS12_MAC, Shape::TlsMac, Mac::TlsFinished),
    mac(M::TLS_PRF_GENERAL, Shape::None, Mac::TlsPrf),
    with(M::IKE_PRF_DERIVE, Shape::IkePrf),
    with(M::IKE1_PRF_DERIVE, Shape::Ike1Prf),
    with(M::IKE1_EXTENDED_DERIVE, Shape::Ike1Extended),
    with(M::IKE2_PRF_PLUS_DERIVE, Shape::Ike2PrfPlus),
    plain(M::DES3_KEY_GEN),
    cipher(M::DES3_ECB, Mode::Des3Ecb),
    cipher(M::DES3_CBC, Mode::Des3Cbc),
    cipher(M::DES3_CBC_PAD, Mode::Des3CbcPad),
];

/// A mechanism without a parameter.
const fn plain(id: M) -> MechanismWord {
    with(id, Shape::None)
}

const fn with(id: M, shape: Shape) -> MechanismWord {
    MechanismWord { id, shape, function: None, index: 0 }
}

const fn cipher(id: M, mode: Mode) -> MechanismWord {
    with(id, Shape::Cipher(mode))
}

const fn digest(id: M, hash: Hash) -> MechanismWord {
    MechanismWord { function: Some(Function::Digest(hash)), ..plain(id) }
}

const fn mac(id: M, shape: Shape, function: Mac) -> MechanismWord {
    MechanismWord { function: Some(Function::Mac(function)), ..with(id, shape) }
}
