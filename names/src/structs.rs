//! The C structs of parameters and templates: where each pointer is, how many bytes it points to,
//! and which numbers the other fields take. A new struct is one entry here.
//!
//! The module refuses more bytes than the limits say. One of its tests tries each entry, and the
//! fuzz targets make structs from the entries. The agent's client copies a struct with the memory
//! that it points to; the agent builds the same struct from the copy. Both follow the pointers of
//! these tables and no others.

use std::mem::{offset_of, size_of};

use cryptoki_sys::*;
// The structs of this system's programs: on Windows they are packed, and have shorter numbers.
use native::{
    CK_AES_CBC_ENCRYPT_DATA_PARAMS, CK_AES_CTR_PARAMS, CK_ASYNC_DATA, CK_ATTRIBUTE, CK_CCM_MESSAGE_PARAMS,
    CK_CCM_PARAMS, CK_CCM_WRAP_PARAMS, CK_CHACHA20_PARAMS, CK_DERIVED_KEY, CK_ECDH_AES_KEY_WRAP_PARAMS,
    CK_ECDH1_DERIVE_PARAMS, CK_EDDSA_PARAMS, CK_GCM_MESSAGE_PARAMS, CK_GCM_PARAMS, CK_GCM_WRAP_PARAMS,
    CK_HASH_SIGN_ADDITIONAL_CONTEXT, CK_HKDF_PARAMS, CK_IKE_PRF_DERIVE_PARAMS,
    CK_IKE1_EXTENDED_DERIVE_PARAMS, CK_IKE1_PRF_DERIVE_PARAMS, CK_IKE2_PRF_PLUS_DERIVE_PARAMS,
    CK_KEY_DERIVATION_STRING_DATA, CK_OTP_PARAM, CK_OTP_PARAMS, CK_PKCS5_PBKD2_PARAMS2, CK_PRF_DATA_PARAM,
    CK_RSA_AES_KEY_WRAP_PARAMS, CK_RSA_PKCS_OAEP_PARAMS, CK_RSA_PKCS_PSS_PARAMS,
    CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS, CK_SALSA20_CHACHA20_POLY1305_PARAMS, CK_SIGN_ADDITIONAL_CONTEXT,
    CK_SP800_108_FEEDBACK_KDF_PARAMS, CK_SP800_108_KDF_PARAMS, CK_SSL3_KEY_MAT_OUT, CK_SSL3_KEY_MAT_PARAMS,
    CK_SSL3_MASTER_KEY_DERIVE_PARAMS, CK_TLS_KDF_PARAMS, CK_TLS_MAC_PARAMS, CK_TLS_PRF_PARAMS,
    CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS, CK_TLS12_KEY_MAT_PARAMS, CK_TLS12_MASTER_KEY_DERIVE_PARAMS,
    CK_ULONG as NativeUlong, CK_VERSION,
};

use crate::source::{
    CKA_JETON_COPIED, CKA_JETON_INCARNATION, CKA_JETON_NEXT_KEY, CKA_JETON_USES, CKA_JETON_USES_LEFT,
};

/// A struct.
#[derive(Debug)]
pub struct Layout {
    /// The size of the struct in bytes.
    pub size: usize,
    /// Its pointers, in the order in which they travel.
    pub pointers: &'static [Pointer],
    /// The fields that a function writes: offset and length in bytes.
    pub written: &'static [(usize, usize)],
    /// The offsets of the other fields, and what they may be.
    pub values: &'static [(usize, Value)],
    /// The offsets of the fields with their names, for the log.
    pub names: &'static [(usize, &'static str)],
}

impl Layout {
    /// Returns the name of the field at this offset; that of the parameter itself if it is a
    /// number.
    pub fn name(&self, at: usize) -> &'static str {
        self.names.iter().find(|(known, _)| *known == at).map_or("pParameter", |(_, name)| name)
    }
}

/// What a field may be that is neither a pointer nor the length behind one.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// `CK_TRUE` or `CK_FALSE`; most calls have this one.
    Flag(CK_BBOOL),
    /// This number of bytes.
    Bytes(usize),
    /// A digest mechanism.
    Hash,
    /// A digest mechanism, or `CKM_TLS_PRF`.
    TlsHash,
    /// An HMAC or AES-CMAC mechanism.
    Prf,
    /// An object handle.
    Object,
    /// One of these numbers.
    Of(&'static [CK_ULONG]),
    /// One of these numbers, or of a few more. Other fields restrict which one.
    Among(&'static [CK_ULONG]),
    /// A number in this range.
    Range(CK_ULONG, CK_ULONG),
    /// A multiple of 8 of at most this number.
    Bits(CK_ULONG),
    /// Any number, or one that the length of another field restricts. Most calls have this one.
    Any(CK_ULONG),
}

/// A pointer of a struct.
#[derive(Debug)]
pub struct Pointer {
    /// The offset of the pointer in bytes.
    pub at: usize,
    /// What it points to.
    pub target: Target,
}

/// What a pointer points to.
#[derive(Debug)]
pub enum Target {
    /// Bytes.
    Bytes {
        /// Their number.
        len: Len,
        /// The greatest number that a function reads. More are refused without being read.
        limit: u64,
        /// Who writes them.
        flow: Flow,
    },
    /// Structs. The number of them is at this offset.
    Structs {
        /// The layout of one struct.
        layout: &'static Layout,
        /// Their number.
        count: Count,
    },
    /// The value of a `CK_ATTRIBUTE`: bytes, or attributes, as its type says.
    Value(Flow),
}

/// Who writes the memory behind a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The application: it travels to the agent.
    In,
    /// The token: it travels back.
    Out,
    /// Both.
    Both,
}

