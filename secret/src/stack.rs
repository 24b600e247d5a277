//! Separate stacks for computations that need much stack and leave secrets on it.
//!
//! A computation of RustCrypto takes up to several hundred KiB of stack. A caller's thread may have
//! less, and its stack could be wiped only to a guessed depth. A separate stack solves both
//! problems. Guard pages are below it, so that an overflow cannot reach other memory. The whole
//! used part is wiped when the computation returns or panics.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use corosensei::stack::valgrind::ValgrindStackRegistration;
use corosensei::stack::{Stack, StackPointer};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::allocator::wipe;
use crate::error::{OutOfMemory, Result};
use crate::pages::leave_out_of_dumps;

/// Size of the guard in bytes. On every system it is a multiple of the page size.
const GUARD: usize = 64 << 10;
/// The wipe checks this number of bytes at once for nonzero bytes.
const STEP: usize = 4 << 10;

/// Stacks of one size. A thread takes one for the time of a computation. Free stacks wait for the
/// next computation.
///
/// The list of free stacks has no lock, so that the child of a fork always finds it consistent.
pub struct Stacks {
    size: usize,
    free: [AtomicPtr<c_void>; Self::KEPT],
}

impl Stacks {
    /// The maximum number of free stacks that are kept.
    const KEPT: usize = 32;

    /// Creates an empty list. `size` is a multiple of 64 KiB.
    pub const fn new(size: usize) -> Self {
        assert!(size.is_multiple_of(GUARD) && size > 0);
        Self { size, free: [const { AtomicPtr::new(null_mut()) }; Self::KEPT] }
    }

    /// Runs `work` on one of these stacks and wipes the part that it used. Fails if there
    /// is no memory for a stack.
    pub fn run<R, E: From<OutOfMemory>>(&self, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let mut own = Taken { stack: ManuallyDrop::new(self.take()?), home: self };
        corosensei::on_stack(&mut *own.stack, work)
    }

    fn take(&self) -> Result<Mapped> {
        let kept = self.free.iter().find_map(|place| {
            // Most entries are empty, and a load costs less than an exchange.
            let some = !place.load(Ordering::Relaxed).is_null();
            let start = if some { place.swap(null_mut(), Ordering::AcqRel) } else { null_mut() };
            NonNull::new(start)
        });
        match kept {
            Some(start) => Ok(Mapped { start, size: self.size }),
            None => Mapped::new(self.size),
        }
    }

    /// Returns a wiped stack to the list. Unmaps it if the list is full.
    fn keep(&self, stack: Mapped) {
        let start = stack.start.as_ptr();
        let kept = self.free.iter().any(|place| {
            place.compare_exchange(null_mut(), start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        if kept {
            std::mem::forget(stack);
        }
    }
}

/// A stack in use. It is wiped when `work` returns or panics.
struct Taken<'a> {
    stack: ManuallyDrop<Mapped>,
    home: &'a Stacks,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.stack.clean();
        // SAFETY: the stack is not used after this: `drop` runs once.
        self.home.keep(unsafe { ManuallyDrop::take(&mut self.stack) });
    }
}

/// A guard of [`GUARD`] bytes at `start`, and the stack above it.
struct Mapped {
    start: NonNull<c_void>,
    size: usize,
}

impl Mapped {
    fn new(size: usize) -> Result<Self> {
        let whole = GUARD + size;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe { mmap_anonymous(null_mut(), whole, rights, MapFlags::PRIVATE) };
        let start = start.ok().and_then(NonNull::new).ok_or(OutOfMemory)?;
        let mapped = Self { start, size };
        // SAFETY: just mapped, and no code uses it yet.
        unsafe { mprotect(start.as_ptr(), GUARD, MprotectFlags::empty()) }.map_err(|_| OutOfMemory)?;
        // A system that refuses this also refuses it for the pages of secrets, and the log has that
        // error.
        // SAFETY: just mapped.
        let _ = unsafe { leave_out_of_dumps(start.as_ptr(), whole) };
        // Valgrind follows a stack pointer only to registered stacks. The registration is never
        // removed, even if the stack is unmapped later.
        std::mem::forget(ValgrindStackRegistration::new(start.as_ptr().cast(), whole));
        Ok(mapped)
    }

