//! Keys outside of tokens: the attributes of a private key in PKCS #8, and the encoding of a public
//! key.
//!
//! `C_UnwrapKey` and `CKA_PUBLIC_KEY_INFO` use the same code.

use jeton_secret::Secret;

use crate::backend::{Provider, PublicParts, Scheme};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::object::template::Raw;
use crate::object::validation;
pub use crate::object::validation::Flaw;
use crate::object::value::{AttributeView, Value};
use crate::object::{Attributes, attribute, key, pkcs8, spki};

/// The attributes of an object, each as the bytes that `C_GetAttributeValue` returns.
pub type Bytes = Vec<(u64, Secret)>;

/// A key pair that was read from PKCS #8.
pub struct KeyPair {
    /// The attributes of the private key. `CKA_CLASS` and `CKA_KEY_TYPE` are the first.
    pub private: Bytes,
    /// The attributes of the public key, in the same form.
    pub public: Bytes,
    /// The public key as SubjectPublicKeyInfo.
    pub public_key_info: Vec<u8>,
}

/// Reads a private key in PKCS #8 and computes its public key. Fails with `WrappedKeyInvalid` if it
/// is not a known private key, with `TemplateInconsistent` if it has the public key of another one,
/// and with the error of `C_CreateObject` if the token does not support the key.
pub fn read_private_key(der: &[u8]) -> Result<KeyPair> {
    let provider = Provider::ALL[0];
    let mut private = Attributes::default();
    private.put(A::CLASS, Value::Number(ObjectClass::PRIVATE_KEY.0));
    for (id, value) in pkcs8::decode(der)? {
        private.put(id, value);
    }
    let object_type = private.object_type().ok_or(Error::WrappedKeyInvalid)?;
    key::check(&mut private, object_type, provider)?;
    pkcs8::check_public(der, &private, provider).map_err(|_| Error::TemplateInconsistent)?;
    let parts = key::public_half(&private, object_type, provider)?;
    Ok(KeyPair {
        public: public_key(&private, &parts)?,
        public_key_info: spki::encode(&private, &parts)?,
        // A template of C_CreateObject must not have CKA_VALUE_BITS.
        private: bytes(&private, |id| id != A::VALUE_BITS),
    })
}

/// Encodes the public key that has these attributes as SubjectPublicKeyInfo. The values come from
/// `C_GetAttributeValue` of any module.
pub fn public_key_info(attributes: &[(u64, Vec<u8>)]) -> Result<Vec<u8>> {
    let public = read_public(attributes)?;
    spki::encode(&public, &key::public_parts(&public)?)
}

/// Checks a public key of a stranger, by its attributes: also what `C_CreateObject` has no
/// time for. Returns the key as SubjectPublicKeyInfo, whose point is not compressed.
pub fn check_public_key(attributes: &[(u64, Vec<u8>)]) -> std::result::Result<Vec<u8>, Flaw> {
    let mut public = read_public(attributes).map_err(Flaw::Malformed)?;
    key::check_public(&mut public, Provider::ALL[0])
        .and_then(|parts| validation::check_whole(&parts, Provider::ALL[0]).map(|()| parts))
        .and_then(|parts| spki::encode(&public, &parts).map_err(Flaw::Malformed))
}

/// Returns whether a public key, by its attributes, made a signature of a message, with the one
/// scheme that X.509 has for its type. Fails with `KeyTypeInconsistent` for a type with several
/// schemes.
pub fn is_signed(attributes: &[(u64, Vec<u8>)], message: &[u8], signature: &[u8]) -> Result<bool> {
    let public = read_public(attributes)?;
    let (context, deterministic) = (Box::default(), false);
    let scheme = match public.number(A::KEY_TYPE).map(KeyType) {
        Some(KeyType::ML_DSA) => Scheme::MlDsa { hash: None, context, deterministic },
        Some(KeyType::SLH_DSA) => Scheme::SlhDsa { hash: None, context, deterministic },
        Some(KeyType::JETON_COMPOSITE_ML_DSA) => Scheme::Composite { context, deterministic },
        _ => return Err(Error::KeyTypeInconsistent),
    };
    let key = Provider::ALL[0].keys.public(&key::public_parts(&public)?)?;
    Ok(key.verifier(&scheme)?.verify(message, signature).is_ok())
}

