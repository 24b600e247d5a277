//! Measures both servers in turns: in each round the server with the key in memory and the server
//! with the key in the token make the same number of handshakes. A disturbance of a shared machine
//! affects both, and a ratio compares turns of the same round.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use jeton_laboratory::{Interval, spread};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

use super::case::{Exchange, KeyKind, Resumption, TlsVersion, exists};
use super::handshake::Pair;
use super::key::{TokenKeys, in_memory};
use crate::Error;

/// The smallest number of rounds of a case that has a 95 % interval.
const MIN_ROUNDS: usize = 6;
/// The intended length of a turn in seconds, unless [`Plan::min_seconds`] requires shorter turns.
/// Other work disturbs a short turn less often, and short turns leave time for more rounds.
const TURN: f64 = 0.05;
/// The largest number of handshakes of a thread in a turn.
const MOST: f64 = 2000.0;
/// The number of handshakes of each thread in the turns before the measurement.
const WARM_UP: usize = 4;

/// The cases of a measurement, and its limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The types of the server's key.
    pub keys: Vec<KeyKind>,
    /// The versions of TLS.
    pub versions: Vec<TlsVersion>,
    /// The key exchanges.
    pub exchanges: Vec<Exchange>,
    /// Full and resumed handshakes.
    pub handshakes: Vec<Resumption>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// The least time of the turns of each server, for each case.
    pub min_seconds: f64,
}

/// The end of a measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// Keys that the module lacks, and the reason.
    pub not_available: Vec<(KeyKind, String)>,
    /// True if the user ended the measurement early.
    pub interrupted: bool,
}

/// A combination of key, version, key exchange, kind of handshake and number of threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredCase {
    /// The server's key.
    pub key: KeyKind,
    /// The version of TLS.
    pub version: TlsVersion,
    /// The key exchange.
    pub exchange: Exchange,
    /// Full or resumed.
    pub handshake: Resumption,
    /// The number of threads.
    pub threads: usize,
    /// The number of rounds.
    pub rounds: usize,
    /// The server with its key in memory.
    pub memory: Side,
    /// The server with its key in the token.
    pub token: Side,
    /// Handshakes per second with the key in the token, divided by those with the key in memory in
    /// the same round. Both rates leave out the slowest tenth of the turn's handshakes, which other
    /// work of the machine delays.
    pub ratio: Interval,
}

/// The measurements of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Side {
    /// The number of handshakes.
    pub handshakes: usize,
    /// Handshakes per second of the time that a thread spends in the server.
    pub server: Interval,
    /// Handshakes per second of the time that a thread spends in the client.
    pub client: Interval,
    /// How much the rounds of the server differ: the range without the fastest and the slowest
    /// tenth, divided by the median.
    pub spread: f64,
    /// The server's seconds for one handshake.
    pub latency: Latency,
}

/// The distribution of the times of single handshakes, in seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest time.
    pub max: f64,
    /// Points `(number, seconds)` of the distribution: on average, one in `number` handshakes takes
    /// at least `seconds`.
    pub curve: Vec<(f64, f64)>,
}

impl Latency {
    /// Returns the distribution of a sample, or `None` if the sample is empty.
    fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        let count = seconds.len();
        let max = *seconds.last()?;
        let at = |part: f64| seconds[((count as f64 * part) as usize).min(count - 1)];
        // Four points for each factor of ten.
        let points = (1..).map(|step| 10_f64.powf(f64::from(step) / 4.0));
        let points = points.take_while(|one_in| *one_in <= count as f64);
        let curve = points.map(|one_in| (one_in, at(1.0 - 1.0 / one_in))).collect();
        Some(Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max, curve })
    }
}

/// Returns the title of a case for the progress bar.
fn title(key: KeyKind, pair: (TlsVersion, Exchange), handshake: Resumption, threads: usize) -> String {
    let (version, exchange) = (pair.0.name(), pair.1.name());
    format!("{}, TLS {version}, {exchange}, {}, {threads} threads", key.name(), handshake.name())
}

