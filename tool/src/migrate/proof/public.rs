//! Finds the public keys of an old store.

use cryptoki_sys::*;
use der::asn1::{OctetStringRef, UintRef};
use der::{Decode, Encode};
use jeton_migrate::Object;
use spki::SubjectPublicKeyInfoRef;

use crate::client::{Attribute, key_types};
use crate::migrate::plan::{NSS_DB, Plan};
use crate::object::PUBLIC_PARTS;

pub(in crate::migrate) struct PublicKey {
    /// `CKK_…`
    kind: CK_KEY_TYPE,
    /// The template of a public key, without usages.
    pub(super) parts: Vec<Attribute>,
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
    pub(in crate::migrate) fn of(&self, private: &Object) -> Vec<PublicKey> {
        let name = |object: &Object| match object.bytes(CKA_ID) {
            [] => object.bytes(CKA_LABEL).to_vec(),
            id => id.to_vec(),
        };
        let (wanted, kind) = (name(private), private.number(CKA_KEY_TYPE));
        let named = self.0.iter().filter(|object| name(object) == wanted);
        let mut keys: Vec<_> = named.filter_map(|object| PublicKey::of(object)).collect();
        keys.extend(PublicKey::beside(private));
        let fits = |key: &PublicKey| {
            // SoftHSMv2 has one key type for Edwards and Montgomery curves. Plan::of splits it.
            Some(key.kind) == kind || kind == Some(CKK_EC_EDWARDS) && key.kind == CKK_EC_MONTGOMERY
        };
        let of_modulus = |key: &PublicKey| {
            key.kind != CKK_RSA
                || key.get(CKA_MODULUS).map(significant) == Some(significant(private.bytes(CKA_MODULUS)))
        };
        keys.retain(|key| fits(key) && of_modulus(key));
        keys
    }
}

impl PublicKey {
    fn of(object: &Object) -> Option<Self> {
        if object.number(CKA_CLASS) == Some(CKO_CERTIFICATE) {
            let certificate = x509_cert::Certificate::from_der(object.bytes(CKA_VALUE)).ok()?;
            let info = certificate.tbs_certificate.subject_public_key_info.to_der().ok()?;
            return Self::of_info(&info);
        }
        let plan = Plan::of(object).ok()?;
        let is_part = |one: &&Attribute| PUBLIC_PARTS.contains(&one.kind);
        let parts = plan.template.iter().filter(is_part).cloned().collect();
        Some(Self::new(plan.number(CKA_KEY_TYPE)?, parts))
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
        Some(Self::new(kind, parts))
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
        Some(Self::new(kind, parts))
    }

    fn new(kind: CK_KEY_TYPE, mut parts: Vec<Attribute>) -> Self {
        parts.extend([Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY), Attribute::number(CKA_KEY_TYPE, kind)]);
        Self { kind, parts }
    }

    fn get(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
        self.parts.iter().find(|one| one.kind == kind).map(|one| one.value.as_slice())
    }
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

/// Returns a big integer without leading zeros.
fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}
