//! Sessions: their states, their rights, and the objects that end with them.

use jeton::error::Error;
use jeton::id::{MechanismType as M, session_state as state};
use jeton::module::Access;

use crate::keys::{Kind, pair};
use crate::support::{Client, DEFAULT, none, one_user, plain};

#[test]
fn the_token_counts_its_sessions() {
    let client = Client::new(DEFAULT);
    let counts = || {
        let token = client.module.token(client.slot).expect("a token");
        (token.sessions, token.rw_sessions)
    };
    assert_eq!(counts(), (0, 0));
    let session = client.open();
    client.module.open_session(client.slot, Access::ReadOnly).expect("a session");
    assert_eq!(counts(), (2, 1));
    client.module.close_session(session).expect("a session");
    assert_eq!(counts(), (1, 0));
    client.module.close_all_sessions(client.slot).expect("sessions");
    assert_eq!(counts(), (0, 0));
}

#[test]
fn the_login_ends_with_the_last_session() {
    one_user(|client, first| {
        let second = client.open();
        client.module.close_session(first).expect("a session");
        let state = |session| client.module.session(session).expect("a session").state;
        assert_eq!(state(second), state::RW_USER_FUNCTIONS);
        client.module.close_session(second).expect("a session");
        let third = client.open();
        assert_eq!(state(third), state::RW_PUBLIC_SESSION);
    });
}

#[test]
fn finalize_ends_sessions_and_login() {
    let client = Client::new(DEFAULT);
    let session = client.user();
    let parameters = client.directory.parameters(DEFAULT, "");
    assert_eq!(client.module.initialize(Some(&parameters)), Err(Error::AlreadyInitialized));
    client.module.finalize().expect("a module");
    assert_eq!(client.module.finalize(), Err(Error::NotInitialized));
    assert_eq!(client.module.slots(), Err(Error::NotInitialized));
    client.module.initialize(Some(&parameters)).expect("a module");
    assert_eq!(client.module.session(session).err(), Some(Error::SessionHandleInvalid));
    let state = client.module.session(client.open()).expect("a session").state;
    assert_eq!(state, state::RW_PUBLIC_SESSION);
}

#[test]
fn logout_ends_private_handles_and_re_armed_operations() {
    one_user(|client, session| {
        let other = client.open();
        let mechanism = plain(M::ECDSA_SHA256);
        let (public, private) = pair(client, session, Kind::P256, &none().stored());
        let (_, of_session) = pair(client, session, Kind::P256, &none());
        for key in [private, of_session] {
            client.sign(session, &mechanism, key, b"data").expect("a signature");
        }
        client.module.sign_init(other, &mechanism, private).expect("an operation");
        client.module.logout(other).expect("the user");

        let signed = client.module.sign(other, b"data", jeton::module::Output::Buffer(&mut [0; 64]));
        assert_eq!(signed, Err(Error::OperationNotInitialized));
        for key in [private, of_session] {
            assert_eq!(client.sign(session, &mechanism, key, b"data"), Err(Error::KeyHandleInvalid));
            assert_eq!(client.module.object(session, key).err(), Some(Error::ObjectHandleInvalid));
        }
        assert!(client.module.object(session, public).is_ok());

        // After the next login the token object is visible again. The session object is gone.
        client.login(session);
        let mine = none().number(jeton::id::AttributeType::CLASS, jeton::id::ObjectClass::PRIVATE_KEY.0);
        let again = client.find_one(session, &mine);
        client.sign(session, &mechanism, again, b"data").expect("a signature");
    });
}
