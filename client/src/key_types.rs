//! The types of asymmetric keys, one row each: their names, their numbers in PKCS#11, and their
//! object identifiers in X.509. RSA has one identifier and any size, so it has no row.

use cryptoki_sys::*;

use crate::Attribute;
use crate::names::{CKK_JETON_COMPOSITE_ML_DSA, CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN};

/// DER of the object identifier of RSA keys for RSASSA-PSS only (RFC 4055, 1.2).
pub const RSA_PSS: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";
/// DER of the object identifier of RSA (RFC 8017, A.1).
pub const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
/// DER of the object identifier of keys on the curves of SEC 2 (RFC 5480, 2.1.1). Their parameter
/// in SubjectPublicKeyInfo is the identifier of the curve.
pub const EC: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";

/// DER of the object identifier of HSS and LMS (RFC 9708). It has no parameter: a key names its
/// parameter set itself.
pub const HSS: &[u8] = b"\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x03\x11";

/// A type of key.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyType {
    /// The name on the command line, for example `p256` or `slh-dsa-sha2-128s`.
    pub id: &'static str,
    /// The name in listings and in JSON Web Keys, for example `P-256`.
    pub name: &'static str,
    /// `CKA_KEY_TYPE`
    pub kind: CK_KEY_TYPE,
    /// DER of the object identifier of the curve, which is `CKA_EC_PARAMS`, or of the algorithm.
    pub oid: &'static [u8],
    /// `CKA_PARAMETER_SET`. `None` for curves.
    pub set: Option<CK_ULONG>,
}

/// `CKA_EC_PARAMS` of P-256.
pub const P256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
/// `CKA_EC_PARAMS` of P-384.
pub const P384: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x22";
/// `CKA_EC_PARAMS` of P-521.
pub const P521: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x23";
/// `CKA_EC_PARAMS` of secp256k1.
pub const SECP256K1: &[u8] = b"\x06\x05\x2b\x81\x04\x00\x0a";
/// `CKA_EC_PARAMS` of Ed25519.
pub const ED25519: &[u8] = b"\x06\x03\x2b\x65\x70";
/// `CKA_EC_PARAMS` of Ed448.
pub const ED448: &[u8] = b"\x06\x03\x2b\x65\x71";
/// `CKA_EC_PARAMS` of X25519.
pub const X25519: &[u8] = b"\x06\x03\x2b\x65\x6e";
/// `CKA_EC_PARAMS` of X448.
pub const X448: &[u8] = b"\x06\x03\x2b\x65\x6f";

/// A row of a parameter set. The last two bytes of its identifier are below
/// 2.16.840.1.101.3.4 (NIST).
macro_rules! set {
    ($id:literal, $name:literal, $kind:ident, $branch:literal, $number:literal, $set:ident) => {
        KeyType {
            id: $id,
            name: $name,
            kind: $kind,
            oid: &[0x06, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, $branch, $number],
            set: Some($set),
        }
    };
}

/// A row of composite ML-DSA. Its parameter set is the last number of its identifier, which begins
/// with 1.3.6.1.5.5.7.6.
macro_rules! composite {
    ($id:literal, $name:literal, $number:literal) => {
        KeyType {
            id: $id,
            name: $name,
            kind: CKK_JETON_COMPOSITE_ML_DSA,
            oid: &[0x06, 8, 0x2b, 6, 1, 5, 5, 7, 6, $number],
            set: Some($number),
        }
    };
}

