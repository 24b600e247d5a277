//! What the parameter of each mechanism is. The agent and its client both have this table, so that
//! neither follows a pointer because the other one says so.

use cryptoki_sys::*;

use crate::source::{CKM_JETON_COMPOSITE_ML_DSA, CKM_ML_DSA_EXTERNAL_MU, CKM_ML_DSA_EXTERNAL_MU_GEN};
use crate::structs::Parameter;

/// Returns what the parameter of a mechanism is; [`Parameter::None`] for an unknown one. `fixed` is
/// what it is if the function decides it: then a mechanism without messages is refused before its
/// parameter is read.
pub fn parameter(mechanism: CK_MECHANISM_TYPE, fixed: Option<Parameter>) -> Parameter {
    match (fixed, of_mechanism(mechanism)) {
        (Some(fixed), Parameter::Gcm | Parameter::Ccm | Parameter::Poly1305) => fixed,
        (Some(_), _) => Parameter::None,
        (None, parameter) => parameter,
    }
}

fn of_mechanism(mechanism: CK_MECHANISM_TYPE) -> Parameter {
    use Parameter as P;
    // The mechanisms of a range have numbers without a gap.
    match mechanism {
        CKM_RSA_PKCS_PSS
        | CKM_SHA1_RSA_PKCS_PSS
        | CKM_SHA224_RSA_PKCS_PSS
        | CKM_SHA256_RSA_PKCS_PSS..=CKM_SHA512_RSA_PKCS_PSS
        | CKM_SHA3_224_RSA_PKCS_PSS
        | CKM_SHA3_256_RSA_PKCS_PSS..=CKM_SHA3_512_RSA_PKCS_PSS => P::Pss,
        CKM_AES_CTR => P::Counter,
        CKM_TLS_MAC | CKM_TLS12_MAC => P::TlsMac,
        CKM_SSL3_PRE_MASTER_KEY_GEN | CKM_TLS_PRE_MASTER_KEY_GEN => P::Version,
        CKM_AES_CMAC_GENERAL
        | CKM_AES_MAC_GENERAL
        | CKM_SHA_1_HMAC_GENERAL
        | CKM_SHA224_HMAC_GENERAL
        | CKM_SHA256_HMAC_GENERAL
        | CKM_SHA384_HMAC_GENERAL
        | CKM_SHA512_HMAC_GENERAL
        | CKM_SHA512_224_HMAC_GENERAL
        | CKM_SHA512_256_HMAC_GENERAL
        | CKM_SHA3_224_HMAC_GENERAL
        | CKM_SHA3_256_HMAC_GENERAL
        | CKM_SHA3_384_HMAC_GENERAL
        | CKM_SHA3_512_HMAC_GENERAL
        | CKM_BLAKE2B_160_HMAC_GENERAL
        | CKM_BLAKE2B_256_HMAC_GENERAL
        | CKM_BLAKE2B_384_HMAC_GENERAL
        | CKM_BLAKE2B_512_HMAC_GENERAL => P::MacLen,
        CKM_EXTRACT_KEY_FROM_KEY => P::Bit,
        CKM_CONCATENATE_BASE_AND_KEY => P::Object,
        CKM_AES_CBC
        | CKM_AES_CBC_PAD
        | CKM_AES_CTS
        | CKM_AES_OFB..=CKM_AES_KEY_WRAP_PKCS7
        | CKM_AES_XTS
        | CKM_DH_PKCS_DERIVE
        | CKM_DES3_CBC
        | CKM_DES3_CBC_PAD => P::Bytes,
        CKM_ML_DSA
        | CKM_ML_DSA_EXTERNAL_MU
        | CKM_JETON_COMPOSITE_ML_DSA
        | CKM_HASH_ML_DSA_SHA224..=CKM_HASH_ML_DSA_SHAKE256
        | CKM_SLH_DSA
        | CKM_HASH_SLH_DSA_SHA224..=CKM_HASH_SLH_DSA_SHAKE256 => P::SignContext,
        CKM_CONCATENATE_BASE_AND_DATA
        | CKM_CONCATENATE_DATA_AND_BASE
        | CKM_XOR_BASE_AND_DATA
        | CKM_AES_ECB_ENCRYPT_DATA => P::StringData,
        CKM_ECDH_AES_KEY_WRAP | CKM_ECDH_COF_AES_KEY_WRAP | CKM_ECDH_X_AES_KEY_WRAP => P::EcdhAesWrap,
        CKM_ECDH1_DERIVE | CKM_ECDH1_COFACTOR_DERIVE => P::Ecdh,
        CKM_HASH_ML_DSA | CKM_HASH_SLH_DSA => P::HashSignContext,
        CKM_ML_DSA_EXTERNAL_MU_GEN => P::MuGen,
        CKM_HKDF_DERIVE | CKM_HKDF_DATA => P::Hkdf,
        CKM_SP800_108_COUNTER_KDF | CKM_SP800_108_DOUBLE_PIPELINE_KDF => P::Sp800_108,
        CKM_TLS_MASTER_KEY_DERIVE | CKM_TLS_MASTER_KEY_DERIVE_DH => P::TlsMaster,
        CKM_TLS12_MASTER_KEY_DERIVE | CKM_TLS12_MASTER_KEY_DERIVE_DH => P::Tls12Master,
        CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE | CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE_DH => {
            P::Tls12ExtendedMaster
        }
        CKM_TLS_KDF | CKM_TLS12_KDF => P::TlsKdf,
        CKM_RSA_PKCS_OAEP => P::Oaep,
        CKM_RSA_AES_KEY_WRAP => P::RsaAesWrap,
        CKM_EDDSA => P::Eddsa,
        CKM_AES_GCM => P::Gcm,
        CKM_AES_GMAC => P::Gmac,
        CKM_AES_CCM => P::Ccm,
        CKM_CHACHA20 => P::ChaCha20,
        CKM_CHACHA20_POLY1305 => P::Poly1305,
        CKM_AES_CBC_ENCRYPT_DATA => P::CbcData,
        CKM_HOTP => P::Otp,
        CKM_SP800_108_FEEDBACK_KDF => P::Sp800_108Feedback,
        CKM_PKCS5_PBKD2 => P::Pbkdf2,
        CKM_TLS_KEY_AND_MAC_DERIVE => P::TlsKeys,
        CKM_TLS_PRF => P::TlsPrf,
        CKM_TLS12_KEY_AND_MAC_DERIVE => P::Tls12Keys,
        CKM_TLS12_KEY_SAFE_DERIVE => P::Tls12SafeKeys,
        CKM_IKE_PRF_DERIVE => P::IkePrf,
        CKM_IKE1_PRF_DERIVE => P::Ike1Prf,
        CKM_IKE1_EXTENDED_DERIVE => P::Ike1Extended,
        CKM_IKE2_PRF_PLUS_DERIVE => P::Ike2PrfPlus,
        _ => P::None,
    }
}
