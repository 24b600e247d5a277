//! Several threads use one token.

use std::sync::Barrier;
use std::sync::mpsc::channel;

use jeton::id::token_flag as flag;
use jeton::session::Session;
use jeton::token::with_handle;

use crate::prelude::*;

#[test]
fn eight_threads_sign_with_one_key_in_separate_sessions() {
    const THREADS: u8 = 8;
    const SIGNATURES: u8 = 20;
    each_user(|client, session| {
        for (kind, id) in
            [(Kind::P256, M::ECDSA_SHA256), (Kind::Ed25519, M::EDDSA), (Kind::Rsa, M::SHA256_RSA_PKCS)]
        {
            let (public, private) = pair(client, session, kind, &none().stored());
            let mechanism = plain(id);
            let signed: Vec<_> = std::thread::scope(|scope| {
                let work = |thread: u8| {
                    let session = client.open();
                    let signed: Vec<_> = (0..SIGNATURES)
                        .map(|number| {
                            let data = [thread, number];
                            (data, client.sign(session, &mechanism, private, &data).expect("a signature"))
                        })
                        .collect();
                    client.close_session(session).expect("a session");
                    signed
                };
                let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
                threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
            });
            assert_eq!(signed.len(), usize::from(THREADS) * usize::from(SIGNATURES));
            for (data, signature) in signed {
                assert_eq!(client.verify(session, &mechanism, public, &data, &signature), Ok(()), "{kind:?}");
            }
        }
    });
}

/// Two threads of a client of the agent choose the same number for what they make at once.
#[test]
fn session_objects_that_ask_for_one_handle_at_once_get_different_ones() {
    let (client, session) = one_user();
    let together = Barrier::new(2);
    for number in 0..500 {
        let make = |label: &str| {
            together.wait();
            let asked = ObjectHandle(0x2000 + number);
            with_handle(asked, || client.create(session, &data(label))).expect("data")
        };
        let (one, two) = std::thread::scope(|scope| {
            let other = scope.spawn(|| make("one"));
            let two = make("two");
            (other.join().expect("a thread"), two)
        });
        assert_ne!(one, two);
        for (label, made) in [("one", one), ("two", two)] {
            assert_eq!(client.find_one(session, &data(label)), made);
            client.destroy_object(session, made).expect("data");
        }
    }
}

#[test]
fn a_session_object_that_is_destroyed_during_a_change_stays_destroyed() {
    let (ref client, session) = one_user();
    let together = &Barrier::new(2);
    for _ in 0..1000 {
        let object = client.create(session, &data("before")).expect("data");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                together.wait();
                // It fails if the object is already destroyed.
                let _ = client.set(session, object, &none().label("after"));
            });
            together.wait();
            client.destroy_object(session, object).expect("data");
        });
        assert_eq!(client.object(session, object).err(), Some(Error::ObjectHandleInvalid));
    }
    assert_eq!(client.find(session, &data("after")), []);
}

#[test]
fn sessions_open_and_close_while_others_sign_and_search() {
    let (ref client, session) = one_user();
    let (public, private) = pair(client, session, Kind::Ed25519, &none().stored());
    let mechanism = plain(M::EDDSA);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let mechanism = &mechanism;
            scope.spawn(move || {
                for number in 0..25 {
                    let session = client.open();
                    client.create(session, &data("of a session")).expect("data");
                    assert_eq!(client.find(session, &none().flag(A::SIGN, true)), [private]);
                    let data = [thread, number];
                    let signature = client.sign(session, mechanism, private, &data).expect("a signature");
                    assert_eq!(client.verify(session, mechanism, public, &data, &signature), Ok(()));
                    client.close_session(session).expect("a session");
                }
            });
        }
    });
    let mut left = [public, private];
    left.sort_unstable();
    assert_eq!(client.find(session, &none()), left);
}

#[test]
fn changes_of_two_threads_to_one_object_both_persist() {
    let (ref client, session) = one_user();
    for template in [RSA.public.clone(), RSA.public.clone().stored()] {
        for round in 0..20u8 {
            let object = client.create(session, &template).expect("a key");
            let changes = [none().bytes(A::LABEL, &[round]), none().bytes(A::ID, &[round])];
            std::thread::scope(|scope| {
                for change in &changes {
                    scope.spawn(move || client.set(session, object, change).expect("a change"));
                }
            });
            for id in [A::LABEL, A::ID] {
                assert_eq!(client.read(session, object, id).expect("a value"), [round], "{id}");
            }
        }
    }
}

