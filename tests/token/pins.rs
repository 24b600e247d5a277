//! PINs, logins, and the token flags about them.

use std::fs::File;

use jeton::config::Settings;
use jeton::functions::Threads;
use jeton::id::token_flag as flag;
use jeton::store::sqlite::SqliteStore;
use jeton::token::Token;
use rusqlite::Connection;

use crate::prelude::*;

const WRONG: &[u8] = b"a wrong one";

#[test]
fn there_is_always_a_free_slot_for_a_new_token() {
    let client = Client::beside(&Directory::new(), DEFAULT, "");
    let free = client.token(client.slot).expect("a token to be initialised");
    assert_eq!((free.label, free.flags & flag::TOKEN_INITIALIZED), ([b' '; 32], 0));
    assert_eq!(client.open_session(client.slot, Access::ReadWrite), Err(Error::TokenNotRecognized));
    assert_eq!(client.init_token(client.slot, b"123", LABEL), Err(Error::PinLenRange));

    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    let token = client.token(client.slot).expect("a token");
    assert_eq!((token.label, token.serial.len()), (*LABEL, 16));
    let functions =
        flag::RNG | flag::RESTORE_KEY_NOT_NEEDED | flag::DUAL_CRYPTO_OPERATIONS | flag::CLOCK_ON_TOKEN;
    let always = functions | flag::LOGIN_REQUIRED | flag::ASYNC_SESSION_SUPPORTED;
    assert_eq!(client.flags(), always | flag::TOKEN_INITIALIZED);
    let slots = client.slots().expect("slots");
    assert_eq!((slots[0], slots.len()), (client.slot, 2));
    assert_eq!(client.token(slots[1]).expect("a token").serial, "");
}

#[test]
fn the_user_can_log_in_after_the_so_set_a_pin() {
    let client = Client::beside(&Directory::new(), DEFAULT, "");
    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    let session = client.open();
    let login = |user, pin| client.module.login(session, user, pin);
    assert_eq!(login(User::User, PIN), Err(Error::UserPinNotInitialized));
    assert_eq!(client.init_pin(session, PIN), Err(Error::UserNotLoggedIn));
    assert_eq!(login(User::SecurityOfficer, WRONG), Err(Error::PinIncorrect));
    assert_eq!(login(User::SecurityOfficer, SO_PIN), Ok(()));
    assert_eq!(login(User::SecurityOfficer, SO_PIN), Err(Error::UserAlreadyLoggedIn));
    assert_eq!(login(User::User, PIN), Err(Error::UserAnotherAlreadyLoggedIn));
    assert_eq!(client.init_pin(session, b"123"), Err(Error::PinLenRange));
    assert_eq!(client.flags() & flag::USER_PIN_INITIALIZED, 0);
    assert_eq!(client.init_pin(session, PIN), Ok(()));
    assert_ne!(client.flags() & flag::USER_PIN_INITIALIZED, 0);

    assert_eq!(client.logout(session), Ok(()));
    assert_eq!(client.logout(session), Err(Error::UserNotLoggedIn));
    assert_eq!(login(User::User, WRONG), Err(Error::PinIncorrect));
    assert_eq!(login(User::User, SO_PIN), Err(Error::PinIncorrect));
    assert_eq!(login(User::User, PIN), Ok(()));
    assert_eq!(login(User::User, PIN), Err(Error::UserAlreadyLoggedIn));
    assert_eq!(login(User::SecurityOfficer, SO_PIN), Err(Error::UserAnotherAlreadyLoggedIn));
}

#[test]
fn wrong_pins_lock_the_user_out_until_the_so_sets_a_new_pin() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    let login = |pin| client.module.login(session, User::User, pin);
    let (low, last, locked) = (flag::USER_PIN_COUNT_LOW, flag::USER_PIN_FINAL_TRY, flag::USER_PIN_LOCKED);
    for expected in [low, low | last, locked] {
        assert_eq!(login(WRONG), Err(Error::PinIncorrect));
        assert_eq!(client.flags() & (low | last | locked), expected);
    }
    assert_eq!(login(PIN), Err(Error::PinLocked));
    assert_eq!(client.set_pin(session, PIN, b"another"), Err(Error::PinLocked));

    // The count is on disk: a process that starts now is locked out too.
    let other = Client::beside(&client.directory, DEFAULT, "");
    let others = other.open();
    assert_eq!(other.module.login(others, User::User, PIN), Err(Error::PinLocked));

    client.set_user_pin(session, b"a new one");
    assert_eq!(client.flags() & (low | last | locked), 0);
    assert_eq!(login(b"a new one"), Ok(()));
    assert_eq!(other.module.login(others, User::User, b"a new one"), Ok(()));
}

