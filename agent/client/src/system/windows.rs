//! The process and its sockets on Windows.

use std::ffi::c_void;
use std::io::{self, Write};
#[cfg(feature = "tls")]
use std::net::SocketAddr;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::time::Duration;

/// The configuration file: that of the user, or else that of the machine.
pub fn configuration() -> PathBuf {
    let file = |variable| {
        // Without the variable, it would be a file in the folder in which the program runs.
        let folder = std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
        folder.map(|folder| folder.join("jeton\\jeton.toml"))
    };
    let machine = || file("ProgramData").unwrap_or_else(|| "C:\\ProgramData\\jeton\\jeton.toml".into());
    file("APPDATA").filter(|path| path.is_file()).unwrap_or_else(machine)
}

/// Returns whether the program has rights that the user who starts it lacks: there are none such.
pub const fn is_privileged() -> bool {
    false
}

/// Processes do not change their user.
pub const fn user() -> Option<u32> {
    None
}

/// Makes this library, which has something at the address, stay in the process.
pub fn stay(address: *const c_void) {
    const STAYS: u32 = 1;
    const HAS_THIS_ADDRESS: u32 = 4;
    // SAFETY: an address of this library, and a place for its handle.
    unsafe { GetModuleHandleExW(STAYS | HAS_THIS_ADDRESS, address, &mut null_mut()) };
}

unsafe extern "system" {
    fn GetModuleHandleExW(flags: u32, address: *const c_void, module: &mut *mut c_void) -> i32;
}

/// Processes do not fork.
pub const fn is_child() -> bool {
    false
}

/// Processes do not fork.
pub const fn forget_parent() {}

/// Processes do not fork.
pub struct Listed;

/// Writes a line to standard error, if there is one.
pub fn say(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Fails: agents of this host have Unix sockets.
pub fn connect_unix(_: &Path, _: Duration) -> io::Result<(TcpStream, Listed)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "Windows needs tls://HOST:PORT"))
}

/// Connects to an agent of another host, within this time.
#[cfg(feature = "tls")]
pub fn connect_tcp(address: &SocketAddr, time: Duration) -> io::Result<(TcpStream, Listed)> {
    let stream = TcpStream::connect_timeout(address, time)?;
    stream.set_nonblocking(true)?;
    Ok((stream, Listed))
}
