//! A task of the process that runs the checks.

use jeton_client::Module;

use crate::fixture::Fixture;
use crate::record::{Section, Verdict, title};

pub struct Task {
    pub section: Section,
    /// The function of a case, the family of the mechanism, or the source of the vectors or the
    /// attack.
    pub subject: String,
    /// The case, the mechanism, the set, the attack, or the function.
    pub name: String,
    pub work: Work,
}

impl Task {
    pub fn title(&self) -> String {
        title(self.section, &self.subject, &self.name)
    }
}

/// The work of a task, by what it needs.
pub enum Work {
    /// Needs a module that is loaded but not initialised.
    Loaded(Box<dyn Fn(&Module) -> Verdict>),
    /// Needs a token whose user is logged in.
    LoggedIn(Box<dyn Fn(&Fixture<'_>) -> Verdict>),
}
