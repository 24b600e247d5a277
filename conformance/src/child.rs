//! The process of one module: its tasks one after the other, each with a line before and a line behind.

use std::io::{Write, stdout};

use jeton_driver::Error;
use jeton_driver::client::Module;
use jeton_driver::peers::{self, library_of};

use crate::place::Place;
use crate::record::{Line, Record, Section, Verdict};
use crate::{cases, functions, mechanisms, vectors};

/// Something to be looked at.
pub struct Task {
    /// The chapter.
    pub section: Section,
    /// The function, the family of mechanisms, or the source of the vectors.
    pub subject: String,
    /// The case, the mechanism, or the set.
    pub name: String,
    /// Looks.
    pub work: Work,
}

/// What a task needs.
pub enum Work {
    /// A module that is loaded and not initialised.
    Loaded(Box<dyn Fn(&Module) -> Verdict>),
    /// A token with its user logged in.
    Seated(Box<dyn Fn(&Place<'_>) -> Verdict>),
}

/// Which of them.
pub struct Choice {
    /// The first, by its number.
    pub from: usize,
    /// Those whose names contain one of these; all if empty.
    pub only: Vec<String>,
    /// Whether long sets of vectors are cut short.
    pub quick: bool,
}

/// Runs the tasks on the module called `name`, whose token is made as `seat` says.
pub fn run(name: &str, seat: &str, choice: &Choice) -> Result<(), Error> {
    let (reserved, token) = serde_json::from_str::<(Option<String>, _)>(seat)
        .map_err(|error| Error::Usage(format!("--seat: {error}")))?;
    let module = Module::load(library_of(name)?)?;
    let tasks = tasks(choice);
    say(&Line::Tasks(tasks.len()));
    let pending = || tasks.iter().enumerate().skip(choice.from);
    for (number, task) in pending() {
        if let Work::Loaded(work) = &task.work {
            report(number, task, || work(&module));
        }
    }
    if pending().all(|(_, task)| matches!(task.work, Work::Loaded(_))) {
        return Ok(());
    }
    module.initialize(reserved.as_deref())?;
    let (slot, pin) = peers::prepare_token(&module, &token)?;
    let place = Place::new(&module, slot, pin, choice.quick)?;
    for (number, task) in pending() {
        if let Work::Seated(work) = &task.work {
            report(number, task, || work(&place));
            // What took the login or the sessions away must not be laid at the door of the tasks behind it.
            if place.restore().is_err() {
                say(&Line::Lost(number));
                std::process::exit(1);
            }
        }
    }
    Ok(())
}

/// Those that need no token first.
fn tasks(choice: &Choice) -> Vec<Task> {
    let every = [functions::tasks(), mechanisms::tasks(), vectors::tasks(), cases::tasks()];
    let wanted = |task: &Task| {
        let name = format!("{:?} {} {}", task.section, task.subject, task.name);
        choice.only.is_empty() || choice.only.iter().any(|only| name.contains(only.as_str()))
    };
    let wanted = every.into_iter().flatten().filter(wanted);
    let (mut first, then): (Vec<_>, Vec<_>) = wanted.partition(|task| matches!(task.work, Work::Loaded(_)));
    first.extend(then);
    first
}

fn report(number: usize, task: &Task, work: impl FnOnce() -> Verdict) {
    let (section, subject, name) = (task.section, task.subject.clone(), task.name.clone());
    say(&Line::Begin(number, section, subject.clone(), name.clone()));
    say(&Line::Done(number, Record { section, subject, name, verdict: work() }));
}

fn say(line: &Line) {
    // Without its reader the run has no purpose; the next line ends it.
    let text = serde_json::to_string(line).unwrap_or_default();
    let mut out = stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
