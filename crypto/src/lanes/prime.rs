//! Primes of RSA keys (FIPS 186-5, A.1.3). Eight candidates are tested at once.
//!
//! A composite candidate is no secret, because the other candidates do not depend on it. No branch
//! and no address depends on a prime.

use std::array::from_fn;

use jeton_secret::Secret;
use once_cell::race::OnceBox;

use super::montgomery::{Moduli, WINDOW, difference, one};
use super::rsa::{WINDOWS, gather, queue, run, split};
use super::vector::{DIGIT, LANES, Vector};
use crate::error::Result;
use crate::library::Random;

/// Returns the primes of a key with e = 65537, the larger one first. Returns `None` if lanes do not
/// support the size of the modulus, or if as many candidates failed as FIPS 186-5 permits.
pub fn primes(bits: usize, random: &dyn Random) -> Result<Option<[Secret; 2]>> {
    let Some(round) = round_for(bits) else { return Ok(None) };
    run(|| {
        let Some(p) = prime(bits / 2, None, round, random)? else { return Ok(None) };
        let Some(q) = prime(bits / 2, Some(&p), round, random)? else { return Ok(None) };
        Ok(Some(if top(&p) > top(&q) { [p, q] } else { [q, p] }))
    })
}

fn prime(bits: usize, other: Option<&[u8]>, round: Round, random: &dyn Random) -> Result<Option<Secret>> {
    let mut batch = Vec::with_capacity(LANES);
    for _ in 0..5 * bits {
        let candidate = candidate(bits / 8, other, random)?;
        if !is_unfit(&candidate) {
            batch.push(candidate);
        }
        if batch.len() < LANES {
            continue;
        }
        let passed = round(&from_fn(|lane| &batch[lane][..]), &random.secret(LANES * BASE)?);
        for (candidate, _) in batch.drain(..).zip(passed).filter(|(_, passed)| *passed) {
            // Eight more rounds. FIPS 186-5, table B.1, asks for five at most.
            if round(&[&candidate; LANES], &random.secret(LANES * BASE)?) == [true; LANES] {
                return Ok(Some(candidate));
            }
        }
    }
    Ok(None)
}

/// Returns a random odd number above 2^(8 len - 1/2). Its distance to the other prime is more than
/// 2^(8 len - 100).
fn candidate(len: usize, other: Option<&[u8]>, random: &dyn Random) -> Result<Secret> {
    const ROOT: u128 = 0xb504_f333_f9de_6484_597d_89b3_754a_be9f;
    let mut number = Secret::zeroed(len);
    loop {
        random.fill(&mut number)?;
        number[len - 1] |= 1;
        let high = top(&number);
        if high > ROOT && other.is_none_or(|other| top(other).abs_diff(high) > 1 << 28) {
            return Ok(number);
        }
    }
}

/// Returns the highest 128 bits.
fn top(number: &[u8]) -> u128 {
    number[..16].iter().fold(0, |top, byte| top << 8 | u128::from(*byte))
}

/// Returns small odd primes and their inverses modulo 2^64.
fn small_primes() -> &'static [[u64; 2]] {
    static PRIMES: OnceBox<Vec<[u64; 2]>> = OnceBox::new();
    let inverse = |m: u64| (0..5).fold(m, |x, _| x.wrapping_mul(2_u64.wrapping_sub(m.wrapping_mul(x))));
    let is_prime = |n: &u64| (3..).step_by(2).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    let primes = (3..1 << 14).step_by(2).filter(is_prime).map(|prime| [prime, inverse(prime)]);
    PRIMES.get_or_init(|| Box::new(primes.collect()))
}

