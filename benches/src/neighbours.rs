//! What one client of `jeton-agent` suffers from another one: its rate and its times while the
//! other one crashes, stops, floods or computes. The turns alternate. It needs root, which starts
//! the processes of another user.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use jeton_child::Child;
use jeton_laboratory::{Table, median, percentile};
use jeton_peers::{PIN, TokenAccess, open_token};
use serde::{Deserialize, Serialize};

use super::AnyError;
use crate::agent::{LABEL, build, children, configuration, wait_for};
use crate::artefacts::target_directory;
use crate::child::{Conduct, Reached, Role, hear, in_turns};
use crate::scheme::{Scheme, named};
use crate::target::{Home, ModuleToken};

const PROGRAM: &str = "benches";
const RULES: &str = "rules.toml";
const SOCKET: &str = "agent.socket";
/// The user of the other client.
const OTHER: u32 = 65_534;
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_secs(1);
/// The connections that the other client has at most.
const CONNECTIONS: usize = 500;
/// The time between two crashes of its process.
const CRASH: Duration = Duration::from_millis(150);
/// A message that does not follow the protocol.
const WRONG: [u8; 13] = [9, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255];

const ALL: [(Conduct, &str); 6] = [
    (Conduct::Nothing, "does nothing"),
    (Conduct::Connects, "has 500 connections"),
    (Conduct::SendsWrong, "sends wrong messages"),
    (Conduct::Crashes, "crashes its process again and again"),
    (Conduct::Stops, "has a stopped process"),
    (Conduct::Signs, "signs with as many threads as there are processors"),
];

/// What one client did in a turn.
#[derive(Serialize, Deserialize)]
struct Turn {
    calls: usize,
    /// The median, 99 % and the longest time in microseconds.
    times: [f64; 3],
}

/// Prints the section of the page.
pub fn print() -> Result<(), AnyError> {
    build()?;
    print!("{}", section()?);
    Ok(())
}

/// Measures, and returns the section of the page.
pub fn section() -> Result<String, AnyError> {
    let mut text = "\n## Beside another client\n\n".to_owned();
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(text + "Not measured: only root can start the processes of another user.\n");
    }
    let stage = Stage::new()?;
    let reached = Reached { token: TokenAccess::Initialise, ..stage.reached.clone() };
    let mut victim = stage.start(&Role::Neighbour(reached), 0)?;
    hear::<bool>(&mut victim, "a client")?;
    let own = children(stage.agent.id());
    let mut turns: Vec<Vec<Turn>> = ALL.iter().map(|_| Vec::new()).collect();
    in_turns(ROUNDS, ALL.len(), |number| {
        let _other = stage.disturb(ALL[number].0, &own)?;
        victim.tell(&TURN);
        turns[number].push(hear(&mut victim, "a client")?);
        Ok(())
    })?;
    let mut table =
        Table::new(1, ["the other client", "signatures in a second", "median", "99 %", "the longest"]);
    for ((_, name), turns) in ALL.iter().zip(&turns) {
        let median = |of: &dyn Fn(&Turn) -> f64| median(turns.iter().map(of).collect());
        let rate = median(&|turn| turn.calls as f64 / TURN.as_secs_f64());
        let time = |at: usize| format!("{:.0} µs", median(&|turn| turn.times[at]));
        let longest = turns.iter().map(|turn| turn.times[2]).fold(0.0, f64::max);
        table.add([(*name).to_owned(), format!("{rate:.0}"), time(0), time(1), format!("{longest:.0} µs")]);
    }
    let processors = thread::available_parallelism()?;
    text += &format!(
        "`jeton-benches -- neighbours` prints this. One process of one client makes P-256 signatures, while a \
         client of another\nuser disturbs it, without control groups, on {processors} processors: the medians of \
         {ROUNDS} turns of a second, and the longest\ntime of all. No call failed.\n\n"
    );
    Ok(text + &table.markdown())
}

/// An agent with a token, and programs that both users can start.
struct Stage {
    directory: tempfile::TempDir,
    agent: Child,
    reached: Reached,
}

/// What disturbs: it ends when the value is dropped.
struct Disturbance {
    _children: Vec<Child>,
    stopped: Option<u32>,
    /// The thread that crashes the process of the other client, until the other end is dropped.
    _crashes: Option<mpsc::Sender<()>>,
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        if let Some(worker) = self.stopped {
            signal("CONT", worker);
        }
    }
}

