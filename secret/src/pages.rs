//! Memory for secrets: separate pages that are locked against swapping, excluded from core dumps,
//! and zero in the child of a fork. If the system refuses one of these, the log gets one error and
//! Jeton continues without it. On other systems than Linux, Jeton only locks the pages.
//!
//! Blocks have sizes that are powers of two. They are cut from chunks, which are never unmapped. A
//! free block is wiped and waits in the list of its size. A block longer than `LARGEST`, which is
//! longer than any key that the token generates, comes from the heap.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocator_api2::alloc::{AllocError, Allocator, Global};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use tracing::error;

use crate::allocator::wipe;

/// The size of one mapping in bytes.
const CHUNK: usize = 64 << 10;
/// The greatest number of bytes that are locked, even if the limit of the process is higher.
const MOST_LOCKED: usize = 4 << 20;
/// The sizes of blocks. The smallest block has room for the link of its list, and the alignment
/// that the link needs.
const SMALLEST: usize = 16;
const LARGEST: usize = SMALLEST << (CLASSES - 1);
const CLASSES: usize = 11;

/// The pages of this process. Null before the first secret, and in the child of a fork until its
/// first secret.
static CURRENT: AtomicPtr<Mutex<Pages>> = AtomicPtr::new(null_mut());
/// In the child of a fork, the parent's pages. They are never used. This pointer shows a leak
/// checker that they are not lost.
#[used]
static LEFT_BEHIND: AtomicPtr<Mutex<Pages>> = AtomicPtr::new(null_mut());

/// The allocator that uses the pages.
#[derive(Clone, Copy)]
pub(crate) struct Guarded;

// SAFETY: a block has one owner until it is freed. The pages stay mapped for the life of the
// process, and all copies of `Guarded` use the same pages. Every layout that fits a block has the
// size class that the block was requested with.
unsafe impl Allocator for Guarded {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let Some(class) = class(layout) else { return Global.allocate(layout) };
        let block = pages().take(class).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller frees a block of that layout, and no other code uses it.
        unsafe { wipe(block.as_ptr(), layout.size()) };
        match class(layout) {
            // SAFETY: `allocate` took it from the pages with the same class.
            Some(class) => unsafe { pages().give(class, block) },
            // SAFETY: `allocate` took it from `Global` with the same layout.
            None => unsafe { Global.deallocate(block, layout) },
        }
    }
}

/// An allocator that maps memory for each block, and unmaps it when the block is freed. It is for
/// large blocks that are used for a short time: the heap would keep them. The memory is wiped and
/// excluded from core dumps, and never locked.
pub struct Mapped;

