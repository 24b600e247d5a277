//! The child process of a module. It takes a job, then one turn after the other, and reports events
//! on standard output.

use std::time::{Duration, Instant};

use jeton_child::say;

use super::batch::Run;
use super::engine::Engine;
use super::job::Event;
use super::pkcs11::Pkcs11;
use super::{Database, InProcess, Job, ModuleDescription, Target, Times, Turn, Work};
use crate::algorithm::Profile;
use crate::{Error, Result};

/// The child reports no progress during this time at the start of a turn. The parent that reads a
/// report would take a core from the measured stage. The warm-up and the first round of a size
/// report every stage, so that the report of a crash names the stage.
const SILENCE: Duration = Duration::from_millis(200);

/// The child's side of one type of work: batches of the pipeline, or cases of TLS.
pub trait TakesTurns: Sized {
    type Work: Work;

    fn start(job: Job) -> Result<(Self, ModuleDescription)>;

    fn take(&mut self, turn: &Self::Work) -> Result<<Self::Work as Work>::Sample>;
}

/// Reads a job and its turns from standard input, and writes events to standard output. Returns at
/// the end of the input. Returns an error if the input is not a job with turns.
pub fn run_child<C: TakesTurns>() -> Result<()> {
    /// An event before the first turn. It has no sample.
    type Plain = Event<()>;
    let job: Job = heard("job").unwrap_or_else(|| Err(Error::Failed("no job".to_owned())))?;
    let (mut worker, description) = match C::start(job) {
        Ok(started) => started,
        Err(error) => {
            say(&Plain::Failed { message: error.to_string() });
            return Ok(());
        }
    };
    say(&Plain::Described(description));
    while let Some(turn) = heard::<C::Work>("turn") {
        say(&match worker.take(&turn?) {
            Ok(seconds) => Event::Ran(seconds),
            Err(Error::NotAvailable(reason)) => Event::NotAvailable { reason },
            Err(error) => Event::Failed { message: error.to_string() },
        });
    }
    Ok(())
}

/// Reads the next message of the parent. `what` names it in an error.
fn heard<T: serde::de::DeserializeOwned>(what: &str) -> Option<Result<T>> {
    let message = jeton_child::heard()?;
    Some(message.map_err(|error| Error::Failed(format!("not a valid {what}: {error}"))))
}

/// The engine of a job, ready for batches.
pub struct BatchChild {
    job: Job,
    database: Database,
    engine: Box<dyn Engine + Send>,
    pool: rayon::ThreadPool,
}

impl TakesTurns for BatchChild {
    type Work = Turn;

    fn start(job: Job) -> Result<(Self, ModuleDescription)> {
        let database = Database::open(&job.database)?;
        let (engine, description): (Box<dyn Engine + Send>, _) = match job.target.open()? {
            Some(((module, slot, pin), description)) => {
                let engine = Pkcs11::open(&module, slot, &pin, job.threads, job.asynchronous)?;
                (Box::new(engine), description)
            }
            None if matches!(job.target, Target::OpenSsl) => open_openssl()?,
            None => (Box::new(InProcess::default()), InProcess::describe()),
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(job.threads).build();
        let pool = pool.map_err(|error| Error::Failed(format!("no thread pool: {error}")))?;
        Ok((Self { job, database, engine, pool }, description))
    }

    fn take(&mut self, turn: &Turn) -> Result<Times> {
        let Self { job, database, engine, pool } = self;
        let profile = Profile::named(&turn.algorithm)?;
        let algorithm = &*turn.algorithm;
        let start = Instant::now();
        let (module, size, rsa_key_pool) = (&*job.name, turn.size, job.rsa_key_pool);
        // Run the stages inside the pool, so that the current thread belongs to it in serial stages
        // too.
        let times = pool.install(|| {
            let progress = |stage: &'static str| {
                if turn.round <= 1 || start.elapsed() >= SILENCE {
                    say(&Event::<()>::Progress { stage: stage.to_owned() });
                }
            };
            Run { module, profile, algorithm, size, rsa_key_pool, progress: &progress }
                .run(engine.as_mut(), database)
        })?;
        if turn.round == 0 {
            database.forget_batch(module, algorithm, size)?;
        }
        Ok(times)
    }
}

#[cfg(feature = "openssl")]
fn open_openssl() -> Result<(Box<dyn Engine + Send>, ModuleDescription)> {
    use super::openssl::OpenSsl;
    Ok((Box::new(OpenSsl::default()), OpenSsl::describe()))
}

/// Fails, because this tool was built without OpenSSL.
#[cfg(not(feature = "openssl"))]
fn open_openssl() -> Result<(Box<dyn Engine + Send>, ModuleDescription)> {
    let how = "this tool was built without OpenSSL; build it with the cargo feature `openssl`";
    Err(Error::Failed(how.to_owned()))
}
