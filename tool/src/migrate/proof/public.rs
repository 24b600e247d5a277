//! Finds the public keys of an old store. Verifies signatures and encapsulates secrets with AWS-LC,
//! called directly.

use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use aws_lc_rs::kem::{EncapsulationKey, ML_KEM_512, ML_KEM_768, ML_KEM_1024};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256K1_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED,
    ED25519, ML_DSA_44, ML_DSA_65, ML_DSA_87, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use cryptoki_sys::*;
use der::asn1::{OctetStringRef, UintRef};
use der::{Decode, Encode};
use jeton_migrate::Object;
use spki::SubjectPublicKeyInfoRef;

use crate::client::Attribute;
use crate::client::key_types::{self, P256, P384, P521, SECP256K1};
use crate::migrate::plan::{NSS_DB, Plan};

/// A public key that may belong to a private key.
pub(in crate::migrate) struct PublicKey<'a> {
    /// `CKK_…`
    pub(super) kind: CK_KEY_TYPE,
    /// The template of a public key, without usages.
    pub(super) parts: Vec<Attribute>,
    /// The public key object that it was read from; `None` if it was read from a certificate or a
    /// private key.
    pub(super) object: Option<&'a Object>,
}

pub(in crate::migrate) struct PublicKeys<'a>(Vec<&'a Object>);

impl<'a> PublicKeys<'a> {
    pub(in crate::migrate) fn in_store(objects: &'a [Object]) -> Self {
        let public =
            |object: &&Object| matches!(object.number(CKA_CLASS), Some(CKO_PUBLIC_KEY | CKO_CERTIFICATE));
        Self(objects.iter().filter(public).collect())
    }

    /// Returns the public keys of the right type that may belong to a private key. They come from
    /// public key objects and certificates with the same ID, or with the same label if the private
    /// key has no ID. The last one comes from the private key, if it contains its public key.
    pub(in crate::migrate) fn of(&self, private: &Object) -> Vec<PublicKey<'a>> {
        let name = |object: &Object| match object.bytes(CKA_ID) {
            [] => object.bytes(CKA_LABEL).to_vec(),
            id => id.to_vec(),
        };
        let (wanted, kind) = (name(private), private.number(CKA_KEY_TYPE));
        let named = self.0.iter().filter(|object| name(object) == wanted);
        let mut keys: Vec<_> = named.filter_map(|object| PublicKey::of(object)).collect();
        keys.extend(PublicKey::beside(private));
        let fits = |key: &PublicKey<'_>| {
            // SoftHSMv2 has one key type for Edwards and Montgomery curves. Plan::of splits it.
            Some(key.kind) == kind || kind == Some(CKK_EC_EDWARDS) && key.kind == CKK_EC_MONTGOMERY
        };
        let of_modulus = |key: &PublicKey<'_>| {
            key.kind != CKK_RSA
                || key.get(CKA_MODULUS).map(significant) == Some(significant(private.bytes(CKA_MODULUS)))
        };
        keys.retain(|key| fits(key) && of_modulus(key));
        // Public keys first: they have an object in the old module.
        keys.sort_by_key(|key| key.object.is_none());
        keys
    }
}

impl<'a> PublicKey<'a> {
    fn of(object: &'a Object) -> Option<Self> {
        if object.number(CKA_CLASS) == Some(CKO_CERTIFICATE) {
            let certificate = x509_cert::Certificate::from_der(object.bytes(CKA_VALUE)).ok()?;
            let info = certificate.tbs_certificate.subject_public_key_info.to_der().ok()?;
            return Self::of_info(&info);
        }
        let plan = Plan::of(object).ok()?;
        const PARTS: [CK_ATTRIBUTE_TYPE; 9] = [
            CKA_MODULUS,
            CKA_PUBLIC_EXPONENT,
            CKA_EC_PARAMS,
            CKA_EC_POINT,
            CKA_PARAMETER_SET,
            CKA_VALUE,
            CKA_PRIME,
            CKA_SUBPRIME,
            CKA_BASE,
        ];
        let parts = plan.template.iter().filter(|one| PARTS.contains(&one.kind)).cloned().collect();
        Some(Self::new(plan.number(CKA_KEY_TYPE)?, parts, Some(object)))
    }

