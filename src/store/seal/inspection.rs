//! Looks for damage in the rows and records of a token: all that can be seen without a PIN, and
//! with the token key every altered record.

use super::record::{self as layout, Kind};
use super::summary::Summary;
use super::{TokenKey, pin_record};
use crate::id::{AttributeType as A, KeyType};
use crate::object::{Attributes, cnsa2};
use crate::store::{Change, Header, Inspection, Row};

/// After this number of findings, further damaged objects are only counted, and further keys
/// outside of CNSA 2.0 are left out.
pub(in crate::store) const MOST: usize = 100;

/// Takes the objects of a token one after the other.
pub(in crate::store) struct Inspector<'a> {
    header: &'a Header,
    key: Option<&'a TokenKey>,
    objects: u64,
    damage: Vec<String>,
    outside_cnsa2: Vec<String>,
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
            if pin_record::pin_cost(record).is_none() {
                damage.push(format!("the record of the {whose} is malformed"));
            }
        }
        let (outside_cnsa2, found) = (Vec::new(), Summary::empty(Change(0)));
        Self { header, key, objects: 0, damage, outside_cnsa2, found, others: 0 }
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
    fn wrong_with(&mut self, row: &Row, record: Option<&[u8]>) -> Option<&'static str> {
        let Some(record) = record else { return Some("its record is missing") };
        let Some(kind) = Kind::of(record) else { return Some("its record has an unknown format") };
        if layout::tag(record) != Some(row.tag) {
            return Some("its record is not the one that its row names");
        }
        if (kind == Kind::Private) != row.private {
            return Some("its row and its record differ in CKA_PRIVATE");
        }
        if kind != Kind::Private && layout::peek(record).is_none() {
            return Some("its public attributes are malformed");
        }
        let opened = self.key?.open(&self.header.serial, row.id, record);
        let outside = opened.as_ref().filter(|key| is_outside_cnsa2(key));
        self.outside_cnsa2.extend(outside.filter(|_| self.outside_cnsa2.len() < MOST).map(describe));
        opened.is_none().then_some("its record was altered")
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
        Inspection { objects: self.objects, damage: self.damage, outside_cnsa2: self.outside_cnsa2 }
    }
}

fn is_outside_cnsa2(attributes: &Attributes) -> bool {
    let is_key = attributes.object_type().is_some_and(|object_type| object_type.is_key());
    is_key && !cnsa2::is_in_suite(attributes).unwrap_or(false)
}

/// Returns the label and the type of a key.
fn describe(attributes: &Attributes) -> String {
    let label = String::from_utf8_lossy(attributes.bytes(A::LABEL).unwrap_or_default()).into_owned();
    let key_type = KeyType(attributes.number(A::KEY_TYPE).unwrap_or_default());
    format!("{label:?} ({key_type})")
}
