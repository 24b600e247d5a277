//! Who is at the other end of a connection.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The most groups of a user.
const MOST_GROUPS: usize = 65_536;

/// The peer of a connection.
pub enum Peer {
    /// A user of this host.
    User {
        /// The number of the user.
        uid: u32,
        /// The groups of the process that connected.
        groups: Vec<u32>,
        /// Whether these are all its groups. Otherwise only the first one is known.
        has_all_groups: bool,
        /// The service of systemd that the process belongs to.
        unit: Option<String>,
    },
    /// A host or a person with a certificate.
    Certificate {
        /// The DNS names of the certificate, at least one.
        names: Vec<String>,
    },
}

impl Peer {
    /// Returns the user at the other end of a Unix socket, as it was when it connected.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let libc::ucred { pid, uid, gid } = credentials(stream)?;
        let supplementary = groups(stream)?;
        let has_all_groups = supplementary.is_some();
        let mut groups = supplementary.unwrap_or_default();
        groups.push(gid);
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup"));
        let unit = cgroup.ok().and_then(|text| unit(&text).map(str::to_owned));
        Ok(Self::User { uid, groups, has_all_groups, unit })
    }

    /// Returns the name by which the log, the audit log, limits and tickets know the peer.
    pub fn name(&self) -> String {
        match self {
            Self::User { uid, .. } => format!("uid {uid}"),
            Self::Certificate { names } => format!("certificate {}", names[0]),
        }
    }

    /// Returns whether the peer is root, or the user of the agent.
    pub fn administers(&self) -> bool {
        matches!(self, Self::User { uid, .. } if *uid == 0 || *uid == rustix::process::geteuid().as_raw())
    }
}

/// Returns the process, the user and the group that connected. The process is 0 if the agent cannot
/// see it, because it is in another container. The type of rustix has no such process.
fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` is writable for `len` bytes, and `len` is a valid place.
    let outcome = unsafe {
        let to = (&raw mut credentials).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut len)
    };
    if outcome == 0 { Ok(credentials) } else { Err(io::Error::last_os_error()) }
}

/// Returns the supplementary groups of the process that connected. `None` if the host does not give
/// them, as an emulator of another architecture: QEMU has a buffer for one group only.
fn groups(stream: &UnixStream) -> io::Result<Option<Vec<u32>>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut len = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the buffer is writable for `len` bytes, and `len` is a valid place.
        let outcome = unsafe {
            let to = groups.as_mut_ptr().cast();
            libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, to, &raw mut len)
        };
        if outcome == 0 {
            groups.truncate(len as usize / size_of::<u32>());
            return Ok(Some(groups));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ERANGE) if groups.len() < MOST_GROUPS => groups.resize(MOST_GROUPS, 0),
            Some(libc::ERANGE | libc::ENOPROTOOPT | libc::EOPNOTSUPP) => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Returns the service in the text of `/proc/PID/cgroup`. A user's own services do not count: their
/// names are the user's choice.
fn unit(text: &str) -> Option<&str> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/system.slice/"))?;
    let unit = path.split('/').find(|part| part.ends_with(".service"))?;
    Some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_of_the_system_is_a_unit() {
        assert_eq!(unit("0::/system.slice/nginx.service\n"), Some("nginx.service"));
        let instance = "0::/system.slice/system-web.slice/web@1.service/worker\n";
        assert_eq!(unit(instance), Some("web@1.service"));
        assert_eq!(unit("0::/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service\n"), None);
        assert_eq!(unit("0::/\n"), None);
    }

    #[test]
    fn the_groups_of_a_peer_are_those_of_its_process() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        let Ok(Peer::User { uid, groups, .. }) = Peer::of(&one) else { panic!("no peer") };
        assert_eq!(uid, rustix::process::getuid().as_raw());
        let expected = rustix::process::getgroups().expect("groups");
        assert!(expected.iter().all(|group| groups.contains(&group.as_raw())));
        assert!(groups.contains(&rustix::process::getgid().as_raw()));
    }
}
