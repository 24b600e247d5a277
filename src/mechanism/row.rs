//! The columns of the mechanism table.

use jeton_words::mechanism::{self as words, Function};
use jeton_words::sp800_108::Kdf;

use super::flow::{Flow, Inputs, KeyFlow, Sizes, Wrapping};
use super::{KeyExchange, MacFunction, MechanismWord, Params, Shape};
use crate::backend::{AeadScheme, CipherMode, Hash, Scheme, Stateful};
use crate::id::{KeyType, MechanismType, mechanism_flag as does};

/// A row of the mechanism table.
pub struct MechanismRow {
    /// Its `CKM_*` number.
    pub id: MechanismType,
    /// Its flags in `CK_MECHANISM_INFO` (`CKF_*`).
    pub flags: u64,
    /// The smallest and largest key size. The unit is the one that the specification names: bits
    /// for RSA and EC, bytes for AES. Both are 0 if the row gives no sizes, for example for a
    /// digest.
    pub sizes: (u64, u64),
    /// The type of the keys that it uses or generates. `None` if it uses no key, or if the row does
    /// not limit the key type.
    pub key_type: Option<KeyType>,
    /// A second type of keys that it uses, besides `key_type`.
    pub other_key_type: Option<KeyType>,
    /// Whether the token offers it.
    pub standing: Standing,
    /// The keys that it wraps.
    pub wraps: Wraps,
    /// How its uses take the bytes of keys. Each row says it: [`KeyFlow::Unsaid`] does not compile.
    pub flow: KeyFlow,
    /// The computation.
    pub action: Action,
}

impl MechanismRow {
    /// A row without a function. The other rows set only some columns, and take the others from
    /// this row.
    pub(super) const BASE: Self = Self {
        id: MechanismType(u64::MAX),
        flags: 0,
        sizes: (0, 0),
        key_type: None,
        other_key_type: None,
        standing: Standing::Current,
        wraps: Wraps::Nothing,
        flow: KeyFlow::Unsaid,
        action: Action::Encapsulate,
    };

    /// Builds the row of a mechanism that generates secret keys, key pairs or domain parameters.
    pub(super) const fn generates(
        action: Action,
        id: MechanismType,
        key_type: KeyType,
        sizes: (u64, u64),
    ) -> Self {
        let is_pair = matches!(action, Action::GeneratePair | Action::GeneratePairFromExtraBits);
        let flags = if is_pair { does::GENERATE_KEY_PAIR } else { does::GENERATE };
        Self { id, flags, sizes, key_type: Some(key_type), flow: KeyFlow::Nothing, action, ..Self::BASE }
    }

    /// Builds the row of a mechanism that signs.
    pub(super) const fn signs(
        id: MechanismType,
        key_type: KeyType,
        sizes: (u64, u64),
        action: Action,
    ) -> Self {
        let flow = KeyFlow::Signs(Flow::OneWay);
        Self { id, flags: SIGNS, sizes, key_type: Some(key_type), flow, action, ..Self::BASE }
    }

    /// Builds the row of a mechanism that computes MACs.
    pub(super) const fn codes(id: MechanismType, key_type: KeyType, sizes: (u64, u64)) -> Self {
        Self::signs(id, key_type, sizes, Action::Mac(mac_of(id)))
    }

    pub(super) const fn encrypts(
        id: MechanismType,
        key_type: KeyType,
        sizes: (u64, u64),
        wrapping: Wrapping,
    ) -> Self {
        let flags = does::ENCRYPT | does::DECRYPT | does::WRAP | does::UNWRAP;
        let (flow, action) = (KeyFlow::Wraps(wrapping), Action::Cipher(mode_of(id)));
        let row = Self { id, flags, sizes, key_type: Some(key_type), flow, action, ..Self::BASE };
        Self { wraps: Wraps::Any, ..row }
    }

    /// Builds the row of a mechanism that derives keys. Without `key_type`, it is not limited to
    /// one key type.
    pub(super) const fn derives(
        id: MechanismType,
        key_type: Option<KeyType>,
        sizes: (u64, u64),
        inputs: fn(&Params, Sizes) -> Inputs,
        derivation: Derivation,
    ) -> Self {
        let (flow, action) = (KeyFlow::Derives(inputs), Action::Derive(derivation));
        Self { id, flags: does::DERIVE, sizes, key_type, flow, action, ..Self::BASE }
    }

