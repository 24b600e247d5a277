//! The value of an attribute. It is read once from the caller's bytes, and written in the caller's
//! representation.

use std::ffi::c_ulong;

use jeton_secret::Secret;
use jeton_words::attribute::ULONG;

pub use jeton_words::attribute::{AttributeView, Shown};

use super::template::{Raw, Template};
use crate::error::{Error, Result, require};
use crate::id::AttributeType;

/// The form of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `CK_BBOOL`.
    Flag,
    /// `CK_ULONG`.
    Number,
    /// Any bytes, including text.
    Bytes,
    /// An unsigned big-endian integer; leading zeros are dropped.
    Integer,
    /// `CK_DATE`: eight digits, or empty.
    Date,
    /// An array of `CK_ULONG`.
    Numbers,
    /// An array of attributes.
    Template,
}

/// The value of an attribute. Bytes are wiped when they are dropped, whether they are secret or
/// not.
pub(crate) enum Value {
    /// [`Kind::Flag`]
    Flag(bool),
    /// [`Kind::Number`]
    Number(u64),
    /// [`Kind::Bytes`], [`Kind::Integer`], [`Kind::Date`]
    Bytes(Secret),
    /// [`Kind::Numbers`]
    Numbers(Vec<u64>),
    /// [`Kind::Template`]
    Template(Vec<(AttributeType, Value)>),
}

impl Value {
    /// Reads a caller's value. Fails with `AttributeValueInvalid` if it does not have the form
    /// `kind`. `kind_of` returns the forms of nested attributes.
    pub(crate) fn read(
        kind: Kind,
        raw: &Raw<'_>,
        kind_of: &dyn Fn(AttributeType) -> Option<Kind>,
    ) -> Result<Self> {
        match (kind, raw) {
            (Kind::Template, Raw::Template(template)) => Self::nested(template, kind_of),
            (Kind::Template, Raw::Bytes([])) => Ok(Self::Template(Vec::new())),
            (Kind::Template, _) | (_, Raw::Template(_)) => Err(Error::AttributeValueInvalid),
            (kind, Raw::Bytes(bytes)) => Self::flat(kind, bytes),
        }
    }

    /// Returns the value in the caller's representation.
    pub(crate) fn view(&self) -> AttributeView<'_> {
        match self {
            Self::Flag(flag) => AttributeView::flag(*flag),
            Self::Number(number) => AttributeView::Bytes(Shown::Number(native(*number))),
            Self::Bytes(bytes) => AttributeView::Bytes(Shown::Held(bytes)),
            Self::Numbers(numbers) => {
                AttributeView::Bytes(Shown::Made(numbers.iter().flat_map(|number| native(*number)).collect()))
            }
            Self::Template(attributes) => {
                AttributeView::Template(attributes.iter().map(|(id, value)| (*id, value.view())).collect())
            }
        }
    }

    /// Returns a copy. There is no `Clone`, so that each copy of a secret is visible in the code.
    pub(crate) fn duplicate(&self) -> Self {
        match self {
            Self::Flag(flag) => Self::Flag(*flag),
            Self::Number(number) => Self::Number(*number),
            Self::Bytes(bytes) => Self::Bytes(bytes.duplicate()),
            Self::Numbers(numbers) => Self::Numbers(numbers.clone()),
            Self::Template(attributes) => {
                Self::Template(attributes.iter().map(|(id, value)| (*id, value.duplicate())).collect())
            }
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Flag(a), Self::Flag(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a[..] == b[..],
            (Self::Numbers(a), Self::Numbers(b)) => a == b,
            (Self::Template(a), Self::Template(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((i, x), (j, y))| i == j && x.equals(y))
            }
            _ => false,
        }
    }

    /// Returns the approximate number of bytes in the value.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Flag(_) => 1,
            Self::Number(_) => 8,
            Self::Bytes(bytes) => bytes.len(),
            Self::Numbers(numbers) => numbers.len() * 8,
            Self::Template(attributes) => attributes.iter().map(|(_, value)| 8 + value.size()).sum(),
        }
    }

    /// Returns an upper bound of the memory in bytes, with the place in the list of attributes.
    pub(crate) fn footprint(&self) -> usize {
        const PLACE: usize = 2 * size_of::<(AttributeType, Value)>();
        PLACE
            + match self {
                Self::Flag(_) | Self::Number(_) => 0,
                // Short secrets are in blocks whose sizes are powers of two.
                Self::Bytes(bytes) => 2 * bytes.len(),
                Self::Numbers(numbers) => numbers.len() * 8,
                Self::Template(attributes) => attributes.iter().map(|(_, value)| value.footprint()).sum(),
            }
    }

    fn flat(kind: Kind, bytes: &[u8]) -> Result<Self> {
        Ok(match kind {
            Kind::Flag => Self::Flag(flag(bytes)?),
            Kind::Number => Self::Number(number(bytes)?),
            Kind::Bytes => Self::Bytes(bytes.into()),
            Kind::Integer => Self::Bytes(unpadded(bytes).into()),
            Kind::Date => match bytes {
                [] => Self::Bytes(Secret::default()),
                _ if is_date(bytes) => Self::Bytes(bytes.into()),
                _ => return Err(Error::AttributeValueInvalid),
            },
            Kind::Numbers => {
                let chunks = bytes.chunks_exact(ULONG);
                require(chunks.remainder().is_empty(), Error::AttributeValueInvalid)?;
                Self::Numbers(chunks.map(number).collect::<Result<_>>()?)
            }
            Kind::Template => return Err(Error::AttributeValueInvalid),
        })
    }

    fn nested(template: &Template<'_>, kind_of: &dyn Fn(AttributeType) -> Option<Kind>) -> Result<Self> {
        let attributes = template.0.iter().map(|given| {
            let kind = kind_of(given.id).ok_or(Error::AttributeTypeInvalid)?;
            Ok((given.id, Self::read(kind, &given.value, kind_of)?))
        });
        Ok(Self::Template(attributes.collect::<Result<_>>()?))
    }
}

