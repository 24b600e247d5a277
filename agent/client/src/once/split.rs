//! Requests of split keys. They are sent once: another agent goes on in place of one that does not
//! answer.

use std::sync::atomic::Ordering;
use std::time::Instant;

use jeton_agent_wire::split::{Ask, Told};
use jeton_agent_wire::{Reply, Request};
use jeton_words::error::{Error, Result};
use jeton_words::id::SessionHandle;

use super::{Application, Taken};
use crate::transport::ATTEMPT;

impl Application {
    /// Returns whether the agent answers. It does not wait for one that has ended.
    pub fn is_answered(&self) -> bool {
        self.pool.is_open() && self.pool.take_now(ATTEMPT).is_ok()
    }

    /// Asks the agent in a session, and waits until the time `end`.
    pub fn ask<T>(
        &self,
        handle: SessionHandle,
        ask: Ask<'_>,
        end: Instant,
        take: impl FnOnce(Told<'_>) -> Taken<T>,
    ) -> Result<T> {
        let held = self.find(handle)?;
        let deadline = self.pool.deadline();
        let mut session = held.session.lock_until(end).ok_or(Error::DeviceError)?;
        let mut linked = self.pool.take_now(ATTEMPT)?;
        if held.epoch.load(Ordering::Acquire) != linked.epoch {
            match self.reopen(&held, &mut session, &mut linked, deadline) {
                Ok(()) => {}
                Err(Some(_)) => {
                    linked.lost();
                    return Err(Error::DeviceError);
                }
                Err(None) => {
                    self.forget(&held);
                    return Err(Error::SessionHandleInvalid);
                }
            }
        }
        let request = Request::Split { session: session.handle, ask };
        let answer = match linked.connection.ask(&request, end) {
            Ok(Reply::Split(Ok(told))) => take(told).map_err(|_| None),
            Ok(Reply::Split(Err(error))) => Err(Some(error)),
            _ => Err(None),
        };
        answer.map_err(|refused| {
            refused.unwrap_or_else(|| {
                linked.lost();
                Error::DeviceError
            })
        })
    }
}