    /// Returns the public key that a private key contains itself.
    fn beside(private: &Object) -> Option<Self> {
        let bytes = |kind| Attribute::bytes(kind, private.bytes(kind).to_vec());
        let kind = private.number(CKA_KEY_TYPE)?;
        let parts = match kind {
            CKK_RSA if !private.bytes(CKA_PUBLIC_EXPONENT).is_empty() => {
                vec![bytes(CKA_MODULUS), bytes(CKA_PUBLIC_EXPONENT)]
            }
            CKK_EC | CKK_EC_EDWARDS | CKK_EC_MONTGOMERY if !private.bytes(NSS_DB).is_empty() => {
                let point = private.bytes(NSS_DB);
                vec![bytes(CKA_EC_PARAMS), Attribute::bytes(CKA_EC_POINT, wrapped(point)?)]
            }
            CKK_ML_DSA | CKK_ML_KEM if !private.bytes(NSS_DB).is_empty() => {
                let set = private.number(CKA_PARAMETER_SET)?;
                let value = Attribute::bytes(CKA_VALUE, private.bytes(NSS_DB).to_vec());
                vec![Attribute::number(CKA_PARAMETER_SET, set), value]
            }
            _ => return None,
        };
        Some(Self::new(kind, parts, None))
    }

    fn of_info(info: &[u8]) -> Option<Self> {
        let info = SubjectPublicKeyInfoRef::from_der(info).ok()?;
        let bits = info.subject_public_key.as_bytes()?;
        let oid = info.algorithm.oid.to_der().ok()?;
        let (kind, parts) = match oid.as_slice() {
            key_types::RSA => (CKK_RSA, rsa(bits)?),
            key_types::EC => (CKK_EC, curve(info.algorithm.parameters?.to_der().ok()?, bits)?),
            key_types::ED25519 | key_types::ED448 => (CKK_EC_EDWARDS, curve(oid, bits)?),
            _ => return None,
        };
        Some(Self::new(kind, parts, None))
    }

