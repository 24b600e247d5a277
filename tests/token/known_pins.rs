//! An application logs in without a run of the KDF if another one of its client is logged in with
//! the same PIN. In these tests the PIN record is damaged meanwhile, so that the KDF would find
//! each PIN wrong.

use jeton::id::token_flag as flag;
use jeton::token::Identity;
use rusqlite::Connection;

use crate::prelude::*;

const WRONG: &[u8] = b"a wrong one";
const NEW: &[u8] = b"a new one";

/// Returns an application of a client, and a session.
fn application(agent: &Client, client: &str) -> (Client, SessionHandle) {
    let identity = Identity { name: client.to_owned(), ..Identity::default() };
    let module = agent.join_for(Some(identity)).expect("an application").into();
    let client = Client { module, slot: agent.slot, directory: Arc::clone(&agent.directory) };
    let session = client.open();
    (client, session)
}

fn login((client, session): &(Client, SessionHandle), pin: &[u8]) -> Result<()> {
    client.module.login(*session, User::User, pin)
}

/// Damages the record of the user's PIN without a change of its mark, or repairs it.
fn toggle_damage(client: &Client) {
    let connection = Connection::open(client.directory.file("jeton")).expect("the token file");
    let record: Vec<u8> =
        connection.query_row("SELECT user_pin FROM token", [], |row| row.get(0)).expect("a record");
    let (last, rest) = record.split_last().expect("a record");
    connection.execute("UPDATE token SET user_pin = ?1", [[rest, &[last ^ 1]].concat()]).expect("damage");
}

#[test]
fn a_known_pin_logs_in_applications_of_its_client_only() {
    let agent = Client::new(DEFAULT);
    let [first, second, third] = ["web", "web", "web"].map(|client| application(&agent, client));
    let other = application(&agent, "we");
    assert_eq!(login(&first, PIN), Ok(()));
    toggle_damage(&agent);
    assert_eq!(login(&other, PIN), Err(Error::PinIncorrect));
    let process = Client::beside(&agent.directory, DEFAULT, "");
    assert_eq!(process.module.login(process.open(), User::User, PIN), Err(Error::PinIncorrect));
    assert_eq!(login(&second, PIN), Ok(()));
    assert_eq!(login(&second, PIN), Err(Error::UserAlreadyLoggedIn));
    let key = second.0.create(second.1, &secret(KeyType::AES, &[7; 32]).label("key").stored());
    assert_eq!(first.0.find_one(first.1, &none().label("key")), key.expect("a key"));

    // After a wrong PIN no PIN is known: an error that is not counted would allow guesses.
    assert_eq!(login(&third, WRONG), Err(Error::PinIncorrect));
    assert_eq!(login(&third, PIN), Err(Error::PinIncorrect));
    toggle_damage(&agent);
    assert_eq!(login(&third, PIN), Ok(()));
    assert_eq!(login(&other, PIN), Ok(()));
    let [first, second, third] = [first, second, third].map(|(client, session)| client.logout(session));
    assert_eq!([first, second, third], [Ok(()); 3]);
}

#[test]
fn a_pin_is_known_until_the_last_login_of_its_client_ends() {
    type End = fn(&(Client, SessionHandle)) -> Result<()>;
    let ends: [End; 4] = [
        |(client, session)| client.logout(*session),
        |(client, session)| client.close_session(*session),
        |(client, _)| client.close_all_sessions(client.slot),
        |(client, _)| client.finalize(),
    ];
    let agent = Client::new(DEFAULT);
    // Keeps the token key in memory.
    let other = application(&agent, "other");
    assert_eq!(login(&other, PIN), Ok(()));
    for end in ends {
        let [first, second, third] = ["web", "web", "web"].map(|client| application(&agent, client));
        assert_eq!(login(&first, PIN), Ok(()));
        assert_eq!(login(&second, PIN), Ok(()));
        toggle_damage(&agent);
        assert_eq!(end(&first), Ok(()));
        assert_eq!(login(&third, PIN), Ok(()));
        assert_eq!((end(&second), end(&third)), (Ok(()), Ok(())));
        assert_eq!(login(&application(&agent, "web"), PIN), Err(Error::PinIncorrect));
        toggle_damage(&agent);
        assert_eq!(login(&application(&agent, "web"), PIN), Ok(()));
    }
}

