//! What a worker asks the front, which counts for all workers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use jeton::error::{Error, Result};
use tracing::error;

use crate::link::{Answer, Link, Outcome, Question, ToFront};
use crate::lock;

/// How often a call that waits looks whether its peer is gone.
const LOOK: Duration = Duration::from_millis(250);

/// Where the messages of a worker go.
pub trait Front: Send + Sync {
    /// Sends a message. Returns whether an answer can come.
    fn send(&self, message: ToFront) -> bool;
}

impl Front for Arc<Link> {
    fn send(&self, message: ToFront) -> bool {
        Link::send(self, &message, None).is_ok()
    }
}

/// The questions of a worker that have no answer.
pub struct Office {
    front: Box<dyn Front>,
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Answer>>>,
}

/// What the front granted, until the value is dropped.
pub(crate) struct Grant<'a> {
    office: &'a Office,
    question: u64,
    outcome: Outcome,
    /// What it says.
    pub(crate) answer: Answer,
}

impl Office {
    pub(crate) fn new(front: impl Front + 'static) -> Self {
        Self { front: Box::new(front), last: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// Tells the front something.
    pub fn tell(&self, message: ToFront) {
        // Without a front, this process ends.
        self.front.send(message);
    }

    /// Passes on an answer.
    pub fn answer(&self, question: u64, answer: Answer) {
        if let Some(waiting) = lock(&self.waiting).remove(&question) {
            // No call waits if the peer is gone. The front learns it.
            let _ = waiting.send(answer);
        }
    }

    /// Asks, and waits for the answer. `is_gone` says whether the peer that waits is gone; then the
    /// call fails.
    pub(crate) fn ask(&self, question: Question, is_gone: impl Fn() -> bool) -> Result<Grant<'_>> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = mpsc::channel();
        lock(&self.waiting).insert(number, sender);
        let mut grant =
            Grant { office: self, question: number, outcome: Outcome::Neither, answer: Answer::Refused };
        if !self.front.send(ToFront::Ask(number, question)) {
            error!("the front has ended");
            return Err(Error::DeviceError);
        }
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(answer) => {
                    grant.answer = answer;
                    return Ok(grant);
                }
                Err(mpsc::RecvTimeoutError::Timeout) if !is_gone() => {}
                Err(_) => return Err(Error::DeviceError),
            }
        }
    }
}

impl Grant<'_> {
    /// Gives it back with the outcome of a try.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        lock(&self.office.waiting).remove(&self.question);
        self.office.tell(ToFront::Done(self.question, self.outcome));
    }
}