/// Returns whether the bytes are a valid calendar date in the form of `CK_DATE`: year, month, day.
fn is_date(bytes: &[u8]) -> bool {
    if bytes.len() != 8 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let (year, month, day) = (number(&bytes[..4]), number(&bytes[4..6]) as usize, number(&bytes[6..]));
    (1..=super::clock::month_len(year, month)).contains(&day)
}

/// Returns a big-endian integer without its leading zero bytes.
pub(crate) fn unpadded(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..]
}

/// Returns the size of a big-endian integer in bits.
pub(crate) fn bit_size(number: &[u8]) -> u64 {
    let digits = unpadded(number);
    digits.len() as u64 * 8 - u64::from(digits.first().map_or(0, |digit| digit.leading_zeros()))
}

/// Reads a `CK_BBOOL`. Fails with `AttributeValueInvalid` if the length is wrong. PKCS#11 3.2,
/// "General data types": CK_TRUE is 1. Some applications send other non-zero bytes.
pub(super) fn flag(bytes: &[u8]) -> Result<bool> {
    if let [byte] = bytes { Ok(*byte != 0) } else { Err(Error::AttributeValueInvalid) }
}

/// Reads a `CK_ULONG` in the caller's byte order. Fails with `AttributeValueInvalid` if the length
/// is wrong.
pub(crate) fn number(bytes: &[u8]) -> Result<u64> {
    let bytes: [u8; ULONG] = bytes.try_into().map_err(|_| Error::AttributeValueInvalid)?;
    #[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
    Ok(u64::from(c_ulong::from_ne_bytes(bytes)))
}

/// Writes a number as a `CK_ULONG` in the caller's byte order.
#[allow(clippy::cast_possible_truncation, reason = "on a 32-bit platform CK_ULONG itself has 32 bits")]
pub(crate) fn native(number: u64) -> [u8; ULONG] {
    (number as c_ulong).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, bytes: &[u8]) -> Result<Value> {
        Value::read(kind, &Raw::Bytes(bytes), &|_| None)
    }

    #[test]
    fn a_value_of_the_wrong_length_is_refused() {
        for (kind, bytes) in [
            (Kind::Flag, &[][..]),
            (Kind::Flag, &[0, 1][..]),
            (Kind::Number, &[1, 2, 3][..]),
            (Kind::Numbers, &[0; 9][..]),
            (Kind::Date, b"2026112"),
            (Kind::Date, b"2026-1-1"),
            (Kind::Date, b"20260229"),
            (Kind::Date, b"20261301"),
            (Kind::Date, b"20260100"),
            (Kind::Template, &[1][..]),
        ] {
            assert_eq!(read(kind, bytes).err(), Some(Error::AttributeValueInvalid), "{kind:?} {bytes:?}");
        }
    }

    #[test]
    fn the_size_in_bits_ignores_leading_zeros() {
        assert_eq!([&[][..], &[0, 0], &[0, 1], &[1, 0, 1]].map(bit_size), [0, 0, 1, 17]);
    }

    #[test]
    fn integers_lose_their_leading_zeros_and_bytes_keep_them() {
        let Ok(Value::Bytes(integer)) = read(Kind::Integer, &[0, 0, 1, 0]) else { panic!("bytes") };
        assert_eq!(&integer[..], [1, 0]);
        let Ok(Value::Bytes(bytes)) = read(Kind::Bytes, &[0, 1]) else { panic!("bytes") };
        assert_eq!(&bytes[..], [0, 1]);
    }

    #[test]
    fn numbers_are_returned_in_native_order() {
        let value = read(Kind::Number, &native(0x1234)).expect("a number");
        let AttributeView::Bytes(bytes) = value.view() else { panic!("bytes") };
        assert_eq!(bytes[..], native(0x1234));
    }
}
