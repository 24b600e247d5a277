//! ECDSA and EdDSA (PKCS#11 3.2, "Elliptic Curve").

use super::{Action, Mechanism, NamedCurve, Primitive, Shape};
use crate::backend::{Curve, Hash};
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{
    EC_CURVENAME, EC_F_P, EC_OID, EC_UNCOMPRESS, GENERATE_KEY_PAIR, SIGN, VERIFY,
};
use crate::id::{KeyType, MechanismType};

/// Sizes of a curve's order in bits.
const BITS: (u64, u64) = (256, 521);
/// Ed25519 (PKCS#11 3.2, "EC mechanism key sizes": the field's bits).
const EDWARDS_BITS: (u64, u64) = (255, 255);

pub(super) const ROWS: &[Mechanism] = &[
    Mechanism {
        id: M::EC_KEY_PAIR_GEN,
        flags: GENERATE_KEY_PAIR | EC_F_P | EC_OID | EC_CURVENAME | EC_UNCOMPRESS,
        sizes: BITS,
        key_type: Some(KeyType::EC),
        shape: Shape::None,
        action: Action::GeneratePair,
    },
    ecdsa(M::ECDSA, None),
    ecdsa(M::ECDSA_SHA1, Some(Hash::Sha1)),
    ecdsa(M::ECDSA_SHA224, Some(Hash::Sha224)),
    ecdsa(M::ECDSA_SHA256, Some(Hash::Sha256)),
    ecdsa(M::ECDSA_SHA384, Some(Hash::Sha384)),
    ecdsa(M::ECDSA_SHA512, Some(Hash::Sha512)),
    Mechanism {
        id: M::EC_EDWARDS_KEY_PAIR_GEN,
        flags: GENERATE_KEY_PAIR | EC_F_P | EC_OID | EC_CURVENAME,
        sizes: EDWARDS_BITS,
        key_type: Some(KeyType::EC_EDWARDS),
        shape: Shape::None,
        action: Action::GeneratePair,
    },
    Mechanism {
        id: M::EDDSA,
        flags: SIGN | VERIFY | EC_F_P | EC_OID | EC_CURVENAME,
        sizes: EDWARDS_BITS,
        key_type: Some(KeyType::EC_EDWARDS),
        shape: Shape::Eddsa,
        action: Action::Sign(Primitive::Eddsa, None),
    },
];

const fn ecdsa(id: MechanismType, hash: Option<Hash>) -> Mechanism {
    Mechanism {
        id,
        flags: SIGN | VERIFY | EC_F_P | EC_OID | EC_CURVENAME | EC_UNCOMPRESS,
        sizes: BITS,
        key_type: Some(KeyType::EC),
        shape: Shape::None,
        action: Action::Sign(Primitive::Ecdsa, hash),
    }
}

/// The curves that `CKA_EC_PARAMS` may name.
pub const NAMED_CURVES: &[NamedCurve] = &[
    NamedCurve {
        curve: Some(Curve::P256),
        oid: &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        name: "secp256r1",
    },
    NamedCurve {
        curve: Some(Curve::P384),
        oid: &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22],
        name: "secp384r1",
    },
    NamedCurve {
        curve: Some(Curve::P521),
        oid: &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23],
        name: "secp521r1",
    },
    NamedCurve { curve: None, oid: &[0x06, 0x03, 0x2b, 0x65, 0x70], name: "edwards25519" },
];
