//! Several processes on one directory. Here each process is a separate module.

use std::collections::BTreeSet;

use jeton::mechanism::message::MessageParams;
use jeton::store::Store;
use jeton::store::sqlite::SqliteStore;

use crate::prelude::*;

#[test]
fn a_search_shows_the_changes_of_another_process() {
    let [(one, mine), (two, yours)] = two_users();
    let made = one.create(mine, &data("shared").stored()).expect("data");
    let seen = two.find_one(yours, &data("shared"));
    assert_eq!(two.read(yours, seen, A::VALUE).expect("a value"), b"some data");

    one.set(mine, made, &none().label("renamed")).expect("a change");
    assert_eq!(two.find(yours, &data("shared")), []);
    assert_eq!(two.find(yours, &none().label("renamed")), [seen]);

    one.destroy_object(mine, made).expect("data");
    assert_eq!(two.find(yours, &none()), []);
    assert_eq!(two.object(yours, seen).err(), Some(Error::ObjectHandleInvalid));

    // Without a search in between.
    let made = one.create(mine, &data("a").stored()).expect("data");
    let seen = two.find_one(yours, &data("a"));
    one.destroy_object(mine, made).expect("data");
    assert_eq!(two.set(yours, seen, &none().label("b")), Err(Error::ObjectHandleInvalid));
    assert_eq!(two.destroy_object(yours, seen), Err(Error::ObjectHandleInvalid));
}

/// An application that goes on at another agent has such handles.
#[test]
fn the_handle_of_an_object_that_another_process_made_is_valid_without_a_search() {
    let [(one, mine), (two, yours)] = two_users();
    for logouts in 0..2 {
        let made = one.create(mine, &data("new").stored().flag(A::PRIVATE, true)).expect("data");
        assert_eq!(two.read(yours, made, A::VALUE).expect("a value"), b"some data", "{logouts}");
        one.destroy_object(mine, made).expect("data");
        for (client, session) in [(&one, mine), (&two, yours)] {
            client.logout(session).expect("a logout");
            assert_eq!(client.read(session, made, A::VALUE), Err(Error::ObjectHandleInvalid));
            client.login(session);
        }
    }
}

#[test]
fn private_objects_of_another_process_need_a_login() {
    let one = Client::new(DEFAULT);
    let two = Client::beside(&one.directory, DEFAULT, "");
    let (mine, yours) = (one.user(), two.open());
    let (public, _) = pair(&one, mine, Kind::P256, &none().stored().label("pair"));
    assert_eq!(two.find(yours, &none().label("pair")).len(), 1);
    two.login(yours);
    let found = two.find(yours, &none().label("pair").flag(A::PRIVATE, true));
    let signature = two.sign(yours, &plain(M::ECDSA_SHA256), found[0], b"data").expect("a signature");
    assert_eq!(one.verify(mine, &plain(M::ECDSA_SHA256), public, b"data", &signature), Ok(()));
}

#[test]
fn a_change_keeps_the_changes_of_another_process() {
    let [(one, mine), (two, yours)] = two_users();
    let key = secret(KeyType::AES, &[7; 32]);
    let shown = key.flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true);
    let made = one.create(mine, &shown.stored()).expect("a key");
    let seen = two.find_one(yours, &none());
    one.set(mine, made, &none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false)).expect("a change");
    two.set(yours, seen, &none().label("renamed")).expect("a change");
    for (client, session) in [(&one, mine), (&two, yours)] {
        let key = client.find_one(session, &none().label("renamed"));
        assert!(client.flag(session, key, A::SENSITIVE) && !client.flag(session, key, A::EXTRACTABLE));
        assert_eq!(client.read(session, key, A::VALUE), Err(Error::AttributeSensitive));
    }
}

#[test]
fn a_search_ends_the_re_arming_of_a_key_that_another_process_destroyed() {
    let [(one, mine), (two, yours)] = two_users();
    pair(&one, mine, Kind::P256, &none().stored());
    let of_two = two.find_one(yours, &none().flag(A::SIGN, true));
    let mechanism = plain(M::ECDSA_SHA256);
    two.sign(yours, &mechanism, of_two, b"data").expect("a signature");
    one.destroy_object(mine, one.find_one(mine, &none().flag(A::SIGN, true))).expect("a key");
    assert_eq!(two.find(yours, &none().flag(A::SIGN, true)), []);
    assert_eq!(two.sign(yours, &mechanism, of_two, b"data"), Err(Error::KeyHandleInvalid));
}

