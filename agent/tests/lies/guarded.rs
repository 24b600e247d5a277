//! Memory of an application that ends where no memory is.

use std::ptr::null_mut;

use crate::common::*;

const PAGE: usize = 1 << 16;
/// What is before the bytes.
const BEFORE: u8 = 0xc3;

/// Bytes that a function may write, at the end of mapped memory.
pub struct Guarded {
    map: *mut u8,
    len: usize,
}

impl Guarded {
    /// Makes memory with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        assert!(bytes.len() < PAGE);
        // SAFETY: a new mapping of two parts, of which the second one stays without access.
        let map = unsafe {
            let (none, private) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let map = libc::mmap(null_mut(), 2 * PAGE, none, private, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(map, PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            map.cast::<u8>()
        };
        let memory = Self { map, len: bytes.len() };
        // SAFETY: the first part is writable, and the bytes fit into it.
        unsafe {
            map.write_bytes(BEFORE, PAGE);
            memory.pointer::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        memory
    }

    pub fn number(number: CK_ULONG) -> Self {
        Self::of(&number.to_ne_bytes())
    }

    pub fn pointer<T>(&self) -> *mut T {
        self.map.wrapping_add(PAGE - self.len).cast()
    }

    pub fn address(&self) -> u64 {
        self.pointer::<u8>().expose_provenance() as u64
    }

    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: the bytes are readable, and no function runs.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }.to_vec()
    }

    pub fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes()[at..at + 8].try_into().expect("8 bytes"))
    }

    /// Returns whether nothing was written before the bytes.
    pub fn is_intact(&self) -> bool {
        // SAFETY: the first part is readable.
        unsafe { std::slice::from_raw_parts(self.map, PAGE - self.len) }.iter().all(|byte| *byte == BEFORE)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's.
        unsafe { libc::munmap(self.map.cast(), 2 * PAGE) };
    }
}
