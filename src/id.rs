//! The numbers of PKCS#11 as separate types, so that the compiler finds a slot used as a session.
//!
//! The values come from the specification's headers through `cryptoki-sys`. No other file of the
//! core names that crate.

use std::fmt;

/// A slot (`CK_SLOT_ID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u64);

/// A session (`CK_SESSION_HANDLE`). 0 is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionHandle(pub u64);

/// An object (`CK_OBJECT_HANDLE`), valid only in this process. 0 is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectHandle(pub u64);

/// The constants of the specification, and those that it lacks.
mod source {
    pub use cryptoki_sys::*;

    /// NSS defined this number; the standard has none for it.
    pub const CKM_TLS_PRF_GENERAL: CK_MECHANISM_TYPE = 0x8000_0373;

    /// Marks a secret key that contains bytes of an unreadable key. It is 1 after a concatenation,
    /// and 2 after another derivation that copies bytes. Only the token sets it. See
    /// `module::derive`.
    pub const CKA_JETON_COPIED: CK_ATTRIBUTE_TYPE = CKA_VENDOR_DEFINED | 0x4a45_0001;
}

/// Defines a type of numbers, its constants, and their specification names for the log and the
/// configuration.
macro_rules! numbers {
    ($(#[$meta:meta])* $type:ident { $($constant:ident = $source:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub u64);

        #[allow(missing_docs, reason = "the names are the specification's")]
        #[allow(clippy::unnecessary_cast, reason = "CK_ULONG has 32 bits on other platforms")]
        impl $type {
            $(pub const $constant: Self = Self(source::$source as u64);)*

            const NAMES: &'static [(&'static str, Self)] = &[$((stringify!($source), Self::$constant),)*];

            /// Returns the specification's name of this number, or `None` if the token does not
            /// know it.
            pub fn name(self) -> Option<&'static str> {
                Self::NAMES.iter().find(|(_, number)| *number == self).map(|(name, _)| *name)
            }

            /// Returns the number with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({:#x})", stringify!($type), self.0),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

numbers! {
    /// A mechanism (`CK_MECHANISM_TYPE`).
    MechanismType {
        RSA_PKCS_KEY_PAIR_GEN = CKM_RSA_PKCS_KEY_PAIR_GEN,
        RSA_PKCS = CKM_RSA_PKCS,
        RSA_X_509 = CKM_RSA_X_509,
        RSA_PKCS_PSS = CKM_RSA_PKCS_PSS,
        SHA1_RSA_PKCS = CKM_SHA1_RSA_PKCS,
        SHA224_RSA_PKCS = CKM_SHA224_RSA_PKCS,
        SHA256_RSA_PKCS = CKM_SHA256_RSA_PKCS,
        SHA384_RSA_PKCS = CKM_SHA384_RSA_PKCS,
        SHA512_RSA_PKCS = CKM_SHA512_RSA_PKCS,
        SHA1_RSA_PKCS_PSS = CKM_SHA1_RSA_PKCS_PSS,
        SHA224_RSA_PKCS_PSS = CKM_SHA224_RSA_PKCS_PSS,
        SHA256_RSA_PKCS_PSS = CKM_SHA256_RSA_PKCS_PSS,
        SHA384_RSA_PKCS_PSS = CKM_SHA384_RSA_PKCS_PSS,
        SHA512_RSA_PKCS_PSS = CKM_SHA512_RSA_PKCS_PSS,
        EC_KEY_PAIR_GEN = CKM_EC_KEY_PAIR_GEN,
        ECDSA = CKM_ECDSA,
        ECDSA_SHA1 = CKM_ECDSA_SHA1,
        ECDSA_SHA224 = CKM_ECDSA_SHA224,
        ECDSA_SHA256 = CKM_ECDSA_SHA256,
        ECDSA_SHA384 = CKM_ECDSA_SHA384,
        ECDSA_SHA512 = CKM_ECDSA_SHA512,
        EC_EDWARDS_KEY_PAIR_GEN = CKM_EC_EDWARDS_KEY_PAIR_GEN,
        EDDSA = CKM_EDDSA,
        ML_DSA_KEY_PAIR_GEN = CKM_ML_DSA_KEY_PAIR_GEN,
        ML_DSA = CKM_ML_DSA,
        AES_KEY_GEN = CKM_AES_KEY_GEN,
        GENERIC_SECRET_KEY_GEN = CKM_GENERIC_SECRET_KEY_GEN,
        SHA_1 = CKM_SHA_1,
        SHA224 = CKM_SHA224,
        SHA256 = CKM_SHA256,
        SHA384 = CKM_SHA384,
        SHA512 = CKM_SHA512,
        AES_CBC = CKM_AES_CBC,
        AES_CBC_ENCRYPT_DATA = CKM_AES_CBC_ENCRYPT_DATA,
        AES_CBC_PAD = CKM_AES_CBC_PAD,
        AES_CCM = CKM_AES_CCM,
        AES_CFB1 = CKM_AES_CFB1,
        AES_CFB128 = CKM_AES_CFB128,
        AES_CFB64 = CKM_AES_CFB64,
        AES_CFB8 = CKM_AES_CFB8,
        AES_CMAC = CKM_AES_CMAC,
        AES_CMAC_GENERAL = CKM_AES_CMAC_GENERAL,
        AES_CTR = CKM_AES_CTR,
        AES_CTS = CKM_AES_CTS,
        AES_ECB = CKM_AES_ECB,
        AES_ECB_ENCRYPT_DATA = CKM_AES_ECB_ENCRYPT_DATA,
        AES_GCM = CKM_AES_GCM,
        AES_GMAC = CKM_AES_GMAC,
        AES_KEY_WRAP = CKM_AES_KEY_WRAP,
        AES_KEY_WRAP_KWP = CKM_AES_KEY_WRAP_KWP,
        AES_KEY_WRAP_PAD = CKM_AES_KEY_WRAP_PAD,
        AES_MAC = CKM_AES_MAC,
        AES_MAC_GENERAL = CKM_AES_MAC_GENERAL,
        AES_OFB = CKM_AES_OFB,
        AES_XCBC_MAC = CKM_AES_XCBC_MAC,
        AES_XCBC_MAC_96 = CKM_AES_XCBC_MAC_96,
        AES_XTS = CKM_AES_XTS,
        AES_XTS_KEY_GEN = CKM_AES_XTS_KEY_GEN,
        CHACHA20 = CKM_CHACHA20,
        DES3_CBC = CKM_DES3_CBC,
        DES3_CBC_PAD = CKM_DES3_CBC_PAD,
        DES3_ECB = CKM_DES3_ECB,
        DES3_KEY_GEN = CKM_DES3_KEY_GEN,
        CHACHA20_KEY_GEN = CKM_CHACHA20_KEY_GEN,
        CHACHA20_POLY1305 = CKM_CHACHA20_POLY1305,
        CONCATENATE_BASE_AND_DATA = CKM_CONCATENATE_BASE_AND_DATA,
        CONCATENATE_BASE_AND_KEY = CKM_CONCATENATE_BASE_AND_KEY,
        CONCATENATE_DATA_AND_BASE = CKM_CONCATENATE_DATA_AND_BASE,
        ECDH1_COFACTOR_DERIVE = CKM_ECDH1_COFACTOR_DERIVE,
        ECDH1_DERIVE = CKM_ECDH1_DERIVE,
        ECDSA_SHA3_224 = CKM_ECDSA_SHA3_224,
        ECDSA_SHA3_256 = CKM_ECDSA_SHA3_256,
        ECDSA_SHA3_384 = CKM_ECDSA_SHA3_384,
        ECDSA_SHA3_512 = CKM_ECDSA_SHA3_512,
        EC_MONTGOMERY_KEY_PAIR_GEN = CKM_EC_MONTGOMERY_KEY_PAIR_GEN,
        EXTRACT_KEY_FROM_KEY = CKM_EXTRACT_KEY_FROM_KEY,
        HASH_ML_DSA = CKM_HASH_ML_DSA,
        HASH_ML_DSA_SHA224 = CKM_HASH_ML_DSA_SHA224,
        HASH_ML_DSA_SHA256 = CKM_HASH_ML_DSA_SHA256,
        HASH_ML_DSA_SHA384 = CKM_HASH_ML_DSA_SHA384,
        HASH_ML_DSA_SHA3_224 = CKM_HASH_ML_DSA_SHA3_224,
        HASH_ML_DSA_SHA3_256 = CKM_HASH_ML_DSA_SHA3_256,
        HASH_ML_DSA_SHA3_384 = CKM_HASH_ML_DSA_SHA3_384,
        HASH_ML_DSA_SHA3_512 = CKM_HASH_ML_DSA_SHA3_512,
        HASH_ML_DSA_SHA512 = CKM_HASH_ML_DSA_SHA512,
        HASH_ML_DSA_SHAKE128 = CKM_HASH_ML_DSA_SHAKE128,
        HASH_ML_DSA_SHAKE256 = CKM_HASH_ML_DSA_SHAKE256,
        HASH_SLH_DSA = CKM_HASH_SLH_DSA,
        HASH_SLH_DSA_SHA224 = CKM_HASH_SLH_DSA_SHA224,
        HASH_SLH_DSA_SHA256 = CKM_HASH_SLH_DSA_SHA256,
        HASH_SLH_DSA_SHA384 = CKM_HASH_SLH_DSA_SHA384,
        HASH_SLH_DSA_SHA3_224 = CKM_HASH_SLH_DSA_SHA3_224,
        HASH_SLH_DSA_SHA3_256 = CKM_HASH_SLH_DSA_SHA3_256,
        HASH_SLH_DSA_SHA3_384 = CKM_HASH_SLH_DSA_SHA3_384,
        HASH_SLH_DSA_SHA3_512 = CKM_HASH_SLH_DSA_SHA3_512,
        HASH_SLH_DSA_SHA512 = CKM_HASH_SLH_DSA_SHA512,
        HASH_SLH_DSA_SHAKE128 = CKM_HASH_SLH_DSA_SHAKE128,
        HASH_SLH_DSA_SHAKE256 = CKM_HASH_SLH_DSA_SHAKE256,
        HKDF_DATA = CKM_HKDF_DATA,
        HKDF_DERIVE = CKM_HKDF_DERIVE,
        HKDF_KEY_GEN = CKM_HKDF_KEY_GEN,
        ML_KEM = CKM_ML_KEM,
        ML_KEM_KEY_PAIR_GEN = CKM_ML_KEM_KEY_PAIR_GEN,
        RSA_AES_KEY_WRAP = CKM_RSA_AES_KEY_WRAP,
        RSA_PKCS_OAEP = CKM_RSA_PKCS_OAEP,
        SHA1_KEY_DERIVATION = CKM_SHA1_KEY_DERIVATION,
        SHA224_HMAC = CKM_SHA224_HMAC,
        SHA224_HMAC_GENERAL = CKM_SHA224_HMAC_GENERAL,
        SHA224_KEY_DERIVATION = CKM_SHA224_KEY_DERIVATION,
        SHA224_KEY_GEN = CKM_SHA224_KEY_GEN,
        SHA256_HMAC = CKM_SHA256_HMAC,
        SHA256_HMAC_GENERAL = CKM_SHA256_HMAC_GENERAL,
        SHA256_KEY_DERIVATION = CKM_SHA256_KEY_DERIVATION,
        SHA256_KEY_GEN = CKM_SHA256_KEY_GEN,
        SHA384_HMAC = CKM_SHA384_HMAC,
        SHA384_HMAC_GENERAL = CKM_SHA384_HMAC_GENERAL,
        SHA384_KEY_DERIVATION = CKM_SHA384_KEY_DERIVATION,
        SHA384_KEY_GEN = CKM_SHA384_KEY_GEN,
        SHA3_224 = CKM_SHA3_224,
        SHA3_224_HMAC = CKM_SHA3_224_HMAC,
        SHA3_224_HMAC_GENERAL = CKM_SHA3_224_HMAC_GENERAL,
        SHA3_224_KEY_DERIVATION = CKM_SHA3_224_KEY_DERIVATION,
        SHA3_224_KEY_GEN = CKM_SHA3_224_KEY_GEN,
        SHA3_224_RSA_PKCS = CKM_SHA3_224_RSA_PKCS,
        SHA3_224_RSA_PKCS_PSS = CKM_SHA3_224_RSA_PKCS_PSS,
        SHA3_256 = CKM_SHA3_256,
        SHA3_256_HMAC = CKM_SHA3_256_HMAC,
        SHA3_256_HMAC_GENERAL = CKM_SHA3_256_HMAC_GENERAL,
        SHA3_256_KEY_DERIVATION = CKM_SHA3_256_KEY_DERIVATION,
        SHA3_256_KEY_GEN = CKM_SHA3_256_KEY_GEN,
        SHA3_256_RSA_PKCS = CKM_SHA3_256_RSA_PKCS,
        SHA3_256_RSA_PKCS_PSS = CKM_SHA3_256_RSA_PKCS_PSS,
        SHA3_384 = CKM_SHA3_384,
        SHA3_384_HMAC = CKM_SHA3_384_HMAC,
        SHA3_384_HMAC_GENERAL = CKM_SHA3_384_HMAC_GENERAL,
        SHA3_384_KEY_DERIVATION = CKM_SHA3_384_KEY_DERIVATION,
        SHA3_384_KEY_GEN = CKM_SHA3_384_KEY_GEN,
        SHA3_384_RSA_PKCS = CKM_SHA3_384_RSA_PKCS,
        SHA3_384_RSA_PKCS_PSS = CKM_SHA3_384_RSA_PKCS_PSS,
        SHA3_512 = CKM_SHA3_512,
        SHA3_512_HMAC = CKM_SHA3_512_HMAC,
        SHA3_512_HMAC_GENERAL = CKM_SHA3_512_HMAC_GENERAL,
        SHA3_512_KEY_DERIVATION = CKM_SHA3_512_KEY_DERIVATION,
        SHA3_512_KEY_GEN = CKM_SHA3_512_KEY_GEN,
        SHA3_512_RSA_PKCS = CKM_SHA3_512_RSA_PKCS,
        SHA3_512_RSA_PKCS_PSS = CKM_SHA3_512_RSA_PKCS_PSS,
        SHA512_224 = CKM_SHA512_224,
        SHA512_224_HMAC = CKM_SHA512_224_HMAC,
        SHA512_224_HMAC_GENERAL = CKM_SHA512_224_HMAC_GENERAL,
        SHA512_224_KEY_DERIVATION = CKM_SHA512_224_KEY_DERIVATION,
        SHA512_224_KEY_GEN = CKM_SHA512_224_KEY_GEN,
        SHA512_256 = CKM_SHA512_256,
        SHA512_256_HMAC = CKM_SHA512_256_HMAC,
        SHA512_256_HMAC_GENERAL = CKM_SHA512_256_HMAC_GENERAL,
        SHA512_256_KEY_DERIVATION = CKM_SHA512_256_KEY_DERIVATION,
        SHA512_256_KEY_GEN = CKM_SHA512_256_KEY_GEN,
        SHA512_HMAC = CKM_SHA512_HMAC,
        SHA512_HMAC_GENERAL = CKM_SHA512_HMAC_GENERAL,
        SHA512_KEY_DERIVATION = CKM_SHA512_KEY_DERIVATION,
        SHA512_KEY_GEN = CKM_SHA512_KEY_GEN,
        SHA_1_HMAC = CKM_SHA_1_HMAC,
        SHA_1_HMAC_GENERAL = CKM_SHA_1_HMAC_GENERAL,
        SHA_1_KEY_GEN = CKM_SHA_1_KEY_GEN,
        SLH_DSA = CKM_SLH_DSA,
        SLH_DSA_KEY_PAIR_GEN = CKM_SLH_DSA_KEY_PAIR_GEN,
        XOR_BASE_AND_DATA = CKM_XOR_BASE_AND_DATA,
        BLAKE2B_160 = CKM_BLAKE2B_160,
        BLAKE2B_160_HMAC = CKM_BLAKE2B_160_HMAC,
        BLAKE2B_160_HMAC_GENERAL = CKM_BLAKE2B_160_HMAC_GENERAL,
        BLAKE2B_160_KEY_DERIVE = CKM_BLAKE2B_160_KEY_DERIVE,
        BLAKE2B_160_KEY_GEN = CKM_BLAKE2B_160_KEY_GEN,
        BLAKE2B_256 = CKM_BLAKE2B_256,
        BLAKE2B_256_HMAC = CKM_BLAKE2B_256_HMAC,
        BLAKE2B_256_HMAC_GENERAL = CKM_BLAKE2B_256_HMAC_GENERAL,
        BLAKE2B_256_KEY_DERIVE = CKM_BLAKE2B_256_KEY_DERIVE,
        BLAKE2B_256_KEY_GEN = CKM_BLAKE2B_256_KEY_GEN,
        BLAKE2B_384 = CKM_BLAKE2B_384,
        BLAKE2B_384_HMAC = CKM_BLAKE2B_384_HMAC,
        BLAKE2B_384_HMAC_GENERAL = CKM_BLAKE2B_384_HMAC_GENERAL,
        BLAKE2B_384_KEY_DERIVE = CKM_BLAKE2B_384_KEY_DERIVE,
        BLAKE2B_384_KEY_GEN = CKM_BLAKE2B_384_KEY_GEN,
        BLAKE2B_512 = CKM_BLAKE2B_512,
        BLAKE2B_512_HMAC = CKM_BLAKE2B_512_HMAC,
        BLAKE2B_512_HMAC_GENERAL = CKM_BLAKE2B_512_HMAC_GENERAL,
        BLAKE2B_512_KEY_DERIVE = CKM_BLAKE2B_512_KEY_DERIVE,
        BLAKE2B_512_KEY_GEN = CKM_BLAKE2B_512_KEY_GEN,
        DH_PKCS_KEY_PAIR_GEN = CKM_DH_PKCS_KEY_PAIR_GEN,
        DH_PKCS_PARAMETER_GEN = CKM_DH_PKCS_PARAMETER_GEN,
        DH_PKCS_DERIVE = CKM_DH_PKCS_DERIVE,
        PUB_KEY_FROM_PRIV_KEY = CKM_PUB_KEY_FROM_PRIV_KEY,
        HOTP_KEY_GEN = CKM_HOTP_KEY_GEN,
        HOTP = CKM_HOTP,
        ECDH_AES_KEY_WRAP = CKM_ECDH_AES_KEY_WRAP,
        ECDH_COF_AES_KEY_WRAP = CKM_ECDH_COF_AES_KEY_WRAP,
        ECDH_X_AES_KEY_WRAP = CKM_ECDH_X_AES_KEY_WRAP,
        UNAVAILABLE = CK_UNAVAILABLE_INFORMATION,
        SP800_108_COUNTER_KDF = CKM_SP800_108_COUNTER_KDF,
        SP800_108_FEEDBACK_KDF = CKM_SP800_108_FEEDBACK_KDF,
        SP800_108_DOUBLE_PIPELINE_KDF = CKM_SP800_108_DOUBLE_PIPELINE_KDF,
        PKCS5_PBKD2 = CKM_PKCS5_PBKD2,
        SHAKE_128_KEY_DERIVATION = CKM_SHAKE_128_KEY_DERIVATION,
        SHAKE_256_KEY_DERIVATION = CKM_SHAKE_256_KEY_DERIVATION,
        IKE2_PRF_PLUS_DERIVE = CKM_IKE2_PRF_PLUS_DERIVE,
        IKE_PRF_DERIVE = CKM_IKE_PRF_DERIVE,
        IKE1_PRF_DERIVE = CKM_IKE1_PRF_DERIVE,
        IKE1_EXTENDED_DERIVE = CKM_IKE1_EXTENDED_DERIVE,
        SSL3_PRE_MASTER_KEY_GEN = CKM_SSL3_PRE_MASTER_KEY_GEN,
        TLS_PRE_MASTER_KEY_GEN = CKM_TLS_PRE_MASTER_KEY_GEN,
        TLS_MASTER_KEY_DERIVE = CKM_TLS_MASTER_KEY_DERIVE,
        TLS_MASTER_KEY_DERIVE_DH = CKM_TLS_MASTER_KEY_DERIVE_DH,
        TLS_KEY_AND_MAC_DERIVE = CKM_TLS_KEY_AND_MAC_DERIVE,
        TLS_PRF = CKM_TLS_PRF,
        TLS_MAC = CKM_TLS_MAC,
        TLS_KDF = CKM_TLS_KDF,
        TLS12_MAC = CKM_TLS12_MAC,
        TLS_PRF_GENERAL = CKM_TLS_PRF_GENERAL,
        TLS12_KDF = CKM_TLS12_KDF,
        TLS12_MASTER_KEY_DERIVE = CKM_TLS12_MASTER_KEY_DERIVE,
        TLS12_MASTER_KEY_DERIVE_DH = CKM_TLS12_MASTER_KEY_DERIVE_DH,
        TLS12_EXTENDED_MASTER_KEY_DERIVE = CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE,
        TLS12_EXTENDED_MASTER_KEY_DERIVE_DH = CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE_DH,
        TLS12_KEY_AND_MAC_DERIVE = CKM_TLS12_KEY_AND_MAC_DERIVE,
        TLS12_KEY_SAFE_DERIVE = CKM_TLS12_KEY_SAFE_DERIVE,
    }
}

numbers! {
    /// An object class (`CK_OBJECT_CLASS`).
    ObjectClass {
        DATA = CKO_DATA,
        CERTIFICATE = CKO_CERTIFICATE,
        PUBLIC_KEY = CKO_PUBLIC_KEY,
        PRIVATE_KEY = CKO_PRIVATE_KEY,
        SECRET_KEY = CKO_SECRET_KEY,
        DOMAIN_PARAMETERS = CKO_DOMAIN_PARAMETERS,
        OTP_KEY = CKO_OTP_KEY,
        HW_FEATURE = CKO_HW_FEATURE,
        MECHANISM = CKO_MECHANISM,
        PROFILE = CKO_PROFILE,
        VALIDATION = CKO_VALIDATION,
        TRUST = CKO_TRUST,
    }
}

numbers! {
    /// A key type (`CK_KEY_TYPE`).
    KeyType {
        RSA = CKK_RSA,
        EC = CKK_EC,
        EC_EDWARDS = CKK_EC_EDWARDS,
        ML_DSA = CKK_ML_DSA,
        AES = CKK_AES,
        GENERIC_SECRET = CKK_GENERIC_SECRET,
        EC_MONTGOMERY = CKK_EC_MONTGOMERY,
        ML_KEM = CKK_ML_KEM,
        SLH_DSA = CKK_SLH_DSA,
        AES_XTS = CKK_AES_XTS,
        CHACHA20 = CKK_CHACHA20,
        DES3 = CKK_DES3,
        HKDF = CKK_HKDF,
        SHA_1_HMAC = CKK_SHA_1_HMAC,
        SHA224_HMAC = CKK_SHA224_HMAC,
        SHA256_HMAC = CKK_SHA256_HMAC,
        SHA384_HMAC = CKK_SHA384_HMAC,
        SHA512_HMAC = CKK_SHA512_HMAC,
        SHA512_224_HMAC = CKK_SHA512_224_HMAC,
        SHA512_256_HMAC = CKK_SHA512_256_HMAC,
        SHA3_224_HMAC = CKK_SHA3_224_HMAC,
        SHA3_256_HMAC = CKK_SHA3_256_HMAC,
        SHA3_384_HMAC = CKK_SHA3_384_HMAC,
        SHA3_512_HMAC = CKK_SHA3_512_HMAC,
        BLAKE2B_160_HMAC = CKK_BLAKE2B_160_HMAC,
        BLAKE2B_256_HMAC = CKK_BLAKE2B_256_HMAC,
        BLAKE2B_384_HMAC = CKK_BLAKE2B_384_HMAC,
        BLAKE2B_512_HMAC = CKK_BLAKE2B_512_HMAC,
        DH = CKK_DH,
        HOTP = CKK_HOTP,
    }
}

numbers! {
    /// An attribute (`CK_ATTRIBUTE_TYPE`).
    AttributeType {
        CLASS = CKA_CLASS,
        TOKEN = CKA_TOKEN,
        PRIVATE = CKA_PRIVATE,
        LABEL = CKA_LABEL,
        UNIQUE_ID = CKA_UNIQUE_ID,
        APPLICATION = CKA_APPLICATION,
        VALUE = CKA_VALUE,
        OBJECT_ID = CKA_OBJECT_ID,
        CERTIFICATE_TYPE = CKA_CERTIFICATE_TYPE,
        ISSUER = CKA_ISSUER,
        SERIAL_NUMBER = CKA_SERIAL_NUMBER,
        TRUSTED = CKA_TRUSTED,
        CERTIFICATE_CATEGORY = CKA_CERTIFICATE_CATEGORY,
        JAVA_MIDP_SECURITY_DOMAIN = CKA_JAVA_MIDP_SECURITY_DOMAIN,
        URL = CKA_URL,
        HASH_OF_SUBJECT_PUBLIC_KEY = CKA_HASH_OF_SUBJECT_PUBLIC_KEY,
        HASH_OF_ISSUER_PUBLIC_KEY = CKA_HASH_OF_ISSUER_PUBLIC_KEY,
        NAME_HASH_ALGORITHM = CKA_NAME_HASH_ALGORITHM,
        CHECK_VALUE = CKA_CHECK_VALUE,
        KEY_TYPE = CKA_KEY_TYPE,
        SUBJECT = CKA_SUBJECT,
        ID = CKA_ID,
        SENSITIVE = CKA_SENSITIVE,
        ENCRYPT = CKA_ENCRYPT,
        DECRYPT = CKA_DECRYPT,
        WRAP = CKA_WRAP,
        UNWRAP = CKA_UNWRAP,
        SIGN = CKA_SIGN,
        SIGN_RECOVER = CKA_SIGN_RECOVER,
        VERIFY = CKA_VERIFY,
        VERIFY_RECOVER = CKA_VERIFY_RECOVER,
        DERIVE = CKA_DERIVE,
        START_DATE = CKA_START_DATE,
        END_DATE = CKA_END_DATE,
        MODULUS = CKA_MODULUS,
        MODULUS_BITS = CKA_MODULUS_BITS,
        PUBLIC_EXPONENT = CKA_PUBLIC_EXPONENT,
        PRIVATE_EXPONENT = CKA_PRIVATE_EXPONENT,
        PRIME_1 = CKA_PRIME_1,
        PRIME_2 = CKA_PRIME_2,
        EXPONENT_1 = CKA_EXPONENT_1,
        EXPONENT_2 = CKA_EXPONENT_2,
        COEFFICIENT = CKA_COEFFICIENT,
        PUBLIC_KEY_INFO = CKA_PUBLIC_KEY_INFO,
        VALUE_LEN = CKA_VALUE_LEN,
        EXTRACTABLE = CKA_EXTRACTABLE,
        LOCAL = CKA_LOCAL,
        NEVER_EXTRACTABLE = CKA_NEVER_EXTRACTABLE,
        ALWAYS_SENSITIVE = CKA_ALWAYS_SENSITIVE,
        KEY_GEN_MECHANISM = CKA_KEY_GEN_MECHANISM,
        MODIFIABLE = CKA_MODIFIABLE,
        COPYABLE = CKA_COPYABLE,
        DESTROYABLE = CKA_DESTROYABLE,
        EC_PARAMS = CKA_EC_PARAMS,
        EC_POINT = CKA_EC_POINT,
        ALWAYS_AUTHENTICATE = CKA_ALWAYS_AUTHENTICATE,
        WRAP_WITH_TRUSTED = CKA_WRAP_WITH_TRUSTED,
        WRAP_TEMPLATE = CKA_WRAP_TEMPLATE,
        UNWRAP_TEMPLATE = CKA_UNWRAP_TEMPLATE,
        DERIVE_TEMPLATE = CKA_DERIVE_TEMPLATE,
        ALLOWED_MECHANISMS = CKA_ALLOWED_MECHANISMS,
        JETON_COPIED = CKA_JETON_COPIED,
        PARAMETER_SET = CKA_PARAMETER_SET,
        SEED = CKA_SEED,
        DECAPSULATE_TEMPLATE = CKA_DECAPSULATE_TEMPLATE,
        ENCAPSULATE_TEMPLATE = CKA_ENCAPSULATE_TEMPLATE,
        DECAPSULATE = CKA_DECAPSULATE,
        ENCAPSULATE = CKA_ENCAPSULATE,
        PRIME = CKA_PRIME,
        BASE = CKA_BASE,
        PRIME_BITS = CKA_PRIME_BITS,
        VALUE_BITS = CKA_VALUE_BITS,
        OTP_FORMAT = CKA_OTP_FORMAT,
        OTP_LENGTH = CKA_OTP_LENGTH,
        OTP_USER_FRIENDLY_MODE = CKA_OTP_USER_FRIENDLY_MODE,
        OTP_CHALLENGE_REQUIREMENT = CKA_OTP_CHALLENGE_REQUIREMENT,
        OTP_TIME_REQUIREMENT = CKA_OTP_TIME_REQUIREMENT,
        OTP_COUNTER_REQUIREMENT = CKA_OTP_COUNTER_REQUIREMENT,
        OTP_PIN_REQUIREMENT = CKA_OTP_PIN_REQUIREMENT,
        OTP_COUNTER = CKA_OTP_COUNTER,
        OTP_TIME = CKA_OTP_TIME,
        OTP_USER_IDENTIFIER = CKA_OTP_USER_IDENTIFIER,
        OTP_SERVICE_IDENTIFIER = CKA_OTP_SERVICE_IDENTIFIER,
        OTP_SERVICE_LOGO = CKA_OTP_SERVICE_LOGO,
        OTP_SERVICE_LOGO_TYPE = CKA_OTP_SERVICE_LOGO_TYPE,
        OBJECT_VALIDATION_FLAGS = CKA_OBJECT_VALIDATION_FLAGS,
        AC_ISSUER = CKA_AC_ISSUER,
        OWNER = CKA_OWNER,
        ATTR_TYPES = CKA_ATTR_TYPES,
        HASH_OF_CERTIFICATE = CKA_HASH_OF_CERTIFICATE,
        TRUST_SERVER_AUTH = CKA_TRUST_SERVER_AUTH,
        TRUST_CLIENT_AUTH = CKA_TRUST_CLIENT_AUTH,
        TRUST_CODE_SIGNING = CKA_TRUST_CODE_SIGNING,
        TRUST_EMAIL_PROTECTION = CKA_TRUST_EMAIL_PROTECTION,
        TRUST_IPSEC_IKE = CKA_TRUST_IPSEC_IKE,
        TRUST_TIME_STAMPING = CKA_TRUST_TIME_STAMPING,
        TRUST_OCSP_SIGNING = CKA_TRUST_OCSP_SIGNING,
        HW_FEATURE_TYPE = CKA_HW_FEATURE_TYPE,
        MECHANISM_TYPE = CKA_MECHANISM_TYPE,
        PROFILE_ID = CKA_PROFILE_ID,
        VALIDATION_TYPE = CKA_VALIDATION_TYPE,
        VALIDATION_VERSION = CKA_VALIDATION_VERSION,
        VALIDATION_LEVEL = CKA_VALIDATION_LEVEL,
        VALIDATION_MODULE_ID = CKA_VALIDATION_MODULE_ID,
        VALIDATION_FLAG = CKA_VALIDATION_FLAG,
        VALIDATION_AUTHORITY_TYPE = CKA_VALIDATION_AUTHORITY_TYPE,
        VALIDATION_COUNTRY = CKA_VALIDATION_COUNTRY,
        VALIDATION_CERTIFICATE_IDENTIFIER = CKA_VALIDATION_CERTIFICATE_IDENTIFIER,
        VALIDATION_CERTIFICATE_URI = CKA_VALIDATION_CERTIFICATE_URI,
        VALIDATION_VENDOR_URI = CKA_VALIDATION_VENDOR_URI,
        VALIDATION_PROFILE = CKA_VALIDATION_PROFILE,
    }
}

/// The flags of a mechanism in `CK_MECHANISM_INFO` (`CKF_*`).
#[allow(missing_docs, reason = "the names are the specification's")]
#[allow(clippy::unnecessary_cast, reason = "CK_ULONG has 32 bits on other platforms")]
pub mod mechanism_flag {
    pub const FIND_OBJECTS: u64 = cryptoki_sys::CKF_FIND_OBJECTS as u64;
    pub const DIGEST: u64 = cryptoki_sys::CKF_DIGEST as u64;
    pub const SIGN: u64 = cryptoki_sys::CKF_SIGN as u64;
    pub const VERIFY: u64 = cryptoki_sys::CKF_VERIFY as u64;
    pub const ENCRYPT: u64 = cryptoki_sys::CKF_ENCRYPT as u64;
    pub const DECRYPT: u64 = cryptoki_sys::CKF_DECRYPT as u64;
    pub const WRAP: u64 = cryptoki_sys::CKF_WRAP as u64;
    pub const UNWRAP: u64 = cryptoki_sys::CKF_UNWRAP as u64;
    pub const DERIVE: u64 = cryptoki_sys::CKF_DERIVE as u64;
    pub const ENCAPSULATE: u64 = cryptoki_sys::CKF_ENCAPSULATE as u64;
    pub const DECAPSULATE: u64 = cryptoki_sys::CKF_DECAPSULATE as u64;
    pub const SIGN_RECOVER: u64 = cryptoki_sys::CKF_SIGN_RECOVER as u64;
    pub const VERIFY_RECOVER: u64 = cryptoki_sys::CKF_VERIFY_RECOVER as u64;
    pub const GENERATE: u64 = cryptoki_sys::CKF_GENERATE as u64;
    pub const GENERATE_KEY_PAIR: u64 = cryptoki_sys::CKF_GENERATE_KEY_PAIR as u64;
    pub const EC_F_P: u64 = cryptoki_sys::CKF_EC_F_P as u64;
    pub const EC_OID: u64 = cryptoki_sys::CKF_EC_OID as u64;
    pub const EC_CURVENAME: u64 = cryptoki_sys::CKF_EC_CURVENAME as u64;
    pub const EC_UNCOMPRESS: u64 = cryptoki_sys::CKF_EC_UNCOMPRESS as u64;
    pub const MESSAGE_ENCRYPT: u64 = cryptoki_sys::CKF_MESSAGE_ENCRYPT as u64;
    pub const MESSAGE_DECRYPT: u64 = cryptoki_sys::CKF_MESSAGE_DECRYPT as u64;
    pub const MESSAGE_SIGN: u64 = cryptoki_sys::CKF_MESSAGE_SIGN as u64;
    pub const MESSAGE_VERIFY: u64 = cryptoki_sys::CKF_MESSAGE_VERIFY as u64;
    pub const MULTI_MESSAGE: u64 = cryptoki_sys::CKF_MULTI_MESSAGE as u64;
}

/// The parameters of one-time passwords (`CK_OTP_*`) and their flags (`CKF_*`).
#[allow(missing_docs, reason = "the names are the specification's")]
#[allow(clippy::unnecessary_cast, reason = "CK_ULONG has 32 bits on other platforms")]
pub mod otp {
    pub const VALUE: u64 = cryptoki_sys::CK_OTP_VALUE as u64;
    pub const COUNTER: u64 = cryptoki_sys::CK_OTP_COUNTER as u64;
    pub const NEXT_OTP: u64 = cryptoki_sys::CKF_NEXT_OTP as u64;
    pub const EXCLUDE_COUNTER: u64 = cryptoki_sys::CKF_EXCLUDE_COUNTER as u64;
    pub const USER_FRIENDLY_OTP: u64 = cryptoki_sys::CKF_USER_FRIENDLY_OTP as u64;
}

/// The flags of a token in `CK_TOKEN_INFO` (`CKF_*`).
#[allow(missing_docs, reason = "the names are the specification's")]
#[allow(clippy::unnecessary_cast, reason = "CK_ULONG has 32 bits on other platforms")]
pub mod token_flag {
    pub const RNG: u64 = cryptoki_sys::CKF_RNG as u64;
    pub const LOGIN_REQUIRED: u64 = cryptoki_sys::CKF_LOGIN_REQUIRED as u64;
    pub const USER_PIN_INITIALIZED: u64 = cryptoki_sys::CKF_USER_PIN_INITIALIZED as u64;
    pub const TOKEN_INITIALIZED: u64 = cryptoki_sys::CKF_TOKEN_INITIALIZED as u64;
    pub const USER_PIN_COUNT_LOW: u64 = cryptoki_sys::CKF_USER_PIN_COUNT_LOW as u64;
    pub const USER_PIN_FINAL_TRY: u64 = cryptoki_sys::CKF_USER_PIN_FINAL_TRY as u64;
    pub const USER_PIN_LOCKED: u64 = cryptoki_sys::CKF_USER_PIN_LOCKED as u64;
    pub const SO_PIN_COUNT_LOW: u64 = cryptoki_sys::CKF_SO_PIN_COUNT_LOW as u64;
    pub const SO_PIN_FINAL_TRY: u64 = cryptoki_sys::CKF_SO_PIN_FINAL_TRY as u64;
    pub const SO_PIN_LOCKED: u64 = cryptoki_sys::CKF_SO_PIN_LOCKED as u64;
    pub const ASYNC_SESSION_SUPPORTED: u64 = cryptoki_sys::CKF_ASYNC_SESSION_SUPPORTED as u64;
    pub const WRITE_PROTECTED: u64 = cryptoki_sys::CKF_WRITE_PROTECTED as u64;
    pub const CLOCK_ON_TOKEN: u64 = cryptoki_sys::CKF_CLOCK_ON_TOKEN as u64;
}

/// The states of a session (`CKS_*`).
#[allow(missing_docs, reason = "the names are the specification's")]
#[allow(clippy::unnecessary_cast, reason = "CK_ULONG has 32 bits on other platforms")]
pub mod session_state {
    pub const RO_PUBLIC_SESSION: u64 = cryptoki_sys::CKS_RO_PUBLIC_SESSION as u64;
    pub const RO_USER_FUNCTIONS: u64 = cryptoki_sys::CKS_RO_USER_FUNCTIONS as u64;
    pub const RW_PUBLIC_SESSION: u64 = cryptoki_sys::CKS_RW_PUBLIC_SESSION as u64;
    pub const RW_USER_FUNCTIONS: u64 = cryptoki_sys::CKS_RW_USER_FUNCTIONS as u64;
    pub const RW_SO_FUNCTIONS: u64 = cryptoki_sys::CKS_RW_SO_FUNCTIONS as u64;
}

/// Values of certain attributes.
#[allow(missing_docs, reason = "the names are the specification's")]
#[allow(clippy::unnecessary_cast, reason = "CK_ULONG has 32 bits on other platforms")]
pub mod value {
    pub const CERTIFICATE_X_509: u64 = cryptoki_sys::CKC_X_509 as u64;
    pub const ML_DSA_44: u64 = cryptoki_sys::CKP_ML_DSA_44 as u64;
    pub const ML_DSA_65: u64 = cryptoki_sys::CKP_ML_DSA_65 as u64;
    pub const ML_DSA_87: u64 = cryptoki_sys::CKP_ML_DSA_87 as u64;
    pub const ML_KEM_512: u64 = cryptoki_sys::CKP_ML_KEM_512 as u64;
    pub const ML_KEM_768: u64 = cryptoki_sys::CKP_ML_KEM_768 as u64;
    pub const ML_KEM_1024: u64 = cryptoki_sys::CKP_ML_KEM_1024 as u64;
    pub const SLH_DSA_SHA2_128S: u64 = cryptoki_sys::CKP_SLH_DSA_SHA2_128S as u64;
    pub const SLH_DSA_SHAKE_192F: u64 = cryptoki_sys::CKP_SLH_DSA_SHAKE_192F as u64;
    pub const SLH_DSA_SHAKE_256F: u64 = cryptoki_sys::CKP_SLH_DSA_SHAKE_256F as u64;
    pub const OTP_FORMAT_DECIMAL: u64 = cryptoki_sys::CK_OTP_FORMAT_DECIMAL as u64;
    pub const OTP_PARAM_IGNORED: u64 = cryptoki_sys::CK_OTP_PARAM_IGNORED as u64;
    pub const OTP_PARAM_OPTIONAL: u64 = cryptoki_sys::CK_OTP_PARAM_OPTIONAL as u64;
    pub const OTP_PARAM_MANDATORY: u64 = cryptoki_sys::CK_OTP_PARAM_MANDATORY as u64;
    pub const CERTIFICATE_X_509_ATTRIBUTE: u64 = cryptoki_sys::CKC_X_509_ATTR_CERT as u64;
    pub const CERTIFICATE_WTLS: u64 = cryptoki_sys::CKC_WTLS as u64;
    pub const CATEGORY_OTHER_ENTITY: u64 = cryptoki_sys::CK_CERTIFICATE_CATEGORY_OTHER_ENTITY as u64;
    pub const DOMAIN_THIRD_PARTY: u64 = cryptoki_sys::CK_SECURITY_DOMAIN_THIRD_PARTY as u64;
    pub const TRUST_UNKNOWN: u64 = cryptoki_sys::CKT_TRUST_UNKNOWN as u64;
    pub const TRUST_ANCHOR: u64 = cryptoki_sys::CKT_TRUST_ANCHOR as u64;
    pub const NOT_TRUSTED: u64 = cryptoki_sys::CKT_NOT_TRUSTED as u64;
    pub const TRUST_MUST_VERIFY: u64 = cryptoki_sys::CKT_TRUST_MUST_VERIFY_TRUST as u64;
    pub const HW_CLOCK: u64 = cryptoki_sys::CKH_CLOCK as u64;
    pub const BASELINE_PROVIDER: u64 = cryptoki_sys::CKP_BASELINE_PROVIDER as u64;
    pub const EXTENDED_PROVIDER: u64 = cryptoki_sys::CKP_EXTENDED_PROVIDER as u64;
    pub const AUTHENTICATION_TOKEN: u64 = cryptoki_sys::CKP_AUTHENTICATION_TOKEN as u64;
    pub const PUBLIC_CERTIFICATES_TOKEN: u64 = cryptoki_sys::CKP_PUBLIC_CERTIFICATES_TOKEN as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_its_name_find_each_other() {
        assert_eq!(MechanismType::named("CKM_ECDSA_SHA256"), Some(MechanismType::ECDSA_SHA256));
        assert_eq!(MechanismType::ECDSA_SHA256.name(), Some("CKM_ECDSA_SHA256"));
        assert_eq!(MechanismType(0x8000_0001).to_string(), "MechanismType(0x80000001)");
    }
}
