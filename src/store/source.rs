//! Where the tokens of a module come from: a directory of files or a database server. A new store
//! implements [`TokenSource`] and [`Store`], and [`super::source`] returns it.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Header, Store};
use crate::error::{Error, Result};
use crate::id::SlotId;

/// Says whether [`TokenSource::list`] may find a new token now.
pub(crate) type Watch<'a> = Box<dyn FnMut() -> Result<bool> + 'a>;

/// Returns the slots of these tokens, in their order, beside those that are taken. The first token
/// that asks for a slot gets it. Then each of the others gets the next free one.
pub(crate) fn slots<'a>(
    mut taken: HashSet<SlotId>,
    headers: impl Iterator<Item = &'a Header>,
) -> Vec<SlotId> {
    let wanted = headers.map(|header| Some(SlotId(header.slot)).filter(|slot| taken.insert(*slot)));
    let wanted: Vec<_> = wanted.collect();
    let mut next = next_free(taken);
    let mut free = || {
        let free = next;
        next.0 += 1;
        free
    };
    wanted.into_iter().map(|slot| slot.unwrap_or_else(&mut free)).collect()
}

/// Returns the slot after those that are taken.
pub(crate) fn next_free(taken: impl IntoIterator<Item = SlotId>) -> SlotId {
    SlotId(taken.into_iter().map(|slot| slot.0 + 1).max().unwrap_or(0))
}

/// A place that tokens come from. It identifies each token by its serial number.
pub(crate) trait TokenSource: Send + Sync {
    /// Returns the headers of the tokens, in the order of their serial numbers or of their files.
    /// Leaves out copies and damaged tokens. May leave out the tokens that an earlier call returned
    /// or that [`create`](Self::create) made.
    fn list(&self) -> Result<Vec<Header>>;

    /// Returns a watch for one call of `C_WaitForSlotEvent`, which asks it several times a second.
    /// A source whose lists are cheap keeps the watch that always answers yes.
    fn watch(&self) -> Watch<'_> {
        Box::new(|| Ok(true))
    }

    fn create(&self, header: &Header) -> Result<()>;

    /// Returns the store of a token that [`list`](Self::list) returned or [`create`](Self::create)
    /// made. Fails with `DeviceRemoved` if the token was removed or replaced since.
    fn open(self: Arc<Self>, serial: &str) -> Result<Box<dyn Store>>;

    /// Reads the current header of a token without opening its store. `None` if only the store can
    /// tell.
    fn closed_header(&self, _serial: &str) -> Option<Header> {
        None
    }

    /// Returns whether a token whose store is not open can probably be written.
    fn looks_writable(&self, _serial: &str) -> bool {
        true
    }

    /// Returns whether this error of `list`, or of a store, means that the tokens cannot be reached
    /// now. Then their slots stay, with what was read last.
    fn is_outage(&self, _reason: Error) -> bool {
        false
    }
}
