//! Looks for damage in the rows and records of a token: all that can be seen without a PIN, and
//! with the token key every altered record.

use super::summary::Summary;
use super::{self as seal, Kind, TokenKey};
use crate::store::{Change, Header, Inspection, Row};

/// After this number of findings, further damaged objects are only counted.
pub(in crate::store) const MOST: usize = 100;

/// Takes the objects of a token one after the other.
pub(in crate::store) struct Inspector<'a> {
    header: &'a Header,
    key: Option<&'a TokenKey>,
    objects: u64,
    damage: Vec<String>,
    /// The summary of the rows that were taken. It stays empty without a key.
    found: Summary,
    /// The number of damaged objects that `damage` does not list.
    others: u64,
}

impl<'a> Inspector<'a> {
    /// Begins with the PIN records of a token, and with damage that is already known.
    pub(in crate::store) fn new(
        header: &'a Header,
        key: Option<&'a TokenKey>,
        mut damage: Vec<String>,
    ) -> Self {
        let pins = [("SO PIN", &header.so.record), ("user PIN", &header.user.record)];
        for (whose, record) in pins.into_iter().filter(|(_, record)| !record.is_empty()) {
            if seal::pin_cost(record).is_none() {
                damage.push(format!("the record of the {whose} is malformed"));
            }
        }
        Self { header, key, objects: 0, damage, found: Summary::empty(Change(0)), others: 0 }
    }

    /// Takes an object; its record is `None` if it is missing.
    pub(in crate::store) fn object(&mut self, row: &Row, record: Option<&[u8]>) {
        self.objects += 1;
        if let Some(wrong) = self.wrong_with(row, record) {
            if self.damage.len() < MOST {
                self.damage.push(format!("object {}: {wrong}", row.id));
            } else {
                self.others += 1;
            }
        }
        if let Some(key) = self.key {
            self.found.add(key.row_hasher().hash(row));
        }
    }

    /// Returns the damage of an object.
    fn wrong_with(&self, row: &Row, record: Option<&[u8]>) -> Option<&'static str> {
        let Some(record) = record else { return Some("its record is missing") };
        let Some(kind) = Kind::of(record) else { return Some("its record has an unknown format") };
        if seal::tag(record) != Some(row.tag) {
            return Some("its record is not the one that its row names");
        }
        if (kind == Kind::Private) != row.private {
            return Some("its row and its record differ in CKA_PRIVATE");
        }
        if kind != Kind::Private && seal::peek(record).is_none() {
            return Some("its public attributes are malformed");
        }
        let altered = |key: &TokenKey| key.open(&self.header.serial, row.id, record).is_none();
        self.key.is_some_and(altered).then_some("its record was altered")
    }

    /// Takes the sealed summary, after the last object.
    pub(in crate::store) fn finish(mut self, summary: &[u8]) -> Inspection {
        if let Some(key) = self.key {
            let known = key.open_summary(&self.header.serial, self.header.change, summary);
            match known {
                None => self.damage.push("the summary of the objects was altered".to_owned()),
                Some(known) if known.differs(&self.found) => {
                    self.damage.push("objects were removed, added or replaced by older ones".to_owned());
                }
                Some(_) => {}
            }
        }
        if self.others > 0 {
            self.damage.push(format!("{} more objects are damaged", self.others));
        }
        Inspection { objects: self.objects, damage: self.damage }
    }
}
