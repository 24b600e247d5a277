//! Validation of public keys that a caller supplies: which keys are refused because their private
//! key is no secret, or because there is none (SP 800-89, 5.3.3; SP 800-186, D.1; CA/Browser Forum,
//! Baseline Requirements, 6.1.1.3 and 6.1.6).
//!
//! It computes with public numbers only.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use jeton_secret::Secret;
use num_bigint::BigUint;

use crate::backend::{Curve, PrivateParts, Provider, PublicParts};
use crate::error::Error;

/// Why a public key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The backend refuses it: a size, or a point that is not on its curve.
    Malformed(Error),
    /// Everyone can make signatures that fit the point, or knows the secret that it gives.
    SmallOrder,
    /// The point is the sum of another key and a point of small order: both have one private key.
    Subgroup,
    /// The public exponent is even or 1.
    Exponent,
    /// The modulus has a prime factor below 752.
    SmallFactor,
    /// The modulus is a prime.
    Prime,
    /// The modulus is a power of another number.
    Power,
    /// A hundred steps of Fermat's method factor the modulus, also for primes with a ratio of small
    /// numbers.
    ClosePrimes,
    /// The modulus has a prime factor below `LOW`.
    LowFactor,
    /// Pollard's p - 1 method finds a factor: the prime minus 1 has prime powers up to `SMOOTH`
    /// only.
    SmoothFactor,
    /// The private key is a small number, or its negative.
    SmallScalar,
    /// The modulus has the form of CVE-2017-15361 (ROCA), whose factors can be computed.
    Roca,
    /// The vector of ML-DSA is so short that everyone can make signatures.
    ShortVector,
}

impl Flaw {
    /// Returns whether the key itself is wrong: it is not only one that this build does not know.
    pub fn is_certain(self) -> bool {
        !matches!(
            self,
            Self::Malformed(
                Error::KeySizeRange
                    | Error::CurveNotSupported
                    | Error::MechanismInvalid
                    | Error::KeyTypeInconsistent
            )
        )
    }
}

impl Display for Flaw {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Malformed(Error::KeySizeRange) => "a size that is not supported",
            Self::Malformed(Error::CurveNotSupported | Error::MechanismInvalid) => {
                "a type that is not supported"
            }
            Self::Malformed(_) => "it is not a key of its type",
            Self::SmallOrder => "a point of small order, whose private key everyone knows",
            Self::Subgroup => "a point outside the subgroup, which has the private key of another point",
            Self::Exponent => "an RSA exponent that is even or 1",
            Self::SmallFactor => "an RSA modulus with a factor below 752",
            Self::Prime => "an RSA modulus that is a prime",
            Self::Power => "an RSA modulus that is a power of another number",
            Self::ClosePrimes => {
                "an RSA modulus whose primes are close to each other, or have a ratio of small numbers"
            }
            Self::LowFactor => "an RSA modulus with a factor below 2^20",
            Self::SmoothFactor => "an RSA modulus with a prime p for which p - 1 has small factors only",
            Self::SmallScalar => "a point whose private key is a small number",
            Self::Roca => "an RSA modulus that can be factored (ROCA, CVE-2017-15361)",
            Self::ShortVector => "an ML-DSA key with a short vector t1: everyone can make its signatures",
        })
    }
}

/// Prime factors below this number are refused (Baseline Requirements, 6.1.6).
const SMALL: u32 = 752;
/// Also refused before a certificate is made: trial division finds them in milliseconds.
const LOW: usize = 1 << 20;
/// The bound of Pollard's p - 1 method. A prime of 1024 bits whose p - 1 is so smooth does not come
/// about by chance.
const SMOOTH: usize = 1 << 12;
/// The steps of Fermat's method (Baseline Requirements, 6.1.1.3).
const STEPS: u32 = 100;
/// The largest product of the two numbers of a ratio. Primes of equal size have a ratio below 2.
const RATIO: u32 = 12;
/// Multiples of the base point, of both signs, are found up to 128 * 513 + 256, so up to 2^16.
const NEAR: u32 = 256;
const FAR: u32 = 128;
/// In a modulus of ROCA, the remainder of each prime up to this one is a power of 65537 (Nemec, Sys
/// et al., 2017).
const ROCA_PRIMES: u32 = 167;
/// The orders of the base points of Ed25519 and Ed448 (RFC 8032, 5.1 and 5.2).
const ORDER_25519: &[u8] = b"1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed";
const ORDER_448: &[u8] = b"3fffffffffffffffffffffffffffffffffffffffffffffffffffffff7cca23e9c44edb49aed63690216cc2728dc58f552378c292ab5844f3";

