//! Waits for a message: first by asking again and again, then by sleeping.
//!
//! An idle processor of a virtual machine takes tens of microseconds to wake, several times as long
//! as a signature. So a thread asks for the bytes for as long as they took lately, but only if that
//! is short, and only if fewer threads than processors do so.

use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::Timeout;

use crate::socket_timeout::wait;
use crate::system::Descriptor;

/// A wait that is expected to be longer sleeps at once.
const WORTH: Duration = Duration::from_micros(150);
/// The shortest time for which a thread asks, if it asks at all.
const LEAST: Duration = Duration::from_micros(20);

/// The threads of this process that ask.
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// A stream of bytes that can be asked without sleeping.
pub trait Stream: Read + Send {
    /// Reads like [`Read::read`], but fails with [`io::ErrorKind::WouldBlock`] if there are no
    /// bytes.
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends all bytes. A closed connection is an error and raises no signal. Calls `check` before
    /// each part that the socket takes, and ends with its error.
    fn send(&mut self, bytes: &[u8], check: &dyn Fn() -> io::Result<()>) -> io::Result<()>;

    /// Returns the descriptor of the socket.
    fn descriptor(&self) -> Descriptor<'_>;
}

/// How long messages took lately.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    usual: Duration,
    /// The number of threads of this process that may ask.
    most: usize,
}

impl Patience {
    /// Returns the patience of a new connection. `most` is the number of threads of this process
    /// that may ask at the same time.
    pub fn new(most: usize) -> Self {
        Self { usual: LEAST, most }
    }

    /// Reads some bytes. Returns 0 at the end.
    pub fn read(&mut self, source: &mut (impl Stream + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
        let start = Instant::now();
        let outcome = match self.ask(source, buffer, start) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(source, buffer, start),
            outcome => outcome,
        };
        // A mean in which the last waits count most.
        self.usual = (self.usual * 3 + start.elapsed().min(8 * WORTH)) / 4;
        outcome
    }

    fn ask(
        &self,
        source: &mut (impl Stream + ?Sized),
        buffer: &mut [u8],
        start: Instant,
    ) -> io::Result<usize> {
        let first = source.read_now(buffer);
        if self.usual > WORTH || !matches!(&first, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            return first;
        }
        if ASKING.fetch_add(1, Ordering::Relaxed) >= self.most {
            ASKING.fetch_sub(1, Ordering::Relaxed);
            return first;
        }
        let patience = LEAST.max(2 * self.usual);
        let outcome = loop {
            // Another thread may need this processor to answer.
            thread::yield_now();
            let outcome = source.read_now(buffer);
            let none = matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            if !none || start.elapsed() > patience {
                break outcome;
            }
        };
        ASKING.fetch_sub(1, Ordering::Relaxed);
        outcome
    }
}

fn sleep(source: &mut (impl Stream + ?Sized), buffer: &mut [u8], start: Instant) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                wait(source.descriptor(), PollFlags::IN, Timeout::Recv, start)?;
            }
            outcome => return outcome,
        }
    }
}
