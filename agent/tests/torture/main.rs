//! Sixteen client processes use two agents on the same tokens through proxies, while connections,
//! processes and the disk fail. For root they are those of four users. Each client checks its
//! answers (`client.rs`). The parent causes the faults, and checks the agents and what they stored.
//!
//! `JETON_TORTURE_SEED` repeats a sequence of faults, `JETON_TORTURE_SECONDS` is the length of a
//! run, `JETON_TORTURE_CLIENTS` the number of clients, and `JETON_TORTURE_FAULTS` chooses faults.
//! The faults of processes and of the disk follow
//! from the seed. The moments at which they meet the calls do not.

#[path = "../common/mod.rs"]
mod common;

mod client;
mod disk;
mod fault;
mod proxy;

use std::collections::BTreeMap;
use std::sync::mpsc;

use client::{LIMIT, MARGIN, Said};
use common::*;
use disk::Disk;
use fault::{Chosen, Fault};
use jeton_agent_wire::Status;
use jeton_child::{Random, UNLIMITED};
use proxy::Proxy;
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// The number of clients, if the variable does not say it.
const CLIENTS: u64 = 16;
/// The users of the clients, if root runs the test. Each is a client of the agents.
const USERS: [u32; 4] = [65_531, 65_532, 65_533, 65_534];
/// The length of a run in seconds, if the variable does not say it.
const SECONDS: u64 = 60;
/// The most milliseconds between two faults of processes.
const BETWEEN: u64 = 1_000;
/// How long the parent waits between two looks at the agents.
const LOOK: Duration = Duration::from_millis(500);
/// An agent forgets a closed connection within this time, and ends within it.
const GONE: Duration = Duration::from_secs(30);
/// The memory in bytes that a rule gives for each 16 clients or fewer.
const MEMORY: u64 = 16 << 20;
/// The KiB by which these may let an agent grow.
const GROWTH: u64 = 64 << 10;

/// What a process of this program does.
#[derive(Serialize, Deserialize)]
enum Role {
    /// The parent, in a mount namespace.
    Parent,
    Client(client::Role),
}

/// Not a test by itself: the processes.
#[test]
fn process() {
    match jeton_child::role::<Role>().transpose().expect("a role") {
        None => {}
        Some(Role::Parent) => run(true),
        Some(Role::Client(role)) => client::work(role),
    }
}

#[test]
fn agents_lose_nothing_while_everything_fails() {
    if jeton_child::role::<Role>().is_some() {
        return;
    }
    let allowed = Command::new("unshare").args(["--mount", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: the faults of the disk, which need root");
        return run(false);
    }
    let mut command = jeton_child::below("unshare", ["--mount"], &Role::Parent);
    command.args(["--exact", "process", "--nocapture", "--test-threads=2"]);
    let mut parent = Child::start(&mut command).expect("a process");
    while let Ok(line) = parent.line(UNLIMITED) {
        println!("{line}");
    }
    assert!(parent.wait().expect("a process").success());
}

/// An agent and the proxy in front of it.
struct Host {
    agent: Option<Agent>,
    proxy: Proxy,
    name: &'static str,
    is_stopped: bool,
    /// The KiB that the agent had at its start.
    memory: usize,
    /// When the agent last had no more connections than the proxy.
    fitted: Instant,
}

struct Process {
    child: Option<Child>,
    /// Counts the processes in this place.
    generation: usize,
    /// When it last reported a call that succeeded.
    succeeded: Instant,
}

/// What is known of a token object.
#[derive(PartialEq, Eq)]
enum Object {
    Exists,
    /// A call that destroys it has no answer yet.
    Uncertain,
    Destroyed,
}

/// What ends a fault.
enum Cure {
    None,
    ContinueAgent(usize),
    ContinueClient(usize),
    StartAgent(usize),
    StartClient(usize),
    FreeDisk,
    RepairDisk,
}

/// A run. The order of the fields is that in which their values are dropped.
struct Torture {
    hosts: Vec<Host>,
    clients: Vec<Process>,
    disk: Option<Disk>,
    has_failed_disk: bool,
    directory: tempfile::TempDir,
    random: Random,
    seed: u64,
    faults: Chosen,
    has_faults: bool,
    disk_fails: bool,
    point: Vec<u8>,
    cures: Vec<(Instant, Cure)>,
    /// The users of the clients; `None` for that of the parent.
    users: Vec<Option<u32>>,
    /// The KiB by which an agent may grow.
    growth: u64,
    objects: BTreeMap<String, Object>,
    counts: BTreeMap<String, u64>,
    /// What must not happen, by its text without numbers: how often, and the first text.
    wrong: BTreeMap<String, (u64, String)>,
    start: Instant,
}

fn run(can_mount: bool) {
    let mut torture = Torture::prepare(can_mount);
    torture.disturb(Duration::from_secs(number("JETON_TORTURE_SECONDS", SECONDS)));
    torture.calm();
    torture.end_clients();
    torture.verify();
    for (fault, number) in torture.hosts.iter().flat_map(|host| host.proxy.counts()) {
        *torture.counts.entry(fault).or_default() += number;
    }
    for (what, count) in &torture.counts {
        println!("{count:10} {what}");
    }
    for (count, text) in torture.wrong.values() {
        println!("{count:10} WRONG, first: {text}");
    }
    assert!(torture.wrong.is_empty(), "{} wrongs", torture.wrong.len());
}

/// Returns the number in a variable, or the usual one.
fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
}

