//! The process in which TLS ends. It has no token and no key of one. It passes the bytes of each
//! host on to the worker that the front gives it, as the host's certificate demands.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use jeton_agent_wire::spin::{Patience, Stream};
use jeton_agent_wire::tls::Tls;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use rustls::pki_types::CertificateDer;
use tracing::{error, warn};

use crate::handshake_limits::{Gate, Turn};
use crate::link::{Link, ToDoor, ToFront};
use crate::sandbox;
use crate::tls::Section;
use crate::{ForEver, PROGRESS, lock};

/// The bytes that are passed on at once.
const PART: usize = 64 << 10;
/// How long an accept loop waits after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// The stack of a connection's thread.
const STACK: usize = 512 << 10;

/// What the threads of the process share.
struct Door {
    link: Link,
    section: Mutex<Arc<Section>>,
    gate: Arc<Gate>,
    last: AtomicU64,
    /// The certificates of each connection, and another descriptor of its socket to the worker.
    open: Mutex<HashMap<u64, (Vec<CertificateDer<'static>>, OwnedFd)>>,
}

/// Works until the front has ended.
pub fn run(link: Link) -> io::Result<()> {
    let Some((ToDoor(section), Some(listener))) = link.receive()? else { return Ok(()) };
    let (gate, last, open) = Default::default();
    let confined = sandbox::confine_door(section.files());
    link.send(&ToFront::Ready(confined.err().into_iter().collect()), None)?;
    let section = Mutex::new(Arc::new(opened(section)?));
    let door = Arc::new(Door { link, section, gate, last, open });
    let accepting = Arc::clone(&door);
    thread::spawn(move || accepting.accept(&TcpListener::from(listener)));
    while let Some((ToDoor(section), _)) = door.link.receive()? {
        match opened(section) {
            Ok(section) => door.replace(section),
            Err(error) => error!(%error, "the certificates stay as they were"),
        }
    }
    Ok(())
}

fn opened(mut section: Section) -> io::Result<Section> {
    section.open().map_err(io::Error::other)?;
    Ok(section)
}

impl Door {
    /// Ends the connections whose certificates the new section does not admit.
    fn replace(&self, section: Section) {
        for (chain, socket) in lock(&self.open).values() {
            if !section.admits(chain) {
                // It may have ended.
                let _ = shutdown(socket, Shutdown::Both);
            }
        }
        *lock(&self.section) = Arc::new(section);
    }

    /// Accepts the connections of other hosts for ever.
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        let _ends = ForEver("the thread that accepts other hosts");
        loop {
            let (stream, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
                    {
                        error!(%error, "a connection is not accepted");
                        thread::sleep(PAUSE);
                    }
                    continue;
                }
            };
            // An address is refused before anything is spent on it.
            let turn = match self.gate.turn(address.ip()) {
                Ok(turn) => turn,
                Err(reason) => {
                    warn!(%address, reason, "no TLS connection");
                    continue;
                }
            };
            let door = Arc::clone(self);
            let work = move || {
                if let Err(error) = door.serve(stream, turn) {
                    warn!(%address, %error, "no TLS connection");
                }
            };
            if let Err(error) = thread::Builder::new().stack_size(STACK).spawn(work) {
                warn!(%error, "no thread for a connection");
            }
        }
    }

    /// Serves a connection until it ends.
    fn serve(&self, stream: TcpStream, turn: Turn) -> io::Result<()> {
        let section = Arc::clone(&lock(&self.section));
        let (tls, names) = section.shake_hands(stream, turn)?;
        let chain = tls.certificates().to_vec();
        let (own, other) = UnixStream::pair()?;
        own.set_write_timeout(Some(PROGRESS))?;
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let open = Open { door: self, number };
        lock(&self.open).insert(number, (chain.clone(), own.try_clone()?.into()));
        let current = Arc::clone(&lock(&self.section));
        if !Arc::ptr_eq(&section, &current) && !current.admits(&chain) {
            return Err(io::Error::other("the certificate was revoked"));
        }
        self.link.send(&ToFront::Host(names), Some(other.as_fd()))?;
        drop(other);
        // It ends with an error of either side.
        let _ = Both { tls, own, is_host: false }.pass_on();
        drop(open);
        Ok(())
    }
}

/// A connection in the list.
struct Open<'a> {
    door: &'a Door,
    number: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.door.open).remove(&self.number);
    }
}

/// A host and its worker: bytes come from either.
struct Both {
    tls: Tls,
    own: UnixStream,
    /// Whether the last ones came from the host.
    is_host: bool,
}

impl Both {
    /// Passes bytes on until one side ends.
    fn pass_on(&mut self) -> io::Result<()> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let mut patience = Patience::new(processors.saturating_sub(1).max(1));
        let mut buffer = vec![0; PART];
        loop {
            let part = match patience.read(self, &mut buffer)? {
                0 => return Ok(()),
                some => &buffer[..some],
            };
            if self.is_host {
                self.own.write_all(part)?;
            } else {
                // A host that takes one byte after the other is no better than a silent one.
                let end = Instant::now() + PROGRESS;
                let in_time =
                    || if Instant::now() < end { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) };
                self.tls.send(part, &in_time)?;
            }
        }
    }
}

impl Read for Both {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read_now(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let [host, own] = [self.tls.descriptor(), self.own.as_fd()];
                    poll(&mut [PollFd::new(&host, PollFlags::IN), PollFd::new(&own, PollFlags::IN)], None)?;
                }
                outcome => return outcome,
            }
        }
    }
}

impl Stream for Both {
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for is_host in [!self.is_host, self.is_host] {
            self.is_host = is_host;
            let outcome = match is_host {
                true => self.tls.read_now(buffer),
                false => recv(&self.own, &mut *buffer, RecvFlags::DONTWAIT)
                    .map(|(len, _)| len)
                    .map_err(io::Error::from),
            };
            if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                return outcome;
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send(&mut self, bytes: &[u8], check: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        self.tls.send(bytes, check)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.tls.descriptor()
    }
}