/// Checks whether an odd number has a small prime factor, or is 1 modulo 65537.
fn is_unfit(number: &[u8]) -> bool {
    let has_factor = |primes: &[[u64; 2]]| {
        let [m, inverse] = primes.iter().fold([1; 2], |[m, n], [p, i]| [m * p, n.wrapping_mul(*i)]);
        // Montgomery's reduction: at most m + 1, and number / 2^(8 len) modulo m.
        let remainder = number.as_chunks().0.iter().rev().fold(0, |sum: u64, digit| {
            let (sum, carry) = sum.overflowing_add(u64::from_be_bytes(*digit));
            let multiple = u128::from(sum.wrapping_mul(inverse)) * u128::from(m);
            m + u64::from(carry) - (multiple >> 64) as u64
        });
        // Modulo 2^64, a quotient times the prime is the remainder. Only an exact quotient needs no
        // modulo.
        let divides = |[p, i]: &[u64; 2]| remainder.wrapping_mul(*i).checked_mul(*p).is_some();
        primes.iter().any(divides)
    };
    // 2^32 is 1 modulo 65537.
    let sum: u64 = number.as_chunks().0.iter().map(|digit| u64::from(u32::from_be_bytes(*digit))).sum();
    sum % 65537 == 1 || small_primes().chunks(4).any(has_factor)
}

/// A round of Miller-Rabin (FIPS 186-5, B.3.1) with a base for each of eight numbers.
type Round = fn(&[&[u8]; LANES], &[u8]) -> [bool; LANES];

/// The length of a base in bytes. A base has at least 16 bits more than a number, so that the
/// remainder is as good as uniform.
const BASE: usize = 40 * DIGIT / 8;

/// How many of the lowest bits of a number are used one by one. If p - 1 is a multiple of
/// 2^(TAIL + 1), then the prime p fails a round with a probability of 2^-TAIL.
const TAIL: usize = 16;

#[inline(always)]
fn round<V: Vector, const K: usize>(numbers: &[&[u8]; LANES], bases: &[u8]) -> [bool; LANES] {
    let load = |digits: [[u64; LANES]; K]| digits.map(|digit| V::load(&digit));
    let (zero, len) = (V::splat(0), numbers[0].len());
    let n = load(gather(|lane| numbers[lane]));
    let moduli = Moduli::<V, K>::new(n, 8 * len);
    let mut exponents = [[0; LANES]; WINDOWS];
    let exponents = &mut exponents[..(8 * len - TAIL).div_ceil(WINDOW)];
    let last = exponents.len() - 1;
    for (lane, number) in numbers.iter().enumerate() {
        split(&number[..len - TAIL / 8], WINDOW, |i, window| exponents[last - i][lane] = window);
    }
    let one = moduli.reduce(&moduli.enter(&one()));
    let minus_one = difference(&n, &one).0;
    let base = moduli.enter(&load(gather(|lane| &bases[lane * BASE..][..K * DIGIT / 8])));
    let mut power = moduli.power(&base, exponents);
    let (low, mut passed) = (n[0].sub(V::splat(1)), zero);
    let equal = |a: &[V; K], b: &[V; K]| {
        a.iter().zip(b).fold(V::splat(1), |equal, (a, b)| zero.replace(equal, *a, *b))
    };
    for rest in (1..=TAIL).rev() {
        // The power is that with (n - 1) / 2^rest, rounded down. If the division is exact, -1
        // passes. If the quotient is odd too, 1 passes.
        let bit = 1 << rest;
        let result = moduli.reduce(&power);
        let is_minus_one = zero.replace(equal(&result, &minus_one), low.and(V::splat(bit - 1)), zero);
        let is_one = zero.replace(equal(&result, &one), low.and(V::splat(2 * bit - 1)), V::splat(bit));
        passed = passed.add(is_minus_one).add(is_one);
        let next = V::splat(bit / 2);
        let factor = from_fn(|j| one[j].replace(base[j], low.and(next), next));
        power = moduli.multiply(&moduli.multiply(&power, &power), &factor);
    }
    passed.store().map(|passed| passed > 0)
}

