//! Sockets and files on Unix.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{recv, send, socket_with};

use crate::socket_timeout::wait;

pub use rustix::net::RecvFlags as Flags;
pub use std::os::fd::BorrowedFd as Descriptor;
pub use std::os::unix::net::UnixStream as Local;

/// Waits until there is something.
#[cfg(feature = "tls")]
pub const WAIT: Flags = Flags::empty();
/// Receives only what is there.
pub const NOW: Flags = Flags::DONTWAIT;
/// Leaves the bytes to be received again.
pub const PEEK: Flags = Flags::PEEK;

/// Connects to an agent of this host, within this time.
pub fn connect(path: &Path, time: Duration) -> io::Result<Local> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(time))?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Returns the descriptor of a socket.
pub fn descriptor(stream: &impl AsFd) -> Descriptor<'_> {
    stream.as_fd()
}

/// Opens a file without waiting. Returns whether it is a regular file, or a device such as
/// `/dev/null`.
pub fn open(path: &Path) -> io::Result<(File, bool)> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    Ok((file, kind.is_file() || kind.is_char_device()))
}

/// Receives some bytes. 0 at the end.
pub fn receive(socket: Descriptor<'_>, buffer: &mut [u8], flags: Flags) -> io::Result<usize> {
    Ok(recv(socket, buffer, flags)?.0)
}

/// Sends some bytes to a socket. A closed connection raises no signal.
pub fn transmit(socket: Descriptor<'_>, bytes: &[u8]) -> io::Result<usize> {
    let start = Instant::now();
    loop {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => wait(socket, PollFlags::OUT, Timeout::Send, start)?,
            outcome => return Ok(outcome?),
        }
    }
}
