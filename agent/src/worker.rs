//! The process that works for one client: it opens the tokens, and serves the connections that the
//! front hands to it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use jeton::audit::{Audit, Record};
use jeton::config::{Seen, Settings};
use jeton::error::Error;
use jeton::functions::{Module, Threads};
use jeton::id::{SessionHandle, SlotId};
use jeton::quota::Quota;
use jeton_agent_wire::spin::Stream;
use jeton_agent_wire::{Application as Name, Opening};
use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, Shutdown, send as send_to, shutdown};
use tracing::{debug, error, warn};

use crate::ask_front::{Front, Office};
use crate::figures::{Figures, Latencies};
use crate::link::{Counted, PART, Report, Start, ToFront};
use crate::pace::Pace;
use crate::rules::{Memory, Rule};
use crate::ticket;
use crate::wrong_pins::Wrong;
use crate::{PROGRESS, lock};

/// The memory in bytes of the calls of a client and of what it keeps, if no rule says another
/// number.
pub(crate) const MEMORY: usize = 512 << 20;
/// The most tokens that a client sees after it has made one, if no rule says another number: each
/// is a directory.
const TOKENS: usize = 1024;
/// The stack of a connection's thread. ML-DSA of AWS-LC needs the most.
const STACK: usize = 512 * 1024;
/// How long running calls have when the worker stops.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// How long the tokens have to close after that.
pub(crate) const CLOSE: Duration = Duration::from_secs(5);

/// The worker.
pub struct Worker {
    /// The module that opened the tokens. Applications join it.
    pub(crate) module: Module,
    /// The text by which the logs, limits and tickets know the client.
    pub(crate) client: String,
    /// `None` if the client may do everything.
    pub(crate) rule: Option<Rule>,
    /// What the worker asks the front.
    pub office: Office,
    pub(crate) tickets: ticket::Key,
    pub(crate) applications: Mutex<HashMap<Name, Arc<Application>>>,
    /// The connections, each with another descriptor of its socket. `None` if the worker stops, and
    /// takes no connection and no call.
    open: Mutex<Option<HashMap<u64, Arc<OwnedFd>>>>,
    is_ending: AtomicBool,
    /// The memory of long requests. A call takes it before that for its answer, so that no two
    /// calls wait for each other.
    pub(crate) requests: Arc<Quota>,
    /// The memory of connections, of calls, and of what an application keeps between calls.
    pub(crate) memory: Arc<Quota>,
    pub(crate) figures: Figures,
    pub(crate) wrong: Wrong,
    /// The pace of all applications together.
    pub(crate) pace: Pace,
    /// Why the agent did not log in last. The log says each reason once in a row.
    pub(crate) failure: Mutex<Option<String>>,
    pub(crate) latencies: Latencies,
    /// The number of threads that may ask for messages without sleeping.
    pub(crate) asking: usize,
    /// The generations and signatures with split keys that have begun.
    #[cfg(feature = "split")]
    pub(crate) split: crate::split_rounds::Begun,
}

pub(crate) struct Application {
    pub(crate) module: Module,
    /// The connection that started it.
    connection: u64,
    /// The client that its process was before, and the key of its tickets, which are good here too.
    pub(crate) before: Option<(String, ticket::Key)>,
    /// Whether its connections had to end. None joins it any more.
    pub(crate) is_ended: AtomicBool,
    since: Instant,
    pub(crate) connections: AtomicUsize,
    /// The ticket of the login to each token. A client whose answer was lost logs in again for it.
    pub(crate) tickets: Mutex<HashMap<SlotId, Vec<u8>>>,
    /// How many logins had ended at the last logout.
    pub(crate) ended: Mutex<HashMap<SlotId, u64>>,
    /// The last request that opened a session, and that session.
    pub(crate) opened: Mutex<(Opening, Option<SessionHandle>)>,
    /// The functions of which a refusal was logged as an error.
    pub(crate) refused: Mutex<HashSet<&'static str>>,
}

impl Application {
    /// Returns the application that this connection starts.
    pub(crate) fn new(module: Module, connection: u64, before: Option<(String, ticket::Key)>) -> Self {
        let (is_ended, tickets, ended, opened) = Default::default();
        let (refused, connections, since) = (Mutex::default(), 1.into(), Instant::now());
        Self { module, connection, before, is_ended, since, connections, tickets, ended, opened, refused }
    }
}