    /// Returns the word of the mechanism.
    pub const fn word(&self) -> &'static MechanismWord {
        word_of(self.id)
    }

    /// Returns the form of its parameter.
    pub const fn shape(&self) -> Shape {
        self.word().shape
    }

    /// Returns whether it is [`Self::BASE`].
    pub(super) const fn is_base(&self) -> bool {
        self.id.0 == Self::BASE.id.0
    }

    pub(super) const fn also(self, flags: u64) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    /// Returns whether the mechanism uses keys of this type. A row without `key_type` accepts every
    /// secret key.
    pub fn accepts(&self, key_type: Option<KeyType>, is_secret: bool) -> bool {
        match self.key_type {
            Some(_) => key_type == self.key_type || key_type.is_some() && key_type == self.other_key_type,
            None => is_secret,
        }
    }

    /// Returns whether the tables "Mechanisms vs. functions" of PKCS#11 3.2 say "single-part
    /// operations only": the input is a digest or one RSA block, or the signature is hash-based.
    pub fn is_single_part(&self) -> bool {
        use Primitive as P;
        matches!(
            self.action,
            Action::Encrypt(_)
                | Action::Sign(
                    P::RsaRaw
                        | P::RsaPkcs1
                        | P::RsaPss
                        | P::Digest(_)
                        | P::MlDsaMu
                        | P::HashMlDsa
                        | P::HashSlhDsa
                        | P::Stateful(_),
                    None
                )
        )
    }

    /// Returns whether a signature changes the state of its key.
    pub(crate) fn is_stateful(&self) -> bool {
        matches!(self.action, Action::Sign(Primitive::Stateful(_), _))
    }
}

const fn word_of(id: MechanismType) -> &'static MechanismWord {
    match words::find(id) {
        Some(word) => word,
        None => panic!("the words lack a mechanism"),
    }
}

const fn mode_of(id: MechanismType) -> CipherMode {
    match word_of(id).shape {
        Shape::Cipher(mode) => mode,
        _ => panic!("not a cipher"),
    }
}

pub(super) const fn aead_of(id: MechanismType) -> AeadScheme {
    match word_of(id).aead() {
        Some(scheme) => scheme,
        None => panic!("not an authenticated cipher"),
    }
}

pub(super) const fn kdf_of(id: MechanismType) -> Kdf {
    match word_of(id).shape {
        Shape::Sp800_108(kdf) => kdf,
        _ => panic!("not of SP 800-108"),
    }
}

pub(super) const fn exchange_of(id: MechanismType) -> KeyExchange {
    match word_of(id).shape {
        Shape::TlsMaster(exchange) | Shape::Tls12Master(exchange) | Shape::Tls12ExtendedMaster(exchange) => {
            exchange
        }
        _ => panic!("not a master secret"),
    }
}

pub(super) const fn hash_of(id: MechanismType) -> Hash {
    match word_of(id).function {
        Some(Function::Digest(hash)) => hash,
        _ => panic!("not a digest"),
    }
}

const fn mac_of(id: MechanismType) -> MacFunction {
    match word_of(id).function {
        Some(Function::Mac(function)) => function,
        _ => panic!("not a MAC"),
    }
}

/// `CKF_*` of a mechanism that signs and verifies, also in the message-based functions.
pub(super) const SIGNS: u64 =
    does::SIGN | does::VERIFY | does::MESSAGE_SIGN | does::MESSAGE_VERIFY | does::MULTI_MESSAGE;

/// `CKF_*` of an authenticated cipher in the message-based functions.
pub(super) const CRYPTS_MESSAGES: u64 = does::MESSAGE_ENCRYPT | does::MESSAGE_DECRYPT | does::MULTI_MESSAGE;

/// Whether the token offers a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The token offers it.
    Current,
    /// The token offers it only if the configuration enables obsolete mechanisms.
    Obsolete,
}

/// The keys that a mechanism wraps, and their form. A private key is wrapped as PKCS #8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wraps {
    /// No keys.
    Nothing,
    /// Secret keys.
    Secret,
    /// Secret keys, and zeros after them up to whole blocks of this number of bytes. PKCS#11 3.2,
    /// "AES-ECB", "AES-CBC": "padded on the trailing end with null bytes".
    SecretWithZeros(usize),
    /// Secret keys, and zeros before them up to the length of the modulus.
    SecretAfterZeros,
    /// Secret and private keys.
    Any,
}

