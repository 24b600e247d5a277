//! Runs requests of the client library, together with the connection that they need.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use super::failure::Outcome;

/// The number of looks at the socket in a call that does not wait. A socket on the same host often
/// answers in between.
const LOOKS: usize = 4;

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
