//! A load, and the metrics of its runs.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jeton_peers::Interval;
use serde::{Deserialize, Serialize};

use crate::pipeline::{Work, spread};

/// Clients that order certificates at the same time, and the CA that they order from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Load {
    /// The number of clients.
    pub clients: usize,
    /// The algorithm of the clients' keys.
    pub key_type: String,
    /// The algorithm of the CA's key.
    pub ca_key_type: String,
    /// The number of connections to the database.
    pub pool: usize,
    /// Where the database is.
    pub storage: Storage,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clients, key_type, ca_key_type, pool, storage } = self;
        write!(
            f,
            "clients {clients}, keys {key_type}, CA key {ca_key_type}, database {storage}, connections {pool}"
        )
    }
}

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Storage {
    /// In memory. It has one connection, because each connection would have a database of its own.
    Memory,
    /// A file in the temporary directory.
    File,
    /// A file in this directory.
    Directory(PathBuf),
}

impl Storage {
    /// Reads a value of `--database`.
    pub fn parse(text: &str) -> Self {
        match text {
            "memory" => Self::Memory,
            "file" => Self::File,
            directory => Self::Directory(directory.into()),
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::File => f.write_str("file"),
            Self::Directory(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Asks a child for one run of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTurn {
    /// The load.
    pub load: Load,
    /// The number of certificates to issue and measure.
    pub requests: u64,
    /// The number of certificates that are issued before the run, and not measured.
    pub warm_up: u64,
    /// No client begins another certificate after this number of seconds.
    pub max_seconds: f64,
    /// The number of the round. 0 is a warm-up, whose certificates are not kept.
    pub round: usize,
}

/// A step of an issuance. Each is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The client generates a key pair.
    Key,
    /// The client builds and signs the certificate request.
    Request,
    /// The CA parses the request and verifies its signature.
    RequestVerify,
    /// The CA applies its policy and builds the bytes to sign.
    Policy,
    /// The CA signs with its key.
    Sign,
    /// The CA waits for a connection to the database and for its write lock.
    DatabaseWait,
    /// The CA stores the certificate.
    Database,
    /// The client parses the certificate and verifies it.
    Verify,
}

/// The phases with their names, in their order.
pub const PHASES: [(Phase, &str); 8] = [
    (Phase::Key, "key generation"),
    (Phase::Request, "the certificate request"),
    (Phase::RequestVerify, "verifying the request"),
    (Phase::Policy, "policy and encoding"),
    (Phase::Sign, "the CA's signature"),
    (Phase::DatabaseWait, "waiting for the database"),
    (Phase::Database, "the database"),
    (Phase::Verify, "verifying the certificate"),
];

/// The time of each phase of one issuance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    last: Instant,
    phases: [Duration; PHASES.len()],
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { last: Instant::now(), phases: [Duration::ZERO; PHASES.len()] }
    }

    /// Ends a phase.
    pub(super) fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        self.phases[phase as usize] += now - self.last;
        self.last = now;
    }

    /// Returns the seconds of a phase.
    pub(super) fn seconds(&self, phase: Phase) -> f64 {
        self.phases[phase as usize].as_secs_f64()
    }

    /// Returns the seconds of all phases.
    pub(super) fn total(&self) -> f64 {
        self.phases.iter().sum::<Duration>().as_secs_f64()
    }

    /// Returns the seconds from the request's arrival at the CA until the CA returns the
    /// certificate.
    pub(super) fn finalize(&self) -> f64 {
        let own = [Phase::RequestVerify, Phase::Policy, Phase::Sign, Phase::DatabaseWait, Phase::Database];
        own.iter().map(|phase| self.seconds(*phase)).sum()
    }
}

