//! Memory for secrets on a system without pages that Jeton can lock: the heap, wiped.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator, Global};

use crate::allocator::wipe;

/// The allocator of the heap, which wipes every block before it frees it.
#[derive(Clone, Copy)]
pub(crate) struct Guarded;

// SAFETY: every block comes from `Global` and returns to it with its original layout.
unsafe impl Allocator for Guarded {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller frees a block of that layout, and no other code uses it.
        unsafe { wipe(block.as_ptr(), layout.size()) };
        // SAFETY: the caller makes the promise that `Global` needs.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// Processes do not fork.
pub fn forget_parent() {}
