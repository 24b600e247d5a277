//! What an administrator of the database can change, and how it is detected: docs/postgresql.md,
//! "What an administrator of the database can do".

use jeton::id::token_flag as flag;

use crate::prelude::*;
use crate::support::server::Server;
use crate::{another, host, provider, server};

/// Runs SQL as the superuser, in the schema of a token.
fn alter(server: &Server, client: &Client, sql: &str) -> String {
    server.sql(&format!("SET search_path = {}; {sql}", client.directory.schema()))
}

/// A token with three private data objects.
fn token(server: &Server) -> Client {
    let client = host(server, "");
    let session = client.user();
    for label in ["one", "two", "three"] {
        let object = data(label).stored().flag(A::PRIVATE, true);
        client.create(session, &object).expect("an object");
    }
    client.close_session(session).expect("a session");
    client
}

/// The number of data objects that a new host finds after a login.
fn found(client: &Client) -> usize {
    let other = another(client, "");
    let session = other.user();
    other.find(session, &none().number(A::CLASS, ObjectClass::DATA.0)).len()
}

/// The administrator's SQL before and after a host changes the object `one`, and the most objects
/// that a new host may find afterwards. A loss affects the group of the lost row, one of 64.
const CHANGES: [(&str, &str, usize); 4] = [
    (
        "",
        "UPDATE object SET body = set_byte(body, 30, 255 - get_byte(body, 30))
         WHERE id = (SELECT min(id) FROM object)",
        2,
    ),
    ("", "DELETE FROM object WHERE id = (SELECT min(id) FROM object)", 2),
    (
        "",
        "CREATE TABLE two AS SELECT id, tag, body FROM object ORDER BY id LIMIT 2;
         UPDATE object AS o SET tag = t.tag, body = t.body FROM two AS t
         WHERE o.id IN (SELECT id FROM two) AND o.id <> t.id",
        1,
    ),
    (
        "CREATE TABLE old AS SELECT * FROM object",
        "UPDATE object AS o SET tag = old.tag, names = old.names, body = old.body FROM old WHERE o.id = old.id",
        2,
    ),
];

#[test]
fn altered_deleted_swapped_and_older_records_are_left_out() {
    let Some(server) = server() else { return };
    for (before, after, most) in CHANGES {
        let client = token(server);
        alter(server, &client, before);
        let session = client.user();
        let object = client.find_one(session, &data("one"));
        client.set(session, object, &none().label("changed")).expect("a change");
        alter(server, &client, after);
        assert!(found(&client) <= most, "{after}");
        let other = another(&client, "");
        let session = other.user();
        assert_eq!(other.find(session, &data("one")), [], "{after}");
        other.create(session, &data("after the loss").stored()).expect("an object");
    }
}

#[test]
fn a_row_altered_while_a_host_runs_is_detected_when_the_host_changes_it() {
    let Some(server) = server() else { return };
    let client = token(server);
    let session = client.user();
    let object = client.find_one(session, &data("one"));
    alter(server, &client, "UPDATE object SET tag = set_byte(tag, 0, 255 - get_byte(tag, 0))");
    assert_eq!(client.set(session, object, &none().label("changed")), Err(Error::ObjectHandleInvalid));
}

#[test]
fn a_row_deleted_while_a_host_runs_is_detected_when_the_host_changes_it() {
    let Some(server) = server() else { return };
    let client = token(server);
    let session = client.user();
    let objects = client.find(session, &none().number(A::CLASS, ObjectClass::DATA.0));
    let state = || alter(server, &client, "SELECT change, encode(summary, 'hex') FROM token");
    alter(server, &client, "DELETE FROM object");
    let before = state();
    assert_eq!(client.destroy_object(session, objects[0]), Err(Error::ObjectHandleInvalid));
    assert_eq!(client.set(session, objects[1], &none().label("changed")), Err(Error::ObjectHandleInvalid));
    assert_eq!(state(), before, "a change that failed must not change the state");
}

/// Puts the whole schema back to the state before `change`.
fn roll_back(server: &Server, client: &Client, change: impl FnOnce()) {
    alter(
        server,
        client,
        "CREATE TABLE old_token AS SELECT * FROM token; CREATE TABLE old_object AS SELECT * FROM object",
    );
    change();
    alter(
        server,
        client,
        "BEGIN; DELETE FROM token; INSERT INTO token SELECT * FROM old_token;
         INSERT INTO object SELECT * FROM old_object; COMMIT",
    );
}

#[test]
fn a_running_host_notices_a_rollback() {
    let Some(server) = server() else { return };
    let client = token(server);
    let session = client.user();
    roll_back(server, &client, || {
        client.create(session, &data("new").stored()).expect("an object");
    });
    assert_eq!(client.find_init(session, &none().template()), Err(Error::DeviceRemoved));
    assert_eq!(client.create(session, &data("newer").stored()).err(), Some(Error::UserNotLoggedIn));
}

#[test]
fn a_counter_of_the_host_refuses_a_rollback() {
    let Some(server) = server() else { return };
    let counters = Directory::new();
    let configuration = counters.for_counters();
    let client = token(server);
    let host = another(&client, &configuration);
    let session = host.user();
    roll_back(server, &client, || {
        host.create(session, &data("new").stored()).expect("an object");
    });
    drop(host);
    let login = |configuration: &str| {
        let later = another(&client, configuration);
        later.module.login(later.open(), User::User, PIN)
    };
    assert_eq!(login(&configuration), Err(Error::DeviceError));
    assert_eq!(login(""), Ok(()), "a host without a counter cannot know");
}

#[test]
fn a_deleted_token_is_noticed() {
    let Some(server) = server() else { return };
    let client = token(server);
    let session = client.user();
    alter(server, &client, "DELETE FROM token");
    assert_eq!(client.find_init(session, &none().template()), Err(Error::DeviceRemoved));
    let other = Client::beside(&client.directory, provider(), "");
    assert_eq!(other.slots().expect("slots").len(), 1);
    assert_eq!(other.flags() & flag::TOKEN_INITIALIZED, 0);
}

#[test]
fn pin_records_and_counts_can_be_changed_but_no_pin_is_learned() {
    let Some(server) = server() else { return };
    let client = token(server);
    let session = client.open();
    let login = |pin: &[u8]| client.module.login(session, User::User, pin);
    assert_eq!(login(b"a wrong one"), Err(Error::PinIncorrect));
    // The administrator can reset the count, as the owner of a token file can.
    alter(server, &client, "UPDATE token SET user_failures = 0");
    (0..3).for_each(|_| assert_eq!(login(b"a wrong one"), Err(Error::PinIncorrect)));
    assert_eq!(login(PIN), Err(Error::PinLocked));
    alter(server, &client, "UPDATE token SET user_failures = 0, user_pin = so_pin");
    assert_eq!(login(PIN), Err(Error::PinIncorrect));
}

#[test]
fn the_database_contains_no_secret_in_clear() {
    let Some(server) = server() else { return };
    let client = host(server, "");
    let session = client.user();
    let secret = b"the content of a private object";
    let object =
        data("a private label").stored().flag(A::PRIVATE, true).without(A::VALUE).bytes(A::VALUE, secret);
    client.create(session, &object).expect("an object");
    let dump = alter(server, &client, "SELECT * FROM object; SELECT * FROM token");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for text in [&secret[..], b"a private label", PIN] {
        assert!(!dump.contains(&hex(text)), "{}", String::from_utf8_lossy(text));
    }
    assert!(dump.contains(&hex(b"a token of the tests")), "the label of the token is public");
}
