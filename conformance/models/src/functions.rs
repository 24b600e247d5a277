//! A replacement of the module. It only checks that the code under test uses the module correctly.

use crate::error::Result;
use crate::sync;

pub struct Module {
    /// The process that created it. No other process may use it.
    process: usize,
    up: std::sync::atomic::AtomicBool,
    /// Whether a thread is inside `initialize` or `finalize`. No other thread may be there.
    busy: std::sync::atomic::AtomicBool,
}

impl Default for Module {
    fn default() -> Self {
        Self { process: sync::process(), up: false.into(), busy: false.into() }
    }
}

impl Module {
    pub fn start(&self) -> Result<()> {
        self.change(true)
    }

    pub fn stop(&self) -> Result<()> {
        self.change(false)
    }

    pub fn is_up(&self) -> bool {
        self.mine();
        self.up.load(ORDER)
    }

    fn change(&self, up: bool) -> Result<()> {
        self.mine();
        assert!(!self.busy.swap(true, ORDER), "two threads change the module");
        // Other threads may run in between.
        sync::step();
        assert_ne!(self.up.swap(up, ORDER), up, "started twice, or stopped twice");
        sync::step();
        self.busy.store(false, ORDER);
        Ok(())
    }

    fn mine(&self) {
        assert_eq!(self.process, sync::process(), "a child uses its parent's module");
    }
}

const ORDER: std::sync::atomic::Ordering = std::sync::atomic::Ordering::SeqCst;
