//! The child process of the module: it reads a job, and reports events on standard output.

use std::sync::atomic::{AtomicBool, Ordering};

use jeton_child::say;

use super::job::{Event, Job, Work};
use super::key::TokenKeys;
use super::measure::{Watch, measure};
use super::serve::serve;
use crate::Error;
use crate::client::Module;
use crate::pipeline::{ModuleDescription, Target};

/// True after the child's standard input was closed, because the user interrupted the parent or
/// because the parent ended.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Reads a job from standard input and writes events to standard output. When the input ends, a
/// measurement reports the cases so far and ends, and a server ends.
pub fn run_child() -> Result<(), Error> {
    let job: Job = jeton_child::heard()
        .unwrap_or_else(|| Err("the input ended".to_owned()))
        .map_err(|error| Error::Failed(format!("no job: {error}")))?;
    let is_server = matches!(job.work, Work::Serve(_));
    std::thread::spawn(move || {
        // An error ends the input, too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        CLOSED.store(true, Ordering::Relaxed);
        if is_server {
            std::process::exit(0);
        }
    });
    say(&work(&job).unwrap_or_else(|error| Event::Failed(error.to_string())));
    Ok(())
}

fn work(job: &Job) -> Result<Event, Error> {
    let mut token = open(job)?;
    match &job.work {
        Work::Measure(plan) => {
            let begins = |title, index, total| say(&Event::Case(title, index, total));
            let measured = |case| say(&Event::Measured(Box::new(case)));
            let interrupted = || CLOSED.load(Ordering::Relaxed);
            let watch = Watch { begins: &begins, measured: &measured, interrupted: &interrupted };
            Ok(Event::End(measure(plan, token.as_mut(), &watch)?))
        }
        Work::Serve(work) => {
            serve(work, token.as_mut(), &|line| say(&Event::Line(line)))?;
            Ok(Event::Served)
        }
    }
}

fn open(job: &Job) -> Result<Option<TokenKeys>, Error> {
    let Target::Module { library, reserved, token } = &job.target else { return Ok(None) };
    let module = Module::load(library)?;
    module.initialize(reserved.as_deref())?;
    let info = module.info()?;
    say(&Event::Described(ModuleDescription {
        description: info.description,
        manufacturer: info.manufacturer,
        version: info.version.to_string(),
        cryptoki: info.cryptoki.to_string(),
        library: Some(library.clone()),
    }));
    let (slot, pin) = jeton_peers::prepare_token(&module, token)?;
    TokenKeys::open(&module, slot, &pin).map(Some)
}
