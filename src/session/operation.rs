//! The state machine that all operations share: how an `Init` call starts an operation, how the
//! operation continues, and how it ends.
//!
//! A finished operation keeps its engine. The next `Init` reuses it if mechanism, parameter, key
//! and the epoch of the token are the same. Then nothing is looked up, checked, parsed or
//! allocated. If only the parameter differs, for example the nonce, some engines keep their key and
//! take the new parameter.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::Hasher;
use crate::error::{Error, Result, require};
use crate::id::ObjectHandle;
use crate::mechanism::{Mechanism, MechanismWord, Params, row_of};
use crate::session::Usage;
use crate::session::memory::Memory;
use crate::session::progress::{Progress, Saved};
use crate::token::ClientToken;

mod process;

pub use jeton_words::operation::{Output, Phase};

/// One operation of a session, for example the signature.
pub struct Operation<E> {
    stage: Stage,
    /// Boxed because a session has twelve operations, and most sessions use one or two.
    kept: Option<Box<Kept<E>>>,
}

/// Whether the next `Init` may use the engine again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    Epoch(u64),
    /// Never, because each use of the key needs a PIN.
    Never(PinTurn),
}

impl Reuse {
    /// Returns `Never` with the next turn.
    pub(super) fn never() -> Self {
        Self::Never(PinTurn::next())
    }
}

/// The order in which operations wait for a PIN: a later operation has a greater turn. Two
/// operations never have the same turn, and a turn is not an epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PinTurn(u64);

impl PinTurn {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The key handle of an operation without a key.
pub(super) const NO_KEY: ObjectHandle = ObjectHandle(0);

/// How a function passes the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// In a single part, as `C_Sign` does.
    Single,
    /// In any number of parts, as `C_SignUpdate` and `C_SignFinal` do.
    Multiple,
}

