//! What the agent says to systemd, or to another program that starts it: sd_notify(3).

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::Duration;

/// How long systemd may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says something, if a program listens.
pub fn tell(what: &str) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.send_to_addr(what.as_bytes(), &address).map(drop)
}

/// Returns within which time this process has to say that it works; `None` if no program waits for
/// that: sd_watchdog_enabled(3).
pub fn watchdog() -> Option<Duration> {
    let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|of| of == u64::from(process::id()));
    number("WATCHDOG_USEC").filter(|time| is_ours && *time != 0).map(Duration::from_micros)
}
