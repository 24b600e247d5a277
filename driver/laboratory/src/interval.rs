//! A quantile of a sample with its interval, and a ratio with its two figures.

use serde::{Deserialize, Serialize};

/// A figure and its 95 % interval. The figure is the median of a sample, if its field says nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Returns the median of a sample with its interval, or `None` if the sample is empty. See
    /// [`Interval::of_share`].
    pub fn of(values: Vec<f64>) -> Option<Self> {
        Self::of_share(values, 0.5)
    }

    /// Returns the value that `share` of the sample is below, with its interval, or `None` if the
    /// sample is empty. The ends are two values of the sorted sample. Their ranks follow
    /// approximately from the binomial distribution. A small sample has no 95 % interval (for the
    /// median: fewer than six values), so an end is then the smallest or the largest value.
    pub fn of_share(mut values: Vec<f64>, share: f64) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let rank = last as f64 * share;
        let wide = 1.96 * (values.len() as f64 * share * (1.0 - share)).sqrt();
        let (below, above) = (values[rank.floor() as usize], values[rank.ceil() as usize]);
        let value = below + (above - below) * rank.fract();
        let low = values[(rank - wide).floor().max(0.0) as usize];
        let high = values[((rank + wide).ceil() as usize).min(last)];
        Some(Self { value, low, high })
    }
}

/// A ratio, and the two figures whose quotient it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The figure of the module.
    pub figure: f64,
    /// The figure of the baseline.
    pub baseline: f64,
    /// Their quotient, with its interval.
    #[serde(flatten)]
    pub quotient: Interval,
}

impl Ratio {
    /// Returns the pair of a module and the baseline whose quotient is the median. The interval is
    /// that of the median. `None` if there is no pair.
    pub fn of_pairs(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let quotient = |(figure, baseline): &(f64, f64)| figure / baseline;
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by(|one, other| quotient(one).total_cmp(&quotient(other)));
        let interval = Interval::of(pairs.iter().map(quotient).collect())?;
        let (figure, baseline) = pairs[(pairs.len() - 1) / 2];
        Some(Self { figure, baseline, quotient: Interval { value: figure / baseline, ..interval } })
    }
}

/// Returns the median of a sample, or NaN if the sample is empty.
pub fn median(values: Vec<f64>) -> f64 {
    Interval::of(values).map_or(f64::NAN, |interval| interval.value)
}

/// Returns a percentile by the nearest-rank method: at least this part of the sorted values is not
/// greater than the result.
///
/// # Panics
///
/// If there is no value.
pub fn percentile<T: Copy>(sorted: &[T], part: f64) -> T {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Returns how much values differ: the range without the smallest and the largest tenth, divided by
/// the median.
pub fn spread(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 10;
    let last = values.len().checked_sub(1)?;
    Some((values[last - cut] - values[cut]) / values[last / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_leaves_out_outliers() {
        let mut values = vec![1.0; 20];
        values[7] = 9.0;
        assert_eq!(spread(values), Some(0.0));
        assert_eq!(spread(vec![1.0, 2.0, 3.0]), Some(1.0));
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| percentile(&values, part)), [1, 100, 198, 200]);
    }

    #[test]
    fn the_interval_is_around_the_median() {
        let interval = Interval::of((0..41).rev().map(f64::from).collect());
        assert_eq!(interval, Some(Interval { value: 20.0, low: 13.0, high: 27.0 }));
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_between_the_middle_two() {
        let interval = Interval::of(vec![4.0, 1.0]);
        assert_eq!(interval, Some(Interval { value: 2.5, low: 1.0, high: 4.0 }));
        assert_eq!(Interval::of(Vec::new()), None);
    }

    #[test]
    fn a_ratio_is_the_quotient_of_its_figures() {
        let ratio = Ratio::of_pairs([(8.0, 2.0), (3.0, 1.0), (9.0, 9.0), (9.0, 1.0)]).expect("pairs");
        assert_eq!((ratio.figure, ratio.baseline), (3.0, 1.0));
        assert_eq!(ratio.quotient, Interval { value: 3.0, low: 1.0, high: 9.0 });
        assert_eq!(Ratio::of_pairs([]), None);
    }

    #[test]
    fn another_share_has_its_own_interval() {
        let interval = Interval::of_share((0..=100).map(f64::from).collect(), 0.1);
        assert_eq!(interval, Some(Interval { value: 10.0, low: 4.0, high: 16.0 }));
    }
}
