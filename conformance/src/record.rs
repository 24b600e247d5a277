//! The results of a run: a record for each check. The child process that runs a module writes them
//! as lines of JSON. So a module that ends its process loses only one record.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Section {
    Functions,
    /// Return codes for wrong and right arguments.
    Cases,
    Mechanisms,
    Vectors,
    Attacks,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub section: Section,
    /// The function of a case, the family of the mechanism, or the source of the vectors or the
    /// attack.
    pub subject: String,
    /// The case, the mechanism, the set, the attack, or the function.
    pub name: String,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    Case {
        expected: Vec<String>,
        /// The name of the code that the module returned.
        got: String,
        /// True if it is one of the allowed codes.
        fits: bool,
    },
    /// The return code of a function for harmless arguments.
    Answer(String),
    Works,
    /// The mechanism does not work, or the check could not begin. The text says why.
    Fails(String),
    /// The module does not have the mechanism or function, or the set-up of an attack failed.
    Absent(String),
    Vectors(Tally),
    /// An attack did not reach its aim. The text names the function that refused and its code, if
    /// one refused.
    Resisted(String),
    Succeeded,
    /// An attack reached its aim, and the standard allows that. The text has the reason.
    Allowed(String),
    /// The process ended, or the tool ended the process because the process printed no line for too
    /// long.
    Crashed(String),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    pub executed: usize,
    /// The number of vectors that the interface or the module cannot express.
    pub skipped: usize,
    pub deviations: Vec<Deviation>,
}

/// A vector whose result differs from the set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deviation {
    pub test: usize,
    pub comment: String,
    pub expected: String,
    pub got: String,
    /// Why the module is right. `None` if the list of known deviations does not have this vector.
    pub reason: Option<String>,
}

/// Returns the text from which `--only` and the map select checks.
pub fn title(section: Section, subject: &str, name: &str) -> String {
    format!("{section:?} {subject} {name}")
}

impl Record {
    pub fn title(&self) -> String {
        title(self.section, &self.subject, &self.name)
    }

    /// Returns whether the record has no error. An absent mechanism or function is not an error.
    pub fn is_good(&self) -> bool {
        match &self.verdict {
            Verdict::Case { fits, .. } => *fits,
            Verdict::Answer(_) | Verdict::Works | Verdict::Absent(_) => true,
            Verdict::Resisted(_) | Verdict::Allowed(_) => true,
            Verdict::Fails(_) | Verdict::Crashed(_) | Verdict::Succeeded => false,
            Verdict::Vectors(tally) => tally.deviations.iter().all(|one| one.reason.is_some()),
        }
    }
}

/// A line that the child process prints.
#[derive(Debug, Serialize, Deserialize)]
pub enum Line {
    /// The task with this number begins.
    Begin(usize, Section, String, String),
    /// The task with this number is done.
    Done(usize, Record),
    /// The task with this number is done, but the user cannot log in any more. The next tasks need
    /// a new token.
    Lost(usize),
}
