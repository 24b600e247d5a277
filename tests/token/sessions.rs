//! Sessions: their states, their rights, and the objects that end with them.

use jeton::id::session_state as state;

use crate::prelude::*;

#[test]
fn the_token_counts_its_sessions() {
    let client = Client::new(DEFAULT);
    let counts = || {
        let token = client.token(client.slot).expect("a token");
        (token.sessions, token.rw_sessions)
    };
    assert_eq!(counts(), (0, 0));
    let session = client.open();
    client.open_session(client.slot, Access::ReadOnly).expect("a session");
    assert_eq!(counts(), (2, 1));
    client.close_session(session).expect("a session");
    assert_eq!(counts(), (1, 0));
    client.close_all_sessions(client.slot).expect("sessions");
    assert_eq!(counts(), (0, 0));
}

#[test]
fn the_login_ends_with_the_last_session() {
    let (client, first) = one_user();
    let second = client.open();
    client.close_session(first).expect("a session");
    let state = |session| client.session(session).expect("a session").state;
    assert_eq!(state(second), state::RW_USER_FUNCTIONS);
    client.close_session(second).expect("a session");
    assert_eq!(state(client.open()), state::RW_PUBLIC_SESSION);
}

#[test]
fn finalize_ends_sessions_and_login() {
    let (client, session) = one_user();
    let parameters = client.directory.parameters(DEFAULT, "");
    assert_eq!(client.initialize(Some(&parameters)), Err(Error::AlreadyInitialized));
    client.finalize().expect("a module");
    assert_eq!(client.finalize(), Err(Error::NotInitialized));
    assert_eq!(client.slots(), Err(Error::NotInitialized));
    client.initialize(Some(&parameters)).expect("a module");
    assert_eq!(client.session(session).err(), Some(Error::SessionHandleInvalid));
    let state = client.session(client.open()).expect("a session").state;
    assert_eq!(state, state::RW_PUBLIC_SESSION);
}

/// An agent takes over the number of logouts that another agent counted.
#[test]
fn the_handle_of_a_private_object_stays_invalid_after_any_number_of_logouts() {
    let (client, session) = one_user();
    let (public, first) = pair(&client, session, Kind::P256, &none().stored());
    let private = none().number(A::CLASS, ObjectClass::PRIVATE_KEY.0);
    let set = |logouts| {
        client.with_session(session, |session| {
            session.set_logouts(logouts);
            Ok(())
        })
    };
    let mut old = vec![first];
    for logouts in (1..1000).chain([1 << 16, 1 << 32, 1 << 60, u64::MAX]) {
        set(logouts).expect("a session");
        let handle = client.find_one(session, &private);
        assert!(client.object(session, handle).is_ok() && client.object(session, public).is_ok());
        assert!(!old.contains(&handle), "{logouts} logouts");
        old.push(handle);
    }
    old.pop();
    for handle in old {
        assert_eq!(client.object(session, handle).err(), Some(Error::ObjectHandleInvalid));
    }
}

#[test]
fn logout_ends_private_handles_and_re_armed_operations() {
    let (client, session) = one_user();
    let other = client.open();
    let mechanism = plain(M::ECDSA_SHA256);
    let (public, private) = pair(&client, session, Kind::P256, &none().stored());
    let (_, of_session) = pair(&client, session, Kind::P256, &none());
    for key in [private, of_session] {
        client.sign(session, &mechanism, key, b"data").expect("a signature");
    }
    client.sign_init(other, &mechanism, private).expect("an operation");
    client.logout(other).expect("the user");

    let signed = client.module.sign(other, b"data", Output::Buffer(&mut [0; 64]));
    assert_eq!(signed, Err(Error::OperationNotInitialized));
    for key in [private, of_session] {
        assert_eq!(client.sign(session, &mechanism, key, b"data"), Err(Error::KeyHandleInvalid));
        assert_eq!(client.object(session, key).err(), Some(Error::ObjectHandleInvalid));
    }
    assert!(client.object(session, public).is_ok());

    // After the next login the token object is visible again. The session object is gone.
    client.login(session);
    let mine = none().number(jeton::id::AttributeType::CLASS, ObjectClass::PRIVATE_KEY.0);
    let again = client.find_one(session, &mine);
    client.sign(session, &mechanism, again, b"data").expect("a signature");
}
