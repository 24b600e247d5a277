//! What the agent counts, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The classes of a doubling of the time.
const CLASSES: u32 = 4;

/// How long requests took: their number in each class of times. A class is a quarter of a doubling.
pub struct Latencies([AtomicU64; (u64::BITS * CLASSES) as usize]);

/// What a peer has done.
#[derive(Default)]
pub struct Figures {
    /// The calls.
    pub calls: AtomicU64,
    /// The calls that a rule refused.
    pub refused: AtomicU64,
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

    /// Appends the quantiles in seconds. The true ones are at most a quarter less.
    pub fn write(&self, text: &mut String) {
        let counts: Vec<_> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let name = "jeton_agent_request_seconds";
        describe(text, name, "summary", "How long requests took, without the time of the socket.");
        for quantile in [0.5, 0.9, 0.99, 0.999] {
            let rank = (all as f64 * quantile).ceil() as u64;
            let mut seen = 0;
            let class = counts.iter().position(|count| {
                seen += count;
                all != 0 && seen >= rank
            });
            let seconds = class.map_or(f64::NAN, |class| {
                let (doublings, quarter) = (class / CLASSES as usize, class % CLASSES as usize);
                2f64.powi(doublings as i32) * (1.0 + (quarter + 1) as f64 / f64::from(CLASSES)) / 1e9
            });
            let _ = writeln!(text, "{name}{{quantile=\"{quantile}\"}} {seconds:.9}");
        }
        let _ = writeln!(text, "{name}_count {all}");
    }
}

/// Appends what a figure is.
pub fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Appends a figure.
pub fn write(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    describe(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_a_quarter_more_than_the_time() {
        for nanoseconds in [4u64, 5, 7, 1_000, 20_000, 1_500_000, 1_000_000_007] {
            let latencies = Latencies::default();
            latencies.note(Duration::from_nanos(nanoseconds));
            let mut text = String::new();
            latencies.write(&mut text);
            let line = text.lines().find(|line| line.contains("0.99\"")).expect("a line");
            let shown: f64 = line.rsplit(' ').next().and_then(|text| text.parse().ok()).expect("a number");
            let true_one = nanoseconds as f64 / 1e9;
            assert!(shown >= true_one * 0.999 && shown <= true_one * 1.26, "{nanoseconds} ns: {line}");
        }
    }
}
