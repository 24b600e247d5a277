//! Control groups: each worker, the door and the monitor have one, so that the processors are
//! shared by clients and not by threads. Without them, a client with many busy threads gets more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use tracing::{error, warn};

/// Where the second version of control groups is: alone, or beside the first one.
const PLACES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The share of the front. That of others is 100.
const FRONT: &str = "1000";

/// The group of the agent. systemd lets it make others below (`Delegate=`).
pub struct Groups(PathBuf);

/// The group of one process. It ends with the value.
pub(super) struct Group(PathBuf);

impl Groups {
    /// Moves this process to a group below its own one: a group with processes shares nothing
    /// between those below it.
    pub fn open() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/self/cgroup")?;
        let own = text.lines().find_map(|line| line.strip_prefix("0::/")).ok_or(io::ErrorKind::NotFound)?;
        let is_place = |place: &&Path| place.join("cgroup.controllers").exists();
        let place = PLACES.map(Path::new).into_iter().find(is_place).ok_or(io::ErrorKind::NotFound)?;
        let groups = Self(place.join(own));
        let front = groups.0.join("front");
        enter(&front, process::id())?;
        let share = || {
            fs::write(groups.0.join("cgroup.subtree_control"), "+cpu")?;
            fs::write(front.join("cpu.weight"), FRONT)
        };
        if let Err(error) = share() {
            error!(%error, "the control groups share no processors");
        }
        Ok(groups)
    }

    /// Moves a process to a group of its own.
    pub(super) fn enter(&self, what: &str, process: u32) -> Option<Group> {
        let path = self.0.join(format!("{what}-{process}"));
        match enter(&path, process) {
            Ok(()) => Some(Group(path)),
            Err(error) => {
                warn!(%error, "a process has no control group");
                None
            }
        }
    }
}

fn enter(path: &Path, process: u32) -> io::Result<()> {
    fs::create_dir(path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    })?;
    fs::write(path.join("cgroup.procs"), process.to_string())
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            warn!(%error, "a control group stays");
        }
    }
}
