//! The pace of one client: the calls in a second that its rule allows.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::rules::Rule;

/// Spaces the calls of a client, and its new connections.
#[derive(Default)]
pub struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Returns how long the next call has to wait.
    pub fn turn(&self, rule: &Rule) -> Duration {
        let Some(step) = step(rule) else { return Duration::ZERO };
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // Calls of an idle second may come at once.
        let earliest = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        let turn = next.map_or(earliest, |next| next.max(earliest)) + step;
        *next = Some(turn);
        turn.saturating_duration_since(now)
    }

    /// Gives back the turn of a call that is not made. Otherwise connections that end while they
    /// wait would delay the others of the client.
    pub fn give_back(&self, rule: &Rule) {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *next = next.zip(step(rule)).and_then(|(next, step)| next.checked_sub(step));
    }
}

/// Returns the time between two calls; `None` without a limit.
fn step(rule: &Rule) -> Option<Duration> {
    rule.calls_per_second.map(|most| Duration::from_secs(1) / most.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{Peer, Unit};
    use crate::rules::Rules;

    #[test]
    fn calls_after_the_first_second_wait() {
        let rules = Rules::parse("[[client]]\ncalls-per-second = 100").expect("rules");
        let root = Peer::User { uid: 0, groups: vec![0], has_all_groups: true, unit: Unit::None, process: 1 };
        let verdict = rules.verdict(&root);
        let rule = verdict.rule().expect("a rule");
        let pace = Pace::default();
        let waits: Vec<_> = (0..150).map(|_| pace.turn(rule)).collect();
        assert_eq!(waits[99], Duration::ZERO);
        assert!(waits[149] >= Duration::from_millis(400), "{:?}", waits[149]);
        (0..50).for_each(|_| pace.give_back(rule));
        assert!(pace.turn(rule) <= waits[101]);
    }
}
