//! How long the bench takes its time.

use std::env;
use std::time::Duration;

/// The variable that asks for the short mode; `--quick` on the command line does too.
pub const SHORT: &str = "JETON_BENCH_SHORT";

/// What the two modes differ in.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Whether it must be over within ten minutes.
    pub short: bool,
    /// Samples of each row.
    pub samples: usize,
    /// How long a row is measured.
    pub measurement: Duration,
    /// How long it runs before that.
    pub warm_up: Duration,
    /// How long a peer may take to be filled with objects up to the next size.
    pub fill_peer: Duration,
    /// How long a token of ours may.
    pub fill_ours: Duration,
    /// How long each row of the table of latencies is watched.
    pub watch: Duration,
}

impl Settings {
    /// As the environment asks.
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
