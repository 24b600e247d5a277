//! The child process of a module. It takes a job, runs it, and reports events on standard output.

use std::io::{BufRead, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::batch::Run;
use super::database::Database;
use super::engine::Engine;
use super::in_process::InProcess;
use super::job::{Event, Job, MeasuredBatch, ModuleDescription, Target};
use super::keep::Sample;
use super::pkcs11::Pkcs11;
use super::stage::{STAGES, Timings};
use crate::Error;
use crate::client::Module;
use crate::pki::Algorithm;

/// The least number of runs of a size, so that a median is possible ...
const MIN_RUNS: usize = 3;
/// ... unless a run takes longer than this.
const ENOUGH: Duration = Duration::from_secs(4);
/// The size of the run before the measurement. It loads code, fills pools and opens files.
const WARM_UP: u64 = 4;
/// The time without progress events at the start of a repetition.
const SILENCE: Duration = Duration::from_millis(200);

/// Reads a job from `input` and writes events to `output`. Returns an error if it cannot start.
pub fn run_child(input: impl BufRead, output: impl Write + Send) -> Result<(), Error> {
    let speaker = Speaker::new(output);
    let job: Job =
        serde_json::from_reader(input).map_err(|error| Error::Usage(format!("no job: {error}")))?;
    if let Err(error) = start(&job, &speaker) {
        speaker.say(&Event::Failed { at: None, message: error.to_string() });
    }
    speaker.say(&Event::Done);
    Ok(())
}

fn start(job: &Job, speaker: &Speaker<'_>) -> Result<(), Error> {
    let mut database = Database::open(&job.database)?;
    let (mut engine, description) = open(job)?;
    speaker.say(&Event::Described(description));
    // Run the stages inside the pool, so that the current thread belongs to it in serial stages
    // too.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(job.threads).build();
    let pool = pool.map_err(|error| Error::Usage(format!("no thread pool: {error}")))?;
    for name in &job.algorithms {
        let algorithm = Algorithm::named(name)?;
        pool.install(|| measure_algorithm(job, algorithm, engine.as_mut(), &mut database, speaker));
    }
    Ok(())
}

fn open(job: &Job) -> Result<(Box<dyn Engine + Send>, ModuleDescription), Error> {
    match &job.target {
        Target::InProcess => Ok((Box::new(InProcess::default()), InProcess::describe())),
        Target::Module { library, reserved, token } => {
            let module = Module::load(library)?;
            module.initialize(reserved.as_deref())?;
            let info = module.info()?;
            let (slot, pin) = jeton_peers::prepare_token(&module, token)?;
            let engine = Pkcs11::open(&module, slot, &pin, job.threads)?;
            let description = ModuleDescription {
                description: info.description,
                manufacturer: info.manufacturer,
                version: info.version.to_string(),
                cryptoki: info.cryptoki.to_string(),
                library: Some(library.clone()),
            };
            Ok((Box::new(engine), description))
        }
    }
}

/// Runs all sizes of an algorithm. A failure ends the algorithm, not the job.
fn measure_algorithm(
    job: &Job,
    algorithm: &'static Algorithm,
    engine: &mut dyn Engine,
    database: &mut Database,
    speaker: &Speaker<'_>,
) {
    let warm_up = std::iter::once((WARM_UP, true));
    for (size, warming) in warm_up.chain(job.sizes.iter().map(|size| (*size, false))) {
        let done = if warming {
            let warmed = run_once(job, algorithm, size, 0, engine, database, speaker);
            warmed.and_then(|_| database.forget_batch(&job.name, algorithm.name, size)).map(|()| None)
        } else {
            measure_size(job, algorithm, size, engine, database, speaker).map(Some)
        };
        match done {
            Ok(measured) => measured.into_iter().for_each(|batch| speaker.say(&Event::Measured(batch))),
            Err(Error::NotAvailable(reason)) => {
                speaker.say(&Event::NotAvailable { algorithm: algorithm.name.to_owned(), reason });
                return;
            }
            Err(error) => {
                let at = Some((algorithm.name.to_owned(), size));
                speaker.say(&Event::Failed { at, message: error.to_string() });
                return;
            }
        }
    }
}

fn measure_size(
    job: &Job,
    algorithm: &'static Algorithm,
    size: u64,
    engine: &mut dyn Engine,
    database: &mut Database,
    speaker: &Speaker<'_>,
) -> Result<MeasuredBatch, Error> {
    let start = Instant::now();
    let mut runs = Vec::new();
    let enough = |runs: &[Timings]| {
        let spent = start.elapsed();
        !runs.is_empty()
            && spent.as_secs_f64() >= job.min_seconds
            && (runs.len() >= MIN_RUNS || spent >= ENOUGH)
    };
    while !enough(&runs) {
        let (timings, sample) = run_once(job, algorithm, size, runs.len() + 1, engine, database, speaker)?;
        if let (Some(directory), true) = (&job.keep, runs.is_empty()) {
            sample.write(&directory.join(&job.name).join(algorithm.name))?;
        }
        runs.push(timings);
    }
    Ok(MeasuredBatch {
        algorithm: algorithm.name.to_owned(),
        size,
        runs: runs.len(),
        seconds: medians(&runs),
    })
}

fn run_once(
    job: &Job,
    algorithm: &'static Algorithm,
    size: u64,
    run: usize,
    engine: &mut dyn Engine,
    database: &mut Database,
    speaker: &Speaker<'_>,
) -> Result<(Timings, Sample), Error> {
    let progress = |stage: &'static str| speaker.progress(algorithm, size, run, stage);
    let module = &job.name;
    let rsa_key_pool = job.rsa_key_pool;
    Run { module, algorithm, size, rsa_key_pool, progress: &progress }.run(engine, database)
}

fn medians(runs: &[Timings]) -> [f64; STAGES.len()] {
    let all: Vec<_> = runs.iter().map(Timings::seconds).collect();
    std::array::from_fn(|stage| {
        let mut column: Vec<f64> = all.iter().map(|run| run[stage]).collect();
        column.sort_by(f64::total_cmp);
        let (low, high) = (column[(column.len() - 1) / 2], column[column.len() / 2]);
        f64::midpoint(low, high)
    })
}

/// Writes events, one in each line.
struct Speaker<'a> {
    output: Mutex<Box<dyn Write + Send + 'a>>,
    last_progress: Mutex<Instant>,
}

