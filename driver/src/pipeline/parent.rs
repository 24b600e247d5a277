//! The parent's end of a child process: starts it, gives it turns, and reads its events.

use std::ffi::OsString;
use std::time::Duration;

use jeton_child::{Child, Silence};
use serde::Serialize;

use super::job::Event;
use super::{Answer, Job, ModuleDescription, Runner, Work};
use crate::{Error, Result};

/// The time that a child has to end by itself after its last turn.
const FAREWELL: Duration = Duration::from_secs(10);

/// A module in a process of its own, so that a crash or hang ends only that process.
pub struct Worker<W: Work> {
    /// `None` after the process has ended.
    child: Option<Child>,
    stall: Duration,
    /// The stage that the child reported last.
    stage: Option<String>,
    work: std::marker::PhantomData<W>,
}

impl<W: Work> Worker<W> {
    /// Starts a child process with `environment`, which loads the module of `job`. A child that is
    /// silent for `stall` is killed. The inner error says why the child could not load or open the
    /// module.
    pub fn start(
        job: &Job,
        environment: &[(String, OsString)],
        stall: Duration,
    ) -> Result<Result<(Self, ModuleDescription), String>> {
        let mut command = jeton_child::of_role(&W::ROLE);
        let child = Child::start(command.envs(environment.iter().cloned())).map_err(Error::io("the tool"))?;
        let mut worker = Self { child: Some(child), stall, stage: None, work: std::marker::PhantomData };
        Ok(match worker.ask(job) {
            Ok(Event::Described(description)) => Ok((worker, description)),
            Ok(Event::Failed { message }) | Err(message) => Err(message),
            Ok(_) => Err("its process sent something else before its description".to_owned()),
        })
    }

    /// Sends a message and returns the event that answers it. Fails with the reason if the child
    /// ended or is silent.
    fn ask(&mut self, message: &impl Serialize) -> Result<Event<W::Sample>, String> {
        let Some(child) = &mut self.child else { return Err("its process has ended".to_owned()) };
        child.tell(message);
        let silence = loop {
            match child.hear(self.stall) {
                Ok(Event::Progress { stage }) => self.stage = Some(stage),
                Ok(event) => return Ok(event),
                Err(silence) => break silence,
            }
        };
        self.child = None;
        let place = match &self.stage {
            Some(stage) => format!("(its last stage was {stage})"),
            None => "(before the first stage)".to_owned(),
        };
        Err(match silence {
            Silence::Ended(status) => format!("its process ended with {status} {place}"),
            Silence::Killed => {
                format!("reported nothing for {} s {place} and was ended", self.stall.as_secs())
            }
        })
    }

    /// Ends the child. Returns a note if its process does not end, or ends with an error. The work
    /// was done, so this is not a failure.
    pub fn finish(self) -> Option<String> {
        match self.child?.finish(FAREWELL) {
            Silence::Killed => Some("its process did not end after the work was done".to_owned()),
            Silence::Ended(status) if status.success() => None,
            Silence::Ended(status) => {
                Some(format!("its process ended with {status} after the work was done"))
            }
        }
    }
}

impl<W: Work> Runner<W> for Worker<W> {
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
