//! The connections of this host, from accept(2) until a worker has them: owners take turns.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jeton_agent_system as system;
use tracing::{error, warn};

use crate::peer::Owners;
use crate::{ForEver, lock};

/// The most connections at the same time.
pub(super) const MOST_CONNECTIONS: usize = 16_384;
/// How long an accept loop waits after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// The most connections that the kernel keeps until the front takes them. Further ones wait in
/// connect(2): one owner that connects as often as it can has this number of places before others.
const QUEUE: i32 = 64;

/// The connections that were accepted, by their owners, who take turns: one owner with many does
/// not delay another one.
pub(super) struct Arrivals {
    queues: Mutex<Queues>,
    arrived: Condvar,
}

struct Queues {
    owners: Owners,
    of_owners: HashMap<u32, VecDeque<UnixStream>>,
    turns: VecDeque<u32>,
    /// Since when the thread that starts workers has had its connection.
    served: Option<Instant>,
}

impl Arrivals {
    /// Returns a list without connections.
    pub(super) fn new() -> Self {
        let (of_owners, turns, served) = Default::default();
        let queues = Queues { owners: Owners::read(), of_owners, turns, served };
        Self { queues: Mutex::new(queues), arrived: Condvar::new() }
    }

    /// Returns since when the thread that starts workers has had its connection.
    pub(super) fn served(&self) -> Option<Instant> {
        lock(&self.queues).served
    }

    /// Accepts the connections of this host for ever, but keeps at most this number for an owner.
    pub(super) fn accept(&self, listener: &UnixListener, most: usize) {
        let _ends = ForEver("the thread that accepts");
        LINGERS.store(!system::take_no_descriptors(listener), Ordering::Relaxed);
        if let Err(error) = rustix::net::listen(listener, QUEUE) {
            warn!(%error, "the queue of new connections has another length");
        }
        loop {
            let Some(stream) = accepted(listener) else { continue };
            let uid = match system::credentials(&stream) {
                Ok(credentials) => credentials.uid,
                Err(error) => {
                    warn!(%error, "a connection without a user");
                    discard(stream);
                    continue;
                }
            };
            let queues = &mut *lock(&self.queues);
            let owner = queues.owners.of(uid);
            let queue = queues.of_owners.entry(owner).or_default();
            if queue.len() >= most {
                discard(stream);
                continue;
            }
            if queue.is_empty() {
                queues.turns.push_back(owner);
            }
            queue.push_back(stream);
            self.arrived.notify_one();
        }
    }

    /// Waits for a connection, and returns it with its owner.
    pub(super) fn next(&self) -> (UnixStream, u32) {
        let mut queues = lock(&self.queues);
        queues.served = None;
        loop {
            if let Some(owner) = queues.turns.pop_front() {
                let queue = queues.of_owners.entry(owner).or_default();
                let stream = queue.pop_front();
                if queue.is_empty() {
                    queues.of_owners.remove(&owner);
                } else {
                    queues.turns.push_back(owner);
                }
                if let Some(stream) = stream {
                    queues.served = Some(Instant::now());
                    return (stream, owner);
                }
            }
            queues = self.arrived.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Whether peers pass descriptors, as before Linux 6.16. The last close of one may take an hour.
static LINGERS: AtomicBool = AtomicBool::new(false);

/// Closes the socket of a peer: in a thread of its own, if that may take long.
pub(super) fn discard(stream: UnixStream) {
    static CLOSER: OnceLock<SyncSender<UnixStream>> = OnceLock::new();
    if LINGERS.load(Ordering::Relaxed) {
        let closer = CLOSER.get_or_init(|| {
            let (closer, sockets) = mpsc::sync_channel(MOST_CONNECTIONS);
            // Without the thread, the sender fails, and the socket is closed here.
            let _ = thread::Builder::new().spawn(move || sockets.into_iter().for_each(drop::<UnixStream>));
            closer
        });
        // The error has the socket.
        let _ = closer.try_send(stream);
    }
}

/// Returns a new connection. Without one, waits for a short time: only a stop ends a listener.
pub(super) fn accepted(listener: &UnixListener) -> Option<UnixStream> {
    match listener.accept() {
        Ok((connection, _)) => Some(connection),
        Err(error) => {
            if !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) {
                error!(%error, "a connection is not accepted");
                thread::sleep(PAUSE);
            }
            None
        }
    }
}
