//! Lets rustls sign with a private key of a token.

use std::fmt;
use std::sync::Arc;

use cryptoki_sys::*;
use der::asn1::UintRef;
use der::{Encode, Sequence};
use jeton_client::{Attribute, Mechanism, ObjectHandle, Session};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::Signer;
use rustls::{OtherError, SignatureAlgorithm, SignatureScheme};

use crate::error::Error;
use crate::pool::Pool;
use crate::scheme::{KeyType, Usable, usable};

/// A private key of a token, with which rustls can sign.
pub struct SigningKey {
    key: Arc<Key>,
}

/// A key, its signature schemes, and the sessions of its token.
struct Key {
    pool: Arc<Pool>,
    handle: ObjectHandle,
    key_type: KeyType,
    schemes: Vec<Usable>,
    /// The greatest length of a signature in its PKCS#11 form.
    length: usize,
    /// SubjectPublicKeyInfo in DER, if the token has it.
    public_key: Option<Vec<u8>>,
}

impl SigningKey {
    /// Reads the attributes of a key. Fails with [`Error::UnusableKey`] if TLS cannot use it.
    pub(crate) fn read(pool: &Arc<Pool>, handle: ObjectHandle) -> Result<Self, Error> {
        let mechanisms = pool.module().mechanisms(pool.slot())?;
        pool.with(|session| {
            let key_type = key_type(session, handle)?;
            if flag(session, handle, CKA_SIGN)? == Some(false) {
                return Err(unusable("its CKA_SIGN is false"));
            }
            if flag(session, handle, CKA_ALWAYS_AUTHENTICATE)? == Some(true) {
                return Err(unusable("it wants the PIN for each signature (CKA_ALWAYS_AUTHENTICATE)"));
            }
            let allowed = numbers(&optional(session, handle, CKA_ALLOWED_MECHANISMS)?.unwrap_or_default());
            let permits = |mechanism| allowed.is_empty() || allowed.contains(&mechanism);
            let schemes = usable(key_type, |mechanism| mechanisms.contains(&mechanism), permits);
            if schemes.is_empty() {
                return Err(unusable("the token has no mechanism that the key permits and TLS uses"));
            }
            let length = match key_type {
                KeyType::Rsa => optional(session, handle, CKA_MODULUS)?.map_or(MOST_RSA, |bytes| bytes.len()),
                KeyType::P256 | KeyType::Ed25519 => 64,
                KeyType::P384 => 96,
                KeyType::P521 => 132,
                KeyType::MlDsa(_) => MOST_ML_DSA,
            };
            let public_key = public_key(session, handle)?;
            let key = Key { pool: Arc::clone(pool), handle, key_type, schemes, length, public_key };
            Ok(Self { key: Arc::new(key) })
        })
    }

    /// Returns the signature schemes that the token and the key allow, the preferred one first.
    pub fn schemes(&self) -> Vec<SignatureScheme> {
        self.key.schemes.iter().map(|one| one.scheme).collect()
    }
}

/// The length of a modulus of 16,384 bits, the largest that Jeton and AWS-LC accept.
const MOST_RSA: usize = 2048;
/// The length of a signature of ML-DSA-87 (FIPS 204, table 2), the longest one of ML-DSA.
const MOST_ML_DSA: usize = 4627;

impl rustls::sign::SigningKey for SigningKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let index = self.key.schemes.iter().position(|one| offered.contains(&one.scheme))?;
        Some(Box::new(TokenSigner { key: Arc::clone(&self.key), index }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key.as_deref().map(Into::into)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.key_type.algorithm()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { key_type, handle, .. } = &*self.key;
        f.debug_struct("SigningKey").field("type", key_type).field("object", handle).finish_non_exhaustive()
    }
}

/// A key with the signature scheme that a handshake uses.
struct TokenSigner {
    key: Arc<Key>,
    /// The scheme's index in `key.schemes`.
    index: usize,
}

impl Signer for TokenSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let usable = &self.key.schemes[self.index];
        self.key.sign(usable, message).map_err(|error| rustls::Error::Other(OtherError(Arc::new(error))))
    }

    fn scheme(&self) -> SignatureScheme {
        self.key.schemes[self.index].scheme
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSigner").field("scheme", &self.scheme()).finish_non_exhaustive()
    }
}

impl Key {
    fn sign(&self, usable: &Usable, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut signature = vec![0; self.length];
        let length = self.pool.with(|session| {
            // SHA-512 is the longest digest of the schemes.
            let mut buffer = [0; 64];
            let input = match &usable.digest {
                Some(mechanism) => digest(session, mechanism, message, &mut buffer)?,
                None => message,
            };
            session.sign_init(&usable.mechanism, self.handle)?;
            Ok::<_, Error>(session.sign(input, &mut signature)?)
        })?;
        signature.truncate(length);
        match self.key_type {
            KeyType::P256 | KeyType::P384 | KeyType::P521 => {
                ecdsa_der(&signature).map_err(|_| Error::MalformedSignature)
            }
            KeyType::Rsa | KeyType::Ed25519 | KeyType::MlDsa(_) => Ok(signature),
        }
    }
}

