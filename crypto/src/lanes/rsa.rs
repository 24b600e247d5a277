//! RSASP1 and RSADP (RFC 8017, 5.1.2 and 5.2.1) with two primes, for up to eight keys of one size.

use std::sync::Arc;

use jeton_secret::{Secret, Stacks, clear_registers};

use super::montgomery::{Moduli, WINDOW, normalise};
use super::queue::{Queue, is_allowed};
use super::vector::{DIGIT, LANES, Vector};
use crate::error::Result;

/// The largest number of windows of an exponent.
pub(super) const WINDOWS: usize = 2048_usize.div_ceil(WINDOW);

/// The numbers of a private key with e = 65537, big-endian. Both primes have half as many bits as
/// the modulus.
pub struct Key {
    n: Secret,
    /// p and q.
    primes: [Secret; 2],
    /// d modulo p - 1 and q - 1.
    exponents: [Secret; 2],
    /// 1 / q modulo p.
    coefficient: Secret,
}

impl Key {
    /// Returns `None` if lanes cannot compute with this key. The numbers have no leading zeros.
    pub fn new(
        n: Secret,
        e: &[u8],
        primes: [Secret; 2],
        exponents: [Secret; 2],
        coefficient: Secret,
    ) -> Option<Self> {
        let half = n.len() / 2;
        let full = |number: &[u8], len| number.len() == len && number[0] >= 0x80;
        let fits = full(&n, n.len()) && primes.iter().all(|prime| full(prime, half)) && e == [1, 0, 1];
        // The time of `split` depends on the length, and so would reveal zeros.
        let padded = |number: Secret| {
            let mut padded = Secret::zeroed(half);
            padded[half.checked_sub(number.len())?..].copy_from_slice(&number);
            Some(padded)
        };
        let ([dp, dq], coefficient) = (exponents.map(padded), padded(coefficient)?);
        fits.then_some(Self { n, primes, exponents: [dp?, dq?], coefficient })
    }
}

/// A number that is to be raised to the power d.
pub struct Job {
    key: Arc<Key>,
    number: Secret,
    /// The result, if it is right: its power with e is the number.
    pub result: Option<Secret>,
}

impl Job {
    /// `number` is as long as the modulus. Returns `None` if it is not below the modulus.
    pub fn new(key: Arc<Key>, number: Secret) -> Option<Self> {
        (number[..] < key.n[..]).then_some(Self { key, number, result: None })
    }
}

/// Returns the queue for moduli of this size, if this processor has lanes for it.
pub fn queue(bits: usize) -> Option<&'static Queue<Job>> {
    #[cfg(target_arch = "x86_64")]
    return if is_allowed() { x86::queue(bits) } else { None };
    #[cfg(not(target_arch = "x86_64"))]
    return None;
}

/// Computes one to eight jobs. A prime has `bits` bits and K digits, a modulus has N = 2 K digits.
#[inline(always)]
fn compute<V: Vector, const K: usize, const N: usize>(jobs: &mut [Job], bits: usize) {
    let count = jobs.len();
    // An unused lane repeats another one.
    let numbers = gather::<N>(|lane| &jobs[lane % count].number);
    // The powers modulo the primes p and then q of all jobs, in as few passes as possible.
    let mut powers = [[[0; LANES]; K]; 2];
    for first in (0..2 * count).step_by(LANES) {
        let task = |lane| ((first + lane) / count % 2, (first + lane) % count);
        let primes = gather::<K>(|lane| &jobs[task(lane).1].key.primes[task(lane).0]);
        let mut exponents = [[0; LANES]; WINDOWS];
        let exponents = &mut exponents[..bits.div_ceil(WINDOW)];
        for lane in 0..LANES {
            let (prime, job) = task(lane);
            let last = exponents.len() - 1;
            split(&jobs[job].key.exponents[prime], WINDOW, |i, window| exponents[last - i][lane] = window);
        }
        let of_task = |digit: &[u64; LANES]| V::load(&std::array::from_fn(|lane| digit[task(lane).1]));
        let moduli = Moduli::<V, K>::new(primes.map(|digit| V::load(&digit)), bits);
        // The number is low + R high.
        let high = moduli.enter(&std::array::from_fn(|j| of_task(&numbers[K + j])));
        let mut base = moduli.enter(&high);
        let low = moduli.enter(&std::array::from_fn(|j| of_task(&numbers[j])));
        for (digit, low) in base.iter_mut().zip(low) {
            *digit = digit.add(low);
        }
        normalise(&mut base);
        let done = moduli.leave(&moduli.power(&base, exponents)).map(V::store);
        for lane in 0..LANES.min(2 * count - first) {
            let (prime, job) = task(lane);
            for (digit, done) in powers[prime].iter_mut().zip(&done) {
                digit[job] = done[lane];
            }
        }
    }
    // Garner: m = m2 + q ((m1 - m2) / q modulo p).
    let load = |digits: [[u64; LANES]; K]| digits.map(|digit| V::load(&digit));
    let p = Moduli::<V, K>::new(load(gather(|lane| &jobs[lane % count].key.primes[0])), bits);
    let q = load(gather(|lane| &jobs[lane % count].key.primes[1]));
    let coefficient = load(gather(|lane| &jobs[lane % count].key.coefficient));
    let [first, second] = powers.map(load);
    let difference = p.subtract(&p.enter(&first), &p.enter(&second));
    let factor = p.reduce(&p.multiply(&difference, &coefficient));
    let mut whole = [V::splat(0); N];
    whole[..K].copy_from_slice(&second);
    for i in 0..K {
        for j in 0..K {
            whole[i + j] = whole[i + j].add_low(factor[i], q[j]);
            whole[i + j + 1] = whole[i + j + 1].add_high(factor[i], q[j]);
        }
    }
    normalise(&mut whole);
    // A fault of the processor would reveal a prime, so no result leaves without this check.
    let n =
        Moduli::<V, N>::new(gather(|lane| &jobs[lane % count].key.n).map(|digit| V::load(&digit)), 2 * bits);
    let base = n.enter(&whole);
    let mut power = base;
    for step in 0..17 {
        power = n.multiply(&power, if step < 16 { &power } else { &base });
    }
    let checked = n.leave(&power).map(V::store);
    let whole = whole.map(V::store);
    for (lane, job) in jobs.iter_mut().enumerate() {
        if checked.iter().zip(&numbers).all(|(checked, number)| checked[lane] == number[lane]) {
            let mut result = Secret::zeroed(job.number.len());
            join(whole.iter().map(|digit| digit[lane]), &mut result);
            job.result = Some(result);
        }
    }
}

