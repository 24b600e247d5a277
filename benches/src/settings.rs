//! The durations of the bench.

use std::env;
use std::time::Duration;

/// The variable that asks for the short mode. `--quick` on the command line does the same, and
/// measures fewer tokens.
pub const SHORT: &str = "JETON_BENCH_SHORT";

#[derive(Clone, Copy)]
pub struct Settings {
    /// Whether the run must end within ten minutes.
    pub short: bool,
    pub samples: usize,
    pub measurement: Duration,
    pub warm_up: Duration,
    /// The time limit for filling a token of a peer up to the next size.
    pub fill_peer: Duration,
    /// The time limit for filling a token of Jeton.
    pub fill_ours: Duration,
    pub watch: Duration,
}

impl Settings {
    pub fn of_environment() -> Self {
        let short = env::var(SHORT).is_ok_and(|value| !value.is_empty() && value != "0");
        if short { Self::SHORT } else { Self::FULL }
    }

    const FULL: Self = Self {
        short: false,
        samples: 20,
        measurement: Duration::from_secs(1),
        warm_up: Duration::from_millis(300),
        fill_peer: Duration::from_secs(20),
        fill_ours: Duration::from_secs(300),
        watch: Duration::from_secs(10),
    };

    const SHORT: Self = Self {
        short: true,
        samples: 10,
        measurement: Duration::from_millis(200),
        warm_up: Duration::from_millis(50),
        fill_peer: Duration::from_secs(5),
        fill_ours: Duration::from_secs(40),
        watch: Duration::from_secs(3),
    };
}
