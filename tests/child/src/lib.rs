//! Starts this program again as a child process, which has a role. A crash or a hang of a child
//! does not end its parent, and a child has its own environment, which configures a module.
//!
//! The role is in the environment, as JSON. So it also reaches a child that another program starts
//! (valgrind, unshare), and a child that runs below the harness of the tests. Everybody who may
//! trace a process can read its environment, so PINs go through standard input.

use std::env;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{self, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

mod random;

pub use random::Random;

const ROLE: &str = "JETON_CHILD";

/// For a child that may take any time.
pub const UNLIMITED: Duration = Duration::MAX;

/// Waits until something holds. Panics with `what` after the limit.
pub fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the role of this process, if it is a child. Fails if the role is malformed.
pub fn role<R: DeserializeOwned>() -> Option<Result<R, String>> {
    let text = env::var(ROLE).ok()?;
    Some(serde_json::from_str(&text).map_err(|error| format!("{ROLE}={text:?}: {error}")))
}

/// Returns the command that starts this program in a role.
pub fn of_role(role: &impl Serialize) -> Command {
    in_role(Command::new(this()), role)
}

/// Returns the command that starts another program, which runs this program in a role. The
/// arguments of the other program precede the path of this one.
pub fn below<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    role: &impl Serialize,
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(this());
    in_role(command, role)
}

/// Returns the command that starts this test program in a role, and runs only the test with this
/// name there. The test asks for its [`role`].
pub fn of_test(name: &str, role: &impl Serialize) -> Command {
    let mut command = of_role(role);
    // With one thread, the harness would print the name of the test before the first message.
    command.args(["--exact", name, "--nocapture", "--test-threads=2"]);
    command
}

/// Gives a role to the program that a command starts.
pub fn in_role(mut command: Command, role: &impl Serialize) -> Command {
    command.env(ROLE, json(role));
    command
}

/// This program. Without its path, the start of the child fails and reports it.
fn this() -> std::path::PathBuf {
    env::current_exe().unwrap_or_default()
}

/// The messages and roles are plain data, which always has a JSON form.
fn json(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}

/// In a child: writes a message for the parent. If the parent has ended, this process ends too.
pub fn say(message: &impl Serialize) {
    let text = json(message);
    let mut out = io::stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        process::exit(1);
    }
}

