//! Signatures of certificates, CRLs and requests, which keys of a token make and verify.

use aws_lc_rs::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use cryptoki_sys::*;
use der::{Any, Decode, Encode, Sequence};
use jeton_client::names::{CKK_JETON_COMPOSITE_ML_DSA, CKM_JETON_COMPOSITE_ML_DSA};
use jeton_client::{Attribute, Mechanism, ObjectHandle, Session, User, key_types};
use spki::{AlgorithmIdentifierOwned, ObjectIdentifier, SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef};

use super::ecdsa;
use super::public_key::public_key_template;
use super::signed::Signed;
use crate::Error;

const PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");
const MGF1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.8");
const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");

/// The hashes of RSASSA-PSS: identifier, mechanism, hash and mask generation function.
const PSS_HASHES: [(&str, CK_MECHANISM_TYPE, CK_MECHANISM_TYPE, CK_RSA_PKCS_MGF_TYPE); 3] = [
    ("2.16.840.1.101.3.4.2.1", CKM_SHA256_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA256),
    ("2.16.840.1.101.3.4.2.2", CKM_SHA384_RSA_PKCS_PSS, CKM_SHA384, CKG_MGF1_SHA384),
    ("2.16.840.1.101.3.4.2.3", CKM_SHA512_RSA_PKCS_PSS, CKM_SHA512, CKG_MGF1_SHA512),
];

/// RSASSA-PSS-params of RFC 8017, A.2.3. The trailer has one value, which DER leaves out.
#[derive(Default, Sequence)]
struct PssParameters {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    hash: Option<AlgorithmIdentifierOwned>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    mgf: Option<AlgorithmIdentifierOwned>,
    #[asn1(context_specific = "2", tag_mode = "EXPLICIT", optional = "true")]
    salt: Option<u16>,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT", optional = "true")]
    trailer: Option<u8>,
}

/// How a key signs: its mechanism, and the encoding that X.509 uses for the signature and its
/// algorithm.
#[derive(Clone, Debug)]
pub struct Signer {
    /// The mechanism. Its input is the message, or the digest of the message if `digest` is set.
    pub mechanism: Mechanism,
    /// The digest that the tool computes before the mechanism signs.
    digest: Option<&'static digest::Algorithm>,
    /// The identifier of the signature's algorithm.
    pub algorithm: AlgorithmIdentifierOwned,
    /// The length of r and s together, if the mechanism returns them. X.509 encodes them in DER.
    ecdsa: Option<usize>,
}

impl Signer {
    /// Returns how the key of a SubjectPublicKeyInfo signs.
    pub fn of(info: &[u8]) -> Result<Self, Error> {
        let info = SubjectPublicKeyInfoRef::from_der(info)?;
        let plain = |mechanism| Self {
            mechanism: Mechanism::new(mechanism),
            digest: None,
            algorithm: AlgorithmIdentifierOwned { oid: info.algorithm.oid, parameters: None },
            ecdsa: None,
        };
        let oid = info.algorithm.oid.to_der()?;
        if oid == key_types::RSA {
            let oid = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
            let algorithm = AlgorithmIdentifierOwned { oid, parameters: Some(Any::from(der::asn1::Null)) };
            return Ok(Self { algorithm, ..plain(CKM_SHA256_RSA_PKCS) });
        }
        if oid == key_types::RSA_PSS {
            return Self::pss(0, 32);
        }
        if oid == key_types::EC {
            let curve = info.algorithm.parameters.map(|curve| curve.to_der()).transpose()?;
            // Some modules have CKM_ECDSA, but no ECDSA mechanism that also hashes. So the tool
            // hashes.
            let (digest, number, length) = match curve.as_deref() {
                Some(key_types::P384) => (&SHA384, "1.2.840.10045.4.3.3", 96),
                Some(key_types::P521) => (&SHA512, "1.2.840.10045.4.3.4", 132),
                _ => (&SHA256, "1.2.840.10045.4.3.2", 64),
            };
            let algorithm =
                AlgorithmIdentifierOwned { oid: ObjectIdentifier::new_unwrap(number), parameters: None };
            return Ok(Self { digest: Some(digest), algorithm, ecdsa: Some(length), ..plain(CKM_ECDSA) });
        }
        // RFC 9802, 5: the signature has the same identifier as the key.
        if oid == key_types::HSS {
            return Ok(plain(CKM_HSS));
        }
        match key_types::of_oid(&oid).map(|row| row.kind) {
            Some(CKK_EC_EDWARDS) => Ok(plain(CKM_EDDSA)),
            Some(CKK_ML_DSA) => Ok(plain(CKM_ML_DSA)),
            Some(CKK_JETON_COMPOSITE_ML_DSA) => Ok(plain(CKM_JETON_COMPOSITE_ML_DSA)),
            Some(CKK_SLH_DSA) => Ok(plain(CKM_SLH_DSA)),
            _ => Err(Error::Failed("a key of this type cannot sign certificates".to_owned())),
        }
    }

