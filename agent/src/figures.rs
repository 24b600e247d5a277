//! What the agent counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jeton::error::{Error, Result};
use jeton_agent_wire::Call;
use jeton_agent_wire::status::{Bucket, Quantile};
use jeton_words::mechanism::{MECHANISMS, find};
use jeton_words::token::Function;

/// The classes of a doubling of the time.
const CLASSES: u32 = 4;

/// The doublings of a nanosecond at which the first and the last bucket of a histogram end: 16 µs
/// and 17 s.
const FIRST_BUCKET: u32 = 14;
const LAST_BUCKET: u32 = 34;

/// How long requests took: their number in each class of times. A class is a quarter of a doubling.
pub struct Latencies {
    classes: [AtomicU64; (u64::BITS * CLASSES) as usize],
    /// The sum of all times in nanoseconds.
    sum: AtomicU64,
}

/// What a peer has done.
pub struct Figures {
    /// The calls of each function, and those that failed, by the place in [`Function::ALL`].
    functions: [[AtomicU64; 2]; Function::ALL.len()],
    /// The calls with each mechanism, by its place in [`MECHANISMS`].
    mechanisms: [AtomicU64; MECHANISMS.len()],
    /// The wrong PINs: those of calls, and of rules.
    pub wrong_pins: AtomicU64,
    /// The logins that failed: of calls, of rules, and by tickets.
    pub failed_logins: AtomicU64,
    /// The calls that a rule refused, and the tickets that did not log in.
    pub refused: AtomicU64,
    /// The refused connections: the client has no memory, or no turn, for one more.
    pub refused_connections: AtomicU64,
}

impl Default for Figures {
    fn default() -> Self {
        let (wrong_pins, failed_logins, refused, refused_connections) = Default::default();
        Self {
            functions: [const { [const { AtomicU64::new(0) }; _] }; _],
            mechanisms: [const { AtomicU64::new(0) }; _],
            wrong_pins,
            failed_logins,
            refused,
            refused_connections,
        }
    }
}

impl Figures {
    /// Counts a call.
    pub fn note(&self, call: &Call<'_>) {
        count(&self.functions[call.function() as usize][0]);
        if let Some(mechanism) = call.mechanism().and_then(find) {
            count(&self.mechanisms[mechanism.index]);
        }
    }

    /// Counts the result of a call.
    pub fn note_result(&self, function: Function, result: Result<()>) {
        let Err(error) = result else { return };
        count(&self.functions[function as usize][1]);
        if error == Error::PinIncorrect {
            count(&self.wrong_pins);
        }
        // A program may log in with each of its sessions.
        let is_login = matches!(function, Function::C_Login | Function::C_LoginUser);
        if is_login && error != Error::UserAlreadyLoggedIn {
            count(&self.failed_logins);
        }
    }

    /// Returns the calls of each function that has one, and those that failed.
    pub fn functions(&self) -> Vec<(Function, [u64; 2])> {
        let counts = self.functions.iter().map(|both| both.each_ref().map(load));
        Function::ALL
            .iter()
            .zip(counts)
            .filter(|(_, counts)| counts[0] != 0)
            .map(|(function, counts)| (*function, counts))
            .collect()
    }

    /// Returns the calls with each mechanism that has one, by its place in [`MECHANISMS`].
    pub fn mechanisms(&self) -> Vec<(u16, u64)> {
        numbered(&self.mechanisms)
    }
}

fn count(number: &AtomicU64) {
    number.fetch_add(1, Ordering::Relaxed);
}

