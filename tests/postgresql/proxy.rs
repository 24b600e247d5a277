//! A proxy on the loopback address in front of a server. It delays messages, stops forwarding them
//! as a broken network does, and cuts connections in the middle of a message.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// How often a thread looks whether the rules have changed.
const LOOK: Duration = Duration::from_millis(10);
/// The value of `Rules::budget` if no connection will be cut.
const UNLIMITED: i64 = i64::MAX;

/// A proxy. Its threads end when it is dropped.
pub struct Proxy {
    pub port: u16,
    rules: Arc<Rules>,
}

struct Rules {
    server: u16,
    /// Milliseconds from the arrival of bytes until they are forwarded.
    delay: AtomicU64,
    /// Whether nothing is forwarded, in both directions.
    is_partitioned: AtomicBool,
    /// The number of bytes that are forwarded until a connection is cut.
    budget: AtomicI64,
    cuts: AtomicU64,
    /// How often the client sent something after the server did.
    turns: AtomicU64,
    is_turn_of_server: AtomicBool,
    is_over: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

impl Proxy {
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let rules = Arc::new(Rules {
            server,
            delay: AtomicU64::new(0),
            is_partitioned: AtomicBool::new(false),
            budget: AtomicI64::new(UNLIMITED),
            cuts: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            is_turn_of_server: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&rules);
        thread::spawn(move || accept(&listener, &own));
        Self { port, rules }
    }

    pub fn delay(&self, time: Duration) {
        self.rules.delay.store(time.as_millis() as u64, Ordering::Release);
    }

    /// Forwards nothing until [`heal`](Self::heal). The connections stay open, and new ones get no
    /// answer.
    pub fn partition(&self) {
        self.rules.is_partitioned.store(true, Ordering::Release);
    }

    /// Forwards everything again, also the bytes that have arrived meanwhile.
    pub fn heal(&self) {
        self.rules.is_partitioned.store(false, Ordering::Release);
    }

    pub fn cut_after(&self, bytes: u64) {
        self.rules.budget.store(bytes as i64, Ordering::Release);
    }

    pub fn cuts(&self) -> u64 {
        self.rules.cuts.load(Ordering::Acquire)
    }

    /// The number of times that the client sent something after an answer of the server.
    pub fn turns(&self) -> u64 {
        self.rules.turns.load(Ordering::Acquire)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.rules.is_over.store(true, Ordering::Release);
        // Wakes the thread that accepts connections.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn accept(listener: &TcpListener, rules: &Arc<Rules>) {
    for client in listener.incoming() {
        if rules.is_over.load(Ordering::Acquire) {
            return;
        }
        let (Ok(client), rules) = (client, Arc::clone(rules)) else { continue };
        thread::spawn(move || {
            rules.wait_for_network();
            let Ok(server) = TcpStream::connect(("127.0.0.1", rules.server)) else { return };
            for socket in [&client, &server] {
                socket.set_nodelay(true).expect("a socket");
                socket.set_read_timeout(Some(LOOK)).expect("a socket");
            }
            thread::scope(|scope| {
                scope.spawn(|| rules.forward(&client, &server, Direction::ToServer));
                rules.forward(&server, &client, Direction::ToClient);
            });
        });
    }
}

impl Rules {
    fn wait_for_network(&self) {
        while self.is_partitioned.load(Ordering::Acquire) && !self.is_over.load(Ordering::Acquire) {
            thread::sleep(LOOK);
        }
    }

    /// Forwards bytes until one side closes its connection, or the connection is cut.
    fn forward(&self, mut from: &TcpStream, mut to: &TcpStream, direction: Direction) {
        let mut buffer = [0; 1 << 14];
        while !self.is_over.load(Ordering::Acquire) {
            self.wait_for_network();
            let len = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => len,
                Err(reason) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&reason.kind()) => {
                    continue;
                }
                Err(_) => break,
            };
            if self.is_turn_of_server.swap(direction == Direction::ToClient, Ordering::AcqRel)
                && direction == Direction::ToServer
            {
                self.turns.fetch_add(1, Ordering::AcqRel);
            }
            thread::sleep(Duration::from_millis(self.delay.load(Ordering::Acquire)));
            self.wait_for_network();
            let allowed = self.allow(len);
            if to.write_all(&buffer[..allowed]).is_err() || allowed < len {
                break;
            }
        }
        for socket in [from, to] {
            // The other side may have closed it.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Returns how many of these bytes are forwarded. If that is less than all, the connection is
    /// cut.
    fn allow(&self, len: usize) -> usize {
        let update = |budget: i64| match budget {
            UNLIMITED => None,
            budget if budget > len as i64 => Some(budget - len as i64),
            _ => Some(UNLIMITED),
        };
        match self.budget.fetch_update(Ordering::AcqRel, Ordering::Acquire, update) {
            Ok(budget) if budget <= len as i64 => {
                self.cuts.fetch_add(1, Ordering::AcqRel);
                // At least one byte is missing.
                (budget as usize).min(len - 1)
            }
            _ => len,
        }
    }
}
