//! The nonces that a token generates for the messages of one operation (PKCS#11 3.2, "AES-GCM
//! authenticated encryption / decryption": `ivGenerator`).
//!
//! A counter never gives the same nonce twice between a `C_MessageEncryptInit` and the end of the
//! operation. It fails when it is used up, and when the value that it is XORed with changes. As the
//! specification says, it starts at zero with each `C_MessageEncryptInit`. So the application must
//! use other fixed bits or another key for each operation.

use tracing::warn;

use crate::backend::Random;
use crate::error::Result;
use crate::mechanism::field;
use crate::mechanism::message::{Generator, MessageParams};

/// Minimum number of random bits. With 64 bits, the probability that two of 2^32 messages get the
/// same nonce is 39 %.
const LEAST_RANDOM_BITS: usize = 64;

/// The state of the generators of one operation.
#[derive(Default)]
pub(crate) struct Nonces {
    counted: Counting,
    /// The state of `CKG_GENERATE`, which counts from a random start. Two messages of an operation
    /// never get the same nonce while the length of the nonce and the number of its fixed bits stay
    /// the same. Messages of two operations get the same nonce only as rarely as with random nonces
    /// (SP 800-38D, 8.2.2).
    any: Counting,
}

/// A counter and the value that it is XORed with.
#[derive(Default)]
struct Counting {
    next: u64,
    base: Option<Base>,
}

/// The bits of a nonce that are not fixed. The fixed bits are 0 here.
struct Base {
    fixed_bits: usize,
    nonce: Box<[u8]>,
}

impl Nonces {
    /// Generates the bits of the nonce that are not fixed. Fails with `MechanismParamInvalid` if no
    /// unused nonce is left, or if the parameter breaks a rule of its generator.
    #[inline]
    pub(crate) fn generate(&mut self, random: &dyn Random, params: &mut MessageParams) -> Result<()> {
        match params.generator() {
            Generator::None => Ok(()),
            generator => self.generate_with(generator, random, params),
        }
    }

    fn generate_with(
        &mut self,
        generator: Generator,
        random: &dyn Random,
        params: &mut MessageParams,
    ) -> Result<()> {
        let fixed_bits = params.fixed_bits();
        let nonce = params.nonce_mut();
        let counts = matches!(generator, Generator::Counter | Generator::CounterXor);
        if counts && self.counted.base.is_none() {
            warn!(
                fixed_bits,
                "the nonce counter starts at zero: use other fixed bits for another operation with this key"
            );
        }
        match generator {
            Generator::None => Ok(()),
            Generator::Random if 8 * nonce.len() - fixed_bits < LEAST_RANDOM_BITS => {
                Err(field::refused("ulIvFixedBits: too few bits are random"))
            }
            Generator::Random => draw(random, nonce, fixed_bits),
            Generator::Counter => {
                nonce.iter_mut().enumerate().for_each(|(at, byte)| *byte &= !free(at, fixed_bits));
                self.counted.next(nonce, fixed_bits)
            }
            Generator::CounterXor => self.counted.next(nonce, fixed_bits),
            Generator::Any => self.any.next_from_chance(random, nonce, fixed_bits),
        }
    }
}

impl Counting {
    fn next(&mut self, nonce: &mut [u8], fixed_bits: usize) -> Result<()> {
        match &self.base {
            None => self.base = Some(Base::of(nonce, fixed_bits)),
            // "The value of the non-fixed portion passed must not vary from call to call."
            Some(base) if !base.is_of(nonce, fixed_bits) => {
                return Err(field::refused("pIv: the bits that count changed"));
            }
            Some(_) => {}
        }
        let free = 8 * nonce.len() - fixed_bits;
        let used_up = free < u64::BITS as usize && self.next >> free != 0;
        let after = self.next.checked_add(1).filter(|_| !used_up);
        let after = after.ok_or_else(|| field::refused("ulIvFixedBits: the counter is used up"))?;
        nonce.iter_mut().rev().zip(self.next.to_le_bytes()).for_each(|(byte, count)| *byte ^= count);
        self.next = after;
        Ok(())
    }

    /// Makes the next nonce from a random start. Draws the start if there is no start of this
    /// length with this number of fixed bits.
    fn next_from_chance(&mut self, random: &dyn Random, nonce: &mut [u8], fixed_bits: usize) -> Result<()> {
        let kept = self.base.take().filter(|base| base.has_form(nonce, fixed_bits));
        match kept {
            Some(base) => self.base = Some(base),
            None => {
                draw(random, nonce, fixed_bits)?;
                *self = Self { next: 0, base: Some(Base::of(nonce, fixed_bits)) };
            }
        }
        if let Some(base) = &self.base {
            nonce.iter_mut().zip(&base.nonce).enumerate().for_each(|(at, (byte, start))| {
                *byte = *byte & !free(at, fixed_bits) | start;
            });
        }
        self.next(nonce, fixed_bits)
    }
}

impl Base {
    fn of(nonce: &[u8], fixed_bits: usize) -> Self {
        let nonce = nonce.iter().enumerate().map(|(at, byte)| byte & free(at, fixed_bits)).collect();
        Self { fixed_bits, nonce }
    }

    fn has_form(&self, nonce: &[u8], fixed_bits: usize) -> bool {
        self.fixed_bits == fixed_bits && self.nonce.len() == nonce.len()
    }

