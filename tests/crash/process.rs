//! Child processes, which run this binary, and their parameters.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use jeton::backend::Provider;
use jeton::error::Result;
use jeton::id::SlotId;
use jeton::module::User;

use crate::support::{Client, Directory, Functions, LABEL, PIN, SO_PIN};

const ROLE: &str = "JETON_CRASH_CHILD";
const DIRECTORY: &str = "JETON_CRASH_DIRECTORY";

/// Returns the role of this process, if it is a child.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Reads a number from the environment.
pub fn number<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().ok().expect("a number in the environment"),
        Err(_) => default,
    }
}

/// The directory of the tokens, in a child.
pub fn directory() -> Arc<Directory> {
    Directory::lent(&PathBuf::from(std::env::var_os(DIRECTORY).expect("a directory")))
}

/// A child and its output, line by line.
pub struct Process {
    child: Child,
    said: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts a child with additional environment variables.
    pub fn start(role: &str, directory: &Directory, more: &[(&str, String)]) -> Self {
        let own = std::env::current_exe().expect("this binary");
        Self::spawn(&mut Command::new(own), role, directory, more)
    }

    /// Starts a child through a program that becomes the child. The arguments of the program
    /// precede the path of this binary.
    pub fn start_by(
        program: &str,
        arguments: &[&str],
        role: &str,
        directory: &Directory,
        more: &[(&str, String)],
    ) -> Self {
        let own = std::env::current_exe().expect("this binary");
        Self::start_binary(program, arguments, &own, role, directory, more)
    }

    /// Like [`start_by`](Self::start_by), with a copy of this binary.
    pub fn start_binary(
        program: &str,
        arguments: &[&str],
        binary: &Path,
        role: &str,
        directory: &Directory,
        more: &[(&str, String)],
    ) -> Self {
        Self::spawn(Command::new(program).args(arguments).arg(binary), role, directory, more)
    }

    fn spawn(command: &mut Command, role: &str, directory: &Directory, more: &[(&str, String)]) -> Self {
        let mut child = command
            .env(ROLE, role)
            .env(DIRECTORY, directory.path())
            .envs(more.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut pipe = child.stdout.take().expect("a pipe");
        let read = move || {
            let mut said = String::new();
            pipe.read_to_string(&mut said).expect("text");
            said
        };
        Self { child, said: Some(std::thread::spawn(read)) }
    }

    /// Lets the waiting child continue.
    pub fn go(&mut self) {
        self.child.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("a child that listens");
    }

    /// Sends SIGKILL to the child, which must not have ended before. Returns all output.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("a child");
        let status = self.child.wait().expect("a child");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "a child ended with {status}");
        self.said()
    }

    /// Waits for the end of the child, which must succeed. Returns all output.
    pub fn wait(mut self) -> Vec<String> {
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "a child ended with {status}");
        self.said()
    }

    /// Waits for the end of the child. Returns whether it succeeded.
    pub fn lives(mut self) -> bool {
        let status = self.child.wait().expect("a child");
        self.said();
        status.success()
    }

    fn said(&mut self) -> Vec<String> {
        let said = self.said.take().expect("once").join().expect("a reader");
        // An incomplete last line does not count.
        said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
    }
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
    let module = Functions::new();
    let parameters = format!(
        "token-dir = '{}', backend = '{}', pin = {{ memory-kib = 8, passes = 1, retries = {retries}, uncounted-delay = 0 }}, \
         mechanisms = {{ legacy = true }} {more}",
        directory.path().display(),
        provider.name
    );
    let parameters = directory.with_server(&parameters);
    module.initialize(Some(&parameters))?;
    let slot = module.slots()?.first().copied().unwrap_or(SlotId(0));
    Ok(Client { module, slot, directory: Arc::clone(directory) })
}

/// A directory with a token whose PINs are set.
pub fn token() -> Arc<Directory> {
    let directory = Directory::new();
    token_in(&directory, PIN);
    directory
}

/// Makes a token whose user has this PIN.
pub fn token_in(directory: &Arc<Directory>, user_pin: &[u8]) {
    let client = client(directory, 10);
    client.module.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    unlock(&client, user_pin);
    client.module.finalize().expect("a module");
}

/// Logs in as the SO and sets the user's PIN.
pub fn unlock(client: &Client, pin: &[u8]) {
    let session = client.open();
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    client.module.init_pin(session, pin).expect("the user's PIN");
    client.module.close_session(session).expect("a session");
}

/// Random numbers (Steele, Lea, Flood: SplitMix64). [`Random::new`] prints its seed.
/// `JETON_CRASH_SEED` sets the seed, to repeat a run.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        let seed = number("JETON_CRASH_SEED", now.as_nanos() as u64);
        println!("JETON_CRASH_SEED={seed}");
        Self(seed)
    }

    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}
