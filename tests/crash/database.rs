//! Tokens in a PostgreSQL database: killed processes, a server that crashes, failovers to a
//! standby, several hosts, many hosts, and servers under Patroni. Some sign with keys whose uses
//! are counted.
//!
//! The processes work on one token. Each is killed at some moment, and its changes are compared
//! with the database afterwards. A call may fail while the server cannot be reached: then it has
//! its full effect or no effect.

mod cluster;
pub mod counted;
pub mod failover;
pub mod faults;
pub mod fleet;
mod history;
pub mod hosts;
pub mod kill;
mod namespaces;
mod patroni;
mod pooler;

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread::sleep;

use super::*;
use crate::support::server::{Server, USER, as_user, binaries};
use crate::worker::{Counts, Dead, Running, Task, Worker, pin, try_log_in};

const WORKERS: usize = 4;
/// `timeout-seconds` of the processes.
const TIMEOUT: u64 = 5;
/// A call waits twice at most, for a connection and for an answer. The rest is for a busy machine.
const LONGEST_CALL: Duration = Duration::from_secs(3 * TIMEOUT);
/// How long a server may be away.
const LONGEST_OUTAGE: Duration = Duration::from_secs(30);

/// Returns whether PostgreSQL is installed. If it is not, prints that the test is skipped.
pub fn is_installed() -> bool {
    let found = binaries().is_some();
    if !found {
        jeton_programs::skip_without("PostgreSQL", &["postgresql"]);
    }
    found
}

fn until_ok<T>(mut work: impl FnMut() -> Result<T>) -> T {
    let start = Instant::now();
    loop {
        match work() {
            Ok(done) => return done,
            Err(Error::DeviceError) if start.elapsed() < LONGEST_OUTAGE => {}
            Err(reason) => panic!("{reason:?} after {:?}", start.elapsed()),
        }
        sleep(Duration::from_millis(20));
    }
}

/// Returns an initialised module. Tries again while the server cannot be reached.
fn host(directory: &Arc<Directory>) -> Client {
    let more = format!(", store = {{ timeout-seconds = {TIMEOUT} }}");
    until_ok(|| try_with(directory, u32::MAX, Provider::ALL[0], &more))
}

/// Like [`crate::worker::log_in`], and tries again while the server cannot be reached.
fn log_in(client: &Client, session: SessionHandle, known: u64) -> u64 {
    let opens = |number: &u64| until_ok(|| try_log_in(client, session, *number));
    (known..known + 2000).find(opens).expect("a PIN that opens the token")
}

/// Works until it is killed. Prints the longest time of its calls.
pub fn child() {
    let client = host(&directory());
    let session = until_ok(|| client.open_session(client.slot, Access::ReadWrite));
    let task: Task = argument();
    let task = Task { pin: log_in(&client, session, task.pin), ..task };
    let mut worker = Worker::in_session(&client, session, &task, |line| println!("{line}"));
    let mut longest = Duration::ZERO;
    loop {
        let start = Instant::now();
        let done = worker.try_step();
        let took = start.elapsed();
        assert!(took < LONGEST_CALL, "a call took {took:?}");
        match done {
            Ok(()) => {}
            Err(Error::DeviceError) => {
                worker.say("failed".to_owned());
                sleep(Duration::from_millis(20));
            }
            Err(reason) => panic!("{reason:?}"),
        }
        if took > longest {
            longest = took;
            println!("longest {}", longest.as_millis());
        }
    }
}

/// The processes of a case, and its counts.
struct Workers {
    directory: Arc<Directory>,
    random: Random,
    running: Vec<Running>,
    dead: Vec<Dead>,
    started: u64,
    /// The number of the user's PIN, as of the last check.
    pin: u64,
    counts: Counts,
}

impl Workers {
    fn new(url: &str) -> Self {
        let directory = Directory::new();
        directory.use_url(url);
        token_in(&directory, &pin(0));
        let (random, counts) = (Random::new("JETON_CRASH_SEED"), Counts::default());
        Self { directory, random, running: Vec::new(), dead: Vec::new(), started: 0, pin: 0, counts }
    }

    /// Starts the processes. The first one also changes the PIN.
    fn start(&mut self) {
        for place in 0..WORKERS {
            self.started += 1;
            let (name, seed) = (format!("w{}", self.started), self.random.below(u64::MAX));
            let task = Task { name, pin: self.pin, changes_pin: place == 0, seed };
            self.running.push(Running::start("database", &self.directory, task));
        }
    }

    fn kill_one(&mut self) {
        let place = self.random.below(self.running.len() as u64) as usize;
        self.dead.push(self.running.swap_remove(place).kill());
    }

    /// Kills all processes. `connections` returns the number of their connections to the server.
    /// When it is zero, compares the changes of all processes with the database.
    fn kill_and_check(&mut self, connections: impl Fn() -> String) {
        while !self.running.is_empty() {
            self.kill_one();
        }
        // The server may still complete a commit that it has received.
        let are_gone = || connections() == "0";
        jeton_child::until(LONGEST_OUTAGE, "connections of killed processes remain", are_gone);
        let client = host(&self.directory);
        let session = client.open();
        self.pin = log_in(&client, session, self.pin);
        for dead in std::mem::take(&mut self.dead) {
            dead.check(&client, session, self.pin, &mut self.counts);
        }
        assert_eq!(client.find(session, &none()), [], "objects remaining");
        client.finalize().expect("a module");
    }

    fn report(&self, what: &str) {
        let longest = self.counts.longest;
        println!("{what}, {}, the longest call took {longest} ms", self.counts.describe(self.pin));
    }
}

/// The query for [`Workers::kill_and_check`].
const CONNECTIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jeton'";