/// Repeats `work` until it fails, and returns the error.
fn until_refused(mut work: impl FnMut() -> Result<(), Error>) -> Error {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if let Err(error) = work() {
            return error;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the key was still usable half a minute after it was destroyed");
}

/// An `Init` function permits one result. An operation that returns more of them ends when its key
/// is destroyed.
#[test]
fn an_operation_with_many_results_ends_when_another_process_destroys_the_key() {
    let [(one, mine), (two, yours)] = two_users();
    let (module, gcm, ecb) = (&two.module, plain(M::AES_GCM), plain(M::AES_ECB));
    pair(&one, mine, Kind::P256, &none().stored().label("a pair"));
    pair(&one, mine, Kind::Aes, &none().stored().label("a secret key"));
    let private = none().label("a pair").flag(A::SIGN, true);
    let signer = two.find_one(yours, &private);
    let secret = two.find_one(yours, &none().label("a secret key"));
    let encryption = || MessageParams::new(AeadScheme::AesGcm, &[7; 12], 16).expect("a parameter");
    let crypt = |direction| {
        let (mut params, mut out) = (encryption(), [0; 4]);
        let out = Output::Buffer(&mut out);
        module.crypt_message(yours, direction, &mut params, b"", b"data", out).map(drop)
    };
    let mut sign = || module.sign_message(yours, b"data", Output::Buffer(&mut [0; 64])).map(drop);
    let mut part = || module.encrypt_update(yours, &[7; 16], Output::Buffer(&mut [0; 16])).map(drop);

    module.message_sign_init(yours, &plain(M::ECDSA_SHA256), signer).expect("an operation");
    module.message_crypt_init(yours, Direction::Encrypt, &gcm, secret).expect("an operation");
    module.encrypt_init(yours, &ecb, secret).expect("an operation");
    // A change of another object does not end an operation.
    one.create(mine, &data("another").stored()).expect("data");
    assert_eq!(two.find(yours, &data("another")).len(), 1);
    assert_eq!((sign(), crypt(Direction::Encrypt), part()), (Ok(()), Ok(()), Ok(())));

    one.destroy_object(mine, one.find_one(mine, &private)).expect("a key");
    assert_eq!(until_refused(&mut sign), Error::KeyHandleInvalid);
    assert_eq!(sign(), Err(Error::OperationNotInitialized));
    assert_eq!((crypt(Direction::Encrypt), part()), (Ok(()), Ok(())));
    one.destroy_object(mine, one.find_one(mine, &none().label("a secret key"))).expect("a key");
    assert_eq!(until_refused(&mut part), Error::KeyHandleInvalid);
    assert_eq!(crypt(Direction::Encrypt), Err(Error::KeyHandleInvalid));
    for _ in 0..2 {
        let ended = Err(Error::OperationNotInitialized);
        assert_eq!((crypt(Direction::Encrypt), part()), (ended, ended));
    }
}

/// The same for a key that a thread of this process destroys, or that loses its usage.
#[test]
fn an_operation_with_many_results_ends_when_its_key_may_not_be_used() {
    let (client, session) = one_user();
    let sign = || client.sign_message(session, b"data", Output::Buffer(&mut [0; 64])).map(drop);
    let (_, private) = pair(&client, session, Kind::P256, &none());
    client.message_sign_init(session, &plain(M::ECDSA_SHA256), private).expect("an operation");
    assert_eq!(sign(), Ok(()));
    client.set(session, private, &none().flag(A::SIGN, false)).expect("a change");
    assert_eq!(sign(), Err(Error::KeyFunctionNotPermitted));
    client.set(session, private, &none().flag(A::SIGN, true)).expect("a change");
    assert_eq!(sign(), Err(Error::OperationNotInitialized));
    client.message_sign_init(session, &plain(M::ECDSA_SHA256), private).expect("an operation");
    client.sign_message_begin(session).expect("a message");
    client.destroy_object(session, private).expect("a key");
    let end = client.sign_message_end(session, b"data", Output::Buffer(&mut [0; 64]));
    assert_eq!(end, Err(Error::KeyHandleInvalid));
    assert_eq!(client.message_sign_final(session), Err(Error::OperationNotInitialized));
}

/// Lets another process take away a key with which a client signs. Returns the first error that the
/// client gets without a search, and the result of its next signature.
fn errors_after_change(take_away: impl Fn(&Client, SessionHandle)) -> (Error, Option<Error>) {
    let [(one, mine), (two, yours)] = two_users();
    pair(&one, mine, Kind::P256, &none().stored());
    let kept = two.find_one(yours, &none().flag(A::SIGN, true));
    let sign = || two.sign(yours, &plain(M::ECDSA_SHA256), kept, b"data").map(drop);
    sign().expect("a signature");
    take_away(&one, mine);
    (until_refused(sign), sign().err())
}

#[test]
fn a_key_that_another_process_destroyed_stops_signing_within_seconds_without_a_search() {
    let errors = errors_after_change(|one, mine| {
        let key = one.find_one(mine, &none().flag(A::SIGN, true));
        one.destroy_object(mine, key).expect("a key");
    });
    assert_eq!(errors, (Error::KeyHandleInvalid, Some(Error::KeyHandleInvalid)));
}

#[test]
fn a_login_ends_within_seconds_after_init_token_by_another_process() {
    let errors = errors_after_change(|one, _| {
        one.close_all_sessions(one.slot).expect("no sessions");
        one.init_token(one.slot, SO_PIN, LABEL).expect("a token");
    });
    assert_eq!(errors, (Error::DeviceRemoved, Some(Error::KeyHandleInvalid)));
}

#[test]
fn the_slot_list_shows_a_token_of_another_process() {
    let directory = Directory::new();
    let one = Client::beside(&directory, DEFAULT, "");
    let two = Client::beside(&directory, DEFAULT, "");
    one.init_token(one.slot, SO_PIN, LABEL).expect("a token");
    let serial = one.token(one.slot).expect("a token").serial;
    let slots = two.slots().expect("slots");
    let serials: Vec<_> = slots.iter().map(|slot| two.token(*slot).expect("a token").serial).collect();
    assert_eq!(serials, [serial, String::new()]);
    // The token is in the slot in which it was initialised.
    assert_eq!((slots[0], slots[1]), (one.slot, SlotId(one.slot.0 + 1)));
    let session = two.open_session(slots[0], Access::ReadWrite).expect("a session");
    two.set_user_pin(session, PIN);
    one.user();
}

/// A search in one thread reads the changes of the other process while another thread writes.
#[test]
fn objects_created_at_once_by_two_processes_are_found_once_by_both() {
    const THREADS: usize = 3;
    const OBJECTS: usize = 12;
    let sessions = &two_users();
    std::thread::scope(|scope| {
        for (client, _) in sessions {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let session = client.open();
                    for _ in 0..OBJECTS {
                        client.create(session, &data("mine").stored()).expect("data");
                        client.find(session, &none());
                    }
                });
            }
        }
    });
    for (client, session) in sessions {
        let found = client.find(*session, &data("mine"));
        let name = |object: &_| client.read(*session, *object, A::UNIQUE_ID).expect("an identifier");
        let unique: BTreeSet<_> = found.iter().map(name).collect();
        assert_eq!((found.len(), unique.len()), (2 * THREADS * OBJECTS, 2 * THREADS * OBJECTS));
    }
}