/// Checks a public key of a stranger as far as a division does: each import pays for it.
pub(crate) fn check(parts: &PublicParts, provider: &Provider) -> Result<(), Flaw> {
    provider.keys.public(parts).map_err(Flaw::Malformed)?;
    check_order(parts)?;
    check_subgroup(parts.traditional())?;
    let PublicParts::Rsa { n, e } = parts.traditional() else { return Ok(()) };
    let (n, e) = (BigUint::from_bytes_be(n), BigUint::from_bytes_be(e));
    let flaws: [(Flaw, &dyn Fn() -> bool); 3] = [
        (Flaw::Exponent, &|| !e.bit(0) || e <= BigUint::from(1_u32)),
        (Flaw::SmallFactor, &|| primes(2..SMALL).any(|prime| remainder(&n, prime) == 0)),
        (Flaw::Roca, &|| primes(3..ROCA_PRIMES + 1).all(|prime| is_power_of_65537(&n, prime))),
    ];
    flaws.iter().find(|(_, is_there)| is_there()).map_or(Ok(()), |(flaw, _)| Err(*flaw))
}

/// Also looks for what takes as long as a signature or longer, before a certificate is made, and
/// for a short vector of ML-DSA. FIPS 204 allows one, and Wycheproof has valid signatures with it.
pub(crate) fn check_whole(parts: &PublicParts, provider: &Provider) -> Result<(), Flaw> {
    check(parts, provider)?;
    if let PublicParts::MlDsa { key, .. } | PublicParts::Composite { ml_dsa: key, .. } = parts {
        check_vector(key)?;
    }
    match parts.traditional() {
        PublicParts::Rsa { n, .. } => check_rsa(n, provider),
        PublicParts::Ec { curve, point } => check_scalar(*curve, point, provider),
        _ => Ok(()),
    }
}

/// Returns whether two RSA moduli have a common factor: it factors both.
pub(crate) fn have_common_factor(one: &[u8], other: &[u8]) -> bool {
    let common = common_divisor(BigUint::from_bytes_be(one), BigUint::from_bytes_be(other));
    common != BigUint::from(1_u32)
}

/// Returns whether the private key of one of two points of secp256k1 gives that of the other, by
/// their coordinates x: a number that everyone knows multiplies x by a cube root of 1 (SEC 2,
/// 2.4.1).
pub(crate) fn have_one_secret(one: &[u8], other: &[u8]) -> bool {
    let prime = field(Curve::Secp256k1).unwrap_or_default();
    let cube = |x: &[u8]| BigUint::from_bytes_be(x).modpow(&BigUint::from(3_u32), &prime);
    cube(one) == cube(other)
}

