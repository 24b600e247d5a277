//! An agent with a directory of tokens, and the names that most test programs use.

#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

pub mod peer;
pub mod token;

pub use std::fs::{self, File};
pub use std::io::{Read, Write};
use std::ops::Deref;
pub use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
pub use std::path::{Path, PathBuf};
use std::process::ExitStatus;
pub use std::process::{self, Command, Stdio};
pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};
use std::sync::{Barrier, MutexGuard, PoisonError};
pub use std::thread;
pub use std::time::{Duration, Instant};

use agent_client as _;
pub use cryptoki_sys::*;
pub use jeton_agent_wire::status::status;
pub use jeton_child::Child;
pub use jeton_client::{Access, Attribute, Failure, Mechanism, Module, ObjectHandle, Session, User};
pub use jeton_peers::{Known, PIN, SO_PIN, initialise};
pub use rustix::process::{Pid, Signal, kill_process, kill_process_group};
pub use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempDir;

/// A section of the configuration with PINs that take a fifth of a second, or longer.
pub const SLOW_PINS: &str = "[pin]\nmemory-kib = 16384\npasses = 16\n";

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_jeton-agent");

/// Held by a test that uses the client module: there is one application in a process.
static MODULE: Mutex<()> = Mutex::new(());

/// Writes the rules with which the next agent in the directory starts.
pub fn write_rules(directory: &Path, rules: &str) {
    fs::write(directory.join("rules.toml"), rules).expect("a file");
}

/// Waits until no other test of this process uses the client module.
pub fn module() -> MutexGuard<'static, ()> {
    MODULE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The directory of a test, and the lock of the client module if the test uses it. Dropping the
/// value removes the directory.
pub struct Directory(TempDir, Option<MutexGuard<'static, ()>>);

impl Directory {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"), None)
    }

    /// Returns the directory of a test that uses the client module, like [`module`].
    pub fn alone() -> Self {
        Self(tempfile::tempdir().expect("a directory"), Some(module()))
    }
}

impl Deref for Directory {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

/// A running agent. It is killed when the value is dropped.
pub struct Agent {
    directory: PathBuf,
    socket: PathBuf,
    more: String,
    child: process::Child,
}

impl Agent {
    pub fn start(directory: &Path) -> Self {
        Self::start_beside(directory, "agent.socket")
    }

    /// Starts an agent in this directory, which lives longer than the agent.
    pub fn within(directory: Directory) -> (Self, Directory) {
        (Self::start(&directory), directory)
    }

    /// Starts another agent on the same tokens, with a socket of this name.
    pub fn start_beside(directory: &Path, name: &str) -> Self {
        Self::try_start(directory, name, "").expect("an agent")
    }

    /// Starts an agent with more sections of its configuration. Returns `None` if it ends.
    pub fn try_start(directory: &Path, name: &str, more: &str) -> Option<Self> {
        Self::try_start_with(Command::new(PROGRAM), directory, name, more)
    }

    /// Starts an agent with a command that its arguments complete. Returns `None` if it ends.
    pub fn try_start_with(mut command: Command, directory: &Path, name: &str, more: &str) -> Option<Self> {
        let socket = directory.join(name);
        let tokens = directory.join("tokens");
        fs::create_dir_all(&tokens).expect("a directory");
        let configuration = directory.join("jeton.toml");
        let pin = if more.contains("[pin]") { "" } else { "pin = { memory-kib = 8, passes = 1 }\n" };
        let text = format!("token-dir = '{}'\nlog = {{ level = 'warn' }}\n{pin}{more}", tokens.display());
        fs::write(&configuration, text).expect("a file");
        let rules = directory.join("rules.toml");
        if rules.exists() {
            command.arg("--rules").arg(rules);
        }
        // Its own group is that of its processes.
        let mut child = command
            .process_group(0)
            .arg("--administrators")
            .arg(rustix::process::getgid().as_raw().to_string())
            .arg("--socket")
            .arg(&socket)
            .arg("--state")
            .arg(directory)
            .env("JETON_CONF", configuration)
            .env_remove("JETON_DIR")
            .stdin(Stdio::null())
            .spawn()
            .expect("the agent");
        let start = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            if child.try_wait().expect("a child").is_some() {
                return None;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "the agent does not answer");
            thread::sleep(Duration::from_millis(2));
        }
        Some(Self { directory: directory.to_owned(), socket, more: more.to_owned(), child })
    }

