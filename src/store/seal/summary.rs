//! The summary of all rows. It reveals rows that were removed, added, duplicated or replaced by
//! older ones.
//!
//! Each row has a hash, a keyed 128-bit hash of its content. The low bits of the row's number
//! select one of 64 sums, to which the hash is added. The sums are sealed under the token key,
//! together with the state of the store that they belong to. Source of this multiset hash by
//! addition: Clarke, Devadas, van Dijk, Gassend, Suh, "Incremental Multiset Hash Functions", 2003.
//!
//! A write only subtracts and adds the hashes of its own row, so its cost does not depend on the
//! number of rows. A login adds all hashes again. A wrong sum identifies a group of rows, not a
//! single row: the token leaves out the whole group.

use std::hash::Hasher;

use jeton_secret::Secret;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher24};

use super::algorithms::hmac;
use super::index::encode;
use crate::config::Format;
use crate::error::{Error, Result};
use crate::store::{Change, Row};

/// The number of sums. Each commit writes all of them, and a wrong one makes all rows of its
/// group suspect.
const SUMS: usize = 64;
pub(crate) const ROW_HASH_KEY: usize = 16;

pub(crate) struct RowHasher {
    format: Format,
    key: Secret,
}

#[derive(Clone, Copy)]
pub(crate) struct RowHash {
    sum: usize,
    value: u128,
}

impl RowHasher {
    pub(crate) fn new(format: Format, key: &[u8; ROW_HASH_KEY]) -> Self {
        Self { format, key: Secret::from(&key[..]) }
    }

    pub(in crate::store) fn key(&self) -> &[u8; ROW_HASH_KEY] {
        self.key.as_array().expect("the length that it was made with")
    }

    pub(crate) fn hash(&self, row: &Row) -> RowHash {
        // The integer methods of Hasher depend on the machine's byte order. The sums are stored, so
        // they must be the same on every machine.
        let (id, private) = (row.id.to_le_bytes(), [row.private.into()]);
        let value = match self.format {
            Format::Standard => {
                let mut hasher = SipHasher24::new_with_key(self.key());
                hasher.write(&id);
                hasher.write(&private);
                hasher.write(&row.tag);
                row.index_keys.iter().for_each(|key| hasher.write(&key.to_le_bytes()));
                hasher.finish128().as_u128()
            }
            Format::Fips => {
                u128::from_le_bytes(hmac(self.key(), &[&id, &private, &row.tag, &encode(&row.index_keys)]))
            }
        };
        RowHash { sum: bucket(row.id), value }
    }
}

/// The sums, and the state of the store that they belong to.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
pub struct Summary {
    pub(crate) change: i64,
    sums: Vec<u128>,
    /// How often the token key was used to encrypt a record or a summary. Older versions wrote no
    /// such number.
    #[serde(skip)]
    pub(super) sealed: u64,
}

impl Summary {
    /// Returns the summary of a token without rows.
    pub(crate) fn empty(change: Change) -> Self {
        Self { change: change.0, sums: vec![0; SUMS], sealed: 0 }
    }

    /// Adds the hash of a row whose record was encrypted.
    pub(crate) fn add(&mut self, hash: RowHash) {
        self.sealed = self.sealed.saturating_add(1);
        self.sums[hash.sum] = self.sums[hash.sum].wrapping_add(hash.value);
    }

    pub(crate) fn subtract(&mut self, hash: RowHash) {
        self.sums[hash.sum] = self.sums[hash.sum].wrapping_sub(hash.value);
    }

    /// Returns whether the two summaries have different sums for the group of the row with this
    /// number.
    pub(crate) fn group_differs(&self, other: &Self, id: i64) -> bool {
        self.sums[bucket(id)] != other.sums[bucket(id)]
    }

    pub(crate) fn differs(&self, other: &Self) -> bool {
        self.sums != other.sums
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(&(self, self.sealed.saturating_add(1))).map_err(|_| Error::GeneralError)
    }

    /// Decodes a summary. Returns `None` if it is malformed or has another number of sums.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut summary, sealed): (Self, _) = postcard::take_from_bytes(bytes).ok()?;
        if !sealed.is_empty() {
            summary.sealed = postcard::from_bytes(sealed).ok()?;
        }
        (summary.sums.len() == SUMS).then_some(summary)
    }
}

fn bucket(id: i64) -> usize {
    (id as u64 % SUMS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64, tag: u8) -> Row {
        Row { id, private: false, tag: [tag; 16], index_keys: [1, 2][..].into() }
    }

    #[test]
    fn sums_do_not_depend_on_order_and_a_removed_row_changes_only_its_sum() {
        let row_hasher = RowHasher::new(Format::Standard, &[3; ROW_HASH_KEY]);
        let rows = [row(1, 1), row(65, 2), row(2, 3)];
        let mut forwards = Summary::empty(Change(1));
        rows.iter().for_each(|row| forwards.add(row_hasher.hash(row)));
        let mut backwards = Summary::empty(Change(1));
        rows.iter().rev().for_each(|row| backwards.add(row_hasher.hash(row)));
        assert!(forwards == backwards);
        forwards.subtract(row_hasher.hash(&rows[1]));
        assert!(forwards.group_differs(&backwards, 1) && forwards.group_differs(&backwards, 65));
        assert!(!forwards.group_differs(&backwards, 2));
    }

    #[test]
    fn every_field_of_a_row_changes_its_hash() {
        let row_hasher = RowHasher::new(Format::Standard, &[3; ROW_HASH_KEY]);
        let hash = |row: &Row| row_hasher.hash(row).value;
        let first = row(1, 1);
        let others = [
            row(2, 1),
            row(1, 2),
            Row { private: true, ..row(1, 1) },
            Row { index_keys: [1, 3][..].into(), ..row(1, 1) },
            Row { index_keys: [1][..].into(), ..row(1, 1) },
        ];
        for other in &others {
            assert_ne!(hash(&first), hash(other));
        }
    }

    #[test]
    fn a_summary_is_decoded_as_it_was_encoded() {
        let mut summary = Summary::empty(Change(7));
        summary.add(RowHasher::new(Format::Standard, &[1; ROW_HASH_KEY]).hash(&row(5, 5)));
        let bytes = summary.encode().expect("encoded");
        let decoded = Summary::decode(&bytes).expect("decoded");
        // The record and the summary were encrypted.
        assert_eq!((decoded.change, decoded.differs(&summary), decoded.sealed), (7, false, 2));
        assert!(Summary::decode(&bytes[..bytes.len() - 2]).is_none());
    }
}