impl<'a> Speaker<'a> {
    fn new(output: impl Write + Send + 'a) -> Self {
        Self { output: Mutex::new(Box::new(output)), last_progress: Mutex::new(Instant::now()) }
    }

    /// The first run of a size reports every stage, so that a crash has its place. Repetitions stay
    /// silent at first, because waking the parent takes a core from the stage that is measured.
    fn progress(&self, algorithm: &Algorithm, size: u64, run: usize, stage: &str) {
        let mut last = self.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
        if run > 1 && last.elapsed() < SILENCE {
            return;
        }
        *last = Instant::now();
        let (algorithm, stage) = (algorithm.name.to_owned(), stage.to_owned());
        self.say(&Event::Progress { algorithm, size, run, stage });
    }

    fn say(&self, event: &Event) {
        // If the parent is gone, the work has no purpose: end at the next stage.
        let line = serde_json::to_string(event).unwrap_or_default();
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::stage::Stage;

    #[test]
    fn the_median_is_of_each_stage_for_itself() {
        let mut runs = [Timings::default(); 3];
        for (run, sleep) in runs.iter_mut().zip([0, 30, 1]) {
            run.time(Stage::CrlSign, || std::thread::sleep(Duration::from_millis(sleep)));
        }
        let median = medians(&runs)[Stage::CrlSign as usize];
        assert_eq!(median, runs[2].seconds()[Stage::CrlSign as usize]);
        assert_eq!(medians(&runs)[Stage::CertGen as usize], 0.0);
    }
}
