//! The front: accepts connections, asks the kernel who is at the other end and the rules what it
//! may do, and hands the socket to the worker of this client. It reads no byte of a client,
//! opens no token, and never waits for a worker.

mod administrator;
pub mod groups;
mod hear;
mod monitor;
mod owner_queues;
mod part;
mod pin_tries;
mod process;
mod records;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use jeton::config::Settings;
use jeton_agent_wire::{self as wire, Application as Name, Reply};
use tracing::{debug, error, info, warn};

use crate::link::{Counted, Report, Source, Start, ToDoor, ToWorker};
use crate::peer::Peer;
use crate::queue::Queue;
use crate::rules::{Credentials, Memory, Rules, Verdict};
use crate::ticket::Tickets;
use crate::worker::{CLOSE, GRACE, MEMORY};
use crate::{CONNECTION, ForEver, lock, notify};

use groups::Groups;
use owner_queues::{Arrivals, MOST_CONNECTIONS, discard};
use pin_tries::{Asker, Pins, Runs};
use process::Process;

/// The most connections of a client that wait for their memory.
const WAITING: usize = 16;
/// The most clients since the start, so that refused ones are counted.
const MOST_CLIENTS: usize = 4096;
/// The most workers, and those of one owner.
const MOST_WORKERS: usize = 256;
const MOST_OF_OWNER: usize = 8;
/// How long a worker stays without a connection.
const IDLE: Duration = Duration::from_secs(60);
/// How long a client waits for another worker after its last one ended by itself: it may end them
/// again and again.
const PACE: Duration = Duration::from_millis(100);
/// How long a worker has to stop in order: its calls, its tokens, and a margin.
const STOP: Duration = GRACE.saturating_add(CLOSE).saturating_add(Duration::from_secs(1));
/// How long running commits have when a client is locked.
const LOCK: Duration = Duration::from_millis(100);
/// How long the socket of a refused peer stays open, so that it can send its first message and read
/// the answer.
const REFUSAL: Duration = Duration::from_secs(2);
/// The most of them. Others are closed at once.
const MOST_REFUSED: usize = 64;
/// How many connections of an owner are answered in a second that no rule allows. Further ones are
/// closed at once.
const ANSWERED: usize = 16;
const SECOND: Duration = Duration::from_secs(1);
/// The time between two lines for `systemctl status`.
const STATUS: Duration = Duration::from_secs(10);
/// The first argument of a worker.
const WORKER: &str = "worker";
/// What a peer learns that no rule allows.
const REFUSED: &str = "refused by the rules of the agent";

/// The front.
pub struct Front {
    state: Mutex<State>,
    tickets: Tickets,
    /// The text of the configuration.
    configuration: String,
    /// The token directory.
    tokens: PathBuf,
    /// Whether there is an audit log.
    has_audit: bool,
    /// The directories to which the agent writes: the tokens, the audit log and the log.
    directories: BTreeSet<PathBuf>,
    /// The directory of backups, whose age monitors learn.
    backups: Option<PathBuf>,
    started: Instant,
    /// The most connections: the agent stays below its limit of descriptors.
    most: usize,
    /// Which parts of the sandbox the last process of each kind does not have.
    missing: Mutex<BTreeMap<&'static str, Vec<String>>>,
    arrivals: Arrivals,
    groups: Option<Groups>,
    /// The sockets of refused peers.
    refused: SyncSender<(Instant, UnixStream)>,
}

