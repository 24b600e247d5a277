//! Published test vectors through the C interface. `C_CreateObject` imports the keys.

use cryptoki_sys::{CKR_DEVICE_ERROR, CKR_GENERAL_ERROR, CKR_HOST_MEMORY};
use jeton_client::{Failure, names};
use jeton_vectors::{Miss, Set};

use crate::fixture::{Fixture, code_name};
use crate::record::{Deviation, Section, Tally, Verdict};
use crate::task::{Task, Work};

mod keys;
mod mechanisms;
mod operations;

type Outcome = Result<(), Miss<Failure>>;

/// Returns a task for each set.
pub fn tasks() -> Vec<Task> {
    jeton_vectors::sets().into_iter().filter(|set| !set.is_for_backends()).map(task).collect()
}

fn task(set: Set) -> Task {
    let (subject, name) = (set.source.to_owned(), set.name.clone());
    let work = move |fixture: &Fixture<'_>| verdict(fixture, &set);
    Task { section: Section::Vectors, subject, name, work: Work::LoggedIn(Box::new(work)) }
}

fn verdict(fixture: &Fixture<'_>, set: &Set) -> Verdict {
    let mut missing = None;
    let tally = set.run(
        |operation| {
            let mechanism = mechanisms::mechanism(operation).ok_or(Miss::Inexpressible)?;
            let needs = mechanisms::generation(operation).into_iter().chain([mechanism.kind]);
            if let Some(absent) = needs.into_iter().find(|needed| !fixture.lists(*needed)) {
                missing = Some(absent);
                return Err(Miss::Inexpressible);
            }
            operations::carry_out(fixture, &mechanism, operation)
        },
        describe,
    );
    if tally.executed == 0 {
        let none = || "no vector of the set can be expressed".to_owned();
        return Verdict::Absent(missing.map_or_else(none, names::mechanism));
    }
    let deviations = tally.deviations.into_iter().map(|one| Deviation {
        test: one.test,
        comment: one.comment,
        expected: format!("{:?}", one.expected).to_lowercase(),
        got: one.got,
        reason: one.reason.map(str::to_owned),
    });
    let (executed, skipped) = (tally.executed, tally.skipped);
    Verdict::Vectors(Tally { executed, skipped, deviations: deviations.collect() })
}

/// Returns the text of a failure, as an error if its code means that the module failed, not that it
/// refused the vector.
fn describe(failure: &Failure) -> Result<String, String> {
    let text = format!("{}: {}", failure.function, code_name(failure.code));
    match failure.code {
        CKR_GENERAL_ERROR | CKR_DEVICE_ERROR | CKR_HOST_MEMORY => Err(text),
        _ => Ok(text),
    }
}
