//! The part of [`Operation`] for the message-based functions. An `Init` function such as
//! `C_MessageSignInit` starts an operation. The operation then processes any number of messages,
//! until a `Final` function ends it. Each message has a single part or several parts. The
//! specification calls the operation a process, and each message an operation.

use super::{Absorb, Engine, Operation, Stage};
use crate::error::{Error, Result};

/// Whether a function begins a message or continues one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The function begins a message.
    Begin,
    /// The function continues the active message.
    Continue,
}

impl<E: Absorb> Operation<E> {
    /// Processes a part that is not the last. The message has no output before its end.
    pub fn message_update(&mut self, data: &[u8]) -> Result<()> {
        self.message_part(|engine| engine.update(data))
    }
}

impl<E: Engine> Operation<E> {
    /// Begins a message in several parts, to sign it or to verify its signature.
    pub fn message_start(&mut self) -> Result<()> {
        self.message_begin(|_| Ok(()))
    }

    /// Processes a message in a single part.
    pub(crate) fn message_once<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        match self.stage {
            Stage::Ready => self.message_over(work),
            // PKCS#11 3.2, C_SignMessage: it "cannot be called in the middle of a multi-part
            // message signing operation".
            Stage::Parts => Err(Error::OperationActive),
            stage => Err(absent(stage)),
        }
    }

    /// Begins a message in several parts.
    pub(crate) fn message_begin(&mut self, work: impl FnOnce(&mut E) -> Result<()>) -> Result<()> {
        match self.stage {
            Stage::Ready => work(self.engine()?)?,
            Stage::Parts => return Err(Error::OperationActive),
            stage => return Err(absent(stage)),
        }
        self.stage = Stage::Parts;
        Ok(())
    }

    /// Processes a part that is not the last. An error ends the message, except `BufferTooSmall`.
    pub(crate) fn message_part<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        self.in_message()?;
        let outcome = work(self.engine()?);
        if !matches!(outcome, Ok(_) | Err(Error::BufferTooSmall { .. })) {
            self.message_cancel();
        }
        outcome
    }

    /// Processes the last part. The message ends, whether the call succeeds or fails, unless the
    /// buffer is too small.
    pub(crate) fn message_end<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        self.in_message()?;
        self.message_over(work)
    }

    /// Returns the length of the output, for a caller who asks only for this length.
    pub(in crate::session) fn message_length(
        &mut self,
        phase: Phase,
        len: impl FnOnce(&E) -> usize,
    ) -> Result<usize> {
        match self.stage {
            Stage::Ready if phase == Phase::Begin => {}
            Stage::Parts if phase == Phase::Begin => return Err(Error::OperationActive),
            _ => self.in_message()?,
        }
        Ok(len(self.engine()?))
    }

    /// Ends the active message in several parts, if there is one. The operation continues.
    pub fn message_cancel(&mut self) {
        if self.stage == Stage::Parts {
            if let Ok(engine) = self.engine() {
                engine.forget();
            }
            self.stage = self.between_messages();
        }
    }

    /// Ends the operation. Fails with `OperationActive` while a message in several parts is active:
    /// PKCS#11 3.2 lists CKR_OPERATION_ACTIVE among the return values of C_MessageSignFinal and the
    /// similar functions.
    pub fn message_final(&mut self) -> Result<()> {
        match self.stage {
            Stage::Idle => return Err(Error::OperationNotInitialized),
            Stage::Parts => return Err(Error::OperationActive),
            Stage::Ready | Stage::Locked => self.stage = Stage::Idle,
        }
        Ok(())
    }

    fn in_message(&self) -> Result<()> {
        match self.stage {
            Stage::Parts => Ok(()),
            Stage::Ready => Err(Error::OperationNotInitialized),
            stage => Err(absent(stage)),
        }
    }

    fn message_over<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        let outcome = work(self.engine()?);
        match &outcome {
            Err(Error::BufferTooSmall { .. }) => return outcome,
            Err(_) => self.engine()?.forget(),
            Ok(_) => {}
        }
        self.stage = self.between_messages();
        outcome
    }

    /// Returns the state after a message. PKCS#11 3.2, "Private key objects": a key with
    /// `CKA_ALWAYS_AUTHENTICATE` needs a login for each use, and each message is a use.
    fn between_messages(&self) -> Stage {
        if self.needs_pin() { Stage::Locked } else { Stage::Ready }
    }
}

/// Returns the error for a call when the operation is not active or waits for a login. A waiting
/// operation does not end, so the user can still log in.
fn absent(stage: Stage) -> Error {
    if stage == Stage::Locked { Error::UserNotLoggedIn } else { Error::OperationNotInitialized }
}