struct State {
    rules: Arc<Rules>,
    /// Whether the agent stops, and takes no connection.
    is_ending: bool,
    /// The last number of a connection or a worker.
    last: u64,
    connections: HashMap<u64, Standing>,
    workers: HashMap<u64, Worker>,
    /// The clients since the start.
    clients: HashMap<Key, Client>,
    pins: Pins,
    runs: Runs,
    /// The workers that ended by themselves.
    failed: u64,
    /// The connections of each owner.
    owners: HashMap<String, usize>,
    /// The owners of peers that no rule allowed, since when they are counted, and how often.
    refused: HashMap<String, (Instant, usize)>,
    /// The process in which TLS ends.
    door: Option<Process>,
    /// The process that writes the audit log.
    writer: Option<Process>,
    /// The process for monitors.
    monitor: Option<Process>,
    /// The workers that have ended and whose records wait for the process that writes them.
    ended: Vec<(Source, Queue)>,
    /// Whether such a process was started before.
    had_writer: bool,
    /// Whether all workers have ended, so that no other records come.
    closes_audit: bool,
}

/// The name of a client, and whether no rule allows it. A peer whose groups or unit are unknown has
/// the name of one that a rule allows.
type Key = (String, bool);

/// Who has a connection.
struct Standing {
    peer: Peer,
    client: Key,
    owner: String,
    worker: u64,
}

/// What the front counts of a client.
#[derive(Default)]
struct Client {
    /// The number of its rule, from 1.
    rule: Option<usize>,
    /// The worker that gets its connections.
    worker: Option<u64>,
    connections: usize,
    refused_connections: u64,
    /// What workers counted that have ended.
    ended: Report,
    /// When its last worker ended by itself.
    failed: Option<Instant>,
}

/// A worker.
struct Worker {
    client: Key,
    /// To whom it counts: every limit is one of an owner, who may have several clients.
    owner: String,
    /// The questions that have not ended.
    asked: HashSet<u64>,
    verdict: Verdict,
    process: Process,
    /// Its records, if there is an audit log.
    records: Option<Queue>,
    /// Its applications: the process that started each, and whether it allows no threads.
    applications: HashMap<Name, (Peer, bool)>,
    connections: usize,
    /// Since when it has had no connection.
    idle: Instant,
    /// When the list of tokens had changed before its start.
    listed: Option<SystemTime>,
    /// Whether the client has another rule now, so that it gets no connection any more.
    is_old: bool,
    /// When it has to end, if the front has stopped it.
    stops: Option<Instant>,
    reports: Reports,
}

/// What a worker says that it counts.
#[derive(Default)]
struct Reports {
    last: Report,
    applications: HashMap<Name, Counted>,
    /// The applications of the report that comes.
    coming: HashMap<Name, Counted>,
    /// When the front asked for the last report.
    reported: Option<Instant>,
    /// When it asked for the one that comes. It asks once: a worker that hangs reads nothing.
    asked: Option<Instant>,
    /// Whether the figures of a later time are wanted too.
    is_wanted: bool,
}

