//! The parent's end of a child process: starts it, gives it turns, and reads its events.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::job::{Event, Job, ModuleDescription, Work};
use super::rounds::{Answer, Runner};
use crate::Error;

/// The time that a child has to end by itself after its last turn.
const FAREWELL: Duration = Duration::from_secs(10);

/// A module in a process of its own, so that a crash or hang ends only that process.
pub struct Worker<W: Work> {
    name: String,
    child: Child,
    /// Closed to end the child.
    input: Option<ChildStdin>,
    events: Receiver<Event<W::Sample>>,
    stall: Duration,
    /// The stage that the child reported last.
    stage: Option<String>,
    /// False after the process has ended.
    alive: bool,
}

impl<W: Work> Worker<W> {
    /// Starts a child process with `environment`, which loads the module of `job`. A child that is
    /// silent for `stall` is killed. The inner error says why the child could not load or open the
    /// module.
    pub fn start(
        job: &Job,
        environment: &[(String, OsString)],
        stall: Duration,
    ) -> Result<Result<(Self, ModuleDescription), String>, Error> {
        let program = std::env::current_exe().map_err(Error::io("the tool's own executable"))?;
        let mut command = Command::new(&program);
        command.arg(W::CHILD_COMMAND).envs(environment.iter().cloned());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(Error::io(&program))?;
        let (input, events) = (child.stdin.take(), events(&mut child));
        let name = job.name.clone();
        let mut worker = Self { name, child, input, events, stall, stage: None, alive: true };
        Ok(match worker.ask(job) {
            Ok(Event::Described(description)) => Ok((worker, description)),
            Ok(Event::Failed { message }) | Err(message) => Err(message),
            Ok(_) => Err("its process sent something else before its description".to_owned()),
        })
    }

    /// Sends a message and returns the event that answers it. Fails with the reason if the child
    /// ended or is silent.
    fn ask(&mut self, message: &impl serde::Serialize) -> Result<Event<W::Sample>, String> {
        let text = serde_json::to_string(message).map_err(|error| error.to_string())?;
        // If the child has ended, this write fails. The loop below then reports the end.
        let _ = self.input.as_mut().map(|input| writeln!(input, "{text}"));
        loop {
            match self.events.recv_timeout(self.stall) {
                Ok(Event::Progress { stage }) => self.stage = Some(stage),
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) => return Err(self.stalled()),
            }
        }
    }

    /// Describes the end of a child that had work left.
    fn ended(&mut self) -> String {
        self.alive = false;
        self.input = None;
        match self.child.wait() {
            Ok(status) => format!("its process ended with {status} {}", self.place()),
            Err(error) => format!("its process was lost {}: {error}", self.place()),
        }
    }

    fn stalled(&mut self) -> String {
        self.kill();
        format!("reported nothing for {} s {} and was ended", self.stall.as_secs(), self.place())
    }

    fn place(&self) -> String {
        match &self.stage {
            Some(stage) => format!("(its last stage was {stage})"),
            None => "(before the first stage)".to_owned(),
        }
    }

    fn kill(&mut self) {
        self.alive = false;
        // The child may have just ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends the child. Returns a note if its process does not end, or ends with an error. The work
    /// was done, so this is not a failure.
    pub fn finish(mut self) -> Option<String> {
        if !self.alive {
            return None;
        }
        self.input = None;
        // The channel closes when the child ends.
        loop {
            match self.events.recv_timeout(FAREWELL) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.kill();
                    return Some("its process did not end after the work was done".to_owned());
                }
            }
        }
        self.alive = false;
        let status = self.child.wait().ok()?;
        (!status.success()).then(|| format!("its process ended with {status} after the work was done"))
    }
}

impl<W: Work> Drop for Worker<W> {
    fn drop(&mut self) {
        if self.alive {
            self.kill();
        }
    }
}

impl<W: Work> Runner<W> for Worker<W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, turn: &W) -> Answer<W::Sample> {
        self.stage = None;
        match self.ask(turn) {
            Ok(Event::Ran(seconds)) => Answer::Ran(seconds),
            Ok(Event::NotAvailable { reason }) => Answer::NotAvailable(reason),
            Ok(Event::Failed { message }) => Answer::Failed(message),
            Ok(_) => Answer::Failed("its process sent something else instead of an answer".to_owned()),
            Err(message) => Answer::Lost(message),
        }
    }
}

/// Reads the events of a child. A module may write to standard output too: lines that are not
/// events are skipped.
fn events<S: DeserializeOwned + Send + 'static>(child: &mut Child) -> Receiver<Event<S>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for event in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                // The receiver is gone if the child stalled.
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}