/// Fails if the point is a small multiple of the base point, or the negative of one. The private
/// key of an Edwards or Montgomery curve is the hash of a seed, or has a high bit that is set.
fn check_scalar(curve: Curve, point: &[u8], provider: &Provider) -> Result<(), Flaw> {
    let Some(prime) = field(curve) else { return Ok(()) };
    let coordinates = |point: &[u8]| {
        let (x, y) = point.get(1..).unwrap_or_default().split_at_checked(curve.len())?;
        Some((BigUint::from_bytes_be(x), BigUint::from_bytes_be(y)))
    };
    let multiple = |factor: u32| {
        let mut scalar = vec![0; curve.len() - 4];
        scalar.extend(factor.to_be_bytes());
        let parts = PrivateParts::Ec { curve, scalar: Secret::from(&scalar[..]) };
        match provider.keys.private(&parts).and_then(|key| key.public()) {
            Ok(PublicParts::Ec { point, .. }) => Ok(coordinates(&point).unwrap_or_default()),
            Ok(_) => Ok(Default::default()),
            Err(error) => Err(Flaw::Malformed(error)),
        }
    };
    let point = provider.keys.uncompressed(curve, point).map_err(Flaw::Malformed)?;
    let (x, y) = coordinates(&point).unwrap_or_default();
    let near = (1..=NEAR).map(|factor| Ok(multiple(factor)?.0)).collect::<Result<BTreeSet<_>, Flaw>>()?;
    let mut is_small = near.contains(&x);
    for factor in 1..=FAR {
        // The sum of the point and a far multiple, and their difference, which have one slope's
        // denominator. It is 0 if the point is this multiple.
        let (far_x, far_y) = multiple(factor * (2 * NEAR + 1))?;
        let Some(inverse) = ((&x + &prime - &far_x) % &prime).modinv(&prime) else {
            is_small = true;
            break;
        };
        is_small |= [&y + &prime - &far_y, &y + &far_y].into_iter().any(|rise| {
            let slope = rise * &inverse % &prime;
            near.contains(&((&slope * &slope + &prime * 2_u32 - &x - &far_x) % &prime))
        });
    }
    if is_small { Err(Flaw::SmallScalar) } else { Ok(()) }
}

/// Returns the prime of the field of a curve (SP 800-186; SEC 2, 2.4.1). Certificates have keys on
/// these curves only.
fn field(curve: Curve) -> Option<BigUint> {
    let power = |bits: u32| BigUint::from(1_u32) << bits;
    match curve {
        Curve::P256 => Some(power(256) - power(224) + power(192) + power(96) - 1_u32),
        Curve::P384 => Some(power(384) - power(128) - power(96) + power(32) - 1_u32),
        Curve::P521 => Some(power(521) - 1_u32),
        Curve::Secp256k1 => Some(power(256) - power(32) - 977_u32),
        _ => None,
    }
}

/// Fails if the point of a key on an Edwards or Montgomery curve has a small order. The other
/// curves have no such points: their cofactor is 1.
pub(crate) fn check_order(parts: &PublicParts) -> Result<(), Flaw> {
    // Besides 0, 1 and -1, the coordinates of order 8.
    let (bits, coordinate, of_eight): (u32, &[u8], &[&str]) = match parts.traditional() {
        PublicParts::Ed25519 { point } => (
            255,
            point,
            &[
                "05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826",
                "7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7",
            ],
        ),
        PublicParts::X25519 { point } => (
            255,
            point,
            &[
                "00b8495f16056286fdb1329ceb8d09da6ac49ff1fae35616aeb8413b7c7aebe0",
                "57119fd0dd4e22d8868e1c58c45c44045bef839c55b1d0b1248c50a3bc959c5f",
            ],
        ),
        PublicParts::Ed448 { point } => (448, point, &[]),
        PublicParts::X448 { point } => (448, point, &[]),
        _ => return Ok(()),
    };
    let (one, prime) = (BigUint::from(1_u32), prime(bits));
    // The bit above the coordinate is the sign, or has no meaning.
    let coordinate = BigUint::from_bytes_le(coordinate) % (&one << bits) % &prime;
    let is_of_eight =
        |number: &&str| BigUint::parse_bytes(number.as_bytes(), 16).as_ref() == Some(&coordinate);
    let is_small = coordinate <= one || coordinate == prime - one || of_eight.iter().any(is_of_eight);
    if is_small { Err(Flaw::SmallOrder) } else { Ok(()) }
}