    /// Kills the agent and starts it again.
    pub fn replace(&mut self) {
        self.kill();
        let name = self.socket.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let (directory, more) = (self.directory.clone(), self.more.clone());
        *self = Self::try_start(&directory, &name, &more).expect("an agent");
    }

    /// Stops all processes of the agent, and waits until they stand still.
    pub fn stop(&self) {
        self.signal_all(Signal::STOP);
        until("the agent does not stop", || {
            self.processes().iter().all(|process| {
                let stat = fs::read_to_string(format!("/proc/{process}/stat"));
                stat.is_ok_and(|state| state.contains(") T "))
            })
        });
    }

    /// Returns the processes of the agent, the front first.
    pub fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.child.id()];
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten()
        {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        all
    }

    /// Returns the workers.
    pub fn workers(&self) -> Vec<u32> {
        self.parts("worker")
    }

    /// Returns the processes of the agent with this first argument.
    pub fn parts(&self, part: &str) -> Vec<u32> {
        let is_part = |process: &u32| {
            let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            command.ends_with(format!("\0{part}\0").as_bytes())
        };
        self.processes().into_iter().filter(is_part).collect()
    }

    /// Returns a figure of `/proc/PID/status`, as `VmHWM` in KiB, of all processes of the agent.
    pub fn figure(&self, name: &str) -> usize {
        let of_process = |process: u32| {
            let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<usize>().ok()
        };
        self.processes().into_iter().filter_map(of_process).sum()
    }

    /// Sends a signal to all processes of the agent.
    pub fn signal_all(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).expect("a process");
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process");
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child")
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills all processes of the agent, and waits until they have ended.
    pub fn kill(&mut self) {
        let all = self.processes();
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
        let has_ended = |process: &u32| {
            // No process may wait for one whose parent has ended.
            let stat = fs::read_to_string(format!("/proc/{process}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        until("a process of the agent does not end", || all.iter().all(has_ended));
    }

    /// Returns whether the agent has not ended.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends the other threads, also after a failure.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the section of a configuration with an audit log in this directory, and the file.
pub fn audited(directory: &Path) -> (String, PathBuf) {
    let file = directory.join("audit.jsonl");
    (format!("[audit]\nfile = '{}'\n", file.display()), file)
}

/// Returns the records of an audit log. Their numbers have no gap.
pub fn records(audit: &Path) -> Vec<Value> {
    let text = fs::read_to_string(audit).expect("an audit log");
    let whole = text.lines().take(text.matches('\n').count());
    let all: Vec<Value> = whole.map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert!((1..).zip(&all).all(|(number, record)| record["number"] == number));
    all
}

/// Waits until something holds.
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    jeton_child::until(Duration::from_secs(30), what, holds);
}

/// Makes a token through the agent in this directory. Returns its slot.
pub fn make_token(directory: &Path) -> u64 {
    peer::Peer::started(directory).make_token()
}

/// Starts this number of applications of one client, each with a session, and then does `work` in
/// all of them at once. Returns the results. No application ends before the last one has done it.
pub fn at_once<T: Send>(
    directory: &Path,
    slot: u64,
    applications: usize,
    work: impl Fn(usize, &mut peer::Peer, u64) -> T + Sync,
) -> Vec<T> {
    let opened: Vec<_> = (0..applications).map(|_| peer::Peer::opened(directory, slot)).collect();
    let (start, work) = (&Barrier::new(applications), &work);
    let done: Vec<_> = thread::scope(|scope| {
        let start = |(number, (mut peer, session)): (usize, (peer::Peer, u64))| {
            scope.spawn(move || {
                start.wait();
                (work(number, &mut peer, session), peer)
            })
        };
        let threads: Vec<_> = opened.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    done.into_iter().map(|(result, _)| result).collect()
}

pub fn socket(directory: &Path) -> PathBuf {
    directory.join("agent.socket")
}

/// Returns the library parameters that name an agent.
pub fn parameters(directory: &Path) -> String {
    parameters_of(&[socket(directory)])
}

/// Returns the library parameters that name several agents.
pub fn parameters_of(sockets: &[PathBuf]) -> String {
    let addresses: Vec<_> = sockets.iter().map(|socket| format!("unix:{}", socket.display())).collect();
    format!("agent='{}'", addresses.join(","))
}