impl<E> Default for Operation<E> {
    fn default() -> Self {
        Self { stage: Stage::Idle, kept: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No operation is active.
    Idle,
    /// The operation has started and waits for the PIN of a key with `CKA_ALWAYS_AUTHENTICATE`.
    Locked,
    /// The operation has started and has no data yet.
    Ready,
    /// The operation has processed at least one part, or has begun a message in several parts.
    Parts,
    /// `C_AsyncComplete` returns the result of the function that ends the operation. These are two
    /// variants, because a field in one variant would make each call longer.
    PendingSingle,
    PendingMultiple,
}

/// The engine of an operation, with the mechanism and the key that it was started with. It stays
/// after the operation, until another engine replaces it, or a logout or a missing PIN drops it. It
/// has its own cache lines, as the session has, because the neighbouring memory may belong to
/// another thread.
#[repr(align(128))]
struct Kept<E> {
    mechanism: Mechanism,
    key: ObjectHandle,
    /// The use of the key; `None` without a key.
    usage: Option<Usage>,
    reuse: Reuse,
    engine: E,
    memory: Memory,
}

impl<E: Engine> Operation<E> {
    /// Starts the operation with the kept engine if that engine fits. Returns whether it fits.
    /// `fit` gets the engine and its parameter. It returns whether both are now as the new
    /// operation needs them; if not, it has changed neither. Fails with `OperationActive` if an
    /// operation is active.
    pub(super) fn rearm(
        &mut self,
        info: &'static MechanismWord,
        key: ObjectHandle,
        epoch: u64,
        fit: impl FnOnce(&mut E, &mut Params) -> Result<bool>,
    ) -> Result<bool> {
        require(self.stage == Stage::Idle, Error::OperationActive)?;
        let same = |kept: &&mut Box<Kept<E>>| {
            kept.reuse == Reuse::Epoch(epoch) && kept.key == key && std::ptr::eq(kept.mechanism.info, info)
        };
        let Some(kept) = self.kept.as_mut().filter(same) else { return Ok(false) };
        match fit(&mut kept.engine, &mut kept.mechanism.params) {
            Ok(true) => self.stage = Stage::Ready,
            Ok(false) => return Ok(false),
            Err(error) => {
                // The engine and its parameter may differ now.
                self.clear();
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Starts the operation with a new engine. `used` is the key and its use. With `Reuse::Never`
    /// the operation waits for a PIN. Fails with `DeviceMemory` if the quota of the application has
    /// no memory for the engine. Not inlined, because most operations are re-armed.
    #[inline(never)]
    pub(super) fn start(
        &mut self,
        token: &ClientToken,
        mechanism: &Mechanism,
        used: Option<(ObjectHandle, Usage)>,
        reuse: Reuse,
        engine: E,
    ) -> Result<()> {
        let memory = Memory::new(token, mechanism.params.size(), engine.size())?;
        let (key, usage) = used.map_or((NO_KEY, None), |(key, usage)| (key, Some(usage)));
        let kept = Kept { mechanism: mechanism.clone(), key, usage, reuse, engine, memory };
        match &mut self.kept {
            Some(place) => **place = kept,
            None => self.kept = Some(Box::new(kept)),
        }
        self.stage = match reuse {
            Reuse::Epoch(_) => Stage::Ready,
            Reuse::Never(_) => Stage::Locked,
        };
        Ok(())
    }

    /// Ends the operation.
    pub fn cancel(&mut self) {
        if self.stage == Stage::Parts {
            self.forget_parts();
        }
        self.stage = Stage::Idle;
    }

    /// Not inlined, because most operations have a single part.
    #[inline(never)]
    fn forget_parts(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.engine.forget();
            kept.memory.end_message();
        }
    }

    /// Takes the memory for what an `Init` function or a message will pass to the kept engine, and
    /// keeps that for what the engine has.
    pub(super) fn reserve(&mut self, bytes: impl FnOnce() -> usize) -> Result<()> {
        match &mut self.kept {
            Some(kept) if kept.memory.is_counted() => kept.memory.reserve(bytes()),
            _ => Ok(()),
        }
    }

    /// Takes the memory for what an `Init` function has passed to the kept engine in place of what
    /// the engine had.
    pub(super) fn pass(&mut self, bytes: impl FnOnce() -> usize) -> Result<()> {
        match &mut self.kept {
            Some(kept) if kept.memory.is_counted() => kept.memory.pass(bytes()),
            _ => Ok(()),
        }
    }

    /// Takes the memory for a part of the message, of which the engine returns `output` bytes.
    pub(super) fn hold(&mut self, input: usize, output: usize) -> Result<()> {
        self.kept.as_mut().map_or(Ok(()), |kept| kept.memory.hold(input, output))
    }

    /// Gives back the memory of the message.
    pub(super) fn end_message(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.memory.end_message();
        }
    }

    /// Ends the operation and drops its engine with the key.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the mechanism that the active operation was started with.
    pub(crate) fn mechanism(&self) -> Option<&Mechanism> {
        self.kept.as_ref().filter(|_| self.is_active()).map(|kept| &kept.mechanism)
    }

    /// Returns the mechanism and the key of the active operation.
    pub(crate) fn uses(&self) -> Option<(&'static MechanismWord, ObjectHandle)> {
        self.kept.as_ref().filter(|_| self.is_active()).map(|kept| (kept.mechanism.info, kept.key))
    }

    /// Returns the use of the key if it was permitted in another epoch than this one. A use that
    /// needs a PIN is permitted only once.
    pub(super) fn outdated(&self, epoch: u64) -> Option<(&Mechanism, ObjectHandle, Usage)> {
        let kept = self.kept.as_ref().filter(|kept| kept.reuse != Reuse::Epoch(epoch))?;
        kept.usage.map(|usage| (&kept.mechanism, kept.key, usage))
    }

    /// Records that the use of the key is permitted in this epoch, too.
    pub(super) fn permit(&mut self, epoch: u64) {
        if let Some(kept) = &mut self.kept
            && let Reuse::Epoch(permitted) = &mut kept.reuse
        {
            *permitted = epoch;
        }
    }

    pub(super) fn active_engine(&self) -> Option<&E> {
        self.kept.as_ref().filter(|_| self.is_active()).map(|kept| &kept.engine)
    }

    pub(super) fn is_active(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Returns how the pending function has passed the message; `None` if no function is pending.
    pub(crate) fn pending(&self) -> Option<Parts> {
        match self.stage {
            Stage::PendingSingle => Some(Parts::Single),
            Stage::PendingMultiple => Some(Parts::Multiple),
            _ => None,
        }
    }

    pub(super) fn needs_pin(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| matches!(kept.reuse, Reuse::Never(_)))
    }

    /// Returns the engine for a call that passes the message in these parts. A call without the
    /// login that its key needs ends the operation.
    #[inline(always)]
    pub(super) fn engine_for(&mut self, parts: Parts) -> Result<&mut E> {
        if parts == Parts::Multiple {
            self.expect_parts()?;
        }
        match self.stage {
            // PKCS#11 3.2, C_Sign: the function cannot end a multi-part operation.
            Stage::Parts if parts == Parts::Single => Err(Error::OperationActive),
            Stage::PendingSingle | Stage::PendingMultiple => Err(Error::OperationActive),
            Stage::Ready | Stage::Parts => self.engine(),
            Stage::Idle => Err(Error::OperationNotInitialized),
            Stage::Locked => self.refuse_without_login(),
        }
    }

    /// Continues the operation after a part. An error ends the operation, except `BufferTooSmall`.
    pub(super) fn after_part<T>(&mut self, outcome: Result<T>) -> Result<T> {
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

    /// PKCS#11 3.2, "Conventions for functions returning output": the call ends the operation,
    /// whether it succeeds or fails. The exceptions are a query for the length, a buffer that is
    /// too small, and a result that is pending.
    #[inline]
    pub(super) fn finish<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Ok(_) => self.cancel(),
            Err(error) => self.fail(error),
        }
        outcome
    }

    /// Like [`finish`](Self::finish), for a function that ends a message in any number of parts.
    pub(super) fn finish_parts<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if matches!(outcome, Err(Error::Pending)) {
            self.stage = Stage::Parts;
        }
        self.finish(outcome)
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        let had_parts = self.stage == Stage::Parts;
        match error {
            Error::BufferTooSmall { .. } => {}
            Error::Pending => {
                self.cancel();
                self.stage = if had_parts { Stage::PendingMultiple } else { Stage::PendingSingle };
            }
            _ => self.cancel(),
        }
    }

    /// Fails with `OperationNotInitialized` and ends the operation if its mechanism has single-part
    /// operations only.
    pub(super) fn expect_parts(&mut self) -> Result<()> {
        let started = matches!(self.stage, Stage::Ready | Stage::Parts);
        if started && self.mechanism().is_some_and(|mechanism| row_of(mechanism.info).is_single_part()) {
            self.cancel();
            return Err(Error::OperationNotInitialized);
        }
        Ok(())
    }

    /// PKCS#11 3.2, "Private key objects": each use of a key with `CKA_ALWAYS_AUTHENTICATE` needs
    /// its own login. Without the login the operation ends.
    #[cold]
    fn refuse_without_login<T>(&mut self) -> Result<T> {
        self.clear();
        Err(Error::UserNotLoggedIn)
    }

    pub(super) fn engine(&mut self) -> Result<&mut E> {
        self.kept.as_mut().map(|kept| &mut kept.engine).ok_or(Error::GeneralError)
    }
}

impl<E: Absorb> Operation<E> {
    /// Processes one part. An error ends the operation.
    pub fn update(&mut self, data: &[u8]) -> Result<()> {
        self.engine_for(Parts::Multiple)?;
        // Before the update, so that a panic in it leaves no part for the next message.
        self.stage = Stage::Parts;
        let outcome = self.absorb(data);
        self.after_part(outcome)
    }

