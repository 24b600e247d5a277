//! Sends lines of the audit log and of the log to the local syslog: datagrams to the socket on
//! which journald, rsyslog and syslogd listen.
//!
//! syslog(3) is not used: its identifier and its socket belong to the application, and it waits
//! without a limit for a daemon that is stuck. So do the crates `syslog` and `tracing-journald`.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::warn;

/// The facility `authpriv` with the severity `notice` (RFC 5424, 6.2.1; RFC 3164, 4.1.1). Systems
/// keep `authpriv` in files that other users cannot read, and the lines name keys.
const PRIORITY: u32 = 10 * 8 + 5;
/// How long to wait for a daemon that is slow. After one failed wait the others end at once, until
/// the daemon takes a line.
const PATIENCE: Duration = Duration::from_millis(20);

/// The socket of the local syslog.
pub(crate) struct Syslog {
    pub(crate) path: PathBuf,
    socket: UnixDatagram,
    /// Whether the daemon took the last line.
    answers: AtomicBool,
}

impl Syslog {
    /// Prepares to send to the socket at `path`. The daemon need not listen yet.
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { path, socket, answers: AtomicBool::new(true) })
    }

    /// Sends each line of a text. If the daemon does not take one, leaves out the others: the file
    /// has them, and the record numbers show the gap.
    pub(super) fn send(&self, text: &[u8]) {
        let answered = self.answers.load(Ordering::Relaxed);
        let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        if let Err(reason) = lines.try_for_each(|line| self.send_line(PRIORITY, line))
            && answered
        {
            warn!(socket = %self.path.display(), "audit: syslog lacks lines: {reason}");
        }
    }

    /// Sends a line in the form of syslog(3), but without a time: the daemon adds the time of
    /// arrival (RFC 3164, 4.3).
    pub(crate) fn send_line(&self, priority: u32, line: &[u8]) -> io::Result<()> {
        let mut message = format!("<{priority}>jeton[{}]: ", std::process::id()).into_bytes();
        message.extend_from_slice(line);
        self.send_message(&message)
    }

    /// Sends a message. Fails if the daemon is absent, or does not take it in time.
    pub(crate) fn send_message(&self, message: &[u8]) -> io::Result<()> {
        // By its path each time: the daemon may have been started again.
        let outcome = self.socket.send_to(message, &self.path).map(drop);
        let answers = outcome.is_ok();
        if self.answers.swap(answers, Ordering::Relaxed) != answers {
            self.socket.set_nonblocking(!answers)?;
        }
        outcome
    }
}
