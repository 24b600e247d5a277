//! The curves of the vectors.

/// A curve.
#[derive(Debug, PartialEq, Eq)]
pub struct Curve {
    /// The name in the vectors.
    pub name: &'static str,
    /// The object identifier in DER.
    pub oid: &'static [u8],
    /// The length of a scalar and of a coordinate in bytes.
    pub len: usize,
}

/// SEC 2 and RFC 5639, 4.1; the last four have their identifiers from RFC 8410.
const CURVES: [Curve; 14] = [
    curve("secp224r1", &[6, 5, 0x2b, 0x81, 4, 0, 33], 28),
    curve("secp256r1", &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7], 32),
    curve("secp384r1", &[6, 5, 0x2b, 0x81, 4, 0, 34], 48),
    curve("secp521r1", &[6, 5, 0x2b, 0x81, 4, 0, 35], 66),
    curve("secp256k1", &[6, 5, 0x2b, 0x81, 4, 0, 10], 32),
    curve("brainpoolP224r1", &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 5], 28),
    curve("brainpoolP256r1", &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 7], 32),
    curve("brainpoolP320r1", &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 9], 40),
    curve("brainpoolP384r1", &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 11], 48),
    curve("brainpoolP512r1", &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 13], 64),
    curve("curve25519", &[6, 3, 0x2b, 0x65, 0x6e], 32),
    curve("curve448", &[6, 3, 0x2b, 0x65, 0x6f], 56),
    curve("edwards25519", &[6, 3, 0x2b, 0x65, 0x70], 32),
    curve("edwards448", &[6, 3, 0x2b, 0x65, 0x71], 57),
];

const fn curve(name: &'static str, oid: &'static [u8], len: usize) -> Curve {
    Curve { name, oid, len }
}

impl Curve {
    /// Returns the curve with this name in the vectors.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        const { &CURVES }.iter().find(|curve| curve.name == name)
    }

    /// Returns whether PKCS#11 has keys of the type `CKK_EC` on this curve.
    pub fn is_weierstrass(&self) -> bool {
        !self.name.starts_with("curve") && !self.name.starts_with("edwards")
    }
}