impl Front {
    /// Returns a front without clients.
    pub fn new(
        tickets: Tickets,
        rules: Rules,
        configuration: String,
        tokens: PathBuf,
        has_audit: bool,
        groups: Option<Groups>,
        backups: Option<PathBuf>,
    ) -> Arc<Self> {
        // A worker is confined to what is there when it starts. Without the right to make the
        // directory, it is as in process: the first token says so.
        let _ = fs::DirBuilder::new().mode(0o700).recursive(true).create(&tokens);
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        // Each connection has two in its worker. An eighth is for tokens.
        let descriptors = descriptors.and_then(|most| usize::try_from(most / 16 * 7).ok());
        let most = MOST_CONNECTIONS.min(descriptors.unwrap_or(usize::MAX));
        let (is_ending, last, connections, workers, clients, pins, failed) = Default::default();
        let (owners, refused) = Default::default();
        let (rules, runs) = (Arc::new(rules), Runs::new());
        let (door, writer, monitor, ended, had_writer, closes_audit) = Default::default();
        let state = State {
            rules,
            is_ending,
            last,
            connections,
            workers,
            clients,
            pins,
            runs,
            failed,
            owners,
            refused,
            door,
            writer,
            monitor,
            ended,
            had_writer,
            closes_audit,
        };
        let places = Settings::places(&configuration).ok();
        let appended = places.iter().flat_map(|places| [&places.audit, &places.log]).flatten();
        let parents = appended.filter_map(|file| Some(file.parent()?.to_owned()));
        let directories = parents.chain([tokens.clone()]).collect();
        let (refused, sockets) = mpsc::sync_channel::<(Instant, UnixStream)>(MOST_REFUSED);
        thread::spawn(move || {
            for (since, socket) in sockets {
                thread::sleep(REFUSAL.saturating_sub(since.elapsed()));
                discard(socket);
            }
        });
        let front = Arc::new(Self {
            state: Mutex::new(state),
            tickets,
            configuration,
            tokens,
            has_audit,
            directories,
            backups,
            started: Instant::now(),
            most,
            missing: Mutex::default(),
            arrivals: Arrivals::new(),
            groups,
            refused,
        });
        let weak = Arc::downgrade(&front);
        thread::spawn(move || {
            while let Some(front) = weak.upgrade() {
                front.end_idle();
                drop(front);
                thread::sleep(Duration::from_secs(1));
            }
        });
        front
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Accepts the connections of this host for ever. It asks for nothing but the user: what takes
    /// time is done in [`serve`](Self::serve).
    pub fn accept(&self, listener: &UnixListener) {
        self.arrivals.accept(listener, self.most / 4);
    }

    /// Serves the connections that were accepted, for ever.
    pub fn serve(self: &Arc<Self>) {
        let _ends = ForEver("the thread that starts workers");
        loop {
            let (stream, owner) = self.arrivals.next();
            match Peer::of(&stream) {
                Ok(peer) => self.admit(peer, format!("uid {owner}"), stream),
                Err(error) => {
                    warn!(%error, "a connection without a user");
                    discard(stream);
                }
            }
        }
    }

    /// Hands a connection to the worker of its client.
    fn admit(self: &Arc<Self>, peer: Peer, owner: String, stream: UnixStream) {
        let mut state = self.lock();
        let verdict = state.rules.verdict(&peer);
        if state.is_ending {
            drop(state);
            discard(stream);
            return;
        }
        if matches!(verdict, Verdict::Refused) {
            if state.answers(&owner) {
                // Owners are few. Their numbers, and the names of hosts, may be many.
                let key = (owner, true);
                if state.clients.len() < MOST_CLIENTS || state.clients.contains_key(&key) {
                    state.note_refusal(&key, "no rule allows this client");
                }
                drop(state);
                self.refuse(stream);
            } else {
                drop(state);
                discard(stream);
            }
            return;
        }
        let key = (verdict.identity(&peer), false);
        let memory = verdict.rule().and_then(|rule| rule.memory).map_or(MEMORY, Memory::bytes);
        // One owner leaves room for others, and few connections of a client wait for its memory.
        let of_owner = state.owners.get(&owner).copied().unwrap_or(0);
        if state.clients.len() >= MOST_CLIENTS && !state.clients.contains_key(&key) {
            // One owner may have many numbers. What is left is that of workers.
            state.clients.retain(|_, client| client.connections != 0 || client.worker.is_some());
        }
        let client = state.clients.entry(key.clone()).or_default();
        client.rule = verdict.number();
        let (of_client, mut worker) = (client.connections, client.worker);
        let is_full = of_client >= memory / CONNECTION + WAITING || of_owner >= self.most / 4;
        if is_full || state.connections.len() >= self.most {
            state.note_refusal(&key, "too many connections");
            drop(state);
            discard(stream);
            return;
        }
        if let Some(old) = worker.filter(|worker| self.lacks_tokens(&state, *worker)) {
            state.stop(old, Instant::now() + STOP);
            worker = None;
        }
        let worker = worker.or_else(|| self.start_worker(&mut state, &key, verdict, owner.clone()));
        let Some(worker) = worker else {
            drop(state);
            discard(stream);
            return;
        };
        let number = state.number();
        *state.owners.entry(owner.clone()).or_default() += 1;
        state.clients.entry(key.clone()).or_default().connections += 1;
        state.connections.insert(number, Standing { peer, client: key, owner, worker });
        if let Some(worker) = state.workers.get_mut(&worker) {
            worker.connections += 1;
            worker.process.send(&ToWorker::Connection(number), Some(stream.into()));
        }
    }

    /// Answers a peer that no rule allows, without reading its message. The socket stays open for a
    /// time, so that the peer can send its message and read the answer.
    fn refuse(&self, stream: UnixStream) {
        let mut frame = Vec::new();
        if wire::encode(&Reply::Refused(REFUSED), &mut frame).is_ok() && stream.set_nonblocking(true).is_ok()
        {
            let _ = io::Write::write(&mut &stream, &frame);
        }
        let refused = self.refused.try_send((Instant::now(), stream));
        if let Err(TrySendError::Full((_, stream)) | TrySendError::Disconnected((_, stream))) = refused {
            discard(stream);
        }
    }

    /// Returns whether a worker without connections is confined to tokens of an older list.
    fn lacks_tokens(&self, state: &State, worker: u64) -> bool {
        let is_changed = |worker: &Worker| {
            let is_confined = worker.verdict.rule().is_some_and(|rule| rule.tokens.is_some());
            is_confined && worker.connections == 0 && worker.listed != changed(&self.tokens)
        };
        state.workers.get(&worker).is_some_and(is_changed)
    }

    /// Starts a worker for a client. `None` if that fails, or there are too many.
    fn start_worker(
        self: &Arc<Self>,
        state: &mut State,
        key: &Key,
        verdict: Verdict,
        owner: String,
    ) -> Option<u64> {
        let client = state.clients.entry(key.clone()).or_default();
        if client.failed.is_some_and(|failed| failed.elapsed() < PACE) {
            state.note_refusal(key, "the process of this client has ended just before");
            return None;
        }
        let of_owner = |worker: &Worker| worker.owner == owner;
        let is_full = |state: &State| {
            let workers = || state.workers.values().filter(|worker| worker.stops.is_none());
            workers().count() >= MOST_WORKERS
                || workers().filter(|worker| of_owner(worker)).count() >= MOST_OF_OWNER
        };
        if is_full(state) {
            // Its own ones: no owner ends those of others before their time.
            state.end_idle(Duration::ZERO, of_owner);
            if is_full(state) {
                state.note_refusal(
                    key,
                    "too many workers: this user has several rules, or there are many users",
                );
                return None;
            }
        }
        let listed = changed(&self.tokens);
        let start = Start {
            client: key.0.clone(),
            rule: verdict.rule().cloned(),
            key: self.tickets.key_of(&key.0),
            configuration: self.configuration.clone(),
        };
        let (records, of_worker) = match self.has_audit.then(Queue::pair).transpose() {
            Ok(pair) => pair.unzip(),
            Err(error) => {
                error!(client = key.0, %error, "no socket for the records of a client");
                return None;
            }
        };
        let number = state.number();
        let front = Arc::clone(self);
        let started = Process::start(WORKER, self.groups.as_ref(), move |link| front.hear(number, link));
        let mut process = match started {
            Ok(process) => process,
            Err(error) => {
                error!(client = key.0, %error, "no process for a client");
                return None;
            }
        };
        process.send(&ToWorker::Start(Box::new(start)), of_worker);
        let (applications, connections, asked, is_old, stops, reports) = Default::default();
        let (client, idle) = (key.clone(), Instant::now());
        let worker = Worker {
            client,
            owner,
            asked,
            verdict,
            process,
            records,
            applications,
            connections,
            idle,
            listed,
            is_old,
            stops,
            reports,
        };
        if let Some(writer) = &mut state.writer {
            worker.introduce(writer);
        }
        state.workers.insert(number, worker);
        state.clients.entry(key.clone()).or_default().worker = Some(number);
        Some(number)
    }
}

impl Front {
    /// Ends workers that have had no connection for a time, and those that do not end.
    fn end_idle(&self) {
        let mut state = self.lock();
        state.end_idle(IDLE, |_| true);
        let now = Instant::now();
        state.pins.forget();
        let answers = state.runs.settle(now);
        state.deliver(answers);
        for worker in state.workers.values_mut() {
            if worker.stops.is_some_and(|stops| stops < now) {
                worker.process.kill();
            }
            worker.process.flush();
        }
        state.forget_records();
        if let Some(writer) = &mut state.writer {
            writer.flush();
        }
    }

