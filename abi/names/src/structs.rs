//! The layouts of the C structs that contain pointers: where each pointer is, and how many bytes it
//! points to.
//!
//! The client copies a struct with the memory that it points to; the agent builds the same struct
//! from the copy. Both follow the pointers of these tables and no others. A struct that is not here
//! travels as plain bytes, and the agent never follows a pointer in it.

use std::mem::{offset_of, size_of};

use cryptoki_sys::*;

/// A struct with pointers.
#[derive(Debug)]
pub struct Layout {
    /// The size of the struct in bytes.
    pub size: usize,
    /// Its pointers, in the order in which they travel.
    pub pointers: &'static [Pointer],
    /// The fields that a function writes: offset and length in bytes.
    pub written: &'static [(usize, usize)],
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

/// The number of structs behind a pointer.
#[derive(Debug)]
pub enum Count {
    /// One.
    One,
    /// The `CK_ULONG` at this offset, of at most this number.
    Field(usize, u64),
}

/// A password of PBKDF2 is shorter. In one of the two structs the field is the address of the
/// length. The client replaces the address by the length.
pub const PASSWORD_LIMIT: u64 = 1 << 16;
/// The greatest number of attributes in a template, and in its nested templates.
pub const MAX_ATTRIBUTES: u64 = 1024;
/// The greatest depth of nested templates that travels. Deeper ones are refused.
pub const MAX_DEPTH: usize = 6;

/// The limits of the C interface.
const DATA: u64 = 1 << 16;
const AAD: u64 = 4 << 20;
const NONCE: u64 = 1 << 16;

macro_rules! layout {
    ($name:ident: $type:ident { $($pointers:tt)* } $([$($written:expr),*])?) => {
        #[doc = concat!("`", stringify!($type), "`")]
        pub static $name: Layout = Layout {
            size: size_of::<$type>(),
            pointers: &pointers!($type [] $($pointers)*),
            written: &[$($($written),*)?],
        };
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

const fn structs(at: usize, layout: &'static Layout, count: Count) -> Pointer {
    Pointer { at, target: Target::Structs { layout, count } }
}

/// `CK_ATTRIBUTE` of a template.
pub static ATTRIBUTE: Layout = Layout {
    size: size_of::<CK_ATTRIBUTE>(),
    pointers: &[Pointer { at: offset_of!(CK_ATTRIBUTE, pValue), target: Target::Value(Flow::In) }],
    written: &[],
};

/// `CK_ATTRIBUTE` of `C_GetAttributeValue`, which writes the value and its length. In a nested
/// template it writes the type too.
pub static ATTRIBUTE_READ: Layout = Layout {
    size: size_of::<CK_ATTRIBUTE>(),
    pointers: &[Pointer { at: offset_of!(CK_ATTRIBUTE, pValue), target: Target::Value(Flow::Out) }],
    written: &[(offset_of!(CK_ATTRIBUTE, type_), 8), (offset_of!(CK_ATTRIBUTE, ulValueLen), 8)],
};

/// `CK_GCM_PARAMS` without `ulIvBits`, as in the first text of 2.40.
#[repr(C)]
struct GcmWithoutBits {
    iv: *mut CK_BYTE,
    iv_len: CK_ULONG,
    aad: *mut CK_BYTE,
    aad_len: CK_ULONG,
    tag_bits: CK_ULONG,
}

layout!(GCM: CK_GCM_PARAMS { pIv[ulIvLen; NONCE], pAAD[ulAADLen; AAD], });
layout!(GCM_WITHOUT_BITS: GcmWithoutBits { iv[iv_len; NONCE], aad[aad_len; AAD], });
layout!(GCM_WRAP: CK_GCM_WRAP_PARAMS {
    Both pIv(Len::Field(offset_of!(CK_GCM_WRAP_PARAMS, ulIvLen)); NONCE), pAAD[ulAADLen; AAD],
});
layout!(CCM: CK_CCM_PARAMS { pNonce[ulNonceLen; NONCE], pAAD[ulAADLen; AAD], });
layout!(CCM_WRAP: CK_CCM_WRAP_PARAMS {
    Both pNonce(Len::Field(offset_of!(CK_CCM_WRAP_PARAMS, ulNonceLen)); NONCE), pAAD[ulAADLen; AAD],
});
layout!(CHACHA20: CK_CHACHA20_PARAMS {
    In pBlockCounter(Len::Bits(offset_of!(CK_CHACHA20_PARAMS, blockCounterBits)); 8),
    In pNonce(Len::Bits(offset_of!(CK_CHACHA20_PARAMS, ulNonceBits)); 12),
});
layout!(POLY1305: CK_SALSA20_CHACHA20_POLY1305_PARAMS {
    In pNonce(Len::Poly1305Nonce(offset_of!(CK_SALSA20_CHACHA20_POLY1305_PARAMS, ulNonceLen)); 12),
    pAAD[ulAADLen; AAD],
});
layout!(GCM_MESSAGE: CK_GCM_MESSAGE_PARAMS {
    Both pIv(Len::Field(offset_of!(CK_GCM_MESSAGE_PARAMS, ulIvLen)); NONCE),
    Both pTag(Len::Bits(offset_of!(CK_GCM_MESSAGE_PARAMS, ulTagBits)); 16),
});
layout!(CCM_MESSAGE: CK_CCM_MESSAGE_PARAMS {
    Both pNonce(Len::Field(offset_of!(CK_CCM_MESSAGE_PARAMS, ulNonceLen)); NONCE),
    Both pMAC(Len::Field(offset_of!(CK_CCM_MESSAGE_PARAMS, ulMACLen)); 16),
});
layout!(POLY1305_MESSAGE: CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS {
    Both pNonce(Len::Poly1305Nonce(offset_of!(CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS, ulNonceLen)); 12),
    Both pTag(Len::Fixed(16); 16),
});
layout!(GCM_MESSAGE_INIT: CK_GCM_MESSAGE_PARAMS { In pIv(Len::Fixed(0); 0), In pTag(Len::Fixed(0); 0), });
layout!(CCM_MESSAGE_INIT: CK_CCM_MESSAGE_PARAMS { In pNonce(Len::Fixed(0); 0), In pMAC(Len::Fixed(0); 0), });
layout!(POLY1305_MESSAGE_INIT: CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS {
    In pNonce(Len::Fixed(0); 0), In pTag(Len::Fixed(0); 0),
});
layout!(OAEP: CK_RSA_PKCS_OAEP_PARAMS { pSourceData[ulSourceDataLen; DATA], });
layout!(RSA_AES_WRAP: CK_RSA_AES_KEY_WRAP_PARAMS { pOAEPParams => OAEP, });
layout!(EDDSA: CK_EDDSA_PARAMS { pContextData[ulContextDataLen; 255], });
layout!(SIGN_CONTEXT: CK_SIGN_ADDITIONAL_CONTEXT { pContext[ulContextLen; 255], });
layout!(HASH_SIGN_CONTEXT: CK_HASH_SIGN_ADDITIONAL_CONTEXT { pContext[ulContextLen; 255], });
layout!(ECDH: CK_ECDH1_DERIVE_PARAMS { pSharedData[ulSharedDataLen; DATA], pPublicData[ulPublicDataLen; 256], });
layout!(ECDH_AES_WRAP: CK_ECDH_AES_KEY_WRAP_PARAMS { pSharedData[ulSharedDataLen; DATA], });
layout!(HKDF: CK_HKDF_PARAMS {
    In pSalt(Len::HkdfSalt; DATA),
    In pInfo(Len::HkdfInfo; DATA),
});
layout!(STRING_DATA: CK_KEY_DERIVATION_STRING_DATA { pData[ulLen; DATA], });
layout!(CBC_DATA: CK_AES_CBC_ENCRYPT_DATA_PARAMS { pData[length; DATA], });
layout!(OTP_PARAM: CK_OTP_PARAM { pValue[ulValueLen; 8], });
layout!(OTP: CK_OTP_PARAMS { pParams => OTP_PARAM[ulCount; 16], });
layout!(PRF_DATA: CK_PRF_DATA_PARAM { pValue[ulValueLen; DATA], });
layout!(DERIVED_KEY: CK_DERIVED_KEY {
    pTemplate => ATTRIBUTE[ulAttributeCount; MAX_ATTRIBUTES],
    Both phKey(Len::Fixed(8); 8),
});
layout!(SP800_108: CK_SP800_108_KDF_PARAMS {
    pDataParams => PRF_DATA[ulNumberOfDataParams; 64],
    pAdditionalDerivedKeys => DERIVED_KEY[ulAdditionalDerivedKeys; 64],
});
layout!(SP800_108_FEEDBACK: CK_SP800_108_FEEDBACK_KDF_PARAMS {
    pDataParams => PRF_DATA[ulNumberOfDataParams; 64],
    pIV[ulIVLen; DATA],
    pAdditionalDerivedKeys => DERIVED_KEY[ulAdditionalDerivedKeys; 64],
});
layout!(PBKDF2: CK_PKCS5_PBKD2_PARAMS2 {
    pSaltSourceData[ulSaltSourceDataLen; DATA],
    In pPrfData(Len::Fixed(0); 0),
    In pPassword(Len::Password(offset_of!(CK_PKCS5_PBKD2_PARAMS2, ulPasswordLen)); PASSWORD_LIMIT),
});
layout!(TLS_MASTER: CK_SSL3_MASTER_KEY_DERIVE_PARAMS { random, Both pVersion(Len::Fixed(2); 2), });
layout!(TLS12_MASTER: CK_TLS12_MASTER_KEY_DERIVE_PARAMS { random, Both pVersion(Len::Fixed(2); 2), });
layout!(TLS12_EXTENDED_MASTER: CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS {
    pSessionHash[ulSessionHashLen; DATA], Both pVersion(Len::Fixed(2); 2),
});
layout!(KEY_MATERIAL: CK_SSL3_KEY_MAT_OUT {
    Both pIVClient(Len::BitsOfOwner(offset_of!(CK_SSL3_KEY_MAT_PARAMS, ulIVSizeInBits)); 512),
    Both pIVServer(Len::BitsOfOwner(offset_of!(CK_SSL3_KEY_MAT_PARAMS, ulIVSizeInBits)); 512),
} [(0, 32)]);
layout!(TLS_KEYS: CK_SSL3_KEY_MAT_PARAMS { random, pReturnedKeyMaterial => KEY_MATERIAL, });
layout!(TLS12_KEYS: CK_TLS12_KEY_MAT_PARAMS { random, pReturnedKeyMaterial => KEY_MATERIAL, });
layout!(KEYS_WITHOUT_IVS: CK_SSL3_KEY_MAT_OUT {
    In pIVClient(Len::Fixed(0); 0),
    In pIVServer(Len::Fixed(0); 0),
} [(0, 32)]);
layout!(TLS12_SAFE_KEYS: CK_TLS12_KEY_MAT_PARAMS { random, pReturnedKeyMaterial => KEYS_WITHOUT_IVS, });
layout!(TLS_KDF: CK_TLS_KDF_PARAMS {
    pLabel[ulLabelLength; DATA], random, pContextData[ulContextDataLength; 65535],
});
layout!(TLS_PRF: CK_TLS_PRF_PARAMS {
    pSeed[ulSeedLen; DATA],
    pLabel[ulLabelLen; DATA],
    Both pulOutputLen(Len::Fixed(8); 8),
    Out pOutput(Len::Behind(2); DATA),
});
layout!(IKE_PRF: CK_IKE_PRF_DERIVE_PARAMS { pNi[ulNiLen; DATA], pNr[ulNrLen; DATA], });
layout!(IKE1_PRF: CK_IKE1_PRF_DERIVE_PARAMS { pCKYi[ulCKYiLen; DATA], pCKYr[ulCKYrLen; DATA], });
layout!(IKE1_EXTENDED: CK_IKE1_EXTENDED_DERIVE_PARAMS { pExtraData[ulExtraDataLen; DATA], });
layout!(IKE2_PRF_PLUS: CK_IKE2_PRF_PLUS_DERIVE_PARAMS { pSeedData[ulSeedDataLen; DATA], });

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

/// What the parameter of a mechanism is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the structs")]
pub enum Parameter {
    /// There is none. What the application passes is not read.
    None,
    /// Bytes or numbers without a pointer.
    Plain,
    Gcm,
    Ccm,
    ChaCha20,
    Poly1305,
    Oaep,
    RsaAesWrap,
    Eddsa,
    SignContext,
    HashSignContext,
    Ecdh,
    EcdhAesWrap,
    Hkdf,
    StringData,
    CbcData,
    Otp,
    Sp800_108,
    Sp800_108Feedback,
    Pbkdf2,
    TlsMaster,
    Tls12Master,
    Tls12ExtendedMaster,
    TlsKeys,
    Tls12Keys,
    Tls12SafeKeys,
    TlsKdf,
    TlsPrf,
    IkePrf,
    Ike1Prf,
    Ike1Extended,
    Ike2PrfPlus,
    /// The parameter of a message. Its length shows which of the three structs it is.
    Message,
    /// The same where a function reads the struct, but not what it points to.
    MessageInit,
}

impl Parameter {
    /// Returns whether a parameter of this length has no pointer.
    pub fn is_plain(self, len: u64) -> bool {
        self == Self::Plain && len <= MAX_PLAIN
    }

    /// Returns the layout of a struct of `len` bytes, or `None` if the parameter has no struct of
    /// this length.
    pub fn layout(self, len: u64) -> Option<&'static Layout> {
        let layouts: &[&'static Layout] = match self {
            Self::None | Self::Plain => &[],
            Self::Gcm => &[&GCM, &GCM_WITHOUT_BITS, &GCM_WRAP],
            Self::Ccm => &[&CCM, &CCM_WRAP],
            Self::ChaCha20 => &[&CHACHA20],
            Self::Poly1305 => &[&POLY1305],
            Self::Oaep => &[&OAEP],
            Self::RsaAesWrap => &[&RSA_AES_WRAP],
            Self::Eddsa => &[&EDDSA],
            Self::SignContext => &[&SIGN_CONTEXT],
            Self::HashSignContext => &[&HASH_SIGN_CONTEXT],
            Self::Ecdh => &[&ECDH],
            Self::EcdhAesWrap => &[&ECDH_AES_WRAP],
            Self::Hkdf => &[&HKDF],
            Self::StringData => &[&STRING_DATA],
            Self::CbcData => &[&CBC_DATA],
            Self::Otp => &[&OTP],
            Self::Sp800_108 => &[&SP800_108],
            Self::Sp800_108Feedback => &[&SP800_108_FEEDBACK],
            Self::Pbkdf2 => &[&PBKDF2],
            Self::TlsMaster => &[&TLS_MASTER],
            Self::Tls12Master => &[&TLS12_MASTER],
            Self::Tls12ExtendedMaster => &[&TLS12_EXTENDED_MASTER],
            Self::TlsKeys => &[&TLS_KEYS],
            Self::Tls12Keys => &[&TLS12_KEYS],
            Self::Tls12SafeKeys => &[&TLS12_SAFE_KEYS],
            Self::TlsKdf => &[&TLS_KDF],
            Self::TlsPrf => &[&TLS_PRF],
            Self::IkePrf => &[&IKE_PRF],
            Self::Ike1Prf => &[&IKE1_PRF],
            Self::Ike1Extended => &[&IKE1_EXTENDED],
            Self::Ike2PrfPlus => &[&IKE2_PRF_PLUS],
            Self::Message => &[&GCM_MESSAGE, &CCM_MESSAGE, &POLY1305_MESSAGE],
            Self::MessageInit => &[&GCM_MESSAGE_INIT, &CCM_MESSAGE_INIT, &POLY1305_MESSAGE_INIT],
        };
        layouts.iter().copied().find(|layout| layout.size as u64 == len)
    }
}

/// Returns whether the value of an attribute is an array of attributes. As in the C interface, the
/// bit `CKF_ARRAY_ATTRIBUTE` does not show this.
pub fn holds_attributes(id: CK_ATTRIBUTE_TYPE) -> bool {
    const TEMPLATES: [CK_ATTRIBUTE_TYPE; 5] = [
        CKA_WRAP_TEMPLATE,
        CKA_UNWRAP_TEMPLATE,
        CKA_DERIVE_TEMPLATE,
        CKA_ENCAPSULATE_TEMPLATE,
        CKA_DECAPSULATE_TEMPLATE,
    ];
    TEMPLATES.contains(&id)
}