    fn is_of(&self, nonce: &[u8], fixed_bits: usize) -> bool {
        let mut pairs = nonce.iter().zip(&self.nonce).enumerate();
        self.has_form(nonce, fixed_bits) && pairs.all(|(at, (byte, own))| byte & free(at, fixed_bits) == *own)
    }
}

/// Returns a mask of the bits of one byte that are not fixed. The fixed bits are the most
/// significant bits of the nonce.
fn free(at: usize, fixed_bits: usize) -> u8 {
    match fixed_bits.saturating_sub(8 * at) {
        0 => 0xff,
        fixed @ 1..8 => 0xff >> fixed,
        _ => 0,
    }
}

/// Fills the bits that are not fixed with random bits.
fn draw(random: &dyn Random, nonce: &mut [u8], fixed_bits: usize) -> Result<()> {
    const CHUNK: usize = 16;
    for (number, chunk) in nonce.chunks_mut(CHUNK).enumerate() {
        let mut drawn = [0; CHUNK];
        random.fill(&mut drawn[..chunk.len()])?;
        for (at, (byte, chance)) in chunk.iter_mut().zip(drawn).enumerate() {
            let free = free(number * CHUNK + at, fixed_bits);
            *byte = *byte & !free | chance & free;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::AeadScheme;
    use crate::error::Error;

    const RANDOM: &dyn Random = crate::backend::Provider::ALL[0].random;

    /// Returns up to 5 nonces that are generated from `given`.
    fn all(generator: Generator, fixed_bits: usize, given: &[u8]) -> Vec<Vec<u8>> {
        let mut nonces = Nonces::default();
        let mut next = || {
            let mut params = MessageParams::new(AeadScheme::AesGcm, given, 16).expect("lengths of GCM");
            params.set_generator(generator, fixed_bits).expect("bits of the nonce");
            nonces.generate(RANDOM, &mut params).ok().map(|()| params.nonce().to_vec())
        };
        std::iter::from_fn(&mut next).take(5).collect()
    }

    #[test]
    fn a_counter_starts_at_zero_and_fails_when_it_is_used_up() {
        let counted = all(Generator::Counter, 22, &[0xff; 3]);
        assert_eq!(counted, [[0xff, 0xff, 0xfc], [0xff, 0xff, 0xfd], [0xff, 0xff, 0xfe], [0xff; 3]]);
        assert_eq!(all(Generator::Counter, 24, &[7; 3]), [[7; 3]]);
        assert_eq!(all(Generator::Counter, 0, &[9; 12])[4], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
    }

    #[test]
    fn a_counter_is_xored_onto_the_bits_that_are_not_fixed() {
        let counted = all(Generator::CounterXor, 4, &[0xab, 0xcd]);
        assert_eq!(counted[..3], [[0xab, 0xcd], [0xab, 0xcc], [0xab, 0xcf]]);
        let counted = all(Generator::CounterXor, 22, &[1, 2, 3]);
        assert_eq!(counted, [[1, 2, 3], [1, 2, 2], [1, 2, 1], [1, 2, 0]]);
    }

    #[test]
    fn the_bits_under_a_xored_counter_must_not_change() {
        let mut nonces = Nonces::default();
        let mut next = |generator, nonce: &[u8], fixed_bits| {
            let mut params = MessageParams::new(AeadScheme::AesGcm, nonce, 16).expect("lengths of GCM");
            params.set_generator(generator, fixed_bits).expect("bits of the nonce");
            nonces.generate(RANDOM, &mut params)
        };
        assert_eq!(next(Generator::CounterXor, &[1; 12], 32), Ok(()));
        for (nonce, fixed_bits) in [(&[2; 12][..], 32), (&[1; 13], 32), (&[1; 12], 31)] {
            assert_eq!(next(Generator::CounterXor, nonce, fixed_bits), Err(Error::MechanismParamInvalid));
        }
        // `Generator::Counter` replaces the bits under the counter by zeros, so they have changed
        // here.
        assert_eq!(next(Generator::Counter, &[1; 12], 32), Err(Error::MechanismParamInvalid));
        // The application may change the fixed bits.
        assert_eq!(next(Generator::CounterXor, &[9, 9, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1], 32), Ok(()));
    }

    #[test]
    fn generated_nonces_keep_their_fixed_bits_and_never_repeat() {
        for generator in [Generator::Any, Generator::Random] {
            let made = all(generator, 20, &[0x5a; 12]);
            assert_eq!(made.len(), 5);
            for (at, nonce) in made.iter().enumerate() {
                assert_eq!((&nonce[..2], nonce[2] >> 4), (&[0x5a, 0x5a][..], 5));
                assert!(!made[..at].contains(nonce));
            }
        }
        // Two free bits give all four values, in any order.
        let mut made = all(Generator::Any, 22, &[0; 3]);
        made.sort();
        assert_eq!(made, [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3]]);
    }

    #[test]
    fn too_few_random_bits_are_refused() {
        assert!(all(Generator::Random, 33, &[0; 12]).is_empty());
        assert_eq!(all(Generator::Random, 32, &[0; 12]).len(), 5);
    }

    #[test]
    fn a_nonce_of_the_application_is_not_changed() {
        assert_eq!(all(Generator::None, 0, &[3; 12]), [[3; 12]; 5]);
    }
}
