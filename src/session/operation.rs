//! The state machine that all operations share: how an `Init` call starts an operation, how the
//! operation continues, and how it ends.
//!
//! A finished operation keeps its engine. The next `Init` reuses it if mechanism, parameter, key
//! and the epoch of the token are the same. Then nothing is looked up, checked, parsed or
//! allocated. If only the parameter differs, for example the nonce, some engines keep their key and
//! take the new parameter.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::{Hash, Hasher, Provider};
use crate::error::{Error, Result};
use crate::id::ObjectHandle;
use crate::mechanism::Mechanism;
use crate::secret::Secret;
use crate::session::state::{Progress, Saved};

mod process;

/// The destination of a result (PKCS#11 3.2, "Conventions for functions returning output in a
/// variable-length buffer").
pub enum Output<'a> {
    /// The caller passed NULL and asks only for the length.
    Length,
    /// The caller's buffer.
    Buffer(&'a mut [u8]),
}

/// One operation of a session, for example the signature.
pub struct Operation<E> {
    stage: Stage,
    /// Boxed because a session has twelve operations, and most sessions use one or two.
    kept: Option<Box<Kept<E>>>,
}

impl<E> Default for Operation<E> {
    fn default() -> Self {
        Self { stage: Stage::Idle, kept: None }
    }
}

/// The first epoch of operations that need a PIN. The epoch of a token stays below it, so such an
/// operation never starts again without the PIN. Each gets the next number, which shows the one
/// that started last.
const BEHIND_PIN: u64 = 1 << 63;

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No operation is active.
    Idle,
    /// The operation has started and waits for the PIN of a key with `CKA_ALWAYS_AUTHENTICATE`.
    Locked,
    /// The operation has started and has no data yet.
    Ready,
    /// The operation has processed at least one part.
    Parts,
}

/// The engine of an operation and what it was started with. It stays after the operation, until
/// another engine replaces it. It has its own cache lines, as the session has, because the
/// neighbouring memory may belong to another thread.
#[repr(align(128))]
struct Kept<E> {
    mechanism: Mechanism,
    key: ObjectHandle,
    epoch: u64,
    engine: E,
}

impl<E: Engine> Operation<E> {
    /// Starts the operation with the kept engine if that engine fits. Returns whether it does.
    /// Fails with `OperationActive` if an operation is active.
    pub fn rearm(&mut self, mechanism: &Mechanism, key: ObjectHandle, epoch: u64) -> Result<bool> {
        if self.stage != Stage::Idle {
            return Err(Error::OperationActive);
        }
        let same = |kept: &&mut Box<Kept<E>>| {
            kept.epoch == epoch && kept.key == key && std::ptr::eq(kept.mechanism.info, mechanism.info)
        };
        let Some(kept) = self.kept.as_mut().filter(same) else { return Ok(false) };
        if !kept.mechanism.params.same(&mechanism.params) {
            if !kept.engine.renew(mechanism)? {
                return Ok(false);
            }
            kept.mechanism = mechanism.clone();
        }
        self.stage = Stage::Ready;
        Ok(true)
    }

    /// Starts the operation with a new engine. An engine that waits for a PIN is used once and
    /// never reused.
    pub fn start(&mut self, mechanism: &Mechanism, key: ObjectHandle, epoch: u64, engine: E, locked: bool) {
        static STARTED: AtomicU64 = AtomicU64::new(BEHIND_PIN);
        let epoch = if locked { STARTED.fetch_add(1, Ordering::Relaxed) } else { epoch };
        let kept = Kept { mechanism: mechanism.clone(), key, epoch, engine };
        match &mut self.kept {
            Some(place) => **place = kept,
            None => self.kept = Some(Box::new(kept)),
        }
        self.stage = if locked { Stage::Locked } else { Stage::Ready };
    }

    /// Returns the number of an operation that waits for a PIN. A later operation has a greater
    /// number.
    pub fn waits(&self) -> Option<u64> {
        self.kept.as_ref().filter(|_| self.stage == Stage::Locked).map(|kept| kept.epoch)
    }