/// Watches a measurement.
pub(super) struct Watch<'a> {
    /// A case begins: its title, its index and the number of cases.
    pub(super) begins: &'a dyn Fn(String, usize, usize),
    /// A case is measured.
    pub(super) measured: &'a dyn Fn(MeasuredCase),
    /// Returns whether the user wants the measurement to end now.
    pub(super) interrupted: &'a dyn Fn() -> bool,
}

/// Measures all cases. Without a token, both servers have their keys in memory.
pub(super) fn measure(
    plan: &Plan,
    mut token: Option<&mut TokenKeys>,
    watch: &Watch<'_>,
) -> Result<End, Error> {
    let mut end = End::default();
    let pairs: Vec<_> =
        plan.versions.iter().flat_map(|one| plan.exchanges.iter().map(move |other| (*one, *other))).collect();
    let of = |key: KeyKind| pairs.iter().filter(move |pair| exists(key, pair.0, pair.1)).copied();
    let each = plan.handshakes.len() * plan.threads.len();
    let total = plan.keys.iter().map(|key| of(*key).count() * each).sum();
    let mut index = 0;
    for key in plan.keys.iter().copied() {
        let own = match token.as_deref_mut().map_or_else(|| in_memory(key), |token| token.generate(key)) {
            Err(Error::NotAvailable(reason)) => {
                end.not_available.push((key, reason));
                index += of(key).count() * each;
                continue;
            }
            own => Arc::new(own?),
        };
        let keys = [Arc::new(in_memory(key)?), own];
        for pair in of(key) {
            for handshake in plan.handshakes.iter().copied() {
                for threads in plan.threads.iter().copied() {
                    (watch.begins)(title(key, pair, handshake, threads), index, total);
                    index += 1;
                    let case = Case { key, pair, handshake, threads };
                    case.measure(&keys, plan.min_seconds, watch)?.map(watch.measured);
                    if (watch.interrupted)() {
                        end.interrupted = true;
                        return Ok(end);
                    }
                }
            }
        }
    }
    Ok(end)
}

/// A case to measure.
struct Case {
    key: KeyKind,
    pair: (TlsVersion, Exchange),
    handshake: Resumption,
    threads: usize,
}

/// The mean seconds for one handshake in a round.
#[derive(Clone, Copy)]
struct Round {
    server: f64,
    client: f64,
    /// The mean of the server without the slowest tenth of the handshakes.
    trimmed: f64,
}

/// The turns of a server.
#[derive(Default)]
struct Turns {
    rounds: Vec<Round>,
    latencies: Vec<f64>,
    spent: f64,
}

impl Case {
    fn measure(
        &self,
        keys: &[Arc<CertifiedKey>; 2],
        min_seconds: f64,
        watch: &Watch<'_>,
    ) -> Result<Option<MeasuredCase>, Error> {
        let pair = |key| Pair::new(key, self.pair.0, self.pair.1, self.handshake);
        let pairs = [pair(&keys[0])?, pair(&keys[1])?];
        let start = Instant::now();
        for pair in &pairs {
            turn(pair, self.threads, WARM_UP)?;
        }
        let one = start.elapsed().as_secs_f64() / (2 * WARM_UP) as f64;
        let seconds = TURN.min(min_seconds / MIN_ROUNDS as f64);
        // The clamp returns a number from 2 to MOST, which fits in a `usize`.
        let count = (seconds / one).clamp(2.0, MOST) as usize;
        let mut sides = [Turns::default(), Turns::default()];
        for round in 0.. {
            let enough = sides.iter().all(|side| side.spent >= min_seconds);
            if (round >= MIN_ROUNDS && enough) || (watch.interrupted)() {
                break;
            }
            // The first server of a round alternates.
            for index in [round % 2, 1 - round % 2] {
                let start = Instant::now();
                let done = turn(&pairs[index], self.threads, count)?;
                let side = &mut sides[index];
                side.spent += start.elapsed().as_secs_f64();
                side.rounds.push(done.round());
                side.latencies.extend(done.latencies);
            }
        }
        Ok(self.result(sides))
    }