/// The number of bytes behind a pointer.
#[derive(Debug)]
pub enum Len {
    /// Always this number.
    Fixed(u64),
    /// The `CK_ULONG` at this offset.
    Field(usize),
    /// An eighth of the `CK_ULONG` at this offset.
    Bits(usize),
    /// An eighth of the `CK_ULONG` at this offset of the struct that points to this one.
    BitsOfOwner(usize),
    /// The `CK_ULONG` that the pointer with this index points to.
    Behind(usize),
    /// The nonce of ChaCha20-Poly1305: 12 bytes if the `CK_ULONG` at this offset is 12 or 96.
    Poly1305Nonce(usize),
    /// The salt of `CK_HKDF_PARAMS`; 0 if the function does not read it.
    HkdfSalt,
    /// The information of `CK_HKDF_PARAMS`; 0 if the function does not read it.
    HkdfInfo,
    /// The length of a password of PBKDF2 at this offset: see [`PASSWORD_LIMIT`].
    Password(usize),
}

impl Len {
    /// Returns the offset of the field with this number of bytes, if a field has it.
    pub fn field(&self) -> Option<usize> {
        match *self {
            Self::Field(at) | Self::Password(at) => Some(at),
            Self::HkdfSalt => Some(HKDF_SALT_LEN),
            Self::HkdfInfo => Some(HKDF_INFO_LEN),
            Self::Fixed(_)
            | Self::Bits(_)
            | Self::BitsOfOwner(_)
            | Self::Behind(_)
            | Self::Poly1305Nonce(_) => None,
        }
    }
}

macro_rules! offsets {
    ($($name:ident: $type:ident.$field:ident,)*) => {
        $(#[doc = concat!("The offset of `", stringify!($field), "` in `", stringify!($type), "`.")]
        pub const $name: usize = offset_of!($type, $field);)*
    };
}

offsets! {
    HKDF_SALT_LEN: CK_HKDF_PARAMS.ulSaltLen,
    HKDF_INFO_LEN: CK_HKDF_PARAMS.ulInfoLen,
    ATTRIBUTE_TYPE: CK_ATTRIBUTE.type_,
    ATTRIBUTE_VALUE: CK_ATTRIBUTE.pValue,
    ATTRIBUTE_LEN: CK_ATTRIBUTE.ulValueLen,
    ASYNC_VALUE: CK_ASYNC_DATA.pValue,
}

/// The number of structs behind a pointer.
#[derive(Debug)]
pub enum Count {
    /// One.
    One,
    /// The `CK_ULONG` at this offset, of at most this number.
    Field(usize, u64),
}

/// A password of PBKDF2 is shorter. A greater number is the address of the length, as in one of the
/// two structs. No process has memory below this address (Linux: `vm.mmap_min_addr`). The client
/// replaces the address by the length.
pub const PASSWORD_LIMIT: u64 = 1 << 16;
/// The greatest number of attributes in a template, and in its nested templates.
pub const MAX_ATTRIBUTES: u64 = 1024;
/// The greatest depth of nested templates that travels. Deeper ones are refused.
pub const MAX_DEPTH: usize = 6;

/// The greatest length in bytes of a label, salt, shared information or other input of a key
/// derivation. The specification has no limit. This one is larger than every derived key.
pub const DATA: u64 = 1 << 16;
/// The greatest length of additional authenticated data in bytes. PKCS#11 3.2, `CK_GCM_PARAMS`,
/// allows 2^32-1. This limit is smaller because an operation copies the data several times, and not
/// every copy returns an error if memory is short.
pub const AAD: u64 = 4 << 20;
/// The greatest length in bytes of a context of EdDSA (RFC 8032, 5.1), ML-DSA (FIPS 204, 5.2) and
/// SLH-DSA (FIPS 205, 10.2).
pub const CONTEXT: u64 = 255;
/// The length of the hash of an ML-DSA public key in bytes (FIPS 204, algorithm 6: `tr`).
pub const TR: u64 = 64;
/// The greatest length of a peer's public key in bytes. A point of P-521 in a DER octet string has
/// 136.
pub const PEER: u64 = 256;
/// The greatest length in bits of a key, MAC key or initialisation vector of a TLS connection.
pub const TLS_BITS: u64 = 4096;
/// The greatest length of a salt of PSS in bytes: the length of a modulus of 8192 bits.
pub const PSS_SALT: u64 = 8192 / 8;
/// The greatest number of iterations of PBKDF2. OWASP recommends 1.3 million for SHA-1. The maximum
/// takes some seconds for each block of output.
pub const ITERATIONS: u64 = 10_000_000;
/// The greatest number of input fields, and of further keys, of SP 800-108. The specification has
/// no limit.
pub const FIELDS: u64 = 64;
/// The greatest number of parameters of a one-time password: twice the number of their types.
pub const OTP_PARAMS: u64 = 16;
/// The greatest length of a truncated MAC in bytes.
pub const MAC: u64 = 64;
/// The number of bits in the longest secret key, which has 4096 bytes.
pub const KEY_BITS: u64 = 8 * 4096;
const NONCE: u64 = 1 << 16;