/// A metric of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Certificates that were issued.
    Issued,
    /// Orders that failed because the database was busy.
    Errors,
    /// Seconds of the run.
    Seconds,
    /// Certificates per second.
    Throughput,
    /// The mean of the seconds of an issuance, from the key to the verified certificate.
    Mean,
    /// The median of these seconds.
    P50,
    /// Their 95th percentile.
    P95,
    /// Their 99th percentile.
    P99,
    /// The mean of the seconds between the request's arrival and the certificate's return.
    Finalize,
    /// The 99th percentile of these seconds.
    FinalizeP99,
    /// The mean of the seconds of [`Phase::Key`]. The other phases follow in their order.
    Key,
    /// [`Phase::Request`]
    Request,
    /// [`Phase::RequestVerify`]
    RequestVerify,
    /// [`Phase::Policy`]
    Policy,
    /// [`Phase::Sign`]
    Sign,
    /// [`Phase::DatabaseWait`]
    DatabaseWait,
    /// [`Phase::Database`]
    Database,
    /// [`Phase::Verify`]
    Verify,
    /// Seconds of processor time divided by seconds of the run.
    BusyCores,
    /// Bytes on the heap of the tool's code at the start of the process.
    HeapStart,
    /// Bytes on this heap before the run, after the warm-up.
    HeapReady,
    /// Bytes on this heap after the run.
    HeapAfter,
    /// The largest number of bytes on this heap during the run.
    HeapPeak,
    /// Bytes that the tool's code requests from the allocator for an issuance.
    HeapRequested,
    /// Allocations of the tool's code for an issuance.
    Allocations,
    /// Bytes of the process in memory at its start.
    ResidentStart,
    /// Bytes of the process in memory before the run, after the warm-up.
    ResidentReady,
    /// Bytes of the process in memory after the run.
    ResidentAfter,
    /// The largest number of bytes of the process in memory during the run.
    ResidentPeak,
}

/// The metrics with their names in JSON and in the result store, in their order.
pub const METRICS: [(Metric, &str); 29] = [
    (Metric::Issued, "issued"),
    (Metric::Errors, "errors"),
    (Metric::Seconds, "seconds"),
    (Metric::Throughput, "issuances_per_second"),
    (Metric::Mean, "latency_mean_seconds"),
    (Metric::P50, "latency_p50_seconds"),
    (Metric::P95, "latency_p95_seconds"),
    (Metric::P99, "latency_p99_seconds"),
    (Metric::Finalize, "finalize_mean_seconds"),
    (Metric::FinalizeP99, "finalize_p99_seconds"),
    (Metric::Key, "phase_key_seconds"),
    (Metric::Request, "phase_request_seconds"),
    (Metric::RequestVerify, "phase_request_verify_seconds"),
    (Metric::Policy, "phase_policy_seconds"),
    (Metric::Sign, "phase_sign_seconds"),
    (Metric::DatabaseWait, "phase_database_wait_seconds"),
    (Metric::Database, "phase_database_seconds"),
    (Metric::Verify, "phase_verify_seconds"),
    (Metric::BusyCores, "busy_cores"),
    (Metric::HeapStart, "heap_start_bytes"),
    (Metric::HeapReady, "heap_ready_bytes"),
    (Metric::HeapAfter, "heap_after_bytes"),
    (Metric::HeapPeak, "heap_peak_bytes"),
    (Metric::HeapRequested, "heap_requested_bytes_per_issuance"),
    (Metric::Allocations, "allocations_per_issuance"),
    (Metric::ResidentStart, "resident_start_bytes"),
    (Metric::ResidentReady, "resident_ready_bytes"),
    (Metric::ResidentAfter, "resident_after_bytes"),
    (Metric::ResidentPeak, "resident_peak_bytes"),
];

/// The values of a run, in the order of [`METRICS`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values(pub [f64; METRICS.len()]);

impl Values {
    /// Returns a value.
    pub fn get(&self, metric: Metric) -> f64 {
        self.0[metric as usize]
    }

    pub(super) fn set(&mut self, metric: Metric, value: f64) {
        self.0[metric as usize] = value;
    }
}