    /// Returns the result of the case; `None` if no round was measured.
    fn result(&self, [memory, token]: [Turns; 2]) -> Option<MeasuredCase> {
        let rounds = memory.rounds.len();
        let pairs = memory.rounds.iter().zip(&token.rounds);
        let ratio = Interval::of(pairs.map(|(memory, token)| memory.trimmed / token.trimmed).collect())?;
        Some(MeasuredCase {
            key: self.key,
            version: self.pair.0,
            exchange: self.pair.1,
            handshake: self.handshake,
            threads: self.threads,
            rounds,
            memory: side(memory)?,
            token: side(token)?,
            ratio,
        })
    }
}

fn side(turns: Turns) -> Option<Side> {
    let rates = |of: fn(&Round) -> f64| turns.rounds.iter().map(|round| 1.0 / of(round)).collect::<Vec<_>>();
    Some(Side {
        handshakes: turns.latencies.len(),
        server: Interval::of(rates(|round| round.server))?,
        client: Interval::of(rates(|round| round.client))?,
        spread: spread(rates(|round| round.server))?,
        latency: Latency::of(turns.latencies)?,
    })
}

/// The result of a turn.
struct Turn {
    /// The seconds of the client in all threads.
    client: f64,
    /// The server's seconds for each handshake, in ascending order.
    latencies: Vec<f64>,
}

impl Turn {
    /// Returns the means. A turn has at least two handshakes.
    fn round(&self) -> Round {
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let count = self.latencies.len();
        let trimmed = mean(&self.latencies[..count - count / 10]);
        Round { server: mean(&self.latencies), client: self.client / count as f64, trimmed }
    }
}

/// Makes `count` handshakes in each thread. All threads begin at the same time.
fn turn(pair: &Pair, threads: usize, count: usize) -> Result<Turn, Error> {
    let barrier = Barrier::new(threads);
    let work = || {
        let own = pair.with_own_client();
        barrier.wait();
        let own = own?;
        let mut buffer = Vec::new();
        (0..count).map(|_| own.shake(&mut buffer)).collect::<Result<Vec<_>, Error>>()
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = vec![work()];
        done.extend(running.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Error::Failed("a thread of the measurement panicked".into())))
        }));
        done
    });
    let mut turn = Turn { client: 0.0, latencies: Vec::with_capacity(threads * count) };
    for times in done {
        for one in times? {
            turn.client += one.client.as_secs_f64();
            turn.latencies.push(one.server.as_secs_f64());
        }
    }
    turn.latencies.sort_by(f64::total_cmp);
    Ok(turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_has_its_percentiles_and_a_rising_curve() {
        let latency = Latency::of((0..2000).rev().map(f64::from).collect()).expect("a sample");
        assert_eq!(
            [latency.p50, latency.p90, latency.p99, latency.p999, latency.max],
            [1000.0, 1800.0, 1980.0, 1998.0, 1999.0]
        );
        assert_eq!(latency.curve.len(), 13);
        assert!(latency.curve.is_sorted());
        assert!(Latency::of(Vec::new()).is_none());
    }

    #[test]
    fn a_ratio_below_one_means_that_the_token_makes_fewer_handshakes() {
        let case = Case {
            key: KeyKind::P256,
            pair: (TlsVersion::V13, Exchange::X25519),
            handshake: Resumption::Full,
            threads: 1,
        };
        let turns = |seconds: f64| {
            // The slowest handshake of a round is not in the ratio.
            let turn = Turn { client: 1.0, latencies: [&[seconds; 9][..], &[100.0]].concat() };
            Turns { rounds: vec![turn.round(); 7], latencies: turn.latencies, spent: 1.0 }
        };
        let result = case.result([turns(1.0), turns(2.0)]).expect("there are rounds");
        assert_eq!(result.ratio.value, 0.5);
        assert_eq!(result.token.latency.p50, 2.0);
        assert!(result.token.server.value < 0.1, "the slowest one is in the rate");
        assert!(case.result([Turns::default(), Turns::default()]).is_none());
    }
}
