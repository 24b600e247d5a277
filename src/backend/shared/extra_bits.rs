//! Key pairs on elliptic curves from extra random bits (FIPS 186-5, A.2.1). Our own cryptography
//! computes the scalar, and a library the public key.

use jeton_crypto::extra_bits::{EXTRA, scalar};

use crate::backend::api::{PairSpec, PrivateParts, Provider, PublicParts};
use crate::error::{Error, Result};

/// Generates a pair. Fails with `MechanismInvalid` if `spec` is not one of [`PairSpec::Ec`].
pub(crate) fn generate(spec: &PairSpec<'_>, provider: &Provider) -> Result<(PublicParts, PrivateParts)> {
    let PairSpec::Ec(curve) = *spec else { return Err(Error::MechanismInvalid) };
    let scalar = scalar(curve.order(), &provider.random.secret(curve.len() + EXTRA)?);
    let parts = PrivateParts::Ec { curve, scalar };
    Ok((provider.keys.private(&parts)?.public()?, parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::api::Curve;

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
                scalar(curve.order(), &random)
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
            let scalar = scalar(curve.order(), &vec![0xff; curve.len() + EXTRA]);
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
