//! Waits for a socket within its limit of time.

use std::io;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};

/// Waits until a socket is ready, but no longer than the limit of time that it has for this, from
/// `start`: a signal does not start the time again, nor do bytes that are no part of a message yet.
/// Then fails with `WouldBlock`, like the socket.
pub(crate) fn wait(socket: impl AsFd, events: PollFlags, time: Timeout, start: Instant) -> io::Result<()> {
    let socket = socket.as_fd();
    let limit = socket_timeout(socket, time)?;
    loop {
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().cast_signed().into(),
        });
        match poll(&mut [PollFd::new(&socket, events)], left.as_ref()) {
            Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
