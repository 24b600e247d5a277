//! The message-based operations as states of [`Operation`]: one that was started goes through any number of messages,
//! each in one part or in several, until it is finished. The specification calls the whole a process, and each message
//! an operation.

use super::{Engine, Operation, Stage};
use crate::error::{Error, Result};

impl<E: Engine> Operation<E> {
    /// A message in one part.
    pub fn message_once<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        match self.stage {
            Stage::Ready => self.message_over(work),
            // PKCS#11 3.2, C_SignMessage: it "cannot be called in the middle of a multi-part message signing operation".
            Stage::Parts => Err(Error::OperationActive),
            stage => Err(absent(stage)),
        }
    }

    /// The beginning of a message in several parts.
    pub fn message_begin(&mut self, work: impl FnOnce(&mut E) -> Result<()>) -> Result<()> {
        match self.stage {
            Stage::Ready => work(self.engine()?)?,
            Stage::Parts => return Err(Error::OperationActive),
            stage => return Err(absent(stage)),
        }
        self.stage = Stage::Parts;
        Ok(())
    }

    /// A part that is not the last, of a message that gives nothing out before its end.
    pub fn message_update(&mut self, data: &[u8]) -> Result<()> {
        self.message_part(|engine| engine.update(data))
    }

    /// A part that is not the last. An error ends the message, but for a buffer that is too small.
    pub fn message_part<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        self.in_message()?;
        let outcome = work(self.engine()?);
        if !matches!(outcome, Ok(_) | Err(Error::BufferTooSmall { .. })) {
            self.message_cancel();
        }
        outcome
    }

    /// The last part. Whatever comes of it, the message is over, unless the buffer was too small.
    pub fn message_end<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        self.in_message()?;
        self.message_over(work)
    }

    /// The length of a result, for a caller who asks for it; `one_part` for a message in one part.
    pub fn message_length(&mut self, one_part: bool, len: impl FnOnce(&E) -> usize) -> Result<usize> {
        match self.stage {
            Stage::Ready if one_part => {}
            Stage::Parts if one_part => return Err(Error::OperationActive),
            _ => self.in_message()?,
        }
        Ok(len(self.engine()?))
    }

    /// Ends the message in several parts, and not the whole.
    pub fn message_cancel(&mut self) {
        if self.stage == Stage::Parts {
            if let Ok(engine) = self.engine() {
                engine.forget();
            }
            self.stage = self.between_messages();
        }
    }

    /// Finishes the whole. PKCS#11 3.2 names CKR_OPERATION_ACTIVE among the return values of C_MessageSignFinal and its
    /// like: a message in several parts goes on.
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

    /// PKCS#11 3.2, "Private key objects": a key with `CKA_ALWAYS_AUTHENTICATE` wants a login for each use, and each
    /// message is one. The engine of such a key is known by its epoch (see [`start`](Self::start)).
    fn between_messages(&self) -> Stage {
        let locked = self.kept.as_ref().is_some_and(|kept| kept.epoch == u64::MAX);
        if locked { Stage::Locked } else { Stage::Ready }
    }
}

/// Why no message can be worked on. A login that is missing can still come: nothing ends.
fn absent(stage: Stage) -> Error {
    if stage == Stage::Locked { Error::UserNotLoggedIn } else { Error::OperationNotInitialized }
}
