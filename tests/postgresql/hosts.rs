//! Several hosts that use one token.

use std::collections::BTreeSet;
use std::thread;

use jeton::admin::{Pins, TokenFile};
use jeton::functions::Module;
use jeton_words::operation::Signed;

use crate::prelude::*;
use crate::support::server::Server;
use crate::{another, host, number, provider, server};

/// The bound of docs/postgresql.md, and a second for a busy machine.
const STALENESS: Duration = Duration::from_secs(4);

#[test]
fn a_host_that_only_signs_notices_a_destroyed_key_in_time() {
    let Some(server) = server() else { return };
    let one = host(server, "");
    let two = another(&one, "");
    let (mine, yours) = (one.user(), two.user());
    pair(&one, mine, Kind::P256, &none().stored().label("pair"));
    let key = |client: &Client, session| {
        client.find_one(session, &none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0))
    };
    let (own, other) = (key(&one, mine), key(&two, yours));
    let sign = || two.sign(yours, &plain(M::ECDSA_SHA256), other, b"data");
    sign().expect("a signature");
    one.destroy_object(mine, own).expect("the key");
    let start = Instant::now();
    while sign().is_ok() {
        assert!(start.elapsed() < STALENESS, "the key was destroyed {:?} ago", start.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
    println!("noticed after {:?}", start.elapsed());
    assert_eq!(sign().err(), Some(Error::KeyHandleInvalid));
}

/// Without announcements, a host asks once a second.
#[test]
fn a_host_that_only_signs_asks_after_each_announcement() {
    if server().is_none() {
        return;
    }
    const ANNOUNCEMENTS: usize = 60;
    let server = Server::start("announced", "-c fsync=off -c autovacuum=off").expect("a server");
    let one = host(&server, "");
    let session = one.user();
    pair(&one, session, Kind::P256, &none().stored().label("pair"));
    let key = one.find_one(session, &none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0));
    let schema = one.directory.schema();
    let serial = server.sql(&format!("SELECT serial FROM {schema}.token"));
    let announce = format!(
        "DO $$ BEGIN FOR number IN 1..{ANNOUNCEMENTS} LOOP
             PERFORM pg_notify('{schema}', '{serial}'); COMMIT; PERFORM pg_sleep(0.05);
         END LOOP; END $$"
    );
    let commits = || -> usize {
        let sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
        server.sql(sql).parse().expect("a number")
    };
    let sign = |time: Duration| {
        let begin = Instant::now();
        while begin.elapsed() < time {
            one.sign(session, &plain(M::ECDSA_SHA256), key, b"data").expect("a signature");
            thread::sleep(Duration::from_millis(5));
        }
    };
    // The server counts the commits of a session at most once a second.
    let settled = Duration::from_millis(2500);
    sign(settled);
    let (before, start) = (commits(), Instant::now());
    thread::scope(|scope| {
        let announcing = scope.spawn(|| server.sql(&announce));
        while !announcing.is_finished() {
            sign(Duration::from_millis(50));
        }
    });
    sign(settled);
    let questions = (commits() - before).saturating_sub(ANNOUNCEMENTS);
    let once_a_second = start.elapsed().as_secs() as usize;
    println!("{questions} questions in {:?}", start.elapsed());
    assert!(questions > 2 * once_a_second + 4, "{questions} questions in {:?}", start.elapsed());
}

#[test]
fn a_new_token_key_ends_the_login_of_every_host_and_keeps_the_objects() {
    let Some(server) = server() else { return };
    let one = host(server, "");
    let mine = one.user();
    pair(&one, mine, Kind::P256, &none().stored().label("pair"));
    let (tokens, _) = TokenFile::all(Some(&one.directory.parameters(provider(), ""))).expect("tokens");
    assert_eq!(tokens.len(), 1);
    tokens[0].rekey(&Pins { so: SO_PIN, user: Some(PIN) }).expect("a new key");
    assert_eq!(one.find_init(mine, &none().template()), Err(Error::DeviceRemoved));
    one.login(mine);
    let key = one.find_one(mine, &none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0));
    one.sign(mine, &plain(M::ECDSA_SHA256), key, b"data").expect("a signature");
    assert!(one.flag(mine, key, A::SENSITIVE));
}

