//! Messages on a stream: a length, and bytes.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::wait::{Patience, Stream};
use crate::{HEADER, length};

/// Bytes that are read at once, and the first size of both buffers. Messages with PINs and keys are
/// shorter, so that a buffer does not move and leave a copy of them.
const READ: usize = 8 * 1024;
/// Buffers that are longer lose their memory after a message.
const KEPT: usize = 1 << 20;

/// A stream with its buffers.
pub struct Channel<S> {
    stream: S,
    patience: Patience,
    /// The message to send.
    pub frame: Vec<u8>,
    /// The message that was received, with its header.
    received: Vec<u8>,
    /// Its length.
    len: usize,
}

impl<S: Stream> Channel<S> {
    /// Returns a channel. `most` is the number of threads of this process that may ask for messages
    /// without sleeping.
    pub fn new(stream: S, most: usize) -> Self {
        let patience = Patience::new(most);
        Self { stream, patience, frame: Vec::with_capacity(READ), received: vec![0; READ], len: 0 }
    }

    /// Returns the stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends the frame.
    pub fn send(&mut self) -> io::Result<()> {
        self.stream.send(&self.frame)
    }

    /// Receives a message of at most `limit` bytes. Fails with `UnexpectedEof` if the peer closed
    /// the stream, and with `InvalidData` if it sent something else.
    pub fn receive(&mut self, limit: usize) -> io::Result<()> {
        let mut got = 0;
        loop {
            match self.patience.read(&mut self.stream, &mut self.received[got..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                some => got += some,
            }
            let Some(header) = self.received[..got].first_chunk() else { continue };
            self.len = HEADER + length(*header, limit).map_err(|_| io::ErrorKind::InvalidData)?;
            if got > self.len {
                // Neither side sends a message before the answer to the last one.
                return Err(io::ErrorKind::InvalidData.into());
            }
            if got == self.len {
                return Ok(());
            }
            // A peer that only says that its message is long gets no memory for it.
            if self.received.len() < self.len && self.received.len() == got {
                self.received.resize(self.len.min(2 * got), 0);
            }
        }
    }

    /// Returns the message that was received, and the frame for the answer.
    pub fn parts(&mut self) -> (&[u8], &mut Vec<u8>) {
        (&self.received[HEADER..self.len.max(HEADER)], &mut self.frame)
    }

    /// Wipes both messages, which may have a PIN or a key.
    pub fn wipe(&mut self) {
        wipe(&mut self.frame);
        wipe(&mut self.received[..self.len]);
        if self.received.len() > KEPT {
            self.received = vec![0; READ];
        }
        if self.frame.capacity() > KEPT {
            self.frame = Vec::with_capacity(READ);
        }
        self.len = 0;
    }
}

impl<S> Drop for Channel<S> {
    fn drop(&mut self) {
        wipe(&mut self.frame);
        wipe(&mut self.received);
    }
}

/// Wipes bytes.
pub fn wipe(bytes: &mut [u8]) {
    // SAFETY: the slice is writable.
    unsafe { libc::explicit_bzero(bytes.as_mut_ptr().cast(), bytes.len()) };
}

impl Stream for UnixStream {
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self, buffer, libc::MSG_DONTWAIT)
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // SAFETY: the bytes are readable.
            let sent = unsafe {
                libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
            };
            match usize::try_from(sent) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }
}

/// Returns whether the peer has closed the stream, or sent something without a request.
pub fn is_dead(stream: &UnixStream) -> bool {
    let peeked = receive(stream, &mut [0], libc::MSG_DONTWAIT | libc::MSG_PEEK);
    !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn receive(stream: &UnixStream, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its length.
    let got = unsafe { libc::recv(stream.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}
