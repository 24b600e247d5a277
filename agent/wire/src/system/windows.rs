//! Sockets and files on Windows. The sockets never block: after a wait that exceeded the
//! limit of a blocking one, Windows promises nothing of it.

use std::fs::File;
use std::io;
use std::os::windows::io::AsSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::Timeout;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::socket_timeout::wait;

pub use std::net::TcpStream as Local;
pub use std::os::windows::io::BorrowedSocket as Descriptor;

/// How to receive.
pub type Flags = u8;

/// Waits until there is something.
#[cfg(feature = "tls")]
pub const WAIT: Flags = 0;
/// Receives only what is there.
pub const NOW: Flags = 1;
/// Leaves the bytes to be received again.
pub const PEEK: Flags = 2;

/// Fails: agents of this host have Unix sockets.
pub fn connect(_: &Path, _: Duration) -> io::Result<Local> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the descriptor of a socket.
pub fn descriptor(stream: &impl AsSocket) -> Descriptor<'_> {
    stream.as_socket()
}

/// Opens a file. Returns whether it is a regular one.
pub fn open(path: &Path) -> io::Result<(File, bool)> {
    let file = File::open(path)?;
    let is_file = file.metadata()?.is_file();
    Ok((file, is_file))
}

/// Receives some bytes. 0 at the end.
pub fn receive(socket: Descriptor<'_>, buffer: &mut [u8], flags: Flags) -> io::Result<usize> {
    let peek = if flags & PEEK == 0 { RecvFlags::empty() } else { RecvFlags::PEEK };
    let start = Instant::now();
    loop {
        match recv(socket, &mut *buffer, peek) {
            Ok((got, _)) => return Ok(got),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && flags & NOW == 0 => {
                wait(socket, PollFlags::IN, Timeout::Recv, start)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends some bytes to a socket.
pub fn transmit(socket: Descriptor<'_>, bytes: &[u8]) -> io::Result<usize> {
    let start = Instant::now();
    loop {
        match send(socket, bytes, SendFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(socket, PollFlags::OUT, Timeout::Send, start)?;
            }
            outcome => return Ok(outcome?),
        }
    }
}