/// Returns the function for the primes of a modulus, if this processor has lanes for it.
fn round_for(bits: usize) -> Option<Round> {
    queue(bits)?;
    #[cfg(target_arch = "x86_64")]
    match bits {
        2048 => return Some(x86::round::<20>),
        3072 => return Some(x86::round::<30>),
        4096 => return Some(x86::round::<40>),
        _ => {}
    }
    None
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector instructions")]
mod x86 {
    use super::super::vector::{Ifma, LANES};

    pub(super) fn round<const K: usize>(numbers: &[&[u8]; LANES], bases: &[u8]) -> [bool; LANES] {
        #[target_feature(enable = "avx512f,avx512ifma")]
        fn lanes<const K: usize>(numbers: &[&[u8]; LANES], bases: &[u8]) -> [bool; LANES] {
            super::round::<Ifma, K>(numbers, bases)
        }
        // SAFETY: a queue exists for this size, so the processor has the features.
        unsafe { lanes::<K>(numbers, bases) }
    }
}

#[cfg(test)]
mod tests {
    use crypto_bigint::{Limb, NonZero, Odd, U1024};
    use crypto_primes::{Flavor, hazmat::MillerRabin, is_prime};

    use super::super::vector::Portable;
    use super::*;
    use crate::testing::Crates;

    /// Compares with another implementation, for primes p where 2^s divides p - 1 and for composite
    /// numbers that pass with some bases.
    fn check(round: impl Fn(&[&[u8]; LANES], &[u8]) -> [bool; LANES]) {
        let sum = |a: u64, shift: u32, c: u64| (U1024::from(a) << shift).wrapping_add(&c.into());
        let prime = |s: u32, c: u64| sum(1, 1023, (c << s) + 1);
        let pseudoprime = |c| {
            let p = sum(11, 508, c);
            p.wrapping_mul(&sum(11, 509, 2 * c - 1))
        };
        let factor = |m: u64| sum(13 * m, 334, 1_553_378 * m + 1);
        let carmichael = factor(6).wrapping_mul(&factor(12)).wrapping_mul(&factor(18));
        let primes = [prime(1, 577), prime(20, 1393), prime(32, 2143), prime(33, 655)];
        let [a, b, c] = [441_341, 924_653, 67_475].map(pseudoprime);
        let numbers = [primes[0], primes[1], primes[2], primes[3], a, b, c, carmichael];
        let bytes = numbers.map(|number| number.to_be_bytes());
        for base in 2..8_u8 {
            let mut bases = [0; LANES * BASE];
            bases.chunks_mut(BASE).for_each(|it| it[20 * DIGIT / 8 - 1] = base);
            let passed = round(&from_fn(|lane| bytes[lane].as_ref()), &bases);
            let expected = numbers.map(|number| {
                let test = MillerRabin::new(Odd::new(number).expect("an odd number"));
                test.test(&base.into()).is_probably_prime()
            });
            assert!(base != 2 || expected == [true, true, true, true, true, true, false, true]);
            assert_eq!(passed, expected, "{base}");
        }
    }

    #[test]
    fn a_round_is_miller_rabin_without_vector_instructions() {
        check(round::<Portable, 20>);
    }

    #[test]
    fn a_round_is_miller_rabin() {
        if let Some(round) = round_for(2048) {
            check(round);
        }
    }

    #[test]
    fn multiples_of_small_primes_are_unfit() {
        let (mut bytes, mut fit) = ([0; 128], 0);
        for i in 0..400 {
            Crates.fill(&mut bytes[2..]).expect("random bytes");
            bytes[127] |= 1;
            let mut number = U1024::from_be_slice(&bytes);
            if i % 2 == 0 {
                number = number.wrapping_mul(&U1024::from(131_074_u32)).wrapping_add(&U1024::ONE);
            }
            let remainder = |m: u32| number.rem_limb(NonZero::new(Limb::from(m)).expect("a prime")).0;
            let expected = (3..1 << 14).step_by(2).any(|m| remainder(m) == 0) || remainder(65537) == 1;
            assert_eq!(is_unfit(number.to_be_bytes().as_ref()), expected);
            fit += usize::from(!expected);
        }
        assert!(fit > 0);
    }

    #[test]
    fn primes_have_the_properties_of_fips_186_5() {
        for bits in [2048, 3072, 4096] {
            let primes = primes(bits, &Crates).expect("memory");
            for prime in primes.iter().flatten() {
                assert!(
                    prime.len() == bits / 16 && top(prime) >> 64 >= 0xb504_f333_f9de_6484 && !is_unfit(prime)
                );
                assert!(is_prime(Flavor::Any, &crypto_bigint::BoxedUint::from_be_slice_vartime(prime)));
            }
            assert!(primes.is_none_or(|[p, q]| top(&p) > top(&q)));
        }
    }
}
