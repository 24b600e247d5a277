//! What a run leaves behind: a record for each thing that was looked at. The child that runs a module writes them as
//! lines of JSON, so that a module which takes its process down takes one record with it and no more.

use serde::{Deserialize, Serialize};

/// The chapters of the scorecard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Section {
    /// Whether each function does something.
    Functions,
    /// Wrong and right arguments, and the codes for them.
    Cases,
    /// The mechanisms, each proven by a known answer or a round trip.
    Mechanisms,
    /// Published vectors.
    Vectors,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The chapter.
    pub section: Section,
    /// The function, the family of mechanisms, or the source of the vectors.
    pub subject: String,
    /// The case, the mechanism, or the set.
    pub name: String,
    /// What came out.
    pub verdict: Verdict,
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// A return code was expected, one of several perhaps.
    Case {
        /// By name.
        expected: Vec<String>,
        /// By name.
        got: String,
        /// Whether it is one of them.
        fits: bool,
    },
    /// What a function says to harmless arguments.
    Answer(String),
    /// It was proven.
    Works,
    /// The module has it and does not do it right.
    Fails(String),
    /// The module does not have it.
    Absent(String),
    /// A set of vectors.
    Vectors(Tally),
    /// The process ended, or was ended because it said nothing more.
    Crashed(String),
}

/// The vectors of one set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// How many were run.
    pub executed: usize,
    /// How many the interface or the module cannot say.
    pub skipped: usize,
    /// Those that did not come out as the set has it.
    pub deviations: Vec<Deviation>,
}

/// A vector that came out otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deviation {
    /// Its number in the set.
    pub test: usize,
    /// What the set says about it.
    pub comment: String,
    /// What the set expects.
    pub expected: String,
    /// What the module did.
    pub got: String,
    /// Why that is right, where it is known and listed.
    pub reason: Option<String>,
}

impl Record {
    /// Whether nothing is wrong. What is absent is not wrong.
    pub fn is_good(&self) -> bool {
        match &self.verdict {
            Verdict::Case { fits, .. } => *fits,
            Verdict::Answer(_) | Verdict::Works | Verdict::Absent(_) => true,
            Verdict::Fails(_) | Verdict::Crashed(_) => false,
            Verdict::Vectors(tally) => tally.deviations.iter().all(|one| one.reason.is_some()),
        }
    }
}

/// A line of the child.
#[derive(Debug, Serialize, Deserialize)]
pub enum Line {
    /// How many tasks there are.
    Tasks(usize),
    /// The task with this number begins.
    Begin(usize, Section, String, String),
    /// It is done.
    Done(usize, Record),
    /// It is done, and the login or the token went with it: those behind it want a fresh one.
    Lost(usize),
}
