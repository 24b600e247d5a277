//! Copies the lines of the audit log to the local syslog: datagrams to the socket on which
//! journald, rsyslog and syslogd listen.
//!
//! syslog(3) is not used: its identifier and its socket belong to the application, and it waits
//! without a limit for a daemon that is stuck.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use tracing::warn;

/// The facility `authpriv` with the severity `notice` (RFC 5424, 6.2.1; RFC 3164, 4.1.1). Systems
/// keep `authpriv` in files that other users cannot read, and the lines name keys.
const PRIORITY: u32 = 10 * 8 + 5;
/// How long to wait for a daemon that is slow. After one failed wait the others end at once, until
/// the daemon takes a line.
const PATIENCE: Duration = Duration::from_millis(20);

/// The socket of the local syslog.
pub(super) struct Syslog {
    path: PathBuf,
    socket: UnixDatagram,
    /// Whether the daemon took the last line.
    answers: bool,
}

impl Syslog {
    /// Prepares to send to the socket at `path`. The daemon need not listen yet.
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { path, socket, answers: true })
    }

    /// Sends each line of a text. If the daemon does not take one, leaves out the others: the file
    /// has them, and the record numbers show the gap.
    pub(super) fn send(&mut self, text: &[u8]) {
        let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let outcome = lines.try_for_each(|line| self.send_line(line));
        let answers = outcome.is_ok();
        if answers == self.answers {
            return;
        }
        self.answers = answers;
        if let Err(reason) = outcome {
            warn!(socket = %self.path.display(), "audit: syslog lacks lines: {reason}");
        }
        if let Err(reason) = self.socket.set_nonblocking(!answers) {
            warn!(socket = %self.path.display(), "audit: syslog: {reason}");
        }
    }

    /// Sends a line in the form of syslog(3), but without a time: the daemon adds the time of
    /// arrival (RFC 3164, 4.3), and the line has its own.
    fn send_line(&self, line: &[u8]) -> io::Result<()> {
        let mut message = format!("<{PRIORITY}>jeton[{}]: ", std::process::id()).into_bytes();
        message.extend_from_slice(line);
        // By its path each time: the daemon may have been started again.
        self.socket.send_to(&message, &self.path).map(drop)
    }
}
