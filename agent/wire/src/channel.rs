//! Messages on a stream: a length, and bytes.

use std::io;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::spin::{Patience, Stream};
use crate::system::{Descriptor, Local, NOW, PEEK, descriptor, receive, transmit};
use crate::{HEADER, length};

/// Writes zeros. The optimiser cannot remove them, although nothing reads them.
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// Bytes that are read at once, and the first size of both buffers. Messages with PINs and keys are
/// shorter, so that a buffer does not move and leave a copy of them.
const READ: usize = 8 * 1024;
/// The longest buffer that a connection always keeps between two messages.
pub const KEPT: usize = 64 * 1024;
/// Longer buffers stay until they were not needed for this time.
pub const STAY: Duration = Duration::from_secs(1);
/// A message takes at most a second for this number of bytes, and [`Channel::whole`].
pub const PACE: usize = 1 << 16;

/// A stream with its buffers.
pub struct Channel {
    stream: Box<dyn Stream>,
    patience: Patience,
    /// When a long buffer was last needed.
    needed: Instant,
    /// The message to send.
    pub frame: Vec<u8>,
    /// The message that was received, with its header.
    received: Vec<u8>,
    /// Its length; 0 before it is whole.
    len: usize,
    /// How long a message may take from its first byte to its last one, if it is short. A peer that
    /// sends or takes one byte after the other is no better than a silent one.
    pub whole: Duration,
    /// When a message ends, whatever its length.
    pub end: Option<Instant>,
}

impl Channel {
    /// Returns a channel. `most` is the number of threads of this process that may ask for messages
    /// without sleeping.
    pub fn new(stream: impl Stream + 'static, most: usize) -> Self {
        let patience = Patience::new(most);
        let (frame, received) = (Vec::with_capacity(READ), vec![0; READ]);
        let (whole, needed) = (Duration::from_secs(20), Instant::now());
        Self { stream: Box::new(stream), patience, needed, frame, received, len: 0, whole, end: None }
    }

    /// Returns whether the peer has closed the stream, or sent something without a request.
    pub fn is_dead(&self) -> bool {
        let peeked = receive(self.stream.descriptor(), &mut [0], NOW | PEEK);
        !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sets how long the socket waits until it receives something, and until it sends something.
    pub fn limit(&self, receive: Duration, send: Duration) -> io::Result<()> {
        set_socket_timeout(self.stream.descriptor(), Timeout::Recv, Some(receive))?;
        Ok(set_socket_timeout(self.stream.descriptor(), Timeout::Send, Some(send))?)
    }

    /// Sends the frame.
    pub fn send(&mut self) -> io::Result<()> {
        let (start, limits) = (Instant::now(), (self.whole, self.end));
        for (index, part) in self.frame.chunks(PACE).enumerate() {
            self.stream.send(part, &|| in_time(start, limits, index * PACE))?;
        }
        Ok(())
    }

    /// Receives a message of at most `limit` bytes. Fails with `UnexpectedEof` if the peer closed
    /// the stream, and with `InvalidData` if it sent something else. `admit` gets the length of a
    /// message that needs a longer buffer than there is, and says whether it may have one. No long
    /// buffer is left when it is called. If the socket has a limit of time, fails with `WouldBlock`
    /// before the first byte, and with `TimedOut` after it.
    pub fn receive(&mut self, limit: usize, mut admit: impl FnMut(usize) -> bool) -> io::Result<()> {
        let (mut got, mut is_admitted, mut start) = (0, false, None);
        let limits = (self.whole, self.end);
        wipe(&mut self.received[..std::mem::take(&mut self.len)]);
        loop {
            // No more than this stays if the message needs another buffer.
            let end = if got < HEADER { self.received.len().min(KEPT) } else { self.received.len() };
            match self.patience.read(&mut *self.stream, &mut self.received[got..end]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(some) => got += some,
                // The socket has a limit for the time without progress.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && got > 0 => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
            let Some(header) = self.received[..got].first_chunk() else {
                in_time(*start.get_or_insert_with(Instant::now), limits, got)?;
                continue;
            };
            let len = HEADER + length(*header, limit).map_err(|_| io::ErrorKind::InvalidData)?;
            if got > len {
                // Neither side sends a message before the answer to the last one.
                return Err(io::ErrorKind::InvalidData.into());
            }
            if got == len {
                self.len = len;
                return Ok(());
            }
            in_time(*start.get_or_insert_with(Instant::now), limits, got)?;
            if len > KEPT.max(self.received.len()) && !is_admitted {
                self.shrink_to(got);
                is_admitted = admit(len);
                if !is_admitted {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
            }
            // A peer that only says that its message is long gets no memory for it.
            if self.received.len() < len && self.received.len() == got {
                let more = len.min(2 * got) - got;
                self.received.try_reserve_exact(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
                self.received.resize(got + more, 0);
            }
        }
    }

    /// Returns the message that was received, and the frame for the answer.
    pub fn parts(&mut self) -> (&[u8], &mut Vec<u8>) {
        (&self.received[HEADER..self.len.max(HEADER)], &mut self.frame)
    }

    /// Wipes both messages, which may have a PIN or a key. Then drops long buffers that are not
    /// needed any more.
    pub fn wipe(&mut self) {
        wipe(&mut self.frame);
        wipe(&mut self.received[..self.len]);
        if self.frame.len().max(self.len) > KEPT {
            self.needed = Instant::now();
        }
        self.frame.clear();
        self.len = 0;
        self.rest();
    }

    /// Drops long buffers that are not needed any more.
    pub fn rest(&mut self) {
        if self.long() != 0 && self.needed.elapsed() > STAY {
            self.shrink();
        }
    }

    /// Returns the memory of the buffers if one of them is long; otherwise 0.
    pub fn long(&self) -> usize {
        let sizes = [self.received.len(), self.frame.capacity()];
        if sizes.iter().any(|size| *size > KEPT) { sizes.iter().sum() } else { 0 }
    }

    /// Drops long buffers. Both messages were wiped.
    pub fn shrink(&mut self) {
        self.shrink_to(0);
    }

    /// Drops long buffers, but keeps these first bytes of a message.
    fn shrink_to(&mut self, got: usize) {
        if self.long() != 0 {
            // In a client it still has the request.
            wipe(&mut self.frame);
            self.frame = Vec::with_capacity(READ);
            self.received.truncate(got.max(READ));
            self.received.shrink_to_fit();
        }
    }
}

/// Fails if a message that began at this time had more time than this number of its bytes may take.
fn in_time(start: Instant, (whole, end): (Duration, Option<Instant>), bytes: usize) -> io::Result<()> {
    let now = Instant::now();
    let is_slow = now - start > whole + Duration::from_secs((bytes / PACE) as u64);
    let is_late = is_slow || end.is_some_and(|end| now > end);
    if is_late { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

impl Drop for Channel {
    fn drop(&mut self) {
        wipe(&mut self.frame);
        wipe(&mut self.received);
    }
}

impl Stream for Local {
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(descriptor(self), buffer, NOW)
    }

    fn send(&mut self, mut bytes: &[u8], check: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        while !bytes.is_empty() {
            check()?;
            let sent = transmit(descriptor(self), bytes)?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn descriptor(&self) -> Descriptor<'_> {
        descriptor(self)
    }
}