fn load(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

/// Returns the numbers that are not zero, with their places.
fn numbered(numbers: &[AtomicU64]) -> Vec<(u16, u64)> {
    (0..).zip(numbers.iter().map(load)).filter(|(_, number)| *number != 0).collect()
}

impl Default for Latencies {
    fn default() -> Self {
        Self { classes: [const { AtomicU64::new(0) }; _], sum: AtomicU64::new(0) }
    }
}

impl Latencies {
    /// Counts a request.
    pub fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let nanoseconds = took.max(CLASSES.into());
        let doublings = nanoseconds.ilog2();
        let quarter = nanoseconds >> (doublings - CLASSES.ilog2()) & u64::from(CLASSES - 1);
        count(&self.classes[doublings as usize * CLASSES as usize + quarter as usize]);
        self.sum.fetch_add(took, Ordering::Relaxed);
    }

    /// Returns the number of requests in each class that has one.
    pub fn counts(&self) -> Vec<(u16, u64)> {
        numbered(&self.classes)
    }

    /// Returns the sum of all times in nanoseconds.
    pub fn sum(&self) -> u64 {
        load(&self.sum)
    }
}

/// Returns the buckets of a histogram of these counts. The classes end where its buckets do.
pub fn buckets(counts: &BTreeMap<u16, u64>) -> Vec<Bucket> {
    let bucket = |doublings: u32| {
        let below = counts.range(..(doublings * CLASSES) as u16);
        Bucket { seconds: (1u64 << doublings) as f64 / 1e9, requests: below.map(|(_, count)| count).sum() }
    };
    (FIRST_BUCKET..=LAST_BUCKET).map(bucket).collect()
}

/// Returns the number of requests and the quantiles of these counts, in the order of the classes.
pub fn quantiles(counts: &BTreeMap<u16, u64>) -> (u64, Vec<Quantile>) {
    let all: u64 = counts.values().sum();
    let quantile = |part: f64| {
        let rank = (all as f64 * part).ceil() as u64;
        let mut seen = 0;
        let mut classes = counts.iter();
        let class = classes.find(|(_, count)| {
            seen += **count;
            all != 0 && seen >= rank
        });
        let seconds = class.map(|(class, _)| {
            let (doublings, quarter) = (u32::from(*class) / CLASSES, u32::from(*class) % CLASSES);
            2f64.powi(doublings.cast_signed()) * (1.0 + f64::from(quarter + 1) / f64::from(CLASSES)) / 1e9
        });
        Quantile { part, seconds }
    };
    (all, [0.5, 0.9, 0.99, 0.999].map(quantile).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_a_quarter_more_than_the_time() {
        for nanoseconds in [4u64, 5, 7, 1_000, 20_000, 1_500_000, 1_000_000_007] {
            let latencies = Latencies::default();
            latencies.note(Duration::from_nanos(nanoseconds));
            let (requests, quantiles) = quantiles(&latencies.counts().into_iter().collect());
            let shown = quantiles[2].seconds.expect("a request");
            let true_one = nanoseconds as f64 / 1e9;
            assert_eq!((requests, quantiles[2].part), (1, 0.99));
            assert!(shown >= true_one * 0.999 && shown <= true_one * 1.26, "{nanoseconds} ns: {shown} s");
        }
    }

    #[test]
    fn a_bucket_has_all_requests_below_its_end() {
        let latencies = Latencies::default();
        for microseconds in [1, 16, 17, 1_000, 100_000_000] {
            latencies.note(Duration::from_micros(microseconds));
        }
        let buckets = buckets(&latencies.counts().into_iter().collect());
        let requests = |seconds: f64| {
            buckets.iter().rfind(|bucket| bucket.seconds <= seconds).expect("a bucket").requests
        };
        assert_eq!([0.000_017, 0.000_04, 0.01, 20.0].map(requests), [2, 3, 4, 4]);
        assert_eq!(latencies.sum(), 100_001_034_000);
    }

    #[test]
    fn a_result_counts_wrong_pins_and_failed_logins() {
        let figures = Figures::default();
        for (function, result) in [
            (Function::C_Login, Ok(())),
            (Function::C_Login, Err(Error::PinIncorrect)),
            (Function::C_Login, Err(Error::UserAlreadyLoggedIn)),
            (Function::C_LoginUser, Err(Error::PinLocked)),
            (Function::C_SetPIN, Err(Error::PinIncorrect)),
        ] {
            figures.note_result(function, result);
        }
        assert_eq!((load(&figures.wrong_pins), load(&figures.failed_logins)), (2, 2));
    }
}
