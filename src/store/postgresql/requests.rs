//! Runs requests of the client library, together with the connection that they need.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::failure::Outcome;
use crate::sync::lock;

/// The number of looks at the socket in a call that does not wait. A socket on the same host often
/// answers in between.
const LOOKS: usize = 4;

/// The part of the time between two looks that counts as time in which the server was silent.
const GAP: Duration = Duration::from_millis(50);

/// Reads and writes the socket of a connection, until the server closes it.
pub(super) type Wire = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

/// A future of the client library.
pub(super) type Pending<T> = Pin<Box<dyn Future<Output = Outcome<T>> + Send>>;

/// Waits for `work`, and meanwhile reads and writes the socket.
pub(super) async fn drive<T>(wire: &mut Option<Wire>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        poll_wire(wire, context);
        work.as_mut().poll(context)
    })
    .await
}

/// Returns the result of `pending` if the socket has it. Does not wait for the server.
pub(super) async fn look<T>(wire: &mut Option<Wire>, pending: &mut Pending<T>) -> Option<Outcome<T>> {
    for _ in 0..LOOKS {
        let polled = poll_fn(|context| {
            poll_wire(wire, context);
            Poll::Ready(pending.as_mut().poll(context))
        });
        if let Poll::Ready(outcome) = polled.await {
            return Some(outcome);
        }
        // The runtime looks at the socket.
        tokio::task::yield_now().await;
    }
    None
}

/// The time in which no call looked at a connection that is being opened step by step.
pub(super) struct Unwatched {
    last: Mutex<Instant>,
    total: Mutex<Duration>,
}

impl Unwatched {
    pub(super) fn new() -> Self {
        Self { last: Mutex::new(Instant::now()), total: Mutex::default() }
    }

    /// Records that a caller looks now.
    pub(super) fn look(&self) {
        let gap = std::mem::replace(&mut *lock(&self.last), Instant::now()).elapsed();
        *lock(&self.total) += gap.saturating_sub(GAP);
    }

    /// Waits for `work`, at most for this time, in which the time without a look does not count. So
    /// the server gets its time also from a process that looks rarely.
    pub(super) async fn limit<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (began, before) = (Instant::now(), *lock(&self.total));
        let mut work = pin!(work);
        loop {
            let allowed = limit + (*lock(&self.total) - before);
            let left = allowed.saturating_sub(began.elapsed());
            if let Ok(done) = timeout(left, work.as_mut()).await {
                return Some(done);
            }
            if began.elapsed() >= limit + (*lock(&self.total) - before) {
                return None;
            }
        }
    }
}

/// Reads what the server has sent without a question, such as the end of the connection.
pub(super) async fn listen(wire: &mut Option<Wire>) {
    for _ in 0..2 {
        poll_fn(|context| {
            poll_wire(wire, context);
            Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
}

/// Reads and writes the socket. Closes it if the server has closed it, so that all requests fail.
fn poll_wire(wire: &mut Option<Wire>, context: &mut Context<'_>) {
    if wire.as_mut().is_some_and(|wire| wire.as_mut().poll(context).is_ready()) {
        *wire = None;
    }
}