impl Worker {
    /// Opens the tokens of the configuration, for a client: only these, if they are given. The
    /// audit log gets its records by the socket `records`.
    pub fn start(
        start: Start,
        tokens: Option<Seen>,
        records: Option<OwnedFd>,
        front: impl Front + 'static,
    ) -> Result<Arc<Self>, Error> {
        let Start { client, rule, key, configuration } = start;
        let module = Module::new();
        let audit = records.map(|records| {
            Audit::of_process(move |record| {
                // A record is with the process that writes it before the call returns.
                if let Err(error) = send(record, &records) {
                    error!(%error, function = record.function, "no record of the audit log");
                }
            })
        });
        let most_tokens = rule.as_ref().and_then(|rule| rule.most_tokens).map_or(TOKENS, NonZeroUsize::get);
        let settings = Settings::parse(&configuration, Threads::Allowed, audit)?;
        let settings = Settings { tokens, most_tokens: Some(most_tokens), ..settings };
        module.initialize_with(settings)?;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let limit = rule.as_ref().and_then(|rule| rule.memory).map_or(MEMORY, Memory::bytes);
        let (applications, is_ending, figures, latencies, failure, wrong, pace) = Default::default();
        Ok(Arc::new(Self {
            module,
            client,
            rule,
            office: Office::new(front),
            tickets: ticket::Key::new(&key),
            applications,
            open: Mutex::new(Some(HashMap::new())),
            is_ending,
            requests: Quota::new(limit),
            memory: Quota::new(limit),
            figures,
            wrong,
            pace,
            failure,
            latencies,
            asking: processors.saturating_sub(1).max(1),
            #[cfg(feature = "split")]
            split: crate::split_rounds::Begun::default(),
        }))
    }

    /// Serves a connection in a thread of its own. From now on, [`end`](Self::end) ends it.
    pub fn take(self: &Arc<Self>, stream: UnixStream, number: u64) {
        let Some(socket) = self.open(&stream, number) else { return };
        let worker = Arc::clone(self);
        let work = move || {
            let limit = || {
                stream.set_read_timeout(Some(PROGRESS))?;
                stream.set_write_timeout(Some(PROGRESS))
            };
            match limit() {
                Ok(()) => worker.answer(stream, number, socket),
                Err(error) => warn!(%error, "a connection without limits"),
            }
            worker.close(number);
        };
        if let Err(error) = thread::Builder::new().stack_size(STACK).spawn(work) {
            warn!(%error, "no thread for a connection");
            self.close(number);
        }
    }

    /// Serves a connection until it ends.
    pub fn serve(self: &Arc<Self>, stream: impl Stream + 'static, number: u64) {
        let Some(socket) = self.open(&stream, number) else { return };
        self.answer(stream, number, socket);
        self.close(number);
    }

    /// Adds a connection to the list. `None` if the worker takes none, as the front then knows.
    fn open(&self, stream: &impl Stream, number: u64) -> Option<Arc<OwnedFd>> {
        let socket = stream.descriptor().try_clone_to_owned().map(Arc::new);
        let socket = socket.inspect_err(|error| warn!(%error, "no descriptor for a connection")).ok();
        let opened = socket.filter(|socket| {
            let open = &mut *lock(&self.open);
            open.as_mut().is_some_and(|open| open.insert(number, Arc::clone(socket)).is_none())
        });
        if opened.is_none() {
            self.office.tell(ToFront::Closed(number));
        }
        opened
    }

    /// Takes a connection from the list.
    fn close(&self, number: u64) {
        lock(&self.open).as_mut().map(|open| open.remove(&number));
        self.office.tell(ToFront::Closed(number));
    }

    /// Counts a connection that is refused. At the default level the log names the client once.
    pub(crate) fn note_refusal(&self, reason: &str) {
        let client = &self.client;
        match self.figures.refused_connections.fetch_add(1, Ordering::Relaxed) {
            0 => error!(client, reason, "a connection is refused"),
            _ => debug!(client, reason, "a connection is refused"),
        }
    }

    /// Returns whether the worker stops.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Ends a connection, and the application that it started. Otherwise another connection would
    /// join that application while one of its calls still runs.
    pub fn end(&self, number: u64) {
        let socket = lock(&self.open).as_ref().and_then(|open| open.get(&number).cloned());
        if let Some(socket) = socket {
            // A peer that is gone has no connection to end.
            let _ = shutdown(&*socket, Shutdown::Both);
        }
        for application in lock(&self.applications).values() {
            if application.connection == number {
                application.is_ended.store(true, Ordering::Release);
            }
        }
    }

