//! Sockets, files and memory on Unix.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

pub use std::os::fd::RawFd as Descriptor;
pub use std::os::unix::net::UnixStream as Local;

/// Receives only what is there.
pub const NOW: i32 = libc::MSG_DONTWAIT;
/// Leaves the bytes to be received again.
pub const PEEK: i32 = libc::MSG_PEEK;

/// Connects to an agent of this host.
pub fn connect(socket: &Path) -> io::Result<Local> {
    Local::connect(socket)
}

/// Returns the descriptor of a socket.
pub fn descriptor(stream: &impl AsRawFd) -> Descriptor {
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
