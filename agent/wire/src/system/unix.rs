//! Sockets, files and memory on Unix.

use std::fs::{File, OpenOptions};
use std::io;
#[cfg(feature = "tls")]
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub use std::os::fd::RawFd as Descriptor;

use crate::wait::Stream;

/// Receives only what is there.
pub const NOW: i32 = libc::MSG_DONTWAIT;
/// Leaves the bytes to be received again.
pub const PEEK: i32 = libc::MSG_PEEK;

/// Connects to an agent of this host.
pub fn connect(socket: &Path) -> io::Result<impl Stream + 'static> {
    UnixStream::connect(socket)
}

/// Returns the descriptor of a socket.
#[cfg(feature = "tls")]
pub fn descriptor(stream: &TcpStream) -> Descriptor {
    stream.as_raw_fd()
}

/// Opens a file without waiting. Returns whether it is a regular file, or a device such as
/// `/dev/null`.
pub fn open(path: &Path) -> io::Result<(File, bool)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let kind = file.metadata()?.file_type();
    Ok((file, kind.is_file() || kind.is_char_device()))
}

/// Wipes bytes.
pub fn wipe(bytes: &mut [u8]) {
    // SAFETY: the slice is writable.
    unsafe { libc::explicit_bzero(bytes.as_mut_ptr().cast(), bytes.len()) };
}

impl Stream for UnixStream {
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.as_raw_fd(), buffer, NOW)
    }

    fn send(&mut self, mut bytes: &[u8], check: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        while !bytes.is_empty() {
            check()?;
            let sent = transmit(self.as_raw_fd(), bytes)?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn descriptor(&self) -> Descriptor {
        self.as_raw_fd()
    }
}

/// Receives some bytes. 0 at the end.
pub fn receive(socket: Descriptor, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its length.
    let got = unsafe { libc::recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Sends some bytes to a socket. A closed connection raises no signal.
pub fn transmit(socket: Descriptor, bytes: &[u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the bytes are readable.
        let sent = unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        match usize::try_from(sent) {
            Ok(sent) => return Ok(sent),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}
