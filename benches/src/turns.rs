//! Measures operations in turns of a few milliseconds. A disturbance of a shared machine then
//! affects all of them, unlike rows that are measured one after the other.

use std::time::Duration;

use jeton_laboratory::Interval;

use crate::facts::Turns;
use crate::operation::Boxed;

/// The number of rounds. In a round each operation has one turn. Every other round is in reverse
/// order.
const ROUNDS: u32 = 40;

/// Returns the time of the row divided by the time of the baseline: the median of the rounds with
/// its 95 % interval.
pub fn take<'a>(group: &str, baseline: &mut Boxed<'a>, row: &mut Boxed<'a>, budget: Duration) -> Turns {
    let [baseline, row] = rounds([baseline, row], budget);
    let Interval { value: median, low, high } = ratio(&row, &baseline);
    Turns { group: group.to_owned(), median, low, high }
}

/// Returns the median of the ratios of the rounds, with its 95 % interval.
pub fn ratio(row: &[f64], baseline: &[f64]) -> Interval {
    let ratios = row.iter().zip(baseline).map(|(row, baseline)| row / baseline);
    Interval::of(ratios.collect()).expect("at least one round")
}

/// Returns the seconds of one repetition of each operation in each round.
pub fn rounds<const N: usize>(mut operations: [&mut Boxed<'_>; N], budget: Duration) -> [Vec<f64>; N] {
    let turn = budget / (N as u32 * ROUNDS);
    let counts = operations.each_mut().map(|operation| repetitions(operation, turn));
    let mut times = [const { Vec::new() }; N];
    for round in 0..ROUNDS {
        for place in 0..N {
            let at = if round % 2 == 0 { place } else { N - 1 - place };
            times[at].push(operations[at].time(counts[at]).as_secs_f64() / counts[at] as f64);
        }
    }
    times
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
