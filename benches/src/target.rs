//! A token that can be measured: a module behind its C interface, or the core itself. All offer the
//! same operations, so that a group asks every row for the same work.

mod core;
mod module;
mod template;

use cryptoki_sys::{CK_OBJECT_HANDLE, CKA_EC_POINT, CKA_MODULUS, CKA_PUBLIC_EXPONENT, CKA_VALUE};
use jeton::backend::{MlKem, PublicParts};
use jeton_client::Attribute;

use crate::operation::Boxed;
use crate::scheme::{Aead, Digest, Kind, Pair, Scheme};

pub use self::core::CoreToken;
pub use module::{ModuleToken, creation};
pub use template::{FINDABLE, Findable, aes_object};

/// A key pair in a token.
#[derive(Clone, Copy)]
pub struct Keys {
    /// The public key.
    pub public: CK_OBJECT_HANDLE,
    /// The private key.
    pub private: CK_OBJECT_HANDLE,
}

/// The lifetime of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The object ends with its session.
    Session,
    /// The object stays in the token.
    Token,
}

impl Home {
    /// Returns the word for this lifetime in the names of groups.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Token => "token",
        }
    }
}

/// A result, or the reason why a row is left out.
pub type Outcome<T> = Result<T, String>;

/// A token with the user logged in. An operation that it lacks returns `Err`, and its row is left
/// out.
pub trait Target {
    /// Returns the name of the row.
    fn row(&self) -> &str;
    /// Makes a key pair: token or session objects, depending on the row.
    fn pair(&self, pair: &Pair) -> Outcome<Keys>;
    /// Makes a key of 32 bytes for this cipher: a token or a session object, depending on the row.
    fn cipher_key(&self, cipher: Aead) -> Outcome<CK_OBJECT_HANDLE>;
    /// Makes a generic secret of 32 bytes: a token or a session object, depending on the row.
    fn generic_secret(&self) -> Outcome<CK_OBJECT_HANDLE>;
    /// Destroys an object.
    fn destroy(&self, object: CK_OBJECT_HANDLE);
    /// Reads an attribute.
    fn attribute(&self, object: CK_OBJECT_HANDLE, kind: u64) -> Outcome<Vec<u8>>;

    /// Signs the input of the scheme.
    fn signature(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Vec<u8>>;
    /// `C_SignInit` and `C_Sign`.
    fn signing(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Boxed<'_>>;
    /// `C_VerifyInit` and `C_Verify`.
    fn verifying(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Boxed<'_>>;
    /// `C_GenerateKeyPair`.
    fn generating(&self, pair: &Pair, home: Home) -> Outcome<Boxed<'_>>;
    /// `C_GenerateKey` of an AES-256 key.
    fn generating_aes(&self, home: Home) -> Outcome<Boxed<'_>>;
    /// `C_EncapsulateKey`.
    fn encapsulating(&self, set: MlKem, keys: Keys) -> Outcome<Boxed<'_>>;
    /// `C_DecapsulateKey`.
    fn decapsulating(&self, set: MlKem, keys: Keys) -> Outcome<Boxed<'_>>;
    /// `C_EncryptInit` and `C_Encrypt` of this number of bytes, each with a new nonce.
    fn sealing(&self, cipher: Aead, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>>;
    /// `C_EncryptMessage` of this number of bytes with AES-256-GCM, each with a new nonce. Only
    /// rows with a C interface have it.
    fn sealing_messages(&self, _key: CK_OBJECT_HANDLE, _len: usize) -> Outcome<Boxed<'_>> {
        Err("measured through the C interface only".to_owned())
    }
    /// `C_DecryptInit` and `C_Decrypt` of a ciphertext with this number of bytes and a tag.
    fn opening(&self, cipher: Aead, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>>;
    /// `C_DigestInit` and `C_Digest` of this number of bytes.
    fn digesting(&self, digest: Digest, len: usize) -> Outcome<Boxed<'_>>;
    /// `C_SignInit` and `C_Sign` of this number of bytes with HMAC-SHA-256.
    fn coding(&self, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>>;
    /// `C_GenerateRandom` of this number of bytes.
    fn random(&self, len: usize) -> Outcome<Boxed<'_>>;
    /// `C_OpenSession` and `C_CloseSession`.
    fn sessions(&self) -> Outcome<Boxed<'_>>;
    /// `C_GetAttributeValue` of five attributes of a private key.
    fn reading(&self, keys: Keys) -> Outcome<Boxed<'_>>;
    /// `C_CreateObject` of an AES key.
    fn creating(&self, home: Home) -> Outcome<Boxed<'_>>;
    /// `C_DestroyObject` of an AES key.
    fn destroying(&self, home: Home) -> Outcome<Boxed<'_>>;
    /// A search (`C_FindObjectsInit`, all calls of `C_FindObjects`, `C_FindObjectsFinal`) among
    /// `count` objects. Each search looks for another value, unless it looks for all objects.
    fn searching(&self, what: Findable, count: usize) -> Outcome<Boxed<'_>>;
    /// The first `C_SignInit` with a P-256 key that was never used.
    fn first_use(&self) -> Outcome<Boxed<'_>>;
}

/// Builds the public key of a pair from its attributes.
pub fn public_parts(target: &dyn Target, pair: &Pair, keys: Keys) -> Outcome<PublicParts> {
    let read = |kind| target.attribute(keys.public, kind);
    Ok(match pair.kind {
        Kind::Ec(curve) => PublicParts::Ec { curve, point: unwrapped(read(CKA_EC_POINT)?) },
        Kind::Rsa(_) => PublicParts::Rsa { n: read(CKA_MODULUS)?, e: read(CKA_PUBLIC_EXPONENT)? },
        Kind::Ed25519 => {
            let point = unwrapped(read(CKA_EC_POINT)?);
            PublicParts::Ed25519 { point: point.try_into().map_err(|_| "no point of Ed25519".to_owned())? }
        }
        Kind::MlDsa(set) => PublicParts::MlDsa { set, key: read(CKA_VALUE)? },
        Kind::SlhDsa(set) => PublicParts::SlhDsa { set, key: read(CKA_VALUE)? },
        Kind::MlKem(_) => return Err("a key that does not sign".to_owned()),
    })
}

/// Returns the content of a DER octet string of less than 256 bytes, or the bytes as they are if a
/// peer returns them raw.
fn unwrapped(point: Vec<u8>) -> Vec<u8> {
    match point.as_slice() {
        [0x04, 0x81, len, rest @ ..] | [0x04, len, rest @ ..] if rest.len() == usize::from(*len) => {
            rest.to_vec()
        }
        _ => point,
    }
}

/// A template, for both interfaces.
pub type Template = Vec<Attribute>;
