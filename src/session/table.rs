//! The sessions of a process. They are in fixed slots, each on its own cache lines. The low bits of
//! a handle give the slot.
//!
//! In this table, a call locks only the slot of its own session, and shares no other lock, count or
//! map with other sessions. The exceptions are the calls that open, close or log out sessions.
//!
//! A call for all sessions of one token locks only the slots of its sessions: each slot has the
//! number of its token beside the lock.
//!
//! The upper bits of a handle are the generation of the slot. So the handle of a closed session
//! stays invalid until 2^31 further sessions have used the slot.

use super::Session;
use crate::error::{Error, Result, require};
use crate::id::SessionHandle;
use crate::sync::{AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, PoisonError};

/// Maximum number of sessions at the same time.
pub(crate) const MAX_SESSIONS: usize = 1 << 16;
/// The number of slots in the first segment. Each further segment has twice as many as the one
/// before, so that an application with few sessions needs little memory.
const FIRST: usize = 16;
const SEGMENTS: usize = (MAX_SESSIONS / FIRST).ilog2() as usize + 1;
/// Number of bits of a handle that hold the slot's number plus one.
const INDEX_BITS: u32 = 17;
const _: () = assert!(MAX_SESSIONS < 1 << INDEX_BITS);
/// Generations count from 1 to this number and then start again at 1. So a handle has at most 49
/// bits.
const GENERATIONS: u64 = 1 << 31;
/// The bits of a stamp that hold the generation.
const LOWER: u64 = u32::MAX as u64;

pub struct SessionTable {
    segments: [OnceLock<Box<[Slot]>>; SEGMENTS],
    free: Mutex<FreeList>,
}

/// A slot for one session. It fills two cache lines because processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    session: Mutex<Option<Session>>,
    /// The generation in the lower half, and the number of the token in the upper half.
    stamp: AtomicU64,
}

/// The numbers of the slots that have no session.
#[derive(Default)]
struct FreeList {
    returned: Vec<usize>,
    untouched: usize,
}

impl Default for SessionTable {
    fn default() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS], free: Mutex::default() }
    }
}

impl SessionTable {
    /// Opens a session in a free slot. `make` gets the handle of the new session. `token` is a
    /// number for [`for_each`](Self::for_each). Several tokens may have the same number.
    pub fn open(
        &self,
        token: u32,
        make: impl FnOnce(SessionHandle) -> Result<Session>,
    ) -> Result<SessionHandle> {
        let index = self.take_slot()?;
        let slot = self.slot(index);
        let generation = (slot.stamp.load(Ordering::Relaxed) & LOWER) % GENERATIONS + 1;
        let handle = SessionHandle(generation << INDEX_BITS | (index as u64 + 1));
        let session = make(handle).inspect_err(|_| self.free().returned.push(index))?;
        slot.stamp.store(u64::from(token) << 32 | generation, Ordering::Release);
        *lock(slot) = Some(session);
        Ok(handle)
    }

    /// Closes a session, which ends its operations.
    pub fn close(&self, handle: SessionHandle) -> Result<Session> {
        let (index, slot) = self.find(handle).ok_or(Error::SessionHandleInvalid)?;
        let mut place = lock(slot);
        if place.as_ref().is_none_or(|session| session.handle != handle) {
            return Err(Error::SessionHandleInvalid);
        }
        // A thread that opens a session in this slot waits for the slot's lock until this function
        // returns.
        self.free().returned.push(index);
        place.take().ok_or(Error::SessionHandleInvalid)
    }

    /// Calls `work` with a session. No other call uses the session meanwhile.
    #[inline]
    pub fn with<T>(&self, handle: SessionHandle, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let (_, slot) = self.find(handle).ok_or(Error::SessionHandleInvalid)?;
        match lock(slot).as_mut() {
            Some(session) if session.handle == handle => work(session),
            _ => Err(Error::SessionHandleInvalid),
        }
    }

    /// Returns the number of open sessions.
    pub fn count(&self) -> usize {
        let free = self.free();
        free.untouched - free.returned.len()
    }

    pub fn is_open(&self, handle: SessionHandle) -> bool {
        self.with(handle, |_| Ok(())).is_ok()
    }

    /// Calls `work` with every open session, or with those whose token has this number. Does not
    /// wait for calls that use other sessions.
    pub fn for_each(&self, token: Option<u32>, mut work: impl FnMut(&mut Session)) {
        let has = |slot: &&Slot| {
            token.is_none_or(|token| slot.stamp.load(Ordering::Acquire) >> 32 == u64::from(token))
        };
        let slots = self.segments.iter().filter_map(OnceLock::get).flat_map(|segment| segment.iter());
        for slot in slots.filter(has) {
            if let Some(session) = lock(slot).as_mut() {
                work(session);
            }
        }
    }

    #[inline]
    fn find(&self, handle: SessionHandle) -> Option<(usize, &Slot)> {
        let index = usize::try_from(handle.0 & ((1 << INDEX_BITS) - 1)).ok()?.checked_sub(1)?;
        let (segment, at) = position(index);
        Some((index, self.segments.get(segment)?.get()?.get(at)?))
    }

    /// Returns a slot. Allocates its segment if no slot of the segment was used before.
    fn slot(&self, index: usize) -> &Slot {
        let (segment, at) = position(index);
        let slots = || std::iter::repeat_with(Slot::default).take(FIRST << segment).collect();
        &self.segments[segment].get_or_init(slots)[at]
    }

    fn take_slot(&self) -> Result<usize> {
        let mut free = self.free();
        if let Some(index) = free.returned.pop() {
            return Ok(index);
        }
        require(free.untouched != MAX_SESSIONS, Error::SessionCount)?;
        free.untouched += 1;
        Ok(free.untouched - 1)
    }

    fn free(&self) -> MutexGuard<'_, FreeList> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the segment of a slot, and the position of the slot in it.
#[inline]
fn position(index: usize) -> (usize, usize) {
    let from_first = index + FIRST;
    let segment = from_first.ilog2() - FIRST.ilog2();
    (segment as usize, from_first - (FIRST << segment))
}

/// Locks a slot, also after a panic in a call that held the lock. The C interface catches the
/// panic, and the session continues with its state.
#[inline]
fn lock(slot: &Slot) -> MutexGuard<'_, Option<Session>> {
    slot.session.lock().unwrap_or_else(PoisonError::into_inner)
}