    /// Stops in order: takes no connection and no call, waits for calls that run, and closes the
    /// tokens, so that the files of the tokens have all changes.
    pub fn stop(self: &Arc<Self>) {
        self.is_ending.store(true, Ordering::Release);
        let open = lock(&self.open).take().unwrap_or_default();
        let ends: Vec<_> = open.values().map(Arc::downgrade).collect();
        for socket in open.into_values() {
            let _ = shutdown(&*socket, Shutdown::Read);
        }
        let start = Instant::now();
        // The thread of a connection has its socket until it ends.
        while ends.iter().any(|socket| socket.strong_count() != 0) && start.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(5));
        }
        let left: Vec<_> = lock(&self.applications).drain().map(|(_, application)| application).collect();
        let worker = Arc::clone(self);
        // A call that still runs may hold a session.
        let (says, hears) = mpsc::channel();
        thread::spawn(move || {
            // Nothing is left to do if one of them fails.
            for application in left {
                let _ = application.module.finalize();
            }
            let _ = worker.module.finalize();
            says.send(())
        });
        if hears.recv_timeout(CLOSE).is_err() {
            error!("a call does not end");
        }
    }

    /// Tells the front what the worker counts.
    pub fn report(&self) {
        let applications: Vec<_> = lock(&self.applications)
            .iter()
            .map(|(name, application)| (*name, Arc::clone(application)))
            .collect();
        let of_application = |(name, application): &(Name, Arc<Application>)| {
            let counted = Counted {
                sessions: application.module.session_count() as u64,
                connections: application.connections.load(Ordering::Relaxed) as u64,
                seconds: application.since.elapsed().as_secs(),
            };
            (*name, counted)
        };
        for part in applications.chunks(PART) {
            self.office.tell(ToFront::Applications(part.iter().map(of_application).collect()));
        }
        let figures = &self.figures;
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        self.office.tell(ToFront::Report(Box::new(Report {
            functions: figures.functions(),
            mechanisms: figures.mechanisms(),
            wrong_pins: load(&figures.wrong_pins),
            failed_logins: load(&figures.failed_logins),
            refused: load(&figures.refused),
            refused_connections: load(&figures.refused_connections),
            times: self.latencies.counts(),
            sum: self.latencies.sum(),
        })));
    }
}

/// Sends a record to the process that writes the audit log. Waits while the queue of this worker is
/// full.
fn send(record: &Record, records: &OwnedFd) -> io::Result<()> {
    let bytes = record.encode(|record| postcard::to_stdvec(record).map_err(io::Error::other))?;
    retry_on_intr(|| send_to(records, &bytes, SendFlags::NOSIGNAL))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;

    use super::*;
    use crate::link::encode;

    /// Counts the applications in packets that are short enough.
    #[derive(Clone, Default)]
    struct Told(Arc<AtomicUsize>);

    impl Front for Told {
        fn send(&self, message: ToFront) -> bool {
            if let ToFront::Applications(part) = &message {
                self.0.fetch_add(part.len(), Ordering::Relaxed);
            }
            encode(&message).is_ok()
        }
    }

    fn started(directory: &Path, front: Told) -> Arc<Worker> {
        let configuration = format!("token-dir = '{}'", directory.display());
        let start = Start { client: "uid 1".to_owned(), rule: None, key: [0; 32], configuration };
        Worker::start(start, None, None, front).expect("a worker")
    }

    #[test]
    fn a_report_of_many_applications_fits_into_packets() {
        const MANY: usize = 5000;
        let (directory, front) = (tempfile::tempdir().expect("a directory"), Told::default());
        let worker = started(directory.path(), front.clone());
        for number in 0..MANY as u64 {
            let mut name = Name::default();
            name[..8].copy_from_slice(&number.to_le_bytes());
            let module = worker.module.join_for(None).expect("an application");
            lock(&worker.applications).insert(name, Arc::new(Application::new(module, number, None)));
        }
        let large = Counted { sessions: u64::MAX, connections: u64::MAX, seconds: u64::MAX };
        assert!(encode(&ToFront::Applications(vec![([0xff; 32], large); PART])).is_ok());
        worker.report();
        assert_eq!(front.0.load(Ordering::Relaxed), MANY);
        worker.stop();
    }

    #[test]
    fn a_connection_ends_also_if_its_thread_has_not_begun() {
        let directory = tempfile::tempdir().expect("a directory");
        let worker = started(directory.path(), Told::default());
        for number in 0..100 {
            let (ours, mut other) = UnixStream::pair().expect("sockets");
            other.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
            worker.take(ours, number);
            worker.end(number);
            assert_eq!(other.read(&mut [0]).expect("the end"), 0, "{number}");
        }
        worker.stop();
    }
}
