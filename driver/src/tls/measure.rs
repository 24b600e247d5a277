//! The cases and their results. In each round the server with the key in memory and the server with
//! the key in the token make the same number of handshakes. A disturbance of a shared machine
//! affects both, and a ratio compares turns of the same round.

use std::fmt;
use std::sync::Barrier;
use std::time::Duration;

use jeton_laboratory::{Interval, Ratio, percentile, spread};
use serde::{Deserialize, Serialize};

use super::case::{exists, name_of};
use super::handshake::Pair;
use super::{Exchange, KeyKind, Resumption, TlsVersion};
use crate::pipeline::{Group, Plan, Work};
use crate::role::Role;
use crate::{Error, Result};

/// The smallest number of rounds of a case that has a 95 % interval.
const MIN_ROUNDS: usize = 6;
/// The intended length of a turn in seconds, unless [`Options::min_seconds`] requires shorter
/// turns. Other work disturbs a short turn less often, and short turns leave time for more rounds.
const TURN: f64 = 0.05;

/// The values of the options. Every combination that exists is a case.
#[derive(Clone, Debug)]
pub struct Options {
    pub keys: Vec<KeyKind>,
    pub versions: Vec<TlsVersion>,
    pub exchanges: Vec<Exchange>,
    pub handshakes: Vec<Resumption>,
    pub threads: Vec<usize>,
    /// The least time of the turns of each server, for each case.
    pub min_seconds: f64,
}

impl Options {
    pub fn most_threads(&self) -> usize {
        self.threads.iter().max().copied().unwrap_or_default()
    }

    /// Plans the cases. Each is a group, so that its first turn warms up.
    pub fn plan(&self) -> Plan<CaseTurn> {
        let seconds = TURN.min(self.min_seconds / MIN_ROUNDS as f64);
        let mut groups = Vec::new();
        for key in self.keys.iter().copied() {
            for version in self.versions.iter().copied() {
                for exchange in self.exchanges.iter().copied().filter(|one| exists(key, version, *one)) {
                    for handshake in self.handshakes.iter().copied() {
                        for threads in self.threads.iter().copied() {
                            let case = Case { key, version, exchange, handshake, threads };
                            let turn = CaseTurn { case, seconds, round: 0 };
                            groups.push(Group { work: vec![turn.clone()], warm_up: turn });
                        }
                    }
                }
            }
        }
        Plan {
            groups,
            min_seconds: 2.0 * self.min_seconds,
            fewest_runs: MIN_ROUNDS,
            min_runs: MIN_ROUNDS,
            enough: Duration::ZERO,
            steady_runs: 0,
        }
    }
}

/// A combination of key, version, key exchange, kind of handshake and number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    pub key: KeyKind,
    pub version: TlsVersion,
    pub exchange: Exchange,
    pub handshake: Resumption,
    pub threads: usize,
}

/// Asks a child for one turn of each server of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseTurn {
    pub case: Case,
    /// The intended length of a turn in seconds.
    pub seconds: f64,
    /// The number of the round. 0 is a warm-up.
    pub round: usize,
}

impl fmt::Display for CaseTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { key, version, exchange, handshake, threads } = self.case;
        let [key, version, exchange] = [name_of(key), name_of(version), name_of(exchange)];
        write!(f, "{key}, TLS {version}, {exchange}, {}, {threads} threads", name_of(handshake))
    }
}

impl Work for CaseTurn {
    type Sample = Sides<Turn>;
    type Measured = MeasuredCase;

    const ROLE: Role = Role::Tls;
    const SCENARIO: &'static str = "tls";

    fn algorithm(&self) -> String {
        name_of(self.case.key)
    }

    fn in_round(&self, round: usize) -> Self {
        Self { round, ..self.clone() }
    }

    fn summarise(
        &self,
        rounds: &[Option<Sides<Turn>>],
        _: Option<&[Option<Sides<Turn>>]>,
    ) -> Option<MeasuredCase> {
        let rounds: Vec<_> = rounds.iter().flatten().collect();
        let rates = rounds.iter().map(|round| (1.0 / round.token.trimmed(), 1.0 / round.memory.trimmed()));
        Some(MeasuredCase {
            case: self.case,
            rounds: rounds.len(),
            ratio: Ratio::of_pairs(rates)?,
            memory: Side::of(rounds.iter().map(|round| &round.memory).collect())?,
            token: Side::of(rounds.iter().map(|round| &round.token).collect())?,
        })
    }