#[test]
fn a_correct_pin_resets_the_count_of_wrong_pins() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    for _ in 0..4 {
        assert_eq!(client.module.login(session, User::User, WRONG), Err(Error::PinIncorrect));
        assert_ne!(client.flags() & flag::USER_PIN_COUNT_LOW, 0);
        assert_eq!(client.module.login(session, User::User, PIN), Ok(()));
        assert_eq!(client.flags() & flag::USER_PIN_COUNT_LOW, 0);
        client.logout(session).expect("the user");
    }
}

/// Logs in with another module, whose configuration has this memory in KiB and number of passes.
fn log_in(client: &Client, (memory_kib, passes): (u32, u32), user: User, pin: &[u8]) -> Result<()> {
    let (place, name) = (client.directory.path().display(), DEFAULT.name);
    let rules = format!("memory-kib = {memory_kib}, passes = {passes}");
    let module = Module::new();
    module.initialize(Some(&format!("token-dir = '{place}', backend = '{name}', pin = {{ {rules} }}")))?;
    let session = module.open_session(client.slot, Access::ReadWrite)?;
    module.login(session, user, pin)
}

#[test]
fn a_login_strengthens_only_a_weak_pin_record() {
    // Argon2id over 8 KiB in one pass.
    let client = Client::new(DEFAULT);
    let made = record(&client);
    assert_eq!(made[..2], [8, 1]);
    assert_eq!(log_in(&client, (16, 2), User::User, WRONG), Err(Error::PinIncorrect));
    assert_eq!(log_in(&client, (16, 2), User::SecurityOfficer, SO_PIN), Ok(()));
    assert_eq!(record(&client), made);
    assert_eq!(log_in(&client, (16, 2), User::User, PIN), Ok(()));
    let stronger = record(&client);
    assert_eq!(stronger[..2], [16, 2]);
    // The record is as strong as the configuration, or stronger: it stays.
    for cost in [(16, 2), (8, 2), (8, 1)] {
        assert_eq!(log_in(&client, cost, User::User, PIN), Ok(()));
        assert_eq!(record(&client), stronger);
    }
    // The record is weaker in one parameter and stronger in another. The new record has the
    // greater value of each parameter.
    assert_eq!(log_in(&client, (8, 3), User::User, PIN), Ok(()));
    assert_eq!(record(&client)[..2], [16, 3]);
    client.user();
}

#[test]
fn a_login_succeeds_if_its_pin_record_cannot_be_strengthened() {
    let client = Client::new(DEFAULT);
    let made = record(&client);
    // An altered summary is not overwritten.
    database(&client).execute_batch("UPDATE token SET summary = x''").expect("a summary");
    assert_eq!(log_in(&client, (16, 1), User::User, PIN), Ok(()));
    assert_eq!(record(&client), made);
}

fn database(client: &Client) -> Connection {
    Connection::open(client.directory.file("jeton")).expect("the token file")
}

/// Returns the record of the user's PIN. The record begins with the parameters of Argon2id, which
/// have one byte each here.
fn record(client: &Client) -> Vec<u8> {
    let row = database(client).query_row("SELECT user_pin FROM token", [], |row| row.get(0));
    row.expect("a record")
}

#[test]
fn a_locked_so_pin_blocks_init_token() {
    let client = Client::new(DEFAULT);
    for _ in 0..3 {
        assert_eq!(client.init_token(client.slot, WRONG, LABEL), Err(Error::PinIncorrect));
    }
    assert_ne!(client.flags() & flag::SO_PIN_LOCKED, 0);
    assert_eq!(client.init_token(client.slot, SO_PIN, LABEL), Err(Error::PinLocked));
    // The user's PIN is not affected.
    client.user();
}

#[test]
fn set_pin_changes_only_the_pin_of_the_caller() {
    let client = Client::new(DEFAULT);
    let read_only = client.open_session(client.slot, Access::ReadOnly).expect("a session");
    assert_eq!(client.set_pin(read_only, PIN, b"another"), Err(Error::SessionReadOnly));
    assert_eq!(client.init_pin(read_only, PIN), Err(Error::SessionReadOnly));
    client.close_session(read_only).expect("a session");

    // Without a login, C_SetPIN changes the user's PIN.
    let session = client.open();
    assert_eq!(client.set_pin(session, WRONG, b"another"), Err(Error::PinIncorrect));
    assert_eq!(client.set_pin(session, PIN, b"abc"), Err(Error::PinLenRange));
    assert_eq!(client.set_pin(session, PIN, b"another"), Ok(()));
    assert_eq!(client.module.login(session, User::User, PIN), Err(Error::PinIncorrect));
    assert_eq!(client.module.login(session, User::User, b"another"), Ok(()));
    assert_eq!(client.set_pin(session, b"another", PIN), Ok(()));
    client.logout(session).expect("the user");

    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    assert_eq!(client.set_pin(session, SO_PIN, b"the SO's new one"), Ok(()));
    client.logout(session).expect("the SO");
    let login = |pin| client.module.login(session, User::SecurityOfficer, pin);
    assert_eq!(login(SO_PIN), Err(Error::PinIncorrect));
    assert_eq!(login(b"the SO's new one"), Ok(()));
    client.logout(session).expect("the SO");
    client.login(session);
}