    /// Unlocks the operation if it waits for a PIN and has that number.
    pub fn unlock(&mut self, number: u64) {
        if self.waits() == Some(number) {
            self.stage = Stage::Ready;
        }
    }

    /// Ends the operation.
    pub fn cancel(&mut self) {
        if self.stage == Stage::Parts
            && let Some(kept) = &mut self.kept
        {
            kept.engine.forget();
        }
        self.stage = Stage::Idle;
    }

    /// Ends the operation and drops its engine with the key.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the mechanism that the active operation was started with.
    pub fn with(&self) -> Option<&Mechanism> {
        self.kept.as_ref().filter(|_| self.active()).map(|kept| &kept.mechanism)
    }

    /// Returns whether the operation is active.
    pub fn active(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Does the operation in a single part.
    pub fn once<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        match self.stage {
            Stage::Ready => self.finish(work),
            // PKCS#11 3.2, C_Sign: the function cannot end a multi-part operation.
            Stage::Parts => Err(Error::OperationActive),
            Stage::Idle => Err(Error::OperationNotInitialized),
            Stage::Locked => self.locked(),
        }
    }

    /// Processes one part. An error ends the operation.
    pub fn update(&mut self, data: &[u8]) -> Result<()> {
        match self.stage {
            Stage::Ready | Stage::Parts => {}
            Stage::Idle => return Err(Error::OperationNotInitialized),
            Stage::Locked => return self.locked(),
        }
        self.stage = Stage::Parts;
        self.engine()?.update(data).inspect_err(|_| self.cancel())
    }

    /// Processes one part that has output. An error ends the operation, except `BufferTooSmall`.
    pub fn part<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        match self.stage {
            Stage::Ready | Stage::Parts => {}
            Stage::Idle => return Err(Error::OperationNotInitialized),
            Stage::Locked => return self.locked(),
        }
        let outcome = work(self.engine()?);
        match outcome {
            Ok(_) => self.stage = Stage::Parts,
            Err(Error::BufferTooSmall { .. }) => {}
            Err(_) => {
                self.stage = Stage::Parts;
                self.cancel();
            }
        }
        outcome
    }

    /// Ends a multi-part operation. The number of parts may be zero.
    pub fn end<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        match self.stage {
            Stage::Ready | Stage::Parts => self.finish(work),
            Stage::Idle => Err(Error::OperationNotInitialized),
            Stage::Locked => self.locked(),
        }
    }

    /// PKCS#11 3.2, "Conventions for functions returning output": the call ends the operation,
    /// whether it succeeds or fails. The exceptions are a query for the length and a buffer that is
    /// too small.
    fn finish<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        let outcome = work(self.engine()?);
        match outcome {
            Err(Error::BufferTooSmall { .. }) => {}
            _ => self.cancel(),
        }
        outcome
    }

    /// Returns the length of the result for a caller who asks only for it.
    pub fn length(&mut self, one_part: bool, len: impl FnOnce(&E) -> usize) -> Result<usize> {
        match self.stage {
            Stage::Parts if one_part => Err(Error::OperationActive),
            Stage::Ready | Stage::Parts => Ok(len(self.engine()?)),
            Stage::Idle => Err(Error::OperationNotInitialized),
            Stage::Locked => self.locked(),
        }
    }

    /// PKCS#11 3.2, "Private key objects": each use of such a key needs its own login. Without the
    /// login the operation ends.
    fn locked<T>(&mut self) -> Result<T> {
        self.clear();
        Err(Error::UserNotLoggedIn)
    }

    /// Returns the saved state if the operation is active. An operation that needed a PIN cannot be
    /// saved. Otherwise one PIN would be enough for many uses of the key.
    pub fn save(&self) -> Result<Option<Saved>> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.stage != Stage::Idle) else { return Ok(None) };
        if kept.epoch >= BEHIND_PIN {
            return Err(Error::StateUnsaveable);
        }
        let progress = if self.stage == Stage::Parts { Some(kept.engine.save()?) } else { None };
        Ok(Some(Saved { mechanism: kept.mechanism.clone(), key: kept.key, progress }))
    }

    /// Continues a saved operation. The caller has just started this one with the same mechanism
    /// and key.
    pub fn resume(&mut self, saved: &Saved) -> Result<()> {
        if let Some(progress) = &saved.progress {
            self.part(|engine| engine.resume(progress))?;
        }
        Ok(())
    }

    /// Returns the engine of the operation.
    pub(super) fn engine(&mut self) -> Result<&mut E> {
        self.kept.as_mut().map(|kept| &mut kept.engine).ok_or(Error::GeneralError)
    }
}

