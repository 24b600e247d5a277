//! The median of a sample, with its interval.

use serde::{Deserialize, Serialize};

/// The median of a sample and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Returns the interval of a sample, or `None` if the sample is empty. The ends are two values
    /// of the sorted sample. Their ranks follow approximately from the binomial distribution. Fewer
    /// than six values have no 95 % interval, so the ends are the smallest and the largest value.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let (half, wide) = (last as f64 / 2.0, 0.98 * (values.len() as f64).sqrt());
        let median = f64::midpoint(values[half.floor() as usize], values[half.ceil() as usize]);
        let low = values[(half - wide).floor().max(0.0) as usize];
        let high = values[((half + wide).ceil() as usize).min(last)];
        Some(Self { median, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_around_the_median() {
        let interval = Interval::of((0..41).rev().map(f64::from).collect());
        assert_eq!(interval, Some(Interval { median: 20.0, low: 13.0, high: 27.0 }));
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_between_the_middle_two() {
        let interval = Interval::of(vec![4.0, 1.0]);
        assert_eq!(interval, Some(Interval { median: 2.5, low: 1.0, high: 4.0 }));
        assert_eq!(Interval::of(Vec::new()), None);
    }
}
