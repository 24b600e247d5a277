//! The parent process: starts the child process of the module, gives it the job, and reads its
//! events.

use std::ffi::OsString;
use std::process::ChildStdin;
use std::time::Duration;

use jeton_child::{Child, Silence, UNLIMITED};

use super::job::{Event, Job};
use super::measure::{End, MeasuredCase};
use crate::Error;
use crate::pipeline::ModuleDescription;
use crate::role::Role;

/// Watches the child.
pub trait Watcher {
    /// A case begins: its title, its index and the number of cases.
    fn begins(&mut self, title: &str, index: usize, total: usize);
    /// The module describes itself.
    fn described(&mut self, description: &ModuleDescription) -> Result<(), Error>;
    /// A case is measured. An error ends the measurement.
    fn measured(&mut self, case: MeasuredCase) -> Result<(), Error>;
    /// A line for the user.
    fn line(&mut self, text: &str) -> Result<(), Error>;
}

/// Closes the child's standard input when the user interrupts the tool.
fn close_when(input: ChildStdin, interrupted: fn() -> bool) {
    std::thread::spawn(move || {
        while !interrupted() {
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(input);
    });
}

/// Runs a job in a child process, whose environment gets `environment` too. The returned [`End`] is
/// empty if the work was a server. `interrupted` returns whether the user wants the work to end
/// now.
pub fn run(
    job: &Job,
    environment: &[(String, OsString)],
    watcher: &mut dyn Watcher,
    interrupted: fn() -> bool,
) -> Result<End, Error> {
    let mut command = jeton_child::of_role(&Role::Tls);
    let mut child = Child::start(command.envs(environment.iter().cloned())).map_err(Error::io("the tool"))?;
    child.tell(job);
    if let Some(input) = child.input() {
        close_when(input, interrupted);
    }
    loop {
        match child.hear(UNLIMITED) {
            Ok(Event::Described(about)) => watcher.described(&about)?,
            Ok(Event::Case(title, index, total)) => watcher.begins(&title, index, total),
            Ok(Event::Line(text)) => watcher.line(&text)?,
            Ok(Event::Measured(case)) => watcher.measured(*case)?,
            Ok(Event::End(end)) => return Ok(end),
            Ok(Event::Served) => return Ok(End::default()),
            Ok(Event::Failed(message)) => return Err(Error::Failed(message)),
            Err(Silence::Ended(status)) => {
                let reason = format!("the module's process ended with {status} before the work was done");
                return Err(Error::Failed(reason));
            }
            Err(Silence::Killed) => return Err(Error::Failed("the module's process was lost".to_owned())),
        }
    }
}
