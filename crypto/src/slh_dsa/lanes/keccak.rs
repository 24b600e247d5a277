//! Keccak-f[1600] (FIPS 202, 3.2 to 3.4) of four states at once, with AVX2.
#![allow(unsafe_code, reason = "vector instructions")]

/// The number of states.
pub(in super::super) const LANES: usize = 4;
/// The number of 64-bit words of a state. Word x + 5y is lane (x, y) of FIPS 202.
const WORDS: usize = 25;

pub(in super::super) type States = [[u64; LANES]; WORDS];

/// Proof that the processor has AVX2.
#[derive(Clone, Copy)]
pub(in super::super) struct Keccak(());

impl Keccak {
    /// Returns `None` if the processor has no AVX2.
    pub(in super::super) fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        let able = is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        let able = false;
        able.then_some(Self(()))
    }

    pub(in super::super) fn permute(self, states: &mut States) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `detect` found the feature that the function enables.
        unsafe {
            x86::permute(states);
        }
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("no processor of this architecture has AVX2, so no value exists: {states:?}");
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, _mm256_andnot_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_set1_epi64x,
        _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
    };

    use super::{States, WORDS};

    #[target_feature(enable = "avx2")]
    pub(super) fn permute(states: &mut States) {
        let mut a = [_mm256_setzero_si256(); WORDS];
        for (word, lanes) in a.iter_mut().zip(&*states) {
            // SAFETY: reads the 32 bytes of the array.
            *word = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
        }
        for constants in ROUND_CONSTANTS.as_chunks::<2>().0 {
            // Two rounds per pass, so that the words need not move back.
            let b = round(&a, constants[0]);
            a = round(&b, constants[1]);
        }
        for (word, lanes) in a.iter().zip(states) {
            // SAFETY: writes the 32 bytes of the array.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), *word) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate<const LEFT: i32, const RIGHT: i32>(word: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_slli_epi64::<LEFT>(word), _mm256_srli_epi64::<RIGHT>(word))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn round(a: &[__m256i; WORDS], constant: u64) -> [__m256i; WORDS] {
        // Theta.
        let mut c = [_mm256_setzero_si256(); 5];
        for x in 0..5 {
            let first = _mm256_xor_si256(_mm256_xor_si256(a[x], a[x + 5]), a[x + 10]);
            c[x] = _mm256_xor_si256(first, _mm256_xor_si256(a[x + 15], a[x + 20]));
        }
        let mut d = [_mm256_setzero_si256(); 5];
        for x in 0..5 {
            d[x] = _mm256_xor_si256(c[(x + 4) % 5], rotate::<1, 63>(c[(x + 1) % 5]));
        }
        // Rho, pi and chi. A plane of the result comes from five words, each with its rotation.
        let mut out = [_mm256_setzero_si256(); WORDS];
        macro_rules! plane {
            ($start:literal: $(($word:literal, $left:literal)),*) => {
                let b = [$(rotate::<$left, { 64 - $left }>(_mm256_xor_si256(a[$word], d[$word % 5]))),*];
                for x in 0..5 {
                    let chi = _mm256_andnot_si256(b[(x + 1) % 5], b[(x + 2) % 5]);
                    out[$start + x] = _mm256_xor_si256(b[x], chi);
                }
            };
        }
        plane!(0: (0, 0), (6, 44), (12, 43), (18, 21), (24, 14));
        plane!(5: (3, 28), (9, 20), (10, 3), (16, 45), (22, 61));
        plane!(10: (1, 1), (7, 6), (13, 25), (19, 8), (20, 18));
        plane!(15: (4, 27), (5, 36), (11, 10), (17, 15), (23, 56));
        plane!(20: (2, 62), (8, 55), (14, 39), (15, 41), (21, 2));
        // Iota.
        out[0] = _mm256_xor_si256(out[0], _mm256_set1_epi64x(constant.cast_signed()));
        out
    }

    /// FIPS 202, 3.2.5.
    #[rustfmt::skip]
    const ROUND_CONSTANTS: [u64; 24] = [
        0x0000_0000_0000_0001, 0x0000_0000_0000_8082, 0x8000_0000_0000_808a, 0x8000_0000_8000_8000,
        0x0000_0000_0000_808b, 0x0000_0000_8000_0001, 0x8000_0000_8000_8081, 0x8000_0000_0000_8009,
        0x0000_0000_0000_008a, 0x0000_0000_0000_0088, 0x0000_0000_8000_8009, 0x0000_0000_8000_000a,
        0x0000_0000_8000_808b, 0x8000_0000_0000_008b, 0x8000_0000_0000_8089, 0x8000_0000_0000_8003,
        0x8000_0000_0000_8002, 0x8000_0000_0000_0080, 0x0000_0000_0000_800a, 0x8000_0000_8000_000a,
        0x8000_0000_8000_8081, 0x8000_0000_0000_8080, 0x0000_0000_8000_0001, 0x8000_0000_8000_8008,
    ];
}

#[cfg(test)]
mod tests {
    use shake::Shake256;
    use shake::digest::{ExtendableOutput, Update};

    use super::*;

    /// Hashes a random block per lane, with the padding of SHAKE256.
    #[test]
    fn each_lane_equals_the_crate() {
        let Some(keccak) = Keccak::detect() else { return };
        for _ in 0..100 {
            let mut blocks = [[0; 128]; LANES];
            getrandom::fill(blocks.as_flattened_mut()).unwrap();
            let mut states = States::default();
            for (lane, block) in blocks.iter().enumerate() {
                for (word, bytes) in states.iter_mut().zip(block.as_chunks().0) {
                    word[lane] = u64::from_le_bytes(*bytes);
                }
                states[16][lane] = 0x1f | 1 << 63;
            }
            keccak.permute(&mut states);
            for (lane, block) in blocks.iter().enumerate() {
                let mut expected = [0; 136];
                Shake256::default().chain(block).finalize_xof_into(&mut expected);
                let words = states.iter().flat_map(|word| word[lane].to_le_bytes());
                assert_eq!(words.take(136).collect::<Vec<_>>(), expected);
            }
        }
    }
}
