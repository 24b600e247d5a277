//! Asynchronous sessions: key generations that continue after the call returns, their results, and
//! waiting for slot events.

use jeton::functions::AsyncFunction::{self, GenerateKey, GenerateKeyPair};
use jeton::functions::{Completed, Wait};
use jeton::id::token_flag;

use crate::prelude::*;

fn session(client: &Client) -> SessionHandle {
    let session = client.open_async_session(client.slot, Access::ReadWrite).expect("a session");
    client.login(session);
    session
}

/// Starts the generation of a key pair. The call returns `Pending`.
fn begin(client: &Client, session: SessionHandle, kind: Kind) -> Result<()> {
    client.generate(session, kind.generator(), &kind.request(), &none().stored()).map(drop)
}

/// Calls `C_AsyncComplete` until it no longer returns `Pending`.
fn complete(client: &Client, session: SessionHandle, function: AsyncFunction) -> Result<Completed> {
    loop {
        match client.async_complete(session, function) {
            Err(Error::Pending) => std::thread::sleep(Duration::from_millis(1)),
            done => return done,
        }
    }
}

#[test]
fn key_pair_generation_runs_while_the_session_works() {
    let client = Client::new(DEFAULT);
    let (module, session) = (&client.module, session(&client));
    assert!(module.session(session).expect("a session").asynchronous);
    assert!(!module.session(client.open()).expect("a session").asynchronous);
    assert_ne!(client.flags() & token_flag::ASYNC_SESSION_SUPPORTED, 0);
    for (kind, id) in [(Kind::Rsa, M::SHA256_RSA_PKCS), (Kind::MlDsa44, M::ML_DSA)] {
        assert_eq!(begin(&client, session, kind), Err(Error::Pending));
        // A session has one generation at a time. Its other calls are synchronous.
        assert_eq!(begin(&client, session, kind), Err(Error::OperationActive));
        assert_eq!(module.random(session, &mut [0; 8]), Ok(()));
        assert_eq!(module.async_complete(session, GenerateKey), Err(Error::OperationNotInitialized));
        let done = complete(&client, session, GenerateKeyPair).expect("a pair");
        let (public, private) = (done.object, done.additional.expect("a private key"));
        let signature = client.sign(session, &plain(id), private, b"data").expect("a signature");
        assert_eq!(client.verify(session, &plain(id), public, b"data", &signature), Ok(()));
        assert!(client.flag(session, private, A::TOKEN) && client.flag(session, private, A::LOCAL));
        // The result is returned once.
        assert_eq!(module.async_complete(session, GenerateKeyPair), Err(Error::OperationNotInitialized));
    }
}

#[test]
fn secret_key_generation_is_pending_and_errors_return_at_once() {
    let client = Client::new(DEFAULT);
    let (module, session) = (&client.module, session(&client));
    let make = |request: &Attributes| client.generate_key(session, M::AES_KEY_GEN, request);
    assert_eq!(make(&none()), Err(Error::TemplateIncomplete));
    assert_eq!(make(&Kind::Aes.request()), Err(Error::Pending));
    let done = complete(&client, session, GenerateKey).expect("a key");
    assert_eq!(done.additional, None);
    assert_eq!(client.number(session, done.object, A::VALUE_LEN), 16);
    let refused = client.generate(session, M::EC_KEY_PAIR_GEN, &none(), &none());
    assert_eq!(refused, Err(Error::TemplateIncomplete));
    assert_eq!(module.async_complete(session, GenerateKeyPair), Err(Error::OperationNotInitialized));
}

#[test]
fn a_generation_with_an_id_outlives_its_session_and_can_be_joined() {
    let client = Client::new(DEFAULT);
    let (module, first) = (&client.module, session(&client));
    let second = client.open();
    assert_eq!(module.async_id(first, GenerateKeyPair), Err(Error::OperationNotInitialized));
    assert_eq!(begin(&client, first, Kind::P256), Err(Error::Pending));
    let id = module.async_id(first, GenerateKeyPair).expect("a number");
    assert_eq!(module.async_id(first, GenerateKeyPair), Ok(id));
    module.close_session(first).expect("a session");
    assert_eq!(module.async_complete(second, GenerateKeyPair), Err(Error::OperationNotInitialized));
    for (function, id) in [(GenerateKeyPair, id + 1), (GenerateKeyPair, 0), (GenerateKey, id)] {
        assert_eq!(module.async_join(second, function, id), Err(Error::SavedStateInvalid));
    }
    assert_eq!(module.async_join(second, GenerateKeyPair, id), Ok(()));
    assert_eq!(module.async_join(second, GenerateKeyPair, id), Ok(()));
    let done = complete(&client, second, GenerateKeyPair).expect("a pair");
    assert!(client.flag(second, done.object, A::LOCAL));
    assert_eq!(module.async_join(second, GenerateKeyPair, id), Err(Error::SavedStateInvalid));
}