    /// Reads the rules and the files that they name again. Wrong ones change nothing. Connections
    /// that would now be refused, or have another rule, end.
    pub fn reload(&self, path: Option<&Path>) -> Result<(), String> {
        let rules = Rules::read(path)?;
        rules.faults(Credentials::Given).iter().for_each(|fault| error!("{fault}"));
        let mut state = self.lock();
        let listen = |rules: &Rules| rules.tls.as_ref().map(|tls| tls.listen);
        if listen(&state.rules) != listen(&rules) {
            error!("[tls] listen: another address needs a restart of the agent");
        }
        let state = &mut *state;
        // The numbers of before are those of other rules.
        state.clients.values_mut().for_each(|client| client.rule = None);
        for (number, standing) in &state.connections {
            let Some(worker) = state.workers.get_mut(&standing.worker) else { continue };
            let verdict = rules.verdict(&standing.peer);
            if !verdict.is_same(&worker.verdict) {
                worker.process.send(&ToWorker::End(*number), None);
                worker.is_old = true;
            } else if let Some(client) = state.clients.get_mut(&standing.client) {
                client.rule = verdict.number();
            }
        }
        for (number, worker) in &mut state.workers {
            // The next connection of this client gets a worker with the rule of then.
            if worker.is_old || worker.connections == 0 {
                worker.is_old = true;
                if let Some(client) = state.clients.get_mut(&worker.client) {
                    client.worker.take_if(|current| current == number);
                }
            }
        }
        if let (Some(door), Some(tls)) = (&mut state.door, &rules.tls) {
            door.send(&ToDoor(tls.clone()), None);
        }
        state.rules = Arc::new(rules);
        state.end_idle(IDLE, |_| true);
        Ok(())
    }