    /// Returns how an RSA key signs with RSASSA-PSS. The hash is that of a row of [`PSS_HASHES`],
    /// and the salt has this length.
    fn pss(hash: usize, salt: u16) -> Result<Self, Error> {
        let (oid, mechanism, digest, mask) = PSS_HASHES[hash];
        let null = Some(Any::from(der::asn1::Null));
        let hash = AlgorithmIdentifierOwned { oid: ObjectIdentifier::new_unwrap(oid), parameters: null };
        let mgf = AlgorithmIdentifierOwned { oid: MGF1, parameters: Some(Any::encode_from(&hash)?) };
        let parameters = PssParameters { hash: Some(hash), mgf: Some(mgf), salt: Some(salt), trailer: None };
        let algorithm =
            AlgorithmIdentifierOwned { oid: PSS, parameters: Some(Any::encode_from(&parameters)?) };
        let numbers = [digest, mask, salt.into()];
        let mechanism = Mechanism::with_numbers(mechanism, &numbers);
        Ok(Self { mechanism, digest: None, algorithm, ecdsa: None })
    }

    /// Returns how an RSA key made a signature with this algorithm of RSASSA-PSS. RFC 4055, 2.1:
    /// the identifier of a hash has the parameter NULL or none.
    fn of_pss(algorithm: &AlgorithmIdentifierOwned) -> Result<Self, Error> {
        let refused = |what: String| Err(Error::Refused(format!("a signature of RSASSA-PSS with {what}")));
        let parameters = algorithm.parameters.as_ref().map(Any::decode_as::<PssParameters>).transpose()?;
        let PssParameters { hash, mgf, salt, trailer } = parameters.unwrap_or_default();
        // RFC 8017, A.2.3: by default SHA-1, MGF1 with SHA-1, a salt of 20 bytes, the trailer 1.
        let hash_of = |hash: Option<AlgorithmIdentifierOwned>| hash.map_or(SHA1, |hash| hash.oid);
        let digest = hash_of(hash);
        let mask = match mgf {
            Some(mgf) if mgf.oid != MGF1 => {
                return refused(format!("the mask generation function {}", mgf.oid));
            }
            Some(mgf) => hash_of(mgf.parameters.as_ref().map(Any::decode_as).transpose()?),
            None => SHA1,
        };
        if trailer.is_some_and(|trailer| trailer != 1) {
            return refused("another trailer than 1".to_owned());
        }
        let row = |oid: ObjectIdentifier| PSS_HASHES.iter().find(|(known, ..)| oid.to_string() == *known);
        let Some((_, mechanism, digest, _)) = row(digest) else {
            return refused(format!("the hash {digest}: SHA-256, SHA-384 and SHA-512 are supported"));
        };
        let mask = match row(mask) {
            Some((.., mask)) => *mask,
            None if mask == SHA1 => CKG_MGF1_SHA1,
            None => return refused(format!("MGF1 with the hash {mask}")),
        };
        let numbers = [*digest, mask, salt.unwrap_or(20).into()];
        let mechanism = Mechanism::with_numbers(*mechanism, &numbers);
        Ok(Self { mechanism, digest: None, algorithm: algorithm.clone(), ecdsa: None })
    }

    /// Returns how the key of a SubjectPublicKeyInfo made a signature with this algorithm. Accepts
    /// RSA (PKCS #1 v1.5 and PSS), ECDSA, EdDSA, ML-DSA, composite ML-DSA, SLH-DSA
    /// and HSS.
    pub fn of_signature(info: &[u8], algorithm: &AlgorithmIdentifierOwned) -> Result<Self, Error> {
        let own = Self::of(info)?;
        let rsa = |mechanism| Self { mechanism: Mechanism::new(mechanism), ..own.clone() };
        let ecdsa = |digest| Self { digest: Some(digest), ..own.clone() };
        let signer = match (algorithm.oid.to_string().as_str(), own.mechanism.kind) {
            ("1.2.840.113549.1.1.11", CKM_SHA256_RSA_PKCS) => rsa(CKM_SHA256_RSA_PKCS),
            ("1.2.840.113549.1.1.12", CKM_SHA256_RSA_PKCS) => rsa(CKM_SHA384_RSA_PKCS),
            ("1.2.840.113549.1.1.13", CKM_SHA256_RSA_PKCS) => rsa(CKM_SHA512_RSA_PKCS),
            ("1.2.840.10045.4.3.2", CKM_ECDSA) => ecdsa(&SHA256),
            ("1.2.840.10045.4.3.3", CKM_ECDSA) => ecdsa(&SHA384),
            ("1.2.840.10045.4.3.4", CKM_ECDSA) => ecdsa(&SHA512),
            ("1.2.840.113549.1.1.10", CKM_SHA256_RSA_PKCS | CKM_SHA256_RSA_PKCS_PSS) => {
                Self::of_pss(algorithm)?
            }
            _ if algorithm.oid == own.algorithm.oid => own,
            (oid, _) => return Err(Error::Refused(format!("a signature with the algorithm {oid}"))),
        };
        Ok(signer)
    }