/// The lengths of AES keys in bits.
const AES: Value = Value::Of(&[256, 192, 128]);
const MGF: Value = Value::Range(CKG_MGF1_SHA1, CKG_MGF1_SHA3_512);
const GCM_TAG: Value = Value::Of(&[128, 96, 104, 112, 120, 64, 32]);
const CCM_TAG: Value = Value::Of(&[16, 4, 6, 8, 10, 12, 14]);
const POLY1305_NONCE: Value = Value::Of(&[12, 96]);
const GENERATOR: Value = Value::Range(CKG_NO_GENERATE, CKG_GENERATE_COUNTER_XOR);
const HEDGE: Value = Value::Range(CKH_HEDGE_PREFERRED, CKH_DETERMINISTIC_REQUIRED);
const OFF: Value = Value::Flag(CK_FALSE);
const ON: Value = Value::Flag(CK_TRUE);
const TLS_LEN: Value = Value::Bits(TLS_BITS);
/// With `CKD_NULL` there is no shared information.
const KDF: Value = Value::Among(&[CKD_SHA256_KDF, CKD_NULL, CKD_SHA1_KDF_SP800]);

macro_rules! layout {
    ($name:ident: $type:ident { $($pointers:tt)* } $({ $($field:ident = $value:expr),* })? $([$($written:expr),*])?) => {
        #[doc = concat!("`", stringify!($type), "`")]
        pub static $name: Layout = Layout {
            size: size_of::<$type>(),
            pointers: &pointers!($type [] $($pointers)*),
            written: &[$($($written),*)?],
            values: &[$($((offset_of!($type, $field), $value)),*)?],
            names: &names!($type [$($((offset_of!($type, $field), stringify!($field)),)*)?] $($pointers)*),
        };
    };
}

/// Makes the names of the fields of the pointers that [`pointers`] takes.
macro_rules! names {
    ($type:ident [$($done:expr,)*]) => { [$($done,)*] };
    ($type:ident [$($done:expr,)*] $at:ident[$len:ident; $limit:expr], $($rest:tt)*) => {
        names!($type [$($done,)*
            (offset_of!($type, $at), stringify!($at)), (offset_of!($type, $len), stringify!($len)),] $($rest)*)
    };
    ($type:ident [$($done:expr,)*] random, $($rest:tt)*) => {
        names!($type [$($done,)*
            (offset_of!($type, RandomInfo.pClientRandom), "pClientRandom"),
            (offset_of!($type, RandomInfo.ulClientRandomLen), "ulClientRandomLen"),
            (offset_of!($type, RandomInfo.pServerRandom), "pServerRandom"),
            (offset_of!($type, RandomInfo.ulServerRandomLen), "ulServerRandomLen"),
        ] $($rest)*)
    };
    ($type:ident [$($done:expr,)*] $flow:ident $at:ident($len:expr; $limit:expr), $($rest:tt)*) => {
        names!($type [$($done,)* (offset_of!($type, $at), stringify!($at)),] $($rest)*)
    };
    ($type:ident [$($done:expr,)*] $at:ident => $layout:ident, $($rest:tt)*) => {
        names!($type [$($done,)* (offset_of!($type, $at), stringify!($at)),] $($rest)*)
    };
    ($type:ident [$($done:expr,)*] $at:ident => $layout:ident[$count:ident; $limit:expr], $($rest:tt)*) => {
        names!($type [$($done,)*
            (offset_of!($type, $at), stringify!($at)), (offset_of!($type, $count), stringify!($count)),] $($rest)*)
    };
}

/// Makes pointers of `pointer[length field; limit]` and the other forms.
macro_rules! pointers {
    ($type:ident [$($done:expr,)*]) => { [$($done,)*] };
    ($type:ident [$($done:expr,)*] $at:ident[$len:ident; $limit:expr], $($rest:tt)*) => {
        pointers!($type [$($done,)* bytes(offset_of!($type, $at), Len::Field(offset_of!($type, $len)), $limit, Flow::In),] $($rest)*)
    };
    ($type:ident [$($done:expr,)*] random, $($rest:tt)*) => {
        pointers!($type [$($done,)*
            bytes(
                offset_of!($type, RandomInfo.pClientRandom),
                Len::Field(offset_of!($type, RandomInfo.ulClientRandomLen)), DATA, Flow::In),
            bytes(
                offset_of!($type, RandomInfo.pServerRandom),
                Len::Field(offset_of!($type, RandomInfo.ulServerRandomLen)), DATA, Flow::In),
        ] $($rest)*)
    };
    ($type:ident [$($done:expr,)*] $flow:ident $at:ident($len:expr; $limit:expr), $($rest:tt)*) => {
        pointers!($type [$($done,)* bytes(offset_of!($type, $at), $len, $limit, Flow::$flow),] $($rest)*)
    };
    ($type:ident [$($done:expr,)*] $at:ident => $layout:ident, $($rest:tt)*) => {
        pointers!($type [$($done,)* structs(offset_of!($type, $at), &$layout, Count::One),] $($rest)*)
    };
    ($type:ident [$($done:expr,)*] $at:ident => $layout:ident[$count:ident; $limit:expr], $($rest:tt)*) => {
        pointers!($type [$($done,)*
            structs(offset_of!($type, $at), &$layout, Count::Field(offset_of!($type, $count), $limit)),] $($rest)*)
    };
}

