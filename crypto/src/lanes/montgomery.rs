//! Arithmetic modulo eight odd numbers at once: Montgomery multiplication in radix 2^52 (S. Gueron
//! and V. Krasnov, "Software implementation of modular exponentiation, using advanced vector
//! instructions architectures", WAIFI 2012).

use super::vector::{DIGIT, LANES, MASK, Vector};

/// The size of a window of an exponent in bits.
pub(super) const WINDOW: usize = 5;

/// Eight moduli m of K digits, the lowest first. R is 2^(52 K), and the operands of a product are
/// below 2 m. So R must be at least 4 m.
pub(super) struct Moduli<V, const K: usize> {
    m: [V; K],
    /// -1 / m modulo 2^52.
    inverse: V,
    /// R^2 modulo m.
    square: [V; K],
}

impl<V: Vector, const K: usize> Moduli<V, K> {
    /// `m` are odd numbers of exactly `bits` bits.
    #[inline(always)]
    pub(super) fn new(m: [V; K], bits: usize) -> Self {
        let zero = V::splat(0);
        // Newton's iteration doubles the number of right bits. An odd number is its own inverse
        // modulo 8.
        let mut inverse = m[0];
        for _ in 0..5 {
            inverse = zero.add_low(inverse, V::splat(2).sub(zero.add_low(inverse, m[0])));
        }
        let mut top = [zero; K];
        top[bits / DIGIT] = V::splat(1 << (bits % DIGIT));
        let mut own = Self { m, inverse: zero.sub(inverse).and(V::splat(MASK)), square: top };
        // 2^bits modulo m, doubled until it is 2^t R. The square of 2^t R is 2^(2 t) R, and so on.
        let mut power = own.reduce(&own.square);
        let squares = (DIGIT * K).trailing_zeros();
        let t = (DIGIT * K) >> squares;
        for _ in 0..DIGIT * K - bits + t {
            for digit in &mut power {
                *digit = digit.add(*digit);
            }
            normalise(&mut power);
            power = own.reduce(&power);
        }
        for _ in 0..squares {
            power = own.multiply(&power, &power);
        }
        own.square = power;
        own
    }

    /// Subtracts m from numbers below 2 m, if they are not below m.
    #[inline(always)]
    pub(super) fn reduce(&self, x: &[V; K]) -> [V; K] {
        let (mut less, borrow) = difference(x, &self.m);
        for j in 0..K {
            less[j] = less[j].replace(x[j], borrow, V::splat(1));
        }
        less
    }

    /// Returns numbers below 2 m that are a b / R modulo m, if a b is below m R.
    #[inline(always)]
    pub(super) fn multiply(&self, a: &[V; K], b: &[V; K]) -> [V; K] {
        let (zero, m) = (V::splat(0), &self.m);
        let mut sum = [zero; K];
        for digit in b {
            let lowest = sum[0].add_low(a[0], *digit);
            let q = zero.add_low(lowest, self.inverse);
            // The lowest digit is a multiple of 2^52 now. The others move down by one.
            let carry = lowest.add_low(m[0], q).carry();
            for j in 1..K {
                let low = sum[j].add_low(a[j], *digit).add_low(m[j], q);
                sum[j - 1] = low.add_high(a[j - 1], *digit).add_high(m[j - 1], q);
            }
            sum[K - 1] = zero.add_high(a[K - 1], *digit).add_high(m[K - 1], q);
            sum[0] = sum[0].add(carry);
        }
        normalise(&mut sum);
        sum
    }

    /// Returns numbers below 4 m that are a - b modulo m.
    #[inline(always)]
    pub(super) fn subtract(&self, a: &[V; K], b: &[V; K]) -> [V; K] {
        let mut sum = *a;
        for (digit, m) in sum.iter_mut().zip(&self.m) {
            *digit = digit.add(*m).add(*m);
        }
        normalise(&mut sum);
        difference(&sum, b).0
    }

