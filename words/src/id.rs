//! The numbers of PKCS#11 as separate types, so that the compiler finds a slot used as a session.
//!
//! The values come from the specification's headers through `cryptoki-sys`.

use serde::{Deserialize, Serialize};

pub use jeton_names::{AttributeType, KeyType, MechanismType, ObjectClass};

/// A slot (`CK_SLOT_ID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotId(pub u64);

/// A session (`CK_SESSION_HANDLE`). 0 is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionHandle(pub u64);

/// An object (`CK_OBJECT_HANDLE`), valid only in this process. 0 is never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectHandle(pub u64);

/// The flags of a mechanism in `CK_MECHANISM_INFO` (`CKF_*`).
pub mod mechanism_flag {
    pub use cryptoki_sys::{
        CKF_DECAPSULATE as DECAPSULATE, CKF_DECRYPT as DECRYPT, CKF_DERIVE as DERIVE, CKF_DIGEST as DIGEST,
        CKF_EC_CURVENAME as EC_CURVENAME, CKF_EC_F_P as EC_F_P, CKF_EC_OID as EC_OID,
        CKF_EC_UNCOMPRESS as EC_UNCOMPRESS, CKF_ENCAPSULATE as ENCAPSULATE, CKF_ENCRYPT as ENCRYPT,
        CKF_FIND_OBJECTS as FIND_OBJECTS, CKF_GENERATE as GENERATE,
        CKF_GENERATE_KEY_PAIR as GENERATE_KEY_PAIR, CKF_MESSAGE_DECRYPT as MESSAGE_DECRYPT,
        CKF_MESSAGE_ENCRYPT as MESSAGE_ENCRYPT, CKF_MESSAGE_SIGN as MESSAGE_SIGN,
        CKF_MESSAGE_VERIFY as MESSAGE_VERIFY, CKF_MULTI_MESSAGE as MULTI_MESSAGE, CKF_SIGN as SIGN,
        CKF_SIGN_RECOVER as SIGN_RECOVER, CKF_UNWRAP as UNWRAP, CKF_VERIFY as VERIFY,
        CKF_VERIFY_RECOVER as VERIFY_RECOVER, CKF_WRAP as WRAP,
    };
}

/// The parameters of one-time passwords (`CK_OTP_*`) and their flags (`CKF_*`).
pub mod otp {
    pub use cryptoki_sys::{
        CK_OTP_COUNTER as COUNTER, CK_OTP_VALUE as VALUE, CKF_EXCLUDE_COUNTER as EXCLUDE_COUNTER,
        CKF_NEXT_OTP as NEXT_OTP, CKF_USER_FRIENDLY_OTP as USER_FRIENDLY_OTP,
    };
}

/// The flags of a token in `CK_TOKEN_INFO` (`CKF_*`).
pub mod token_flag {
    pub use cryptoki_sys::{
        CKF_ASYNC_SESSION_SUPPORTED as ASYNC_SESSION_SUPPORTED, CKF_CLOCK_ON_TOKEN as CLOCK_ON_TOKEN,
        CKF_DUAL_CRYPTO_OPERATIONS as DUAL_CRYPTO_OPERATIONS, CKF_LOGIN_REQUIRED as LOGIN_REQUIRED,
        CKF_RESTORE_KEY_NOT_NEEDED as RESTORE_KEY_NOT_NEEDED, CKF_RNG as RNG,
        CKF_SO_PIN_COUNT_LOW as SO_PIN_COUNT_LOW, CKF_SO_PIN_FINAL_TRY as SO_PIN_FINAL_TRY,
        CKF_SO_PIN_LOCKED as SO_PIN_LOCKED, CKF_TOKEN_INITIALIZED as TOKEN_INITIALIZED,
        CKF_USER_PIN_COUNT_LOW as USER_PIN_COUNT_LOW, CKF_USER_PIN_FINAL_TRY as USER_PIN_FINAL_TRY,
        CKF_USER_PIN_INITIALIZED as USER_PIN_INITIALIZED, CKF_USER_PIN_LOCKED as USER_PIN_LOCKED,
        CKF_WRITE_PROTECTED as WRITE_PROTECTED,
    };
}

/// The states of a session (`CKS_*`).
pub mod session_state {
    pub use cryptoki_sys::{
        CKS_RO_PUBLIC_SESSION as RO_PUBLIC_SESSION, CKS_RO_USER_FUNCTIONS as RO_USER_FUNCTIONS,
        CKS_RW_PUBLIC_SESSION as RW_PUBLIC_SESSION, CKS_RW_SO_FUNCTIONS as RW_SO_FUNCTIONS,
        CKS_RW_USER_FUNCTIONS as RW_USER_FUNCTIONS,
    };
}

/// Values of certain attributes.
#[allow(missing_docs, reason = "the names are the specification's")]
pub mod value {
    pub use cryptoki_sys::{
        CK_CERTIFICATE_CATEGORY_OTHER_ENTITY as CATEGORY_OTHER_ENTITY,
        CK_OTP_FORMAT_DECIMAL as OTP_FORMAT_DECIMAL, CK_OTP_PARAM_IGNORED as OTP_PARAM_IGNORED,
        CK_OTP_PARAM_MANDATORY as OTP_PARAM_MANDATORY, CK_OTP_PARAM_OPTIONAL as OTP_PARAM_OPTIONAL,
        CK_SECURITY_DOMAIN_THIRD_PARTY as DOMAIN_THIRD_PARTY, CKC_WTLS as CERTIFICATE_WTLS,
        CKC_X_509 as CERTIFICATE_X_509, CKC_X_509_ATTR_CERT as CERTIFICATE_X_509_ATTRIBUTE,
        CKH_CLOCK as HW_CLOCK, CKP_AUTHENTICATION_TOKEN as AUTHENTICATION_TOKEN,
        CKP_BASELINE_PROVIDER as BASELINE_PROVIDER, CKP_EXTENDED_PROVIDER as EXTENDED_PROVIDER,
        CKP_ML_DSA_44 as ML_DSA_44, CKP_ML_DSA_65 as ML_DSA_65, CKP_ML_DSA_87 as ML_DSA_87,
        CKP_ML_KEM_512 as ML_KEM_512, CKP_ML_KEM_768 as ML_KEM_768, CKP_ML_KEM_1024 as ML_KEM_1024,
        CKP_PUBLIC_CERTIFICATES_TOKEN as PUBLIC_CERTIFICATES_TOKEN,
        CKP_SLH_DSA_SHA2_128S as SLH_DSA_SHA2_128S, CKP_SLH_DSA_SHAKE_192F as SLH_DSA_SHAKE_192F,
        CKP_SLH_DSA_SHAKE_256F as SLH_DSA_SHAKE_256F, CKV_AUTHORITY_TYPE_NIST_CMVP as CMVP,
        CKV_AUTHORITY_TYPE_UNSPECIFIED as NO_AUTHORITY, CKV_TYPE_SOFTWARE as VALIDATION_OF_SOFTWARE,
    };

    // The headers have these without a type.
    pub const TRUST_UNKNOWN: u64 = cryptoki_sys::CKT_TRUST_UNKNOWN as u64;
    pub const TRUST_ANCHOR: u64 = cryptoki_sys::CKT_TRUST_ANCHOR as u64;
    pub const NOT_TRUSTED: u64 = cryptoki_sys::CKT_NOT_TRUSTED as u64;
    pub const TRUST_MUST_VERIFY: u64 = cryptoki_sys::CKT_TRUST_MUST_VERIFY_TRUST as u64;
}