/// Returns the digits of a number for each lane.
#[allow(clippy::needless_range_loop, reason = "the lanes are columns")]
pub(super) fn gather<'a, const K: usize>(number: impl Fn(usize) -> &'a [u8]) -> [[u64; LANES]; K] {
    let mut digits = [[0; LANES]; K];
    for lane in 0..LANES {
        split(number(lane), DIGIT, |i, digit| digits[i][lane] = digit);
    }
    digits
}

/// Splits a big-endian number into parts of `size` bits, the lowest first.
pub(super) fn split(number: &[u8], size: usize, mut take: impl FnMut(usize, u64)) {
    let (mut rest, mut bits, mut i) = (0, 0, 0);
    for byte in number.iter().rev() {
        rest |= u64::from(*byte) << bits;
        bits += 8;
        while bits >= size {
            take(i, rest & ((1 << size) - 1));
            (rest, bits, i) = (rest >> size, bits - size, i + 1);
        }
    }
    if bits > 0 {
        take(i, rest);
    }
}

/// Writes a big-endian number of these digits, the lowest first.
fn join(mut digits: impl Iterator<Item = u64>, out: &mut [u8]) {
    let (mut rest, mut bits) = (0, 0);
    for byte in out.iter_mut().rev() {
        if bits < 8 {
            rest |= digits.next().unwrap_or(0) << bits;
            bits += DIGIT;
        }
        *byte = rest as u8;
        (rest, bits) = (rest >> 8, bits - 8);
    }
}

/// The tables of powers take 80 KiB.
static STACKS: Stacks = Stacks::new(1 << 20);

/// Leaves no secret on the stack or in registers. Fails without memory for a stack.
pub(super) fn run<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    let result = STACKS.run(work);
    clear_registers();
    result
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector instructions")]
mod x86 {
    use super::super::queue::Queue;
    use super::super::vector::Ifma;
    use super::{Job, compute, run};

    macro_rules! sizes {
        ($($bits:literal, $k:literal, $n:literal;)*) => {
            pub(super) fn queue(bits: usize) -> Option<&'static Queue<Job>> {
                let able = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
                match bits {
                    $($bits if able => {
                        #[target_feature(enable = "avx512f,avx512ifma")]
                        fn lanes(jobs: &mut [Job]) {
                            compute::<Ifma, $k, $n>(jobs, $bits / 2);
                        }
                        // Without memory for a stack, nothing happens.
                        static QUEUE: Queue<Job> = Queue::new(|jobs| {
                            // SAFETY: the processor has the features.
                            let _ = run(|| Ok(unsafe { lanes(jobs) }));
                        });
                        Some(&QUEUE)
                    })*
                    _ => None,
                }
            }
        };
    }
    sizes! {
        2048, 20, 40;
        3072, 30, 60;
        4096, 40, 80;
    }
}

#[cfg(test)]
mod tests {
    use getrandom::SysRng;
    use getrandom::rand_core::UnwrapErr;
    use rsa::hazmat::rsa_decrypt_and_check;
    use rsa::traits::{PrivateKeyParts, PublicKeyParts};
    use rsa::{BoxedUint, PrivateKey};

    use super::super::vector::Portable;
    use super::*;
    use crate::lanes::primes;
    use crate::testing::Crates;

