//! Starts a child process, reads its events, and returns the result.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::job::{Event, Job, MeasuredBatch, ModuleDescription};
use crate::Error;

/// The result of a module.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The module's description of itself, if it was loaded.
    pub description: Option<ModuleDescription>,
    /// The sizes that were measured.
    pub batches: Vec<MeasuredBatch>,
    /// Algorithms that the module lacks, and the reason.
    pub not_available: Vec<(String, String)>,
    /// Failures and their place.
    pub failures: Vec<(Option<(String, u64)>, String)>,
    /// Notes that are no failure of the work.
    pub notes: Vec<String>,
}

/// Receives the child's progress, for a progress bar.
pub type Watcher<'a> = dyn Fn(&Event) + 'a;

/// Runs `job` in a child process with `environment`. Ends a child that is silent for `stall`.
pub fn run_job(
    job: &Job,
    environment: &[(String, OsString)],
    stall: Duration,
    watcher: &Watcher<'_>,
) -> Result<Outcome, Error> {
    let mut child = start(job, environment)?;
    let mut outcome = Outcome::default();
    let mut last = None;
    let listened = listen(&mut child, stall, |event| {
        watcher(&event);
        if let Event::Progress { algorithm, size, stage, .. } = &event {
            last = Some(((algorithm.clone(), *size), stage.clone()));
        }
        outcome.take(event)
    });
    if let Listened::Stalled = listened {
        // The child may have just ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(Error::io("the module's process"))?;
    match listened {
        Listened::ToTheEnd { done } => outcome.judge(done, status, last),
        Listened::Stalled => outcome.stalled(stall, last),
    }
    Ok(outcome)
}

fn start(job: &Job, environment: &[(String, OsString)]) -> Result<Child, Error> {
    let program = std::env::current_exe().map_err(Error::io("the tool's own executable"))?;
    let mut command = Command::new(&program);
    command.arg(CHILD_COMMAND).envs(environment.iter().cloned());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(Error::io(&program))?;
    let text = serde_json::to_string(job).map_err(|error| Error::Usage(error.to_string()))?;
    // `take` closes the pipe after the write, and the child reads until the end.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes()).map_err(Error::io("the module's process"))?;
    }
    Ok(child)
}

/// The name of the child's hidden subcommand.
const CHILD_COMMAND: &str = "pipeline-child";

enum Listened {
    ToTheEnd { done: bool },
    Stalled,
}

fn listen(child: &mut Child, stall: Duration, mut take: impl FnMut(Event) -> bool) -> Listened {
    let Some(output) = child.stdout.take() else { return Listened::ToTheEnd { done: false } };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The receiver is gone if the child stalled.
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut done = false;
    loop {
        match receiver.recv_timeout(stall) {
            // A module may write to standard output too. Skip lines that are no events.
            Ok(line) => done |= serde_json::from_str(&line).is_ok_and(&mut take),
            Err(RecvTimeoutError::Disconnected) => return Listened::ToTheEnd { done },
            Err(RecvTimeoutError::Timeout) => return Listened::Stalled,
        }
    }
}

impl Outcome {
    /// Records an event. Returns whether it was the last one.
    fn take(&mut self, event: Event) -> bool {
        match event {
            Event::Described(description) => self.description = Some(description),
            Event::Progress { .. } => {}
            Event::Measured(batch) => self.batches.push(batch),
            Event::NotAvailable { algorithm, reason } => self.not_available.push((algorithm, reason)),
            Event::Failed { at, message } => self.failures.push((at, message)),
            Event::Done => return true,
        }
        false
    }

    /// Records the end of the process. A crash after the last event is a note, because the work was
    /// done. An earlier crash is a failure of the last reported stage.
    fn judge(&mut self, done: bool, status: ExitStatus, last: Option<LastStage>) {
        if status.success() {
            return;
        }
        if done {
            self.notes.push(format!("its process ended with {status} after the work was done"));
            return;
        }
        let (at, stage) = described(last);
        self.failures.push((at, format!("its process ended with {status} {stage}")));
    }

    fn stalled(&mut self, stall: Duration, last: Option<LastStage>) {
        let (at, stage) = described(last);
        self.failures.push((at, format!("said nothing for {} s {stage} and was ended", stall.as_secs())));
    }
}

/// The algorithm and size that a child reported last, and its stage.
type LastStage = ((String, u64), String);

/// Returns the algorithm and size, and the stage as text for a message.
fn described(last: Option<LastStage>) -> (Option<(String, u64)>, String) {
    match last {
        Some((at, stage)) => (Some(at), format!("(last heard of in {stage})")),
        None => (None, "(before the first stage)".to_owned()),
    }
}
