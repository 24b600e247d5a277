//! The sessions of a process: fixed slots, each on cache lines of its own, found by the low bits of a handle.
//!
//! A slot is locked by its session's own calls alone; there is no lock, count or map that two sessions share. The
//! upper bits of a handle are the slot's generation, so that a closed session's handle is never another's.

use super::Session;
use crate::error::{Error, Result};
use crate::id::SessionHandle;
use crate::sync::{AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, PoisonError};

/// Most sessions at once.
pub const MAX_SESSIONS: usize = SEGMENTS * SEGMENT;
/// Slots come into being this many at a time.
const SEGMENT: usize = 256;
const SEGMENTS: usize = 256;
/// Bits of a handle that are the slot's number plus one.
const INDEX_BITS: u32 = 17;
const _: () = assert!(MAX_SESSIONS < 1 << INDEX_BITS);
/// Generations wrap before a handle would leave 48 bits, which every client's own handle type holds.
const GENERATIONS: u64 = 1 << 31;

/// The table.
pub struct SessionTable {
    segments: [OnceLock<Box<[Slot]>>; SEGMENTS],
    free: Mutex<FreeList>,
}

/// A place for one session. Two cache lines, for processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    session: Mutex<Option<Session>>,
    generation: AtomicU64,
}

/// The slots that no session has.
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
    /// Opens a session in a free slot; `make` is given the handle that it will have.
    pub fn open(&self, make: impl FnOnce(SessionHandle) -> Result<Session>) -> Result<SessionHandle> {
        let index = self.take_slot()?;
        let slot = self.slot(index);
        let generation = slot.generation.load(Ordering::Relaxed) % GENERATIONS + 1;
        let handle = SessionHandle(generation << INDEX_BITS | (index as u64 + 1));
        let session = make(handle).inspect_err(|_| self.free().returned.push(index))?;
        slot.generation.store(generation, Ordering::Relaxed);
        *lock(slot) = Some(session);
        Ok(handle)
    }

    /// Ends a session; its operations end with it.
    pub fn close(&self, handle: SessionHandle) -> Result<Session> {
        let (index, slot) = self.find(handle).ok_or(Error::SessionHandleInvalid)?;
        let session = {
            let mut place = lock(slot);
            match place.as_ref() {
                Some(session) if session.handle == handle => place.take(),
                _ => None,
            }
        };
        let session = session.ok_or(Error::SessionHandleInvalid)?;
        self.free().returned.push(index);
        Ok(session)
    }

    /// Does something with a session, which no other call uses meanwhile.
    pub fn with<T>(&self, handle: SessionHandle, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let (_, slot) = self.find(handle).ok_or(Error::SessionHandleInvalid)?;
        match lock(slot).as_mut() {
            Some(session) if session.handle == handle => work(session),
            _ => Err(Error::SessionHandleInvalid),
        }
    }

    /// Does something with every session.
    pub fn for_each(&self, mut work: impl FnMut(&mut Session)) {
        for slot in self.segments.iter().filter_map(OnceLock::get).flat_map(|segment| segment.iter()) {
            if let Some(session) = lock(slot).as_mut() {
                work(session);
            }
        }
    }

    fn find(&self, handle: SessionHandle) -> Option<(usize, &Slot)> {
        let index = usize::try_from(handle.0 & ((1 << INDEX_BITS) - 1)).ok()?.checked_sub(1)?;
        let segment = self.segments.get(index / SEGMENT)?.get()?;
        Some((index, &segment[index % SEGMENT]))
    }

    /// A slot that was taken, so that its segment is there.
    fn slot(&self, index: usize) -> &Slot {
        let segment = self.segments[index / SEGMENT]
            .get_or_init(|| std::iter::repeat_with(Slot::default).take(SEGMENT).collect());
        &segment[index % SEGMENT]
    }

    fn take_slot(&self) -> Result<usize> {
        let mut free = self.free();
        if let Some(index) = free.returned.pop() {
            return Ok(index);
        }
        if free.untouched == MAX_SESSIONS {
            return Err(Error::SessionCount);
        }
        free.untouched += 1;
        Ok(free.untouched - 1)
    }

    fn free(&self) -> MutexGuard<'_, FreeList> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A panic in a call is caught at the C interface; its session goes on with what it had.
fn lock(slot: &Slot) -> MutexGuard<'_, Option<Session>> {
    slot.session.lock().unwrap_or_else(PoisonError::into_inner)
}