    fn new(kind: CK_KEY_TYPE, mut parts: Vec<Attribute>, object: Option<&'a Object>) -> Self {
        parts.extend([Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY), Attribute::number(CKA_KEY_TYPE, kind)]);
        Self { kind, parts, object }
    }

    pub(super) fn get(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
        self.parts.iter().find(|one| one.kind == kind).map(|one| one.value.as_slice())
    }

    /// Returns the attribute that contains the public value.
    pub(super) fn value_kind(&self) -> CK_ATTRIBUTE_TYPE {
        if self.kind == CKK_DH { CKA_VALUE } else { CKA_EC_POINT }
    }

    /// Returns the public value for a derivation.
    pub(super) fn value(&self) -> &[u8] {
        self.get(self.value_kind()).unwrap_or_default()
    }

    /// Returns the mechanism and the template of a new public key with the same parameters.
    pub(super) fn partner(&self) -> (CK_MECHANISM_TYPE, Vec<Attribute>) {
        let mechanism = match self.kind {
            CKK_DH => CKM_DH_PKCS_KEY_PAIR_GEN,
            CKK_EC_MONTGOMERY => CKM_EC_MONTGOMERY_KEY_PAIR_GEN,
            _ => CKM_EC_KEY_PAIR_GEN,
        };
        let parameters = [CKA_EC_PARAMS, CKA_PRIME, CKA_BASE];
        let parts = self.parts.iter().filter(|one| parameters.contains(&one.kind)).cloned();
        (mechanism, parts.chain([Attribute::flag(CKA_TOKEN, false)]).collect())
    }

    fn parameter_set(&self) -> Option<CK_ULONG> {
        self.get(CKA_PARAMETER_SET)?.try_into().map(CK_ULONG::from_ne_bytes).ok()
    }

    /// Encapsulates a secret with AWS-LC: the ciphertext and the secret. `None` if this is not a
    /// valid key of ML-KEM.
    pub(super) fn encapsulate(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.kind != CKK_ML_KEM {
            return None;
        }
        let algorithm = match self.parameter_set()? {
            CKP_ML_KEM_512 => &ML_KEM_512,
            CKP_ML_KEM_768 => &ML_KEM_768,
            CKP_ML_KEM_1024 => &ML_KEM_1024,
            _ => return None,
        };
        let key = EncapsulationKey::new(algorithm, self.get(CKA_VALUE)?).ok()?;
        let (ciphertext, secret) = key.encapsulate().ok()?;
        Some((ciphertext.as_ref().to_vec(), secret.as_ref().to_vec()))
    }

    /// Verifies a signature with AWS-LC; `None` if AWS-LC does not support the key.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Option<bool> {
        let algorithm: &'static dyn VerificationAlgorithm = match self.kind {
            CKK_RSA => {
                let (n, e) =
                    (significant(self.get(CKA_MODULUS)?), significant(self.get(CKA_PUBLIC_EXPONENT)?));
                // The verifier takes keys of 1024 to 8192 bits.
                if !(128..=1024).contains(&n.len()) {
                    return None;
                }
                let key = RsaPublicKeyComponents { n, e };
                let parameters = &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY;
                return Some(key.verify(parameters, message, signature).is_ok());
            }
            CKK_EC => match self.get(CKA_EC_PARAMS)? {
                P256 => &ECDSA_P256_SHA256_FIXED,
                P384 => &ECDSA_P384_SHA384_FIXED,
                P521 => &ECDSA_P521_SHA512_FIXED,
                SECP256K1 => &ECDSA_P256K1_SHA256_FIXED,
                _ => return None,
            },
            CKK_EC_EDWARDS if unwrapped(self.get(CKA_EC_POINT)?).len() == 32 => &ED25519,
            CKK_ML_DSA => {
                let algorithm: &'static dyn VerificationAlgorithm = match self.parameter_set()? {
                    CKP_ML_DSA_44 => &ML_DSA_44,
                    CKP_ML_DSA_65 => &ML_DSA_65,
                    CKP_ML_DSA_87 => &ML_DSA_87,
                    _ => return None,
                };
                let key = UnparsedPublicKey::new(algorithm, self.get(CKA_VALUE)?);
                return Some(key.verify(message, signature).is_ok());
            }
            _ => return None,
        };
        let point = unwrapped(self.get(CKA_EC_POINT)?);
        Some(UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok())
    }
}

/// Returns the digest of a message by the hash that belongs to a curve.
pub(super) fn digest(parameters: &[u8], message: &[u8]) -> Vec<u8> {
    let algorithm = match parameters {
        P384 => &SHA384,
        P521 => &SHA512,
        _ => &SHA256,
    };
    digest::digest(algorithm, message).as_ref().to_vec()
}

fn rsa(bits: &[u8]) -> Option<Vec<Attribute>> {
    #[derive(der::Sequence)]
    struct RsaPublicKey<'a> {
        modulus: UintRef<'a>,
        exponent: UintRef<'a>,
    }
    let key = RsaPublicKey::from_der(bits).ok()?;
    Some(vec![
        Attribute::bytes(CKA_MODULUS, key.modulus.as_bytes()),
        Attribute::bytes(CKA_PUBLIC_EXPONENT, key.exponent.as_bytes()),
    ])
}

fn curve(parameters: Vec<u8>, point: &[u8]) -> Option<Vec<Attribute>> {
    Some(vec![Attribute::bytes(CKA_EC_PARAMS, parameters), Attribute::bytes(CKA_EC_POINT, wrapped(point)?)])
}

/// Returns a point as the DER of an octet string. A point that has this form is unchanged.
fn wrapped(point: &[u8]) -> Option<Vec<u8>> {
    if OctetStringRef::from_der(point).is_ok() {
        return Some(point.to_vec());
    }
    OctetStringRef::new(point).ok()?.to_der().ok()
}

/// Returns the point inside the DER of an octet string. A raw point is unchanged.
fn unwrapped(point: &[u8]) -> &[u8] {
    OctetStringRef::from_der(point).map_or(point, |inner| inner.as_bytes())
}

/// Returns a big integer without leading zeros.
fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}
