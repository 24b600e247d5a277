//! The parameters of mechanisms, parsed.

use serde::{Deserialize, Serialize};

use crate::bounded::{self, at_most};
use crate::cipher::{CipherScheme, GcmParams};
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::id::ObjectHandle;
use crate::password::Password;
use crate::shape::MacFunction;
use crate::sp800_108::{Field, MAX_FIELDS};
use crate::tls::{Randoms, TlsPrf};

/// A mechanism's parameter, parsed. In a message it has the number of its variant: a new variant is the
/// last one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "most fields have the names of the specification's structs")]
pub enum Params {
    /// The mechanism has no parameter.
    None,
    Pss {
        /// The hash of the message.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        salt_len: usize,
    },
    /// EdDSA.
    Eddsa {
        /// `phFlag`: Ed25519ph, Ed448ph.
        prehash: bool,
        /// The context, at most 255 bytes.
        #[serde(with = "bounded::copied")]
        context: Box<[u8]>,
    },
    /// ML-DSA and SLH-DSA, also with a hash of the message.
    SignContext {
        /// `CKH_DETERMINISTIC_REQUIRED`.
        deterministic: bool,
        /// The context, at most 255 bytes.
        #[serde(with = "bounded::copied")]
        context: Box<[u8]>,
        /// The hash from `CK_HASH_SIGN_ADDITIONAL_CONTEXT`.
        hash: Option<Hash>,
    },
    Oaep {
        /// The hash of the label.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// The label (`CKZ_DATA_SPECIFIED`), or empty.
        #[serde(with = "bounded::copied")]
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
        #[serde(with = "bounded::copied")]
        label: Box<[u8]>,
    },
    /// A cipher with its parameter.
    Cipher(CipherScheme),
    Gmac {
        /// The initialisation vector.
        #[serde(with = "bounded::copied")]
        iv: Box<[u8]>,
        tag_len: usize,
    },
    Length(usize),
    Ecdh {
        /// The key derivation function. `None` (`CKD_NULL`) uses the shared secret itself.
        kdf: Option<AgreementKdf>,
        /// The shared information.
        #[serde(with = "bounded::copied")]
        shared: Box<[u8]>,
        /// The peer's public key: a point or u-coordinate, bare or in a DER octet string.
        #[serde(with = "bounded::copied")]
        peer: Box<[u8]>,
    },
    Hkdf {
        extract: bool,
        expand: bool,
        hash: Hash,
        salt: HkdfSalt,
        #[serde(with = "bounded::copied")]
        info: Box<[u8]>,
    },
    Data(#[serde(with = "bounded::copied")] Box<[u8]>),
    /// An initialisation vector and data.
    CbcData {
        /// The initialisation vector.
        iv: [u8; 16],
        #[serde(with = "bounded::copied")]
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
        /// The key derivation function. `None` (`CKD_NULL`) uses the shared secret itself.
        kdf: Option<AgreementKdf>,
        /// The shared information.
        #[serde(with = "bounded::copied")]
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
        #[serde(deserialize_with = "at_most::<MAX_FIELDS, _, _>")]
        fields: Vec<Field>,
        /// The first iteration variable of the feedback mode.
        #[serde(with = "bounded::copied")]
        iv: Box<[u8]>,
    },
    Pbkdf2 {
        /// The hash of HMAC.
        hash: Hash,
        #[serde(with = "bounded::copied")]
        salt: Box<[u8]>,
        iterations: u32,
        password: Password,
    },
    /// A TLS version, major and minor.
    Version([u8; 2]),
    /// The TLS master secret.
    TlsMaster {
        /// The pseudo-random function.
        prf: TlsPrf,
        randoms: Randoms,
    },
    /// The extended master secret of TLS 1.2.
    TlsExtendedMaster {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// The hash of the handshake messages so far.
        #[serde(with = "bounded::copied")]
        session_hash: Box<[u8]>,
    },
    /// The keys of a TLS connection, with these lengths in bytes. The client and the server each
    /// get a key of each type.
    TlsKeys {
        /// The pseudo-random function.
        prf: TlsPrf,
        randoms: Randoms,
        mac_len: usize,
        key_len: usize,
        /// The length of an initialisation vector.
        iv_len: usize,
    },
    /// The exporter of RFC 5705.
    TlsKdf {
        /// The pseudo-random function.
        prf: TlsPrf,
        /// The label: the purpose of the key.
        #[serde(with = "bounded::copied")]
        label: Box<[u8]>,
        randoms: Randoms,
        /// The context. An empty context is not the same as `None`.
        #[serde(with = "bounded::maybe_copied")]
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
        #[serde(with = "bounded::copied")]
        seed: Box<[u8]>,
        #[serde(with = "bounded::copied")]
        label: Box<[u8]>,
        /// The length of the output in bytes.
        len: usize,
    },
    /// The first key of IKE.
    IkePrf {
        /// The pseudo-random function.
        prf: MacFunction,
        /// Whether the nonces are the key of the pseudo-random function, and the base key is its
        /// message.
        data_as_key: bool,
        /// Ni and Nr, concatenated.
        #[serde(with = "bounded::copied")]
        nonces: Box<[u8]>,
        /// The shared secret g^ir of the new exchange, if IKE replaces its keys.
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
        #[serde(with = "bounded::copied")]
        cookies: Box<[u8]>,
        number: u8,
    },
    /// Longer keys of IKEv1, and the keys of its quick mode.
    Ike1Extended {
        /// The pseudo-random function.
        prf: MacFunction,
        /// The shared secret g^xy.
        shared: Option<ObjectHandle>,
        #[serde(with = "bounded::copied")]
        extra: Box<[u8]>,
    },
    /// The later keys of IKEv2.
    Ike2PrfPlus {
        /// The pseudo-random function.
        prf: MacFunction,
        /// The key at the start of the seed.
        seed_key: Option<ObjectHandle>,
        /// The rest of the seed.
        #[serde(with = "bounded::copied")]
        seed: Box<[u8]>,
    },
    /// The message representative of ML-DSA.
    MuGen {
        /// The key that signs or verifies.
        key: MuKey,
        /// The context, at most 255 bytes.
        #[serde(with = "bounded::copied")]
        context: Box<[u8]>,
    },
}

impl Params {
    /// Checks whether both parameters are equal. Most mechanisms have no parameter. For these, the
    /// inlined first test answers without a call.
    #[inline(always)]
    pub fn same(&self, other: &Self) -> bool {
        matches!((self, other), (Self::None, Self::None)) || self == other
    }