#[test]
fn a_new_token_key_may_take_longer_than_the_limit_of_a_call() {
    let Some(server) = server() else { return };
    let one = host(server, "");
    let mine = one.user();
    for label in ["one", "two", "three"] {
        one.create(mine, &data(label).stored()).expect("an object");
    }
    let schema = one.directory.schema();
    server.sql(&format!(
        "SET search_path = {schema};
         CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$;
         CREATE TRIGGER slows BEFORE UPDATE ON object FOR EACH ROW EXECUTE FUNCTION {schema}.slow()"
    ));
    let parameters = one.directory.parameters(provider(), ", store = { timeout-seconds = 1 }");
    let (tokens, _) = TokenFile::all(Some(&parameters)).expect("tokens");
    let start = Instant::now();
    tokens[0].rekey(&Pins { so: SO_PIN, user: Some(PIN) }).expect("a new key");
    assert!(start.elapsed() > Duration::from_secs(1));
}

#[test]
fn wrong_pins_of_ten_hosts_lock_at_the_limit() {
    let Some(server) = server() else { return };
    const LIMIT: usize = 3;
    let first = host(server, "");
    let hosts: Vec<_> = (0..10).map(|_| another(&first, "")).collect();
    for _ in 0..3 {
        let results: Vec<_> = thread::scope(|scope| {
            let tries = |client: &Client| {
                let session = client.open();
                (0..2).map(|_| client.module.login(session, User::User, b"a wrong one")).collect::<Vec<_>>()
            };
            let running: Vec<_> = hosts.iter().map(|client| scope.spawn(move || tries(client))).collect();
            running.into_iter().flat_map(|host| host.join().expect("a host")).collect()
        });
        let count = |error| results.iter().filter(|result| **result == Err(error)).count();
        assert_eq!((count(Error::PinIncorrect), count(Error::PinLocked)), (LIMIT, 20 - LIMIT));
        let session = first.open();
        assert_eq!(first.module.login(session, User::User, PIN), Err(Error::PinLocked));
        first.set_user_pin(session, PIN);
        first.close_session(session).expect("a session");
    }
}

#[test]
fn right_pins_of_ten_hosts_never_lock() {
    let Some(server) = server() else { return };
    let first = host(server, "");
    let hosts: Vec<_> = (0..10).map(|_| another(&first, "")).collect();
    thread::scope(|scope| {
        for client in &hosts {
            scope.spawn(|| {
                let session = client.open();
                for _ in 0..5 {
                    assert_eq!(client.module.login(session, User::User, PIN), Ok(()));
                    client.logout(session).expect("the user");
                }
            });
        }
    });
}

/// Uses the counter of a key. Returns the value that was used.
fn count(client: &Client, session: SessionHandle, key: ObjectHandle) -> Vec<u8> {
    let params = Params::Otp { counter: None, digits: None, format: None, flags: 0 };
    let mechanism = Mechanism { params, ..plain(M::HOTP) };
    client.sign_init(session, &mechanism, key).expect("an operation");
    match Module::sign(&client.module, session, b"", Output::Buffer(&mut [0; 256])).expect("a password") {
        Signed::Password(password) => password.counter.to_vec(),
        signed => panic!("{signed:?}"),
    }
}

#[test]
fn a_counter_of_four_hosts_repeats_no_value() {
    let Some(server) = server() else { return };
    let first = host(server, "");
    let uses = number("JETON_TEST_USES", 400) / 4;
    let session = first.user();
    let key = key_object(ObjectClass::OTP_KEY, KeyType::HOTP).bytes(A::VALUE, b"12345678901234567890");
    first.create(session, &key.stored().label("counter")).expect("a key");
    let hosts: Vec<_> = (0..4).map(|_| another(&first, "")).collect();
    let start = Instant::now();
    let values: Vec<_> = thread::scope(|scope| {
        let work = |client: &Client| {
            let session = client.user();
            let key = client.find_one(session, &none().label("counter"));
            (0..uses).map(|_| count(client, session, key)).collect::<Vec<_>>()
        };
        let running: Vec<_> = hosts.iter().map(|client| scope.spawn(move || work(client))).collect();
        running.into_iter().flat_map(|host| host.join().expect("a host")).collect()
    });
    let different: BTreeSet<_> = values.iter().collect();
    println!("{} uses by 4 hosts in {:?}", values.len(), start.elapsed());
    assert_eq!((values.len() as u64, different.len()), (4 * uses, values.len()));
}
