//! What a server sends without a question.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Connection};

use super::wire::Wire;

/// The function of the server that waits for a standby. Its name is not translated, as the text of
/// a warning is.
const WAIT_FOR_STANDBY: &str = "SyncRepWaitForLSN";

/// What the server of a connection has sent.
#[derive(Default)]
pub(super) struct Unasked {
    /// Whether the server ended the wait of a commit for its standby.
    has_ended_wait: AtomicBool,
}

impl Unasked {
    /// Returns whether the server ended the wait of a commit for its standby since the last call.
    pub(super) fn take_ended_wait(&self) -> bool {
        self.has_ended_wait.swap(false, Ordering::Relaxed)
    }

    fn note(&self, message: AsyncMessage) {
        if let AsyncMessage::Notice(notice) = message
            && notice.routine() == Some(WAIT_FOR_STANDBY)
        {
            self.has_ended_wait.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns the connection. It notes what the server sends without a question.
pub(super) fn wire<S, T>(mut connection: Connection<S, T>, unasked: &Arc<Unasked>) -> Wire
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let unasked = Arc::clone(unasked);
    Box::pin(poll_fn(move |context| {
        loop {
            match ready!(connection.poll_message(context)) {
                Some(Ok(message)) => unasked.note(message),
                Some(Err(reason)) => return Poll::Ready(Err(reason)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }))
}
