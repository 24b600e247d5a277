//! The one state machine of all operations: what an `Init` call starts, how it goes on and when it is over.
//!
//! An operation that is over keeps its engine. The next `Init` with the same mechanism, parameter and key, while
//! the token's epoch is the same, takes it again: nothing is looked up, checked, parsed or allocated. With another
//! parameter, as a nonce is, an engine that can keeps its key.

use crate::backend::{Hash, Hasher, Provider};
use crate::error::{Error, Result};
use crate::id::ObjectHandle;
use crate::mechanism::Invocation;
use crate::secret::Secret;
use crate::session::state::{Progress, Saved};

mod process;

/// Where the result goes, by the convention on output (PKCS#11 3.2, "Conventions for functions returning output in
/// a variable-length buffer").
pub enum Output<'a> {
    /// NULL was given: tell the length.
    Length,
    /// Write here.
    Buffer(&'a mut [u8]),
}

/// An operation of one kind in one session.
pub struct Operation<E> {
    stage: Stage,
    /// Behind a pointer: a session has thirteen operations, and most use one or two.
    kept: Option<Box<Kept<E>>>,
}

impl<E> Default for Operation<E> {
    fn default() -> Self {
        Self { stage: Stage::Idle, kept: None }
    }
}

/// The epoch of an engine behind a PIN: none is this one, so that it is never armed again without.
const BEHIND_PIN: u64 = u64::MAX;

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// None is active.
    Idle,
    /// Started; a key with `CKA_ALWAYS_AUTHENTICATE` waits for the PIN.
    Locked,
    /// Started, no data yet.
    Ready,
    /// In several parts.
    Parts,
}

/// What an operation works with, as long as the session lives and nothing changes. On cache lines of its own, as the
/// session is: what lies beside it may be another thread's.
#[repr(align(128))]
struct Kept<E> {
    with: Invocation,
    key: ObjectHandle,
    epoch: u64,
    engine: E,
}

impl<E: Engine> Operation<E> {
    /// Takes the kept engine again, where it is for the same thing.
    pub fn rearm(&mut self, with: &Invocation, key: ObjectHandle, epoch: u64) -> Result<bool> {
        if self.stage != Stage::Idle {
            return Err(Error::OperationActive);
        }
        let same = |kept: &&mut Box<Kept<E>>| {
            kept.epoch == epoch && kept.key == key && std::ptr::eq(kept.with.mechanism, with.mechanism)
        };
        let Some(kept) = self.kept.as_mut().filter(same) else { return Ok(false) };
        if !kept.with.params.same(&with.params) {
            if !kept.engine.renew(with)? {
                return Ok(false);
            }
            kept.with = with.clone();
        }
        self.stage = Stage::Ready;
        Ok(true)
    }

    /// Starts with a new engine. One that waits for a PIN is used once and not kept.
    pub fn start(&mut self, with: &Invocation, key: ObjectHandle, epoch: u64, engine: E, locked: bool) {
        let epoch = if locked { BEHIND_PIN } else { epoch };
        let kept = Kept { with: with.clone(), key, epoch, engine };
        match &mut self.kept {
            Some(place) => **place = kept,
            None => self.kept = Some(Box::new(kept)),
        }
        self.stage = if locked { Stage::Locked } else { Stage::Ready };
    }

    /// The PIN came that the operation waited for; whether it did.
    pub fn unlock(&mut self) -> bool {
        let waited = self.stage == Stage::Locked;
        if waited {
            self.stage = Stage::Ready;
        }
        waited
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

    /// Ends the operation and lets its key go.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether an operation is active.
    pub fn active(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// The whole operation in one call.
    pub fn once<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        match self.stage {
            Stage::Ready => self.finish(work),
            // PKCS#11 3.2, C_Sign: it cannot end an operation in several parts.
            Stage::Parts => Err(Error::OperationActive),
            Stage::Idle => Err(Error::OperationNotInitialized),
            Stage::Locked => self.locked(),
        }
    }

    /// One part. An error ends the operation.
    pub fn update(&mut self, data: &[u8]) -> Result<()> {
        match self.stage {
            Stage::Ready | Stage::Parts => {}
            Stage::Idle => return Err(Error::OperationNotInitialized),
            Stage::Locked => return self.locked(),
        }
        self.stage = Stage::Parts;
        self.engine()?.update(data).inspect_err(|_| self.cancel())
    }

    /// One part that gives something out. An error ends the operation, but for a buffer that is too small.
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

    /// The end after any number of parts, none too.
    pub fn end<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        match self.stage {
            Stage::Ready | Stage::Parts => self.finish(work),
            Stage::Idle => Err(Error::OperationNotInitialized),
            Stage::Locked => self.locked(),
        }
    }