#[test]
fn init_token_keeps_the_serial_number_and_erases_the_rest() {
    let client = Client::new(DEFAULT);
    let serial = client.token(client.slot).expect("a token").serial;
    let session = client.user();
    client.create(session, &data("a").stored()).expect("data");
    let label = b"another label                   ";
    assert_eq!(client.init_token(client.slot, SO_PIN, label), Err(Error::SessionExists));
    client.close_all_sessions(client.slot).expect("sessions");
    client.init_token(client.slot, SO_PIN, label).expect("a token");

    let token = client.token(client.slot).expect("a token");
    assert_eq!((token.label, token.serial), (*label, serial));
    assert_eq!(token.flags & flag::USER_PIN_INITIALIZED, 0);
    let session = client.open();
    assert_eq!(client.find(session, &data("a")), []);
    assert_eq!(client.module.login(session, User::User, PIN), Err(Error::UserPinNotInitialized));
}

/// Opens the token without PKCS#11, as the tool does.
fn token_file(client: &Client, provider: &Provider) -> Token {
    let settings = Settings::load(Some(&client.directory.parameters(provider, "")), Threads::Forbidden)
        .expect("settings");
    let store = SqliteStore::open(&client.directory.file("jeton")).expect("the token file");
    Token::open(client.slot, Arc::new(settings), Box::new(store)).expect("a token")
}

/// Returns the counts of wrong PINs on disk, of the SO and of the user.
fn failures(client: &Client) -> (u32, u32) {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    database(client).query_row("SELECT so_failures, user_failures FROM token", [], read).expect("failures")
}

#[test]
fn the_user_pin_replaces_a_locked_so_pin() {
    let (client, session) = one_user();
    let private = data("kept").stored().flag(A::PRIVATE, true);
    client.create(session, &private).expect("an object");
    client.close_session(session).expect("a session");
    for _ in 0..3 {
        assert_eq!(client.init_token(client.slot, WRONG, LABEL), Err(Error::PinIncorrect));
    }
    assert_eq!(client.init_token(client.slot, SO_PIN, LABEL), Err(Error::PinLocked));

    let token = token_file(&client, DEFAULT);
    assert_eq!(token.reset_so_pin(WRONG, b"a new SO PIN"), Err(Error::PinIncorrect));
    assert_eq!(failures(&client), (3, 1));
    assert_eq!(token.reset_so_pin(PIN, b"123"), Err(Error::PinLenRange));
    assert_eq!(token.reset_so_pin(PIN, b"a new SO PIN"), Ok(()));
    assert_eq!(failures(&client), (0, 0));

    let session = client.open();
    let login = |user, pin| client.module.login(session, user, pin);
    assert_eq!(login(User::SecurityOfficer, SO_PIN), Err(Error::PinIncorrect));
    assert_eq!(login(User::SecurityOfficer, b"a new SO PIN"), Ok(()));
    assert_eq!(client.init_pin(session, b"another"), Ok(()));
    client.logout(session).expect("the SO");
    assert_eq!(login(User::User, b"another"), Ok(()));
    assert_eq!(client.find(session, &private).len(), 1);
}

#[test]
fn unlocking_without_a_pin_keeps_the_pins() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    for user in [User::User, User::SecurityOfficer] {
        (0..3).for_each(|_| assert_eq!(client.module.login(session, user, WRONG), Err(Error::PinIncorrect)));
    }
    assert_eq!(client.module.login(session, User::User, PIN), Err(Error::PinLocked));
    assert_eq!(token_file(&client, DEFAULT).reset_failures(), Ok(()));
    assert_eq!(failures(&client), (0, 0));
    assert_eq!(client.module.login(session, User::User, WRONG), Err(Error::PinIncorrect));
    assert_eq!(client.module.login(session, User::User, PIN), Ok(()));
    client.logout(session).expect("the user");
    assert_eq!(client.module.login(session, User::SecurityOfficer, SO_PIN), Ok(()));
}

