//! What a server sends without a question.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Connection};

use super::requests::Wire;
use crate::sync::lock;

/// The function of the server that waits for a standby. Its name is not translated, as the text of
/// a warning is.
const WAIT_FOR_STANDBY: &str = "SyncRepWaitForLSN";

/// The largest number of tokens of which a connection remembers that they were announced.
const MOST_TOKENS: usize = 1024;

/// What the server of a connection has sent.
#[derive(Default)]
pub(super) struct Unasked {
    /// Whether the server ended the wait of a commit for its standby.
    has_ended_wait: AtomicBool,
    /// The tokens that other connections have announced a commit of, by their serial numbers.
    announced: Mutex<BTreeSet<String>>,
    /// The process of the server that works for this connection.
    process: AtomicI32,
    /// Whether the server was asked to announce commits.
    listens: AtomicBool,
}

impl Unasked {
    pub(super) fn set_process(&self, process: i32) {
        self.process.store(process, Ordering::Relaxed);
    }

    /// Returns `true` once, at the first look for announcements. A connection that only makes
    /// changes does not listen: each announcement wakes all that do.
    pub(super) fn begins_to_listen(&self) -> bool {
        !self.listens.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the server ended the wait of a commit for its standby since the last call.
    pub(super) fn take_ended_wait(&self) -> bool {
        self.has_ended_wait.swap(false, Ordering::Relaxed)
    }

    /// Returns whether a commit of this token was announced since the last call.
    pub(super) fn take_announced(&self, serial: &str) -> bool {
        lock(&self.announced).remove(serial)
    }

    fn note(&self, message: AsyncMessage) {
        match message {
            AsyncMessage::Notice(notice) if notice.routine() == Some(WAIT_FOR_STANDBY) => {
                self.has_ended_wait.store(true, Ordering::Relaxed);
            }
            AsyncMessage::Notification(notification)
                if notification.process_id() != self.process.load(Ordering::Relaxed) =>
            {
                let mut announced = lock(&self.announced);
                // The question of once a second finds the commits of the others.
                if announced.len() < MOST_TOKENS {
                    announced.insert(notification.payload().to_owned());
                }
            }
            _ => {}
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
