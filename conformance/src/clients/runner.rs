//! Runs a guide with bash, in its own directory with a new token.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jeton_client::Module;
use jeton_peers::{Error, Known, Sandbox, free_slot, initialise};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::page::{Block, Page, When};
use crate::program_path;

/// The values of `$TOKEN`, `$PIN` and `$SO_PIN` in the guides. They protect nothing, because each
/// token exists only while its guide runs.
pub const TOKEN: &str = "guide";
pub const PIN: &str = "user-1234";
pub const SO_PIN: &str = "officer-1234";

/// The file that passes exported variables and functions from one block to the next.
const CARRIED: &str = "../carried.sh";
const HEAD: &str = "set -aEeuo pipefail\ntrap 'echo \"at: $BASH_COMMAND\" >&2' ERR\n";

/// A directory with a token, and the time until which the guide may use it.
pub struct Runner {
    known: Known,
    directory: TempDir,
    environment: Vec<(String, OsString)>,
    until: Instant,
    talk: bool,
}

pub enum Outcome {
    /// The sections that passed, and those that failed with their last output.
    Done(Vec<String>, Vec<(String, String)>),
    /// The guide did not run. The text says why.
    Absent(String),
}

impl Runner {
    /// Creates a directory for a guide, with a new token of `known`.
    pub fn new(known: Known, module: &Path, backend: Option<&str>, examples: &Path) -> Result<Self, Error> {
        let directory = tempfile::Builder::new()
            .prefix("clients-")
            .tempdir()
            .map_err(Error::io("a temporary directory"))?;
        let work = directory.path().join("work");
        fs::create_dir(&work).map_err(Error::io(&work))?;
        let sandbox = Sandbox::fresh(known, directory.path(), backend)?;
        sandbox.start_agent(directory.path())?;
        make_token(module, |command| command, &sandbox.environment)?;
        let mut environment = sandbox.environment;
        for (name, value) in [
            ("MODULE", module.to_string_lossy().as_ref()),
            ("TOKEN", TOKEN),
            ("PIN", PIN),
            ("SO_PIN", SO_PIN),
            ("PORT", &free_port()?),
            ("CLIENTS", &examples.to_string_lossy()),
            // `handshakes.py` restarts the agent.
            ("RESTARTS", if known == Known::JetonAgent { "4" } else { "0" }),
            ("LC_ALL", "C"),
            ("PATH", &program_path()),
        ] {
            environment.push((name.to_owned(), value.into()));
        }
        Ok(Self { known, directory, environment, until: Instant::now(), talk: false })
    }

    /// Runs the guide. A section ends when one of its blocks fails, and the next section still
    /// runs. `talk` shows the full output of failed blocks.
    pub fn run(mut self, page: &Page, soak: bool, talk: bool) -> Result<Outcome, Error> {
        self.talk = talk;
        self.until = Instant::now() + page.limit(soak);
        let (mut well, mut failed) = (Vec::new(), Vec::new());
        for section in &page.sections {
            let title = section.title.clone();
            match section.blocks.iter().try_for_each(|block| self.block(block, soak)) {
                Ok(()) => well.push(title),
                Err(Stop::Failed(said)) => failed.push((title, said)),
                Err(Stop::Absent(said)) => return Ok(Outcome::Absent(said)),
                Err(Stop::Broken(error)) => return Err(error),
            }
        }
        Ok(Outcome::Done(well, failed))
    }

    fn block(&self, block: &Block, soak: bool) -> Result<(), Stop> {
        match block {
            Block::File(name, text) => {
                let path = self.work().join(name);
                Ok(fs::write(&path, text).map_err(Error::io(path))?)
            }
            Block::Shell(When::Soak, _) if !soak => Ok(()),
            Block::Shell(When::Jeton, _) if self.known != Known::Jeton => Ok(()),
            Block::Shell(when, script) => match (self.shell(script)?, when) {
                (None, _) => Ok(()),
                (Some(said), When::Needs) => Err(Stop::Absent(said)),
                (Some(said), _) => Err(Stop::Failed(said)),
            },
        }
    }