#[test]
fn a_replaced_pin_is_not_known() {
    type Change = fn(&Client);
    let changes: [Change; 3] = [
        |agent| {
            let (client, session) = application(agent, "web");
            assert_eq!(client.set_pin(session, PIN, NEW), Ok(()));
        },
        |agent| agent.set_user_pin(agent.open(), NEW),
        |agent| {
            let other = Client::beside(&agent.directory, DEFAULT, "");
            assert_eq!(other.set_pin(other.open(), PIN, NEW), Ok(()));
        },
    ];
    for change in changes {
        let agent = Client::new(DEFAULT);
        let [first, second, third] = ["web", "web", "web"].map(|client| application(&agent, client));
        assert_eq!(login(&first, PIN), Ok(()));
        change(&agent);
        assert_eq!(login(&second, PIN), Err(Error::PinIncorrect));
        assert_eq!(login(&second, NEW), Ok(()));
        toggle_damage(&agent);
        assert_eq!(login(&third, PIN), Err(Error::PinIncorrect));
    }
    // The token that another process initialises has another user.
    let agent = Client::new(DEFAULT);
    let [first, second] = ["web", "web"].map(|client| application(&agent, client));
    assert_eq!(login(&first, PIN), Ok(()));
    let other = Client::beside(&agent.directory, DEFAULT, "");
    assert_eq!(other.init_token(other.slot, SO_PIN, LABEL), Ok(()));
    assert_eq!(login(&second, PIN), Err(Error::UserPinNotInitialized));
    other.set_user_pin(other.open(), PIN);
    toggle_damage(&agent);
    assert_eq!(login(&second, PIN), Err(Error::PinIncorrect));
}

#[test]
fn a_known_pin_counts_as_a_right_one() {
    let agent = Client::new(DEFAULT);
    let [first, second, third] = ["web", "web", "web"].map(|client| application(&agent, client));
    let wrong = |count| {
        for _ in 0..count {
            assert_eq!(login(&application(&agent, "other"), WRONG), Err(Error::PinIncorrect));
        }
    };
    assert_eq!(login(&first, PIN), Ok(()));
    toggle_damage(&agent);
    wrong(2);
    assert_ne!(agent.flags() & flag::USER_PIN_FINAL_TRY, 0);
    assert_eq!(login(&second, PIN), Ok(()));
    assert_eq!(agent.flags() & flag::USER_PIN_COUNT_LOW, 0);
    // It does not unlock the PIN.
    wrong(3);
    assert_ne!(agent.flags() & flag::USER_PIN_LOCKED, 0);
    assert_eq!(login(&third, PIN), Err(Error::PinLocked));
}

#[test]
fn applications_that_log_in_at_once_find_all_objects() {
    let agent = Client::new(DEFAULT);
    agent.create(agent.user(), &secret(KeyType::AES, &[7; 32]).label("key").stored()).expect("a key");
    agent.finalize().expect("a module");
    let agent = Client::beside(&agent.directory, DEFAULT, "");
    let applications: Vec<_> = (0..64).map(|_| application(&agent, "web")).collect();
    std::thread::scope(|scope| {
        let work = |application @ (client, session): &(Client, SessionHandle)| {
            for _ in 0..4 {
                assert_eq!(login(application, PIN), Ok(()));
                client.find_one(*session, &none().label("key"));
                assert_eq!(client.logout(*session), Ok(()));
            }
        };
        for application in &applications {
            scope.spawn(move || work(application));
        }
    });
}