fn digest<'a>(
    session: &Session,
    mechanism: &Mechanism,
    message: &[u8],
    buffer: &'a mut [u8],
) -> Result<&'a [u8], Error> {
    session.digest_init(mechanism)?;
    let length = session.digest(message, buffer)?;
    Ok(&buffer[..length])
}

/// Ecdsa-Sig-Value of RFC 3279, which TLS uses (RFC 8446, 4.2.3).
#[derive(Sequence)]
struct EcdsaSignature<'a> {
    r: UintRef<'a>,
    s: UintRef<'a>,
}

/// Converts r and s, which PKCS#11 concatenates, to the form of TLS.
fn ecdsa_der(fixed: &[u8]) -> der::Result<Vec<u8>> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    EcdsaSignature { r: UintRef::new(r)?, s: UintRef::new(s)? }.to_der()
}

fn key_type(session: &Session, key: ObjectHandle) -> Result<KeyType, Error> {
    let number = |kind| Ok::<_, Error>(numbers(&session.attribute(key, kind)?).first().copied());
    let unknown = |what: &str| unusable(what);
    match number(CKA_KEY_TYPE)? {
        Some(CKK_RSA) => Ok(KeyType::Rsa),
        Some(CKK_EC | CKK_EC_EDWARDS) => KeyType::of_curve(&session.attribute(key, CKA_EC_PARAMS)?)
            .ok_or_else(|| unknown("its curve is not P-256, P-384, P-521 or Ed25519")),
        Some(CKK_ML_DSA) => number(CKA_PARAMETER_SET)?
            .map(KeyType::MlDsa)
            .ok_or_else(|| unknown("its CKA_PARAMETER_SET is malformed")),
        _ => Err(unknown("it is not an RSA, EC, Ed25519 or ML-DSA key")),
    }
}

/// Returns `CKA_PUBLIC_KEY_INFO` of the private key, or of the only public key with the same
/// `CKA_ID`. `None` if the token has neither: old modules lack the attribute.
fn public_key(session: &Session, key: ObjectHandle) -> Result<Option<Vec<u8>>, Error> {
    let of = |object| Ok::<_, Error>(optional(session, object, CKA_PUBLIC_KEY_INFO)?);
    if let Some(info) = of(key)? {
        return Ok(Some(info));
    }
    let Some(id) = optional(session, key, CKA_ID)? else { return Ok(None) };
    let template = [Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY), Attribute::bytes(CKA_ID, id)];
    match session.find(&template)?.as_slice() {
        [public] => of(*public),
        _ => Ok(None),
    }
}

/// Returns an attribute. `None` if the object lacks it, or if it is empty.
fn optional(
    session: &Session,
    object: ObjectHandle,
    kind: CK_ATTRIBUTE_TYPE,
) -> Result<Option<Vec<u8>>, jeton_client::Failure> {
    let values = session.attributes(object, &[kind])?;
    Ok(values.into_iter().flatten().next().filter(|value| !value.is_empty()))
}

fn flag(session: &Session, object: ObjectHandle, kind: CK_ATTRIBUTE_TYPE) -> Result<Option<bool>, Error> {
    Ok(optional(session, object, kind)?.map(|value| value[0] != 0))
}

fn numbers(bytes: &[u8]) -> Vec<CK_ULONG> {
    let (whole, _) = bytes.as_chunks::<{ size_of::<CK_ULONG>() }>();
    whole.iter().map(|chunk| CK_ULONG::from_ne_bytes(*chunk)).collect()
}

fn unusable(reason: &str) -> Error {
    Error::UnusableKey(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ecdsa_signature_with_short_and_high_numbers_is_minimal_der() {
        let mut fixed = [0; 64];
        fixed[31] = 0x7f;
        fixed[32..].fill(0xff);
        let der = ecdsa_der(&fixed).expect("64 bytes encode");
        assert_eq!(der[..7], [0x30, 38, 0x02, 1, 0x7f, 0x02, 33]);
        assert_eq!(der[7..9], [0, 0xff]);
        assert_eq!(der.len(), 40);
    }

    #[test]
    fn bytes_after_the_last_complete_number_are_ignored() {
        let mut bytes = CKM_ECDSA.to_ne_bytes().to_vec();
        bytes.push(1);
        assert_eq!(numbers(&bytes), [CKM_ECDSA]);
    }
}
