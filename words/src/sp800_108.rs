//! The parameters of the key derivations of SP 800-108 (PKCS#11 3.2, "SP800-108 Key Derivation").

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::id::ObjectHandle;

/// The greatest number of parts of an input, and of further keys.
pub const MAX_FIELDS: usize = 64;

/// The mode. It determines the iteration variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kdf {
    /// SP 800-108, 4.1: a counter.
    Counter,
    /// SP 800-108, 4.2: the previous output block.
    Feedback,
    /// SP 800-108, 4.3: the output of a first pipeline.
    DoublePipeline,
}

/// A part of the input of the pseudo-random function (`CK_PRF_DATA_PARAM`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    /// The iteration variable. The encoding is present if the variable is a counter.
    Iteration(Option<Number>),
    /// A counter in a mode whose iteration variable is not a counter.
    Counter(Number),
    /// The length of the derived output in bits.
    Length {
        /// Whether to count whole output blocks of the function, not only the bytes that become
        /// keys.
        segments: bool,
        /// Its encoding.
        number: Number,
    },
    /// Bytes from the caller.
    Bytes(#[serde(with = "bounded::copied")] Box<[u8]>),
    /// The value of a key.
    Key(ObjectHandle),
}

impl Field {
    /// Returns the greatest length of the part, without that of a key.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            _ => 64,
        }
    }

    /// Returns the key whose value this is.
    pub fn key(&self) -> Option<ObjectHandle> {
        match self {
            Self::Key(key) => Some(*key),
            _ => None,
        }
    }
}

/// The encoding of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Number {
    /// Whether the least significant byte comes first.
    pub little_endian: bool,
    /// Its length in bytes, at most 8.
    pub len: usize,
}

impl Number {
    /// Encodes a number. Returns `None` if it does not fit.
    pub fn encode(self, number: u64) -> Option<Box<[u8]>> {
        let bytes = if self.little_endian { number.to_le_bytes() } else { number.to_be_bytes() };
        let (kept, lost) = if self.little_endian {
            bytes.split_at_checked(self.len)?
        } else {
            let (lost, kept) = bytes.split_at_checked(bytes.len().checked_sub(self.len)?)?;
            (kept, lost)
        };
        lost.iter().all(|byte| *byte == 0).then(|| kept.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_is_not_encoded() {
        let number = |little_endian, len| Number { little_endian, len };
        assert_eq!(number(false, 2).encode(0x0102).as_deref(), Some(&[1, 2][..]));
        assert_eq!(number(true, 2).encode(0x0102).as_deref(), Some(&[2, 1][..]));
        assert_eq!(number(false, 3).encode(1).as_deref(), Some(&[0, 0, 1][..]));
        assert_eq!(number(true, 8).encode(u64::MAX).as_deref(), Some(&[0xff; 8][..]));
        for little_endian in [false, true] {
            assert_eq!(number(little_endian, 1).encode(256), None);
            assert_eq!(number(little_endian, 9).encode(0), None);
        }
    }
}
