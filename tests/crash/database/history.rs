//! Compares the calls of all processes with one object that exists from its creation to its
//! destruction. Each object is created once and destroyed once at most, so a history is
//! linearizable if no call contradicts an earlier one in real time.

/// A call about one object. The times are those of one clock.
#[derive(Clone)]
pub struct Call {
    pub what: What,
    pub begin: u128,
    pub end: u128,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    Created,
    /// A creation that failed, so that the object may exist.
    MayBeCreated,
    Destroyed,
    MayBeDestroyed,
    Found,
    NotFound,
}

/// A contradiction, and for how long a search was too old.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An object is missing this number of milliseconds after it was created or found.
    Lost(u128),
    /// An object was found before its creation.
    TooEarly,
    /// An object was found this number of milliseconds after it was destroyed or missing.
    CameBack(u128),
}

/// Returns what is wrong with the history of one object.
pub fn check(calls: &[Call]) -> Vec<Wrong> {
    let first = |is: fn(What) -> bool, at: fn(&Call) -> u128| {
        calls.iter().filter(|call| is(call.what)).map(at).min().unwrap_or(u128::MAX)
    };
    let created = first(|what| matches!(what, What::Created | What::MayBeCreated), |call| call.begin);
    let exists = first(|what| matches!(what, What::Created | What::Found), |call| call.end);
    let destroying = first(|what| matches!(what, What::Destroyed | What::MayBeDestroyed), |call| call.begin);
    // An object that is missing after it existed was destroyed.
    let is_missing = |call: &&Call| call.what == What::NotFound && call.begin > exists;
    let destroyed = first(|what| what == What::Destroyed, |call| call.end);
    let gone = calls.iter().filter(is_missing).map(|call| call.end).min().unwrap_or(u128::MAX).min(destroyed);
    let mut wrong = Vec::new();
    for call in calls {
        match call.what {
            What::NotFound if call.begin > exists && call.end < destroying => {
                wrong.push(Wrong::Lost(call.begin - exists));
            }
            What::Found if call.end < created => wrong.push(Wrong::TooEarly),
            What::Found if call.begin > gone => wrong.push(Wrong::CameBack(call.begin - gone)),
            _ => {}
        }
    }
    wrong
}

/// Fails if the check finds no contradiction in a wrong history, or one in a right history.
pub fn test() {
    let call = |(what, begin, end)| Call { what, begin, end };
    let wrong = |calls: &[(What, u128, u128)]| check(&calls.iter().copied().map(call).collect::<Vec<_>>());
    use What::{Created, Destroyed, Found, MayBeCreated, MayBeDestroyed, NotFound};
    let whole = [(Created, 1, 2), (Found, 3, 4), (Destroyed, 5, 6), (NotFound, 7, 8)];
    assert_eq!(wrong(&whole), []);
    let together =
        [(MayBeCreated, 1, 4), (NotFound, 2, 3), (Found, 3, 9), (MayBeDestroyed, 5, 6), (NotFound, 7, 8)];
    assert_eq!(wrong(&together), [], "calls at the same time have any order");
    assert_eq!(wrong(&[(Created, 1, 2), (NotFound, 3, 4)]), [Wrong::Lost(1)]);
    assert_eq!(wrong(&[(MayBeCreated, 1, 2), (Found, 3, 4), (NotFound, 5, 6)]), [Wrong::Lost(1)]);
    assert_eq!(wrong(&[(Found, 1, 2), (Created, 3, 4)]), [Wrong::TooEarly]);
    assert_eq!(wrong(&[(Created, 1, 2), (Destroyed, 3, 4), (Found, 7, 8)]), [Wrong::CameBack(3)]);
    let back = [(Created, 1, 2), (MayBeDestroyed, 3, 9), (NotFound, 4, 5), (Found, 6, 7)];
    assert_eq!(wrong(&back), [Wrong::CameBack(1)], "a search saw the destruction");
}
