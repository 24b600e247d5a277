//! An agent of a group.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jeton_agent_wire::split::{Ask, Told};
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::id::{SessionHandle, SlotId};
use jeton_words::token::Token;
use tracing::error;

use crate::once::Taken;
use crate::remote::Remote;

/// How long an agent that failed comes after the others, and is not asked whether it is back.
const PAUSE: Duration = Duration::from_secs(5);
/// `CKF_TOKEN_INITIALIZED`.
const INITIALIZED: u64 = 0x400;

/// Locks a mutex, also after a panic of another thread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Member {
    pub remote: Remote,
    pub address: String,
    /// The label of the token.
    token: Option<String>,
    threads: Threads,
    /// When it failed last.
    failed: Mutex<Option<Instant>>,
}

impl Member {
    pub fn new(address: &str, token: Option<String>, threads: Threads) -> Self {
        let (remote, failed) = (Remote::default(), Mutex::default());
        Self { remote, address: address.to_owned(), token, threads, failed }
    }

    /// Returns whether the agent answers. Starts the application at an agent that was away.
    pub fn is_ready(&self) -> bool {
        let has_paused = lock(&self.failed).is_none_or(|failed| failed.elapsed() > PAUSE);
        let is_ready = self.remote.is_answered()
            || has_paused && !self.remote.is_started() && {
                let parameters = format!("agent = '{}'", self.address);
                self.remote.start(Some(&parameters), self.threads).is_ok()
            };
        if !is_ready && has_paused {
            self.note(Error::DeviceError);
        }
        is_ready
    }

    /// Notes that the agent failed. The log names it.
    pub fn note(&self, error: Error) {
        let before = lock(&self.failed).replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() > PAUSE) {
            error!(agent = self.address, ?error, "an agent of a split key does not do its part");
        }
    }

    /// Returns whether it failed a short time ago, so that others come first.
    pub fn is_doubtful(&self) -> bool {
        lock(&self.failed).is_some_and(|failed| failed.elapsed() < PAUSE)
    }

    /// Returns the slot of the token: the one with the label, or the only one.
    pub fn slot(&self) -> Result<SlotId> {
        let mut found = None;
        for slot in self.remote.slots()?.0 {
            let info = self.remote.token(slot)?;
            let label = String::from_utf8_lossy(&info.label);
            let fits = self.token.as_deref().is_none_or(|wanted| wanted == label.trim_end());
            if info.flags & INITIALIZED == 0 || !fits {
                continue;
            }
            if found.replace(slot).is_some() {
                error!(agent = self.address, "several tokens: [split] token names none of them");
                return Err(Error::TokenNotRecognized);
            }
        }
        found.ok_or_else(|| {
            error!(agent = self.address, token = self.token, "no such token");
            Error::TokenNotRecognized
        })
    }

    /// Asks the agent.
    pub fn ask<T>(
        &self,
        session: SessionHandle,
        ask: Ask<'_>,
        end: Instant,
        take: impl FnOnce(Told<'_>) -> Taken<T>,
    ) -> Result<T> {
        self.remote.ask(session, ask, end, take)
    }
}