    /// Says to systemd for ever what the front does, as long as it serves: an agent that hangs is
    /// started again. Without a limit of time, only the status is said.
    pub fn report(&self, limit: Option<Duration>) {
        let _ends = ForEver("the thread that reports");
        let pause = limit.map_or(STATUS, |limit| STATUS.min(limit / 4));
        loop {
            let status = {
                let state = self.lock();
                let (workers, connections) = (state.workers.len(), state.connections.len());
                format!("STATUS=connections: {connections}, processes of clients: {workers}")
            };
            let served = self.arrivals.served();
            let hangs = limit.is_some_and(|limit| served.is_some_and(|since| since.elapsed() > limit / 4));
            let alive = if hangs { "" } else { "\nWATCHDOG=1" };
            if let Err(error) = notify::tell(&(status + alive)) {
                debug!(%error, "no message to systemd");
            }
            thread::sleep(pause);
        }
    }

    /// Ends the process when there has been no connection for this time.
    pub fn exit_when_idle(self: &Arc<Self>, limit: Duration) {
        let front = Arc::clone(self);
        thread::spawn(move || {
            let mut since = Instant::now();
            while since.elapsed() < limit {
                thread::sleep(limit.min(Duration::from_secs(1)));
                let state = front.lock();
                // A count of wrong PINs lives as long as it counts.
                if !state.connections.is_empty() || state.pins.is_wanted() {
                    since = Instant::now();
                }
            }
            info!("no application is connected");
            front.stop();
            std::process::exit(0);
        });
    }