    /// Signs a message. The signature has the form of X.509.
    pub fn sign(
        &self,
        session: &Session,
        key: ObjectHandle,
        login: &Login<'_>,
        message: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let hashed = self.digest_of(message);
        let input = hashed.as_ref().map_or(message, AsRef::as_ref);
        self.encoded(sign(session, key, &self.mechanism, login, input)?)
    }

    /// Returns the digest of a message if the mechanism signs digests.
    pub fn digest_of(&self, message: &[u8]) -> Option<digest::Digest> {
        self.digest.map(|algorithm| digest::digest(algorithm, message))
    }

    /// Converts a signature of the mechanism to the form of X.509.
    pub fn encoded(&self, signature: Vec<u8>) -> Result<Vec<u8>, Error> {
        if self.ecdsa.is_some() { Ok(ecdsa::to_der(&signature)?) } else { Ok(signature) }
    }

    /// Verifies a signature in the form of X.509.
    pub fn verify(
        &self,
        session: &Session,
        key: ObjectHandle,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, Error> {
        let hashed = self.digest_of(message);
        let input = hashed.as_ref().map_or(message, AsRef::as_ref);
        let raw = match self.ecdsa {
            Some(length) => ecdsa::from_der(signature, length),
            None => Some(signature.to_vec()),
        };
        let Some(raw) = raw else { return Ok(false) };
        session.verify_init(&self.mechanism, key)?;
        Ok(session.verify(input, &raw)?)
    }
}

/// Logs in again for a key that wants the PIN at each use.
pub struct Login<'a> {
    /// Returns the user's PIN.
    pub pin: &'a dyn Fn() -> Result<zeroize::Zeroizing<String>, Error>,
}

impl Login<'_> {
    /// Logs in for one operation if the key asks for it.
    pub fn again(&self, session: &Session, key: ObjectHandle) -> Result<(), Error> {
        if session.flag(key, CKA_ALWAYS_AUTHENTICATE) {
            session.login(User::ContextSpecific, Some(&(self.pin)()?))?;
        }
        Ok(())
    }
}

/// Signs with a mechanism. The signature has the form of PKCS#11.
pub fn sign(
    session: &Session,
    key: ObjectHandle,
    mechanism: &Mechanism,
    login: &Login<'_>,
    input: &[u8],
) -> Result<Vec<u8>, Error> {
    session.sign_init(mechanism, key)?;
    login.again(session, key)?;
    // The longest signature has less than 80,000 bytes: HSS with 8 levels of 265 chains.
    let mut signature = vec![0; 80_000];
    let length = session.sign(input, &mut signature)?;
    signature.truncate(length);
    Ok(signature)
}

/// Returns the key identifier of RFC 5280, 4.2.1.2, method 1. An import sets `CKA_ID` to it by
/// default.
pub fn key_id(info: &[u8]) -> Result<Vec<u8>, Error> {
    let info = SubjectPublicKeyInfoRef::from_der(info)?;
    Ok(digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, info.subject_public_key.raw_bytes()).as_ref().to_vec())
}

/// Joins the bytes of a certificate, a CRL or a request with their signature, in DER.
pub fn assemble(tbs: &[u8], signer: &Signer, signature: &[u8]) -> Result<Vec<u8>, Error> {
    Ok(Signed::assemble(tbs, &signer.algorithm, signature)?)
}

/// Returns whether the key signed a certificate, a CRL or a request. The module verifies the
/// signature.
pub fn is_signed(session: &Session, der: &[u8], key: &SubjectPublicKeyInfoOwned) -> Result<bool, Error> {
    let parts = Signed::parse(der)?;
    let algorithm = AlgorithmIdentifierOwned::from_der(parts.algorithm)?;
    let signer = Signer::of_signature(&key.to_der()?, &algorithm)?;
    let mut template = public_key_template(key)?;
    template.push(Attribute::flag(CKA_VERIFY, true));
    let key = session.create_object(&template)?;
    let valid = signer.verify(session, key, parts.tbs, parts.signature);
    session.destroy_object(key)?;
    valid
}
