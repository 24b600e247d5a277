//! A vector of eight 64-bit lanes. A digit has 52 bits, and a lane has room for sums of digits.
#![allow(unsafe_code, reason = "vector instructions")]

/// The number of computations.
pub(super) const LANES: usize = 8;
/// The size of a digit in bits.
pub(super) const DIGIT: usize = 52;
pub(super) const MASK: u64 = (1 << DIGIT) - 1;

/// What the algorithms need of a processor. All functions work on each lane by itself.
pub(super) trait Vector: Copy {
    fn load(lanes: &[u64; LANES]) -> Self;
    fn store(self) -> [u64; LANES];
    fn splat(lane: u64) -> Self;
    /// Adds the low 52 bits of the product of two digits. Only the low 52 bits of `a` and `b`
    /// count.
    fn add_low(self, a: Self, b: Self) -> Self;
    /// Adds the high 52 bits of the product of two digits.
    fn add_high(self, a: Self, b: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    /// Shifts to the right by the size of a digit.
    fn carry(self) -> Self;
    /// The highest bit of each lane: 1 if the last subtraction went below zero.
    fn borrow(self) -> Self;
    /// Takes the lanes of `other` where `a` and `b` are equal.
    fn replace(self, other: Self, a: Self, b: Self) -> Self;
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::Ifma;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_loadu_si512,
        _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_mov_epi64, _mm512_set1_epi64,
        _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
    };

    use super::{DIGIT, LANES, Vector};

    /// A register of AVX-512. Only code that is inlined into a function with the features
    /// `avx512f` and `avx512ifma` may use it.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Ifma(__m512i);

    macro_rules! instructions {
        ($($name:ident($($argument:ident),*) = $instruction:expr;)*) => {$(
            #[inline(always)]
            fn $name(self, $($argument: Self),*) -> Self {
                // SAFETY: the promise of the type: the processor has the instruction.
                Self(unsafe { $instruction(self.0, $($argument.0),*) })
            }
        )*};
    }

    impl Vector for Ifma {
        #[inline(always)]
        fn load(lanes: &[u64; LANES]) -> Self {
            // SAFETY: reads the 64 bytes of the array. For the instruction, see the type.
            Self(unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) })
        }

        #[inline(always)]
        fn store(self) -> [u64; LANES] {
            let mut lanes = [0; LANES];
            // SAFETY: writes the 64 bytes of the array. For the instruction, see the type.
            unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), self.0) };
            lanes
        }

        #[inline(always)]
        fn splat(lane: u64) -> Self {
            // SAFETY: see the type.
            Self(unsafe { _mm512_set1_epi64(lane.cast_signed()) })
        }

        instructions! {
            add_low(a, b) = _mm512_madd52lo_epu64;
            add_high(a, b) = _mm512_madd52hi_epu64;
            add(other) = _mm512_add_epi64;
            sub(other) = _mm512_sub_epi64;
            and(other) = _mm512_and_si512;
            carry() = _mm512_srli_epi64::<{ DIGIT as u32 }>;
            borrow() = _mm512_srli_epi64::<63>;
        }

        #[inline(always)]
        fn replace(self, other: Self, a: Self, b: Self) -> Self {
            // SAFETY: see the type.
            Self(unsafe { _mm512_mask_mov_epi64(self.0, _mm512_cmpeq_epi64_mask(a.0, b.0), other.0) })
        }
    }
}

/// The same without vector instructions, so that each machine tests the algorithms.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(super) struct Portable([u64; LANES]);

#[cfg(test)]
impl Portable {
    fn map(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|lane| operation(self.0[lane], other.0[lane])))
    }

    fn product(self, other: Self, part: impl Fn(u128) -> u128) -> Self {
        self.map(other, |a, b| part(u128::from(a & MASK) * u128::from(b & MASK)) as u64 & MASK)
    }
}

#[cfg(test)]
impl Vector for Portable {
    fn load(lanes: &[u64; LANES]) -> Self {
        Self(*lanes)
    }
    fn store(self) -> [u64; LANES] {
        self.0
    }
    fn splat(lane: u64) -> Self {
        Self([lane; LANES])
    }
    fn add_low(self, a: Self, b: Self) -> Self {
        self.add(a.product(b, |product| product))
    }
    fn add_high(self, a: Self, b: Self) -> Self {
        self.add(a.product(b, |product| product >> DIGIT))
    }
    fn add(self, other: Self) -> Self {
        self.map(other, u64::wrapping_add)
    }
    fn sub(self, other: Self) -> Self {
        self.map(other, u64::wrapping_sub)
    }
    fn and(self, other: Self) -> Self {
        self.map(other, |a, b| a & b)
    }
    fn carry(self) -> Self {
        self.map(self, |a, _| a >> DIGIT)
    }
    fn borrow(self) -> Self {
        self.map(self, |a, _| a >> 63)
    }
    fn replace(self, other: Self, a: Self, b: Self) -> Self {
        let equal = a.map(b, |a, b| u64::from(a == b));
        Self(std::array::from_fn(|lane| if equal.0[lane] == 1 { other.0[lane] } else { self.0[lane] }))
    }
}
