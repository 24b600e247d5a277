//! The part of [`Operation`] for the message-based functions. An `Init` function such as
//! `C_MessageSignInit` starts an operation. The operation then processes any number of messages,
//! until a `Final` function ends it. Each message has a single part or several parts. The
//! specification calls the operation a process, and each message an operation.

use super::{Absorb, Engine, Operation, Phase, Stage};
use crate::error::{Error, Result};

impl<E: Absorb> Operation<E> {
    /// Processes a part that is not the last. The message has no output before its end.
    pub fn message_update(&mut self, data: &[u8]) -> Result<()> {
        self.message_engine(Phase::Continue)?;
        let outcome = self.absorb(data);
        self.after_message_part(outcome)
    }
}

impl<E: Engine> Operation<E> {
    /// Returns the engine for a call that begins or continues a message.
    pub(crate) fn message_engine(&mut self, phase: Phase) -> Result<&mut E> {
        match (self.stage, phase) {
            (Stage::Ready, Phase::Begin) | (Stage::Parts, Phase::Continue) => self.engine(),
            // PKCS#11 3.2, C_SignMessage: it "cannot be called in the middle of a multi-part
            // message signing operation".
            (Stage::Parts, Phase::Begin) | (Stage::PendingSingle | Stage::PendingMultiple, _) => {
                Err(Error::OperationActive)
            }
            (Stage::Ready, Phase::Continue) | (Stage::Idle, _) => Err(Error::OperationNotInitialized),
            // The operation does not end, so the user can still log in.
            (Stage::Locked, _) => Err(Error::UserNotLoggedIn),
        }
    }

    /// Begins a message in several parts.
    pub fn message_start(&mut self) -> Result<()> {
        self.message_engine(Phase::Begin)?;
        self.stage = Stage::Parts;
        Ok(())
    }

    /// Continues the message after a part that is not the last. An error ends the message, except
    /// `BufferTooSmall`.
    pub(in crate::session) fn after_message_part<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if !matches!(outcome, Ok(_) | Err(Error::BufferTooSmall { .. })) {
            self.message_cancel();
        }
        outcome
    }

    /// Ends the message after its last or only part, whether the call succeeds or fails, unless the
    /// buffer is too small.
    pub(in crate::session) fn message_finish<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match &outcome {
            Err(Error::BufferTooSmall { .. }) => return outcome,
            Err(_) => self.engine()?.forget(),
            Ok(_) => {}
        }
        self.end_message();
        self.stage = self.between_messages();
        outcome
    }

    /// Ends the active message in several parts, if there is one. The operation continues.
    pub fn message_cancel(&mut self) {
        if self.stage == Stage::Parts {
            if let Ok(engine) = self.engine() {
                engine.forget();
            }
            self.end_message();
            self.stage = self.between_messages();
        }
    }

    /// Ends the operation. Fails with `OperationActive` while a message in several parts is active:
    /// PKCS#11 3.2 lists CKR_OPERATION_ACTIVE among the return values of C_MessageSignFinal and the
    /// similar functions.
    pub fn message_final(&mut self) -> Result<()> {
        match self.stage {
            Stage::Idle => return Err(Error::OperationNotInitialized),
            Stage::Parts | Stage::PendingSingle | Stage::PendingMultiple => {
                return Err(Error::OperationActive);
            }
            Stage::Ready | Stage::Locked => self.stage = Stage::Idle,
        }
        Ok(())
    }

    /// Returns the state after a message. PKCS#11 3.2, "Private key objects": a key with
    /// `CKA_ALWAYS_AUTHENTICATE` needs a login for each use, and each message is a use.
    fn between_messages(&self) -> Stage {
        if self.needs_pin() { Stage::Locked } else { Stage::Ready }
    }
}