#[test]
fn close_cancel_and_logout_leave_no_objects_of_a_pending_generation() {
    let (client, watching) = one_user();
    let open = || client.open_async_session(client.slot, Access::ReadWrite).expect("a session");
    let closed = open();
    assert_eq!(begin(&client, closed, Kind::P256), Err(Error::Pending));
    client.close_session(closed).expect("a session");

    let cancelled = open();
    assert_eq!(begin(&client, cancelled, Kind::P256), Err(Error::Pending));
    let id = client.async_id(cancelled, GenerateKeyPair).expect("a number");
    assert_eq!(client.cancel(cancelled, jeton::id::mechanism_flag::GENERATE), Ok(()));
    assert_eq!(client.async_id(cancelled, GenerateKeyPair), Ok(id));
    assert_eq!(client.cancel(cancelled, jeton::id::mechanism_flag::GENERATE_KEY_PAIR), Ok(()));
    assert_eq!(complete(&client, cancelled, GenerateKeyPair), Err(Error::OperationNotInitialized));
    assert_eq!(client.async_join(cancelled, GenerateKeyPair, id), Err(Error::SavedStateInvalid));

    assert_eq!(begin(&client, cancelled, Kind::P256), Err(Error::Pending));
    client.logout(watching).expect("the user");
    assert_eq!(complete(&client, cancelled, GenerateKeyPair), Err(Error::UserNotLoggedIn));
    client.login(watching);
    assert_eq!(client.find(watching, &none()), []);
}

#[test]
fn finalize_waits_for_running_generations_and_discards_their_results() {
    let client = Client::new(DEFAULT);
    let (module, before) = (&client.module, session(&client));
    assert_eq!(begin(&client, before, Kind::Rsa), Err(Error::Pending));
    let id = module.async_id(before, GenerateKeyPair).expect("a number");
    module.finalize().expect("a module");
    module.initialize(Some(&client.directory.parameters(DEFAULT, ""))).expect("a module");
    let after = session(&client);
    assert_eq!(module.async_join(after, GenerateKeyPair, id), Err(Error::SavedStateInvalid));
    assert_eq!(client.find(after, &none()), []);
    assert_eq!(begin(&client, after, Kind::P256), Err(Error::Pending));
    assert!(complete(&client, after, GenerateKeyPair).is_ok());
}

#[test]
fn more_generations_than_threads_all_complete() {
    let client = Client::new(DEFAULT);
    let _login = client.user();
    let sessions: Vec<_> = (0..40)
        .map(|_| client.open_async_session(client.slot, Access::ReadWrite).expect("a session"))
        .collect();
    for session in &sessions {
        assert_eq!(begin(&client, *session, Kind::MlDsa44), Err(Error::Pending));
    }
    for session in &sessions {
        complete(&client, *session, GenerateKeyPair).expect("a pair");
    }
    assert_eq!(client.find(sessions[0], &none()).len(), 80);
}

#[test]
fn asynchronous_sessions_are_refused_if_threads_are_forbidden() {
    let directory = Directory::new();
    let module = Module::new();
    module.set_threads(jeton::functions::Threads::Forbidden);
    module.initialize(Some(&directory.parameters(DEFAULT, ""))).expect("a module");
    let slot = module.slots().expect("slots")[0];
    module.init_token(slot, SO_PIN, LABEL).expect("a token");
    assert_eq!(module.open_async_session(slot, Access::ReadWrite), Err(Error::SessionAsyncNotSupported));
    assert_eq!(module.token(slot).expect("a token").flags & token_flag::ASYNC_SESSION_SUPPORTED, 0);
}

#[test]
fn wait_for_slot_event_returns_when_another_process_creates_a_token() {
    let client = Client::new(DEFAULT);
    let module = &client.module;
    // A token that existed before, or that this module created, is not an event.
    assert_eq!(module.wait_for_slot_event(Wait::Never), Err(Error::NoEvent));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| module.wait_for_slot_event(Wait::ForEvent));
        let other = Client::beside(&client.directory, DEFAULT, "");
        let free = *other.slots().expect("slots").last().expect("a slot");
        other.init_token(free, SO_PIN, LABEL).expect("a token");
        assert_eq!(waiting.join().expect("a thread"), Ok(free));
        // The event was returned, and the slot has the token.
        assert_eq!(module.wait_for_slot_event(Wait::Never), Err(Error::NoEvent));
        assert!(module.open_session(free, Access::ReadWrite).is_ok());

        // A token that a slot list has found is an event too.
        let free = *other.slots().expect("slots").last().expect("a slot");
        other.init_token(free, SO_PIN, LABEL).expect("a token");
        assert!(module.slots().expect("slots").contains(&free));
        assert_eq!(module.wait_for_slot_event(Wait::Never), Ok(free));
    });
}

#[test]
fn finalize_ends_wait_for_slot_event() {
    let client = Client::new(DEFAULT);
    let module = &client.module;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| module.wait_for_slot_event(Wait::ForEvent));
        std::thread::sleep(Duration::from_millis(50));
        module.finalize().expect("a module");
        assert_eq!(waiting.join().expect("a thread"), Err(Error::NotInitialized));
    });
    assert_eq!(module.wait_for_slot_event(Wait::ForEvent), Err(Error::NotInitialized));
}

#[test]
fn login_user_refuses_an_unknown_user_name() {
    let client = Client::new(DEFAULT);
    let (module, session) = (&client.module, client.open());
    // Three wrong PINs would lock the PIN, but an unknown user name is not counted.
    for _ in 0..4 {
        assert_eq!(module.login_user(session, User::User, PIN, b"somebody"), Err(Error::PinIncorrect));
    }
    assert_eq!(module.login_user(session, User::User, b"a wrong one", b""), Err(Error::PinIncorrect));
    assert_eq!(module.login_user(session, User::User, PIN, b""), Ok(()));
    assert_eq!(module.login_user(session, User::User, PIN, b""), Err(Error::UserAlreadyLoggedIn));
    assert_eq!(module.validation_flags(session), Ok(0));
    assert_eq!(module.validation_flags(SessionHandle(7)), Err(Error::SessionHandleInvalid));
}
