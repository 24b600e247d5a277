//! A process that the front starts: this program with another first argument.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;

use rustix::net::SendFlags;
use serde::Serialize;
use tracing::error;

use super::groups::{Group, Groups};
use crate::link::{Link, encode};

/// The program, also after its file was replaced: two versions never speak with each other.
const PROGRAM: &str = "/proc/self/exe";
/// The most descriptors that are under way to a process. The kernel counts those of all processes
/// of the user.
const MOST_UNDER_WAY: usize = 16;
/// The stack of the thread that hears a process.
const STACK: usize = 512 * 1024;

/// A process.
pub(super) struct Process {
    link: Arc<Link>,
    child: Child,
    /// What it gets when it has room.
    outbox: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    under_way: usize,
    _group: Option<Group>,
}

impl Process {
    /// Starts a process, in a control group of its own if there are any. `hear` receives what it
    /// says.
    pub(super) fn start(
        what: &str,
        groups: Option<&Groups>,
        hear: impl FnOnce(&Link) + Send + 'static,
    ) -> io::Result<Self> {
        let (link, other) = Link::pair()?;
        let link = Arc::new(link);
        let mut command = Command::new(PROGRAM);
        let mut child = command.arg(what).stdin(Stdio::from(other)).stdout(Stdio::null()).spawn()?;
        // The command has the other end, which must be closed before the process ends.
        drop(command);
        let heard = Arc::clone(&link);
        let name = format!("{what} {}", child.id());
        if let Err(error) = thread::Builder::new().name(name).stack_size(STACK).spawn(move || hear(&heard)) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let _group = groups.and_then(|groups| groups.enter(what, child.id()));
        Ok(Self { link, child, outbox: VecDeque::new(), under_way: 0, _group })
    }

    /// Sends a message, at once or when there is room for it.
    pub(super) fn send(&mut self, message: &impl Serialize, descriptor: Option<OwnedFd>) {
        match encode(message) {
            Ok(bytes) => self.outbox.push_back((bytes, descriptor)),
            Err(error) => error!(%error, "a message to a process"),
        }
        self.flush();
    }

    /// Sends what has room.
    pub(super) fn flush(&mut self) {
        while let Some((bytes, descriptor)) = self.outbox.front() {
            if descriptor.is_some() && self.under_way >= MOST_UNDER_WAY {
                return;
            }
            let sent = self.link.send_bytes(bytes, descriptor.as_ref().map(AsFd::as_fd), SendFlags::DONTWAIT);
            match sent {
                Ok(()) => self.under_way += usize::from(descriptor.is_some()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The user has too many descriptors under way.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::TOOMANYREFS.raw_os_error()) => {
                    return;
                }
                // It has ended.
                Err(_) => {}
            }
            self.outbox.pop_front();
        }
    }

    /// It has received a descriptor.
    pub(super) fn taken(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.flush();
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
    }

    /// Ends a process that says nothing any more. Returns how it ended.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        self.kill();
        self.child.wait()
    }
}
