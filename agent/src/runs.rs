//! The runs of the KDF of PINs that one client may have at the same time. All clients share the
//! processors, in the order in which their calls came. So a client with many calls would delay the
//! logins of all others, even if it knows only the PINs of tokens of its own.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jeton::error::{Error, Result};
use jeton::quota::{Permit, Quota};
use jeton_words::token::Function;

/// How long a call waits for other calls of the client.
const WAIT: Duration = Duration::from_secs(600);

/// The runs of a client. Each is one unit of the quota.
pub(crate) struct Runs(Arc<Quota>);

impl Runs {
    /// Lets a client have half of the processors, but at least one.
    pub(crate) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Self(Quota::new((processors / 2).max(1)))
    }

    /// Waits for a run, and has it until the permit is dropped.
    pub(crate) fn begin(&self) -> Result<Permit> {
        self.0.take(1, WAIT).ok_or(Error::DeviceMemory)
    }

    /// Begins the run of a call. `None` if the function has no PIN.
    pub(crate) fn of_call(&self, function: Function) -> Result<Option<Permit>> {
        function.has_pin().then(|| self.begin()).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_call_waits_for_the_runs_of_its_client_only() {
        let (own, other) = (Runs::new(), Runs::new());
        let mut held: Vec<_> = (0..own.0.limit()).map(|_| own.begin().expect("a run")).collect();
        assert!(other.of_call(Function::C_InitPIN).expect("a run").is_some());
        assert!(own.of_call(Function::C_Sign).expect("no run").is_none());
        let (sender, begun) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _run = own.of_call(Function::C_InitPIN);
                sender.send(()).expect("the test");
            });
            assert!(begun.recv_timeout(Duration::from_millis(50)).is_err());
            held.pop();
            begun.recv().expect("the run");
        });
    }
}
