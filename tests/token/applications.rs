//! Several applications in one process share the tokens. Each has its own sessions, logins and
//! session objects (PKCS#11 3.2, "Applications and processes").

use jeton::id::session_state as state;

use crate::prelude::*;

/// Returns two applications with a session each on the same token.
fn applications() -> [(Client, SessionHandle); 2] {
    let first = Client::new(DEFAULT);
    let module = first.join().expect("another application").into();
    let second = Client { module, slot: first.slot, directory: Arc::clone(&first.directory) };
    let (mine, yours) = (first.open(), second.open());
    [(first, mine), (second, yours)]
}

/// Returns the template of a key for MACs. It is private by default.
fn key(label: &str) -> Attributes {
    secret(KeyType::AES, &[7; 32]).label(label).flag(A::SIGN, true).and(&shown())
}

fn sign(client: &Client, session: SessionHandle, key: ObjectHandle) -> Result<()> {
    client.sign(session, &plain(M::AES_CMAC), key, b"data").map(drop)
}

fn log_in_so(client: &Client, session: SessionHandle) {
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("a login");
}

#[test]
fn a_login_belongs_to_one_application() {
    let [(first, mine), (second, yours)] = applications();
    let state = |client: &Client, session| client.session(session).expect("a session").state;
    let states = || (state(&first, mine), state(&second, yours));
    first.login(mine);
    assert_eq!(states(), (state::RW_USER_FUNCTIONS, state::RW_PUBLIC_SESSION));
    assert_eq!(second.logout(yours), Err(Error::UserNotLoggedIn));

    // The roles of two applications do not exclude each other.
    log_in_so(&second, yours);
    assert_eq!(states(), (state::RW_USER_FUNCTIONS, state::RW_SO_FUNCTIONS));
    let reading = first.open_session(first.slot, Access::ReadOnly);
    assert!(reading.is_ok(), "no SO of this application forbids read-only sessions");

    // The last session of an application ends its login only.
    second.close_session(yours).expect("a session");
    assert_eq!(state(&first, mine), state::RW_USER_FUNCTIONS);
    let count = |client: &Client| client.token(client.slot).expect("a token").sessions;
    assert_eq!((count(&first), count(&second)), (2, 0));
    assert!(first.create(mine, &key("after").stored()).is_ok());
}

#[test]
fn an_application_without_a_login_uses_no_key_of_another() {
    let [(first, mine), (second, yours)] = applications();
    first.login(mine);
    let private = first.create(mine, &key("private").stored()).expect("a key");
    let open = |label| key(label).stored().flag(A::PRIVATE, false);
    let public = first.create(mine, &open("public")).expect("a key");
    sign(&first, mine, private).expect("a MAC");
    sign(&first, mine, public).expect("a MAC");

    assert_eq!(second.find(yours, &none().label("private")), []);
    assert_eq!(sign(&second, yours, private), Err(Error::KeyHandleInvalid));
    assert_eq!(second.read(yours, private, A::LABEL), Err(Error::ObjectHandleInvalid));
    // The key is unlocked in memory, because the first application is logged in.
    assert_eq!(second.find(yours, &none().label("public")), [public]);
    assert_eq!(second.read(yours, public, A::LABEL), Ok(b"public".to_vec()));
    assert_eq!(second.read(yours, public, A::VALUE), Err(Error::AttributeSensitive));
    assert_eq!(sign(&second, yours, public), Err(Error::UserNotLoggedIn));
    assert_eq!(second.create(yours, &open("new")), Err(Error::UserNotLoggedIn));
    assert_eq!(second.set(yours, public, &none().label("changed")), Err(Error::UserNotLoggedIn));
    assert_eq!(second.destroy_object(yours, public), Err(Error::UserNotLoggedIn));
    assert_eq!(first.find(mine, &none().label("public")), [public]);
}

#[test]
fn session_objects_belong_to_one_application() {
    let both = applications();
    let keys = both.each_ref().map(|(client, session)| {
        client.login(*session);
        client.create(*session, &key("own")).expect("a key")
    });
    let [(first, mine), (second, yours)] = both;
    let own = none().label("own");
    assert_ne!(keys[0], keys[1], "a handle names one object in all applications");
    assert_eq!(first.find(mine, &own), [keys[0]]);
    assert_eq!(second.find(yours, &own), [keys[1]]);
    assert_eq!(sign(&first, mine, keys[1]), Err(Error::KeyHandleInvalid));
    assert_eq!(first.destroy_object(mine, keys[1]), Err(Error::ObjectHandleInvalid));

    // A logout destroys the private session objects of its application.
    first.logout(mine).expect("a logout");
    assert_eq!(second.find(yours, &own), [keys[1]]);
    assert_eq!(sign(&second, yours, keys[1]), Ok(()));
    first.login(mine);
    assert_eq!(first.find(mine, &own), []);
}

#[test]
fn token_objects_are_shared() {
    let [(first, mine), (second, yours)] = applications();
    first.login(mine);
    second.login(yours);
    let key = first.create(mine, &key("shared").stored()).expect("a key");
    assert_eq!(sign(&second, yours, key), Ok(()));
    let renamed = none().label("renamed");
    second.set(yours, key, &renamed).expect("a change");
    assert_eq!(first.find(mine, &renamed), [key]);

    // The logout of one application leaves the key to the other.
    first.logout(mine).expect("a logout");
    assert_eq!(sign(&first, mine, key), Err(Error::KeyHandleInvalid));
    assert_eq!(sign(&second, yours, key), Ok(()));

    // The handle stays invalid for the application that logged out.
    first.login(mine);
    assert_eq!(sign(&first, mine, key), Err(Error::KeyHandleInvalid));
    first.destroy_object(mine, first.find_one(mine, &renamed)).expect("a key");
    assert_eq!(sign(&second, yours, key), Err(Error::KeyHandleInvalid));
}

#[test]
fn a_login_of_the_so_leaves_the_private_objects_to_another_application() {
    let [(first, mine), (second, yours)] = applications();
    first.login(mine);
    let wanted = none().label("private");
    let key = first.create(mine, &key("private").stored()).expect("a key");
    log_in_so(&second, yours);
    assert_eq!(second.find(yours, &wanted), []);
    assert_eq!(sign(&second, yours, key), Err(Error::KeyHandleInvalid));
    assert_eq!(first.find(mine, &wanted), [key]);
    assert_eq!(sign(&first, mine, key), Ok(()));

    // With the last login of the user, the private objects leave the memory.
    first.logout(mine).expect("a logout");
    assert_eq!(second.find(yours, &wanted), []);
    first.login(mine);
    first.find_one(mine, &wanted);
}

#[test]
fn a_token_is_initialised_again_only_without_sessions_of_any_application() {
    let [(first, mine), (second, _)] = applications();
    first.close_session(mine).expect("a session");
    let again = || first.init_token(first.slot, SO_PIN, LABEL);
    assert_eq!(again(), Err(Error::SessionExists));
    second.finalize().expect("the end of an application");
    assert_eq!(again(), Ok(()));
}

#[test]
fn an_application_that_ends_leaves_the_others() {
    let [(first, _), (second, yours)] = applications();
    second.login(yours);
    let key = second.create(yours, &key("private").stored()).expect("a key");
    first.finalize().expect("the end of an application");
    assert_eq!(first.open_session(first.slot, Access::ReadOnly), Err(Error::NotInitialized));
    assert_eq!(sign(&second, yours, key), Ok(()));
    assert!(matches!(first.join(), Err(Error::NotInitialized)));
}