/// The algorithm of an operation with its key and its progress.
pub trait Engine {
    /// Processes a part of the message.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Discards all parts of the message.
    fn forget(&mut self);
    /// Takes another parameter of the same mechanism. Returns false if that needs a new engine.
    fn renew(&mut self, _with: &Mechanism) -> Result<bool> {
        Ok(false)
    }
    /// Returns the progress. Fails with `StateUnsaveable` if it cannot be saved.
    fn save(&self) -> Result<Progress> {
        Err(Error::StateUnsaveable)
    }
    /// Continues from that progress.
    fn resume(&mut self, _progress: &Progress) -> Result<()> {
        Err(Error::SavedStateInvalid)
    }
}

/// The input of a signer: the digest of the message, or the message itself.
pub struct Message {
    provider: &'static Provider,
    hash: Option<Hash>,
    hasher: Option<Box<dyn Hasher>>,
    collected: Secret,
}

impl Message {
    /// Returns an empty message for a scheme that takes its digest by `hash`. If `hash` is `None`,
    /// the scheme takes the message itself.
    pub fn new(provider: &'static Provider, hash: Option<Hash>) -> Self {
        Self { provider, hash, hasher: None, collected: Secret::default() }
    }

    /// Appends a part.
    pub fn update(&mut self, data: &[u8]) -> Result<()> {
        let Some(hash) = self.hash else {
            return self.collected.extend(data);
        };
        if self.hasher.is_none() {
            self.hasher = Some(self.provider.digest.start(hash)?);
        }
        self.hasher.as_mut().map_or(Err(Error::GeneralError), |hasher| hasher.update(data))
    }

    /// Discards all parts.
    pub fn forget(&mut self) {
        self.collected.clear();
        if self.hasher.as_mut().is_some_and(|hasher| hasher.reset().is_err()) {
            self.hasher = None;
        }
    }

    /// Returns the progress.
    pub fn save(&self) -> Result<Progress> {
        match self.hash {
            None => Secret::try_copy(&self.collected).map(Progress::Collected),
            Some(_) => copied(self.hasher.as_deref()),
        }
    }

    /// Continues from that progress.
    pub fn resume(&mut self, progress: &Progress) -> Result<()> {
        match progress {
            Progress::Collected(message) => self.collected = Secret::try_copy(message)?,
            Progress::Hasher(hasher) => {
                self.hasher = hasher.as_ref().map(|hasher| hasher.duplicate()).transpose()?
            }
            Progress::Mac(_) | Progress::Cipher(_) => return Err(Error::SavedStateInvalid),
        }
        Ok(())
    }

    /// Calls `work` with the signer's input for a message that comes in a single part.
    pub fn whole<T>(&self, data: &[u8], work: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let Some(hash) = self.hash else { return work(data) };
        let mut digest = [0; Hash::MAX_LEN];
        self.provider.digest.hash(hash, data, &mut digest[..hash.len()])?;
        work(&digest[..hash.len()])
    }

    /// Calls `work` with the signer's input for the parts so far.
    pub fn parts<T>(&mut self, work: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let Some(hash) = self.hash else { return work(&self.collected) };
        let Some(hasher) = &mut self.hasher else { return self.whole(&[], work) };
        let mut digest = [0; Hash::MAX_LEN];
        hasher.finish(&mut digest[..hash.len()])?;
        work(&digest[..hash.len()])
    }
}

/// Returns the progress of a digest.
pub(super) fn copied(hasher: Option<&dyn Hasher>) -> Result<Progress> {
    hasher.map(Hasher::duplicate).transpose().map(Progress::Hasher)
}

/// Returns the part of the buffer for a result of `needed` bytes. Fails before any work is done.
pub fn place(out: &mut [u8], needed: usize) -> Result<&mut [u8]> {
    out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })
}
