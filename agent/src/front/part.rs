//! The processes of the agent that are not of one client. The front starts each again when it ends.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tracing::error;

use super::process::Process;
use super::{Front, State};
use crate::link::{Link, ToDoor, ToFront, ToMonitor};
use crate::lock;
use crate::peer::Peer;

/// How long the front waits before it starts a process again. The time doubles, unless the process
/// has lived for some time.
const PAUSE: Duration = Duration::from_millis(100);
const MOST_PAUSE: Duration = Duration::from_secs(10);
const STANDS: Duration = Duration::from_secs(60);

/// Such a process. What listens is a socket of the front, so that peers which connect meanwhile
/// wait.
#[derive(Clone)]
pub(super) enum Part {
    /// TLS ends in it.
    Door(Arc<OwnedFd>),
    /// Writes the audit log.
    Writer,
    /// Answers monitors.
    Monitor(Arc<OwnedFd>),
}

impl Front {
    /// Starts the process in which TLS ends, for hosts that connect here.
    pub fn open_door(self: &Arc<Self>, listener: OwnedFd) -> io::Result<()> {
        self.keep(Part::Door(Arc::new(listener)), PAUSE)
    }

    /// Starts the process that writes the audit log, if there is one.
    pub fn open_audit(self: &Arc<Self>) -> io::Result<()> {
        if self.has_audit { self.keep(Part::Writer, PAUSE) } else { Ok(()) }
    }

    /// Starts the process for monitors, which ask here.
    pub fn open_monitor(self: &Arc<Self>, listener: OwnedFd) -> io::Result<()> {
        self.keep(Part::Monitor(Arc::new(listener)), PAUSE)
    }

    /// Starts a process, and starts it again when it ends, after this pause.
    fn keep(self: &Arc<Self>, part: Part, pause: Duration) -> io::Result<()> {
        let mut state = self.lock();
        if part.is_over(&mut state) {
            return Ok(());
        }
        let passed = match &part {
            Part::Door(socket) | Part::Monitor(socket) => Some(socket.try_clone()?),
            Part::Writer => None,
        };
        // No client may take processor time from the audit log.
        let groups = self.groups.as_ref().filter(|_| !matches!(part, Part::Writer));
        let (front, again) = (Arc::clone(self), part.clone());
        let mut process =
            Process::start(part.name(), groups, move |link| front.outlive(&again, link, pause))?;
        match &part {
            Part::Door(_) => {
                if let Some(section) = state.rules.tls.clone() {
                    process.send(&ToDoor(section), passed);
                }
            }
            Part::Writer => self.begin_audit(&mut state, &mut process),
            Part::Monitor(_) => process.send(&ToMonitor::Listen, passed),
        }
        *part.place(&mut state) = Some(process);
        Ok(())
    }

    /// Does what a process says until it ends, and starts the next one.
    fn outlive(self: &Arc<Self>, part: &Part, link: &Link, mut pause: Duration) {
        let start = Instant::now();
        // A fault of the front costs this process, and not the thread that starts the next one.
        let heard = catch_unwind(AssertUnwindSafe(|| self.hear_part(part, link)));
        let gone = part.place(&mut self.lock()).take();
        let status = gone.map(|mut gone| gone.end());
        if start.elapsed() >= STANDS {
            pause = PAUSE;
        }
        let name = part.name();
        while !part.is_over(&mut self.lock()) {
            error!(name, ?status, is_fault = heard.is_err(), ?pause, "a process of the agent has ended");
            thread::sleep(pause);
            pause = MOST_PAUSE.min(2 * pause);
            match self.keep(part.clone(), pause) {
                Ok(()) => return,
                Err(error) => error!(name, %error, "a process of the agent does not start"),
            }
        }
    }

    fn hear_part(self: &Arc<Self>, part: &Part, link: &Link) {
        let Ok(Some((ToFront::Ready(missing), _))) = link.receive() else { return };
        lock(&self.missing).insert(part.name(), missing);
        match part {
            Part::Door(_) => self.hear_door(link),
            Part::Writer => self.hear_writer(link),
            Part::Monitor(_) => self.hear_monitor(link),
        }
    }

    /// Admits the hosts that the process for them names, until it ends.
    fn hear_door(self: &Arc<Self>, link: &Link) {
        while let Ok(Some((ToFront::Host(names), Some(socket)))) = link.receive()
            && !names.is_empty()
        {
            let peer = Peer::Certificate { names };
            let owner = peer.name();
            self.admit(peer, owner, socket.into());
        }
    }
}

impl Part {
    /// Returns the first argument of the process.
    fn name(&self) -> &'static str {
        match self {
            Self::Door(_) => "door",
            Self::Writer => "writer",
            Self::Monitor(_) => "monitor",
        }
    }

    /// Returns where the front has the process.
    fn place<'a>(&self, state: &'a mut State) -> &'a mut Option<Process> {
        match self {
            Self::Door(_) => &mut state.door,
            Self::Writer => &mut state.writer,
            Self::Monitor(_) => &mut state.monitor,
        }
    }

    /// Returns whether no such process is needed any more.
    fn is_over(&self, state: &mut State) -> bool {
        match self {
            Self::Door(_) => state.is_ending || state.rules.tls.is_none(),
            // Until the end, calls of workers wait for it.
            Self::Writer => state.closes_audit && !state.has_records(),
            Self::Monitor(_) => state.is_ending,
        }
    }
}
