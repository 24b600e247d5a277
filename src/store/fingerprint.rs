//! A hash of the whole content of a token. It shows that a copy of the token in another store has
//! the same content. Its key is public, so it finds errors and not an attacker: an attacker who
//! alters a record is found by the record's own tag.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use super::{Header, Row};

/// Takes the content of a token in the order of the numbers of its objects.
pub(super) struct Fingerprint {
    hasher: SipHasher24,
    objects: u64,
}

/// The hash of a token, and the number of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Content {
    hash: u128,
    objects: u64,
}

impl Fingerprint {
    /// Begins with a header, which has the summary of the rows.
    pub(super) fn new(header: &Header) -> Self {
        let Header { serial, slot, label, so, user, change, summary } = header;
        let mut fingerprint = Self { hasher: SipHasher24::new(), objects: 0 };
        for bytes in [serial.as_bytes(), label, &so.record, &user.record, summary] {
            fingerprint.bytes(bytes);
        }
        for number in [*slot, so.failures.into(), user.failures.into(), change.0.cast_unsigned()] {
            fingerprint.bytes(&number.to_le_bytes());
        }
        fingerprint
    }

    /// Takes the next object.
    pub(super) fn object(&mut self, row: &Row, record: &[u8]) {
        self.objects += 1;
        self.bytes(&row.id.to_le_bytes());
        self.bytes(&[row.private.into()]);
        self.bytes(&row.tag);
        row.index_keys.iter().for_each(|key| self.bytes(&key.to_le_bytes()));
        self.bytes(record);
    }

    /// Returns the content, after the last object.
    pub(super) fn finish(self) -> Content {
        Content { hash: self.hasher.finish128().as_u128(), objects: self.objects }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.hasher.write(&(bytes.len() as u64).to_le_bytes());
        self.hasher.write(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Change, PinState};

    fn header() -> Header {
        let pin = || PinState { record: vec![1, 2], failures: 3 };
        let (serial, label) = ("0123456789abcdef".to_owned(), [b'l'; 32]);
        Header { serial, slot: 4, label, so: pin(), user: pin(), change: Change(5), summary: vec![6] }
    }

    fn content(header: &Header, objects: &[(i64, &[u8])]) -> Content {
        let mut fingerprint = Fingerprint::new(header);
        for (id, record) in objects {
            let row = Row { id: *id, private: true, tag: [7; 16], index_keys: [8, 9].into_iter().collect() };
            fingerprint.object(&row, record);
        }
        fingerprint.finish()
    }

    #[test]
    fn each_difference_changes_the_fingerprint() {
        let objects: [(i64, &[u8]); 2] = [(1, b"one"), (2, b"two")];
        let same = content(&header(), &objects);
        assert_eq!(same, content(&header(), &objects));
        let changes: [fn(&mut Header); 7] = [
            |header| header.serial.push('0'),
            |header| header.slot += 1,
            |header| header.label[31] = b' ',
            |header| header.so.record.push(0),
            |header| header.user.failures += 1,
            |header| header.change = Change(6),
            |header| header.summary.clear(),
        ];
        for change in changes {
            let mut other = header();
            change(&mut other);
            assert_ne!(same, content(&other, &objects));
        }
        for objects in
            [&objects[..1], &[(1, b"one"), (3, b"two")], &[(1, b"one"), (2, b"too")], &[(1, b"onetwo")]]
        {
            assert_ne!(same, content(&header(), objects));
        }
    }
}