    /// PKCS#11 3.2, "Conventions for functions returning output": whatever comes out, the operation is over, unless
    /// only the length was told or the buffer was too small.
    fn finish<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
        let outcome = work(self.engine()?);
        match outcome {
            Err(Error::BufferTooSmall { .. }) => {}
            _ => self.cancel(),
        }
        outcome
    }

    /// The length of the result, for a caller who asks for it before the end.
    pub fn length(&mut self, one_part: bool, len: impl FnOnce(&E) -> usize) -> Result<usize> {
        match self.stage {
            Stage::Parts if one_part => Err(Error::OperationActive),
            Stage::Ready | Stage::Parts => Ok(len(self.engine()?)),
            Stage::Idle => Err(Error::OperationNotInitialized),
            Stage::Locked => self.locked(),
        }
    }

    /// PKCS#11 3.2, "Private key objects": each use of such a key wants its own login; without it the operation ends.
    fn locked<T>(&mut self) -> Result<T> {
        self.clear();
        Err(Error::UserNotLoggedIn)
    }

    /// What it takes to go on later, if an operation is active. Not behind a PIN: one PIN would do for many uses.
    pub fn save(&self) -> Result<Option<Saved>> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.stage != Stage::Idle) else { return Ok(None) };
        if kept.epoch == BEHIND_PIN {
            return Err(Error::StateUnsaveable);
        }
        let progress = if self.stage == Stage::Parts { Some(kept.engine.save()?) } else { None };
        Ok(Some(Saved { with: kept.with.clone(), key: kept.key, progress }))
    }

    /// Goes on from where a saved operation was; this one was just started with the same mechanism and key.
    pub fn resume(&mut self, saved: &Saved) -> Result<()> {
        if let Some(progress) = &saved.progress {
            self.part(|engine| engine.resume(progress))?;
        }
        Ok(())
    }

    /// What works inside it.
    pub(super) fn engine(&mut self) -> Result<&mut E> {
        self.kept.as_mut().map(|kept| &mut kept.engine).ok_or(Error::GeneralError)
    }
}

/// What works inside an operation.
pub trait Engine {
    /// Takes a part of the message.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Forgets the parts so far.
    fn forget(&mut self);
    /// Takes another parameter of its mechanism; false where that takes a new engine.
    fn renew(&mut self, _with: &Invocation) -> Result<bool> {
        Ok(false)
    }
    /// How far it is; `StateUnsaveable` where that cannot be kept.
    fn save(&self) -> Result<Progress> {
        Err(Error::StateUnsaveable)
    }
    /// Goes on from there.
    fn resume(&mut self, _progress: &Progress) -> Result<()> {
        Err(Error::SavedStateInvalid)
    }
}

/// How a message becomes what a signer takes: its digest, or the message as it is.
pub struct Message {
    provider: &'static Provider,
    hash: Option<Hash>,
    hasher: Option<Box<dyn Hasher>>,
    collected: Secret,
}

impl Message {
    /// For a scheme that takes the digest of `hash`, or the message.
    pub fn new(provider: &'static Provider, hash: Option<Hash>) -> Self {
        Self { provider, hash, hasher: None, collected: Secret::default() }
    }

    /// Takes a part.
    pub fn update(&mut self, data: &[u8]) -> Result<()> {
        let Some(hash) = self.hash else {
            self.collected.extend(data);
            return Ok(());
        };
        if self.hasher.is_none() {
            self.hasher = Some(self.provider.digest.start(hash)?);
        }
        self.hasher.as_mut().map_or(Err(Error::GeneralError), |hasher| hasher.update(data))
    }

    /// Forgets the parts so far.
    pub fn forget(&mut self) {
        self.collected.clear();
        if self.hasher.as_mut().is_some_and(|hasher| hasher.reset().is_err()) {
            self.hasher = None;
        }
    }

    /// How far it is.
    pub fn save(&self) -> Result<Progress> {
        match self.hash {
            None => Ok(Progress::Collected(self.collected.duplicate())),
            Some(_) => copied(self.hasher.as_deref()),
        }
    }

    /// Goes on from there.
    pub fn resume(&mut self, progress: &Progress) -> Result<()> {
        match progress {
            Progress::Collected(message) => self.collected = message.duplicate(),
            Progress::Hasher(hasher) => {
                self.hasher = hasher.as_ref().map(|hasher| hasher.duplicate()).transpose()?
            }
            Progress::Mac(_) | Progress::Cipher(_) => return Err(Error::SavedStateInvalid),
        }
        Ok(())
    }

    /// A whole message as the signer takes it.
    pub fn whole<T>(&self, data: &[u8], work: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let Some(hash) = self.hash else { return work(data) };
        let mut digest = [0; Hash::MAX_LEN];
        self.provider.digest.hash(hash, data, &mut digest[..hash.len()])?;
        work(&digest[..hash.len()])
    }

    /// The parts so far as the signer takes them.
    pub fn parts<T>(&mut self, work: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let Some(hash) = self.hash else { return work(&self.collected) };
        let Some(hasher) = &mut self.hasher else { return self.whole(&[], work) };
        let mut digest = [0; Hash::MAX_LEN];
        hasher.finish(&mut digest[..hash.len()])?;
        work(&digest[..hash.len()])
    }
}

/// How far a digest is.
pub(super) fn copied(hasher: Option<&dyn Hasher>) -> Result<Progress> {
    hasher.map(Hasher::duplicate).transpose().map(Progress::Hasher)
}

/// Where a result of `needed` bytes goes. Known before any work is done.
pub fn place(out: &mut [u8], needed: usize) -> Result<&mut [u8]> {
    out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })
}