/// The medians of the runs of a load.
#[derive(Clone, Debug)]
pub struct MeasuredLoad {
    /// The load.
    pub load: Load,
    /// The number of measured runs.
    pub runs: usize,
    /// The values, in the order of [`METRICS`].
    pub values: Vec<Interval>,
    /// How much the seconds per certificate of the runs differ: the range without the fastest and
    /// the slowest tenth, divided by the median.
    pub spread: f64,
    /// The seconds per certificate, divided by those of the baseline in the same round. `None` for
    /// the baseline.
    pub ratio: Option<Interval>,
}

impl MeasuredLoad {
    /// Summarises the runs of a module. Returns `None` if there is no run. `baseline` has the runs
    /// of the baseline in the same rounds.
    pub fn of(load: &Load, rounds: &[Option<Values>], baseline: Option<&[Option<Values>]>) -> Option<Self> {
        let runs: Vec<&Values> = rounds.iter().flatten().collect();
        let each = |run: &Values| 1.0 / run.get(Metric::Throughput);
        let pairs = baseline
            .into_iter()
            .flat_map(|baseline| rounds.iter().zip(baseline))
            .filter_map(|(run, baseline)| Some(each(run.as_ref()?) / each(baseline.as_ref()?)));
        let values = (0..METRICS.len()).map(|at| Interval::of(runs.iter().map(|run| run.0[at]).collect()));
        Some(Self {
            load: load.clone(),
            runs: runs.len(),
            values: values.collect::<Option<_>>()?,
            spread: spread(runs.iter().map(|run| each(run)).collect())?,
            ratio: Interval::of(pairs.collect()),
        })
    }

    /// Returns the median of a metric.
    pub fn median(&self, metric: Metric) -> f64 {
        self.values[metric as usize].median
    }
}

impl Serialize for MeasuredLoad {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("clients", &self.load.clients)?;
        map.serialize_entry("key_type", &self.load.key_type)?;
        map.serialize_entry("ca_key_type", &self.load.ca_key_type)?;
        map.serialize_entry("pool", &self.load.pool)?;
        map.serialize_entry("database", &self.load.storage.to_string())?;
        map.serialize_entry("runs", &self.runs)?;
        map.serialize_entry("spread", &self.spread)?;
        map.serialize_entry("ratio", &self.ratio)?;
        for ((_, name), value) in METRICS.iter().zip(&self.values) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Work for LoadTurn {
    type Sample = Values;
    type Measured = MeasuredLoad;

    const CHILD_COMMAND: &'static str = "issue-child";

    fn algorithm(&self) -> &str {
        &self.load.ca_key_type
    }

    fn in_round(&self, round: usize) -> Self {
        Self { round, ..self.clone() }
    }

    fn summarise(
        &self,
        rounds: &[Option<Values>],
        baseline: Option<&[Option<Values>]>,
    ) -> Option<MeasuredLoad> {
        MeasuredLoad::of(&self.load, rounds, baseline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_the_order_of_the_enumerations() {
        for (index, (metric, name)) in METRICS.iter().enumerate() {
            assert_eq!(*metric as usize, index, "{name}");
        }
        for (index, (phase, name)) in PHASES.iter().enumerate() {
            assert_eq!(*phase as usize, index, "{name}");
            assert!(METRICS[Metric::Key as usize + index].1.starts_with("phase_"), "{name}");
        }
    }

    #[test]
    fn a_ratio_compares_seconds_per_certificate_of_the_same_round() {
        let run = |throughput: f64| {
            let mut values = Values([1.0; METRICS.len()]);
            values.set(Metric::Throughput, throughput);
            Some(values)
        };
        let load = Load {
            clients: 1,
            key_type: "ed25519".to_owned(),
            ca_key_type: "ed25519".to_owned(),
            pool: 1,
            storage: Storage::Memory,
        };
        let baseline = [run(100.0), run(50.0), run(80.0)];
        let measured = MeasuredLoad::of(&load, &[run(50.0), None, run(40.0)], Some(&baseline)).expect("runs");
        assert_eq!(measured.runs, 2);
        assert_eq!(measured.ratio.map(|ratio| ratio.median), Some(2.0));
        assert!(MeasuredLoad::of(&load, &[None], None).is_none());
    }
}