const fn bytes(at: usize, len: Len, limit: u64, flow: Flow) -> Pointer {
    Pointer { at, target: Target::Bytes { len, limit, flow } }
}

/// A number that is no field of a struct.
const fn single(value: &'static [(usize, Value)]) -> Layout {
    Layout { size: size_of::<NativeUlong>(), pointers: &[], written: &[], values: value, names: &[] }
}

const fn structs(at: usize, layout: &'static Layout, count: Count) -> Pointer {
    Pointer { at, target: Target::Structs { layout, count } }
}

/// `CK_ATTRIBUTE` of a template.
pub static ATTRIBUTE: Layout = Layout {
    size: size_of::<CK_ATTRIBUTE>(),
    pointers: &[Pointer { at: ATTRIBUTE_VALUE, target: Target::Value(Flow::In) }],
    written: &[],
    values: &[],
    names: &[],
};

/// `CK_ATTRIBUTE` of `C_GetAttributeValue`, which writes the value and its length. In a nested
/// template it writes the type too.
pub static ATTRIBUTE_READ: Layout = Layout {
    size: size_of::<CK_ATTRIBUTE>(),
    pointers: &[Pointer { at: ATTRIBUTE_VALUE, target: Target::Value(Flow::Out) }],
    written: &[(ATTRIBUTE_TYPE, 8), (ATTRIBUTE_LEN, 8)],
    values: &[],
    names: &[],
};

/// `CK_GCM_PARAMS` as in the first text of 2.40, which lacks the header's field `ulIvBits`.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(windows, repr(C, packed))]
#[cfg_attr(not(windows), repr(C))]
#[allow(missing_docs, reason = "the fields of `CK_GCM_PARAMS`")]
pub struct GcmWithoutBits {
    pub iv: *mut CK_BYTE,
    pub iv_len: NativeUlong,
    pub aad: *mut CK_BYTE,
    pub aad_len: NativeUlong,
    pub tag_bits: NativeUlong,
}

