//! The process that runs the tasks on one module, one after the other. It prints a line before and
//! after each task.

use jeton_child::say;
use jeton_client::Module;
use jeton_peers::{Error, TokenAccess, library_of, prepare_token};

use crate::choice::Choice;
use crate::fixture::Fixture;
use crate::record::{Line, Record, Verdict};
use crate::run::Job;
use crate::task::{Task, Work};
#[cfg(feature = "vectors")]
use crate::vectors;
use crate::{attacks, cases, functions, mechanisms};

impl Job {
    pub fn run(&self) -> Result<(), Error> {
        let subject = &self.subject;
        let choice = Choice {
            from: self.from,
            only: subject.only.clone(),
            attacks: subject.attacks,
            strict: subject.policy.as_deref() == Some("strict"),
            // Only the attacks read the files.
            directory: subject.attacks.then(|| self.directory.clone()),
        };
        let module = Module::load(library_of(&subject.module)?)?;
        run(&module, self.reserved.as_deref(), &self.token, &choice)
    }
}

fn run(module: &Module, reserved: Option<&str>, token: &TokenAccess, choice: &Choice) -> Result<(), Error> {
    let tasks = tasks(choice);
    let pending = || tasks.iter().enumerate().skip(choice.from);
    for (number, task) in pending() {
        if let Work::Loaded(work) = &task.work {
            report(number, task, || work(module));
        }
    }
    if pending().all(|(_, task)| matches!(task.work, Work::Loaded(_))) {
        return Ok(());
    }
    module.initialize(reserved)?;
    let (slot, pin) = prepare_token(module, token)?;
    let fixture = Fixture::new(module, slot, pin, choice)?;
    for (number, task) in pending() {
        if let Work::LoggedIn(work) = &task.work {
            report(number, task, || work(&fixture));
            // The task may have logged the user out. If the user cannot log in again, a new process
            // runs the following tasks.
            if fixture.restore().is_err() {
                say(&Line::Lost(number));
                std::process::exit(1);
            }
        }
    }
    Ok(())
}

/// Returns the chosen tasks. Tasks that need no token come first.
fn tasks(choice: &Choice) -> Vec<Task> {
    let wanted = |task: &Task| {
        let title = task.title();
        choice.only.is_empty() || choice.only.iter().any(|only| title.contains(only.as_str()))
    };
    let wanted = every(choice.attacks).into_iter().filter(wanted);
    let (mut first, then): (Vec<_>, Vec<_>) = wanted.partition(|task| matches!(task.work, Work::Loaded(_)));
    first.extend(then);
    first
}

/// Returns all attacks, or all other checks.
pub fn every(attacks: bool) -> Vec<Task> {
    if attacks {
        return attacks::tasks();
    }
    let parts = [
        functions::tasks(),
        mechanisms::tasks(),
        #[cfg(feature = "vectors")]
        vectors::tasks(),
        cases::tasks(),
    ];
    parts.into_iter().flatten().collect()
}

fn report(number: usize, task: &Task, work: impl FnOnce() -> Verdict) {
    let (section, subject, name) = (task.section, task.subject.clone(), task.name.clone());
    say(&Line::Begin(number, section, subject.clone(), name.clone()));
    say(&Line::Done(number, Record { section, subject, name, verdict: work() }));
}
