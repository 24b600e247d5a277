//! Memory for a module, and C structures of numbers, flags and pointers to such memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use cryptoki_sys::{CK_BBOOL, CK_FALSE, CK_TRUE, CK_ULONG};

/// Bytes at a fixed address. A module may write to them during a call, so they are atomic.
#[derive(Clone, Debug)]
pub struct Memory(Arc<[AtomicU8]>);

impl Memory {
    /// Makes memory with a copy of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().map(AtomicU8::new).collect())
    }

    /// Returns the present contents.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().map(|byte| byte.load(Ordering::Relaxed)).collect()
    }

    /// Returns the number at this index of the structure, for example an object's handle. `index`
    /// counts in units of `CK_ULONG`.
    pub fn number(&self, index: usize) -> CK_ULONG {
        let (word, mut number) = (size_of::<CK_ULONG>(), CK_ULONG::default().to_ne_bytes());
        number.copy_from_slice(&self.bytes()[index * word..(index + 1) * word]);
        CK_ULONG::from_ne_bytes(number)
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the memory is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }
}

/// Compares the contents.
impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Memory {}

/// Builds a C structure, member by member in order. It owns the memory that it points to.
#[derive(Clone, Debug, Default)]
pub struct Structure {
    bytes: Vec<u8>,
    held: Vec<Memory>,
    words: bool,
}

impl Structure {
    /// Starts a structure without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a `CK_ULONG`.
    #[must_use]
    pub fn number(mut self, number: CK_ULONG) -> Self {
        self.align();
        self.bytes.extend(number.to_ne_bytes());
        self
    }

    /// Adds a `CK_BBOOL`.
    #[must_use]
    pub fn flag(self, flag: bool) -> Self {
        let flag: CK_BBOOL = if flag { CK_TRUE } else { CK_FALSE };
        self.inline(&[flag])
    }

    /// Adds the bytes themselves, not a pointer to them.
    #[must_use]
    pub fn inline(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// Adds a NULL pointer.
    #[must_use]
    pub fn null(self) -> Self {
        self.address(0)
    }

    /// Adds a pointer to this memory.
    #[must_use]
    pub fn pointer(mut self, memory: &Memory) -> Self {
        self.held.push(memory.clone());
        self.address(memory.address())
    }

    /// Adds a pointer to a copy of these bytes, then their number. The pointer is NULL if there are
    /// no bytes.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let this = if bytes.is_empty() { self.null() } else { self.pointer(&Memory::of(bytes)) };
        this.number(bytes.len() as CK_ULONG)
    }

    /// Adds the number of these bytes, then a pointer to a copy, as in `CK_ECDH1_DERIVE_PARAMS`.
    /// The pointer is NULL if there are no bytes.
    #[must_use]
    pub fn counted(self, bytes: &[u8]) -> Self {
        let this = self.number(bytes.len() as CK_ULONG);
        if bytes.is_empty() { this.null() } else { this.pointer(&Memory::of(bytes)) }
    }

    /// Adds a pointer to another structure.
    #[must_use]
    pub fn structure(mut self, other: Self) -> Self {
        let (memory, held) = other.finish();
        self.held.extend(held);
        self.pointer(&memory)
    }

    /// Adds the members of another structure, which is nested in this one.
    #[must_use]
    pub fn members(mut self, other: Self) -> Self {
        self.align();
        let (memory, held) = other.finish();
        self.bytes.extend(memory.bytes());
        self.held.extend(held);
        self
    }

    /// Returns the structure as memory that a module may write to and other structures may point
    /// to. The caller must keep `self`, which owns the memory that this structure points to.
    pub fn memory(&self) -> Memory {
        self.clone().finish().0
    }

    pub(super) fn finish(mut self) -> (Memory, Vec<Memory>) {
        if self.words {
            self.align();
        }
        (Memory::of(&self.bytes), self.held)
    }

    fn address(mut self, address: usize) -> Self {
        self.align();
        self.bytes.extend(address.to_ne_bytes());
        self
    }

    /// Pads to the alignment of numbers and pointers, which have the same size.
    fn align(&mut self) {
        const { assert!(size_of::<CK_ULONG>() == size_of::<usize>()) };
        self.words = true;
        self.bytes.resize(self.bytes.len().next_multiple_of(size_of::<CK_ULONG>()), 0);
    }
}

#[cfg(test)]
mod tests {
    use jeton_names::structs::HKDF;

    use super::*;

    #[test]
    fn members_have_the_offsets_of_c() {
        let made = Structure::new().flag(true).flag(false).number(7).number(8).bytes(b"salt").number(9);
        let (memory, held) = made.bytes(&[]).finish();
        let word = |value: usize| memory.number(HKDF.values[value].0 / size_of::<CK_ULONG>());
        assert_eq!(memory.len(), HKDF.size);
        // The hash and the key.
        assert_eq!((word(2), word(4)), (7, 9));
        assert_eq!(held[0].bytes(), b"salt");
    }
}