// SAFETY: a mapping has one owner until it is freed, and no state is in `Mapped`. The address of a
// page fits every alignment that `allocate` accepts. `Vec` asks for no block of 0 bytes, which the
// system would refuse.
unsafe impl Allocator for Mapped {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.align() > page_size() {
            return Err(AllocError);
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe { mmap_anonymous(null_mut(), layout.size(), rights, MapFlags::PRIVATE) };
        let start = start.map_err(|_| AllocError)?;
        // SAFETY: the mapping is new and has this size. A dump with it is no reason to fail.
        let _ = unsafe { leave_out_of_dumps(start, layout.size()) };
        let start = NonNull::new(start.cast()).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(start, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller frees a block of that layout, and no other code uses it.
        unsafe { wipe(block.as_ptr(), layout.size()) };
        // SAFETY: as above. `allocate` mapped these pages for this block alone.
        let unmapped = unsafe { munmap(block.as_ptr().cast(), layout.size()) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Returns the size class of a layout, or `None` if its block comes from the heap.
fn class(layout: Layout) -> Option<usize> {
    let fits = layout.size() <= LARGEST && layout.align() <= SMALLEST;
    fits.then(|| (layout.size().max(SMALLEST).next_power_of_two() / SMALLEST).trailing_zeros() as usize)
}

/// Makes the child of a fork stop using the parent's pages. The child does not inherit the locks on
/// memory, and another thread of the parent may have held our mutex. Async-signal-safe: only loads
/// and stores atomics.
pub fn forget_parent() {
    let parents = CURRENT.load(Ordering::Acquire);
    if !parents.is_null() {
        LEFT_BEHIND.store(parents, Ordering::Release);
    }
    CURRENT.store(null_mut(), Ordering::Release);
}

fn pages() -> MutexGuard<'static, Pages> {
    // SAFETY: null, or the address of pages that `first` leaked. These are never freed.
    let known = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    known.unwrap_or_else(first).lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn first() -> &'static Mutex<Pages> {
    let new = Box::into_raw(Box::default());
    match CURRENT.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: `new` is valid, and leaked from here on.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: `new` comes from `Box::into_raw`, and no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: another thread leaked it.
            unsafe { &*other }
        }
    }
}

/// The start of a free block: the next free block of the list.
type Link = Option<NonNull<u8>>;

struct Pages {
    free: [Link; CLASSES],
    /// The unused part of the last chunk.
    fresh: *mut u8,
    left: usize,
    locked: usize,
    /// Whether the log already has the error about locking, and the one about core dumps.
    unlocked_said: bool,
    dumped_said: bool,
}

// SAFETY: the pages belong to the process, not to a thread.
unsafe impl Send for Pages {}

impl Default for Pages {
    fn default() -> Self {
        Self {
            free: [None; CLASSES],
            fresh: null_mut(),
            left: 0,
            locked: 0,
            unlocked_said: false,
            dumped_said: false,
        }
    }
}

impl Pages {
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        if let Some(block) = self.free[class] {
            // SAFETY: a free block is ours, begins with a link, and is aligned for it. A block that
            // a fork has zeroed ends the list, because an all-zero link is `None`.
            self.free[class] = unsafe { block.cast::<Link>().read() };
            // SAFETY: as above. The next owner finds zeros.
            unsafe { block.cast::<Link>().write(None) };
            return Some(block);
        }
        let size = SMALLEST << class;
        if self.left < size {
            self.fresh = self.map()?;
            self.left = CHUNK;
        }
        let block = NonNull::new(self.fresh);
        // SAFETY: the chunk has at least `size` bytes left.
        self.fresh = unsafe { self.fresh.add(size) };
        self.left -= size;
        block
    }

    /// # Safety
    /// The caller promises that `take` returned `block` for this class and that no code uses it any
    /// more.
    unsafe fn give(&mut self, class: usize, block: NonNull<u8>) {
        // SAFETY: the caller promises that the block is ours. The smallest block has room for a
        // link, and all are aligned for it.
        unsafe { block.cast::<Link>().write(self.free[class]) };
        self.free[class] = Some(block);
    }

    /// Maps and locks a new chunk.
    fn map(&mut self) -> Option<*mut u8> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe { mmap_anonymous(null_mut(), CHUNK, rights, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: the chunk was just mapped and holds nothing yet.
        let hidden = [unsafe { leave_out_of_dumps(start, CHUNK) }, unsafe { empty_in_children(start) }];
        if let Some(reason) = hidden.into_iter().find_map(rustix::io::Result::err)
            && !std::mem::replace(&mut self.dumped_said, true)
        {
            error!("cannot keep the memory of secrets out of core dumps and child processes: {reason}");
        }
        self.lock(start);
        Some(start.cast())
    }

    /// Locks the part of a new chunk that the limits allow.
    fn lock(&mut self, start: *mut c_void) {
        if self.locked == MOST_LOCKED {
            return;
        }
        let limit = lock_limit();
        let len = CHUNK.min(lockable(limit).saturating_sub(self.locked));
        // SAFETY: the chunk is mapped and has at least `len` bytes.
        let outcome = if len > 0 { unsafe { mlock(start, len) } } else { Ok(()) };
        if outcome.is_ok() {
            self.locked += len;
        }
        if (outcome.is_err() || len < CHUNK) && !std::mem::replace(&mut self.unlocked_said, true) {
            let advice = advice(limit, outcome.err());
            error!(
                limit,
                locked = self.locked,
                "not all secrets are locked in memory: some can be swapped out to disk{advice}"
            );
        }
    }
}

/// Returns why memory is not locked under this limit, and what helps.
fn advice(limit: u64, reason: Option<Errno>) -> String {
    // mlock(2): with a limit, the kernel itself never returns EPERM.
    if reason == Some(Errno::PERM) && limit > 0 {
        return ": mlock(2) is forbidden, although the limit is high enough. A container forbids it without \
                CAP_IPC_LOCK (systemd-nspawn --capability=CAP_IPC_LOCK)"
            .to_owned();
    }
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!(
        "{reason}. Jeton takes half of the limit on locked memory (RLIMIT_MEMLOCK) and at most {MOST_LOCKED} bytes. \
         Raise the limit to {} bytes (ulimit -l; LimitMEMLOCK= of systemd; memlock in limits.conf)",
        2 * MOST_LOCKED
    )
}

/// Returns the limit of the process on locked memory in bytes, or `u64::MAX` if there is no limit.
fn lock_limit() -> u64 {
    getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX)
}

