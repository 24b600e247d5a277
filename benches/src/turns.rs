//! Measures a row and the baseline in turns of a few milliseconds. A disturbance of a shared
//! machine then affects both, unlike rows that are measured one after the other.

use super::*;
use crate::facts::Turns;

/// The number of rounds. A round is one turn of the baseline and one of the row, in alternating
/// order.
const ROUNDS: u32 = 40;

/// Returns the time of the row divided by the time of the baseline: the median of the rounds with
/// its 95 % interval.
pub fn take(group: &str, baseline: &mut Boxed<'_>, row: &mut Boxed<'_>, budget: Duration) -> Turns {
    let turn = budget / (2 * ROUNDS);
    let (of_baseline, of_row) = (repetitions(baseline, turn), repetitions(row, turn));
    let per = |time: Duration, repetitions: u64| time.as_secs_f64() / repetitions as f64;
    let ratios: Vec<_> = (0..ROUNDS)
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
    let Interval { value: median, low, high } = Interval::of(ratios).expect("at least one round");
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
    fn the_ratio_compares_one_repetition_of_each() {
        let mut baseline: Boxed<'_> = Box::new(Takes(Duration::from_micros(10)));
        let mut row: Boxed<'_> = Box::new(Takes(Duration::from_micros(12)));
        let turns = take("g", &mut baseline, &mut row, Duration::from_millis(80));
        for value in [turns.median, turns.low, turns.high] {
            assert!((value - 1.2).abs() < 1e-9, "{value}");
        }
    }
}
