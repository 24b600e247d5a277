//! The choice of the tasks of a run.

pub struct Choice {
    pub from: usize,
    /// Only tasks whose `section subject name` contains one of these strings. If empty, all tasks.
    pub only: Vec<String>,
    /// True to run only the attacks.
    pub attacks: bool,
    /// True if the policy of the module is strict.
    pub strict: bool,
    /// The directory of the token's files, if it is known.
    pub directory: Option<std::path::PathBuf>,
}