/// Sends a signal to a process that has not been waited for.
fn signal(process: u32, signal: Signal) {
    let process = Pid::from_raw(process as i32).expect("a process");
    kill_process(process, signal).expect("a signal");
}

/// Returns whether a child has ended by itself.
fn has_ended(process: u32) -> bool {
    let process = Pid::from_raw(process as i32).expect("a process");
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(process), options).expect("a child").is_some()
}

/// Sets the permissions of a file.
fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a file");
}

fn after(milliseconds: u64) -> Instant {
    Instant::now() + Duration::from_millis(milliseconds)
}

/// Asks an agent what it counts. Returns `None` if it does not answer in time.
fn status(socket: &Path) -> Option<Status> {
    let (sender, receiver) = mpsc::channel();
    let socket = socket.to_owned();
    thread::spawn(move || {
        // The other end may have given up.
        let _ = sender.send(jeton_agent_wire::status::status(&socket));
    });
    receiver.recv_timeout(LIMIT + MARGIN).ok()?.ok()
}

impl Torture {
    fn prepare(can_mount: bool) -> Self {
        let mut random = Random::new("JETON_TORTURE_SEED");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let disk = can_mount.then(|| Disk::make(path)).flatten();
        let faults = Chosen::read(disk.is_some());
        println!("faults: {:?} {:?}", faults.network, faults.machine);
        let own = rustix::process::getuid();
        let users = if own.is_root() { USERS.map(Some).to_vec() } else { vec![None] };
        let clients = number("JETON_TORTURE_CLIENTS", CLIENTS);
        let factor = clients.div_ceil(16);
        let growth = factor * GROWTH * users.len() as u64;
        let of_user = |user: u32| format!("[[client]]\nuid = {user}\nmemory = {}\n", factor * MEMORY);
        let all = users.iter().copied().flatten().chain([own.as_raw()]);
        fs::write(path.join("rules.toml"), all.map(of_user).collect::<String>()).expect("the rules");
        permit(path, 0o755);
        let point = {
            let agent = Agent::start(path);
            token::make(&parameters_of(&[agent.socket().to_owned()]))
        };
        let start = Instant::now();
        let hosts = ["one", "two"].map(|name| {
            let [proxy, agent] = ["proxy", "agent"].map(|end| path.join(format!("{name}.{end}")));
            let proxy = Proxy::start(&proxy, &agent, random.below(u64::MAX), &faults.network);
            Host { agent: None, proxy, name, is_stopped: false, memory: 0, fitted: start }
        });
        let clients =
            (0..clients).map(|_| Process { child: None, generation: 0, succeeded: start }).collect();
        let seed = random.below(u64::MAX);
        let (has_failed_disk, cures, objects, counts, wrong) = Default::default();
        let hosts = hosts.into();
        let mut torture = Self {
            hosts,
            clients,
            disk,
            has_failed_disk,
            directory,
            random,
            seed,
            has_faults: !faults.is_empty(),
            disk_fails: faults.machine.contains(&Fault::FailDisk),
            faults,
            point,
            cures,
            users,
            growth,
            objects,
            counts,
            wrong,
            start,
        };
        (0..2).for_each(|at| torture.start_agent(at));
        (0..torture.clients.len()).for_each(|at| torture.start_client(at));
        torture
    }