#[test]
fn init_token_by_another_process_invalidates_the_old_token() {
    let one = Client::new(DEFAULT);
    let two = Client::beside(&one.directory, DEFAULT, "");
    let (officer, yours, public) = (one.open(), two.user(), two.open());
    let old = two.create(yours, &data("old").stored()).expect("data");
    one.close_session(officer).expect("a session");
    one.init_token(one.slot, SO_PIN, LABEL).expect("a token");

    // An object that the second process sealed under the old token key would be lost.
    assert_eq!(two.create(yours, &data("lost").stored()).err(), Some(Error::DeviceRemoved));
    // The first search returns the error. After it the session is on the new token, without a
    // login.
    assert_eq!(two.find_init(yours, &none().template()), Err(Error::DeviceRemoved));
    assert_eq!(two.find(yours, &none()), []);
    assert_eq!(two.object(yours, old).err(), Some(Error::ObjectHandleInvalid));
    assert_eq!(two.create(yours, &data("public").stored()).err(), Some(Error::UserNotLoggedIn));

    let officer = one.open();
    one.set_user_pin(officer, PIN);
    two.login(public);
    two.create(yours, &data("new").stored()).expect("data");
    one.login(officer);
    assert_eq!(one.find(officer, &data("new")).len(), 1);
}

#[test]
fn an_so_session_from_before_init_token_cannot_init_the_pin() {
    let one = Client::new(DEFAULT);
    let two = Client::beside(&one.directory, DEFAULT, "");
    let (session, yours) = (one.open(), two.open());
    two.module.login(yours, User::SecurityOfficer, SO_PIN).expect("a login");
    one.close_session(session).expect("a session");
    one.init_token(one.slot, SO_PIN, LABEL).expect("a token");
    assert_eq!(two.init_pin(yours, PIN), Err(Error::DeviceRemoved));
}

#[test]
fn a_token_is_visible_only_after_its_initialisation() {
    const TOKENS: u64 = 8;
    let client = Client::beside(&Directory::new(), DEFAULT, "");
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| {
            for _ in 0..TOKENS {
                let free = *client.slots().expect("slots").last().expect("a free one");
                client.init_token(free, SO_PIN, LABEL).expect("a token");
            }
        });
        while !maker.is_finished() {
            for path in SqliteStore::files(client.directory.path()).expect("files") {
                let header = SqliteStore::open(&path).and_then(|store| store.header());
                assert!(header.is_ok(), "{}", path.display());
            }
        }
    });
    let files = files_below(client.directory.path()).into_iter();
    assert_eq!(files.filter(|path| path.extension().is_some_and(|end| end == "new")).count(), 0);
}