layout!(GCM: CK_GCM_PARAMS { pIv[ulIvLen; NONCE], pAAD[ulAADLen; AAD], } {
    ulIvBits = Value::Any(0), ulTagBits = GCM_TAG
});
layout!(GCM_WITHOUT_BITS: GcmWithoutBits { iv[iv_len; NONCE], aad[aad_len; AAD], } { tag_bits = GCM_TAG });
layout!(GMAC: CK_GCM_PARAMS { pIv[ulIvLen; NONCE], pAAD[ulAADLen; 0], } {
    ulIvBits = Value::Any(0), ulTagBits = GCM_TAG
});
layout!(GCM_WRAP: CK_GCM_WRAP_PARAMS {
    Both pIv(Len::Field(offset_of!(CK_GCM_WRAP_PARAMS, ulIvLen)); NONCE), pAAD[ulAADLen; AAD],
} { ulIvFixedBits = Value::Any(0), ivGenerator = GENERATOR, ulTagBits = GCM_TAG });
layout!(CCM: CK_CCM_PARAMS { pNonce[ulNonceLen; 13], pAAD[ulAADLen; AAD], } {
    ulDataLen = Value::Any(32), ulMACLen = CCM_TAG
});
layout!(CCM_WRAP: CK_CCM_WRAP_PARAMS {
    Both pNonce(Len::Field(offset_of!(CK_CCM_WRAP_PARAMS, ulNonceLen)); 13), pAAD[ulAADLen; AAD],
} {
    ulDataLen = Value::Any(32), ulNonceFixedBits = Value::Any(0), nonceGenerator = GENERATOR, ulMACLen =
    CCM_TAG
});
layout!(CHACHA20: CK_CHACHA20_PARAMS {
    In pBlockCounter(Len::Bits(offset_of!(CK_CHACHA20_PARAMS, blockCounterBits)); 8),
    In pNonce(Len::Bits(offset_of!(CK_CHACHA20_PARAMS, ulNonceBits)); 12),
} { blockCounterBits = Value::Among(&[32, 64]), ulNonceBits = Value::Among(&[96, 64]) });
layout!(POLY1305: CK_SALSA20_CHACHA20_POLY1305_PARAMS {
    In pNonce(Len::Poly1305Nonce(offset_of!(CK_SALSA20_CHACHA20_POLY1305_PARAMS, ulNonceLen)); 12),
    pAAD[ulAADLen; AAD],
} { ulNonceLen = POLY1305_NONCE });
layout!(GCM_MESSAGE: CK_GCM_MESSAGE_PARAMS {
    Both pIv(Len::Field(offset_of!(CK_GCM_MESSAGE_PARAMS, ulIvLen)); NONCE),
    Both pTag(Len::Bits(offset_of!(CK_GCM_MESSAGE_PARAMS, ulTagBits)); 16),
} { ulIvFixedBits = Value::Any(0), ivGenerator = GENERATOR, ulTagBits = GCM_TAG });
layout!(CCM_MESSAGE: CK_CCM_MESSAGE_PARAMS {
    Both pNonce(Len::Field(offset_of!(CK_CCM_MESSAGE_PARAMS, ulNonceLen)); NONCE),
    Both pMAC(Len::Field(offset_of!(CK_CCM_MESSAGE_PARAMS, ulMACLen)); 16),
} {
    ulDataLen = Value::Any(32), ulNonceFixedBits = Value::Any(0), nonceGenerator = GENERATOR, ulMACLen =
    CCM_TAG
});
layout!(POLY1305_MESSAGE: CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS {
    Both pNonce(Len::Poly1305Nonce(offset_of!(CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS, ulNonceLen)); 12),
    Both pTag(Len::Fixed(16); 16),
} { ulNonceLen = POLY1305_NONCE });
layout!(GCM_MESSAGE_INIT: CK_GCM_MESSAGE_PARAMS { In pIv(Len::Fixed(0); 0), In pTag(Len::Fixed(0); 0), });
layout!(CCM_MESSAGE_INIT: CK_CCM_MESSAGE_PARAMS { In pNonce(Len::Fixed(0); 0), In pMAC(Len::Fixed(0); 0), });
layout!(POLY1305_MESSAGE_INIT: CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS {
    In pNonce(Len::Fixed(0); 0), In pTag(Len::Fixed(0); 0),
});
layout!(OAEP: CK_RSA_PKCS_OAEP_PARAMS { pSourceData[ulSourceDataLen; DATA], } {
    hashAlg = Value::Hash, mgf = MGF, source = Value::Among(&[CKZ_DATA_SPECIFIED, 0])
});
layout!(RSA_AES_WRAP: CK_RSA_AES_KEY_WRAP_PARAMS { pOAEPParams => OAEP, } { ulAESKeyBits = AES });
layout!(EDDSA: CK_EDDSA_PARAMS { pContextData[ulContextDataLen; CONTEXT], } { phFlag = OFF });
layout!(SIGN_CONTEXT: CK_SIGN_ADDITIONAL_CONTEXT { pContext[ulContextLen; CONTEXT], } {
    hedgeVariant = HEDGE
});
layout!(HASH_SIGN_CONTEXT: CK_HASH_SIGN_ADDITIONAL_CONTEXT { pContext[ulContextLen; CONTEXT], } {
    hedgeVariant = HEDGE, hash = Value::Hash
});

/// `CK_MU_GEN_PARAMS` of PKCS#11 3.3: the key, or the hash of a public key, and the context.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(windows, repr(C, packed))]
#[cfg_attr(not(windows), repr(C))]
#[allow(missing_docs, reason = "the names are the specification's")]
pub struct MuGen {
    pub key: NativeUlong,
    pub tr: *mut CK_BYTE,
    pub tr_len: NativeUlong,
    pub context: *mut CK_BYTE,
    pub context_len: NativeUlong,
}