    fn note(&mut self, text: String) {
        let kind = text.replace(|letter: char| letter.is_ascii_digit(), "");
        let seconds = self.start.elapsed().as_secs();
        self.wrong.entry(kind).or_insert((0, format!("after {seconds} s, {text}"))).0 += 1;
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("agents.log")
    }

    fn end_of_log(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().last().unwrap_or_default().to_owned()
    }

    fn count(&mut self, what: impl Into<String>, number: u64) {
        *self.counts.entry(what.into()).or_default() += number;
    }

    fn start_agent(&mut self, at: usize) {
        // A disk that failed is repaired first, which starts both agents.
        if self.hosts[at].agent.is_some() || self.has_failed_disk {
            return;
        }
        let name = format!("{}.agent", self.hosts[at].name);
        let mut command = Command::new(PROGRAM);
        command.args(["--mode", "666"]);
        let log = File::options().append(true).create(true).open(self.log()).expect("a log");
        command.stderr(log);
        let Some(agent) = Agent::try_start_with(command, self.directory.path(), &name, "") else {
            self.note(format!("an agent does not start: {}", self.end_of_log()));
            return self.cures.push((after(500), Cure::StartAgent(at)));
        };
        let host = &mut self.hosts[at];
        host.memory = agent.figure("VmRSS");
        host.is_stopped = false;
        host.fitted = Instant::now();
        host.agent = Some(agent);
    }

    fn start_client(&mut self, at: usize) {
        let process = &mut self.clients[at];
        process.generation += 1;
        let mut sockets = ["one.proxy", "two.proxy"].map(|name| self.directory.path().join(name));
        sockets.rotate_left(at % 2);
        let owned = format!("{at}.");
        let own = self.objects.range(owned.clone()..).take_while(|(label, _)| label.starts_with(&owned));
        let labels = own.filter(|(_, object)| **object == Object::Exists).map(|(label, _)| label.clone());
        let role = client::Role {
            parameters: parameters_of(&sockets),
            user: self.users[at % self.users.len()],
            name: format!("{owned}{}", process.generation),
            seed: self.seed ^ (at as u64) << 32 ^ (process.generation as u64) << 8,
            point: self.point.clone(),
            has_faults: self.has_faults,
            disk_fails: self.disk_fails,
            waits: at.is_multiple_of(3),
            labels: labels.collect(),
        };
        let mut command = jeton_child::of_test("process", &Role::Client(role));
        process.child = Some(Child::start(command.stderr(Stdio::piped())).expect("a client"));
    }

