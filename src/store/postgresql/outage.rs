//! The outages of the server: the time during which a process cannot reach it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use crate::sync::lock;

/// The beginning of the current outage, if there is one, and the longest outage that is allowed.
pub(super) struct Outage {
    /// The longest outage during which the keys in memory may be used; `None` if there is no limit.
    longest: Option<Duration>,
    began: Mutex<Option<Instant>>,
}

impl Outage {
    pub(super) fn new(longest: Option<Duration>) -> Self {
        Self { longest, began: Mutex::default() }
    }

    /// Records that the server cannot be reached. Only the first call of an outage sets its
    /// beginning and writes a line to the log.
    pub(super) fn begin(&self, reason: &str) {
        let mut began = lock(&self.began);
        if began.is_none() {
            error!("the database cannot be used, and keys stay usable for store.outage-seconds: {reason}");
            *began = Some(Instant::now());
        }
    }

    /// Records that the server can be reached. If there was an outage, writes a line to the log.
    pub(super) fn end(&self) {
        if let Some(began) = lock(&self.began).take() {
            warn!(seconds = began.elapsed().as_secs(), "the database can be reached again");
        }
    }

    /// Returns whether the server cannot be reached now, and the outage is not longer than the
    /// configuration allows.
    pub(super) fn is_allowed(&self) -> bool {
        let began = *lock(&self.began);
        began.is_some_and(|began| self.longest.is_none_or(|longest| began.elapsed() <= longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_allowed_until_the_limit() {
        let outage = Outage::new(Some(Duration::from_millis(50)));
        assert!(!outage.is_allowed(), "no outage");
        outage.begin("a test");
        assert!(outage.is_allowed());
        std::thread::sleep(Duration::from_millis(60));
        outage.begin("a test");
        assert!(!outage.is_allowed(), "it lasts too long");
        outage.end();
        outage.begin("a test");
        assert!(outage.is_allowed(), "a new outage");
        let forever = Outage::new(None);
        forever.begin("a test");
        assert!(forever.is_allowed());
    }
}