/// All types. The parameter sets of each family are in the order of their numbers.
pub const ALL: [KeyType; 34] = [
    curve("p256", "P-256", CKK_EC, P256),
    curve("p384", "P-384", CKK_EC, P384),
    curve("p521", "P-521", CKK_EC, P521),
    curve("secp256k1", "secp256k1", CKK_EC, SECP256K1),
    curve("ed25519", "Ed25519", CKK_EC_EDWARDS, ED25519),
    curve("ed448", "Ed448", CKK_EC_EDWARDS, ED448),
    curve("x25519", "X25519", CKK_EC_MONTGOMERY, X25519),
    curve("x448", "X448", CKK_EC_MONTGOMERY, X448),
    set!("ml-dsa-44", "ML-DSA-44", CKK_ML_DSA, 3, 17, CKP_ML_DSA_44),
    set!("ml-dsa-65", "ML-DSA-65", CKK_ML_DSA, 3, 18, CKP_ML_DSA_65),
    set!("ml-dsa-87", "ML-DSA-87", CKK_ML_DSA, 3, 19, CKP_ML_DSA_87),
    composite!("mldsa44-ed25519", "MLDSA44-Ed25519", 39),
    composite!("mldsa44-ecdsa-p256", "MLDSA44-ECDSA-P256", 40),
    composite!("mldsa65-rsa3072-pss", "MLDSA65-RSA3072-PSS", 41),
    composite!("mldsa65-rsa3072-pkcs15", "MLDSA65-RSA3072-PKCS15", 42),
    composite!("mldsa65-ecdsa-p256", "MLDSA65-ECDSA-P256", 45),
    composite!("mldsa65-ecdsa-p384", "MLDSA65-ECDSA-P384", 46),
    composite!("mldsa65-ed25519", "MLDSA65-Ed25519", 48),
    composite!("mldsa87-ecdsa-p384", "MLDSA87-ECDSA-P384", 49),
    set!("ml-kem-512", "ML-KEM-512", CKK_ML_KEM, 4, 1, CKP_ML_KEM_512),
    set!("ml-kem-768", "ML-KEM-768", CKK_ML_KEM, 4, 2, CKP_ML_KEM_768),
    set!("ml-kem-1024", "ML-KEM-1024", CKK_ML_KEM, 4, 3, CKP_ML_KEM_1024),
    set!("slh-dsa-sha2-128s", "SLH-DSA-SHA2-128S", CKK_SLH_DSA, 3, 20, CKP_SLH_DSA_SHA2_128S),
    set!("slh-dsa-shake-128s", "SLH-DSA-SHAKE-128S", CKK_SLH_DSA, 3, 26, CKP_SLH_DSA_SHAKE_128S),
    set!("slh-dsa-sha2-128f", "SLH-DSA-SHA2-128F", CKK_SLH_DSA, 3, 21, CKP_SLH_DSA_SHA2_128F),
    set!("slh-dsa-shake-128f", "SLH-DSA-SHAKE-128F", CKK_SLH_DSA, 3, 27, CKP_SLH_DSA_SHAKE_128F),
    set!("slh-dsa-sha2-192s", "SLH-DSA-SHA2-192S", CKK_SLH_DSA, 3, 22, CKP_SLH_DSA_SHA2_192S),
    set!("slh-dsa-shake-192s", "SLH-DSA-SHAKE-192S", CKK_SLH_DSA, 3, 28, CKP_SLH_DSA_SHAKE_192S),
    set!("slh-dsa-sha2-192f", "SLH-DSA-SHA2-192F", CKK_SLH_DSA, 3, 23, CKP_SLH_DSA_SHA2_192F),
    set!("slh-dsa-shake-192f", "SLH-DSA-SHAKE-192F", CKK_SLH_DSA, 3, 29, CKP_SLH_DSA_SHAKE_192F),
    set!("slh-dsa-sha2-256s", "SLH-DSA-SHA2-256S", CKK_SLH_DSA, 3, 24, CKP_SLH_DSA_SHA2_256S),
    set!("slh-dsa-shake-256s", "SLH-DSA-SHAKE-256S", CKK_SLH_DSA, 3, 30, CKP_SLH_DSA_SHAKE_256S),
    set!("slh-dsa-sha2-256f", "SLH-DSA-SHA2-256F", CKK_SLH_DSA, 3, 25, CKP_SLH_DSA_SHA2_256F),
    set!("slh-dsa-shake-256f", "SLH-DSA-SHAKE-256F", CKK_SLH_DSA, 3, 31, CKP_SLH_DSA_SHAKE_256F),
];

/// Returns the type with this name on the command line.
pub fn named(id: &str) -> Option<&'static KeyType> {
    const { &ALL }.iter().find(|row| row.id == id)
}

/// Returns the type with this object identifier in DER: of a curve, or of an algorithm other than
/// RSA and [`EC`].
pub fn of_oid(oid: &[u8]) -> Option<&'static KeyType> {
    const { &ALL }.iter().find(|row| row.oid == oid)
}

/// Returns the type with this `CKA_KEY_TYPE` and `CKA_PARAMETER_SET`.
pub fn of_set(kind: CK_KEY_TYPE, set: CK_ULONG) -> Option<&'static KeyType> {
    const { &ALL }.iter().find(|row| row.kind == kind && row.set == Some(set))
}

impl KeyType {
    /// Returns `CKA_EC_PARAMS` or `CKA_PARAMETER_SET`.
    pub fn parameters(&self) -> Attribute {
        match self.set {
            Some(set) => Attribute::number(CKA_PARAMETER_SET, set),
            None => Attribute::bytes(CKA_EC_PARAMS, self.oid),
        }
    }

    /// Returns the mechanism that generates a key pair.
    pub const fn generation(&self) -> CK_MECHANISM_TYPE {
        match self.kind {
            CKK_EC => CKM_EC_KEY_PAIR_GEN,
            CKK_EC_EDWARDS => CKM_EC_EDWARDS_KEY_PAIR_GEN,
            CKK_EC_MONTGOMERY => CKM_EC_MONTGOMERY_KEY_PAIR_GEN,
            CKK_ML_DSA => CKM_ML_DSA_KEY_PAIR_GEN,
            CKK_JETON_COMPOSITE_ML_DSA => CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN,
            CKK_ML_KEM => CKM_ML_KEM_KEY_PAIR_GEN,
            _ => CKM_SLH_DSA_KEY_PAIR_GEN,
        }
    }
}

const fn curve(id: &'static str, name: &'static str, kind: CK_KEY_TYPE, oid: &'static [u8]) -> KeyType {
    KeyType { id, name, kind, oid, set: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name_its_identifier_and_its_parameter_set() {
        for row in &ALL {
            assert_eq!((named(row.id), of_oid(row.oid)), (Some(row), Some(row)));
            assert!(row.set.is_none_or(|set| of_set(row.kind, set) == Some(row)), "{}", row.name);
            assert_eq!(row.oid.len(), usize::from(row.oid[1]) + 2, "{}", row.name);
        }
        assert_eq!(of_set(CKK_SLH_DSA, 12).map(|row| row.name), Some("SLH-DSA-SHAKE-256F"));
    }
}
