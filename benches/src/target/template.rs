//! The templates of the objects that the bench makes.

use cryptoki_sys::*;
use jeton_client::Attribute;

use super::{Home, Template};
use crate::scheme::{Aead, Kind, Pair};

/// The attributes that a client reads from a private key.
pub(super) const FIVE: [CK_ATTRIBUTE_TYPE; 5] = [CKA_CLASS, CKA_KEY_TYPE, CKA_LABEL, CKA_ID, CKA_SIGN];

fn kept(home: Home) -> Attribute {
    Attribute::flag(CKA_TOKEN, home == Home::Token)
}

pub(super) fn public(pair: &Pair, home: Home) -> Template {
    let mut template = pair.domain();
    template.push(kept(home));
    template.push(match pair.kind {
        Kind::MlKem(_) => Attribute::flag(CKA_ENCAPSULATE, true),
        _ => Attribute::flag(CKA_VERIFY, true),
    });
    template
}

/// Returns the template of a private key, sensitive and private as an application keeps it.
pub(super) fn private(pair: &Pair, home: Home) -> Template {
    vec![
        kept(home),
        Attribute::flag(CKA_PRIVATE, true),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_EXTRACTABLE, false),
        Attribute::bytes(CKA_LABEL, b"bench".to_vec()),
        Attribute::bytes(CKA_ID, [7; 20]),
        match pair.kind {
            Kind::MlKem(_) => Attribute::flag(CKA_DECAPSULATE, true),
            _ => Attribute::flag(CKA_SIGN, true),
        },
    ]
}

pub(super) fn aes(home: Home) -> Template {
    vec![
        kept(home),
        Attribute::number(CKA_VALUE_LEN, 32),
        Attribute::flag(CKA_PRIVATE, true),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_ENCRYPT, true),
        Attribute::flag(CKA_DECRYPT, true),
    ]
}

/// Returns the template of a generated key for a cipher. The length of a ChaCha20 key is fixed.
pub(super) fn cipher_key(cipher: Aead, home: Home) -> Template {
    let mut template = aes(home);
    if cipher == Aead::ChaCha20Poly1305 {
        template.retain(|attribute| attribute.kind != CKA_VALUE_LEN);
    }
    template
}

pub(super) fn generic(home: Home) -> Template {
    vec![
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, CKK_GENERIC_SECRET),
        kept(home),
        Attribute::flag(CKA_SIGN, true),
        Attribute::bytes(CKA_VALUE, [9; 32]),
    ]
}

/// Returns the template of the shared secret of a key encapsulation.
pub(super) fn received() -> Template {
    vec![
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, CKK_GENERIC_SECRET),
        kept(Home::Session),
    ]
}

pub(super) const LABEL_AT: usize = 0;
pub(super) const ID_AT: usize = 1;

/// Returns the template of the AES key with this number. The bench makes these keys and searches
/// for them.
pub fn aes_object(number: usize, home: Home) -> Template {
    vec![
        Attribute::bytes(CKA_LABEL, label(number)),
        Attribute::bytes(CKA_ID, id(number)),
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, CKK_AES),
        kept(home),
        Attribute::flag(CKA_PRIVATE, true),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_ENCRYPT, true),
        Attribute::flag(CKA_DECRYPT, true),
        Attribute::bytes(CKA_VALUE, [3; 16]),
    ]
}

/// Returns the label of the object with this number. All labels have the same length.
pub(super) fn label(number: usize) -> [u8; 23] {
    let mut label = *b"object 0000000000000000";
    for (at, byte) in label[7..].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(number >> (60 - 4 * at)) & 15];
    }
    label
}

pub(super) fn id(number: usize) -> [u8; 8] {
    (number as u64).to_be_bytes()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Findable {
    Label,
    Id,
    ClassAndId,
    All,
}

pub const FINDABLE: [Findable; 4] = [Findable::Label, Findable::Id, Findable::ClassAndId, Findable::All];

impl Findable {
    pub fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Id => "id",
            Self::ClassAndId => "class-id",
            Self::All => "all",
        }
    }

    /// Returns the template, and the index of the value that changes.
    pub(super) fn template(self) -> (Template, Option<usize>) {
        let class = Attribute::number(CKA_CLASS, CKO_SECRET_KEY);
        match self {
            Self::Label => (vec![Attribute::bytes(CKA_LABEL, label(0))], Some(0)),
            Self::Id => (vec![Attribute::bytes(CKA_ID, id(0))], Some(0)),
            Self::ClassAndId => (vec![class, Attribute::bytes(CKA_ID, id(0))], Some(1)),
            Self::All => (Vec::new(), None),
        }
    }

    pub(super) fn value(self, number: usize) -> Vec<u8> {
        if self == Self::Label { label(number).to_vec() } else { id(number).to_vec() }
    }
}

/// The values of successive searches. Two successive values belong to objects that are far apart in
/// the token, so that a cache helps little. The values are contiguous in memory, so that reading
/// them takes little time.
pub(super) struct Values {
    bytes: Vec<u8>,
    len: usize,
    at: usize,
}

impl Values {
    /// Prepares a value for each object, at most 100,000.
    pub(super) fn new(what: Findable, count: usize) -> Self {
        const MOST: usize = 100_000;
        // The step shares no factor with a power of ten.
        const STEP: usize = 7_368_787;
        let values = (0..count.min(MOST)).map(|number| what.value((number * STEP) % count));
        let bytes: Vec<u8> = values.flatten().collect();
        Self { len: what.value(0).len(), bytes, at: 0 }
    }

    /// Returns the next value, and the first one again after the last.
    pub(super) fn next(&mut self) -> &[u8] {
        if self.at == self.bytes.len() {
            self.at = 0;
        }
        self.at += self.len;
        &self.bytes[self.at - self.len..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_of_searches_finds_every_object_once() {
        let mut values = Values::new(Findable::Id, 1000);
        let mut round: Vec<_> = (0..1000).map(|_| values.next().to_vec()).collect();
        assert_eq!(values.next(), round[0]);
        round.sort();
        assert_eq!(round, (0..1000).map(|number| id(number).to_vec()).collect::<Vec<_>>());
    }
}