/// Fails if a point of an Edwards curve is outside the subgroup of the base point. A Montgomery
/// ladder multiplies u = (1 + y) / (1 - y) by the order of the subgroup: the sign does not matter.
fn check_subgroup(parts: &PublicParts) -> Result<(), Flaw> {
    // RFC 8032, 5.1 and 5.2: the order, and a / (a - d) as a fraction.
    let number = |digits: &[u8]| BigUint::parse_bytes(digits, 16).expect("digits");
    let (bits, y, order, numerator, denominator) = match parts {
        PublicParts::Ed25519 { point } => {
            (255, &point[..], number(ORDER_25519), BigUint::from(121_666_u32), BigUint::from(1_u32))
        }
        PublicParts::Ed448 { point } => {
            (448, &point[..], number(ORDER_448), BigUint::from(1_u32), BigUint::from(39_082_u32))
        }
        _ => return Ok(()),
    };
    let prime = prime(bits);
    let times = |a: &BigUint, b: &BigUint| a * b % &prime;
    let minus = |a: &BigUint, b: &BigUint| (a + &prime - b) % &prime;
    let y = BigUint::from_bytes_le(y) % (BigUint::from(1_u32) << bits) % &prime;
    let base = (&y + 1_u32, minus(&BigUint::from(1_u32), &y));
    let (mut low, mut high) = ((BigUint::from(1_u32), BigUint::default()), base.clone());
    for bit in (0..order.bits()).rev() {
        let of = |(x, z): &(BigUint, BigUint)| (x + z, minus(x, z));
        let ((low_sum, low_difference), (high_sum, high_difference)) = (of(&low), of(&high));
        let (one, other) = (times(&low_difference, &high_sum), times(&low_sum, &high_difference));
        let (sum, difference) = (&one + &other, minus(&one, &other));
        let both = (times(&base.1, &times(&sum, &sum)), times(&base.0, &times(&difference, &difference)));
        let (sum, difference) =
            if order.bit(bit) { (high_sum, high_difference) } else { (low_sum, low_difference) };
        let (sum, difference) = (times(&sum, &sum), times(&difference, &difference));
        let rest = minus(&sum, &difference);
        let scaled = times(&difference, &denominator);
        let twice = (times(&sum, &scaled), times(&rest, &(scaled + times(&rest, &numerator))));
        (low, high) = if order.bit(bit) { (both, twice) } else { (twice, both) };
    }
    if low.1 == BigUint::default() { Ok(()) } else { Err(Flaw::Subgroup) }
}

/// Returns the prime of Curve25519 or of Curve448.
fn prime(bits: u32) -> BigUint {
    let power = |bits: u32| BigUint::from(1_u32) << bits;
    if bits == 255 { power(255) - 19_u32 } else { power(448) - power(224) - 1_u32 }
}

fn check_rsa(modulus: &[u8], provider: &Provider) -> Result<(), Flaw> {
    let (n, one) = (BigUint::from_bytes_be(modulus), BigUint::from(1_u32));
    let power_of_two = |exponent: &BigUint| {
        let power = provider.keys.power(&[2], &exponent.to_bytes_be(), &n.to_bytes_be());
        power.map(|power| BigUint::from_bytes_be(&power)).map_err(Flaw::Malformed)
    };
    // The ratio 1 is that of the Baseline Requirements.
    if has_close_primes(&n) || (2..=RATIO).any(|ratio| has_close_primes(&(&n * 4_u32 * ratio))) {
        return Err(Flaw::ClosePrimes);
    }
    if is_power(&n) {
        return Err(Flaw::Power);
    }
    // Fermat's test with the base 2, which every prime passes.
    if power_of_two(&(&n - 1_u32))? == one {
        return Err(Flaw::Prime);
    }
    let low = primes_below(LOW);
    let all = low.chunks(64).fold(one.clone(), |all, some| all * some.iter().product::<BigUint>() % &n);
    if common_divisor(all, n.clone()) != one {
        return Err(Flaw::LowFactor);
    }
    // Each prime below the bound, as often as its power is below it.
    let smooth = low.iter().take_while(|prime| **prime < SMOOTH as u32);
    let exponent = smooth.map(|prime| prime.pow((SMOOTH as u32).ilog(*prime))).product();
    let power = power_of_two(&exponent)?;
    // Of a power that is 1, each prime is a factor.
    if common_divisor((power + &n - 1_u32) % &n, n.clone()) != one {
        return Err(Flaw::SmoothFactor);
    }
    Ok(())
}

