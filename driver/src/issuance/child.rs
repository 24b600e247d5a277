//! The process of a module: it runs loads and measures them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use der::Encode;
use der::pem::{LineEnding, encode_string};
use jeton_laboratory::memory;
use jeton_pki::certificate::{Holder, Role, Signer, assemble, self_signed_tbs};
use jeton_pki::issuer::Issuer;
use rustix::time::{ClockId, clock_gettime};

use super::ca::Ca;
use super::client::{self, Issued};
use super::load::{Clock, LoadTurn, METRICS, Metric, PHASES, Values};
use super::pool::Pool;
use crate::Error;
use crate::algorithm::Algorithm;
use crate::heap::{self, Counters};
use crate::pipeline::{
    CA_DAYS, Database, Engine, Job, ModuleDescription, PublicKey, TakesTurns, open_engine, report_stage,
    serial_number,
};

/// The engine of a job, ready for turns.
pub struct LoadChild {
    job: Job,
    engine: Box<dyn Engine + Send>,
    /// The counters of the heap, and the memory of the process, at its start.
    start: (Counters, u64),
}

impl TakesTurns for LoadChild {
    type Work = LoadTurn;

    fn start(job: Job) -> Result<(Self, ModuleDescription), Error> {
        let start = (heap::counters(), memory::resident());
        let (engine, description) = open_engine(&job)?;
        // Initialises SQLite, so that the first load does not.
        drop(Database::in_memory()?);
        Ok((Self { job, engine, start }, description))
    }

    fn take(&mut self, turn: &LoadTurn) -> Result<Values, Error> {
        report_stage("issuance");
        let measured = self.measure(turn);
        // Destroy the keys even after a failure. The first error is the one to report.
        let cleared = self.engine.clear();
        let measured = measured?;
        cleared?;
        Ok(measured)
    }
}

impl LoadChild {
    fn measure(&mut self, turn: &LoadTurn) -> Result<Values, Error> {
        let load = &turn.load;
        let algorithm = Algorithm::named(&load.ca_key_type)?;
        let key_type = Algorithm::named(&load.key_type)?;
        let threads = rayon::ThreadPoolBuilder::new().num_threads(load.clients).build();
        let threads = threads.map_err(|error| Error::Failed(format!("no threads: {error}")))?;
        let key = threads.install(|| self.engine.make_ca(algorithm))?;
        let public = PublicKey::parse(algorithm, &key)?;
        let (engine, info) = (&*self.engine, key.to_der()?);
        let (holder, signer) = (Holder::parse("CN=Jeton issue CA", &[])?, Signer::of(&info)?);
        let tbs = self_signed_tbs(&info, &holder, &signer, Role::Authority, CA_DAYS, serial_number(0))?;
        let root = assemble(&tbs, &signer, &threads.install(|| engine.sign(&tbs))?)?;
        let issuer = Issuer::new(&root)?;
        let batch = (&*self.job.name, algorithm.name, turn.requests, root.as_slice());
        let pool = Pool::create(&load.storage, &self.job.database, load.pool, batch)?;
        let ca = Ca { engine, issuer, public, pool };

        let limit = Duration::from_secs_f64(turn.max_seconds);
        Run::new(&ca, key_type, 1..turn.warm_up + 1, limit, Keep::No).all(&threads)?;

        heap::reset_peak();
        memory::reset_peak();
        let ready = (heap::counters(), memory::resident());
        let keep = if self.job.keep.is_some() && turn.round > 0 { Keep::Yes } else { Keep::No };
        let first = turn.warm_up + 1;
        let run = Run::new(&ca, key_type, first..first + turn.requests, limit, keep);
        let (start, processor) = (Instant::now(), processor_seconds());
        let issued = run.all(&threads)?;
        let seconds = start.elapsed().as_secs_f64();
        let processor = processor_seconds() - processor;
        let after = (heap::counters(), memory::resident(), heap::peak(), memory::peak());

        if let (Keep::Yes, Some(directory)) = (keep, &self.job.keep) {
            write_all(&folder(directory, &self.job.name, turn), &root, &issued)?;
        }
        let clocks: Vec<Clock> = issued.iter().map(|one| one.clock).collect();
        let errors = run.errors.into_inner();
        let mut values = summary(&clocks, seconds, errors)?;
        values.set(Metric::BusyCores, processor / seconds);
        let count = clocks.len() as f64;
        let figures = [
            (Metric::HeapStart, self.start.0.live as f64),
            (Metric::HeapReady, ready.0.live as f64),
            (Metric::HeapAfter, after.0.live as f64),
            (Metric::HeapPeak, after.2 as f64),
            (Metric::HeapRequested, (after.0.requested - ready.0.requested) as f64 / count),
            (Metric::Allocations, (after.0.allocations - ready.0.allocations) as f64 / count),
            (Metric::ResidentStart, self.start.1 as f64),
            (Metric::ResidentReady, ready.1 as f64),
            (Metric::ResidentAfter, after.1 as f64),
            (Metric::ResidentPeak, after.3 as f64),
        ];
        for (metric, value) in figures {
            values.set(metric, value);
        }
        Ok(values)
    }
}