impl Stage {
    fn new() -> Result<Self, AnyError> {
        // Another user cannot pass the directories above that of cargo.
        let directory = tempfile::tempdir()?;
        let path = directory.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        let release = target_directory().join("release");
        let library = path.join("libjeton_client.so");
        fs::copy(release.join("libjeton_client.so"), &library)?;
        fs::copy(env::current_exe()?, path.join(PROGRAM))?;
        fs::write(path.join(RULES), format!("[[client]]\nuid = 0\n[[client]]\nuid = {OTHER}\n"))?;
        fs::create_dir(path.join("tokens"))?;
        let configuration = configuration(path, "tokens")?;
        let socket = path.join(SOCKET);
        let mut command = Command::new(release.join("jeton-agent"));
        command.args(["--mode", "666", "--socket"]).arg(&socket).arg("--state").arg(path);
        command.arg("--rules").arg(path.join(RULES)).env("JETON_CONF", configuration);
        // Each crash is a line of the log.
        let agent = Child::start(command.env_remove("JETON_DIR").stderr(Stdio::null()))?;
        wait_for(&socket)?;
        let reserved = Some(format!("agent = 'unix:{}'", socket.display()));
        let token = TokenAccess::Existing { label: Some(LABEL.to_owned()), pin: PIN.to_owned() };
        let reached = Reached { library, reserved, token, only_signs: true };
        Ok(Self { directory, agent, reached })
    }

    fn start(&self, role: &Role, user: u32) -> Result<Child, AnyError> {
        let mut command = Command::new(self.directory.path().join(PROGRAM));
        command.env_remove("JETON_DIR").env_remove("JETON_CONF").uid(user);
        Ok(Child::start(&mut jeton_child::in_role(command, role))?)
    }

    /// Lets the other client begin, and waits until it has. `own` is the process of the measured
    /// one.
    fn disturb(&self, conduct: Conduct, own: &[u32]) -> Result<Disturbance, AnyError> {
        let (count, role) = match conduct {
            Conduct::Nothing => (0, Role::Served(self.reached.clone())),
            Conduct::Signs => (thread::available_parallelism()?.get(), Role::Served(self.reached.clone())),
            _ => (1, Role::Disturb(self.directory.path().join(SOCKET), conduct)),
        };
        let mut children = (0..count).map(|_| self.start(&role, OTHER)).collect::<Result<Vec<_>, _>>()?;
        for child in &mut children {
            hear::<bool>(child, &format!("{conduct:?}"))?;
            if conduct == Conduct::Signs {
                // It is killed before.
                child.tell(&(10 * TURN).as_secs());
            }
        }
        let (front, own) = (self.agent.id(), own.to_vec());
        let other = move || self::children(front).into_iter().find(|worker| !own.contains(worker));
        let mut stopped = None;
        while conduct == Conduct::Stops && stopped.is_none() {
            thread::sleep(Duration::from_millis(1));
            stopped = other().inspect(|worker| signal("STOP", *worker));
        }
        let crash = || {
            let (ends, end) = mpsc::channel();
            thread::spawn(move || {
                while end.recv_timeout(CRASH) == Err(RecvTimeoutError::Timeout) {
                    // The first one that no access caused ends the handler of it only.
                    if let Some(worker) = other() {
                        (0..2).for_each(|_| signal("SEGV", worker));
                    }
                }
            });
            ends
        };
        let _crashes = (conduct == Conduct::Crashes).then(crash);
        Ok(Disturbance { _children: children, stopped, _crashes })
    }
}

/// Sends a signal to a process, which may have ended.
fn signal(name: &str, process: u32) {
    let mut command = Command::new("kill");
    let _ = command.arg(format!("-{name}")).arg(process.to_string()).stderr(Stdio::null()).status();
}

/// The measured client: signs for the time that its parent says, and answers with a [`Turn`].
pub(crate) fn sign(reached: &Reached) -> Result<(), AnyError> {
    let (module, slot, pin) = open_token(&reached.library, reached.reserved.as_deref(), &reached.token)?;
    let token = ModuleToken::open("child", &module, slot, &pin, Home::Session)?;
    let pair = named("p256");
    let mut operation = token.signing(pair, Scheme::Ecdsa, token.pair(pair)?)?;
    operation.time(1000);
    jeton_child::say(&true);
    while let Some(limit) = jeton_child::heard::<Duration>() {
        let (start, limit) = (Instant::now(), limit?);
        let mut times = Vec::new();
        while start.elapsed() < limit {
            times.push(operation.time(1).as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        let of_all = [0.5, 0.99, 1.0].map(|part| percentile(&times, part));
        jeton_child::say(&Turn { calls: times.len(), times: of_all });
    }
    Ok(())
}

/// The other client, until it is killed.
pub(crate) fn disturb(socket: &Path, conduct: Conduct) -> Result<(), AnyError> {
    let connect = || UnixStream::connect(socket);
    let wrong = || {
        let ask = || {
            let mut stream = connect()?;
            stream.write_all(&WRONG)?;
            stream.read(&mut [0])
        };
        loop {
            // The agent closes the connection.
            let _ = ask();
        }
    };
    let held = if conduct == Conduct::Connects { CONNECTIONS } else { 1 };
    let mut open = (0..held).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
    jeton_child::say(&true);
    if conduct == Conduct::SendsWrong {
        let threads = thread::available_parallelism()?.get();
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(wrong))));
    }
    loop {
        // A thread of the agent waits 20 s for a first message.
        open[0] = connect()?;
        if conduct == Conduct::Crashes {
            let _ = open[0].read(&mut [0]);
        } else {
            thread::sleep(CRASH);
        }
    }
}
