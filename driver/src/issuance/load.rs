//! A load, and the metrics of its runs.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jeton_laboratory::figure::UNUSABLE;
use jeton_laboratory::{Interval, Ratio, spread};
use serde::{Deserialize, Serialize};

use crate::pipeline::{Work, pairs};

/// Clients that order certificates at the same time, and the CA that they order from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Load {
    pub clients: usize,
    pub key_type: String,
    pub ca_key_type: String,
    pub pool: usize,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Storage {
    /// In memory. It has one connection, because each connection would have a database of its own.
    Memory,
    File,
    Directory(PathBuf),
}

impl Storage {
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

impl fmt::Display for LoadTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, round {}", self.load, self.round)
    }
}

/// Declares an enumeration, and a table of its values with their names.
macro_rules! named {
    (
        $(#[$about:meta])* $kind:ident,
        $(#[$list:meta])* $table:ident { $($(#[$each:meta])* $value:ident = $name:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$each])* $value,)*
        }

        $(#[$list])*
        pub const $table: &[($kind, &str)] = &[$(($kind::$value, $name),)*];
    };
}

named! {
    Phase,
    PHASES {
        Key = "key generation",
        /// The client builds and signs the certificate request.
        Request = "the certificate request",
        /// The CA parses the request and verifies its signature.
        RequestVerify = "verifying the request",
        /// The CA applies its policy and builds the bytes to sign.
        Policy = "policy and encoding",
        Sign = "the CA's signature",
        /// The CA waits for a connection to the database and for its write lock.
        DatabaseWait = "waiting for the database",
        Database = "the database",
        /// The client parses the certificate and verifies it.
        Verify = "verifying the certificate",
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    last: Instant,
    phases: [Duration; PHASES.len()],
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { last: Instant::now(), phases: [Duration::ZERO; PHASES.len()] }
    }

    pub(super) fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        self.phases[phase as usize] += now - self.last;
        self.last = now;
    }

    pub(super) fn seconds(&self, phase: Phase) -> f64 {
        self.phases[phase as usize].as_secs_f64()
    }

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

named! {
    Metric,
    /// The metrics with their names in JSON and in the result store, in their order.
    METRICS {
        Issued = "issued",
        /// Orders that failed because the database was busy.
        Errors = "errors",
        Seconds = "seconds",
        Throughput = "issuances_per_second",
        /// The mean of the seconds of an issuance, from the key to the verified certificate.
        Mean = "latency_mean_seconds",
        /// The median of the seconds of an issuance.
        P50 = "latency_p50_seconds",
        /// The 95th percentile of the seconds of an issuance.
        P95 = "latency_p95_seconds",
        /// The 99th percentile of the seconds of an issuance.
        P99 = "latency_p99_seconds",
        /// The mean of the seconds between the request's arrival and the certificate's return.
        Finalize = "finalize_mean_seconds",
        /// The 99th percentile of the seconds between the request's arrival and the certificate's
        /// return.
        FinalizeP99 = "finalize_p99_seconds",
        /// The mean of the seconds of [`Phase::Key`]. The other phases follow in their order.
        Key = "phase_key_seconds",
        Request = "phase_request_seconds",
        RequestVerify = "phase_request_verify_seconds",
        Policy = "phase_policy_seconds",
        Sign = "phase_sign_seconds",
        DatabaseWait = "phase_database_wait_seconds",
        Database = "phase_database_seconds",
        Verify = "phase_verify_seconds",
        /// Seconds of processor time divided by seconds of the run.
        BusyCores = "busy_cores",
        /// Bytes on the heap of the tool's code at the start of the process.
        HeapStart = "heap_start_bytes",
        /// Bytes on the heap of the tool's code before the run, after the warm-up.
        HeapReady = "heap_ready_bytes",
        /// Bytes on the heap of the tool's code after the run.
        HeapAfter = "heap_after_bytes",
        /// The largest number of bytes on the heap of the tool's code during the run.
        HeapPeak = "heap_peak_bytes",
        /// Bytes that the tool's code requests from the allocator for an issuance.
        HeapRequested = "heap_requested_bytes_per_issuance",
        /// Allocations of the tool's code for an issuance.
        Allocations = "allocations_per_issuance",
        /// Bytes of the process in memory at its start.
        ResidentStart = "resident_start_bytes",
        /// Bytes of the process in memory before the run, after the warm-up.
        ResidentReady = "resident_ready_bytes",
        /// Bytes of the process in memory after the run.
        ResidentAfter = "resident_after_bytes",
        /// The largest number of bytes of the process in memory during the run.
        ResidentPeak = "resident_peak_bytes",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values(pub [f64; METRICS.len()]);

impl Values {
    pub fn get(&self, metric: Metric) -> f64 {
        self.0[metric as usize]
    }

    pub(super) fn set(&mut self, metric: Metric, value: f64) {
        self.0[metric as usize] = value;
    }
}

#[derive(Clone, Debug)]
pub struct MeasuredLoad {
    pub load: Load,
    pub runs: usize,
    pub values: Vec<Interval>,
    /// How much the seconds per certificate of the runs differ: the range without the fastest and
    /// the slowest tenth, divided by the median.
    pub spread: f64,
    /// The seconds per certificate, divided by those of the baseline in the same round. `None` for
    /// the baseline, and if its runs differ too much.
    pub ratio: Option<Ratio>,
}

impl MeasuredLoad {
    pub fn median(&self, metric: Metric) -> f64 {
        self.values[metric as usize].value
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

    const ROLE: crate::role::Role = crate::role::Role::Issue;
    const SCENARIO: &'static str = "issue";

    fn algorithm(&self) -> String {
        self.load.ca_key_type.clone()
    }

    fn in_round(&self, round: usize) -> Self {
        Self { round, ..self.clone() }
    }

    fn summarise(
        &self,
        rounds: &[Option<Values>],
        baseline: Option<&[Option<Values>]>,
    ) -> Option<MeasuredLoad> {
        let runs: Vec<&Values> = rounds.iter().flatten().collect();
        let each = |run: &Values| 1.0 / run.get(Metric::Throughput);
        let pairs: Vec<_> =
            pairs(rounds, baseline).map(|(run, baseline)| (each(run), each(baseline))).collect();
        let usable =
            spread(pairs.iter().map(|pair| pair.1).collect()).is_some_and(|spread| spread <= UNUSABLE);
        let values = (0..METRICS.len()).map(|at| Interval::of(runs.iter().map(|run| run.0[at]).collect()));
        Some(MeasuredLoad {
            load: self.load.clone(),
            runs: runs.len(),
            values: values.collect::<Option<_>>()?,
            spread: spread(runs.iter().map(|run| each(run)).collect())?,
            ratio: Ratio::of_pairs(pairs).filter(|_| usable),
        })
    }

    fn can_be_drawn(load: &MeasuredLoad) -> bool {
        (1e-6..1e9).contains(&load.median(Metric::Throughput))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_the_phases_follow_each_other() {
        for (index, (_, name)) in PHASES.iter().enumerate() {
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
        let turn = LoadTurn { load, requests: 1, warm_up: 0, max_seconds: 1.0, round: 0 };
        let measured = turn.summarise(&[run(50.0), None, run(40.0)], Some(&baseline)).expect("runs");
        assert_eq!(measured.runs, 2);
        assert_eq!(measured.ratio.map(|ratio| ratio.quotient.value), Some(2.0));
        assert!(turn.summarise(&[None], None).is_none());
    }
}
