//! The curves that `CKA_EC_PARAMS` can name.

use super::MechanismRow;
use crate::backend::Curve;
use crate::id::KeyType;

/// A curve with its identifiers.
pub struct NamedCurve {
    /// The group of its points.
    pub group: Group,
    /// The type of its keys.
    pub key_type: KeyType,
    /// The DER encoding of its object identifier. The token returns this form.
    pub oid: &'static [u8],
    /// The name as a printable string (PKCS#11 3.2, "Elliptic curve": `curveName`).
    pub name: &'static str,
}

impl NamedCurve {
    /// Returns whether the mechanism uses or generates keys on this curve.
    pub(crate) fn is_used_by(&self, mechanism: &MechanismRow) -> bool {
        mechanism.accepts(Some(self.key_type), false)
    }
}

/// The group that contains the points of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standards'")]
pub enum Group {
    Ec(Curve),
    Ed25519,
    Ed448,
    X25519,
    X448,
}

impl Group {
    /// Returns the length of a public key: an uncompressed point, or the encoding of RFC 8032 or
    /// RFC 7748. In these two a private key has the same length.
    pub const fn point_len(self) -> usize {
        match self {
            Self::Ec(curve) => 2 * curve.len() + 1,
            Self::Ed25519 | Self::X25519 => 32,
            Self::Ed448 => 57,
            Self::X448 => 56,
        }
    }

    /// Returns the size of its keys in bits, in the unit of `CK_MECHANISM_INFO`: the order of a
    /// curve of ECDSA, the field of an Edwards or Montgomery curve.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Ec(curve) => curve.bits() as u64,
            Self::Ed25519 | Self::X25519 => 255,
            Self::Ed448 | Self::X448 => 448,
        }
    }

    /// Returns the size by which the configuration compares the strengths of curves. The 255 bits
    /// of Curve25519 count as 256: SP 800-57 rates both at 128 bits of security.
    pub const fn rated_bits(self) -> u64 {
        match self {
            Self::Ed25519 | Self::X25519 => 256,
            _ => self.bits(),
        }
    }
}

/// All supported curves.
pub const NAMED_CURVES: &[NamedCurve] = &[
    named(Group::Ec(Curve::P224), KeyType::EC, &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x21], "secp224r1"),
    named(
        Group::Ec(Curve::P256),
        KeyType::EC,
        &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        "secp256r1",
    ),
    named(Group::Ec(Curve::P384), KeyType::EC, &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22], "secp384r1"),
    named(Group::Ec(Curve::P521), KeyType::EC, &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23], "secp521r1"),
    named(Group::Ec(Curve::Secp256k1), KeyType::EC, &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x0a], "secp256k1"),
    named(Group::Ec(Curve::BrainpoolP256r1), KeyType::EC, &brainpool(7), "brainpoolP256r1"),
    named(Group::Ec(Curve::BrainpoolP256t1), KeyType::EC, &brainpool(8), "brainpoolP256t1"),
    named(Group::Ec(Curve::BrainpoolP384r1), KeyType::EC, &brainpool(11), "brainpoolP384r1"),
    named(Group::Ec(Curve::BrainpoolP384t1), KeyType::EC, &brainpool(12), "brainpoolP384t1"),
    named(Group::Ed25519, KeyType::EC_EDWARDS, &[0x06, 0x03, 0x2b, 0x65, 0x70], "edwards25519"),
    named(Group::Ed448, KeyType::EC_EDWARDS, &[0x06, 0x03, 0x2b, 0x65, 0x71], "edwards448"),
    named(Group::X25519, KeyType::EC_MONTGOMERY, &[0x06, 0x03, 0x2b, 0x65, 0x6e], "curve25519"),
    named(Group::X448, KeyType::EC_MONTGOMERY, &[0x06, 0x03, 0x2b, 0x65, 0x6f], "curve448"),
];

/// Returns the DER encoding of `1.3.36.3.3.2.8.1.1.NUMBER`, the object identifier of a curve
/// (RFC 5639, 4.1).
const fn brainpool(number: u8) -> [u8; 11] {
    [0x06, 0x09, 0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, number]
}

/// Returns the curve of a group.
pub fn named_group(group: Group) -> Option<&'static NamedCurve> {
    NAMED_CURVES.iter().find(|curve| curve.group == group)
}

const fn named(group: Group, key_type: KeyType, oid: &'static [u8], name: &'static str) -> NamedCurve {
    NamedCurve { group, key_type, oid, name }
}