#[test]
fn each_of_many_threads_gets_the_token_objects_that_it_created() {
    const THREADS: u8 = 16;
    const OBJECTS: u8 = 10;
    let (ref client, session) = one_user();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let session = client.open();
                for number in 0..OBJECTS {
                    let template = data("of a thread").bytes(A::APPLICATION, &[thread, number]).stored();
                    let object = client.create(session, &template).expect("data");
                    let found = client.read(session, object, A::APPLICATION);
                    assert_eq!(found.expect("a value"), [thread, number]);
                    // Other changes take the same lock.
                    if number % 2 == 1 {
                        client.destroy_object(session, object).expect("an object");
                    }
                }
            });
        }
    });
    let kept = client.find(session, &none());
    assert_eq!(kept.len(), usize::from(THREADS) * usize::from(OBJECTS) / 2);
}

/// PKCS#11 3.2, C_CloseSession: the session objects of the session are destroyed.
#[test]
fn a_session_that_is_closed_during_a_call_leaves_no_object() {
    let public = none().number(A::MODULUS_BITS, 3072).flag(A::TOKEN, false);
    let private = none().flag(A::TOKEN, false);
    let (client, session) = one_user();
    for round in 0..4 {
        let closed = client.open();
        let made = std::thread::scope(|scope| {
            let generate = || {
                let generator = plain(M::RSA_PKCS_KEY_PAIR_GEN);
                let made =
                    client.generate_key_pair(closed, &generator, &public.template(), &private.template());
                made.map(drop)
            };
            let making = scope.spawn(generate);
            std::thread::sleep(Duration::from_millis(5 * round));
            client.close_session(closed).expect("a session");
            making.join().expect("a thread")
        });
        assert!(matches!(made, Ok(()) | Err(Error::SessionHandleInvalid)), "{made:?}");
        assert_eq!(client.find(session, &none()), [], "round {round}: {made:?}");
    }
}

/// PKCS#11 3.2, C_InitToken: it fails if the application has a session with the token. The session
/// opens after the call counted the sessions, while it tries the PIN.
#[test]
fn a_session_that_opens_during_an_initialisation_of_the_token_prevents_it() {
    let client = Client::slow(&Client::new(DEFAULT).directory, DEFAULT);
    let session = client.user();
    client.create(session, &data("kept").stored()).expect("data");
    client.as_so(session, || ());
    client.close_session(session).expect("a session");
    std::thread::scope(|scope| {
        let init = scope.spawn(|| client.init_token(client.slot, SO_PIN, LABEL));
        // The attempt is counted before the PIN is tried.
        while client.flags() & flag::SO_PIN_COUNT_LOW == 0 && !init.is_finished() {
            std::thread::yield_now();
        }
        let session = client.open();
        assert_eq!(init.join().expect("a thread"), Err(Error::SessionExists));
        client.login(session);
        assert_eq!(client.find(session, &data("kept")).len(), 1);
    });
}

#[test]
fn the_logout_of_a_token_waits_for_no_session_of_another_token() {
    let (ref client, session) = one_user();
    let second = client.slots().expect("slots")[1];
    client.init_token(second, SO_PIN, LABEL).expect("a token");
    let busy = client.open_session(second, Access::ReadWrite).expect("a session");
    let (entered, has_entered) = channel();
    let (leave, may_leave) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let work = |_: &mut Session| {
                entered.send(()).expect("the test");
                // Without a limit, a failure of this test would block it forever.
                let _ = may_leave.recv_timeout(Duration::from_secs(20));
                Ok(())
            };
            client.with_session(busy, work).expect("a session");
        });
        has_entered.recv().expect("the thread");
        let logout = scope.spawn(|| client.logout(session));
        let began = Instant::now();
        while !logout.is_finished() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(logout.is_finished(), "the logout waits");
        leave.send(()).expect("the thread");
        logout.join().expect("a thread").expect("a logout");
    });
}
