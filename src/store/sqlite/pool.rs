//! Limits the number of token files that a module has open. If all places are taken, the pool
//! closes the least recently used file, and the new file gets its place.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tracing::error;

use super::store_file::Handle;
use crate::error::{Error, Result};
use crate::file_lock;
use crate::sync::lock;

/// The places of open token files.
pub(super) struct Pool {
    limit: usize,
    places: Mutex<Places>,
    /// Signalled when a file may be closed or a place is free.
    freed: Condvar,
    waiting: AtomicUsize,
    /// Counts the uses of all files, which gives each use a time.
    clock: AtomicU64,
}

struct Places {
    /// The number of places in use, with those of files that are being opened.
    taken: usize,
    open: Vec<Arc<Handle>>,
}

impl Pool {
    /// Returns a pool for this number of open files.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.max(1),
            places: Mutex::new(Places { taken: 0, open: Vec::new() }),
            freed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
        })
    }

    /// Returns the time of a use.
    pub(super) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a place for a file that the caller opens. If no place is free, closes an unused file.
    /// If all files are in use, waits for one, but not longer than `file_lock::LIMIT`.
    pub(super) fn take_place(&self) -> Result<()> {
        let end = Instant::now() + file_lock::LIMIT;
        let mut places = lock(&self.places);
        loop {
            if places.taken < self.limit {
                places.taken += 1;
                return Ok(());
            }
            places = match close_one(places) {
                // The caller gets the place of the closed file.
                Ok(()) => return Ok(()),
                Err(places) => places,
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                error!(
                    limit = self.limit,
                    "store: all token files that may be open ([store] open-tokens) are in use"
                );
                return Err(Error::HostMemory);
            }
            self.waiting.fetch_add(1, Ordering::SeqCst);
            places = self.freed.wait_timeout(places, left).unwrap_or_else(PoisonError::into_inner).0;
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Closes the least recently used file that no call is using, so that its descriptors are free.
    /// Returns false if there is no such file.
    pub(super) fn shrink(&self) -> bool {
        let closed = close_one(lock(&self.places)).is_ok();
        if closed {
            self.free_place();
        }
        closed
    }

    /// Adds a file to the open files. The caller has taken a place for it and has opened it.
    pub(super) fn list(&self, handle: &Arc<Handle>) {
        lock(&self.places).open.push(Arc::clone(handle));
        self.wake();
    }

    /// Gives a place back.
    pub(super) fn free_place(&self) {
        lock(&self.places).taken -= 1;
        self.wake();
    }

    /// Forgets a file whose store is dropped. Returns whether it was listed.
    pub(super) fn forget(&self, handle: &Arc<Handle>) -> bool {
        let mut places = lock(&self.places);
        let before = places.open.len();
        places.open.retain(|known| !Arc::ptr_eq(known, handle));
        places.open.len() != before
    }

    /// Wakes the threads that wait for a file that may be closed.
    pub(super) fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // A thread that waits holds this lock from its check until it sleeps, so that it does
            // not miss the wake-up.
            drop(lock(&self.places));
            self.freed.notify_all();
        }
    }
}

/// Closes the least recently used file that no call is using. Releases the lock of the pool before
/// it closes the file. Returns the lock if there is no such file.
fn close_one(mut places: MutexGuard<'_, Places>) -> std::result::Result<(), MutexGuard<'_, Places>> {
    let mut order = places.open.clone();
    order.sort_by_key(|handle| handle.last_use());
    for handle in order {
        // A lock that is held belongs to a file in use.
        let Some(mut state) = handle.try_idle() else { continue };
        places.open.retain(|known| !Arc::ptr_eq(known, &handle));
        drop(places);
        handle.close(&mut state);
        return Ok(());
    }
    Err(places)
}
