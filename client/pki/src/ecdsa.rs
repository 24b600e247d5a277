//! ECDSA signatures: PKCS#11 returns r and s, and X.509 has them in DER.

use der::asn1::UintRef;
use der::{Decode, Encode, Sequence};

/// Ecdsa-Sig-Value of RFC 3279.
#[derive(Sequence)]
struct EcdsaSignature<'a> {
    r: UintRef<'a>,
    s: UintRef<'a>,
}

/// Converts r and s, which PKCS#11 concatenates, to the X.509 form.
pub fn to_der(fixed: &[u8]) -> der::Result<Vec<u8>> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    EcdsaSignature { r: UintRef::new(r)?, s: UintRef::new(s)? }.to_der()
}

/// Converts a signature back to r and s, which together have `length` bytes. Returns `None` if it
/// is malformed.
pub fn from_der(der: &[u8], length: usize) -> Option<Vec<u8>> {
    let signature = EcdsaSignature::from_der(der).ok()?;
    let mut fixed = vec![0; length];
    let (first, second) = fixed.split_at_mut(length / 2);
    for (part, number) in [(first, signature.r.as_bytes()), (second, signature.s.as_bytes())] {
        let start = part.len().checked_sub(number.len())?;
        part[start..].copy_from_slice(number);
    }
    Some(fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ecdsa_signature_with_short_and_high_numbers_converts_both_ways() {
        let mut fixed = [0; 64];
        fixed[30..32].copy_from_slice(&[0x80, 1]);
        fixed[32..].fill(0xFF);
        let der = to_der(&fixed).expect("64 bytes encode");
        assert_eq!(from_der(&der, 64), Some(fixed.to_vec()));
    }

    #[test]
    fn an_invalid_p256_signature_is_not_converted() {
        let wide = [0xFF; 96];
        let der = to_der(&wide).expect("96 bytes encode");
        assert_eq!(from_der(&der, 64), None);
        assert_eq!(from_der(&der, 96), Some(wide.to_vec()));
        assert_eq!(from_der(b"\x30\x00", 64), None);
    }
}