    /// Gives the engine a part of the message.
    fn absorb(&mut self, data: &[u8]) -> Result<()> {
        if self.engine()?.collects() {
            self.hold(data.len(), 0)?;
        }
        self.engine()?.update(data)
    }

    /// Takes the memory for the last part of a message, before the engine gets it.
    pub(super) fn hold_last(&mut self, data: &[u8]) -> Result<()> {
        let collects = self.engine()?.collects();
        if collects { self.hold(data.len(), 0) } else { Ok(()) }
    }
}

impl<E: Resume> Operation<E> {
    /// Returns the saved state if the operation is active. An operation that needed a PIN cannot be
    /// saved. Otherwise one PIN would be enough for many uses of the key. Neither can one with a
    /// stateful key, or one that is pending.
    pub(super) fn save(&self) -> Result<Option<Saved>> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.is_active()) else { return Ok(None) };
        if self.needs_pin() || row_of(kept.mechanism.info).is_stateful() || self.pending().is_some() {
            return Err(Error::StateUnsaveable);
        }
        let (memory, message) = (kept.memory.copy()?, kept.memory.message());
        let progress = if self.stage == Stage::Parts { Some(kept.engine.save()?) } else { None };
        Ok(Some(Saved {
            mechanism: kept.mechanism.clone(),
            key: kept.key,
            progress,
            message,
            _memory: memory,
        }))
    }

    /// Continues from a saved operation. The caller has just started this operation with the same
    /// mechanism and key.
    pub(super) fn resume(&mut self, saved: &Saved) -> Result<()> {
        let Some(progress) = &saved.progress else { return Ok(()) };
        self.engine_for(Parts::Multiple)?;
        let outcome = self.hold(saved.message, 0).and_then(|()| self.engine()?.resume(progress));
        self.after_part(outcome)
    }
}

