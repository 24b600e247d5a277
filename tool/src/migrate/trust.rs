//! Converts trust objects of NSS to trust objects of PKCS#11 3.2. NSS had trust objects before the
//! standard, under its own numbers (`pkcs11n.h`).

use cryptoki_sys::*;
use jeton_migrate::{Object, Value};

/// `CKO_NSS_TRUST`
pub(super) const CLASS: CK_OBJECT_CLASS = 0xce53_4353;

/// `CKA_CERT_SHA1_HASH` of NSS.
const SHA1_HASH: CK_ATTRIBUTE_TYPE = 0xce53_63b4;

/// The attribute of each use of a certificate: its number in NSS, and in PKCS#11.
const USES: [(CK_ATTRIBUTE_TYPE, CK_ATTRIBUTE_TYPE); 4] = [
    (0xce53_6358, CKA_TRUST_SERVER_AUTH),
    (0xce53_6359, CKA_TRUST_CLIENT_AUTH),
    (0xce53_635a, CKA_TRUST_CODE_SIGNING),
    (0xce53_635b, CKA_TRUST_EMAIL_PROTECTION),
];

/// The attributes that have the same number in NSS and in PKCS#11.
const SAME: [CK_ATTRIBUTE_TYPE; 6] =
    [CKA_TOKEN, CKA_PRIVATE, CKA_LABEL, CKA_MODIFIABLE, CKA_ISSUER, CKA_SERIAL_NUMBER];

/// Converts a trust object of NSS to one of PKCS#11.
pub(super) fn standard(object: &Object) -> Object {
    let mut attributes = object.attributes.clone();
    attributes.retain(|kind, _| SAME.contains(kind));
    attributes.insert(CKA_CLASS, Value::Number(CKO_TRUST));
    for (nss, standard) in USES {
        let trust = object.number(nss).map_or(CKT_TRUST_UNKNOWN, level);
        attributes.insert(standard, Value::Number(trust.into()));
    }
    let digest = object.bytes(SHA1_HASH);
    if !digest.is_empty() {
        attributes.insert(CKA_HASH_OF_CERTIFICATE, Value::Bytes(digest.to_vec().into()));
        attributes.insert(CKA_NAME_HASH_ALGORITHM, Value::Number(CKM_SHA_1));
    }
    Object { name: object.name.clone(), attributes }
}

fn level(nss: u64) -> u32 {
    match nss {
        0xce53_4351 => CKT_TRUSTED,
        // CKT_NSS_TRUSTED_DELEGATOR: a CA whose certificates are trusted.
        0xce53_4352 => CKT_TRUST_ANCHOR,
        // CKT_NSS_MUST_VERIFY_TRUST, CKT_NSS_VALID_DELEGATOR.
        0xce53_4353 | 0xce53_435b => CKT_TRUST_MUST_VERIFY_TRUST,
        0xce53_435a => CKT_NOT_TRUSTED,
        _ => CKT_TRUST_UNKNOWN,
    }
}
