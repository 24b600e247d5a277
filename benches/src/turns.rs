//! Measures a row and the baseline in turns of a few milliseconds. A disturbance of a shared
//! machine then affects both, unlike rows that are measured one after the other.

use std::time::Duration;

use crate::facts::Turns;
use crate::operation::Boxed;

/// The number of rounds. A round is one turn of the baseline and one of the row, in alternating
/// order.
const ROUNDS: u32 = 40;

/// Returns the time of the row divided by the time of the baseline: the median of the rounds with
/// its 95 % interval.
pub fn take(group: &str, baseline: &mut Boxed<'_>, row: &mut Boxed<'_>, budget: Duration) -> Turns {
    let turn = budget / (2 * ROUNDS);
    let (of_baseline, of_row) = (repetitions(baseline, turn), repetitions(row, turn));
    let per = |time: Duration, repetitions: u64| time.as_secs_f64() / repetitions as f64;
    let mut ratios: Vec<_> = (0..ROUNDS)
        .map(|round| {
            let (baseline, row) = if round % 2 == 0 {
                let first = baseline.time(of_baseline);
                (first, row.time(of_row))
            } else {
                let first = row.time(of_row);
                (baseline.time(of_baseline), first)
            };
            per(row, of_row) / per(baseline, of_baseline)
        })
        .collect();
    let (median, low, high) = median(&mut ratios);
    Turns { group: group.to_owned(), median, low, high }
}

/// Returns the number of repetitions that take about this long.
fn repetitions(operation: &mut Boxed<'_>, turn: Duration) -> u64 {
    let mut count = 1;
    loop {
        let took = operation.time(count);
        if took * 4 >= turn || count >= 1 << 30 {
            let fit = turn.as_secs_f64() / took.as_secs_f64().max(1e-9) * count as f64;
            return (fit as u64).max(1);
        }
        count *= 2;
    }
}

/// Returns the median and its 95 % interval, by ranks of the sorted sample (approximately those of
/// the binomial distribution).
fn median(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let (half, wide) = (values.len() as f64 / 2.0, 0.98 * (values.len() as f64).sqrt());
    let at = |rank: f64| values[(rank.max(0.0) as usize).min(values.len() - 1)];
    (at(half), at(half - wide), at(half + wide))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    struct Takes(Duration);

    impl Operation for Takes {
        fn time(&mut self, repetitions: u64) -> Duration {
            self.0 * u32::try_from(repetitions).expect("a small number")
        }
    }

    #[test]
    fn the_ratio_is_that_of_one_repetition_each() {
        let mut baseline: Boxed<'_> = Box::new(Takes(Duration::from_micros(10)));
        let mut row: Boxed<'_> = Box::new(Takes(Duration::from_micros(12)));
        let turns = take("g", &mut baseline, &mut row, Duration::from_millis(80));
        for value in [turns.median, turns.low, turns.high] {
            assert!((value - 1.2).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn the_interval_is_around_the_median() {
        let mut values: Vec<_> = (0..40).rev().map(f64::from).collect();
        assert_eq!(median(&mut values), (20.0, 13.0, 26.0));
    }
}
