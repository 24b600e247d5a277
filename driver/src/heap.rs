//! Counters of the heap: an allocator that counts allocations and bytes, and passes each call to
//! the allocator of the system.
//!
//! It counts the allocations of the tool's own Rust code. A module and the libraries in C have
//! other allocators; `jeton_laboratory::memory` has the memory of the whole process.
//!
//! It counts only after [`start`], which the child processes of `jeton-driver issue` call. In other
//! processes the only cost of a call is to read one flag. Each thread collects its counts and adds
//! them to the totals in steps, because threads that write to one counter at each allocation would
//! slow each other down.

#![allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The allocator. The tool names it as its global allocator.
pub struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static REQUESTED: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// A thread adds its counts to the totals when its live bytes have changed by this number.
const LIVE_STEP: i64 = 1 << 12;
/// A thread also adds its counts when it has requested this number of bytes.
const REQUESTED_STEP: u64 = 1 << 16;

/// The counts of a thread that are not in the totals yet.
#[derive(Clone, Copy)]
struct Pending {
    live: i64,
    requested: u64,
    allocations: u64,
}

impl Pending {
    const NONE: Self = Self { live: 0, requested: 0, allocations: 0 };

    fn add_to_totals(self) {
        let live = LIVE.fetch_add(self.live, Ordering::Relaxed) + self.live;
        PEAK.fetch_max(live, Ordering::Relaxed);
        REQUESTED.fetch_add(self.requested, Ordering::Relaxed);
        ALLOCATIONS.fetch_add(self.allocations, Ordering::Relaxed);
    }
}

thread_local! {
    // It is constant and has no destructor, so its first use allocates nothing.
    static PENDING: Cell<Pending> = const { Cell::new(Pending::NONE) };
}

/// Begins to count. The tool calls this function before it parses the command line.
pub fn start() {
    COUNTS.store(true, Ordering::Relaxed);
}

#[inline]
fn record(requested: usize, freed: usize) {
    if COUNTS.load(Ordering::Relaxed) {
        count(requested, freed);
    }
}

fn count(requested: usize, freed: usize) {
    PENDING.with(|cell| {
        let Pending { live, requested: total, allocations } = cell.get();
        let pending = Pending {
            live: live + requested as i64 - freed as i64,
            requested: total + requested as u64,
            allocations: allocations + u64::from(requested > 0),
        };
        if pending.live.abs() >= LIVE_STEP || pending.requested >= REQUESTED_STEP {
            pending.add_to_totals();
            cell.set(Pending::NONE);
        } else {
            cell.set(pending);
        }
    });
}

/// Adds the counts of this thread to the totals. A thread calls this function before it ends.
pub fn flush() {
    PENDING.with(|cell| cell.replace(Pending::NONE)).add_to_totals();
}

/// The totals of all threads.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// The bytes that are allocated now.
    pub live: i64,
    /// The bytes of all allocations since the start of the process, including freed ones.
    pub requested: u64,
    /// The number of allocations since the start of the process.
    pub allocations: u64,
}

/// Returns the totals. Counts that other threads have not flushed are missing.
pub fn counters() -> Counters {
    flush();
    Counters {
        live: LIVE.load(Ordering::Relaxed),
        requested: REQUESTED.load(Ordering::Relaxed),
        allocations: ALLOCATIONS.load(Ordering::Relaxed),
    }
}

/// Begins to record the peak again.
pub fn reset_peak() {
    PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Returns the largest number of bytes that were allocated at one time since [`reset_peak`]. It is
/// approximate, because threads add their counts in steps.
pub fn peak() -> i64 {
    flush();
    PEAK.load(Ordering::Relaxed)
}

// SAFETY: every function passes its arguments to the system's allocator unchanged and returns its
// result unchanged. `record` allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        record(layout.size(), 0);
        // SAFETY: the caller keeps the rules of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        record(0, layout.size());
        // SAFETY: the caller keeps the rules of `GlobalAlloc::dealloc`, and `pointer` is from
        // `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        record(layout.size(), 0);
        // SAFETY: the caller keeps the rules of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        record(size, layout.size());
        // SAFETY: the caller keeps the rules of `GlobalAlloc::realloc`, and `pointer` is from
        // `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
