//! Many processes log in with one PIN, or change it, at the same time.

use jeton::id::token_flag as flag;

use super::*;

const LIMIT: u32 = 10;
const PROCESSES: usize = 10;
const WRONG: &[u8] = b"a wrong one";

/// Tries a wrong PIN several times and prints each error.
pub fn login_child() {
    let client = client(&directory(), LIMIT);
    let session = client.open();
    ready();
    for _ in 0..argument::<u32>() {
        println!("{:?}", client.module.login(session, User::User, WRONG).expect_err("a wrong PIN"));
    }
}

/// Starts processes that each try a wrong PIN this number of times. Returns the numbers of errors
/// for a wrong PIN and for a locked PIN.
fn try_wrong(directory: &Arc<Directory>, processes: usize, tries: u32) -> (usize, usize) {
    let said = together(processes, |_| Process::start("login", directory, tries)).concat();
    let count = |error: Error| said.iter().filter(|line| **line == format!("{error:?}")).count();
    let (wrong, locked) = (count(Error::PinIncorrect), count(Error::PinLocked));
    assert_eq!(wrong + locked, said.len(), "{said:?}");
    (wrong, locked)
}

fn log_in(client: &Client, pin: &[u8]) -> Result<(), Error> {
    let session = client.open();
    let outcome = client.module.login(session, User::User, pin);
    client.close_session(session).expect("a session");
    outcome
}

pub fn limit() {
    let limit = LIMIT as usize;
    let directory = token();
    let client = client(&directory, LIMIT);
    let flagged = |bit| client.flags() & bit != 0;

    // A correct PIN before the limit resets the count. Otherwise the second round would lock the
    // PIN.
    for _ in 0..2 {
        assert_eq!(try_wrong(&directory, limit - 1, 1), (limit - 1, 0));
        assert!(flagged(flag::USER_PIN_FINAL_TRY) && !flagged(flag::USER_PIN_LOCKED));
        assert_eq!(log_in(&client, PIN), Ok(()));
        assert!(!flagged(flag::USER_PIN_COUNT_LOW) && !flagged(flag::USER_PIN_FINAL_TRY));
    }
    assert_eq!(try_wrong(&directory, PROCESSES, 1), (limit, 0));
    assert!(flagged(flag::USER_PIN_LOCKED));
    assert_eq!(log_in(&client, PIN), Err(Error::PinLocked));
    unlock(&client, PIN);
    assert_eq!(log_in(&client, PIN), Ok(()));

    let (wrong, locked) = try_wrong(&directory, PROCESSES, 3);
    assert_eq!((wrong, locked), (limit, 2 * PROCESSES));
    assert_eq!(log_in(&client, PIN), Err(Error::PinLocked));
    unlock(&client, b"a new PIN");
    assert_eq!(log_in(&client, b"a new PIN"), Ok(()));
    println!(
        "{PROCESSES} processes, 3 tries each: {wrong} wrong, {locked} locked out, at a limit of {LIMIT}"
    );
}

/// Changes the PIN to a value of this process.
pub fn change_child() {
    let client = client(&directory(), u32::MAX);
    let session = client.open();
    let new: String = argument();
    ready();
    match client.set_pin(session, PIN, new.as_bytes()) {
        Ok(()) => println!("{new}"),
        Err(error) => assert_eq!(error, Error::PinIncorrect),
    }
}

pub fn changes() {
    const TURNS: usize = 3;
    let mut crowded = 0;
    for _ in 0..TURNS {
        let directory = token();
        let start = |place| Process::start("change", &directory, format!("pin {place}"));
        let said = together(PROCESSES, start).concat();
        assert_eq!(said.len(), 1, "changes of one PIN that were acknowledged: {said:?}");
        let client = client(&directory, u32::MAX);
        assert_eq!(log_in(&client, said[0].as_bytes()), Ok(()));
        assert_eq!(log_in(&client, PIN), Err(Error::PinIncorrect));
        crowded += PROCESSES - 1;
    }
    println!(
        "{PROCESSES} changes of one PIN at once, {TURNS} times: one was done each time, {crowded} refused"
    );
}
