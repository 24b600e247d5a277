//! Memory for secrets: pages of their own, locked so that they are never swapped out, left out of core dumps, and empty in a
//! child of a fork. What the system refuses is named in the log once, and done without.
//!
//! Blocks are powers of two, cut from chunks that are never given back; a free one is wiped and waits in the list of its
//! size. What is longer than any key comes from the heap.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocator_api2::alloc::{AllocError, Allocator, Global};
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous};
use zeroize::Zeroize;

/// So much is asked of the system at a time: what the smallest usual limit on locked memory allows.
const CHUNK: usize = 64 << 10;
/// Most that is locked: the limit is the process', which has secrets of its own.
const MOST_LOCKED: usize = 4 << 20;
/// The sizes of blocks. The smallest holds the link of its list, and is aligned for it.
const SMALLEST: usize = 16;
const LARGEST: usize = SMALLEST << (CLASSES - 1);
const CLASSES: usize = 11;

/// The pages of this process; null before the first secret, and in a child.
static CURRENT: AtomicPtr<Mutex<Pages>> = AtomicPtr::new(null_mut());
/// In a child of a fork, the parent's. Nobody uses them; a checker of leaks sees that they are not lost.
#[used]
static LEFT_BEHIND: AtomicPtr<Mutex<Pages>> = AtomicPtr::new(null_mut());

/// Allocates from the pages.
#[derive(Clone, Copy)]
pub(super) struct Guarded;

// SAFETY: a block is handed out once, until it comes back; pages stay mapped for the life of the process, whichever copy of
// `Guarded` asks. Every length that a block may be given back with is of the class that it was asked for.
unsafe impl Allocator for Guarded {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let Some(class) = class(layout) else { return Global.allocate(layout) };
        let block = pages().take(class).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let bytes = block.cast::<MaybeUninit<u8>>().as_ptr();
        // SAFETY: the caller gives back a block of that layout, which nobody else uses.
        unsafe { std::slice::from_raw_parts_mut(bytes, layout.size()) }.zeroize();
        match class(layout) {
            // SAFETY: `allocate` took it from there for the same layout.
            Some(class) => unsafe { pages().give(class, block) },
            // SAFETY: `allocate` took it from there.
            None => unsafe { Global.deallocate(block, layout) },
        }
    }
}

/// Which size of block a layout has; `None` where it comes from the heap.
fn class(layout: Layout) -> Option<usize> {
    let fits = layout.size() <= LARGEST && layout.align() <= SMALLEST;
    fits.then(|| (layout.size().max(SMALLEST).next_power_of_two() / SMALLEST).trailing_zeros() as usize)
}

/// In the child of a fork: the locks of memory are not inherited, and another thread of the parent may have held ours. Does
/// no more than store to an atomic.
pub fn forget_parent() {
    let parents = CURRENT.load(Ordering::Acquire);
    if !parents.is_null() {
        LEFT_BEHIND.store(parents, Ordering::Release);
    }
    CURRENT.store(null_mut(), Ordering::Release);
}

fn pages() -> MutexGuard<'static, Pages> {
    // SAFETY: null, or the address of pages leaked below, which are never freed.
    let known = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    known.unwrap_or_else(first).lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn first() -> &'static Mutex<Pages> {
    let new = Box::into_raw(Box::default());
    match CURRENT.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just made, and leaked.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: just made, and nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: another thread leaked it.
            unsafe { &*other }
        }
    }
}

/// What a free block begins with: the next one.
type Link = Option<NonNull<u8>>;

struct Pages {
    free: [Link; CLASSES],
    /// The rest of the last chunk.
    fresh: *mut u8,
    left: usize,
    locked: usize,
    refused: bool,
}

// SAFETY: the pages are the process', not a thread's.
unsafe impl Send for Pages {}

impl Default for Pages {
    fn default() -> Self {
        Self { free: [None; CLASSES], fresh: null_mut(), left: 0, locked: 0, refused: false }
    }
}