    /// Sets another parameter of GCM. Fails with `GeneralError` if this belongs to another cipher.
    #[inline]
    pub fn assign_gcm(&mut self, gcm: &GcmParams<'_>) -> Result<()> {
        match self {
            Self::Cipher(scheme) => scheme.assign_gcm(gcm),
            _ => Err(Error::GeneralError),
        }
    }

    /// Returns the bytes that the parameter of an operation has outside of this type. Parameters of
    /// functions that keep nothing, as derivations, count as 0.
    pub fn size(&self) -> usize {
        match self {
            Self::Eddsa { context, .. } | Self::SignContext { context, .. } | Self::MuGen { context, .. } => {
                context.len()
            }
            Self::Oaep { label, .. } => label.len(),
            Self::Cipher(CipherScheme::Aead { nonce, aad, .. }) => nonce.len() + aad.len(),
            Self::Gmac { iv, .. } => iv.len(),
            _ => 0,
        }
    }

    /// Returns the length of the tag in the parameter of an authenticated cipher; 0 for the others.
    pub fn tag_len(&self) -> usize {
        match self {
            Self::Cipher(CipherScheme::Aead { tag_len, .. }) => *tag_len,
            _ => 0,
        }
    }

    /// Returns the length of the data that a derivation joins to a key.
    pub fn data_len(&self) -> usize {
        if let Self::Data(data) = self { data.len() } else { 0 }
    }

    /// Returns the number of bytes that a derivation hashes besides keys, for each block of its
    /// output.
    pub fn input_len(&self) -> usize {
        let both = |randoms: &Randoms| randoms.client.len() + randoms.server.len();
        match self {
            Self::Ecdh { shared, .. } => shared.len(),
            Self::Hkdf { salt, info, .. } => {
                info.len() + if let HkdfSalt::Data(salt) = salt { salt.len() } else { 0 }
            }
            Self::Sp800_108 { fields, iv, .. } => iv.len() + fields.iter().map(Field::len).sum::<usize>(),
            Self::TlsKdf { label, randoms, context, .. } => {
                label.len() + both(randoms) + context.as_ref().map_or(0, |context| context.len())
            }
            Self::TlsPrf { seed, label, .. } => seed.len() + label.len(),
            Self::IkePrf { nonces: data, .. }
            | Self::Ike1Prf { cookies: data, .. }
            | Self::Ike1Extended { extra: data, .. }
            | Self::Ike2PrfPlus { seed: data, .. }
            | Self::Data(data)
            | Self::CbcData { data, .. } => data.len(),
            _ => 0,
        }
    }

    /// Returns the length of what a derivation returns besides keys.
    pub fn output_len(&self) -> usize {
        match self {
            Self::TlsPrf { len, .. } => *len,
            Self::TlsKeys { iv_len, .. } => 2 * iv_len,
            _ => 0,
        }
    }

    /// Returns the handles of the keys in the parameter.
    pub fn keys(&self) -> Vec<ObjectHandle> {
        match self {
            Self::Key(key)
            | Self::Hkdf { salt: HkdfSalt::Key(key), .. }
            | Self::MuGen { key: MuKey::Object(key), .. } => vec![*key],
            Self::Sp800_108 { fields, .. } => fields.iter().filter_map(Field::key).collect(),
            Self::IkePrf { new_key, .. } => new_key.iter().copied().collect(),
            Self::Ike1Prf { shared, previous, .. } => [*shared].into_iter().chain(*previous).collect(),
            Self::Ike1Extended { shared, .. } => shared.iter().copied().collect(),
            Self::Ike2PrfPlus { seed_key, .. } => seed_key.iter().copied().collect(),
            _ => Vec::new(),
        }
    }
}

/// The key derivation function of a key agreement: a hash of the shared secret, a counter and the
/// shared information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgreementKdf {
    /// ANSI X9.63, 5.6.3: the secret, then the counter.
    X963(Hash),
    /// The one-step function of SP 800-56A: the counter, then the secret.
    OneStep(Hash),
}

impl AgreementKdf {
    /// Returns the hash.
    pub fn hash(self) -> Hash {
        match self {
            Self::X963(hash) | Self::OneStep(hash) => hash,
        }
    }
}

/// The key in `CK_MU_GEN_PARAMS`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MuKey {
    /// A public or private key.
    Object(ObjectHandle),
    /// The hash of a public key (FIPS 204, algorithm 6: `tr`), which has 64 bytes.
    Hash(#[serde(with = "bounded::copied")] Box<[u8]>),
}

/// The salt of HKDF (`CKF_HKDF_SALT_*`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HkdfSalt {
    /// Zeros, with the length of the hash.
    Null,
    /// These bytes.
    Data(#[serde(with = "bounded::copied")] Box<[u8]>),
    /// The value of a key.
    Key(ObjectHandle),
}
