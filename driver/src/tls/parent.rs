//! The parent process: starts the child process of the module, gives it the job, and reads its
//! events.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use super::job::{Event, Job};
use super::measure::{End, MeasuredCase};
use crate::Error;
use crate::pipeline::ModuleDescription;

/// The name of the child's hidden subcommand.
const CHILD_COMMAND: &str = "tls-child";

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

/// A child process. Dropping this value ends it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The child may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let program = std::env::current_exe().map_err(Error::io("the tool's own executable"))?;
    let mut command = Command::new(&program);
    command.arg(CHILD_COMMAND).envs(environment.iter().cloned());
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut running = Running(spawned.map_err(Error::io(&program))?);
    let text = serde_json::to_string(job).map_err(|error| Error::Failed(error.to_string()))?;
    if let Some(mut input) = running.0.stdin.take() {
        // If the child has ended, this write fails. Its output ends too, so the loop below ends.
        let _ = writeln!(input, "{text}");
        close_when(input, interrupted);
    }
    let Some(output) = running.0.stdout.take() else {
        return Err(Error::Failed("the module's process has no output".to_owned()));
    };
    // A module may write to standard output too: lines that are not events are skipped.
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for event in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
        match event {
            Event::Described(about) => watcher.described(&about)?,
            Event::Case(title, index, total) => watcher.begins(&title, index, total),
            Event::Line(text) => watcher.line(&text)?,
            Event::Measured(case) => watcher.measured(*case)?,
            Event::End(end) => return Ok(end),
            Event::Served => return Ok(End::default()),
            Event::Failed(message) => return Err(Error::Failed(message)),
        }
    }
    let status = running.0.wait().map_err(Error::io(&program))?;
    Err(Error::Failed(format!("the module's process ended with {status} before the work was done")))
}