/// Returns how many bytes Jeton may lock under this limit: half of it, because the application has
/// secrets too, and at most `MOST_LOCKED`.
fn lockable(limit: u64) -> usize {
    let half = usize::try_from(limit / 2).unwrap_or(MOST_LOCKED).min(MOST_LOCKED);
    half / page_size() * page_size()
}

/// Keeps pages out of core dumps.
///
/// # Safety
/// The caller promises that the pages are mapped.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn leave_out_of_dumps(start: *mut c_void, len: usize) -> rustix::io::Result<()> {
    use rustix::mm::{Advice, madvise};
    // SAFETY: the caller's promise. The call does not change the content of the pages.
    unsafe { madvise(start, len, Advice::LinuxDontDump) }
}

/// Makes a chunk zero in the children of a fork.
///
/// # Safety
/// The caller promises that the chunk is mapped and holds nothing yet.
#[cfg(target_os = "linux")]
unsafe fn empty_in_children(start: *mut c_void) -> rustix::io::Result<()> {
    use rustix::mm::{Advice, madvise};
    // SAFETY: the caller's promise. The call does not change what this process reads there.
    unsafe { madvise(start, CHUNK, Advice::LinuxWipeOnFork) }
}

/// # Safety
/// The caller promises nothing: this system has no such advice.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn leave_out_of_dumps(_: *mut c_void, _: usize) -> rustix::io::Result<()> {
    Ok(())
}

/// # Safety
/// The caller promises nothing: this system has no such advice.
#[cfg(not(target_os = "linux"))]
unsafe fn empty_in_children(_: *mut c_void) -> rustix::io::Result<()> {
    Ok(())
}

/// Checks that the memory of a secret has the flags of protected memory (`VmFlags` in proc(5)). If
/// the limit of this process on locked memory is below 8 MiB, skips the lock flag and prints that.
#[cfg(all(any(test, feature = "testing"), target_os = "linux"))]
pub fn assert_protected(bytes: &[u8]) {
    let flags = flags_of(bytes);
    let mut wanted = vec![" dd ", " wf "];
    match lock_limit() {
        limit if lockable(limit) == MOST_LOCKED => wanted.push(" lo "),
        limit => println!("RLIMIT_MEMLOCK is {limit}: this does not test that secrets are locked"),
    }
    assert!(wanted.iter().all(|flag| flags.contains(flag)), "{flags}");
}

/// Returns the flags that the system reports for the memory at an address.
#[cfg(all(any(test, feature = "testing"), target_os = "linux"))]
fn flags_of(bytes: &[u8]) -> String {
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
            return format!("{flags} ");
        }
    }
    panic!("no memory at {address:#x}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn blocks_do_not_overlap_and_are_wiped_before_reuse() {
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
            // SAFETY: a whole block that the test owns. All bytes of the pages are initialised.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), len) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{len}");
            // SAFETY: taken with this class, and not used any more.
            unsafe { pages().give(class, block) };
        }
    }

    #[test]
    fn the_advice_is_another_one_where_the_limit_is_not_the_reason() {
        assert!(advice(1 << 26, Some(Errno::PERM)).contains("CAP_IPC_LOCK"));
        for (limit, reason) in [(0, Some(Errno::PERM)), (1 << 26, Some(Errno::NOMEM)), (1 << 16, None)] {
            assert!(advice(limit, reason).contains("Raise the limit"), "{limit}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_secret_is_locked_and_excluded_from_core_dumps() {
        assert_protected(&Secret::zeroed(32));
    }
}
