//! A task of the process that runs the checks.

use jeton_client::Module;

use crate::fixture::Fixture;
use crate::record::{Section, Verdict};

/// A check of the run.
pub struct Task {
    /// The chapter of the scorecard.
    pub section: Section,
    /// The function, the family of mechanisms, or the source of the vectors.
    pub subject: String,
    /// The case, the mechanism, or the set.
    pub name: String,
    /// Does the check.
    pub work: Work,
}

/// The work of a task, by what it needs.
pub enum Work {
    /// Needs a module that is loaded but not initialised.
    Loaded(Box<dyn Fn(&Module) -> Verdict>),
    /// Needs a token whose user is logged in.
    LoggedIn(Box<dyn Fn(&Fixture<'_>) -> Verdict>),
}
