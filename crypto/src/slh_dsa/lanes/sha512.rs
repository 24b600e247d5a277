//! The compression function of SHA-512 (FIPS 180-4, 6.4.2), of four blocks at once with AVX2.
#![allow(unsafe_code, reason = "vector instructions")]

use sha2::block_api::compress512;

/// The number of blocks.
const LANES: usize = 4;

#[allow(unused_mut, reason = "other processors compress all blocks with the crate")]
pub(in super::super) fn compress_each(mut states: &mut [[u64; 8]], mut blocks: &[[u8; 128]]) {
    debug_assert_eq!(states.len(), blocks.len());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        let ((groups, last_states), (block_groups, last_blocks)) =
            (states.as_chunks_mut(), blocks.as_chunks());
        for (states, blocks) in groups.iter_mut().zip(block_groups) {
            // SAFETY: the processor has the feature that the function enables.
            unsafe { x86::compress(states, blocks) };
        }
        (states, blocks) = (last_states, last_blocks);
    }
    for (state, block) in states.iter_mut().zip(blocks) {
        compress512(state, &[*block]);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_and_si256, _mm256_andnot_si256, _mm256_extract_epi64,
        _mm256_or_si256, _mm256_set_epi64x, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_slli_epi64,
        _mm256_srli_epi64, _mm256_xor_si256,
    };

    use super::LANES;

    #[target_feature(enable = "avx2")]
    pub(super) fn compress(states: &mut [[u64; 8]; LANES], blocks: &[[u8; 128]; LANES]) {
        let mut start = [_mm256_setzero_si256(); 8];
        for (i, word) in start.iter_mut().enumerate() {
            *word = vector([states[0][i], states[1][i], states[2][i], states[3][i]]);
        }
        let mut w = [_mm256_setzero_si256(); 16];
        for (i, word) in w.iter_mut().enumerate() {
            *word = vector(blocks.each_ref().map(|block| u64::from_be_bytes(block.as_chunks().0[i])));
        }
        let mut working = start;
        for (part, constants) in K.as_chunks::<16>().0.iter().enumerate() {
            if part > 0 {
                next_words(&mut w);
            }
            for (word, k) in w.iter().zip(constants) {
                round(&mut working, *word, *k);
            }
        }
        for i in 0..8 {
            let sum = _mm256_add_epi64(start[i], working[i]);
            states[0][i] = _mm256_extract_epi64::<0>(sum).cast_unsigned();
            states[1][i] = _mm256_extract_epi64::<1>(sum).cast_unsigned();
            states[2][i] = _mm256_extract_epi64::<2>(sum).cast_unsigned();
            states[3][i] = _mm256_extract_epi64::<3>(sum).cast_unsigned();
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn vector([a, b, c, d]: [u64; LANES]) -> __m256i {
        _mm256_set_epi64x(d.cast_signed(), c.cast_signed(), b.cast_signed(), a.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn round([a, b, c, d, e, f, g, h]: &mut [__m256i; 8], word: __m256i, constant: u64) {
        let ch = _mm256_xor_si256(_mm256_and_si256(*e, *f), _mm256_andnot_si256(*e, *g));
        let maj = _mm256_or_si256(_mm256_and_si256(*a, *b), _mm256_and_si256(*c, _mm256_or_si256(*a, *b)));
        let sigma_0 = xor_3(rotate::<28, 36>(*a), rotate::<34, 30>(*a), rotate::<39, 25>(*a));
        let sigma_1 = xor_3(rotate::<14, 50>(*e), rotate::<18, 46>(*e), rotate::<41, 23>(*e));
        let input = _mm256_add_epi64(word, _mm256_set1_epi64x(constant.cast_signed()));
        let t1 = _mm256_add_epi64(_mm256_add_epi64(*h, sigma_1), _mm256_add_epi64(ch, input));
        let t2 = _mm256_add_epi64(sigma_0, maj);
        let (new_e, new_a) = (_mm256_add_epi64(*d, t1), _mm256_add_epi64(t1, t2));
        (*h, *g, *f, *e, *d, *c, *b, *a) = (*g, *f, *e, new_e, *c, *b, *a, new_a);
    }

    /// The message schedule: replaces the words by the next 16.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn next_words(w: &mut [__m256i; 16]) {
        for i in 0..16 {
            let (w1, w14) = (w[(i + 1) % 16], w[(i + 14) % 16]);
            let sigma_0 = xor_3(rotate::<1, 63>(w1), rotate::<8, 56>(w1), _mm256_srli_epi64::<7>(w1));
            let sigma_1 = xor_3(rotate::<19, 45>(w14), rotate::<61, 3>(w14), _mm256_srli_epi64::<6>(w14));
            let sum =
                _mm256_add_epi64(_mm256_add_epi64(w[i], sigma_0), _mm256_add_epi64(w[(i + 9) % 16], sigma_1));
            w[i] = sum;
        }
    }

    /// Rotates to the right by `RIGHT`, which is 64 - `LEFT`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate<const RIGHT: i32, const LEFT: i32>(word: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_srli_epi64::<RIGHT>(word), _mm256_slli_epi64::<LEFT>(word))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor_3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_xor_si256(_mm256_xor_si256(a, b), c)
    }

    /// FIPS 180-4, 4.2.3.
    #[rustfmt::skip]
    const K: [u64; 80] = [
        0x428a_2f98_d728_ae22, 0x7137_4491_23ef_65cd, 0xb5c0_fbcf_ec4d_3b2f, 0xe9b5_dba5_8189_dbbc,
        0x3956_c25b_f348_b538, 0x59f1_11f1_b605_d019, 0x923f_82a4_af19_4f9b, 0xab1c_5ed5_da6d_8118,
        0xd807_aa98_a303_0242, 0x1283_5b01_4570_6fbe, 0x2431_85be_4ee4_b28c, 0x550c_7dc3_d5ff_b4e2,
        0x72be_5d74_f27b_896f, 0x80de_b1fe_3b16_96b1, 0x9bdc_06a7_25c7_1235, 0xc19b_f174_cf69_2694,
        0xe49b_69c1_9ef1_4ad2, 0xefbe_4786_384f_25e3, 0x0fc1_9dc6_8b8c_d5b5, 0x240c_a1cc_77ac_9c65,
        0x2de9_2c6f_592b_0275, 0x4a74_84aa_6ea6_e483, 0x5cb0_a9dc_bd41_fbd4, 0x76f9_88da_8311_53b5,
        0x983e_5152_ee66_dfab, 0xa831_c66d_2db4_3210, 0xb003_27c8_98fb_213f, 0xbf59_7fc7_beef_0ee4,
        0xc6e0_0bf3_3da8_8fc2, 0xd5a7_9147_930a_a725, 0x06ca_6351_e003_826f, 0x1429_2967_0a0e_6e70,
        0x27b7_0a85_46d2_2ffc, 0x2e1b_2138_5c26_c926, 0x4d2c_6dfc_5ac4_2aed, 0x5338_0d13_9d95_b3df,
        0x650a_7354_8baf_63de, 0x766a_0abb_3c77_b2a8, 0x81c2_c92e_47ed_aee6, 0x9272_2c85_1482_353b,
        0xa2bf_e8a1_4cf1_0364, 0xa81a_664b_bc42_3001, 0xc24b_8b70_d0f8_9791, 0xc76c_51a3_0654_be30,
        0xd192_e819_d6ef_5218, 0xd699_0624_5565_a910, 0xf40e_3585_5771_202a, 0x106a_a070_32bb_d1b8,
        0x19a4_c116_b8d2_d0c8, 0x1e37_6c08_5141_ab53, 0x2748_774c_df8e_eb99, 0x34b0_bcb5_e19b_48a8,
        0x391c_0cb3_c5c9_5a63, 0x4ed8_aa4a_e341_8acb, 0x5b9c_ca4f_7763_e373, 0x682e_6ff3_d6b2_b8a3,
        0x748f_82ee_5def_b2fc, 0x78a5_636f_4317_2f60, 0x84c8_7814_a1f0_ab72, 0x8cc7_0208_1a64_39ec,
        0x90be_fffa_2363_1e28, 0xa450_6ceb_de82_bde9, 0xbef9_a3f7_b2c6_7915, 0xc671_78f2_e372_532b,
        0xca27_3ece_ea26_619c, 0xd186_b8c7_21c0_c207, 0xeada_7dd6_cde0_eb1e, 0xf57d_4f7f_ee6e_d178,
        0x06f0_67aa_7217_6fba, 0x0a63_7dc5_a2c8_98a6, 0x113f_9804_bef9_0dae, 0x1b71_0b35_131c_471b,
        0x28db_77f5_2304_7d84, 0x32ca_ab7b_40c7_2493, 0x3c9e_be0a_15c9_bebc, 0x431d_67c4_9c10_0d4c,
        0x4cc5_d4be_cb3e_42b6, 0x597f_299c_fc65_7e2a, 0x5fcb_6fab_3ad6_faec, 0x6c44_198c_4a47_5817,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_equals_the_crate() {
        for count in 0..=9 {
            let mut bytes = [[0; 128]; 18];
            getrandom::fill(bytes.as_flattened_mut()).unwrap();
            let blocks = &bytes[..count];
            let mut states: Vec<[u64; 8]> = bytes[9..][..count]
                .iter()
                .map(|bytes| std::array::from_fn(|i| u64::from_le_bytes(bytes.as_chunks().0[i])))
                .collect();
            let mut expected = states.clone();
            for (state, block) in expected.iter_mut().zip(blocks) {
                compress512(state, &[*block]);
            }
            compress_each(&mut states, blocks);
            assert_eq!(states, expected);
        }
    }
}
