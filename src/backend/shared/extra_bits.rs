//! Key pairs on elliptic curves from extra random bits (FIPS 186-5, A.2.1). The private scalar is a
//! random number that is 64 bits longer than the order, modulo the order minus 1, plus 1.
//!
//! The libraries draw numbers until one is below the order (A.2.2). So this file computes the
//! scalar for all of them, and a library computes the public key.

use jeton_secret::Secret;
use subtle::{Choice, ConditionallySelectable};

use crate::backend::api::{Curve, PairSpec, PrivateParts, Provider, PublicParts};
use crate::error::{Error, Result};

const EXTRA: usize = 8;

/// Generates a pair. Fails with `MechanismInvalid` if `spec` is not one of [`PairSpec::Ec`].
pub(crate) fn generate(spec: &PairSpec<'_>, provider: &Provider) -> Result<(PublicParts, PrivateParts)> {
    let PairSpec::Ec(curve) = *spec else { return Err(Error::MechanismInvalid) };
    let scalar = scalar(curve, &provider.random.secret(curve.len() + EXTRA)?);
    let parts = PrivateParts::Ec { curve, scalar };
    Ok((provider.keys.private(&parts)?.public()?, parts))
}

fn scalar(curve: Curve, random: &[u8]) -> Secret {
    let mut modulus = curve.order().to_vec();
    // The order is odd.
    modulus[curve.len() - 1] -= 1;
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

    /// Returns the order plus a small number.
    fn near_order(curve: Curve, difference: i16) -> Vec<u8> {
        let mut bytes = curve.order().to_vec();
        let mut carry = i32::from(difference);
        for byte in bytes.iter_mut().rev() {
            carry += i32::from(*byte);
            *byte = carry as u8;
            carry >>= 8;
        }
        bytes
    }

    /// Random bytes with this number, and the scalar that they lead to.
    #[test]
    fn a_scalar_is_from_1_to_the_order_minus_1() {
        for curve in Curve::ALL {
            let of = |number: &[u8]| {
                let random = [&vec![0; curve.len() + EXTRA - number.len()][..], number].concat();
                scalar(curve, &random)
            };
            let small = |number: u8| [&vec![0; curve.len() - 1][..], &[number]].concat();
            for (number, expected) in [
                (vec![0], small(1)),
                (vec![41], small(42)),
                (near_order(curve, -2), near_order(curve, -1)),
                (near_order(curve, -1), small(1)),
                (near_order(curve, 0), small(2)),
                (near_order(curve, 7), small(9)),
            ] {
                assert_eq!(of(&number)[..], expected, "{curve:?}");
            }
        }
    }

    /// `(2**320 - 1) % (n - 1) + 1` in Python, with the order n of P-256, and likewise for P-521
    /// with 592 bits.
    #[test]
    fn the_longest_numbers_match_known_scalars() {
        for (curve, known) in [
            (Curve::P256, "fffffffe00000001431905529c0166cd22159165b6faae71f756a572fc632550"),
            (
                Curve::P521,
                "00000000000000000000000000000000000000000000000002d73cbc3e206834ca\
                 4019ff5b847b2d17e2251b23bb31dc28a2482470b763cdfc000000000000000000",
            ),
        ] {
            let scalar = scalar(curve, &vec![0xff; curve.len() + EXTRA]);
            let digits: String = scalar.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digits, known);
        }
    }

    /// Each order of the table is that of the libraries: the order minus 1 is a private key, and
    /// the order is not.
    #[test]
    fn a_library_accepts_the_largest_scalar_and_not_the_order() {
        for provider in Provider::ALL {
            for curve in Curve::ALL {
                let parts =
                    |difference| PrivateParts::Ec { curve, scalar: near_order(curve, difference)[..].into() };
                match provider.keys.private(&parts(-1)) {
                    // AWS-LC alone has no brainpool curves.
                    Err(Error::MechanismInvalid) => continue,
                    made => assert!(made.is_ok_and(|key| key.public().is_ok()), "{curve:?}"),
                }
                assert!(provider.keys.private(&parts(0)).is_err(), "{curve:?}");
            }
        }
    }
}
