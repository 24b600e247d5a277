//! The layout of the record of an object.

use jeton_secret::Secret;
use serde::{Deserialize, Serialize};

use super::algorithms::TAG;
use crate::config::Format;
use crate::error::{Error, Result};
use crate::id::AttributeType;
use crate::object::Attributes;
use crate::object::attribute::{ObjectRules, ObjectTypes};
use crate::object::value::Value;
use crate::store::Tag;

/// The largest length of a record in bytes. A store reads no longer one.
pub(in crate::store) const LONGEST_RECORD: usize = 64 << 20;

/// The protection of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Encrypted.
    Private = 1,
    /// Readable and authenticated.
    Public = 2,
    /// The secret attributes are encrypted, and the others are readable. All of them are
    /// authenticated together.
    PublicKey = 3,
}

impl Kind {
    pub(super) fn for_object(attributes: &Attributes) -> Self {
        if attributes.flag(AttributeType::PRIVATE) == Some(true) {
            return Self::Private;
        }
        let hidden = attributes.object_type().is_some_and(ObjectTypes::is_hidden);
        if hidden { Self::PublicKey } else { Self::Public }
    }

    /// Returns the protection of a record; `None` if this version does not know its format.
    pub(crate) fn of(record: &[u8]) -> Option<Self> {
        Head::of(record).map(|head| head.kind)
    }

    pub(super) fn byte(self) -> u8 {
        self as u8
    }
}

/// The start of a record.
pub(super) struct Head {
    kind: Kind,
    /// The length with the nonce.
    len: usize,
}

impl Head {
    pub(super) fn of(record: &[u8]) -> Option<Self> {
        let [format, kind, ..] = record else { return None };
        let mut kinds = [Kind::Private, Kind::Public, Kind::PublicKey].into_iter();
        let kind = kinds.find(|known| known.byte() == *kind)?;
        Some(Self { kind, len: head_len(Format::numbered(*format)?) })
    }
}

pub(super) const fn head_len(format: Format) -> usize {
    2 + format.nonce_len()
}

/// Returns the authentication tag of a record; `None` if it is malformed.
pub fn tag(record: &[u8]) -> Option<Tag> {
    match Head::of(record)? {
        Head { kind: Kind::Public, len } => record.get(len..)?.first_chunk().copied(),
        _ => record.last_chunk().copied(),
    }
}

/// Reads the readable attributes of a record without verifying them; `None` if it is private or
/// malformed. Format 2 of the file stored the secret attributes of keys with `CKA_PRIVATE` false in
/// clear: they are skipped here.
pub fn peek(record: &[u8]) -> Option<Attributes> {
    let head = Head::of(record)?;
    let body = match head.kind {
        Kind::Private => return None,
        Kind::Public => record.get(head.len + TAG..)?,
        Kind::PublicKey => PublicKeyRecord::of(record)?.body,
    };
    let mut attributes = decode(body)?;
    let object_type = attributes.object_type();
    attributes.retain(|id| !is_sealed(id, object_type));
    Some(attributes)
}

/// Returns whether a record has a secret attribute in clear, as older versions stored it.
pub(crate) fn is_clear_key(record: &[u8], attributes: &Attributes) -> bool {
    Kind::of(record) == Some(Kind::Public) && Kind::for_object(attributes) != Kind::Public
}

/// Returns whether an attribute is encrypted in every record: the secret parts of keys, and check
/// values, which are computed from them.
pub(super) fn is_sealed(id: AttributeType, object_type: Option<ObjectTypes>) -> bool {
    object_type.is_some_and(|object_type| {
        object_type.is_hidden()
            && (id == AttributeType::CHECK_VALUE || ObjectRules::of(object_type).secret.contains(&id))
    })
}

/// The parts of a [`Kind::PublicKey`] record.
pub(super) struct PublicKeyRecord<'a> {
    /// The format, the kind and the nonce.
    pub(super) head: &'a [u8],
    /// The length of the body, and the body. It is authenticated and not encrypted.
    pub(super) readable: &'a [u8],
    pub(super) body: &'a [u8],
    /// The encrypted attributes and the tag.
    pub(super) sealed: &'a [u8],
}

