//! Who is at the other end of a connection.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use jeton_agent_system::{self as system, Credentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The peer of a connection.
#[derive(Clone, Debug)]
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
        let credentials @ Credentials { process, uid, gid } = system::credentials(stream)?;
        let supplementary = system::groups(stream)?;
        let has_all_groups = supplementary.is_some();
        let mut groups = supplementary.unwrap_or_default();
        groups.push(gid);
        let unit = unit_of(stream, credentials);
        Ok(Self::User { uid, groups, has_all_groups, unit, process })
    }

    /// Returns the name of the peer without what a rule says of it.
    pub fn name(&self) -> String {
        match self {
            Self::User { uid, .. } => format!("uid {uid}"),
            Self::Certificate { names, .. } => {
                format!("certificate {}", domain(names.first().map_or("", String::as_str)))
            }
        }
    }

    /// Returns the process that connected; 0 if the agent cannot see it.
    pub fn process(&self) -> u32 {
        match self {
            Self::User { process, .. } => *process,
            Self::Certificate { .. } => 0,
        }
    }

    /// Returns whether both peers are one process of this host, which the agent can see.
    pub fn is_process_of(&self, other: &Self) -> bool {
        self.process() != 0 && self.process() == other.process()
    }
}

/// The numbers that subuid(5) gives to users, each of whom has thousands of them.
#[derive(Default)]
pub struct Owners(Vec<(Range<u32>, u32)>);

impl Owners {
    /// Reads the file. Without one, each number is its own.
    pub fn read() -> Self {
        let text = fs::read_to_string("/etc/subuid").unwrap_or_default();
        Self(text.lines().filter_map(owned).collect())
    }

    /// Returns the user to whom a number counts.
    pub fn of(&self, uid: u32) -> u32 {
        self.0.iter().find(|(owned, _)| owned.contains(&uid)).map_or(uid, |(_, owner)| *owner)
    }
}

/// Returns the numbers in a line of subuid(5), and their owner.
fn owned(line: &str) -> Option<(Range<u32>, u32)> {
    let [name, first, count] = line.split(':').collect::<Vec<_>>().try_into().ok()?;
    let (first, count): (u32, u32) = (first.parse().ok()?, count.trim_end().parse().ok()?);
    let of_name = || Some(nix::unistd::User::from_name(name).ok()??.uid.as_raw());
    Some((first..first.saturating_add(count), name.parse().ok().or_else(of_name)?))
}

/// Returns a DNS name in the form in which names are compared. RFC 4343: the case of its letters
/// does not matter. RFC 1034, 3.1: neither does the dot at its end.
pub fn domain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns the service of the process that connected. That process may have passed its connection
/// on and ended, and another process may have its number now. So the answer holds only if the
/// process is alive after its service was read.
fn unit_of(stream: &UnixStream, peer: Credentials) -> Unit {
    let Some(process) = process_of(stream, peer) else { return Unit::Unknown };
    let text = fs::read_to_string(format!("/proc/{}/cgroup", peer.process));
    let is_alive = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&Timespec::default())) == Ok(0);
    text.ok().filter(|_| is_alive).map_or(Unit::Unknown, |text| unit(&text))
}

/// Returns a descriptor of the process that connected. Linux before 6.5 only has its number. There,
/// another process that got the number has to be one of the same user.
fn process_of(stream: &UnixStream, peer: Credentials) -> Option<OwnedFd> {
    if let Some(process) = system::process(stream).ok()? {
        return Some(process);
    }
    let number = Pid::from_raw(peer.process.cast_signed())?;
    let process = pidfd_open(number, PidfdFlags::empty()).ok()?;
    let status = fs::read_to_string(format!("/proc/{}/status", peer.process)).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let is_of_user = users.split_whitespace().nth(1) == Some(&peer.uid.to_string());
    is_of_user.then_some(process)
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
    fn a_number_of_subuid_counts_as_its_owner() {
        let lines = ["root:100000:65536", "1000:165536:65536", "", "a:b:c", "root:1:2:3", "no-such-user:7:1"];
        let owners = Owners(lines.into_iter().filter_map(owned).collect());
        let of = [99_999, 100_000, 165_535, 165_536, 231_071, 231_072, 7].map(|uid| owners.of(uid));
        assert_eq!(of, [99_999, 0, 0, 1000, 1000, 231_072, 7]);
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
