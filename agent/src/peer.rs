//! Who is at the other end of a connection.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustls::pki_types::CertificateDer;

const MOST_GROUPS: usize = 65_536;

/// The peer of a connection.
#[derive(Debug)]
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
        unit: Unit,
        /// The process that connected; 0 if it is in another container.
        process: u32,
    },
    /// A host or a person with a certificate.
    Certificate {
        /// The DNS names of the certificate, at least one.
        names: Vec<String>,
        /// The certificate and those that lead to its authority.
        chain: Vec<CertificateDer<'static>>,
    },
}

/// The service of systemd that a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// This service.
    Service(String),
    /// No service: the process is in the session of a user, or the host has no services.
    None,
    /// The process ended before the agent looked, or is in another container, or the host does not
    /// say which service it belongs to.
    Unknown,
}

impl Peer {
    /// Returns the user at the other end of a Unix socket, as it was when it connected.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials @ libc::ucred { pid, uid, gid } = credentials(stream)?;
        let supplementary = groups(stream)?;
        let has_all_groups = supplementary.is_some();
        let mut groups = supplementary.unwrap_or_default();
        groups.push(gid);
        let unit = unit_of(stream, &credentials);
        Ok(Self::User { uid, groups, has_all_groups, unit, process: pid.cast_unsigned() })
    }

    /// Returns the name of the peer without what a rule says of it.
    pub fn name(&self) -> String {
        match self {
            Self::User { uid, .. } => format!("uid {uid}"),
            Self::Certificate { names, .. } => format!("certificate {}", domain(&names[0])),
        }
    }

    /// Returns the process that connected; 0 if the agent cannot see it.
    pub fn process(&self) -> u32 {
        match self {
            Self::User { process, .. } => *process,
            Self::Certificate { .. } => 0,
        }
    }

    /// Returns whether the peer is root, or the user of the agent.
    pub fn administers(&self) -> bool {
        matches!(self, Self::User { uid, .. } if *uid == 0 || *uid == rustix::process::geteuid().as_raw())
    }
}

/// Returns a DNS name in the form in which names are compared. RFC 4343: the case of its letters
/// does not matter. RFC 1034, 3.1: neither does the dot at its end.
pub fn domain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns the service of the process that connected. That process may have passed its connection
/// on and ended, and another process may have its number now. So the answer holds only if the
/// process is alive after its service was read.
fn unit_of(stream: &UnixStream, peer: &libc::ucred) -> Unit {
    let Some(process) = process_of(stream, peer) else { return Unit::Unknown };
    let text = fs::read_to_string(format!("/proc/{}/cgroup", peer.pid));
    let mut ended = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid struct.
    let is_alive = unsafe { libc::poll(&raw mut ended, 1, 0) } == 0;
    text.ok().filter(|_| is_alive).map_or(Unit::Unknown, |text| unit(&text))
}

/// Returns a descriptor of the process that connected. Linux before 6.5 only has its number. There,
/// another process that got the number has to be one of the same user.
fn process_of(stream: &UnixStream, peer: &libc::ucred) -> Option<OwnedFd> {
    /// Linux 6.5; not in libc for every architecture.
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut process: RawFd = -1;
    let mut len = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: `process` is writable for `len` bytes, and `len` is a valid place.
    let outcome = unsafe {
        let to = (&raw mut process).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, to, &raw mut len)
    };
    if outcome == 0 {
        // SAFETY: the kernel made this descriptor for the caller.
        return Some(unsafe { OwnedFd::from_raw_fd(process) });
    }
    if io::Error::last_os_error().raw_os_error() != Some(libc::ENOPROTOOPT) {
        return None;
    }
    let number = rustix::process::Pid::from_raw(peer.pid)?;
    let process = rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).ok()?;
    let status = fs::read_to_string(format!("/proc/{}/status", peer.pid)).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let is_of_user = users.split_whitespace().nth(1) == Some(&peer.uid.to_string());
    is_of_user.then_some(process)
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

/// Returns the service in the text of `/proc/PID/cgroup`: what follows the slices. A user's own
/// services do not count, nor do those that a container or a scope has inside: their names are
/// their choice. A host with the first version of control groups has no such path, or an empty one
/// beside its own, and an agent in a namespace of its own sees one of it.
fn unit(text: &str) -> Unit {
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::/")) else { return Unit::Unknown };
    // Beside the first version, systemd may keep its services there alone.
    let is_elsewhere =
        |line: &str| line.split_once(":name=systemd:/").is_some_and(|(_, path)| !path.is_empty());
    if path.is_empty() && !text.lines().any(is_elsewhere) || path.split('/').next() == Some("user.slice") {
        return Unit::None;
    }
    match path.split('/').find(|part| !part.ends_with(".slice")) {
        Some(unit) if unit.ends_with(".service") => Unit::Service(unit.to_owned()),
        _ => Unit::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_of_the_system_is_a_unit() {
        let service = |name: &str| Unit::Service(name.to_owned());
        assert_eq!(unit("0::/system.slice/nginx.service\n"), service("nginx.service"));
        let instance = "0::/system.slice/system-web.slice/web@1.service/worker\n";
        assert_eq!(unit(instance), service("web@1.service"));
        let of_user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service\n";
        assert_eq!(unit(of_user), Unit::None);
        assert_eq!(unit("0::/\n"), Unit::None);
        assert_eq!(unit("9:name=systemd:/\n4:memory:/limited\n0::/\n"), Unit::None);
        let both = "1:name=systemd:/system.slice/nginx.service\n0::/system.slice/nginx.service\n";
        assert_eq!(unit(both), service("nginx.service"));
        for slice in ["web.slice", "machine.slice", "web.slice/web-blue.slice"] {
            assert_eq!(unit(&format!("0::/{slice}/nginx.service\n")), service("nginx.service"));
        }
        // A rule for a service may be for such a process.
        for unknown in [
            "1:name=systemd:/system.slice/nginx.service\n",
            "",
            // Both versions of control groups.
            "1:name=systemd:/system.slice/nginx.service\n0::/\n",
            "0::/\n1:name=systemd:/system.slice/nginx.service\n",
            "0::/../nginx.service\n",
            "0::/../../system.slice/nginx.service\n",
            "0::/system.slice/docker-1.scope/nginx.service\n",
            "0::/machine.slice/libpod-1.scope/system.slice/nginx.service\n",
            "0::/docker/1\n",
            "0::/web.slice\n",
            "0::/init.scope\n",
            "0::/user.slices/nginx\n",
        ] {
            assert_eq!(unit(unknown), Unit::Unknown, "{unknown}");
        }
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