layout!(MU_GEN: MuGen { tr[tr_len; TR], context[context_len; CONTEXT], } { key = Value::Object });
layout!(ECDH: CK_ECDH1_DERIVE_PARAMS { pSharedData[ulSharedDataLen; DATA], pPublicData[ulPublicDataLen; PEER], } {
    kdf = KDF
});
layout!(ECDH_AES_WRAP: CK_ECDH_AES_KEY_WRAP_PARAMS { pSharedData[ulSharedDataLen; DATA], } {
    ulAESKeyBits = AES, kdf = KDF
});
layout!(HKDF: CK_HKDF_PARAMS {
    In pSalt(Len::HkdfSalt; DATA),
    In pInfo(Len::HkdfInfo; DATA),
} {
    bExtract = ON, bExpand = ON, prfHashMechanism = Value::Hash, ulSaltType =
    Value::Of(&[CKF_HKDF_SALT_DATA, CKF_HKDF_SALT_NULL, CKF_HKDF_SALT_KEY]), hSaltKey = Value::Object
});
layout!(STRING_DATA: CK_KEY_DERIVATION_STRING_DATA { pData[ulLen; DATA], });
layout!(CBC_DATA: CK_AES_CBC_ENCRYPT_DATA_PARAMS { pData[length; DATA], } { iv = Value::Bytes(16) });
layout!(OTP_PARAM: CK_OTP_PARAM { pValue[ulValueLen; 8], } {
    type_ = Value::Among(&[CK_OTP_COUNTER, CK_OTP_FLAGS, CK_OTP_OUTPUT_LENGTH, CK_OTP_OUTPUT_FORMAT,
    CK_OTP_PIN, CK_OTP_CHALLENGE, CK_OTP_TIME])
});
layout!(OTP: CK_OTP_PARAMS { pParams => OTP_PARAM[ulCount; OTP_PARAMS], });
layout!(PRF_DATA: CK_PRF_DATA_PARAM { pValue[ulValueLen; DATA], } {
    type_ = Value::Among(&[CK_SP800_108_ITERATION_VARIABLE, CK_SP800_108_COUNTER, CK_SP800_108_DKM_LENGTH,
    CK_SP800_108_BYTE_ARRAY, CK_SP800_108_KEY_HANDLE])
});
layout!(DERIVED_KEY: CK_DERIVED_KEY {
    pTemplate => ATTRIBUTE[ulAttributeCount; MAX_ATTRIBUTES],
    Both phKey(Len::Fixed(8); 8),
});
layout!(SP800_108: CK_SP800_108_KDF_PARAMS {
    pDataParams => PRF_DATA[ulNumberOfDataParams; FIELDS],
    pAdditionalDerivedKeys => DERIVED_KEY[ulAdditionalDerivedKeys; FIELDS],
} { prfType = Value::Prf });
layout!(SP800_108_FEEDBACK: CK_SP800_108_FEEDBACK_KDF_PARAMS {
    pDataParams => PRF_DATA[ulNumberOfDataParams; FIELDS],
    pIV[ulIVLen; DATA],
    pAdditionalDerivedKeys => DERIVED_KEY[ulAdditionalDerivedKeys; FIELDS],
} { prfType = Value::Prf });
layout!(PBKDF2: CK_PKCS5_PBKD2_PARAMS2 {
    pSaltSourceData[ulSaltSourceDataLen; DATA],
    In pPrfData(Len::Fixed(0); 0),
    In pPassword(Len::Password(offset_of!(CK_PKCS5_PBKD2_PARAMS2, ulPasswordLen)); PASSWORD_LIMIT - 1),
} {
    saltSource = Value::Of(&[CKZ_SALT_SPECIFIED]), iterations = Value::Range(1, ITERATIONS), prf =
    Value::Of(&[CKP_PKCS5_PBKD2_HMAC_SHA256, CKP_PKCS5_PBKD2_HMAC_SHA1, CKP_PKCS5_PBKD2_HMAC_SHA224,
    CKP_PKCS5_PBKD2_HMAC_SHA384, CKP_PKCS5_PBKD2_HMAC_SHA512, CKP_PKCS5_PBKD2_HMAC_SHA512_224,
    CKP_PKCS5_PBKD2_HMAC_SHA512_256]), ulPrfDataLen = Value::Of(&[0])
});
layout!(PSS: CK_RSA_PKCS_PSS_PARAMS {} {
    hashAlg = Value::Hash, mgf = MGF, sLen = Value::Range(0, PSS_SALT)
});
layout!(COUNTER: CK_AES_CTR_PARAMS {} { ulCounterBits = Value::Range(1, 128), cb = Value::Bytes(16) });
layout!(TLS_MAC: CK_TLS_MAC_PARAMS {} {
    prfHashMechanism = Value::TlsHash, ulMacLength = Value::Range(12, 256), ulServerOrClient =
    Value::Of(&[1, 2])
});
layout!(VERSION: CK_VERSION {} { major = Value::Bytes(1), minor = Value::Bytes(1) });
/// `CK_MAC_GENERAL_PARAMS`
pub static MAC_LEN: Layout = single(&[(0, Value::Range(1, MAC))]);
/// `CK_EXTRACT_PARAMS`
pub static BIT: Layout = single(&[(0, Value::Range(0, KEY_BITS - 1))]);
/// `CK_OBJECT_HANDLE`
pub static OBJECT: Layout = single(&[(0, Value::Object)]);
layout!(TLS_MASTER: CK_SSL3_MASTER_KEY_DERIVE_PARAMS { random, Both pVersion(Len::Fixed(2); 2), });
layout!(TLS12_MASTER: CK_TLS12_MASTER_KEY_DERIVE_PARAMS { random, Both pVersion(Len::Fixed(2); 2), } {
    prfHashMechanism = Value::Hash
});
layout!(TLS12_EXTENDED_MASTER: CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS {
    pSessionHash[ulSessionHashLen; DATA], Both pVersion(Len::Fixed(2); 2),
} { prfHashMechanism = Value::Hash });
layout!(KEY_MATERIAL: CK_SSL3_KEY_MAT_OUT {
    Both pIVClient(Len::BitsOfOwner(offset_of!(CK_SSL3_KEY_MAT_PARAMS, ulIVSizeInBits)); 512),
    Both pIVServer(Len::BitsOfOwner(offset_of!(CK_SSL3_KEY_MAT_PARAMS, ulIVSizeInBits)); 512),
} [(0, 32)]);
layout!(TLS_KEYS: CK_SSL3_KEY_MAT_PARAMS { random, pReturnedKeyMaterial => KEY_MATERIAL, } {
    ulMacSizeInBits = TLS_LEN, ulKeySizeInBits = TLS_LEN, ulIVSizeInBits = TLS_LEN, bIsExport = OFF
});
layout!(TLS12_KEYS: CK_TLS12_KEY_MAT_PARAMS { random, pReturnedKeyMaterial => KEY_MATERIAL, } {
    ulMacSizeInBits = TLS_LEN, ulKeySizeInBits = TLS_LEN, ulIVSizeInBits = TLS_LEN, bIsExport = OFF,
    prfHashMechanism = Value::Hash
});
layout!(KEYS_WITHOUT_IVS: CK_SSL3_KEY_MAT_OUT {
    In pIVClient(Len::Fixed(0); 0),
    In pIVServer(Len::Fixed(0); 0),
} [(0, 32)]);
layout!(TLS12_SAFE_KEYS: CK_TLS12_KEY_MAT_PARAMS { random, pReturnedKeyMaterial => KEYS_WITHOUT_IVS, } {
    ulMacSizeInBits = TLS_LEN, ulKeySizeInBits = TLS_LEN, ulIVSizeInBits = Value::Any(0), bIsExport = OFF,
    prfHashMechanism = Value::Hash
});
layout!(TLS_KDF: CK_TLS_KDF_PARAMS {
    pLabel[ulLabelLength; DATA], random, pContextData[ulContextDataLength; 65535],
} { prfMechanism = Value::TlsHash });
layout!(TLS_PRF: CK_TLS_PRF_PARAMS {
    pSeed[ulSeedLen; DATA],
    pLabel[ulLabelLen; DATA],
    Both pulOutputLen(Len::Fixed(8); 8),
    Out pOutput(Len::Behind(2); DATA),
});
layout!(IKE_PRF: CK_IKE_PRF_DERIVE_PARAMS { pNi[ulNiLen; DATA], pNr[ulNrLen; DATA], } {
    prfMechanism = Value::Prf, bDataAsKey = OFF, bRekey = OFF, hNewKey = Value::Object
});
layout!(IKE1_PRF: CK_IKE1_PRF_DERIVE_PARAMS { pCKYi[ulCKYiLen; DATA], pCKYr[ulCKYrLen; DATA], } {
    prfMechanism = Value::Prf, bHasPrevKey = OFF, hKeygxy = Value::Object, hPrevKey = Value::Object,
    keyNumber = Value::Bytes(1)
});
layout!(IKE1_EXTENDED: CK_IKE1_EXTENDED_DERIVE_PARAMS { pExtraData[ulExtraDataLen; DATA], } {
    prfMechanism = Value::Prf, bHasKeygxy = OFF, hKeygxy = Value::Object
});
layout!(IKE2_PRF_PLUS: CK_IKE2_PRF_PLUS_DERIVE_PARAMS { pSeedData[ulSeedDataLen; DATA], } {
    prfMechanism = Value::Prf, bHasSeedKey = OFF, hSeedKey = Value::Object
});

