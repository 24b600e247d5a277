//! Gives slots to the tokens of the source.

use std::collections::HashSet;
use std::sync::Arc;

use super::tokens::SlotToken;
use super::{ListGuard, Slot, Tokens};
use crate::error::Result;
use crate::id::SlotId;
use crate::store::{Header, source};
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
        self.add(&mut slots, &headers);
        Ok(())
    }

    fn has_token(&self) -> bool {
        lock(&self.slots).iter().any(|slot| slot.token.is_some())
    }

    fn add(&self, slots: &mut Vec<Slot>, headers: &[Header]) {
        let known: HashSet<_> =
            slots.iter().filter_map(|slot| Some(slot.token.as_ref()?.serial.clone())).collect();
        let new = headers.iter().filter(|header| !known.contains(&header.serial));
        let given = |header: &Header| Some(*self.settings.tokens.as_ref()?.slots.get(&header.serial)?);
        let (placed, others): (Vec<_>, Vec<_>) = new.partition(|header| given(header).is_some());
        let with_token = slots.iter().filter(|slot| slot.token.is_some()).map(|slot| slot.id);
        let ids = source::slots(with_token.chain(self.of_all()).collect(), others.iter().copied());
        let placed = placed.into_iter().filter_map(|header| Some((header, given(header)?)));
        for (header, id) in placed.chain(others.iter().copied().zip(ids)) {
            slots.push(Slot { id, token: Some(Arc::new(SlotToken::new(id, header))) });
        }
        self.finish(slots);
    }

    /// Returns the slots of all tokens of the directory, if the module sees only some.
    fn of_all(&self) -> impl Iterator<Item = SlotId> {
        self.settings.tokens.iter().flat_map(|seen| seen.slots.values().copied())
    }

    /// Sorts the slots, and makes sure that the last one has no token.
    pub(super) fn finish(&self, slots: &mut Vec<Slot>) {
        slots.sort_by_key(|slot| (slot.id, slot.token.is_none()));
        // Another process may have initialised the token in a slot that is empty here.
        slots.dedup_by_key(|slot| slot.id);
        slots.sort_by_key(|slot| (slot.token.is_none(), slot.id));
        if slots.iter().all(|slot| slot.token.is_some()) {
            let id = source::next_free(slots.iter().map(|slot| slot.id).chain(self.of_all()));
            slots.push(Slot { id, token: None });
        }
    }
}
