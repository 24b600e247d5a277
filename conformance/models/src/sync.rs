//! The atomics and locks of the models. The session table and the epoch use those of shuttle. The
//! atomics of `call` are statics: each run of a model resets them, and a fork copies them.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use shuttle::thread::{self, ThreadId};

pub(crate) use shuttle::sync::atomic::AtomicU64;
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
pub(crate) use std::sync::PoisonError;
pub(crate) use std::sync::atomic::Ordering;

/// Lets another thread run.
pub fn step() {
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
}

/// Lets other threads run, instead of sleeping.
pub(crate) fn sleep(_: Duration) {
    thread::yield_now();
}

/// A value that is created once, in one step.
pub(crate) struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        step();
        self.0.get()
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        step();
        self.0.get_or_init(make)
    }
}

/// The number of runs. A value from an earlier run counts as unset.
static RUN: AtomicUsize = AtomicUsize::new(0);
static STEP: AtomicUsize = AtomicUsize::new(0);
/// The child of a fork, and the step at which it was made.
static CHILD: std::sync::Mutex<Option<(ThreadId, usize)>> = std::sync::Mutex::new(None);

/// Starts a run of a model.
pub fn begin() {
    RUN.fetch_add(1, Ordering::SeqCst);
    *CHILD.lock().expect("one thread at a time") = None;
}

/// Runs `work` in a child.
pub(crate) fn fork(work: impl FnOnce() + Send + 'static) {
    // No other thread runs between these lines, so the atomics do not change.
    let now = STEP.load(Ordering::SeqCst);
    let child = thread::spawn(move || {
        let me = (thread::current().id(), now);
        *CHILD.lock().expect("one thread at a time") = Some(me);
        work();
    });
    step();
    drop(child);
}

/// Returns 1 in a child, otherwise 0.
pub fn process() -> usize {
    let child = *CHILD.lock().expect("one thread at a time");
    usize::from(child.is_some_and(|(id, _)| id == thread::current().id()))
}

/// Returns the number of the process.
pub(crate) fn id() -> u32 {
    process() as u32 + 1
}

/// The values that a static had, with their steps, and the value of the child's copy.
struct History<T> {
    run: usize,
    parent: Vec<(usize, T)>,
    child: Option<T>,
}

/// A static with an atomic value.
struct Word<T> {
    first: T,
    history: std::sync::Mutex<Option<History<T>>>,
}

impl<T: Copy> Word<T> {
    const fn new(first: T) -> Self {
        Self { first, history: std::sync::Mutex::new(None) }
    }

    /// Takes a step: reads the value and perhaps writes it.
    fn with(&self, change: impl FnOnce(T) -> Option<T>) -> T {
        step();
        let now = STEP.fetch_add(1, Ordering::SeqCst) + 1;
        let run = RUN.load(Ordering::SeqCst);
        let mut history = self.history.lock().expect("one thread at a time");
        let fresh = || History { run, parent: Vec::new(), child: None };
        let history = history.get_or_insert_with(fresh);
        if history.run != run {
            *history = fresh();
        }
        let child = *CHILD.lock().expect("one thread at a time");
        let mine = child.filter(|(id, _)| *id == thread::current().id());
        let old = match (mine, history.child) {
            (Some(_), Some(own)) => own,
            (Some((_, forked)), None) => history.before(forked).unwrap_or(self.first),
            (None, _) => history.before(now).unwrap_or(self.first),
        };
        if let Some(new) = change(old) {
            match mine {
                Some(_) => history.child = Some(new),
                None => history.parent.push((now, new)),
            }
        }
        old
    }
}

impl<T: Copy> History<T> {
    fn before(&self, step: usize) -> Option<T> {
        self.parent.iter().rev().find(|(at, _)| *at <= step).map(|(_, value)| *value)
    }
}

pub(crate) struct AtomicBool(Word<bool>);

impl AtomicBool {
    pub(crate) const fn new(first: bool) -> Self {
        Self(Word::new(first))
    }

    pub(crate) fn swap(&self, value: bool, _: Ordering) -> bool {
        self.0.with(|_| Some(value))
    }

    pub(crate) fn store(&self, value: bool, _: Ordering) {
        self.0.with(|_| Some(value));
    }
}

pub(crate) struct AtomicU32(Word<u32>);

impl AtomicU32 {
    pub(crate) const fn new(first: u32) -> Self {
        Self(Word::new(first))
    }

    pub(crate) fn load(&self, _: Ordering) -> u32 {
        self.0.with(|_| None)
    }

    pub(crate) fn store(&self, value: u32, _: Ordering) {
        self.0.with(|_| Some(value));
    }

    pub(crate) fn compare_exchange(&self, old: u32, new: u32, _: Ordering, _: Ordering) -> Result<u32, u32> {
        let now = self.0.with(|now| (now == old).then_some(new));
        if now == old { Ok(now) } else { Err(now) }
    }
}

/// Stores an address as a number, which threads can share.
pub(crate) struct AtomicPtr<T>(Word<usize>, std::marker::PhantomData<fn() -> T>);

impl<T> AtomicPtr<T> {
    /// Creates a `NULL` pointer, the only initial value of the statics.
    pub(crate) const fn new(_: *mut T) -> Self {
        Self(Word::new(0), std::marker::PhantomData)
    }

    pub(crate) fn load(&self, _: Ordering) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.0.with(|_| None))
    }

    pub(crate) fn store(&self, value: *mut T, _: Ordering) {
        self.0.with(|_| Some(value.expose_provenance()));
    }
}