#[test]
fn a_damaged_pin_record_costs_no_attempt() {
    let client = Client::new(DEFAULT);
    let (so, user): (Vec<u8>, Vec<u8>) = database(&client)
        .query_row("SELECT so_pin, user_pin FROM token", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("the records");
    database(&client).execute("UPDATE token SET so_pin = x'ff', user_pin = x'ff'", []).expect("damage");
    let session = client.open();
    for _ in 0..5 {
        for user in [User::User, User::SecurityOfficer] {
            assert_eq!(client.module.login(session, user, PIN), Err(Error::TokenNotRecognized));
        }
        assert_eq!(client.set_pin(session, PIN, b"a new one"), Err(Error::TokenNotRecognized));
    }
    client.close_session(session).expect("a session");
    for _ in 0..5 {
        assert_eq!(client.init_token(client.slot, SO_PIN, LABEL), Err(Error::TokenNotRecognized));
    }
    assert_eq!(failures(&client), (0, 0));
    database(&client).execute("UPDATE token SET so_pin = ?1, user_pin = ?2", [so, user]).expect("repair");
    client.user();
}

#[test]
fn a_correct_pin_that_fails_for_another_reason_costs_no_attempt() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    let read_only = client.open_session(client.slot, Access::ReadOnly).expect("a session");
    for _ in 0..5 {
        let refused = client.module.login(session, User::SecurityOfficer, SO_PIN);
        assert_eq!(refused, Err(Error::SessionReadOnlyExists));
        assert_eq!(failures(&client), (0, 0));
    }
    client.close_session(read_only).expect("a session");
    assert_eq!(client.module.login(session, User::SecurityOfficer, SO_PIN), Ok(()));
}

#[test]
fn a_held_attempt_lock_delays_a_login_for_a_limited_time() {
    let client = Client::new(DEFAULT);
    let holder = File::open(client.directory.file("jeton-lock")).expect("the lock");
    holder.lock().expect("the lock");
    release_later(&holder);
    let session = client.open();
    let start = Instant::now();
    assert_eq!(client.module.login(session, User::User, PIN), Err(Error::DeviceError));
    let time = start.elapsed();
    assert!((15..60).contains(&time.as_secs()), "{time:?}");
    assert_eq!(failures(&client), (0, 0));
    holder.unlock().expect("the lock");
    client.login(session);
}

#[test]
fn each_new_pin_has_another_mark() {
    let client = Client::new(DEFAULT);
    let other = Client::beside(&client.directory, DEFAULT, "");
    let marks = || {
        let mark = |module: &Module, user| module.pin_mark(client.slot, user).expect("a token");
        let marks = [User::SecurityOfficer, User::User].map(|user| mark(&client.module, user));
        assert_eq!(marks, [User::SecurityOfficer, User::User].map(|user| mark(&other.module, user)));
        assert_eq!(marks[1], mark(&client.module, User::ContextSpecific));
        assert_ne!(marks[0], marks[1]);
        marks
    };
    let [so, first] = marks();
    assert!(so.is_some() && first.is_some());

    let session = client.open();
    let login = |user, pin| client.module.login(session, user, pin);
    assert_eq!(login(User::User, WRONG), Err(Error::PinIncorrect));
    login(User::User, PIN).expect("the user");
    assert_eq!(marks(), [so, first]);
    // The same PIN again is a new one, and the mark tells nothing about it.
    client.set_pin(session, PIN, PIN).expect("a PIN");
    let [_, second] = marks();
    assert_ne!(second, first);
    client.logout(session).expect("the user");

    login(User::SecurityOfficer, SO_PIN).expect("the SO");
    client.init_pin(session, PIN).expect("a PIN");
    let [same, third] = marks();
    assert!(same == so && third != first && third != second);
    client.set_pin(session, SO_PIN, SO_PIN).expect("a PIN");
    let [new, same] = marks();
    assert!(new != so && same == third);
    client.close_session(session).expect("a session");

    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    let [last, none] = marks();
    assert!(last.is_some() && last != new && none.is_none());
    assert_eq!(client.pin_mark(client.slots().expect("slots")[1], User::User), Ok(None));
}

#[test]
fn a_login_that_strengthens_the_record_of_a_pin_keeps_its_mark() {
    let client = Client::new(DEFAULT);
    let mark = |client: &Client| client.pin_mark(client.slot, User::User).expect("a token");
    let old = (mark(&client), record(&client));
    let slow = Client::slow(&client.directory, DEFAULT);
    slow.module.login(slow.open(), User::User, PIN).expect("the user");
    assert_ne!(record(&client), old.1);
    assert_eq!(mark(&client), old.0);
    // The new record is one of the same PIN.
    client.module.login(client.open(), User::User, PIN).expect("the user");
}
