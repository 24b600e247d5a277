//! Lists, byte strings and texts in messages. A peer that says that it sends many items gets no memory
//! for them, and decoding fails if there is no memory for what it sent.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use jeton_secret::try_boxed;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The greatest number of attributes in a template, together with those of the templates in it.
pub const MAX_ATTRIBUTES: usize = 1024;
/// The greatest depth of the templates in a template.
pub const MAX_DEPTH: usize = 4;

/// The length of the longest text in a struct of PKCS#11, in bytes.
const MAX_TEXT: usize = 64;

/// The greatest number of items in a [`List`].
pub const MAX_ITEMS: usize = 1 << 13;

/// The list that a function returns. In a message it has at most [`MAX_ITEMS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct List<T>(#[serde(deserialize_with = "at_most::<MAX_ITEMS, _, _>")] pub Vec<T>);

/// Decodes a list of at most this number of items.
pub fn at_most<'de, const MOST: usize, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_seq(Items { takes: |count| count <= MOST, items: PhantomData })
}

thread_local! {
    /// The number of items that the lists may still have that this thread decodes; `None` outside
    /// of them.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    /// The number of these lists that are not complete.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Decodes lists that may have [`MAX_ATTRIBUTES`] items together.
pub fn together<T>(decode: impl FnOnce() -> T) -> T {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            LEFT.set(None);
            DEPTH.set(0);
        }
    }
    if LEFT.get().is_some() {
        return decode();
    }
    let _end = End;
    LEFT.set(Some(MAX_ATTRIBUTES));
    decode()
}

/// Decodes a list whose items may have lists of the same type in them: [`MAX_ATTRIBUTES`] items
/// together, with [`MAX_DEPTH`] lists below the first one.
pub fn nested<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    together(|| {
        let depth = DEPTH.get();
        if depth > MAX_DEPTH {
            return Err(D::Error::custom("a list that is too deep"));
        }
        DEPTH.set(depth + 1);
        let list = from.deserialize_seq(Items { takes: take_left, items: PhantomData });
        DEPTH.set(depth);
        list
    })
}

/// Counts the items of a list. Returns whether it may have this number.
fn take_left(count: usize) -> bool {
    let left = LEFT.get().and_then(|left| left.checked_sub(count));
    LEFT.set(Some(left.unwrap_or(0)));
    left.is_some()
}

/// Copies a byte string of a message, if it has at most this number of bytes and there is memory.
pub fn copy<E: Error>(bytes: &[u8], most: usize) -> Result<Box<[u8]>, E> {
    if bytes.len() > most {
        return Err(E::custom("a byte string that is too long"));
    }
    try_boxed(bytes).map_err(|_| E::custom("no memory"))
}

/// Decodes a text, and copies what a struct of PKCS#11 can have of it.
pub fn text<'de, T: From<String>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let text: &str = Deserialize::deserialize(from)?;
    Ok(text[..text.floor_char_boundary(MAX_TEXT)].to_owned().into())
}

/// A byte string, which is copied if there is memory. Its length is checked with its mechanism.
pub mod copied {
    use super::{Deserializer, copy};

    pub use serde_bytes::serialize;

    /// Decodes the byte string.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[u8]>, D::Error> {
        copy(serde_bytes::deserialize(from)?, usize::MAX)
    }
}

/// The same for a byte string that may be absent.
pub mod maybe_copied {
    use serde::Deserialize;
    use serde_bytes::Bytes;

    use super::{Deserializer, copy};

    pub use serde_bytes::serialize;

    /// Decodes the byte string.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<[u8]>>, D::Error> {
        Option::<&Bytes>::deserialize(from)?.map(|bytes| copy(bytes, usize::MAX)).transpose()
    }
}

struct Items<T> {
    /// Returns whether the list may have this number of items. It is asked before the first item is
    /// decoded: each list in an item could say that it has as many.
    takes: fn(usize) -> bool,
    items: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
    type Value = Vec<T>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a short list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let count = items.size_hint().ok_or_else(|| A::Error::custom("a list without its length"))?;
        if !(self.takes)(count) {
            return Err(A::Error::invalid_length(count, &self));
        }
        let mut all = Vec::new();
        all.try_reserve_exact(count).map_err(A::Error::custom)?;
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(all)
    }
}