// The layouts of the two structs must agree where `BitsOfOwner` reads the struct that points to
// another.
const _: () = assert!(
    offset_of!(CK_SSL3_KEY_MAT_PARAMS, ulIVSizeInBits) == offset_of!(CK_TLS12_KEY_MAT_PARAMS, ulIVSizeInBits)
);
// A number is 8 bytes long, and so is a pointer.
const _: () = assert!(size_of::<CK_ULONG>() == 8 && size_of::<*const u8>() == 8);

/// The greatest number of bytes of a parameter without pointers: a Diffie-Hellman value of 8192
/// bits with leading zeros has fewer.
pub const MAX_PLAIN: u64 = 2048;
/// The greatest room for the output of a function, or for the values of all attributes together.
pub const MAX_ROOM: u64 = 1 << 26;

macro_rules! parameters {
    ($($(#[doc = $doc:literal])* $name:ident: $($layout:ident)*,)*) => {
        /// What the parameter of a mechanism is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names of the structs")]
        pub enum Parameter {
            $($(#[doc = $doc])* $name,)*
        }

        impl Parameter {
            /// Returns the structs that the parameter can be.
            pub fn layouts(self) -> &'static [&'static Layout] {
                match self {
                    $(Self::$name => const { &[$(&$layout),*] },)*
                }
            }
        }
    };
}

parameters! {
    /// There is none. What the application passes is not read.
    None:,
    /// Bytes, such as an initialisation vector.
    Bytes:,
    Pss: PSS,
    Counter: COUNTER,
    TlsMac: TLS_MAC,
    Version: VERSION,
    MacLen: MAC_LEN,
    Bit: BIT,
    Object: OBJECT,
    Gcm: GCM GCM_WITHOUT_BITS GCM_WRAP,
    /// The struct, or an initialisation vector of any other length.
    Gmac: GMAC,
    Ccm: CCM CCM_WRAP,
    ChaCha20: CHACHA20,
    Poly1305: POLY1305,
    Oaep: OAEP,
    RsaAesWrap: RSA_AES_WRAP,
    Eddsa: EDDSA,
    SignContext: SIGN_CONTEXT,
    HashSignContext: HASH_SIGN_CONTEXT,
    MuGen: MU_GEN,
    Ecdh: ECDH,
    EcdhAesWrap: ECDH_AES_WRAP,
    Hkdf: HKDF,
    StringData: STRING_DATA,
    CbcData: CBC_DATA,
    Otp: OTP,
    Sp800_108: SP800_108,
    Sp800_108Feedback: SP800_108_FEEDBACK,
    Pbkdf2: PBKDF2,
    TlsMaster: TLS_MASTER,
    Tls12Master: TLS12_MASTER,
    Tls12ExtendedMaster: TLS12_EXTENDED_MASTER,
    TlsKeys: TLS_KEYS,
    Tls12Keys: TLS12_KEYS,
    Tls12SafeKeys: TLS12_SAFE_KEYS,
    TlsKdf: TLS_KDF,
    TlsPrf: TLS_PRF,
    IkePrf: IKE_PRF,
    Ike1Prf: IKE1_PRF,
    Ike1Extended: IKE1_EXTENDED,
    Ike2PrfPlus: IKE2_PRF_PLUS,
    /// The parameter of a message. Its length shows which of the three structs it is.
    Message: GCM_MESSAGE CCM_MESSAGE POLY1305_MESSAGE,
    /// The same where a function reads the struct, but not what it points to.
    MessageInit: GCM_MESSAGE_INIT CCM_MESSAGE_INIT POLY1305_MESSAGE_INIT,
}

impl Parameter {
    /// Returns whether a parameter of this length has no pointer.
    pub fn is_plain(self, len: u64) -> bool {
        let has_pointers = |layout: &&Layout| !layout.pointers.is_empty();
        let has_struct = match self {
            Self::Gmac => self.layout(len).is_some(),
            _ => self.layouts().iter().any(has_pointers),
        };
        self != Self::None && len <= MAX_PLAIN && !has_struct
    }

    /// Returns the layout of a struct with pointers of `len` bytes, or `None` if the parameter has
    /// no struct of this length.
    pub fn layout(self, len: u64) -> Option<&'static Layout> {
        let mut layouts = self.layouts().iter().copied();
        layouts.find(|layout| layout.size as u64 == len && !layout.pointers.is_empty())
    }
}

/// The attributes whose value is an array of attributes. The bit `CKF_ARRAY_ATTRIBUTE` does not
/// show this: `CKA_ALLOWED_MECHANISMS` has the bit and contains mechanisms, and in the headers of
/// PKCS#11 3.2 the two templates of encapsulation lack the bit. A correction of the standard adds
/// it, so they have two numbers.
pub const TEMPLATES: [CK_ATTRIBUTE_TYPE; 7] = [
    CKA_WRAP_TEMPLATE,
    CKA_UNWRAP_TEMPLATE,
    CKA_DERIVE_TEMPLATE,
    CKA_ENCAPSULATE_TEMPLATE,
    CKA_DECAPSULATE_TEMPLATE,
    CKA_ENCAPSULATE_TEMPLATE | CKF_ARRAY_ATTRIBUTE,
    CKA_DECAPSULATE_TEMPLATE | CKF_ARRAY_ATTRIBUTE,
];

/// The attributes whose value is a number, or several. A number has 32 bits in a program for
/// Windows.
#[rustfmt::skip]
pub const NUMBERS: [CK_ATTRIBUTE_TYPE; 46] = [
    CKA_CLASS, CKA_CERTIFICATE_TYPE, CKA_CERTIFICATE_CATEGORY, CKA_JAVA_MIDP_SECURITY_DOMAIN,
    CKA_NAME_HASH_ALGORITHM,
    CKA_KEY_TYPE, CKA_MODULUS_BITS, CKA_PRIME_BITS, CKA_SUBPRIME_BITS, CKA_VALUE_BITS, CKA_VALUE_LEN,
    CKA_KEY_GEN_MECHANISM, CKA_ALLOWED_MECHANISMS,
    CKA_OBJECT_VALIDATION_FLAGS, CKA_VALIDATION_TYPE, CKA_VALIDATION_LEVEL, CKA_VALIDATION_FLAG,
    CKA_VALIDATION_AUTHORITY_TYPE,
    CKA_PROFILE_ID, CKA_MECHANISM_TYPE, CKA_HW_FEATURE_TYPE,
    CKA_PARAMETER_SET, CKA_HSS_LEVELS, CKA_HSS_LMS_TYPE, CKA_HSS_LMOTS_TYPE, CKA_HSS_LMS_TYPES,
    CKA_HSS_LMOTS_TYPES, CKA_HSS_KEYS_REMAINING,
    CKA_OTP_FORMAT, CKA_OTP_LENGTH, CKA_OTP_CHALLENGE_REQUIREMENT, CKA_OTP_TIME_REQUIREMENT,
    CKA_OTP_COUNTER_REQUIREMENT, CKA_OTP_PIN_REQUIREMENT,
    CKA_TRUST_SERVER_AUTH, CKA_TRUST_CLIENT_AUTH, CKA_TRUST_CODE_SIGNING, CKA_TRUST_EMAIL_PROTECTION,
    CKA_TRUST_IPSEC_IKE, CKA_TRUST_TIME_STAMPING, CKA_TRUST_OCSP_SIGNING,
    CKA_JETON_COPIED, CKA_JETON_USES_LEFT, CKA_JETON_NEXT_KEY, CKA_JETON_INCARNATION, CKA_JETON_USES,
];