impl<'a> PublicKeyRecord<'a> {
    pub(super) fn of(record: &'a [u8]) -> Option<Self> {
        let (head, rest) = record.split_at_checked(Head::of(record)?.len)?;
        let len = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
        let (readable, sealed) = rest.split_at_checked(len.checked_add(4)?)?;
        Some(Self { head, readable, body: &readable[4..], sealed })
    }
}

/// A value in its stored form: numbers have 64 bits on every platform. `T` is the same type one
/// level deeper. So the type limits the depth of nested templates; without a limit, a malicious
/// record could overflow the stack.
#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
enum Written<'a, T> {
    Flag(bool),
    Number(u64),
    #[serde(borrow)]
    Bytes(&'a [u8]),
    Numbers(Vec<u64>),
    Template(Vec<(u64, T)>),
}

/// The type below the deepest template. It has no values.
#[derive(Serialize, Deserialize)]
enum Nothing {}

/// The value of an attribute, with at most four levels of nested templates.
type Whole<'a> = Written<'a, Written<'a, Written<'a, Written<'a, Written<'a, Nothing>>>>>;

/// One level of nested templates.
trait Level<'a>: Sized {
    /// Converts a value to its stored form; `None` if its templates nest too deep.
    fn write(value: &'a Value) -> Option<Self>;

    fn revive(self) -> Value;
}

impl<'a> Level<'a> for Nothing {
    fn write(_: &'a Value) -> Option<Self> {
        None
    }

    fn revive(self) -> Value {
        match self {}
    }
}

impl<'a, T: Level<'a>> Level<'a> for Written<'a, T> {
    fn write(value: &'a Value) -> Option<Self> {
        Some(match value {
            Value::Flag(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(*number),
            Value::Bytes(bytes) => Self::Bytes(bytes),
            Value::Numbers(numbers) => Self::Numbers(numbers.clone()),
            Value::Template(inner) => {
                let inner = inner.iter().map(|(id, value)| Some((id.0, T::write(value)?)));
                Self::Template(inner.collect::<Option<_>>()?)
            }
        })
    }

    fn revive(self) -> Value {
        match self {
            Self::Flag(flag) => Value::Flag(flag),
            Self::Number(number) => Value::Number(number),
            Self::Bytes(bytes) => Value::Bytes(bytes.into()),
            Self::Numbers(numbers) => Value::Numbers(numbers),
            Self::Template(inner) => Value::Template(
                inner.into_iter().map(|(id, value)| (AttributeType(id), value.revive())).collect(),
            ),
        }
    }
}

pub(super) fn encode(attributes: &Attributes, wanted: impl Fn(AttributeType) -> bool) -> Result<Secret> {
    let flags = attributes.flags().filter(|(id, _)| wanted(*id));
    let flags = flags.map(|(id, flag)| Some((id.0, Whole::Flag(flag))));
    let values = attributes.iter().filter(|(id, _)| wanted(*id));
    let values = values.map(|(id, value)| Some((id.0, Whole::write(value)?)));
    let written: Vec<_> = flags.chain(values).collect::<Option<_>>().ok_or(Error::GeneralError)?;
    let size = postcard::experimental::serialized_size(&written).map_err(|_| Error::GeneralError)?;
    let mut out = Secret::zeroed(size);
    postcard::to_slice(&written, &mut out).map_err(|_| Error::GeneralError)?;
    Ok(out)
}

pub(super) fn decode(bytes: &[u8]) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    decode_into(&mut attributes, bytes)?;
    Some(attributes)
}

pub(super) fn decode_into(attributes: &mut Attributes, bytes: &[u8]) -> Option<()> {
    let (written, rest): (Vec<(u64, Whole<'_>)>, _) = postcard::take_from_bytes(bytes).ok()?;
    if !rest.is_empty() {
        return None;
    }
    written.into_iter().for_each(|(id, value)| attributes.put(AttributeType(id), value.revive()));
    Some(())
}
