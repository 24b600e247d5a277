//! The forms of the parameters of mechanisms, and the functions that parameters name.

use serde::{Deserialize, Serialize};

use crate::cipher::CipherMode;
use crate::hash::Hash;
use crate::sp800_108::Kdf;

/// The message authentication code of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the algorithms'")]
pub enum MacFunction {
    /// [`Params::Length`](crate::params::Params::Length) truncates the output to that length.
    Hmac(Hash),
    AesCmac,
    AesGmac,
    /// Without [`Params::Length`](crate::params::Params::Length) the output is half a block, as
    /// `CKM_AES_MAC` requires.
    AesCbcMac,
    /// The output is truncated to this number of bytes: 16 or 12.
    AesXcbc(usize),
    /// `verify_data` of a TLS "finished" message, with
    /// [`Params::TlsMac`](crate::params::Params::TlsMac).
    TlsFinished,
    /// `CKM_TLS_PRF_GENERAL`: the output is as long as the caller's buffer.
    TlsPrf,
}

/// How the pre-master secret of a TLS connection was agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyExchange {
    /// RSA. The pre-master secret begins with the client's version.
    Rsa,
    /// Diffie-Hellman.
    DiffieHellman,
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
    /// `CK_MU_GEN_PARAMS`.
    MuGen,
    /// `CK_RSA_PKCS_OAEP_PARAMS`.
    Oaep,
    /// `CK_RSA_AES_KEY_WRAP_PARAMS`.
    RsaAesWrap,
    /// The parameter of a cipher: [`Params::Cipher`](crate::params::Params::Cipher). It is an
    /// initialisation vector, or `CK_AES_CTR_PARAMS`, `CK_GCM_PARAMS`, `CK_CCM_PARAMS`,
    /// `CK_CHACHA20_PARAMS` or `CK_SALSA20_CHACHA20_POLY1305_PARAMS`.
    Cipher(CipherMode),
    /// `CK_GCM_PARAMS` without additional data, or the initialisation vector: 1 to 256 bytes.
    Gmac,
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
    /// A "Big integer": [`Params::Data`](crate::params::Params::Data).
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
    TlsMaster(KeyExchange),
    /// `CK_TLS12_MASTER_KEY_DERIVE_PARAMS`.
    Tls12Master(KeyExchange),
    /// `CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS`.
    Tls12ExtendedMaster(KeyExchange),
    /// `CK_SSL3_KEY_MAT_PARAMS`.
    TlsKeys,
    /// `CK_TLS12_KEY_MAT_PARAMS`.
    Tls12Keys,
    /// `CK_TLS12_KEY_MAT_PARAMS`. The token ignores its length of initialisation vectors and uses
    /// 0.
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

impl Shape {
    /// Returns whether the mechanism has a parameter. The token never reads the parameter of a
    /// mechanism without one.
    #[inline]
    pub fn has_parameter(self) -> bool {
        !matches!(self, Self::None | Self::Cipher(CipherMode::AesEcb | CipherMode::Des3Ecb))
    }
}