/// The computation of a mechanism.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Digests a message.
    Digest(Hash),
    /// Computes the message representative of ML-DSA.
    MlDsaMu,
    /// Signs and verifies. If there is a hash, it is applied to the message first.
    Sign(Primitive, Option<Hash>),
    /// Computes and verifies message authentication codes.
    Mac(MacFunction),
    /// Encrypts and decrypts, wraps and unwraps, with a secret key.
    Cipher(CipherMode),
    /// Encrypts and decrypts, or wraps and unwraps, with an RSA or EC key pair.
    Encrypt(Asymmetric),
    /// Derives a key from another.
    Derive(Derivation),
    /// Encapsulates and decapsulates a key.
    Encapsulate,
    /// Generates a secret key of `key_type`.
    Generate,
    /// Generates a key pair of `key_type`.
    GeneratePair,
    /// Generates a key pair on a curve of ECDSA, with extra random bits (FIPS 186-5, A.2.1).
    GeneratePairFromExtraBits,
    /// Generates domain parameters of `key_type`.
    GenerateParameters,
    /// Generates and verifies one-time passwords.
    Otp,
    /// Generates a secret key from a password. The template names its type.
    GenerateFromPassword,
    /// Generates a TLS pre-master secret. It begins with the version from the parameter.
    GeneratePreMaster,
}

/// The signature primitive of a mechanism.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the schemes'")]
pub enum Primitive {
    RsaRaw,
    RsaPkcs1,
    RsaPss,
    /// A scheme that signs a digest and has no parameter.
    Digest(&'static Scheme),
    Eddsa,
    MlDsa,
    /// ML-DSA of a message representative.
    MlDsaMu,
    /// HashML-DSA. The row or the parameter names the hash.
    HashMlDsa,
    Composite,
    SlhDsa,
    /// HashSLH-DSA. The row or the parameter names the hash.
    HashSlhDsa,
    /// A stateful hash-based signature.
    Stateful(Stateful),
}

/// The asymmetric encryption of a mechanism that cannot sign. `CKM_RSA_PKCS` and `CKM_RSA_X_509`,
/// which also encrypt, are [`Action::Sign`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asymmetric {
    /// RSAES-OAEP.
    Oaep,
    /// `CKM_RSA_AES_KEY_WRAP`: OAEP encrypts a new AES key, and KWP wraps the target key with that
    /// AES key.
    AesWrap,
    /// `CKM_ECDH_AES_KEY_WRAP`: ECDH with an ephemeral pair gives an AES key, and KWP wraps the
    /// target key with it.
    EcdhAesWrap(PointForm),
}

/// The form of the ephemeral public key at the start of the output of `CKM_ECDH_AES_KEY_WRAP` and
/// its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointForm {
    /// The uncompressed point, or the u-coordinate.
    Bare,
    /// A DER octet string that contains the bare form.
    Octets,
}

/// The method that derives a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Derivation {
    /// ECDH, with and without the cofactor. The result is the same: the supported curves of ECDSA
    /// have the cofactor 1, and X25519 and X448 clear the cofactor.
    Ecdh,
    /// HKDF that creates a key.
    Hkdf,
    HkdfData,
    /// `CKM_SHA256_KEY_DERIVATION` and its variants.
    HashOfKey(Hash),
    ConcatenateBaseAndKey,
    ConcatenateBaseAndData,
    ConcatenateDataAndBase,
    XorBaseAndData,
    ExtractKeyFromKey,
    /// Encrypts data with the base key. The first bytes of the ciphertext are the derived key.
    EncryptData(CipherMode),
    /// Diffie-Hellman of PKCS #3.
    Dh,
    PublicKey,
    Sp800_108(Kdf),
    /// The master secret. With [`Params::TlsExtendedMaster`](super::Params::TlsExtendedMaster) it
    /// is the one of RFC 7627.
    TlsMaster(KeyExchange),
    /// The MAC keys and encryption keys of a connection.
    TlsKeys,
    /// The exporter of RFC 5705.
    TlsKdf,
    /// The output of the pseudo-random function of TLS 1.0 and 1.1.
    TlsPrf,
    IkePrf,
    Ike1Prf,
    Ike1Extended,
    Ike2PrfPlus,
}

impl Derivation {
    /// Returns whether a key type of several lengths needs `CKA_VALUE_LEN`, because no clause says
    /// which of them the derived key gets.
    pub(crate) fn needs_len(self) -> bool {
        matches!(
            self,
            Self::HashOfKey(_)
                | Self::ConcatenateBaseAndKey
                | Self::ConcatenateBaseAndData
                | Self::ConcatenateDataAndBase
                | Self::XorBaseAndData
        )
    }
}
