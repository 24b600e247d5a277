//! The compression function of SHA-256 (FIPS 180-4, 6.2.2). The instructions of the SHA extensions
//! have a latency of several cycles. Two blocks at once fill this time.
#![allow(unsafe_code, reason = "vector instructions")]

use sha2::block_api::compress256;

#[allow(unused_mut, reason = "other processors compress all blocks with the crate")]
pub(in super::super) fn compress_each(mut states: &mut [[u32; 8]], mut blocks: &[[u8; 64]]) {
    debug_assert_eq!(states.len(), blocks.len());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") {
        let ((pairs, last_state), (block_pairs, last_block)) = (states.as_chunks_mut(), blocks.as_chunks());
        // SAFETY: the processor has the features that the function enables.
        unsafe { x86::compress_pairs(pairs, block_pairs) };
        (states, blocks) = (last_state, last_block);
    }
    for (state, block) in states.iter_mut().zip(blocks) {
        compress256(state, &[*block]);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_loadu_si128, _mm_set_epi64x,
        _mm_setzero_si128, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32,
        _mm_shuffle_epi8, _mm_shuffle_epi32, _mm_storeu_si128,
    };

    #[target_feature(enable = "sha,sse4.1")]
    pub(super) fn compress_pairs(states: &mut [[[u32; 8]; 2]], blocks: &[[[u8; 64]; 2]]) {
        for (states, blocks) in states.iter_mut().zip(blocks) {
            compress_pair(states, blocks);
        }
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    fn compress_pair(states: &mut [[u32; 8]; 2], blocks: &[[u8; 64]; 2]) {
        let start = [load_state(&states[0]), load_state(&states[1])];
        let mut working = start;
        let mut w = [load_block(&blocks[0]), load_block(&blocks[1])];
        for i in 0..4 {
            rounds_4(i, i, &mut working, &w);
        }
        for quarter in 1..4 {
            for i in 0..4 {
                w[0][i] = next_words(i, &w[0]);
                w[1][i] = next_words(i, &w[1]);
                rounds_4(4 * quarter + i, i, &mut working, &w);
            }
        }
        for lane in 0..2 {
            for half in 0..2 {
                working[lane][half] = _mm_add_epi32(working[lane][half], start[lane][half]);
            }
            store_state(&mut states[lane], working[lane]);
        }
    }

    /// Four rounds of both lanes. `group` is the number of the first round divided by 4, and
    /// `w[lane][i]` has their words of the message.
    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    fn rounds_4(group: usize, i: usize, working: &mut [[__m128i; 2]; 2], w: &[[__m128i; 4]; 2]) {
        let k = load(&K[group]);
        for lane in 0..2 {
            let [abef, cdgh] = &mut working[lane];
            let sum = _mm_add_epi32(w[lane][i], k);
            *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
            *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
    }

    /// The message schedule: the four words that replace `w[i]`.
    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    fn next_words(i: usize, w: &[__m128i; 4]) -> __m128i {
        let [w0, w1, w2, w3] = [w[i], w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]];
        let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
        _mm_sha256msg2_epu32(sum, w3)
    }

    /// Loads the eight words in the order of the instructions: A, B, E, F and C, D, G, H.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    fn load_state(state: &[u32; 8]) -> [__m128i; 2] {
        let ([abcd, efgh], _) = state.as_chunks() else { unreachable!("eight words") };
        let cdab = _mm_shuffle_epi32(load(abcd), 0xb1);
        let efgh = _mm_shuffle_epi32(load(efgh), 0x1b);
        [_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xf0)]
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    fn store_state(state: &mut [u32; 8], [abef, cdgh]: [__m128i; 2]) {
        let ([abcd, efgh], _) = state.as_chunks_mut() else { unreachable!("eight words") };
        let feba = _mm_shuffle_epi32(abef, 0x1b);
        let dchg = _mm_shuffle_epi32(cdgh, 0xb1);
        store(abcd, _mm_blend_epi16(feba, dchg, 0xf0));
        store(efgh, _mm_alignr_epi8(dchg, feba, 8));
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    fn load_block(block: &[u8; 64]) -> [__m128i; 4] {
        let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let mut words = [_mm_setzero_si128(); 4];
        for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
            // SAFETY: reads the 16 bytes of the array.
            let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
            *words = _mm_shuffle_epi8(bytes, swap);
        }
        words
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    fn load(words: &[u32; 4]) -> __m128i {
        // SAFETY: reads the 16 bytes of the array.
        unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    fn store(words: &mut [u32; 4], value: __m128i) {
        // SAFETY: writes the 16 bytes of the array.
        unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), value) }
    }

    /// FIPS 180-4, 4.2.2.
    #[rustfmt::skip]
    const K: [[u32; 4]; 16] = [
        [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5], [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
        [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3], [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
        [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc], [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
        [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7], [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
        [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13], [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
        [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3], [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
        [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5], [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
        [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208], [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_equals_the_crate() {
        for count in 0..=9 {
            let mut bytes = [[0; 64]; 18];
            getrandom::fill(bytes.as_flattened_mut()).unwrap();
            let blocks = &bytes[..count];
            let mut states: Vec<[u32; 8]> = bytes[9..][..count]
                .iter()
                .map(|bytes| std::array::from_fn(|i| u32::from_le_bytes(bytes.as_chunks().0[i])))
                .collect();
            let mut expected = states.clone();
            for (state, block) in expected.iter_mut().zip(blocks) {
                compress256(state, &[*block]);
            }
            compress_each(&mut states, blocks);
            assert_eq!(states, expected);
        }
    }
}
