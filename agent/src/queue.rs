//! The records of a worker on their way to the process that writes the audit log: packets in the
//! buffer of a socket. They stay there until they are written, so that the next such process finds
//! what the last one had not written.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use jeton_agent_system as system;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionread, retry_on_intr};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

/// The end of the front, for each process that writes.
pub struct Queue(OwnedFd);

impl Queue {
    /// Returns a queue, and the end of the worker.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        system::note_times(&own)?;
        system::take_no_descriptors(&own);
        Ok((Self(own), other))
    }

    /// Returns another descriptor of this end.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Returns whether the worker has closed its end, and nothing waits that it has sent.
    pub fn is_drained(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        let is_polled = poll(&mut polled, Some(&Timespec::default())).is_ok();
        is_polled && polled[0].revents().contains(PollFlags::HUP) && ioctl_fionread(&self.0) == Ok(0)
    }
}

/// The end of the process that writes.
pub struct Reader {
    socket: OwnedFd,
    /// The packets at the head of the queue that it has seen.
    seen: usize,
}

impl Reader {
    /// Begins with the first record in the queue.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        system::look_from_first(&socket)?;
        Ok(Self { socket, seen: 0 })
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads the next packet, and leaves it in the queue. Returns its bytes, `None` if it is too
    /// long for the buffer, and the time when it was sent.
    pub fn look<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<(Option<&'a [u8]>, Option<Duration>)> {
        let (len, time) = system::look(&self.socket, buffer)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut left = len;
        while left > buffer.len() {
            (left, _) = system::look(&self.socket, buffer)?;
        }
        self.seen += 1;
        Ok((buffer.get(..len), time))
    }

    /// Takes what it has seen out of the queue.
    pub fn remove_seen(&mut self) {
        for _ in 0..std::mem::take(&mut self.seen) {
            // They are there.
            let _ = retry_on_intr(|| recv(&self.socket, &mut [0; 1][..], RecvFlags::DONTWAIT));
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{SendFlags, send};

    use super::*;

    /// Returns the packets that a reader sees, by their first bytes, which are their lengths.
    fn seen(reader: &mut Reader) -> Vec<(u8, Option<usize>)> {
        let mut buffer = [0; 100];
        let next = || {
            let (bytes, time) = reader.look(&mut buffer).ok()?;
            assert!(time.is_some());
            let len = bytes.map(<[u8]>::len);
            Some((buffer[0], len))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn what_was_not_taken_out_is_there_for_the_next_reader() {
        let (queue, worker) = Queue::pair().expect("a queue");
        let reader = || Reader::new(queue.try_clone().expect("a descriptor")).expect("a reader");
        let put = |len: u8| {
            send(&worker, &vec![len; len.into()], SendFlags::NOSIGNAL).expect("a packet");
        };
        let mut first = reader();
        [1, 50, 250, 2].into_iter().for_each(put);
        let all = [(1, Some(1)), (50, Some(50)), (250, None), (2, Some(2))];
        assert_eq!(seen(&mut first), all);
        drop(first);
        let mut second = reader();
        assert_eq!(seen(&mut second), all);
        put(3);
        second.remove_seen();
        assert_eq!(seen(&mut second), [(3, Some(3))]);
        put(4);
        drop(worker);
        assert!(!queue.is_drained());
        let mut third = reader();
        assert_eq!(seen(&mut third), [(3, Some(3)), (4, Some(4))]);
        third.remove_seen();
        assert!(queue.is_drained());
        let ended = third.look(&mut [0; 100]).map(drop);
        assert_eq!(ended.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
    }
}
