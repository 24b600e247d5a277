//! The process, its sockets and the C types of its programs on Unix.

use std::io;
#[cfg(feature = "tls")]
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::ptr::slice_from_raw_parts;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use cryptoki_sys::{CK_MECHANISM, CK_RV, CK_ULONG};
use jeton_agent_wire::Parameter;
use jeton_agent_wire::layout::{Layout, Pointer};
use once_cell::race::OnceBox;
use rustix::io::retry_on_intr;
use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

pub use jeton_agent_wire::layout::ASYNC_VALUE;
pub use jeton_names::initialization;

/// The first address that no process has, as in the C interface.
pub const END_OF_ADDRESSES: u64 = if cfg!(target_arch = "aarch64") { 1 << 48 } else { 1 << 47 };

/// The configuration file.
pub fn configuration() -> PathBuf {
    "/etc/jeton/jeton.toml".into()
}

/// Returns whether the program has rights that the user who starts it lacks.
pub fn is_privileged() -> bool {
    // SAFETY: getauxval(3) takes a number and has no other precondition.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Calls a function in each child of a fork. It is async-signal-safe.
pub fn at_fork(forget: unsafe extern "C" fn()) {
    // SAFETY: a function of this library, which is never unmapped (build.rs: nodelete).
    unsafe { libc::pthread_atfork(None, None, Some(forget)) };
}

/// Connects to an agent of this host. The limits are those of [`connect`].
pub fn connect_unix(path: &Path, limits: [Duration; 3]) -> io::Result<(UnixStream, Listed)> {
    let (socket, listed) = connect(AddressFamily::UNIX, &SocketAddrUnix::new(path)?, limits)?;
    Ok((socket.into(), listed))
}

/// Connects to an agent of another host. The limits are those of [`connect`].
#[cfg(feature = "tls")]
pub fn connect_tcp(address: &SocketAddr, limits: [Duration; 3]) -> io::Result<(TcpStream, Listed)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (stream, listed) = connect(family, address, limits)?;
    // The connection fails when the host has vanished.
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepintvl(&stream, limits[0])?;
    sockopt::set_tcp_user_timeout(&stream, 10_000)?;
    Ok((stream.into(), listed))
}

/// Connects to a socket. The limits are for the connection, to receive and to send. A forked child
/// closes the descriptor, also while this function or a TLS handshake waits.
fn connect(
    family: AddressFamily,
    address: &impl SocketAddrArg,
    [brief, silence, stuck]: [Duration; 3],
) -> io::Result<(OwnedFd, Listed)> {
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let listed = OPEN.put(socket.as_raw_fd());
    // Does not wait for long if the queue is full or the host does not answer.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(brief))?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(silence))?;
    retry_on_intr(|| net::connect(&socket, address))?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(stuck))?;
    Ok((socket, listed))
}

/// The descriptors of the connections, for a forked child, which must close them without a lock.
struct Places {
    descriptors: [AtomicI32; 256],
    /// Further places. They are never freed.
    more: OnceBox<Self>,
}

static OPEN: Places = Places::new();

/// The place of a descriptor in [`OPEN`]. Dropped before the descriptor is closed.
pub struct Listed(&'static AtomicI32);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.store(-1, Ordering::Relaxed);
    }
}

impl Places {
    const fn new() -> Self {
        Self { descriptors: [const { AtomicI32::new(-1) }; 256], more: OnceBox::new() }
    }

    fn put(&'static self, descriptor: RawFd) -> Listed {
        let mut places = self;
        loop {
            let free = |place: &&AtomicI32| {
                place.compare_exchange(-1, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            if let Some(place) = places.descriptors.iter().find(free) {
                return Listed(place);
            }
            places = places.more.get_or_init(|| Box::new(Self::new()));
        }
    }
}

/// Closes the connections of the parent. Called in the child of a fork, so it is async-signal-safe.
pub fn close_all() {
    let mut places = Some(&OPEN);
    while let Some(Places { descriptors, more }) = places {
        for place in descriptors {
            let descriptor = place.swap(-1, Ordering::Relaxed);
            if descriptor >= 0 {
                // SAFETY: a descriptor that this library opened. The child uses no object of the
                // parent.
                unsafe { libc::close(descriptor) };
            }
        }
        places = more.get();
    }
}

/// Returns whether a number can be the code of a function.
pub const fn is_code(_: CK_RV) -> bool {
    true
}

/// Bytes for the application. Its numbers and structs are those of the messages.
pub type Written<'a> = &'a [u8];

/// What an argument keeps for the message.
pub type Kept = ();

/// Returns a number that the application passed.
pub const fn number(given: CK_ULONG) -> CK_ULONG {
    given
}

/// Reads a number of the application.
///
/// # Safety
///
/// Readable.
pub unsafe fn read(from: *const CK_ULONG) -> CK_ULONG {
    // SAFETY: the caller's promise.
    unsafe { from.read_unaligned() }
}

/// Returns numbers for the application.
pub const fn numbers(written: &[u8]) -> Written<'_> {
    written
}

/// Reads a mechanism of the application.
///
/// # Safety
///
/// Readable.
pub unsafe fn mechanism(given: *const CK_MECHANISM) -> CK_MECHANISM {
    // SAFETY: the caller's promise.
    unsafe { given.read_unaligned() }
}

/// Returns the length in messages of a parameter that has this length in the application.
pub const fn parameter_len(_: Parameter, len: u64) -> u64 {
    len
}

/// Returns a parameter without pointers.
///
/// # Safety
///
/// Readable for `len` bytes.
pub unsafe fn plain(_: Parameter, from: *const u8, len: u64, (): &Kept) -> &[u8] {
    // SAFETY: the caller's promise.
    unsafe { &*slice_from_raw_parts(from, len as usize) }
}

/// Copies structs of the application.
///
/// # Safety
///
/// Readable for as many structs as `to` has.
pub unsafe fn copy(_: &Layout, first: *const u8, to: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe { first.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
}

/// Returns the address of a field in one of the application's structs.
///
/// # Safety
///
/// `first` points to more than `index` structs.
pub unsafe fn field(layout: &Layout, first: *mut u8, index: usize, at: usize) -> *mut u8 {
    // SAFETY: inside the structs by the caller's promise.
    unsafe { first.add(index * layout.size + at) }
}

/// Returns the bytes behind a pointer of a struct: `len` of them in messages.
///
/// # Safety
///
/// Readable.
pub unsafe fn bytes<'a>(_: &Pointer, _: &[u8], from: *const u8, len: u64, _: &'a mut Vec<u8>) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { &*slice_from_raw_parts(from, len as usize) }
}

/// Returns the bytes that a function wrote behind a pointer. An attribute had the first type and
/// has the second one. `None` if the application has less room.
pub const fn value<'a>(_: &Pointer, _: [u64; 2], _: u64, written: &'a [u8]) -> Option<Written<'a>> {
    Some(written)
}

/// Returns the length that an attribute's value has in the application.
pub const fn value_len(_: u64, len: u64) -> u64 {
    len
}

/// Returns the length of an attribute's value for the application.
pub const fn length(_: u64, written: &[u8]) -> Written<'_> {
    written
}

/// Returns the parts of a value that a function wrote, and their places.
pub fn parts<'a>(
    place: *mut u8,
    value: &'a [u8],
    _: &[(usize, usize)],
) -> impl Iterator<Item = (*mut u8, Written<'a>)> {
    std::iter::once((place, value))
}