/// Fails if the vector t1 of an ML-DSA key is short (FIPS 204, 8.3). A verifier computes the high
/// bits of A z - c t1 2^13 and corrects as many of them as the hint has ones. If t1 is zero, or so
/// short that c t1 2^13 changes few high bits, every short z gives a signature.
///
/// The sum of the distances of all coefficients of t1 2^13 from a multiple of q says how many
/// change. A real t1 has the mean distance q / 4. The bound is q / 8, which no key of 1024
/// coefficients comes below by chance: it is 28 deviations away. Twice the vector must not be short
/// either: c may have an even sum.
fn check_vector(key: &[u8]) -> Result<(), Flaw> {
    const Q: u64 = 8_380_417;
    // FIPS 204, algorithm 22: after 32 bytes, each coefficient has 10 bits.
    let vector: Vec<_> = key.get(32..).unwrap_or_default().chunks_exact(5).flat_map(ten_bits).collect();
    let is_short = |factor: u64| {
        let distance = |coefficient: &u64| {
            let shifted = (coefficient << 13) * factor % Q;
            shifted.min(Q - shifted)
        };
        vector.iter().map(distance).sum::<u64>() < Q / 8 * vector.len() as u64
    };
    if is_short(1) || is_short(2) { Err(Flaw::ShortVector) } else { Ok(()) }
}

/// Returns the four numbers of 10 bits in 5 bytes.
fn ten_bits(bytes: &[u8]) -> [u64; 4] {
    let all = bytes.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    [0, 10, 20, 30].map(|shift| all >> shift & 0x3ff)
}

fn common_divisor(mut one: BigUint, mut other: BigUint) -> BigUint {
    while other != BigUint::default() {
        (one, other) = (other.clone(), one % other);
    }
    one
}

/// Returns the primes below a bound, with the sieve of Eratosthenes.
fn primes_below(bound: usize) -> Vec<u32> {
    let mut is_prime = vec![true; bound];
    let mut found = Vec::new();
    for number in 2..bound {
        if is_prime[number] {
            found.push(number as u32);
            (number * number..bound).step_by(number).for_each(|multiple| is_prime[multiple] = false);
        }
    }
    found
}

fn primes(range: std::ops::Range<u32>) -> impl Iterator<Item = u32> {
    range.filter(|number| {
        (2..*number).take_while(|factor| factor * factor <= *number).all(|factor| number % factor != 0)
    })
}

fn remainder(number: &BigUint, divisor: u32) -> u32 {
    (number % divisor).try_into().unwrap_or_default()
}

fn is_power_of_65537(number: &BigUint, prime: u32) -> bool {
    let (wanted, factor) = (remainder(number, prime), 65537 % prime);
    let powers = std::iter::successors(Some(1), |power| Some(power * factor % prime));
    powers.take(prime as usize).any(|power| power == wanted)
}

/// Looks for a and b with n = a^2 - b^2.
fn has_close_primes(n: &BigUint) -> bool {
    let mut a = n.sqrt();
    if &(&a * &a) == n {
        // A square is a power, which has a name of its own.
        return false;
    }
    a += 1_u32;
    let mut rest = &a * &a - n;
    for _ in 0..STEPS {
        // Squares have 12 of the 64 remainders. A root takes longer than the rest of a step.
        let low = remainder(&rest, 64);
        if (0..32).any(|root| root * root % 64 == low) {
            let root = rest.sqrt();
            if &root * &root == rest {
                return true;
            }
        }
        rest += (&a << 1) + 1_u32;
        a += 1_u32;
    }
    false
}

