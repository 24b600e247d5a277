//! Gives slots to the tokens of the source.

use std::collections::HashSet;
use std::sync::Arc;

use super::tokens::SlotToken;
use super::{ListGuard, Slot, Tokens};
use crate::error::Result;
use crate::id::SlotId;
use crate::store::Header;
use crate::sync::lock;

impl Tokens {
    /// Gives slots to the tokens that have none. Makes sure that the last slot has no token. If
    /// this fails or the source cannot be reached, the slots keep their tokens.
    pub(super) fn scan(&self, _: &ListGuard<'_>) -> Result<()> {
        let headers = match self.source.list() {
            Err(reason) if self.source.is_outage(reason) && self.has_token() => return Ok(()),
            headers => headers?,
        };
        let mut slots = lock(&self.slots);
        if headers.is_empty() && !slots.is_empty() {
            return Ok(());
        }
        add(&mut slots, &headers);
        Ok(())
    }

    fn has_token(&self) -> bool {
        lock(&self.slots).iter().any(|slot| slot.token.is_some())
    }
}

fn add(slots: &mut Vec<Slot>, headers: &[Header]) {
    let known: HashSet<_> =
        slots.iter().filter_map(|slot| Some(slot.token.as_ref()?.serial.clone())).collect();
    let mut taken: HashSet<_> =
        slots.iter().filter(|slot| slot.token.is_some()).map(|slot| slot.id).collect();
    for header in headers.iter().filter(|header| !known.contains(&header.serial)) {
        // If another token has the slot that this token asks for, it gets the next free one.
        let wanted = SlotId(header.slot);
        let id = if taken.contains(&wanted) { next_free(slots) } else { wanted };
        taken.insert(id);
        slots.push(Slot { id, token: Some(Arc::new(SlotToken::new(id, header))) });
    }
    finish(slots);
}

/// Sorts the slots, and makes sure that the last one has no token.
pub(super) fn finish(slots: &mut Vec<Slot>) {
    slots.sort_by_key(|slot| (slot.id, slot.token.is_none()));
    // Another process may have initialised the token in a slot that is empty here.
    slots.dedup_by_key(|slot| slot.id);
    slots.sort_by_key(|slot| (slot.token.is_none(), slot.id));
    if slots.iter().all(|slot| slot.token.is_some()) {
        slots.push(Slot { id: next_free(slots), token: None });
    }
}

fn next_free(slots: &[Slot]) -> SlotId {
    SlotId(slots.iter().map(|slot| slot.id.0 + 1).max().unwrap_or(0))
}
