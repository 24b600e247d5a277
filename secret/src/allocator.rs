//! An allocator for the whole library. It wipes every block that Rust code frees.
//!
//! The crates that compute with keys copy them on the heap and do not wipe every copy. For example,
//! `crypto-bigint` clones the primes of an RSA key, and a `Vec` that grows leaves its old bytes
//! behind. Only the allocator can reach all these copies.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::mem::MaybeUninit;
use std::ptr::slice_from_raw_parts;

use crate::error::{OutOfMemory, Result};

/// The system's allocator, which wipes every block before it frees it. The shared library installs
/// it (`#[global_allocator]` in `abi/pkcs11/`), and so does a test that searches memory for
/// secrets.
/// A program that links the core chooses its own allocator.
///
/// A block that changes its size always moves: the default `realloc` allocates, copies and frees.
pub struct WipingAllocator;

// SAFETY: every block comes from `System` and returns to it with its original layout.
unsafe impl GlobalAlloc for WipingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller makes the promise that `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller makes the promise that `System` needs.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller frees a block of this layout, and no other code uses it.
        unsafe { wipe(block, layout.size()) };
        // SAFETY: the caller makes the promise that `System` needs.
        unsafe { System.dealloc(block, layout) };
    }
}

/// Checks that this number of bytes can be allocated now, and fails if not. Call
/// it before a library copies data of a length that the caller chose: some libraries end the
/// process if an allocation fails.
///
/// Nothing is written to the memory, so the system gives no pages for it: a `Vec` would be wiped.
pub fn room_for(len: usize) -> Result<()> {
    let layout = Layout::array::<u8>(len.max(1)).map_err(|_| OutOfMemory)?;
    // SAFETY: the layout has at least one byte.
    let room = std::hint::black_box(unsafe { System.alloc(layout) });
    if room.is_null() {
        return Err(OutOfMemory);
    }
    // SAFETY: the block is of this layout, and no other code uses it.
    unsafe { System.dealloc(room, layout) };
    Ok(())
}

/// Writes zeros. The optimiser cannot remove them, although the program never reads them.
///
/// # Safety
/// The caller promises that `start` is writable for `len` bytes and that no other code uses them.
pub(crate) unsafe fn wipe(start: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { start.write_bytes(0, len) };
    let bytes = slice_from_raw_parts(start.cast::<MaybeUninit<u8>>(), len);
    // SAFETY: the caller's promise. Uninitialised bytes are valid for `MaybeUninit`.
    zeroize::optimization_barrier(unsafe { &*bytes });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test relies on the system's allocator, which reuses a block of 64 bytes for the next
    /// request of that size.
    #[test]
    fn a_block_that_grows_wipes_its_old_memory() {
        let layout = Layout::from_size_align(64, 8).expect("a layout");
        // SAFETY: the blocks are used within their layouts and freed with them. The test reads the
        // old bytes through the new block, which owns them at that time.
        unsafe {
            let old = WipingAllocator.alloc(layout);
            old.write_bytes(0xa5, 64);
            let grown = WipingAllocator.realloc(old, layout, 4096);
            assert!((0..64).all(|at| grown.add(at).read() == 0xa5));
            let next = System.alloc(layout);
            // The allocator keeps its links in the first 16 bytes of a free block.
            let left =
                (16..64).filter(|at| next.add(*at).cast::<MaybeUninit<u8>>().read().assume_init() == 0xa5);
            assert_eq!(left.count(), 0);
            System.dealloc(next, layout);
            WipingAllocator.dealloc(grown, Layout::from_size_align(4096, 8).expect("a layout"));
        }
    }
}