    /// Runs a script. If it fails, returns its last output.
    fn shell(&self, script: &str) -> Result<Option<String>, Error> {
        let carried = format!("[ ! -e {CARRIED} ] || . {CARRIED}\n");
        let carry = format!("\n{{ declare -px; declare -fx; }} >{CARRIED}\n");
        let mut command = Command::new("bash");
        command.args(["-c", &[HEAD, &carried, script, &carry].concat()]).current_dir(self.work());
        command.env_remove("JETON_CONF").envs(self.environment.iter().map(|(name, value)| (name, value)));
        let (ended, said) = output(command.stdin(Stdio::null()), self.directory.path(), self.until)?;
        if self.talk && ended != Some(true) {
            eprintln!("{script}\n---\n{said}");
        }
        Ok((ended != Some(true)).then(|| {
            let told = last_words(&said);
            if ended.is_none() { format!("took too long; {told}") } else { told }
        }))
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }
}

enum Stop {
    Failed(String),
    Absent(String),
    Broken(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

/// Runs a shell, whose output goes to a file in this directory. Returns whether it succeeded, or
/// `None` if it took too long, and the output.
pub fn output(
    shell: &mut Command,
    directory: &Path,
    until: Instant,
) -> Result<(Option<bool>, String), Error> {
    let path = directory.join("said");
    let log = File::create(&path).map_err(Error::io(&path))?;
    let twin = log.try_clone().map_err(Error::io(&path))?;
    let child = shell.stdout(log).stderr(twin).process_group(0).spawn();
    let ended = child.and_then(|mut child| wait(&mut child, until)).map_err(Error::io("bash"))?;
    let said = fs::read(&path).map_err(Error::io(&path))?;
    Ok((ended, String::from_utf8_lossy(&said).into_owned()))
}

/// Waits for the child, and then ends the processes that it left running. Returns whether the child
/// succeeded, or `None` if it took too long.
fn wait(child: &mut Child, until: Instant) -> std::io::Result<Option<bool>> {
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status.success());
        }
        if Instant::now() > until {
            break None;
        }
        thread::sleep(Duration::from_millis(10));
    };
    // An error means that no process of the group is left.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()?;
    Ok(ended)
}

/// Returns the last line that mentions an error, or the last line if no line does. Appends the
/// command that failed.
pub fn last_words(said: &str) -> String {
    let mut lines: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let at = lines.iter().rev().find_map(|line| line.strip_prefix("at: "));
    lines.retain(|line| !line.starts_with("at: "));
    let speaks = |line: &&&str| ["CKR_", "rror", "xception", "ailed"].iter().any(|word| line.contains(word));
    let line = lines.iter().rev().find(speaks).or(lines.last()).unwrap_or(&"no output");
    at.map_or_else(|| (*line).to_owned(), |at| format!("{line} (at: {at})"))
}

pub fn free_port() -> Result<String, Error> {
    let address = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    Ok(address.map_err(Error::io("a port of the loopback interface"))?.port().to_string())
}

/// Creates a token by running this program again, because a module reads the environment of its
/// process. `prepare` may change the environment before `environment` is added.
pub fn make_token(
    module: &Path,
    prepare: impl FnOnce(&mut Command) -> &mut Command,
    environment: &[(String, OsString)],
) -> Result<(), Error> {
    let program = std::env::current_exe().map_err(Error::io("the program's own executable"))?;
    let status = prepare(&mut Command::new(&program))
        .arg("--make-token")
        .arg(module)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .status()
        .map_err(Error::io(program))?;
    if status.success() { Ok(()) } else { Err(Error::Message("cannot create a token".to_owned())) }
}

/// Creates the token, in the process that `make_token` starts.
pub fn token(module: &Path) -> Result<(), Error> {
    let module = Module::load(module)?;
    module.initialize(None)?;
    initialise(&module, free_slot(&module)?, TOKEN, SO_PIN, PIN)?;
    Ok(module.finalize()?)
}
