//! Private scalars of elliptic curves from extra random bits (FIPS 186-5, A.2.1): a random number
//! that is 64 bits longer than the order, modulo the order minus 1, plus 1.
//!
//! The libraries draw numbers until one is below the order (A.2.2).

use jeton_secret::Secret;
use subtle::{Choice, ConditionallySelectable};

/// The number of bytes that the random number has more than the order.
pub const EXTRA: usize = 8;

/// Returns the scalar of a random number, for a curve of this order, which is odd. It has the
/// length of the order.
pub fn scalar(order: &[u8], random: &[u8]) -> Secret {
    let mut modulus = order.to_vec();
    if let Some(last) = modulus.last_mut() {
        *last -= 1;
    }
    let mut scalar = reduced(random, &modulus);
    let mut carry = 1;
    for byte in scalar.iter_mut().rev() {
        let sum = u16::from(*byte) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    scalar
}

/// Returns a number modulo another, with the length of the modulus. The time depends only on the
/// lengths.
fn reduced(number: &[u8], modulus: &[u8]) -> Secret {
    let mut remainder = Secret::zeroed(modulus.len());
    let mut difference = Secret::zeroed(modulus.len());
    for byte in number {
        for bit in (0..8).rev() {
            let high = shift_in(&mut remainder, byte >> bit & 1);
            let borrow = subtract(&remainder, modulus, &mut difference);
            // The doubled remainder is at least the modulus: it has a bit more, or no borrow.
            let subtracted = Choice::from(high | (1 - borrow));
            for (byte, other) in remainder.iter_mut().zip(&difference[..]) {
                byte.conditional_assign(other, subtracted);
            }
        }
    }
    remainder
}

/// Doubles a number and adds a bit. Returns the bit that no longer fits.
fn shift_in(number: &mut [u8], bit: u8) -> u8 {
    number.iter_mut().rev().fold(bit, |carry, byte| {
        let high = *byte >> 7;
        *byte = *byte << 1 | carry;
        high
    })
}

/// Subtracts `right` from `left`, which has the same length. Returns 1 if `right` is larger.
fn subtract(left: &[u8], right: &[u8], out: &mut [u8]) -> u8 {
    let bytes = left.iter().zip(right).zip(out).rev();
    bytes.fold(0, |borrow, ((left, right), out)| {
        let difference = u16::from(*left).wrapping_sub(u16::from(*right)).wrapping_sub(borrow.into());
        *out = difference as u8;
        (difference >> 15) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(2**320 - 1) % (n - 1) + 1` in Python, with the order n of P-256.
    #[test]
    fn the_longest_number_matches_a_known_scalar() {
        let hex = jeton_vectors::hex;
        let order = hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
        let scalar = scalar(&order, &[0xff; 32 + EXTRA]);
        assert_eq!(scalar[..], hex("fffffffe00000001431905529c0166cd22159165b6faae71f756a572fc632550"));
    }
}
