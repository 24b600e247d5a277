//! The numbers of PKCS#11 as separate types, so that the compiler finds a slot used as a session.
//!
//! The values come from the specification's headers through `cryptoki-sys`. No other file of the
//! core names that crate.

pub use jeton_names::{AttributeType, KeyType, MechanismType, ObjectClass};

/// A slot (`CK_SLOT_ID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u64);

/// A session (`CK_SESSION_HANDLE`). 0 is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionHandle(pub u64);

/// An object (`CK_OBJECT_HANDLE`), valid only in this process. 0 is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectHandle(pub u64);

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
    pub const RESTORE_KEY_NOT_NEEDED: u64 = cryptoki_sys::CKF_RESTORE_KEY_NOT_NEEDED as u64;
    pub const DUAL_CRYPTO_OPERATIONS: u64 = cryptoki_sys::CKF_DUAL_CRYPTO_OPERATIONS as u64;
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