    fn key_of(pair: &PrivateKey) -> Key {
        let secret = |number: &BoxedUint| Secret::from(&*number.to_be_bytes_trimmed_vartime());
        let primes: &[_; 2] = pair.primes().as_array().expect("two primes");
        let exponents = [pair.dp(), pair.dq()].map(|exponent| secret(exponent.expect("an exponent")));
        let coefficient = secret(&pair.crt_coefficient().expect("a coefficient"));
        let (n, e) = (Secret::from(&pair.n_bytes()[..]), pair.e_bytes());
        Key::new(n, &e, primes.each_ref().map(|prime| secret(prime)), exponents, coefficient)
            .expect("a usual key")
    }

    /// Returns `count` jobs with two keys, and the results of the crate rsa.
    fn jobs(bits: usize, count: usize) -> Vec<(Job, Vec<u8>)> {
        // The crate takes seconds to find the primes of a long key.
        let pairs = [0; 2].map(|_| match primes(bits, &Crates).expect("memory") {
            Some(primes) => {
                let [p, q] = primes.map(|prime| BoxedUint::from_be_slice_vartime(&prime));
                PrivateKey::from_p_q(p, q, BoxedUint::from(65537_u32)).expect("a key pair")
            }
            None => PrivateKey::new(&mut UnwrapErr(SysRng), bits).expect("a key pair"),
        });
        let keys = pairs.each_ref().map(|pair| Arc::new(key_of(pair)));
        let numbers = (0..count).map(|i| {
            let mut number = Secret::zeroed(bits / 8);
            match i {
                // 0, 1 and n - 1 are their own results.
                0 => {}
                1 => number[bits / 8 - 1] = 1,
                2 => {
                    number.copy_from_slice(&keys[0].n);
                    number[bits / 8 - 1] -= 1;
                }
                _ => getrandom::fill(&mut number[1..]).expect("random bytes"),
            }
            let base = BoxedUint::from_be_slice(&number, bits as u32).expect("a number");
            let expected = rsa_decrypt_and_check(&pairs[i % 2], Some(&mut UnwrapErr(SysRng)), &base);
            let expected = expected.expect("a signature").to_be_bytes().into_vec();
            (Job::new(Arc::clone(&keys[i % 2]), number).expect("a number below n"), expected)
        });
        numbers.collect()
    }

    fn check(compute: impl Fn(&mut [Job]), jobs: Vec<(Job, Vec<u8>)>) {
        let (mut jobs, expected): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        compute(&mut jobs);
        for (job, expected) in jobs.iter().zip(expected) {
            assert!(job.result.as_deref() == Some(&expected[..]));
        }
    }

    #[test]
    fn results_are_those_of_the_crate_without_vector_instructions() {
        check(|jobs| compute::<Portable, 20, 40>(jobs, 1024), jobs(2048, 5));
    }

    #[test]
    fn results_are_those_of_the_crate() {
        for (bits, counts) in [(2048, 1..=LANES), (3072, LANES..=LANES), (4096, 3..=3)] {
            let Some(queue) = queue(bits) else { return };
            for count in counts {
                check(|jobs| queue.compute(jobs), jobs(bits, count));
            }
        }
    }

    #[test]
    fn a_wrong_result_is_not_returned_and_the_other_lanes_are_right() {
        let Some(queue) = queue(2048) else { return };
        let (mut jobs, expected): (Vec<_>, Vec<_>) = jobs(2048, 6).into_iter().unzip();
        let key = &jobs[4].key;
        let mut wrong = key.exponents[0].duplicate();
        wrong[7] ^= 1;
        let copy = |secret: &Secret| secret.duplicate();
        jobs[4].key = Arc::new(Key {
            n: copy(&key.n),
            primes: key.primes.each_ref().map(copy),
            exponents: [wrong, copy(&key.exponents[1])],
            coefficient: copy(&key.coefficient),
        });
        queue.compute(&mut jobs);
        for (i, (job, expected)) in jobs.iter().zip(&expected).enumerate() {
            assert_eq!(job.result.as_deref() == Some(&expected[..]), i != 4, "{i}");
            assert_eq!(job.result.is_none(), i == 4, "{i}");
        }
    }

    #[test]
    fn leading_zeros_do_not_shorten_the_numbers_of_a_key() {
        let number = |len| Secret::from(&[0xff; 256][..len]);
        let key = |dp, qinv| {
            Key::new(number(256), &[1, 0, 1], [128; 2].map(number), [dp, 128].map(number), number(qinv))
        };
        for (dp, qinv) in [(128, 128), (127, 128), (0, 126)] {
            let key = key(dp, qinv).expect("a key");
            assert_eq!([&key.exponents[0], &key.exponents[1], &key.coefficient].map(|it| it.len()), [128; 3]);
        }
        assert!(key(129, 128).is_none() && key(128, 129).is_none());
    }
}