/// The methods that a session calls on each of its operations.
pub(super) trait Lifecycle {
    /// Ends the operation.
    fn cancel(&mut self);
    /// Ends the operation and drops its engine if the engine has a key. Otherwise does nothing.
    fn clear_key(&mut self);
    fn waits(&self) -> Option<PinTurn>;
    /// Returns the mechanism of the engine, and the key with its use.
    fn used(&self) -> Option<(&Mechanism, Option<(ObjectHandle, Usage)>)>;
    /// Unlocks the operation if it waits for a PIN and has that turn. Returns whether it does.
    fn unlock(&mut self, turn: PinTurn) -> bool;
}

impl<E: Engine> Lifecycle for Operation<E> {
    fn cancel(&mut self) {
        Operation::cancel(self);
    }

    fn clear_key(&mut self) {
        if self.kept.as_ref().is_some_and(|kept| kept.key != NO_KEY) {
            self.clear();
        }
    }

    fn waits(&self) -> Option<PinTurn> {
        match self.kept.as_ref()?.reuse {
            Reuse::Never(turn) if self.stage == Stage::Locked => Some(turn),
            _ => None,
        }
    }

    fn used(&self) -> Option<(&Mechanism, Option<(ObjectHandle, Usage)>)> {
        self.kept.as_ref().map(|kept| (&kept.mechanism, kept.usage.map(|usage| (kept.key, usage))))
    }

    fn unlock(&mut self, turn: PinTurn) -> bool {
        let waits = self.waits() == Some(turn);
        if waits {
            self.stage = Stage::Ready;
        }
        waits
    }
}

/// The algorithm of an operation with its key and its state after the parts so far.
pub trait Engine {
    /// Discards all parts of the message.
    fn forget(&mut self);
    /// Returns the bytes of what it keeps besides the parameter and the message, if that is much.
    fn size(&self) -> usize {
        0
    }
}

/// An engine that takes the message in parts and has no output before the end.
pub trait Absorb: Engine {
    /// Processes a part of the message.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Returns whether it keeps all parts until the end of the message.
    fn collects(&self) -> bool;
}

/// An engine whose state can be saved.
pub trait Resume: Engine {
    /// Returns the state after the parts so far. Fails with `StateUnsaveable` if it cannot be
    /// saved.
    fn save(&self) -> Result<Progress>;
    /// Continues from a saved state.
    fn resume(&mut self, progress: &Progress) -> Result<()>;
}

/// Returns the state of a digest.
pub(super) fn save_hasher(hasher: Option<&dyn Hasher>) -> Result<Progress> {
    hasher.map(Hasher::duplicate).transpose().map(Progress::Hasher)
}

/// Returns the part of the buffer for a result of `needed` bytes. Fails with `BufferTooSmall` if
/// the buffer is shorter.
pub(crate) fn place(out: &mut [u8], needed: usize) -> Result<&mut [u8]> {
    out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })
}