/// Returns whether two RSA moduli have a common factor.
pub fn have_common_factor(one: &[u8], other: &[u8]) -> bool {
    validation::have_common_factor(one, other)
}

/// Returns whether two points of secp256k1 have one secret, by their coordinates x.
pub fn have_one_secret(one: &[u8], other: &[u8]) -> bool {
    validation::have_one_secret(one, other)
}

fn read_public(attributes: &[(u64, Vec<u8>)]) -> Result<Attributes> {
    let mut public = Attributes::default();
    for (id, value) in attributes {
        let id = A(*id);
        let kind = attribute::kind(id).ok_or(Error::AttributeTypeInvalid)?;
        public.put(id, Value::read(kind, &Raw::Bytes(value), &attribute::kind)?);
    }
    Ok(public)
}

fn public_key(private: &Attributes, parts: &PublicParts) -> Result<Bytes> {
    let mut public = Attributes::default();
    public.put(A::CLASS, Value::Number(ObjectClass::PUBLIC_KEY.0));
    let shared = [A::KEY_TYPE, A::EC_PARAMS, A::PARAMETER_SET];
    for (id, value) in shared.into_iter().filter_map(|id| private.get(id).map(|value| (id, value))) {
        public.put(id, value.duplicate());
    }
    key::put_public(&mut public, parts)?;
    // A template of C_CreateObject must not have CKA_MODULUS_BITS.
    let rsa = public.number(A::KEY_TYPE) == Some(KeyType::RSA.0);
    Ok(bytes(&public, |id| !(rsa && id == A::MODULUS_BITS)))
}

fn bytes(attributes: &Attributes, wanted: impl Fn(A) -> bool) -> Bytes {
    let mut all: Vec<_> = attributes
        .iter()
        .filter(|(id, _)| wanted(*id))
        .filter_map(|(id, value)| match value.view() {
            AttributeView::Bytes(shown) => Some((id.0, Secret::from(&shown[..]))),
            AttributeView::Template(_) | AttributeView::Length(_) => None,
        })
        .collect();
    all.sort_by_key(|(id, _)| (*id != A::CLASS.0, *id != A::KEY_TYPE.0, *id));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8410, 10.3: an Ed25519 key.
    const ED25519: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20\
        \xd4\xee\x72\xdb\xf9\x13\x58\x4a\xd5\xb6\xd8\xf1\xf7\x69\xf8\xad\
        \x3a\xfe\x7c\x28\xcb\xf1\xd4\xfb\xe0\x97\xa8\x8f\x44\x75\x58\x42";

    #[test]
    fn a_public_key_has_the_same_encoding_from_pkcs8_and_from_attributes() {
        let pair = read_private_key(ED25519).expect("a key");
        assert_eq!(pair.private[0].0, A::CLASS.0);
        assert_eq!(pair.public[1].0, A::KEY_TYPE.0);
        // RFC 8410, 10.1: its public key.
        let point = b"\x19\xbf\x44\x09\x69\x84\xcd\xfe\x85\x41\xba\xc1\x67\xdc\x3b\x96\
            \xc8\x50\x86\xaa\x30\xb6\xb6\xcb\x0c\x5c\x38\xad\x70\x31\x66\xe1";
        assert!(pair.public_key_info.ends_with(point));
        let public: Vec<_> = pair.public.iter().map(|(id, value)| (*id, value.to_vec())).collect();
        assert_eq!(public_key_info(&public).expect("a key"), pair.public_key_info);
    }

    #[test]
    fn bytes_that_are_not_a_key_are_refused() {
        for cut in 0..ED25519.len() {
            assert!(read_private_key(&ED25519[..cut]).is_err());
        }
        assert!(public_key_info(&[(A::KEY_TYPE.0, vec![0; 8])]).is_err());
    }
}