    /// Returns `multiply(a, a)`, for a below 2 m. With 20 digits, which fit the registers, it
    /// computes each product of two digits once. Longer numbers take no less time so.
    #[inline(always)]
    pub(super) fn square(&self, a: &[V; K]) -> [V; K] {
        if K != 20 {
            return self.multiply(a, a);
        }
        // The digits of 2 a, and the same without the bit that comes from the digit below.
        let (mut double, mut even) = (*a, *a);
        for j in 0..K {
            double[j] = a[j].add(a[j]);
            even[j] = double[j].and(V::splat(MASK));
        }
        normalise(&mut double);
        let mut sum = [V::splat(0); K];
        macro_rules! steps {
            ($($i:literal)*) => { $(self.square_step($i, a, &double, &even, &mut sum);)* };
        }
        steps!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        normalise(&mut sum);
        sum
    }

    /// Adds the products of digit `i` with itself and the higher ones, and reduces by a digit.
    #[inline(always)]
    fn square_step(&self, i: usize, a: &[V; K], double: &[V; K], even: &[V; K], sum: &mut [V; K]) {
        let (zero, m, digit) = (V::splat(0), &self.m, a[i]);
        sum[i] = sum[i].add_low(digit, digit);
        let q = zero.add_low(sum[0], self.inverse);
        let carry = sum[0].add_low(m[0], q).carry();
        for j in 1..K {
            sum[j - 1] = sum[j].add_low(m[j], q).add_high(m[j - 1], q);
        }
        sum[K - 1] = zero.add_high(m[K - 1], q);
        sum[0] = sum[0].add(carry);
        sum[i] = sum[i].add_high(digit, digit);
        for j in i + 1..K {
            let other = if j == i + 1 { even[j] } else { double[j] };
            sum[j - 1] = sum[j - 1].add_low(digit, other);
            sum[j] = sum[j].add_high(digit, other);
        }
    }

    /// Returns x R modulo m, below 2 m, for x below R.
    #[inline(always)]
    pub(super) fn enter(&self, x: &[V; K]) -> [V; K] {
        self.multiply(x, &self.square)
    }

    /// Returns x / R modulo m, below m, for x below 2 m.
    #[inline(always)]
    pub(super) fn leave(&self, x: &[V; K]) -> [V; K] {
        self.reduce(&self.multiply(x, &one()))
    }

    /// Raises x R to powers, and returns them times R. The exponents are windows of [`WINDOW`]
    /// bits, the highest first. Reads the whole table for each window.
    #[inline(always)]
    pub(super) fn power(&self, x: &[V; K], exponents: &[[u64; LANES]]) -> [V; K] {
        let mut table = [self.enter(&one()); 1 << WINDOW];
        for i in 1..table.len() {
            table[i] = self.multiply(&table[i - 1], x);
        }
        let mut power = table[0];
        for window in exponents {
            for _ in 0..WINDOW {
                power = self.square(&power);
            }
            let window = V::load(window);
            let mut factor = table[0];
            for (i, entry) in table.iter().enumerate() {
                for j in 0..K {
                    factor[j] = factor[j].replace(entry[j], window, V::splat(i as u64));
                }
            }
            power = self.multiply(&power, &factor);
        }
        power
    }
}

#[inline(always)]
pub(super) fn one<V: Vector, const K: usize>() -> [V; K] {
    let mut one = [V::splat(0); K];
    one[0] = V::splat(1);
    one
}

/// Returns the digits of a - b, and 1 where that is negative.
#[inline(always)]
pub(super) fn difference<V: Vector, const K: usize>(a: &[V; K], b: &[V; K]) -> ([V; K], V) {
    let mut borrow = V::splat(0);
    let mut digits = *a;
    for (digit, b) in digits.iter_mut().zip(b) {
        let less = digit.sub(*b).sub(borrow);
        (*digit, borrow) = (less.and(V::splat(MASK)), less.borrow());
    }
    (digits, borrow)
}

/// Moves what is above 52 bits of each digit to the next one.
#[inline(always)]
pub(super) fn normalise<V: Vector, const K: usize>(sums: &mut [V; K]) {
    let mut carry = V::splat(0);
    for digit in sums {
        let sum = digit.add(carry);
        (*digit, carry) = (sum.and(V::splat(MASK)), sum.carry());
    }
}