    /// Causes faults for this time.
    fn disturb(&mut self, time: Duration) {
        let end = self.start + time;
        let mut next = Instant::now();
        let mut look = next;
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
            self.hear();
            self.cure(|due| due <= Instant::now());
            if Instant::now() >= next && !self.faults.machine.is_empty() {
                // Always the same draws, so that a seed always leads to the same faults.
                let kinds = self.faults.machine.len() as u64;
                let [kind, at, length, pause] =
                    [kinds, self.clients.len() as u64, 1_000, BETWEEN].map(|end| self.random.below(end));
                let _ = self.cause(self.faults.machine[kind as usize], at as usize, length);
                next += Duration::from_millis(pause);
            }
            if Instant::now() >= look {
                self.look();
                look = Instant::now() + LOOK;
            }
        }
    }

    /// Causes a fault, and plans its end. Does nothing if the target has another fault. `length` is
    /// below 1,000.
    fn cause(&mut self, fault: Fault, at: usize, length: u64) -> Option<()> {
        let host = &mut self.hosts[at % 2];
        let agent = host.agent.as_ref().filter(|_| !host.is_stopped).map(Agent::id);
        let process = &mut self.clients[at];
        let disk = self.disk.as_ref().filter(|_| !self.has_failed_disk);
        let (length, cure) = match fault {
            Fault::StopAgent => {
                agent?;
                host.agent.iter().for_each(|agent| agent.signal_all(Signal::STOP));
                host.is_stopped = true;
                // In one of eight cases longer than a call may take.
                (if length.is_multiple_of(8) { 30_000 } else { 2 * length }, Cure::ContinueAgent(at % 2))
            }
            Fault::KillAgent => {
                host.agent.take()?;
                (length, Cure::StartAgent(at % 2))
            }
            Fault::EndAgent => {
                let agent = agent?;
                signal(agent, Signal::TERM);
                let end = Instant::now() + GONE;
                while !has_ended(agent) && Instant::now() < end {
                    thread::sleep(Duration::from_millis(1));
                }
                host.agent = None;
                if Instant::now() >= end {
                    self.note("an agent does not end".to_owned());
                }
                (length, Cure::StartAgent(at % 2))
            }
            Fault::ReloadAgent => {
                signal(agent?, Signal::HUP);
                (0, Cure::None)
            }
            Fault::StopClient => {
                signal(process.child.as_ref()?.id(), Signal::STOP);
                (3 * length, Cure::ContinueClient(at))
            }
            Fault::KillClient => {
                let child = process.child.take()?;
                self.kill_client(at, child);
                (length, Cure::StartClient(at))
            }
            Fault::FillDisk => {
                disk?.fill();
                (3 * length, Cure::FreeDisk)
            }
            Fault::FailDisk => {
                // It stops everything, so it is less frequent than the others.
                disk.filter(|_| length.is_multiple_of(4))?.fail();
                self.has_failed_disk = true;
                (length, Cure::RepairDisk)
            }
            network => unreachable!("{network:?} is a fault of the proxy"),
        };
        self.count(format!("{fault:?}"), 1);
        self.cures.push((after(length), cure));
        Some(())
    }

    /// Ends the faults whose time this is.
    fn cure(&mut self, is_due: impl Fn(Instant) -> bool) {
        let all = std::mem::take(&mut self.cures);
        let (due, later): (Vec<_>, Vec<_>) = all.into_iter().partition(|(time, _)| is_due(*time));
        self.cures = later;
        for (_, cure) in due {
            match cure {
                Cure::None => {}
                Cure::ContinueAgent(at) => {
                    let host = &mut self.hosts[at];
                    host.is_stopped = false;
                    host.fitted = Instant::now();
                    host.agent.iter().for_each(|agent| agent.signal_all(Signal::CONT));
                }
                Cure::ContinueClient(at) => {
                    self.clients[at].child.iter().for_each(|child| signal(child.id(), Signal::CONT));
                }
                Cure::StartAgent(at) => self.start_agent(at),
                Cure::StartClient(at) => self.start_client(at),
                Cure::FreeDisk => self.disk.iter().for_each(Disk::free),
                Cure::RepairDisk => {
                    self.hosts.iter_mut().for_each(|host| host.agent = None);
                    self.disk.iter().for_each(Disk::repair);
                    self.has_failed_disk = false;
                    (0..2).for_each(|at| self.start_agent(at));
                }
            }
        }
    }

    /// Takes what the clients say, and replaces clients that ended by themselves.
    fn hear(&mut self) {
        for at in 0..self.clients.len() {
            let Some(child) = &mut self.clients[at].child else { continue };
            let has_ended = has_ended(child.id());
            child.waiting().into_iter().for_each(|said| self.take(at, said));
            if has_ended && let Some(mut child) = self.clients[at].child.take() {
                let reason = child.errors();
                self.kill_client(at, child);
                self.note(format!("a client ended by itself: {reason}"));
                self.start_client(at);
            }
        }
    }

    fn take(&mut self, at: usize, said: Said) {
        match said {
            Said::Created(label) => {
                self.count("objects created", 1);
                self.objects.insert(label, Object::Exists);
            }
            Said::Destroying(label) => drop(self.objects.insert(label, Object::Uncertain)),
            Said::Destroyed(label) => {
                self.count("objects destroyed", 1);
                self.objects.insert(label, Object::Destroyed);
            }
            Said::Calls(codes) => {
                if codes.contains_key("CKR_OK") {
                    self.clients[at].succeeded = Instant::now();
                }
                codes.into_iter().for_each(|(code, number)| self.count(code, number));
            }
            Said::Wrong(text) => self.note(text),
            Said::Ended => self.count("clients that ended in order", 1),
        }
    }

    fn look(&mut self) {
        for at in 0..self.hosts.len() {
            let host = &mut self.hosts[at];
            let Some(agent) = host.agent.as_mut().filter(|_| !host.is_stopped) else { continue };
            if !agent.runs() {
                host.agent = None;
                if !self.has_failed_disk {
                    self.note(format!("an agent ended by itself: {}", self.end_of_log()));
                }
                self.start_agent(at);
                continue;
            }
            let grown = agent.figure("VmHWM").saturating_sub(host.memory) as u64;
            let status = status(agent.socket());
            // The agent learns a little later than the proxy that a connection is closed.
            if status.as_ref().is_some_and(|status| status.connections <= host.proxy.open() + 1) {
                host.fitted = Instant::now();
            }
            let silent = status.is_none();
            let connections = (status.map(|status| status.connections), host.proxy.open());
            if host.fitted.elapsed() > GONE && !silent {
                host.fitted = Instant::now();
                self.note(format!("connections of dead clients: {connections:?}"));
            }
            if silent {
                self.note("an agent does not tell its status".to_owned());
            }
            if grown > self.growth {
                self.note(format!("an agent grew by {grown} KiB, at most {} are right", self.growth));
            }
            let most = self.counts.entry("KiB by which an agent grew".to_owned()).or_default();
            *most = grown.max(*most);
        }
    }

    /// Ends all faults. Each client must succeed afterwards.
    fn calm(&mut self) {
        self.faults.machine.clear();
        self.hosts.iter().for_each(|host| host.proxy.calm());
        self.cure(|_| true);
        let calm = Instant::now();
        let waits = |process: &Process| process.succeeded < calm;
        // A call that waits ends at its limit, and the client opens a session.
        while self.clients.iter().any(waits) && calm.elapsed() < 2 * (LIMIT + MARGIN) {
            thread::sleep(LOOK);
            self.hear();
            self.look();
        }
        for _ in 0..self.clients.iter().filter(|process| waits(process)).count() {
            self.note("a client does not go on".to_owned());
        }
        self.count("milliseconds until all clients went on", calm.elapsed().as_millis() as u64);
    }

    /// Kills one half of the clients, and lets the others end in order. The agents must forget
    /// both.
    fn end_clients(&mut self) {
        for at in 0..self.clients.len() {
            let Some(mut child) = self.clients[at].child.take() else { continue };
            if at % 2 == 0 {
                self.kill_client(at, child);
                continue;
            }
            drop(child.input());
            let mut is_in_order = false;
            let silence = loop {
                match child.hear(2 * (LIMIT + MARGIN)) {
                    Ok(said) => {
                        is_in_order = matches!(said, Said::Ended);
                        self.take(at, said);
                    }
                    Err(silence) => break silence,
                }
            };
            if !is_in_order {
                let reason = child.errors();
                self.note(format!("a client does not end in order: {silence:?} {reason}"));
            }
        }
        for at in 0..self.hosts.len() {
            let end = Instant::now() + GONE;
            let rest = loop {
                let Some(agent) = &self.hosts[at].agent else { break None };
                let status = status(agent.socket());
                match status.map(|status| (status.applications, status.sessions, status.connections)) {
                    Some((0, 0, 0)) => break None,
                    rest if Instant::now() > end => break Some(rest),
                    _ => thread::sleep(LOOK / 10),
                }
            };
            if let Some(rest) = rest {
                self.note(format!("applications, sessions and connections without clients: {rest:?}"));
            }
        }
    }

    /// Compares what a new agent finds with what was acknowledged.
    fn verify(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.agent = None);
        let agent = Agent::start(self.directory.path());
        let module = token::load(&parameters_of(&[agent.socket().to_owned()]));
        let session = token::log_in(&module);
        let found = session.find(&[Attribute::number(CKA_CLASS, CKO_DATA)]).expect("a search");
        let mut labels = BTreeMap::<_, usize>::new();
        for object in found {
            let label = String::from_utf8(session.bytes(object, CKA_LABEL)).expect("a label");
            if session.bytes(object, CKA_VALUE) != client::value(&label) {
                self.note(format!("{label} has another value"));
            }
            *labels.entry(label).or_default() += 1;
        }
        for (label, object) in std::mem::take(&mut self.objects) {
            match (object, labels.get(&label).copied().unwrap_or(0)) {
                (Object::Uncertain, _) | (Object::Exists, 1) | (Object::Destroyed, 0) => {}
                (Object::Exists, count) => self.note(format!("{count} objects {label} at the end")),
                (Object::Destroyed, _) => self.note(format!("the destroyed object {label} is there")),
            }
        }
        self.count("objects at the end", labels.len() as u64);
        session.close().expect("a session");
        module.finalize().expect("the module");
    }

    /// Kills a client. What it said before is true.
    fn kill_client(&mut self, at: usize, mut child: Child) {
        let _ = child.kill();
        while let Ok(said) = child.hear(UNLIMITED) {
            self.take(at, said);
        }
    }
}
