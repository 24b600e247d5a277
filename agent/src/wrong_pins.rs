//! The wrong PINs of one client since the start of its worker, and how many it may have.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jeton::functions::{PinMark, User};
use jeton::id::token_flag;

use crate::lock;

/// The wrong PINs of a client for a user of a token that the agent passes on. Half of those that a
/// token allows.
pub(crate) const MOST_WRONG: usize = 5;
/// How long a client waits after that number of wrong PINs.
pub(crate) const PAUSE: Duration = Duration::from_secs(600);
/// Why a PIN of a rule is not tried.
pub(crate) const WRONG: &str = "the PIN is wrong: it is not tried again";

/// A user's PIN of the token with this serial number. Another PIN has another mark.
pub(crate) type Pin = (String, User, PinMark);

/// The wrong PINs of the client since the start of its worker, for `C_GetTokenInfo`: by the PIN,
/// and when the last one was.
#[derive(Default)]
pub(crate) struct Wrong(Mutex<HashMap<Pin, (usize, Instant)>>);

impl Wrong {
    pub(crate) fn note(&self, key: Pin, count: impl FnOnce(usize) -> usize) {
        let mut all = lock(&self.0);
        let (wrong, since) = all.entry(key).or_insert_with(|| (0, Instant::now()));
        if since.elapsed() > PAUSE {
            *wrong = 0;
        }
        // A try that is refused does not count, and does not begin the pause again.
        let counted = count(*wrong);
        if counted != *wrong {
            (*wrong, *since) = (counted, Instant::now());
        }
    }

    /// Returns the flags of a token (`CKF_*`) that say how many tries the client has left.
    pub(crate) fn flags(&self, serial: &str, mark: impl Fn(User) -> PinMark) -> u64 {
        if lock(&self.0).is_empty() {
            return 0;
        }
        let pin = |user| (serial.to_owned(), user, mark(user));
        let of_user = |user, low, last, locked| match lock(&self.0).get(&pin(user)) {
            Some((wrong, since)) if *wrong != 0 && since.elapsed() <= PAUSE => match MOST_WRONG - wrong {
                0 => low | locked,
                1 => low | last,
                _ => low,
            },
            _ => 0,
        };
        of_user(
            User::User,
            token_flag::USER_PIN_COUNT_LOW,
            token_flag::USER_PIN_FINAL_TRY,
            token_flag::USER_PIN_LOCKED,
        ) | of_user(
            User::SecurityOfficer,
            token_flag::SO_PIN_COUNT_LOW,
            token_flag::SO_PIN_FINAL_TRY,
            token_flag::SO_PIN_LOCKED,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_try_does_not_count() {
        let (wrong, key) = (Wrong::default(), || ("serial".to_owned(), User::User, [1; 16]));
        let one_more = |wrong: usize| MOST_WRONG.min(wrong + 1);
        (0..MOST_WRONG).for_each(|_| wrong.note(key(), one_more));
        assert_ne!(wrong.flags("serial", |_| [1; 16]) & token_flag::USER_PIN_LOCKED, 0);
        // The PIN was set again.
        assert_eq!(wrong.flags("serial", |_| [2; 16]), 0);
        let Some(long_ago) = Instant::now().checked_sub(PAUSE + Duration::from_secs(1)) else { return };
        let since = |wrong: &Wrong| lock(&wrong.0)[&key()].1;
        let before = since(&wrong);
        wrong.note(key(), |_| MOST_WRONG);
        assert_eq!(since(&wrong), before);
        // After the pause, the first wrong PIN is the first.
        lock(&wrong.0).get_mut(&key()).expect("a count").1 = long_ago;
        wrong.note(key(), one_more);
        assert_eq!(lock(&wrong.0)[&key()].0, 1);
    }
}