    /// Returns the lowest byte of the stack.
    fn lowest(&self) -> *mut u8 {
        // SAFETY: the mapping is longer than its guard.
        unsafe { self.start.as_ptr().cast::<u8>().add(GUARD) }
    }

    /// Wipes the used part and returns its length. The used part begins at the lowest [`STEP`]
    /// bytes that are not all zero.
    fn clean(&mut self) -> usize {
        // SAFETY: the stack is mapped and ours, and no code runs on it. Any bytes are valid words.
        let words = unsafe { std::slice::from_raw_parts(self.lowest().cast::<u64>(), self.size / 8) };
        let steps = words.chunks_exact(STEP / 8);
        let unused = steps.take_while(|step| step.iter().fold(0, |all, word| all | word) == 0).count() * STEP;
        let used = self.size - unused;
        // SAFETY: the range is inside the stack, and no code runs on it.
        unsafe { wipe(self.lowest().add(unused), used) };
        used
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` mapped it with that length, and no code runs on it.
        let outcome = unsafe { munmap(self.start.as_ptr(), GUARD + self.size) };
        debug_assert!(outcome.is_ok());
    }
}

// SAFETY: the memory is mapped, writable and larger than the smallest stack. It ends in a guard,
// and both ends are aligned to pages.
unsafe impl Stack for Mapped {
    fn base(&self) -> StackPointer {
        self.start.addr().saturating_add(GUARD + self.size)
    }

    fn limit(&self) -> StackPointer {
        NonZeroUsize::from(self.start.addr())
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Writes bytes to the stack down to this depth.
    #[inline(never)]
    fn soil<const DEPTH: usize>() {
        black_box(&[0xa5u8; DEPTH]);
    }

    fn used(stacks: &Stacks) -> usize {
        stacks.take().expect("a stack").clean()
    }

    #[test]
    fn the_stack_is_wiped_after_a_computation() {
        static STACKS: Stacks = Stacks::new(256 << 10);
        assert_eq!(
            STACKS.run(|| -> Result<_> {
                soil::<{ 200 << 10 }>();
                Ok(7)
            }),
            Ok(7)
        );
        assert_eq!(used(&STACKS), 0);
    }

    #[test]
    fn the_stack_is_wiped_after_a_panic() {
        static STACKS: Stacks = Stacks::new(256 << 10);
        let work = || {
            STACKS.run(|| -> Result<()> {
                soil::<{ 100 << 10 }>();
                panic!("on purpose")
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        assert_eq!(used(&STACKS), 0);
    }

    #[test]
    fn a_computation_inside_another_has_its_own_stack() {
        static STACKS: Stacks = Stacks::new(256 << 10);
        let address = |local: &mut u8| std::ptr::from_mut(black_box(local)).addr();
        let inner = || STACKS.run(|| -> Result<_> { Ok(address(&mut black_box(0))) });
        let outer = || -> Result<_> { Ok((address(&mut black_box(0)), inner()?)) };
        let (outer, inner) = STACKS.run(outer).expect("stacks");
        assert_ne!(outer, inner);
    }

    #[test]
    fn threads_have_stacks_of_their_own() {
        static STACKS: Stacks = Stacks::new(64 << 10);
        std::thread::scope(|scope| {
            for number in 0..40u64 {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let mine = STACKS.run(|| -> Result<_> {
                            let place = black_box([number; 64]);
                            std::thread::yield_now();
                            Ok(place.iter().all(|word| *word == number))
                        });
                        assert_eq!(mine, Ok(true));
                    }
                });
            }
        });
    }
}
