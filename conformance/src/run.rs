//! Runs the checks on a module in a separate process. If a task ends that process, a new one
//! continues with the next task.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jeton_child::{Child, Silence};
use jeton_peers::{Error, Known, Sandbox, TokenAccess, library_of};
use serde::{Deserialize, Serialize};

use crate::record::{Line, Record, Verdict};

/// The time that a task may take without a line of output. A set of vectors is one task.
const PATIENCE: Duration = Duration::from_secs(600);
/// The number of times that a module may end its process before the tool gives up.
const MOST_CRASHES: usize = 60;

/// The module and the checks to run on it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Subject {
    /// The name of a [`Known`] module, or the path of a shared object.
    pub module: String,
    pub backend: Option<String>,
    pub policy: Option<String>,
    /// True if Jeton offers the legacy mechanisms.
    pub legacy: bool,
    /// Only tasks whose `section subject name` contains one of these strings. If empty, all tasks.
    pub only: Vec<String>,
    /// True to run only the attacks.
    pub attacks: bool,
}

/// The work of the process that runs the tasks on a module.
#[derive(Serialize, Deserialize)]
pub struct Job {
    pub(crate) subject: Subject,
    pub(crate) reserved: Option<String>,
    pub(crate) token: TokenAccess,
    pub(crate) from: usize,
    pub(crate) directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
pub enum Role {
    Conformance(Job),
}

/// Runs the checks. Returns every record of the module.
pub fn run(subject: &Subject) -> Result<Vec<Record>, Error> {
    library_of(&subject.module)?;
    let (mut records, mut from, mut crashes) = (Vec::new(), 0, 0);
    loop {
        let directory = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        let ended = attempt(subject, directory.path(), from, &mut records)?;
        match ended {
            Ended::Done => return Ok(records),
            Ended::Lost(task) => from = task + 1,
            Ended::At(task) if crashes < MOST_CRASHES => (from, crashes) = (task + 1, crashes + 1),
            Ended::At(_) => {
                let times = crashes + 1;
                return Err(Error::Message(format!("{} ended its process {times} times", subject.module)));
            }
            Ended::Nowhere(how) => {
                return Err(Error::Message(format!("{} ended before its first task: {how}", subject.module)));
            }
        }
    }
}

enum Ended {
    Done,
    Lost(usize),
    At(usize),
    Nowhere(String),
}

/// Runs one process, starting with the task `from`.
fn attempt(
    subject: &Subject,
    directory: &Path,
    from: usize,
    records: &mut Vec<Record>,
) -> Result<Ended, Error> {
    let mut child = start(subject, directory, from)?;
    let mut begun = None;
    let how = loop {
        match child.hear(PATIENCE) {
            Ok(Line::Begin(number, section, subject, name)) => begun = Some((number, section, subject, name)),
            Ok(Line::Done(_, record)) => {
                records.push(record);
                begun = None;
            }
            Ok(Line::Lost(number)) => {
                child.finish(PATIENCE);
                return Ok(Ended::Lost(number));
            }
            Err(Silence::Killed) => break "it stopped printing".to_owned(),
            Err(Silence::Ended(status)) if status.success() && begun.is_none() => return Ok(Ended::Done),
            Err(Silence::Ended(status)) => break status.to_string(),
        }
    };
    let Some((number, section, subject, name)) = begun else { return Ok(Ended::Nowhere(how)) };
    records.push(Record { section, subject, name, verdict: Verdict::Crashed(how) });
    Ok(Ended::At(number))
}

/// Starts this tool again with the environment of a new token. A module reads the environment of
/// its process.
fn start(subject: &Subject, directory: &Path, from: usize) -> Result<Child, Error> {
    let sandbox = match Known::named(&subject.module) {
        Some(known) => {
            let mut sandbox = Sandbox::fresh(known, directory, subject.backend.as_deref())?;
            if known.is_ours() {
                configure(&mut sandbox, subject, directory)?;
            }
            sandbox.start_agent(directory)?;
            sandbox
        }
        // Any other module, by its path. It must have a slot with an uninitialised token.
        None => Sandbox { environment: Vec::new(), reserved: None, token: TokenAccess::Initialise },
    };
    let Sandbox { environment, reserved, token } = sandbox;
    let (subject, directory) = (subject.clone(), directory.to_owned());
    let mut command =
        jeton_child::of_role(&Role::Conformance(Job { subject, reserved, token, from, directory }));
    Child::start(command.envs(environment)).map_err(Error::io("the tool"))
}

/// Adds the policy to the configuration of Jeton, and enables the legacy mechanisms if the subject
/// asks for them. Attacks always have them, because these mechanisms allow more attacks.
fn configure(sandbox: &mut Sandbox, subject: &Subject, directory: &Path) -> Result<(), Error> {
    let path = directory.join("jeton.toml");
    let mut text = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(policy) = &subject.policy {
        let key = if policy == "enforce" { "fips" } else { "name" };
        text.push_str(&format!("[policy]\n{key} = \"{policy}\"\n"));
    }
    if subject.attacks || subject.legacy {
        text.push_str("[mechanisms]\nlegacy = true\n");
    }
    std::fs::write(&path, text).map_err(Error::io(&path))?;
    sandbox.environment.retain(|(name, _)| name != "JETON_CONF");
    sandbox.environment.push(("JETON_CONF".to_owned(), path.into()));
    Ok(())
}