    /// Stops in order: takes no connection, and waits until the workers have ended.
    pub fn stop(&self) {
        let end = Instant::now() + STOP;
        if let Err(error) = notify::tell("STOPPING=1") {
            warn!(%error, "no message to systemd");
        }
        {
            let mut state = self.lock();
            state.is_ending = true;
            state.door.take().map(|mut door| door.end());
            let workers: Vec<_> = state.workers.keys().copied().collect();
            workers.into_iter().for_each(|worker| state.stop(worker, end));
        }
        while !self.lock().workers.is_empty() && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
        for worker in self.lock().workers.values_mut() {
            worker.process.kill();
        }
        self.close_audit();
    }
}

impl State {
    /// Returns the number of a new connection or worker.
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn note_refusal(&mut self, key: &Key, reason: &str) {
        self.clients.entry(key.clone()).or_default().note_refusal(&key.0, reason);
    }

    /// Returns whether a peer of this owner that no rule allows gets an answer. Further ones are
    /// closed at once for a time, so that they take little from others.
    fn answers(&mut self, owner: &str) -> bool {
        self.refused.retain(|_, (since, _)| since.elapsed() < SECOND);
        let (_, times) = self.refused.entry(owner.to_owned()).or_insert_with(|| (Instant::now(), 0));
        *times += 1;
        *times <= ANSWERED
    }

    /// Ends workers without connections, and those that may get none any more.
    fn end_idle(&mut self, limit: Duration, of: impl Fn(&Worker) -> bool) {
        let is_idle = |worker: &Worker| {
            of(worker)
                && worker.stops.is_none()
                && worker.connections == 0
                && (worker.is_old || worker.idle.elapsed() >= limit)
        };
        let idle: Vec<_> =
            self.workers.iter().filter(|(_, worker)| is_idle(worker)).map(|(number, _)| *number).collect();
        let end = Instant::now() + STOP;
        idle.into_iter().for_each(|worker| self.stop(worker, end));
    }

    /// Stops a worker, until this time at most. It gets no grant any more.
    fn stop(&mut self, number: u64, end: Instant) {
        let Some(worker) = self.workers.get_mut(&number) else { return };
        worker.stops = Some(worker.stops.map_or(end, |stops| stops.min(end)));
        worker.process.send(&ToWorker::Stop, None);
        if let Some(client) = self.clients.get_mut(&worker.client) {
            client.worker.take_if(|current| *current == number);
        }
        self.pins.leave(number);
        self.runs.leave(number);
    }

    /// Forgets a worker that has ended, with all that it had.
    fn remove(&mut self, number: u64) -> Option<Worker> {
        let mut worker = self.workers.remove(&number)?;
        self.keep_records(&mut worker);
        let owners = &mut self.owners;
        self.connections.retain(|_, standing| {
            let stays = standing.worker != number;
            if !stays {
                leave(owners, &standing.owner);
            }
            stays
        });
        if let Some(client) = self.clients.get_mut(&worker.client) {
            client.worker.take_if(|current| *current == number);
            client.connections -= worker.connections;
            client.ended.add(&worker.reports.last);
            if worker.stops.is_none() {
                client.failed = Some(Instant::now());
                self.failed += 1;
            }
        }
        let is_of_worker = |asker: &Asker| asker.0 == number;
        let answers = self.pins.end(is_of_worker, None);
        self.deliver(answers);
        let answers = self.runs.end(is_of_worker);
        self.deliver(answers);
        Some(worker)
    }
}

impl Client {
    /// Counts a connection that is refused. At the default level the log names each client once.
    fn note_refusal(&mut self, client: &str, reason: &str) {
        self.refused_connections += 1;
        match self.refused_connections {
            1 => error!(client, reason, "a connection is refused"),
            _ => debug!(client, reason, "a connection is refused"),
        }
    }
}

/// Counts a connection of an owner less.
fn leave(owners: &mut HashMap<String, usize>, owner: &str) {
    if let Some(count) = owners.get_mut(owner) {
        *count -= 1;
        if *count == 0 {
            owners.remove(owner);
        }
    }
}

/// Returns when a token was made or removed last.
fn changed(tokens: &Path) -> Option<SystemTime> {
    fs::metadata(tokens).and_then(|found| found.modified()).ok()
}
