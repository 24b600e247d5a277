//! A proxy between the clients and an agent, on Unix sockets. For the agent, each connection is one
//! of the user of the client.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicU64;

use jeton_child::Random;

use crate::common::*;
use crate::fault::Fault;

/// One direction of a connection works without a fault for at most this time, in milliseconds.
const BETWEEN: u64 = 10_000;
/// The most milliseconds that a frozen connection waits, usually and in one of eight cases. The
/// second is longer than a call may take.
const FROZEN: [u64; 2] = [3_000, 40_000];

/// A proxy. It runs until the process ends.
pub struct Proxy(Arc<Rules>);

struct Rules {
    faults: Vec<Fault>,
    is_calm: AtomicBool,
    /// The connections to the agent.
    open: AtomicU64,
    /// The number of faults of each kind.
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Proxy {
    /// Starts a proxy on this socket, in front of the agent on the other one.
    pub fn start(socket: &Path, agent: &Path, seed: u64, faults: &[Fault]) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        crate::permit(socket, 0o666);
        let (is_calm, open, counts) = Default::default();
        let rules = Arc::new(Rules { faults: faults.to_vec(), is_calm, open, counts });
        let (own, agent) = (Arc::clone(&rules), agent.to_owned());
        thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (client, seed) = (client.expect("a connection"), seed ^ (number as u64) << 1);
                let (rules, agent) = (Arc::clone(&own), agent.clone());
                thread::spawn(move || rules.connect(&client, &agent, seed));
            }
        });
        Self(rules)
    }

    pub fn calm(&self) {
        self.0.is_calm.store(true, Ordering::Release);
    }

    /// Returns the number of connections to the agent.
    pub fn open(&self) -> u64 {
        self.0.open.load(Ordering::Acquire)
    }

    /// Returns the number of faults of each kind.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.0.counts.lock().expect("the counts").clone()
    }
}

impl Rules {
    fn connect(&self, client: &UnixStream, agent: &Path, seed: u64) {
        self.open.fetch_add(1, Ordering::AcqRel);
        // Without an agent, the client sees that its connection is closed.
        if let Ok(agent) = connect_as(client, agent) {
            thread::scope(|scope| {
                scope.spawn(|| self.forward(client, &agent, Random::seeded(seed)));
                self.forward(&agent, client, Random::seeded(seed | 1));
            });
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Forwards bytes until one side closes its connection, or a fault closes both.
    fn forward(&self, mut from: &UnixStream, mut to: &UnixStream, mut random: Random) {
        let mut buffer = [0; 1 << 14];
        let mut next = Instant::now() + milliseconds(&mut random, BETWEEN);
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            let is_fault = !self.is_calm.load(Ordering::Acquire) && Instant::now() >= next;
            let goes_on = if is_fault && !self.faults.is_empty() {
                next = Instant::now() + milliseconds(&mut random, BETWEEN);
                self.disturb(&buffer[..len], from, to, &mut random)
            } else {
                to.write_all(&buffer[..len]).is_ok()
            };
            if !goes_on {
                break;
            }
        }
        for socket in [from, to] {
            // The other side may have closed it.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Forwards bytes with a fault. Returns whether the connection goes on.
    fn disturb(&self, bytes: &[u8], mut from: &UnixStream, mut to: &UnixStream, random: &mut Random) -> bool {
        let fault = self.faults[random.below(self.faults.len() as u64) as usize];
        *self.counts.lock().expect("the counts").entry(format!("{fault:?}")).or_default() += 1;
        match fault {
            Fault::Split => {
                let len = (1 + random.below(bytes.len() as u64) as usize).max(bytes.len() / 50);
                return bytes.chunks(len).all(|part| {
                    self.wait(Duration::from_millis(5));
                    to.write_all(part).is_ok()
                });
            }
            Fault::Truncate => {
                let sent = to.write_all(&bytes[..random.below(bytes.len() as u64) as usize]).is_ok();
                if sent && random.below(2) == 0 {
                    while matches!(from.read(&mut [0; 1 << 14]), Ok(1..)) {}
                }
                return false;
            }
            Fault::Repeat if is_message(bytes) && to.write_all(bytes).is_err() => return false,
            Fault::Delay => self.wait(milliseconds(random, 300)),
            Fault::Freeze => {
                let longest = FROZEN[usize::from(random.below(8) == 0)];
                self.wait(milliseconds(random, longest));
            }
            Fault::Reset => return false,
            _ => {}
        }
        to.write_all(bytes).is_ok()
    }

    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.is_calm.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(5).min(time));
        }
    }
}

/// Connects to the agent as the user at the other end of a connection.
fn connect_as(client: &UnixStream, agent: &Path) -> std::io::Result<UnixStream> {
    let user = rustix::net::sockopt::socket_peercred(client)?.uid.as_raw();
    let own = rustix::process::getuid().as_raw();
    if user == own {
        return UnixStream::connect(agent);
    }
    become_in_thread(user);
    let connected = UnixStream::connect(agent);
    become_in_thread(own);
    connected
}

/// Changes the effective user of this thread only: the C library would change that of all threads.
fn become_in_thread(user: u32) {
    // SAFETY: the call takes numbers; -1 changes nothing.
    assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, user, -1) }, 0);
}

fn milliseconds(random: &mut Random, below: u64) -> Duration {
    Duration::from_millis(random.below(below))
}

/// Returns whether the bytes are one message. No transport repeats a part of a message, and nothing
/// in a message would show it.
fn is_message(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|header| u32::from_le_bytes(*header) as usize + 4 == bytes.len())
}