    fn can_be_drawn(case: &MeasuredCase) -> bool {
        let is_time = |seconds: f64| (1e-12..1e9).contains(&seconds);
        let side = |side: &Side| {
            is_time(side.server.value) && side.latency.curve.iter().all(|(_, seconds)| is_time(*seconds))
        };
        let Ratio { figure, baseline, .. } = case.ratio;
        is_time(figure) && is_time(baseline) && side(&case.memory) && side(&case.token)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sides<T> {
    pub memory: T,
    pub token: T,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredCase {
    #[serde(flatten)]
    pub case: Case,
    pub rounds: usize,
    pub memory: Side,
    pub token: Side,
    /// Handshakes per second with the key in the token, divided by those with the key in memory in
    /// the same round. Both rates leave out the slowest tenth of the turn's handshakes, which other
    /// work of the machine delays.
    pub ratio: Ratio,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Side {
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
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
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
        let at = |part| percentile(&seconds, part);
        // Four points for each factor of ten.
        let points = (1..).map(|step| 10_f64.powf(f64::from(step) / 4.0));
        let points = points.take_while(|one_in| *one_in <= count as f64);
        let curve = points.map(|one_in| (one_in, at(1.0 - 1.0 / one_in))).collect();
        Some(Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max, curve })
    }
}

impl Side {
    /// Summarises the turns of a server. Returns `None` if there is no turn.
    fn of(turns: Vec<&Turn>) -> Option<Self> {
        let rates = |of: fn(&Turn) -> f64| turns.iter().map(|turn| 1.0 / of(turn)).collect::<Vec<_>>();
        let server = rates(|turn| mean(&turn.latencies));
        Some(Self {
            handshakes: turns.iter().map(|turn| turn.latencies.len()).sum(),
            server: Interval::of(server.clone())?,
            client: Interval::of(rates(|turn| turn.client / turn.latencies.len() as f64))?,
            spread: spread(server)?,
            latency: Latency::of(turns.iter().flat_map(|turn| turn.latencies.iter().copied()).collect())?,
        })
    }
}

/// The result of a turn of a server. A turn has at least two handshakes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// The seconds of the client in all threads.
    client: f64,
    /// The server's seconds for each handshake, in ascending order.
    latencies: Vec<f64>,
}

impl Turn {
    /// Returns the mean of the server without the slowest tenth of the handshakes.
    fn trimmed(&self) -> f64 {
        let count = self.latencies.len();
        mean(&self.latencies[..count - count / 10])
    }
}

fn mean(seconds: &[f64]) -> f64 {
    seconds.iter().sum::<f64>() / seconds.len() as f64
}

/// Makes `count` handshakes in each thread. All threads begin at the same time.
pub(super) fn turn(pair: &Pair, threads: usize, count: usize) -> Result<Turn> {
    let barrier = Barrier::new(threads);
    let work = || {
        let own = pair.with_own_client();
        barrier.wait();
        let own = own?;
        let mut buffer = Vec::new();
        (0..count).map(|_| own.shake(&mut buffer)).collect::<Result<Vec<_>>>()
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
            [999.0, 1799.0, 1979.0, 1997.0, 1999.0]
        );
        assert_eq!(latency.curve.len(), 13);
        assert!(latency.curve.is_sorted());
        assert!(Latency::of(Vec::new()).is_none());
    }

    #[test]
    fn a_ratio_below_one_means_that_the_token_makes_fewer_handshakes() {
        let case = Case {
            key: KeyKind::P256,
            version: TlsVersion::V13,
            exchange: Exchange::X25519,
            handshake: Resumption::Full,
            threads: 1,
        };
        let work = CaseTurn { case, seconds: 0.05, round: 0 };
        // The slowest handshake of a round is not in the ratio.
        let turn = |seconds: f64| Turn { client: 1.0, latencies: [&[seconds; 9][..], &[100.0]].concat() };
        let rounds = vec![Some(Sides { memory: turn(1.0), token: turn(2.0) }); 7];
        let result = work.summarise(&rounds, None).expect("there are rounds");
        assert_eq!((result.ratio.figure, result.ratio.baseline), (0.5, 1.0));
        assert_eq!(result.token.latency.p50, 2.0);
        assert!(result.token.server.value < 0.1, "the slowest one is in the rate");
        assert!(work.summarise(&[None], None).is_none());
    }
}
