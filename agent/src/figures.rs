//! What the agent counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jeton_agent_wire::status::Quantile;

/// The classes of a doubling of the time.
const CLASSES: u32 = 4;

/// How long requests took: their number in each class of times. A class is a quarter of a doubling.
pub struct Latencies([AtomicU64; (u64::BITS * CLASSES) as usize]);

/// What a peer has done.
#[derive(Default)]
pub struct Figures {
    pub calls: AtomicU64,
    /// The calls that a rule refused, and the tickets that did not log in.
    pub refused: AtomicU64,
    /// The refused connections: no rule allows them, or the client has too many.
    pub refused_connections: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; _])
    }
}

impl Latencies {
    /// Counts a request.
    pub fn note(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(CLASSES.into());
        let doublings = nanoseconds.ilog2();
        let quarter = nanoseconds >> (doublings - CLASSES.ilog2()) & u64::from(CLASSES - 1);
        self.0[doublings as usize * CLASSES as usize + quarter as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of requests and the quantiles.
    pub fn quantiles(&self) -> (u64, Vec<Quantile>) {
        let counts: Vec<_> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let quantile = |part: f64| {
            let rank = (all as f64 * part).ceil() as u64;
            let mut seen = 0;
            let class = counts.iter().position(|count| {
                seen += count;
                all != 0 && seen >= rank
            });
            let seconds = class.map(|class| {
                let (doublings, quarter) = (class / CLASSES as usize, class % CLASSES as usize);
                2f64.powi(doublings as i32) * (1.0 + (quarter + 1) as f64 / f64::from(CLASSES)) / 1e9
            });
            Quantile { part, seconds }
        };
        (all, [0.5, 0.9, 0.99, 0.999].map(quantile).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_a_quarter_more_than_the_time() {
        for nanoseconds in [4u64, 5, 7, 1_000, 20_000, 1_500_000, 1_000_000_007] {
            let latencies = Latencies::default();
            latencies.note(Duration::from_nanos(nanoseconds));
            let (requests, quantiles) = latencies.quantiles();
            let shown = quantiles[2].seconds.expect("a request");
            let true_one = nanoseconds as f64 / 1e9;
            assert_eq!((requests, quantiles[2].part), (1, 0.99));
            assert!(shown >= true_one * 0.999 && shown <= true_one * 1.26, "{nanoseconds} ns: {shown} s");
        }
    }
}
