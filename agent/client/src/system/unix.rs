//! The process, its sockets and the C types of its programs on Unix.

use std::io;
#[cfg(feature = "tls")]
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use jeton_agent_system::take_no_descriptors;
use once_cell::race::OnceBox;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec, write};
use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{geteuid, getuid};

/// The configuration file.
pub fn configuration() -> PathBuf {
    "/etc/jeton/jeton.toml".into()
}

/// Returns whether the program has rights that the user who starts it lacks.
pub fn is_privileged() -> bool {
    // SAFETY: getauxval(3) takes a number and has no other precondition.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the user of this process. `None` if its real user is another one: it may change back.
pub fn user() -> Option<u32> {
    let user = geteuid();
    (user == getuid()).then_some(user.as_raw())
}

/// Writes a short line to standard error, if it can be written at once: otherwise the
/// application would wait, or get a signal that ends it.
pub fn say(line: &str) {
    let errors = io::stderr();
    let mut polled = [PollFd::from_borrowed_fd(errors.as_fd(), PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut polled, Some(&now)).is_ok() && polled[0].revents() == PollFlags::OUT {
        let _ = write(errors.as_fd(), line.as_bytes());
    }
}

/// Connects to an agent of this host, within this time.
pub fn connect_unix(path: &Path, time: Duration) -> io::Result<(UnixStream, Listed)> {
    let (socket, listed) = connect(AddressFamily::UNIX, &SocketAddrUnix::new(path)?, time)?;
    Ok((socket.into(), listed))
}

/// Connects to an agent of another host, within this time.
#[cfg(feature = "tls")]
pub fn connect_tcp(address: &SocketAddr, time: Duration) -> io::Result<(TcpStream, Listed)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (stream, listed) = connect(family, address, time)?;
    // The connection fails when the host has vanished.
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(2))?;
    sockopt::set_tcp_user_timeout(&stream, 10_000)?;
    Ok((stream.into(), listed))
}

/// The shortest limit of time of a socket: none at all would be no limit.
const LEAST: Duration = Duration::from_millis(1);

/// The first descriptor of a connection. What the application writes to those before, which it may
/// have closed, is not for an agent.
const FIRST: RawFd = 3;

/// Connects to a socket, within this time. A forked child closes the descriptor, also while this
/// function or a TLS handshake waits.
fn connect(
    family: AddressFamily,
    address: &impl SocketAddrArg,
    time: Duration,
) -> io::Result<(OwnedFd, Listed)> {
    let mut socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if socket.as_raw_fd() < FIRST {
        socket = fcntl_dupfd_cloexec(&socket, FIRST)?;
    }
    if family == AddressFamily::UNIX {
        // Before Linux 6.16, nothing keeps an agent from passing one.
        take_no_descriptors(&socket);
    }
    let listed = OPEN.put(socket.as_raw_fd());
    // Does not wait for long if the queue is full or the host does not answer.
    let start = Instant::now();
    loop {
        // A signal does not start the time again.
        let left = time.saturating_sub(start.elapsed()).max(LEAST);
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(left))?;
        match net::connect(&socket, address) {
            Err(Errno::INTR) if left > LEAST => {}
            outcome => break outcome?,
        }
    }
    Ok((socket, listed))
}

/// The descriptors of the connections, for a forked child, which must close them without a lock.
struct Places {
    descriptors: [AtomicI32; 256],
    /// Further places. They are never freed.
    more: OnceBox<Self>,
}

static OPEN: Places = Places::new();

/// The place of a descriptor in [`OPEN`]. Dropped before the descriptor is closed.
pub struct Listed(&'static AtomicI32);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.store(-1, Ordering::Relaxed);
    }
}

impl Places {
    const fn new() -> Self {
        Self { descriptors: [const { AtomicI32::new(-1) }; 256], more: OnceBox::new() }
    }

    fn put(&'static self, descriptor: RawFd) -> Listed {
        let mut places = self;
        loop {
            let free = |place: &&AtomicI32| {
                place.compare_exchange(-1, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            if let Some(place) = places.descriptors.iter().find(free) {
                return Listed(place);
            }
            places = places.more.get_or_init(|| Box::new(Self::new()));
        }
    }
}

/// Whether this process is the child of an application.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Returns whether the parent of this process was an application when it forked.
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Closes the connections of the parent. Called in the child of a fork, so it is async-signal-safe.
pub fn forget_parent() {
    IS_CHILD.store(true, Ordering::Relaxed);
    let mut places = Some(&OPEN);
    while let Some(Places { descriptors, more }) = places {
        for place in descriptors {
            let descriptor = place.swap(-1, Ordering::Relaxed);
            if descriptor >= 0 {
                // SAFETY: a descriptor that this library opened. The child uses no object of the
                // parent.
                unsafe { libc::close(descriptor) };
            }
        }
        places = more.get();
    }
}