/// The base has no factor below [`SMALL`], so it has more than 9 bits.
fn is_power(n: &BigUint) -> bool {
    let most = u32::try_from(n.bits() / 9).unwrap_or(u32::MAX);
    primes(2..most + 1).any(|exponent| n.nth_root(exponent).pow(exponent) == *n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{MlDsa, PairSpec};

    fn flaw(n: &BigUint, e: u8) -> Result<(), Flaw> {
        let all = Provider::ALL.iter().filter(|provider| provider.name != "null");
        let parts = PublicParts::Rsa { n: n.to_bytes_be(), e: vec![e] };
        let found: Vec<_> = all.map(|provider| check_whole(&parts, provider)).collect();
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
        found[0]
    }

    fn prime_from(mut number: BigUint) -> BigUint {
        number.set_bit(0, true);
        loop {
            let power = |base: u32| BigUint::from(base).modpow(&(&number - 1_u32), &number);
            if primes(3..2000).all(|prime| remainder(&number, prime) != 0) && power(2) == BigUint::from(1_u32)
            {
                return number;
            }
            number += 2_u32;
        }
    }

    /// Some number of this size.
    fn number(bits: u64, salt: u32) -> BigUint {
        let mut number = BigUint::from(salt) + 3_u32;
        while number.bits() < bits {
            number = &number * &number + salt;
        }
        let mut number: BigUint = number.clone() >> (number.bits() - bits);
        number.set_bit(bits - 2, true);
        number
    }

    #[test]
    fn a_modulus_that_anyone_can_factor_is_refused() {
        let (p, q) = (prime_from(number(1024, 5)), prime_from(number(1024, 77)));
        assert_eq!(flaw(&(&p * &q), 3), Ok(()));
        for e in [1, 2, 4] {
            assert!(flaw(&(&p * &q), e).is_err(), "{e}");
        }
        assert_eq!(flaw(&prime_from(number(2048, 9)), 3), Err(Flaw::Prime));
        assert_eq!(flaw(&(prime_from(number(2046, 9)) * 3_u32), 3), Err(Flaw::SmallFactor));
        assert_eq!(flaw(&(prime_from(number(2038, 9)) * 751_u32), 3), Err(Flaw::SmallFactor));
        assert_eq!(flaw(&(&p * &p), 3), Err(Flaw::Power));
        let third = prime_from(number(700, 3));
        assert_eq!(flaw(&third.pow(3), 3), Err(Flaw::Power));
        let near = prime_from(&p + 1134_u32);
        assert_eq!(flaw(&(&p * &near), 3), Err(Flaw::ClosePrimes));
        // The distance d needs about d^2 / 8p steps: 81 and 144.
        let root = (&p * 2_u32).sqrt();
        assert_eq!(flaw(&(&p * prime_from(&p + &root * 18_u32)), 3), Err(Flaw::ClosePrimes));
        assert_eq!(flaw(&(&p * prime_from(&p + &root * 24_u32)), 3), Ok(()));
    }

    #[test]
    fn a_modulus_that_the_first_methods_of_factoring_factor_is_refused() {
        let p = prime_from(number(1024, 5));
        // The last prime below 2^20, and one above it that Pollard's method does not find.
        assert_eq!(flaw(&(prime_from(number(2027, 9)) * 1_048_573_u32), 3), Err(Flaw::LowFactor));
        assert_eq!(flaw(&(prime_from(number(2027, 9)) * 1_048_703_u32), 3), Ok(()));
        // The ratios 2 and 3 : 2, as if a program had derived one prime from the other.
        assert_eq!(flaw(&(&p * prime_from(&p * 2_u32 + 9_u32)), 3), Err(Flaw::ClosePrimes));
        assert_eq!(flaw(&(&p * prime_from(&p * 3_u32 / 2_u32)), 3), Err(Flaw::ClosePrimes));
        // p - 1 is the product of small primes and of one that grows until p is a prime.
        let small = primes_below(SMOOTH);
        let smooth = |least: u32| {
            let base = small.iter().take(140).map(|prime| BigUint::from(*prime)).product::<BigUint>();
            let last = small.iter().skip(150).filter(|prime| **prime > least);
            let candidates = last.map(|prime| &base * *prime + 1_u32);
            candidates.into_iter().find(|one| prime_from(one.clone()) == *one).expect("a prime")
        };
        let (one, other) = (smooth(0), smooth(2500));
        assert!(one.bits() > 1000 && one != other);
        assert_eq!(flaw(&(&one * &p), 3), Err(Flaw::SmoothFactor));
        assert_eq!(flaw(&(&one * &other * &p), 3), Err(Flaw::SmoothFactor));
    }

    #[test]
    fn a_small_multiple_of_the_base_point_is_refused_on_each_curve_of_certificates() {
        for provider in Provider::ALL.iter().filter(|provider| provider.name != "null") {
            for curve in [Curve::P256, Curve::P384, Curve::P521, Curve::Secp256k1] {
                let padded = |number: &BigUint| {
                    let bytes = number.to_bytes_be();
                    [&vec![0; curve.len() - bytes.len()][..], &bytes].concat()
                };
                let key = |scalar: &BigUint| {
                    let parts = PrivateParts::Ec { curve, scalar: Secret::from(&padded(scalar)[..]) };
                    provider.keys.private(&parts).and_then(|key| key.public()).expect("a key")
                };
                let negative = |key: &PublicParts| {
                    let (x, y) = key.encoded().expect("a point")[1..].split_at(curve.len());
                    let y = field(curve).expect("a prime") - BigUint::from_bytes_be(y);
                    PublicParts::Ec { curve, point: [&[4], x, &padded(&y)].concat() }
                };
                for small in [1_u32, 2, 256, 257, 513, 65535, 65536] {
                    let key = key(&small.into());
                    for key in [negative(&key), key] {
                        let found = check_whole(&key, provider);
                        assert_eq!(found, Err(Flaw::SmallScalar), "{curve:?} {small}");
                    }
                }
                for fine in [BigUint::from(70_000_u32), number(200, 5)] {
                    assert_eq!(check_whole(&key(&fine), provider), Ok(()), "{curve:?} {fine}");
                }
            }
        }
    }

    #[test]
    fn keys_are_related_by_a_common_prime_or_by_a_cube_root_of_one() {
        let [p, q, r, s] = [5, 77, 9, 8].map(|salt| prime_from(number(512, salt)));
        let have_common =
            |one: BigUint, other: BigUint| have_common_factor(&one.to_bytes_be(), &other.to_bytes_be());
        assert!(have_common(&p * &q, &r * &q));
        assert!(!have_common(&p * &q, &r * &s));
        let prime = field(Curve::Secp256k1).expect("a prime");
        let root = BigUint::from(2_u32).modpow(&((&prime - 1_u32) / 3_u32), &prime);
        assert!(root != BigUint::from(1_u32));
        let x = number(250, 5);
        let next = &x * &root % &prime;
        let is_of_x = |other: &BigUint| have_one_secret(&x.to_bytes_be(), &other.to_bytes_be());
        assert!(is_of_x(&x) && is_of_x(&next) && is_of_x(&(&next * &root % &prime)));
        assert!(!is_of_x(&(&x + 1_u32)));
    }

    #[test]
    fn a_modulus_of_roca_is_refused() {
        let product = primes(2..ROCA_PRIMES + 1).fold(BigUint::from(1_u32), |all, prime| all * prime);
        let mut n = BigUint::from(65537_u32).modpow(&BigUint::from(12345_u32), &product);
        n += &product * number(2047 - product.bits(), 5);
        while primes(2..SMALL).any(|prime| remainder(&n, prime) == 0) {
            n += &product;
        }
        assert_eq!(flaw(&n, 3), Err(Flaw::Roca));
    }

    #[test]
    fn an_ml_dsa_key_with_a_short_vector_is_refused_and_real_keys_are_not() {
        let key = |coefficient: &dyn Fn(usize) -> u64| {
            let group = |at: usize| {
                let all = (0..4).fold(0, |all, part| all | coefficient(4 * at + part) << (10 * part));
                all.to_le_bytes()[..5].to_vec()
            };
            [vec![7; 32], (0..256).flat_map(group).collect()].concat()
        };
        // 1023 * 2^13 is -1 modulo q, and twice 512 * 2^13 is 2^13 - 1.
        for short in [0, 1, 1023, 1022, 512] {
            assert_eq!(check_vector(&key(&|_| short)), Err(Flaw::ShortVector), "{short}");
        }
        assert_eq!(check_vector(&key(&|at| if at < 20 { 400 } else { 0 })), Err(Flaw::ShortVector));
        assert_eq!(ten_bits(&[0xff, 3, 0, 0, 0x80]), [0x3ff, 0, 0, 0x200]);
        for provider in Provider::ALL.iter().filter(|provider| provider.name != "null") {
            for set in [MlDsa::MlDsa44, MlDsa::MlDsa65, MlDsa::MlDsa87] {
                let (public, _) =
                    provider.keys.generate(&PairSpec::MlDsa { set, seed: None }).expect("a pair");
                assert_eq!(check_whole(&public, provider), Ok(()));
                let PublicParts::MlDsa { mut key, set } = public else { panic!("another key") };
                key[32..].fill(0);
                assert_eq!(check_whole(&PublicParts::MlDsa { set, key }, provider), Err(Flaw::ShortVector));
            }
        }
    }

    #[test]
    #[cfg(feature = "rustcrypto")]
    fn every_point_outside_the_subgroup_is_refused_and_others_are_not() {
        for point in curve25519_dalek::constants::EIGHT_TORSION {
            let edwards = PublicParts::Ed25519 { point: point.compress().0 };
            assert_eq!(check_order(&edwards), Err(Flaw::SmallOrder), "{point:?}");
            let montgomery = PublicParts::X25519 { point: point.to_montgomery().0 };
            assert_eq!(check_order(&montgomery), Err(Flaw::SmallOrder), "{point:?}");
        }
        // 0, 1, -1 and the two encodings above the prime.
        let minus_one = [&[0xfe][..], &[0xff; 27], &[0xfe], &[0xff; 27]].concat();
        let zero = [&[0xff][..], &minus_one[1..]].concat();
        let one = [&[0; 28][..], &[0xff; 28]].concat();
        let small = [vec![0; 56], [&[1][..], &[0; 55]].concat(), minus_one, zero, one];
        for coordinate in small {
            let point = coordinate.as_slice().try_into().expect("56 bytes");
            assert_eq!(check_order(&PublicParts::X448 { point }), Err(Flaw::SmallOrder));
            for sign in [0, 0x80] {
                let point = [&coordinate[..], &[sign]].concat().try_into().expect("57 bytes");
                assert_eq!(check_order(&PublicParts::Ed448 { point }), Err(Flaw::SmallOrder));
            }
        }
        let base = curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
        for (at, torsion) in curve25519_dalek::constants::EIGHT_TORSION.iter().enumerate() {
            for factor in [1_u64, 2, 12345, u64::MAX] {
                let point = base * curve25519_dalek::Scalar::from(factor) + torsion;
                let parts = PublicParts::Ed25519 { point: point.compress().0 };
                let expected = if at == 0 { Ok(()) } else { Err(Flaw::Subgroup) };
                for provider in Provider::ALL.iter().filter(|provider| provider.name != "null") {
                    assert_eq!(check(&parts, provider), expected, "{at} {factor}");
                }
            }
        }
        // (x, y) and the points of order 2 and 4 have the sums (-x, -y), (y, -x) and (-y, x).
        let base_448 = ed448_goldilocks::EdwardsPoint::GENERATOR.to_affine();
        let negative = |coordinate: [u8; 56]| {
            let number = prime(448) - BigUint::from_bytes_le(&coordinate);
            number.to_bytes_le().try_into().expect("56 bytes")
        };
        let (x, y) = (base_448.x(), base_448.y());
        let points = [(y, true), (negative(y), false), (x, false), (negative(x), false)];
        for (coordinate, is_fine) in points {
            let point = [&coordinate[..], &[0]].concat().try_into().expect("57 bytes");
            assert_eq!(check_subgroup(&PublicParts::Ed448 { point }).is_ok(), is_fine);
        }
        assert_eq!(check_order(&PublicParts::Ed25519 { point: base.compress().0 }), Ok(()));
        assert_eq!(check_order(&PublicParts::X25519 { point: base.to_montgomery().0 }), Ok(()));
    }
}
