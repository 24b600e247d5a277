//! Runs a module in a process of its own, and again behind the task that ended it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use jeton_driver::Error;
use jeton_driver::peers::{Known, Seat, library_of};
use jeton_driver::pipeline::TokenAccess;

use crate::record::{Line, Record, Verdict};

/// How long a task may say nothing: a set of vectors is one task.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often a module may take its process down before it is given up.
const MOST_CRASHES: usize = 60;

/// What is run.
#[derive(Clone)]
pub struct Subject {
    /// A name that the driver knows, or a path.
    pub module: String,
    /// Jeton's backend.
    pub backend: Option<String>,
    /// Only tasks whose names contain one of these; all if empty.
    pub only: Vec<String>,
    /// Whether long sets of vectors are cut short.
    pub quick: bool,
}

/// Every record of the module.
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
                return Err(Error::Usage(format!("{} ended its process {crashes} times", subject.module)));
            }
            Ended::Nowhere(how) => {
                return Err(Error::Usage(format!("{} did not come to its tasks: {how}", subject.module)));
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

/// One process, from the task `from` on.
fn attempt(
    subject: &Subject,
    directory: &Path,
    from: usize,
    records: &mut Vec<Record>,
) -> Result<Ended, Error> {
    let mut child = start(subject, directory, from)?;
    let lines = lines_of(&mut child);
    let mut begun = None;
    let how = loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(Line::Tasks(_)) => {}
            Ok(Line::Begin(number, section, subject, name)) => begun = Some((number, section, subject, name)),
            Ok(Line::Done(_, record)) => {
                records.push(record);
                begun = None;
            }
            Ok(Line::Lost(number)) => {
                let _ = child.wait();
                return Ok(Ended::Lost(number));
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                break "it said nothing more".to_owned();
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait().map_err(Error::io("the child"))?;
                if status.success() && begun.is_none() {
                    return Ok(Ended::Done);
                }
                break status.to_string();
            }
        }
    };
    let Some((number, section, subject, name)) = begun else { return Ok(Ended::Nowhere(how)) };
    records.push(Record { section, subject, name, verdict: Verdict::Crashed(how) });
    Ok(Ended::At(number))
}

/// The module reads its environment when it is loaded: the tool runs itself with the one of a fresh token.
fn start(subject: &Subject, directory: &Path, from: usize) -> Result<Child, Error> {
    let seat = match Known::named(&subject.module) {
        Some(known) => Seat::fresh(known, directory, subject.backend.as_deref())?,
        // Any other module, by its path: it is asked for a slot with an uninitialised token.
        None => Seat { environment: Vec::new(), reserved: None, token: TokenAccess::Initialise },
    };
    let text = serde_json::to_string(&(&seat.reserved, &seat.token))
        .map_err(|error| Error::Usage(error.to_string()))?;
    let program = std::env::current_exe().map_err(Error::io("the tool's own executable"))?;
    let mut command = Command::new(&program);
    command.args(["--module", &subject.module, "--seat", &text, "--from", &from.to_string()]);
    subject.only.iter().for_each(|only| {
        command.args(["--only", only]);
    });
    if subject.quick {
        command.arg("--quick");
    }
    command.envs(seat.environment).stdout(Stdio::piped()).spawn().map_err(Error::io(program))
}

/// The lines of the child; what a module prints of its own is none of ours.
fn lines_of(child: &mut Child) -> Receiver<Line> {
    let (sender, receiver) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Ok(line) = serde_json::from_str(&line)
                    && sender.send(line).is_err()
                {
                    return;
                }
            }
        });
    }
    receiver
}