impl Pages {
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        if let Some(block) = self.free[class] {
            // SAFETY: a free block begins with a link, is aligned for it, and is ours. (One that a fork has emptied ends the
            // list: no link is all zeros.)
            self.free[class] = unsafe { block.cast::<Link>().read() };
            // SAFETY: the same; the next owner finds zeros.
            unsafe { block.cast::<Link>().write(None) };
            return Some(block);
        }
        let size = SMALLEST << class;
        if self.left < size {
            self.fresh = self.map()?;
            self.left = CHUNK;
        }
        let block = NonNull::new(self.fresh);
        // SAFETY: so much is left of the chunk.
        self.fresh = unsafe { self.fresh.add(size) };
        self.left -= size;
        block
    }

    /// # Safety
    /// `block` was taken with this class, and nobody uses it.
    unsafe fn give(&mut self, class: usize, block: NonNull<u8>) {
        // SAFETY: by the caller's promise it is ours; the smallest block has room for a link, and all are aligned for it.
        unsafe { block.cast::<Link>().write(self.free[class]) };
        self.free[class] = Some(block);
    }

    /// A new chunk.
    fn map(&mut self) -> Option<*mut u8> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the system wants it.
        let start = unsafe { mmap_anonymous(null_mut(), CHUNK, rights, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: just mapped, with nothing in it yet.
        let hidden = unsafe { hide(start) };
        let wanted = self.locked + CHUNK <= MOST_LOCKED && !self.refused;
        // SAFETY: just mapped.
        let locked = if wanted { unsafe { mlock(start, CHUNK) } } else { Ok(()) };
        self.locked += if wanted { CHUNK } else { 0 };
        if let Err(reason) = hidden.and(locked) {
            self.refused = true;
            tracing::warn!("secrets are not locked in memory or not kept out of core dumps: {reason}");
        }
        Some(start.cast())
    }
}

/// Keeps a chunk out of core dumps and out of children.
///
/// # Safety
/// It is mapped, and holds nothing yet.
#[cfg(target_os = "linux")]
unsafe fn hide(start: *mut std::ffi::c_void) -> rustix::io::Result<()> {
    use rustix::mm::{Advice, madvise};
    // SAFETY: by the caller's promise; neither changes what the parent reads there.
    unsafe { madvise(start, CHUNK, Advice::LinuxDontDump) }?;
    // SAFETY: the same.
    unsafe { madvise(start, CHUNK, Advice::LinuxWipeOnFork) }
}

/// # Safety
/// None here.
#[cfg(not(target_os = "linux"))]
unsafe fn hide(_: *mut std::ffi::c_void) -> rustix::io::Result<()> {
    Ok(())
}

/// What the system says of the memory at an address: `VmFlags` of proc(5), and whether locking was refused.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn flags_of(bytes: &[u8]) -> (String, bool) {
    let address = bytes.as_ptr().addr();
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("a proc file system");
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let range = range.and_then(|(start, end)| {
            Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
        });
        if let Some(range) = range {
            inside = range.contains(&address);
        }
        if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return (format!("{flags} "), pages().refused);
        }
    }
    panic!("no memory at {address:#x}");
}

#[cfg(test)]
mod tests {
    use super::super::Secret;
    use super::*;

    #[test]
    fn blocks_are_apart_and_come_back_wiped() {
        for len in [1, 16, 17, 100, 4096, LARGEST, LARGEST + 1] {
            let mut all: Vec<_> = (0..20).map(|_| Secret::zeroed(len)).collect();
            for (number, secret) in (1..).zip(&mut all) {
                secret.fill(number);
            }
            for (number, secret) in (1..).zip(&all) {
                assert!(secret.iter().all(|byte| *byte == number), "{len}");
            }
            drop(all);
            let layout = Layout::array::<u8>(len).expect("a length");
            let Some(class) = class(layout) else { continue };
            let block = pages().take(class).expect("a block");
            // SAFETY: a whole block, taken by us; pages are never without bytes.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), len) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{len}");
            // SAFETY: taken with this class, and not used any more.
            unsafe { pages().give(class, block) };
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_secret_is_locked_and_in_no_core_dump() {
        let (flags, refused) = flags_of(&Secret::zeroed(32));
        assert!(refused || [" lo ", " dd ", " wf "].iter().all(|flag| flags.contains(flag)), "{flags}");
    }
}
