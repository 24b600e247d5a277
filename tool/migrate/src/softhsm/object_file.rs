//! Object files of SoftHSMv2. Numbers are big-endian and have 8 bytes.
//!
//! A file is a generation number, then attributes: type, kind, value. A byte array and a template
//! begin with their length in bytes, a list of mechanisms with its count.

use std::path::Path;

use zeroize::Zeroizing;

use super::Attributes;
use crate::{Error, Value};

pub(super) fn parse(path: &Path, content: &[u8]) -> Result<Attributes, Error> {
    attributes(content).map_err(|reason| Error::damaged(path, reason))
}

fn attributes(bytes: &[u8]) -> Result<Attributes, String> {
    let mut reader = Reader { bytes, at: 0 };
    reader.number()?;
    let mut read = Attributes::new();
    while reader.at < bytes.len() {
        let (kind, value) = reader.attribute(Depth::Object)?;
        read.insert(kind, value);
    }
    Ok(read)
}

/// Whether an attribute is in the object itself, or in a template of the object. A template
/// contains no template.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Object,
    Template,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn attribute(&mut self, depth: Depth) -> Result<(u64, Value), String> {
        let kind = self.number()?;
        let value = match self.number()? {
            // File::readBool treats every byte except 0 as true.
            1 => Value::Flag(self.take(1)?[0] != 0),
            2 => Value::Number(self.number()?),
            3 => Value::Bytes(Zeroizing::new(self.counted()?.to_vec())),
            4 if depth == Depth::Object => {
                let mut inner = Reader { bytes: self.counted()?, at: 0 };
                let mut attributes = Vec::new();
                while inner.at < inner.bytes.len() {
                    attributes.push(inner.attribute(Depth::Template)?);
                }
                Value::Template(attributes)
            }
            5 => {
                let count = usize::try_from(self.number()?).ok().and_then(|count| count.checked_mul(8));
                let bytes = self.take(count.ok_or("a list of mechanisms is too long")?)?;
                Value::Mechanisms(bytes.chunks_exact(8).map(number).collect())
            }
            other => return Err(format!("attribute 0x{kind:X} has the unknown kind {other}")),
        };
        Ok((kind, value))
    }

    fn counted(&mut self) -> Result<&'a [u8], String> {
        let length = usize::try_from(self.number()?).map_err(|_| "a length is too large")?;
        self.take(length)
    }

    fn number(&mut self) -> Result<u64, String> {
        self.take(8).map(number)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let taken = self.at.checked_add(length).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| format!("the file ends within the value at byte {}", self.at))?;
        self.at += length;
        Ok(taken)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let n = |number: u64| number.to_be_bytes();
        let inner = file(&[&n(0x162), &n(1), &[0xff]]);
        let bytes = file(&[
            &n(28),
            &file(&[&n(1), &n(1), &[0xff]]),
            &file(&[&n(0), &n(2), &n(3)]),
            &file(&[&n(3), &n(3), &n(2), b"ab"]),
            &file(&[&n(0x4000_0211), &n(4), &n(inner.len() as u64), &inner]),
            &file(&[&n(0x4000_0600), &n(5), &n(2), &n(1), &n(0x1041)]),
        ]);
        let read = attributes(&bytes).expect("a sound file");
        assert_eq!(read[&1], Value::Flag(true));
        assert_eq!(read[&0], Value::Number(3));
        assert_eq!(read[&3], Value::Bytes(b"ab".to_vec().into()));
        assert_eq!(read[&0x4000_0211], Value::Template(vec![(0x162, Value::Flag(true))]));
        assert_eq!(read[&0x4000_0600], Value::Mechanisms(vec![1, 0x1041]));
        for length in 1..bytes.len() {
            // A truncation between two attributes cannot be detected.
            let _ = attributes(&bytes[..length]);
        }
        assert!(attributes(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn a_length_beyond_the_file_is_refused_without_allocation() {
        let n = |number: u64| number.to_be_bytes();
        for kind in [3, 4, 5] {
            let bytes = file(&[&n(1), &n(3), &n(kind), &n(u64::MAX)]);
            assert!(attributes(&bytes).is_err());
            let bytes = file(&[&n(1), &n(3), &n(kind), &n(1 << 61)]);
            assert!(attributes(&bytes).is_err());
        }
    }
}
