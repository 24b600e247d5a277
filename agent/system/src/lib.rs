//! What the agent asks of Linux that no safe library offers: who is at the other end of a socket,
//! a socket of another process, and a limit of the heap. The agent itself has no unsafe code. Its
//! client module uses [`take_no_descriptors`].

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};

const MOST_GROUPS: usize = 65_536;

/// A process that connected, as it was then.
#[derive(Debug, Clone, Copy)]
pub struct Credentials {
    /// Its number; 0 if the agent cannot see it, because it is in another container. The type of
    /// rustix has no such process.
    pub process: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Returns the process, the user and the group that connected.
pub fn credentials(stream: &UnixStream) -> io::Result<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `found` is writable for `len` bytes, and `len` is a valid place.
    let outcome = unsafe {
        let to = (&raw mut found).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut len)
    };
    let libc::ucred { pid, uid, gid } = found;
    if outcome == 0 {
        Ok(Credentials { process: pid.cast_unsigned(), uid, gid })
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the supplementary groups of the process that connected. `None` if the host does not give
/// them, as an emulator of another architecture: QEMU has a buffer for one group only.
pub fn groups(stream: &UnixStream) -> io::Result<Option<Vec<u32>>> {
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

/// Returns a descriptor of the process that connected. `None` on Linux before 6.5, which only has
/// its number.
pub fn process(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    /// Not in libc for every architecture.
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
        return Ok(Some(unsafe { OwnedFd::from_raw_fd(process) }));
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        error => Err(error),
    }
}

/// The length in bytes from which memory goes back to the system when it is freed. By default glibc
/// raises it to 32 MiB, and keeps the long messages of each of its arenas after their client left.
const RETURNED: libc::c_int = 128 * 1024;

/// Gives long memory back to the system when it is freed.
pub fn return_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes numbers and has no other precondition.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, RETURNED)
    };
}

/// Keeps all descriptors but the first three from the programs that this process starts. Its own
/// parent may have left some open, and systemd passes sockets.
pub fn keep_descriptors() -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: the call takes numbers, and closes nothing now.
    let outcome = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes no descriptors from the peers of a socket, and of those that it accepts. Otherwise a peer
/// passes one whose last close takes an hour (SO_LINGER), and closes its own. Returns whether the
/// kernel does so: Linux 6.16 is the first.
pub fn take_no_descriptors(socket: &impl AsRawFd) -> bool {
    /// Not in libc yet.
    const SO_PASSRIGHTS: libc::c_int = 83;
    set(socket, SO_PASSRIGHTS, 0).is_ok()
}

/// Makes the kernel note when each packet was sent to this socket.
pub fn note_times(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::SO_TIMESTAMP, 1)
}

/// Makes [`look`] begin with the first packet of a socket.
pub fn look_from_first(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::SO_PEEK_OFF, 0)
}

/// Looks at the next packet of a socket, after the one at which it looked last, and leaves it
/// there. Of one that is longer than the buffer, each look sees a part. Returns the length of what
/// is left of the packet, and the time when it was sent.
pub fn look(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    // Room for a header and a time. What else a peer sends has none.
    let mut control = [0u64; 4];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a structure of numbers and pointers, which may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the kernel writes to `buffer` and `control`, which have these lengths.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has set the length of `control`.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let is_time = |header: &&libc::cmsghdr| {
        (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMP)
    };
    let time = header.filter(is_time).and_then(|header| {
        // SAFETY: a header of this type is followed by a time.
        let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timeval>().read_unaligned() };
        let micros = u64::try_from(time.tv_usec).ok()?;
        Some(Duration::from_secs(u64::try_from(time.tv_sec).ok()?) + Duration::from_micros(micros))
    });
    Ok((len, time))
}

/// Sets an option of a socket to a number.
fn set(socket: &impl AsRawFd, option: libc::c_int, number: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads the number, which has this length.
    let outcome = unsafe {
        let from = (&raw const number).cast();
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, from, len)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The first descriptor of a socket that systemd passes.
const FIRST_PASSED: RawFd = 3;
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns the sockets that systemd passes to this process (sd_listen_fds(3)), at the first call:
/// at most `most` Unix sockets, and one of TCP. A peer of the latter is no user of this host, so it
/// is never a socket of clients.
pub fn passed_sockets(most: u32) -> Result<(Vec<UnixListener>, Option<TcpListener>), String> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) || IS_TAKEN.swap(true, Ordering::Relaxed) {
        return Ok((Vec::new(), None));
    }
    let wrong = || {
        format!(
            "LISTEN_FDS: systemd has to pass one to {most} Unix sockets (ListenStream=/PATH), and at most one of TCP"
        )
    };
    let count = number("LISTEN_FDS").filter(|count| (1..=most + 1).contains(count)).ok_or_else(wrong)?;
    let passed = FIRST_PASSED..FIRST_PASSED + count.cast_signed();
    let (mut local, mut hosts) = (Vec::new(), Vec::new());
    for descriptor in passed {
        // SAFETY: only borrowed, and the number of no descriptor is an error of the calls.
        let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let is_listener = sockopt::socket_type(socket) == Ok(SocketType::STREAM)
            && sockopt::socket_acceptconn(socket) == Ok(true);
        match sockopt::socket_domain(socket) {
            Ok(AddressFamily::UNIX) if is_listener => local.push(descriptor),
            Ok(AddressFamily::INET | AddressFamily::INET6) if is_listener => hosts.push(descriptor),
            _ => return Err(wrong()),
        }
    }
    if local.is_empty() || local.len() > most as usize || hosts.len() > 1 {
        return Err(wrong());
    }
    // SAFETY: open sockets, and nothing else uses them: another call returns above.
    let local = local.into_iter().map(|descriptor| unsafe { UnixListener::from_raw_fd(descriptor) });
    // SAFETY: the same.
    let host = hosts.first().map(|descriptor| unsafe { TcpListener::from_raw_fd(*descriptor) });
    Ok((local.collect(), host))
}
