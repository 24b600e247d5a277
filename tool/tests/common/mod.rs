//! Runs the tool as a process, and finds other programs and modules of the machine.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

pub mod migration;
pub mod old_store;

pub use std::collections::{BTreeMap, BTreeSet};
pub use std::fs::{self, File};
pub use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Deref;
pub use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
pub use std::os::unix::process::CommandExt;
pub use std::path::{Path, PathBuf};
use std::process::Child;
pub use std::process::{Command, Stdio};
pub use std::sync::OnceLock;
pub use std::thread::sleep;
pub use std::time::{Duration, Instant};

pub use jeton_peers::Known;
pub use jeton_programs::{Scratch, fails, has, number, peer, run, says, skip, succeed};
use jeton_tool::client::{Access, Module, Session, User};
pub use serde_json::Value;

/// The PINs of the tokens, in the environment of the tool.
pub const PIN: &str = "87654321";
pub const SO_PIN: &str = "12345678";
/// The passphrase of backups, also in the environment.
pub const PASSPHRASE: &str = "a long passphrase";
/// The cheapest key derivation, which makes the logins fast.
pub const CHEAP: &str = "[pin]\nmemory-kib = 8\npasses = 1\n";

pub fn jeton<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jeton"));
    command.args(arguments);
    command
}

/// Copies the tool to this path, with `cp`. If the test itself wrote the file, a child that another
/// thread forks meanwhile could hold it open, and the file could not be executed.
pub fn copy_tool(to: impl AsRef<Path>) {
    succeed(Command::new("cp").arg(env!("CARGO_BIN_EXE_jeton")).arg(to.as_ref()));
}

/// Makes a token for a test that needs OpenSSL.
pub fn with_openssl() -> Option<Tool> {
    Tool::new().filter(|_| has("openssl"))
}

/// Runs a command that must fail for this reason, and not because its usage is wrong.
pub fn refused(command: &mut Command, reason: impl AsRef<str>) {
    let (code, text) = run(command);
    assert!(code > 0 && code != 2, "exit {code}: {command:?}\n{text}");
    says(text, reason);
}

/// Runs `jeton doctor --json` and checks its exit status. Returns its findings, except those of the
/// checks in `ignored`, which depend on the machine and on the tests.
pub fn findings(doctor: &mut Command, ignored: &[&str]) -> Vec<Value> {
    let output = doctor.output().expect("the tool starts");
    let mut all: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list");
    let wrong = all.iter().any(|row| row["repaired"] != true);
    assert_eq!(output.status.code(), Some(i32::from(wrong)), "{all:?}");
    all.retain(|row| ignored.iter().all(|check| row["check"] != *check));
    all
}

/// Checks that findings have these names and no others. Returns them.
pub fn named(all: Vec<Value>, expected: &[&str]) -> Vec<Value> {
    let names: BTreeSet<_> = all.iter().map(|row| row["check"].as_str().expect("a name")).collect();
    assert_eq!(names, expected.iter().copied().collect(), "{all:?}");
    all
}

/// Loads a module, and logs the user in to its only token.
pub fn log_in(library: impl AsRef<Path>, parameters: Option<&str>) -> (Module, Session) {
    let module = Module::load(library).expect("the module");
    module.initialize(parameters).expect("the configuration");
    let slot = *module.slots(true).expect("slots").first().expect("a token");
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    session.login(User::User, Some(PIN)).expect("the PIN");
    (module, session)
}

/// A command line of the tool: words with spaces between them, or a list of words.
pub trait Line {
    fn words(&self) -> Vec<&str>;
}

impl Line for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Line for String {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl<const N: usize> Line for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Line for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

/// The length of a serial number, which a token's own directory is named after.
pub const SERIAL: usize = 16;

/// A directory with a token directory, a configuration and other files, in which the tool runs.
pub struct Tool {
    pub scratch: Scratch,
}

impl Deref for Tool {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl Tool {
    /// Makes a directory without tokens. Returns `None` if the module is not built.
    pub fn empty() -> Option<Self> {
        peer(Known::Jeton)?;
        let tool = Self { scratch: Scratch::new() };
        tool.configure("");
        Some(tool)
    }

    /// Makes a directory with a token labelled `mine`. Returns `None` if the module is not built.
    pub fn new() -> Option<Self> {
        let tool = Self::empty()?;
        tool.ok(&["token", "init", "--label", "mine"]);
        Some(tool)
    }

    pub fn configure(&self, more: &str) {
        self.write("conf", format!("{CHEAP}{more}"));
    }

