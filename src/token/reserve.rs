//! Reserves the uses of keys: takes several in one commit, and gives each to one call.
//! `conformance/models` tries many orders of the steps of threads and processes.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::id::ObjectHandle;
use crate::sync::{Mutex, PoisonError};

/// The uses of each key that were taken in the store and not used yet.
#[derive(Default)]
pub(super) struct Reserved(Mutex<HashMap<ObjectHandle, Range<u64>>>);

impl Reserved {
    /// Returns the number of a use of this key. No other call gets the number. If this process has
    /// no use of the key, `reserve` takes some in the store.
    pub(super) fn take(
        &self,
        key: ObjectHandle,
        reserve: impl FnOnce() -> Result<Range<u64>>,
    ) -> Result<u64> {
        // Threads that need the same key would have to wait for the commit anyway.
        let mut reserved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut range = match reserved.remove(&key) {
            Some(range) => range,
            None => reserve()?,
        };
        let number = range.next().ok_or(Error::GeneralError)?;
        if !range.is_empty() {
            reserved.insert(key, range);
        }
        Ok(number)
    }
}

/// The counts of a key in the store.
#[derive(Clone, Copy)]
pub(super) struct Stock {
    /// `CKA_JETON_USES_LEFT`, if the uses are limited.
    pub(super) uses_left: Option<u64>,
    /// The number of the next one-time key, and how many are left, if the key is stateful.
    pub(super) one_time_keys: Option<(u64, u64)>,
}

impl Stock {
    /// Takes at most `count` uses. Returns their numbers; `None` if no use is left.
    pub(super) fn take(&mut self, count: u64) -> Option<Range<u64>> {
        let left = [self.uses_left, self.one_time_keys.map(|(_, left)| left)];
        let count = left.into_iter().flatten().fold(count, u64::min);
        let first = self.one_time_keys.map_or(0, |(next, _)| next);
        self.uses_left = self.uses_left.map(|left| left - count);
        self.one_time_keys = self.one_time_keys.map(|(next, left)| (next + count, left - count));
        (count != 0).then_some(first..first + count)
    }
}