/// Whether the certificates of a run are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Yes,
    No,
}

/// A run: each client takes the next serial number, until all are used or the time is over.
struct Run<'a> {
    ca: &'a Ca<'a>,
    key_type: &'static Algorithm,
    next: AtomicU64,
    end: u64,
    limit: Duration,
    keep: Keep,
    errors: AtomicU64,
    failed: AtomicBool,
}

impl<'a> Run<'a> {
    fn new(
        ca: &'a Ca<'a>,
        key_type: &'static Algorithm,
        serials: std::ops::Range<u64>,
        limit: Duration,
        keep: Keep,
    ) -> Self {
        let (next, end) = (AtomicU64::new(serials.start), serials.end);
        let (errors, failed) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { ca, key_type, next, end, limit, keep, errors, failed }
    }

    /// Runs a client in each thread. Returns the certificates of all of them.
    fn all(&self, threads: &rayon::ThreadPool) -> Result<Vec<Issued>, Error> {
        let start = Instant::now();
        let results = threads.broadcast(|_| {
            let issued = self.client(start);
            heap::flush();
            if issued.is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            issued
        });
        Ok(results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn client(&self, start: Instant) -> Result<Vec<Issued>, Error> {
        let mut all = Vec::new();
        while start.elapsed() < self.limit && !self.failed.load(Ordering::Relaxed) {
            let serial = self.next.fetch_add(1, Ordering::Relaxed);
            if serial >= self.end {
                break;
            }
            match client::order(self.ca, self.key_type, serial)? {
                Some(Issued { certificate, clock }) => {
                    let certificate = if self.keep == Keep::Yes { certificate } else { Vec::new() };
                    all.push(Issued { certificate, clock });
                }
                None => {
                    self.errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(all)
    }
}

/// Returns the rate, the latencies and the times of the phases.
fn summary(clocks: &[Clock], seconds: f64, errors: u64) -> Result<Values, Error> {
    if clocks.is_empty() {
        return Err(Error::Failed(format!(
            "no certificate was issued, and the database was busy {errors} times"
        )));
    }
    let count = clocks.len() as f64;
    let mean = |of: &dyn Fn(&Clock) -> f64| clocks.iter().map(of).sum::<f64>() / count;
    let sorted = |of: fn(&Clock) -> f64| {
        let mut all: Vec<f64> = clocks.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (latencies, finalize) = (sorted(Clock::total), sorted(Clock::finalize));
    let mut values = Values([0.0; METRICS.len()]);
    let figures = [
        (Metric::Issued, count),
        (Metric::Errors, errors as f64),
        (Metric::Seconds, seconds),
        (Metric::Throughput, count / seconds),
        (Metric::Mean, mean(&Clock::total)),
        (Metric::P50, percentile(&latencies, 0.5)),
        (Metric::P95, percentile(&latencies, 0.95)),
        (Metric::P99, percentile(&latencies, 0.99)),
        (Metric::Finalize, mean(&Clock::finalize)),
        (Metric::FinalizeP99, percentile(&finalize, 0.99)),
    ];
    for (metric, value) in figures {
        values.set(metric, value);
    }
    for (index, (phase, _)) in PHASES.iter().enumerate() {
        values.0[Metric::Key as usize + index] = mean(&|clock| clock.seconds(*phase));
    }
    Ok(values)
}

/// Returns a percentile by the nearest-rank method: at least this fraction of the sorted values is
/// not greater than the result.
pub(crate) fn percentile(sorted: &[f64], part: f64) -> f64 {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

pub(crate) fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the folder for the certificates of a run.
fn folder(directory: &Path, module: &str, turn: &LoadTurn) -> std::path::PathBuf {
    let load = &turn.load;
    let storage = load.storage.to_string().replace('/', "_");
    let name = format!(
        "{}-by-{}-clients-{}-pool-{}-{storage}",
        load.key_type, load.ca_key_type, load.clients, load.pool
    );
    directory.join(module).join(name).join(turn.round.to_string())
}

/// Writes the CA's certificate and the issued certificates in PEM.
fn write_all(folder: &Path, root: &[u8], issued: &[Issued]) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::io(folder))?;
    let write = |name: String, der: &[u8]| {
        let pem = encode_string("CERTIFICATE", LineEnding::LF, der).map_err(der::Error::from)?;
        let path = folder.join(name);
        fs::write(&path, pem).map_err(Error::io(path))
    };
    write("ca.pem".to_owned(), root)?;
    for (number, one) in issued.iter().enumerate() {
        write(format!("{}.pem", number + 1), &one.certificate)?;
    }
    Ok(())
}
