//! Processes that use one key, and a store with the counts of its uses.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::id::ObjectHandle;
use crate::reserve::{Reserved, Stock};
use crate::sync::{Mutex, PoisonError, step};

const KEY: ObjectHandle = ObjectHandle(1);

/// How a process replaces counts that another process has changed since it read them.
#[derive(Clone, Copy)]
pub enum Change {
    /// Takes the uses again from the current counts, as `Token::commit_change` does.
    MadeAgain,
    /// Overwrites the change of the other process, which is wrong.
    Overwrites,
}

/// The number of changes, and the counts after the last one.
type Row = (u64, Stock);

/// A store with one key. A transaction takes one step, because the store runs one at a time.
pub struct Store(Mutex<Row>);

impl Store {
    pub fn new(one_time_keys: u64, limit: u64) -> Arc<Self> {
        let stock = Stock { uses_left: Some(limit), one_time_keys: Some((0, one_time_keys)) };
        Arc::new(Self(Mutex::new((0, stock))))
    }

    fn row(&self) -> Row {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process, whose threads share the object that they read last.
pub struct Process {
    store: Arc<Store>,
    seen: Mutex<Row>,
    reserved: Reserved,
    reserve: u64,
    change: Change,
}

impl Process {
    /// `reserve` is the number of uses of one commit.
    pub fn new(store: &Arc<Store>, reserve: u64, change: Change) -> Self {
        let seen = Mutex::new(store.row());
        Self { store: Arc::clone(store), seen, reserved: Reserved::default(), reserve, change }
    }

    /// Takes a use, and returns its number.
    pub fn take(&self) -> Result<u64> {
        self.reserved.take(KEY, || {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (changes, mut stock) = *seen;
            let mut range = stock.take(self.reserve);
            // Other processes may write here.
            step();
            let mut row = self.store.0.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(self.change, Change::MadeAgain) && row.0 != changes {
                stock = row.1;
                range = stock.take(self.reserve);
            }
            let range = range.ok_or(Error::KeyExhausted)?;
            *row = (row.0 + 1, stock);
            *seen = *row;
            Ok(range)
        })
    }
}
