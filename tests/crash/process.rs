//! Child processes, which run this binary, and their arguments.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::str::FromStr;

use jeton_child::Child;
pub use jeton_child::Random;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::prelude::*;

/// The name of a role, the directory of the tokens, and the argument of the child.
type Role = (String, PathBuf, Value);

fn own_role() -> Option<Role> {
    jeton_child::role().map(|role| role.expect("a role"))
}

/// Returns the role of this process, if it is a child.
pub fn role() -> Option<String> {
    own_role().map(|(name, ..)| name)
}

/// The directory of the tokens, in a child.
pub fn directory() -> Arc<Directory> {
    let (_, directory, _) = own_role().expect("a child");
    Directory::lent(&directory)
}

pub fn argument<T: DeserializeOwned>() -> T {
    let (.., argument) = own_role().expect("a child");
    serde_json::from_value(argument).expect("an argument of this child")
}

pub fn number<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().ok().expect("a number in the environment"),
        Err(_) => default,
    }
}

/// Returns a random pause before a kill. It is longer if a login alone takes more than 0.1 s.
pub fn pause(random: &mut Random) -> Duration {
    let longest = if std::env::var_os(FORMAT).is_some() { 1500 } else { 150 };
    Duration::from_millis(random.below(longest))
}

/// The number of kills, and of power cuts.
pub fn rounds() -> u64 {
    number("JETON_CRASH_ROUNDS", 12)
}

/// How long processes work at the same time.
pub fn seconds() -> u64 {
    number("JETON_CRASH_SECONDS", 2)
}

/// A child and its output, line by line.
pub struct Process(Child);

impl Process {
    pub fn start(role: &str, directory: &Directory, argument: impl Serialize) -> Self {
        Self::run(jeton_child::of_role(&role_of(role, directory, argument)))
    }

    /// Starts a child through a program that becomes the child. The arguments of the program
    /// precede the path of this binary.
    pub fn below(
        program: &str,
        arguments: &[&str],
        role: &str,
        directory: &Directory,
        argument: impl Serialize,
    ) -> Self {
        Self::run(jeton_child::below(program, arguments, &role_of(role, directory, argument)))
    }

    /// Starts a command that has a role.
    pub fn run(mut command: Command) -> Self {
        Self(Child::start(&mut command).expect("a child"))
    }

    pub fn go(&mut self) {
        self.0.write("go");
    }

    /// Sends SIGKILL to the child, which must not have ended before. Returns all output.
    pub fn kill(mut self) -> Vec<String> {
        let status = self.0.kill().expect("a child");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "a child ended with {status}");
        self.0.rest()
    }

    /// Waits for the end of the child, which must succeed. Returns all output.
    pub fn wait(mut self) -> Vec<String> {
        let said = self.0.rest();
        let status = self.0.wait().expect("a child");
        assert!(status.success(), "a child ended with {status}");
        said
    }

    /// Like [`wait`](Self::wait). Prints all output.
    pub fn echo(self) {
        self.wait().iter().for_each(|line| println!("{line}"));
    }

    /// Waits for the end of the child. Returns whether it succeeded.
    pub fn lives(mut self) -> bool {
        self.0.wait().expect("a child").success()
    }
}

pub fn role_of(name: &str, directory: &Directory, argument: impl Serialize) -> impl Serialize {
    let argument = serde_json::to_value(argument).expect("plain data");
    (name.to_owned(), directory.path().to_owned(), argument)
}

/// Returns the texts that follow this word in the lines of children.
pub fn texts(said: &[String], word: &str) -> BTreeSet<String> {
    said.iter().filter_map(|line| line.strip_prefix(word)).map(str::to_owned).collect()
}

/// Returns the numbers that follow this word in the lines of children.
pub fn numbers(said: &[String], word: &str) -> Vec<u64> {
    said.iter().filter_map(|line| line.strip_prefix(word)?.parse().ok()).collect()
}

/// In a child: reports that it is ready, and waits until the parent calls [`Process::go`].
pub fn ready() {
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a parent");
}

/// Starts children, and lets all of them continue after a pause.
pub fn together(count: usize, start: impl Fn(usize) -> Process) -> Vec<Vec<String>> {
    let mut children: Vec<_> = (0..count).map(start).collect();
    // Long enough for a few children to be ready. The other children start while these work.
    std::thread::sleep(Duration::from_millis(300));
    children.iter_mut().for_each(Process::go);
    let said = children.into_iter().map(Process::wait);
    said.map(|lines| lines.into_iter().filter(|line| line != "ready").collect()).collect()
}

/// A module on the tokens of a directory, with the cheapest PIN key derivation.
pub fn client(directory: &Arc<Directory>, retries: u32) -> Client {
    with(directory, retries, Provider::ALL[0])
}

/// Like [`client`], with this backend.
pub fn with(directory: &Arc<Directory>, retries: u32, provider: &Provider) -> Client {
    try_with(directory, retries, provider, "").expect("a module")
}

/// Like [`with`]. Adds this text to the module's configuration.
pub fn try_with(directory: &Arc<Directory>, retries: u32, provider: &Provider, more: &str) -> Result<Client> {
    let parameters = format!(
        "token-dir = '{}', backend = '{}', pin = {{ memory-kib = 8, passes = 1, retries = {retries}, uncounted-delay = 0 }}, \
         mechanisms = {{ legacy = true }} {more}",
        directory.path().display(),
        provider.name
    );
    Client::start(directory, &directory.with_server(&parameters))
}

/// A directory with a token whose PINs are set.
pub fn token() -> Arc<Directory> {
    let directory = Directory::new();
    token_in(&directory, PIN);
    directory
}

pub fn token_in(directory: &Arc<Directory>, user_pin: &[u8]) {
    let client = client(directory, 10);
    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    unlock(&client, user_pin);
    client.finalize().expect("a module");
}

pub fn unlock(client: &Client, pin: &[u8]) {
    let session = client.open();
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    client.init_pin(session, pin).expect("the user's PIN");
    client.close_session(session).expect("a session");
}