    /// Returns a command with the PINs and the passphrase in the environment.
    pub fn command(&self, line: &(impl Line + ?Sized)) -> Command {
        self.command_in("tokens", line)
    }

    /// Like [`command`](Self::command), with another token directory.
    pub fn command_in(&self, tokens: &str, line: &(impl Line + ?Sized)) -> Command {
        let mut command = self.without_pins(line);
        command.env("JETON_DIR", self.file(tokens)).env("JETON_PIN", PIN);
        command.env("JETON_SO_PIN", SO_PIN).env("JETON_BACKUP_PASSPHRASE", PASSPHRASE);
        command
    }

    pub fn without_pins(&self, line: &(impl Line + ?Sized)) -> Command {
        let mut command = jeton(line.words());
        command.current_dir(self.path()).stdin(Stdio::null());
        command.env("JETON_DIR", self.file("tokens")).env("JETON_CONF", self.file("conf"));
        command
    }

    /// Runs a command that must succeed. Returns its output.
    pub fn ok(&self, line: &(impl Line + ?Sized)) -> String {
        succeed(&mut self.command(line))
    }

    /// Runs a command that must fail with this exit status. Returns its output.
    pub fn fails(&self, status: i32, line: &(impl Line + ?Sized)) -> String {
        fails(status, &mut self.command(line))
    }

    /// Runs a command that must succeed. Returns its JSON.
    pub fn json(&self, line: &(impl Line + ?Sized)) -> Value {
        serde_json::from_str(&self.ok(line)).expect("JSON")
    }

    /// Returns the rows of the list that a command prints as JSON.
    pub fn rows(&self, line: &(impl Line + ?Sized)) -> Vec<Value> {
        serde_json::from_value(self.json(line)).expect("a list")
    }

    /// Runs a script of the shell, which must succeed.
    pub fn shell(&self, script: &str) -> String {
        let mut command = Command::new("sh");
        succeed(command.args(["-ec", script]).current_dir(self.path()).stdin(Stdio::null()))
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.file(name), bytes).expect("the directory is writable");
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.file(name)).expect("the file was written")
    }

    /// Returns the names in a directory, or nothing if there is no such directory. The name of a
    /// file in a token's own directory begins with that of the directory.
    pub fn files(&self, folder: &str) -> BTreeSet<String> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
        let names = |folder: &Path| -> Vec<_> {
            fs::read_dir(folder).into_iter().flatten().map(|entry| name(entry.expect("an entry"))).collect()
        };
        let mut files = BTreeSet::new();
        for entry in names(Path::new(&self.file(folder))) {
            let inside = names(&Path::new(&self.file(folder)).join(&entry));
            if entry.len() != SERIAL || inside.is_empty() {
                files.insert(entry);
            } else {
                files.extend(inside.iter().map(|name| format!("{entry}/{name}")));
            }
        }
        files
    }

    /// Returns the path of a token in a directory.
    pub fn token_file(&self, tokens: &str) -> String {
        let files = self.files(tokens);
        let name = files.iter().find(|name| name.ends_with(".jeton")).expect("a token");
        format!("{}/{name}", self.file(tokens))
    }

    /// Returns the serial number of the token in the token directory.
    pub fn serial(&self) -> String {
        let file = self.token_file("tokens");
        file.rsplit('/').next().and_then(|name| name.strip_suffix(".jeton")).expect("a serial").to_owned()
    }

    /// Signs a message with the private key of a label, and verifies the signature.
    pub fn signs(&self, label: &str) {
        self.signs_with(label, label);
    }

    /// Signs a message with one key, and verifies the signature with the key of another label.
    pub fn signs_with(&self, label: &str, public: &str) {
        self.write("message", "hello");
        self.ok(&["sign", "message", "--label", label, "--out", "signature", "--force"]);
        self.ok(&["verify", "message", "--label", public, "--signature", "signature"]);
    }
}

/// The tool as an OCSP responder. It ends when this is dropped.
pub struct Responder {
    process: Child,
    pub address: String,
}

impl Responder {
    /// Starts the responder of the CA that these options name.
    pub fn start(tool: &Tool, ca: &str) -> Self {
        let mut command = tool.command(&format!("ocsp --listen 127.0.0.1:0 {ca}"));
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the tool");
        let mut url = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut url).expect("a line");
        Self { process, address: url.trim().strip_prefix("http://").expect("a URL").to_owned() }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.process.kill().and_then(|()| self.process.wait()).expect("the responder");
    }
}
