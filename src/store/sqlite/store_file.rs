//! The file of a store, open or closed, and the facts that are known about a closed one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::SystemTime;

use super::file_identity::{FileId, Stamp};
use super::rows::change;
use super::{Kept, OpenFile};
use crate::store::Change;
use crate::sync::lock;

/// The file of a store, open or closed.
pub(super) struct Handle {
    pub(super) path: PathBuf,
    pub(super) file: FileId,
    pub(super) state: Mutex<State>,
    /// The time of the last use, by the clock of the pool.
    pub(super) last_use: AtomicU64,
    pub(super) write_protected: AtomicBool,
}

/// Whether the file is open. `Handle::state` stays locked while the file is opened or closed.
pub(super) enum State {
    /// Each call that uses the file has a reference to it.
    Open(Arc<OpenFile>),
    Closed(Closed),
}

/// The facts that are known about a closed file.
pub(super) struct Closed {
    /// The stamp after the close. `None` if another process may have changed the file at that
    /// moment.
    pub(super) stamp: Option<Stamp>,
    pub(super) change: Change,
    pub(super) kept: Kept,
}

impl State {
    /// Returns the state of a closed file about which no facts are known.
    pub(super) fn unknown() -> Self {
        Self::Closed(Closed { stamp: None, change: Change(0), kept: Kept::default() })
    }
}

impl Handle {
    pub(super) fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    /// Returns the state if the file is open and no call is using it.
    pub(super) fn try_idle(&self) -> Option<MutexGuard<'_, State>> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // References are made only under this lock.
        matches!(&*state, State::Open(file) if Arc::strong_count(file) == 1).then_some(state)
    }

    /// Closes the file, which no call is using.
    pub(super) fn close(&self, state: &mut MutexGuard<'_, State>) {
        let unknown = State::unknown();
        let State::Open(file) = std::mem::replace(&mut **state, unknown) else { return };
        if let Some(file) = Arc::into_inner(file) {
            self.write_protected.store(file.is_write_protected(), Ordering::Release);
            **state = State::Closed(close(file, &self.path));
        }
    }
}

impl Closed {
    /// Returns whether nothing was written to the file since it was closed.
    pub(super) fn is_current(&self, path: &Path) -> bool {
        let known = self.stamp.as_ref();
        known.is_some_and(|known| Stamp::of(path).is_some_and(|now| now.has_content_of(known)))
    }
}

/// Closes a file. Detects a change of another process at this moment: either SQLite sees the
/// change, or the stamps before and after differ.
fn close(file: OpenFile, path: &Path) -> Closed {
    let before = Stamp::of(path);
    let look = || -> rusqlite::Result<Change> {
        file.note_others(&lock(&file.writer))?;
        change(&lock(&file.reader))
    };
    let change = look();
    let kept = file.kept();
    drop(file);
    let stamp = Stamp::of(path).filter(|after| {
        change.is_ok()
            && after.was_settled(SystemTime::now())
            && before.is_some_and(|before| after.has_content_of(&before))
    });
    Closed { stamp, change: change.unwrap_or(Change(0)), kept }
}
