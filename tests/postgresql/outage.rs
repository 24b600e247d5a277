//! A server that stops, crashes and starts again.

use std::thread;

use crate::prelude::*;
use crate::support::server::Server;
use crate::{another, host, server};

/// How long a client may need to find the server again: the longest pause of the store, and the
/// start of the server.
const BACK: Duration = Duration::from_secs(20);

/// The time without a server. A host asks for changes once a second.
const OUTAGE: Duration = Duration::from_millis(1500);

fn own_server(name: &str) -> Option<Server> {
    server()?;
    Server::start(name, "-c fsync=off")
}

fn until_ok<T>(mut work: impl FnMut() -> Result<T, Error>) -> T {
    let start = Instant::now();
    loop {
        match work() {
            Ok(done) => return done,
            Err(reason) => assert!(start.elapsed() < BACK, "{reason:?} after {:?}", start.elapsed()),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn signing_goes_on_during_an_outage_and_changes_fail() {
    let Some(server) = own_server("outage") else { return };
    let one = host(&server, "");
    let session = one.user();
    pair(&one, session, Kind::P256, &none().stored().label("pair"));
    let wanted = none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0);
    let key = one.find_one(session, &wanted);
    server.crash();

    let start = Instant::now();
    while start.elapsed() < OUTAGE {
        let begin = Instant::now();
        one.sign(session, &plain(M::ECDSA_SHA256), key, b"data").expect("a signature");
        assert_eq!(one.find(session, &wanted), [key]);
        assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    }
    assert_eq!(one.create(session, &data("new").stored()), Err(Error::DeviceError));
    assert_eq!(one.destroy_object(session, key), Err(Error::DeviceError));
    one.create(session, &data("in memory")).expect("a session object");
    one.token(one.slot).expect("a token");
    assert_eq!(one.slots().expect("slots").len(), 2);
    one.logout(session).expect("the user");
    assert_eq!(one.module.login(session, User::User, PIN), Err(Error::DeviceError));

    server.start_again();
    until_ok(|| one.module.login(session, User::User, PIN));
    one.create(session, &data("new").stored()).expect("data");
    assert_eq!(one.find(session, &data("new").stored()).len(), 1);
    one.sign(session, &plain(M::ECDSA_SHA256), one.find_one(session, &wanted), b"data").expect("a signature");
}

#[test]
fn a_host_that_only_signs_reconnects_and_notices_changes() {
    let Some(server) = own_server("reconnect") else { return };
    let one = host(&server, "");
    let two = another(&one, "");
    let (mine, yours) = (one.user(), two.user());
    pair(&one, mine, Kind::P256, &none().stored().label("pair"));
    let wanted = none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0);
    let (own, other) = (one.find_one(mine, &wanted), two.find_one(yours, &wanted));
    let sign = || two.sign(yours, &plain(M::ECDSA_SHA256), other, b"data");
    sign().expect("a signature");
    server.crash();
    let start = Instant::now();
    while start.elapsed() < OUTAGE {
        sign().expect("a signature during the outage");
        thread::sleep(Duration::from_millis(50));
    }
    server.start_again();
    until_ok(|| one.destroy_object(mine, own));
    jeton_child::until(BACK, "a destroyed key signs", || sign().is_err());
}

#[test]
fn a_long_outage_ends_the_use_of_keys_if_the_configuration_says_so() {
    let Some(server) = own_server("limit") else { return };
    let one = host(&server, ", store = { outage-seconds = 1 }");
    let session = one.user();
    pair(&one, session, Kind::P256, &none().stored().label("pair"));
    let key = one.find_one(session, &none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0));
    let sign = || one.sign(session, &plain(M::ECDSA_SHA256), key, b"data").map(drop);
    let message = || one.sign_message(session, b"data", Output::Buffer(&mut [0; 64]));
    one.message_sign_init(session, &plain(M::ECDSA_SHA256), key).expect("an operation");
    server.crash();
    let start = Instant::now();
    while message().is_ok() {
        assert!(start.elapsed() < Duration::from_secs(6), "signed for {:?}", start.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(message(), Err(Error::OperationNotInitialized));
    assert!((0..20).all(|_| sign().is_err()), "each use of a key is refused");
    server.start_again();
    until_ok(|| one.find_init(session, &none().template()));
    sign().expect("a signature");
}

#[test]
fn a_change_whose_wait_for_the_standby_was_cancelled_is_not_acknowledged() {
    let Some(server) = own_server("cancelled") else { return };
    let one = host(&server, "");
    let session = one.user();
    // There is no such standby, so each commit waits.
    wait_for_standby(&server, "missing");
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    thread::scope(|scope| {
        let created = scope.spawn(|| one.create(session, &data("new").stored()));
        jeton_child::until(BACK, "the commit does not wait", || server.sql(cancel) != "0");
        assert_eq!(created.join().expect("a thread"), Err(Error::DeviceError));
    });
    // The server has made the change.
    assert_eq!(one.find(session, &data("new").stored()).len(), 1);
}

#[test]
fn a_server_that_waits_for_no_standby_is_refused_if_the_configuration_says_so() {
    let Some(server) = own_server("standby") else { return };
    let one = host(&server, "");
    let session = one.user();
    let strict = ", store = { require-standby = true }";
    let directory = Arc::clone(&one.directory);
    let start = || Client::start(&directory, &directory.parameters(crate::provider(), strict));
    assert_eq!(start().err(), Some(Error::DeviceError));
    // With this level a commit does not wait for the standby, which does not exist.
    server.sql("ALTER ROLE postgres SET synchronous_commit = 'local'");
    wait_for_standby(&server, "missing");
    let two = another(&one, ", store = { require-standby = true, least-commit = 'local' }");
    let yours = two.user();
    two.create(yours, &data("first").stored()).expect("data");
    wait_for_standby(&server, "");
    assert_eq!(two.create(yours, &data("second").stored()), Err(Error::DeviceError));
    one.create(session, &data("third").stored()).expect("data of a host without the key");
}

fn wait_for_standby(server: &Server, name: &str) {
    server.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
    server.sql("SELECT pg_reload_conf()");
    let is_set = || server.sql("SHOW synchronous_standby_names") == name;
    jeton_child::until(BACK, "the server keeps its setting", is_set);
}