/// In a child: reads the next message of the parent. Returns `None` if there are no more.
pub fn heard<T: DeserializeOwned>() -> Option<Result<T, String>> {
    let mut line = String::new();
    match io::stdin().read_line(&mut line) {
        Ok(0) => None,
        Ok(_) => Some(serde_json::from_str(&line).map_err(|error| error.to_string())),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Why a child says nothing more.
#[derive(Debug)]
pub enum Silence {
    /// It has ended.
    Ended(ExitStatus),
    /// It was silent for too long, and was killed.
    Killed,
}

/// A running child. Dropping this value kills it.
pub struct Child {
    process: process::Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Child {
    /// Starts a child with pipes to its standard input and from its standard output. If its
    /// standard error is a pipe too, [`errors`](Self::errors) returns it.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = process.stdout.take() {
            thread::spawn(move || {
                // The receiver is gone if the child was dropped.
                lines_of(output).all(|line| sender.send(line).is_ok())
            });
        }
        let errors = process.stderr.take().map(|mut pipe| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is the best report that there is.
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Ok(Self { input: process.stdin.take(), process, lines, errors })
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a message. If the child has ended, the next call that reads its answer reports it.
    pub fn tell(&mut self, message: &impl Serialize) {
        self.write(&json(message));
    }

    /// Sends a line, like [`tell`](Self::tell).
    pub fn write(&mut self, line: &str) {
        let _ = self.input.as_mut().map(|input| writeln!(input, "{line}"));
    }

    /// Returns the child's standard input. Dropping it closes the input.
    pub fn input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// Returns the next message. A module may write to standard output too: lines that are not
    /// messages are skipped. Kills the child if it prints nothing for this time.
    pub fn hear<T: DeserializeOwned>(&mut self, limit: Duration) -> Result<T, Silence> {
        loop {
            if let Ok(message) = serde_json::from_str(&self.line(limit)?) {
                return Ok(message);
            }
        }
    }

    /// Returns the next line. Kills the child if it prints nothing for this time.
    pub fn line(&mut self, limit: Duration) -> Result<String, Silence> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Disconnected) => {
                Err(self.process.wait().map_or(Silence::Killed, Silence::Ended))
            }
            Err(RecvTimeoutError::Timeout) => {
                // The child may have just ended by itself.
                let _ = self.kill();
                Err(Silence::Killed)
            }
        }
    }

    /// Returns the messages that the child has sent so far.
    pub fn waiting<T: DeserializeOwned>(&mut self) -> Vec<T> {
        self.lines.try_iter().filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// Returns the remaining lines, when the child has ended.
    pub fn rest(&mut self) -> Vec<String> {
        self.lines.iter().collect()
    }

    /// Closes the child's input and waits until it ends. Kills it if it prints nothing for this
    /// time.
    pub fn finish(&mut self, limit: Duration) -> Silence {
        self.input = None;
        loop {
            if let Err(silence) = self.line(limit) {
                return silence;
            }
        }
    }

    /// Kills the child. Returns its exit status: of the signal, unless it had ended before.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        // The child may have ended by itself.
        let _ = self.process.kill();
        self.process.wait()
    }

    /// Waits until the child has ended. Returns its exit status.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait()
    }

    /// Returns what the child wrote to standard error, when it has ended. Returns nothing if this
    /// is not a pipe.
    pub fn errors(&mut self) -> String {
        self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The complete lines of an output. A last line without its end does not count.
fn lines_of(output: impl Read) -> impl Iterator<Item = String> {
    let mut output = BufReader::new(output);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        output.read_until(b'\n', &mut line).ok()?;
        let line = line.strip_suffix(b"\n")?;
        Some(String::from_utf8_lossy(line).into_owned())
    })
}

/// Runs a program that must succeed. Returns its standard output and its standard error. The error
/// has its exit status and its standard error.
pub fn output(mut command: Command) -> Result<(String, String), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.success() { Ok((out, err)) } else { Err(format!("{}: {err}", output.status)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not a test by itself: the work of the children of the test below.
    #[test]
    fn child() {
        match role::<(String, u64)>() {
            None => {}
            Some(role) => match role.expect("a role") {
                (what, number) if what == "echo" => {
                    println!("not a message");
                    say(&number);
                    while let Some(message) = heard::<u64>() {
                        say(&(message.expect("a number") + number));
                    }
                    eprintln!("the end");
                    process::exit(3);
                }
                _ => thread::sleep(UNLIMITED),
            },
        }
    }

    #[test]
    fn a_child_answers_and_reports_its_end() {
        let mut command = of_test("tests::child", &("echo", 40));
        let mut child = Child::start(command.stderr(Stdio::piped())).expect("a child");
        assert_eq!(child.hear::<u64>(UNLIMITED).expect("a number"), 40);
        child.tell(&2);
        assert_eq!(child.hear::<u64>(UNLIMITED).expect("a number"), 42);
        assert!(matches!(child.finish(UNLIMITED), Silence::Ended(status) if status.code() == Some(3)));
        assert!(child.errors().contains("the end"));
    }

    #[test]
    fn a_silent_child_is_killed() {
        let mut child = Child::start(&mut of_test("tests::child", &("sleep", 0))).expect("a child");
        // The harness prints its first lines when it starts.
        while child.line(Duration::from_secs(2)).is_ok() {}
        assert!(!child.wait().expect("a status").success());
    }

    #[test]
    fn an_incomplete_last_line_does_not_count() {
        assert_eq!(lines_of(&b"one\ntwo\nthr"[..]).collect::<Vec<_>>(), ["one", "two"]);
    }
}
