//! Message-based signatures: calls in the wrong order, and keys that need a PIN for each use. The
//! cases of each mechanism are in `conformance/src/cases/schemes.rs`.

use jeton::id::mechanism_flag as flag;

use crate::prelude::*;

#[test]
fn message_signing_calls_must_come_in_order_and_can_be_cancelled() {
    let (client, session) = one_user();
    let (public, private) = pair(&client, session, Kind::P256, &none());
    let mechanism = plain(M::ECDSA_SHA256);
    let missing = Error::OperationNotInitialized;
    assert_eq!(client.sign_message_begin(session), Err(missing));
    assert_eq!(client.verify_message_begin(session), Err(missing));
    let init = || {
        client.message_sign_init(session, &mechanism, private)?;
        client.message_verify_init(session, &mechanism, public)
    };
    init().expect("operations");
    assert_eq!(client.message_sign_init(session, &mechanism, private), Err(Error::OperationActive));
    assert_eq!(client.message_verify_init(session, &mechanism, public), Err(Error::OperationActive));
    assert_eq!(client.sign_message_part(session, b"data"), Err(missing));
    assert_eq!(client.verify_message_part(session, b"data"), Err(missing));
    client.sign_message_begin(session).expect("a message");
    client.verify_message_begin(session).expect("a message");
    assert_eq!(client.message_sign_final(session), Err(Error::OperationActive));
    assert_eq!(client.message_verify_final(session), Err(Error::OperationActive));
    client.cancel(session, flag::MESSAGE_SIGN).expect("an operation");
    assert_eq!(client.sign_message_part(session, b"data"), Err(missing));
    assert_eq!(client.verify_message_part(session, b"data"), Ok(()));
    client.cancel(session, flag::MESSAGE_VERIFY).expect("an operation");
    assert_eq!(client.verify_message_part(session, b"data"), Err(missing));

    init().expect("operations");
    client.message_sign_cancel(session).expect("an operation");
    client.message_verify_cancel(session).expect("an operation");
    init().expect("operations");
    client.logout(session).expect("the user");
    assert_eq!(client.sign_message_begin(session), Err(missing));
    assert_eq!(client.verify_message_begin(session), Err(missing));
}

#[test]
fn always_authenticate_needs_the_pin_for_each_message() {
    let (client, session) = one_user();
    let key = client.create(session, &RSA.private.clone().flag(A::ALWAYS_AUTHENTICATE, true));
    let public = client.create(session, &RSA.public).expect("a key");
    let mechanism = plain(M::SHA256_RSA_PKCS);
    let login = |pin| client.module.login(session, User::ContextSpecific, pin);
    let mut out = [0; 256];
    assert_eq!(login(PIN), Err(Error::OperationNotInitialized));
    client.message_sign_init(session, &mechanism, key.expect("a key")).expect("an operation");
    for _ in 0..2 {
        let refused = client.sign_message(session, b"data", Output::Buffer(&mut out));
        assert_eq!(refused, Err(Error::UserNotLoggedIn));
        assert_eq!(client.sign_message_begin(session), Err(Error::UserNotLoggedIn));
        // The operation waits for the PIN.
        assert_eq!(login(b"a wrong one"), Err(Error::PinIncorrect));
        assert_eq!(login(PIN), Ok(()));
        assert_eq!(client.sign_message(session, b"data", Output::Buffer(&mut out)), Ok(256));
        assert_eq!(client.verify(session, &mechanism, public, b"data", &out), Ok(()));

        // A message in several parts needs one PIN.
        assert_eq!(client.sign_message_begin(session), Err(Error::UserNotLoggedIn));
        assert_eq!(login(PIN), Ok(()));
        assert_eq!(client.sign_message_begin(session), Ok(()));
        assert_eq!(client.sign_message_part(session, b"da"), Ok(()));
        assert_eq!(client.sign_message_end(session, b"ta", Output::Buffer(&mut out)), Ok(256));
        assert_eq!(client.verify(session, &mechanism, public, b"data", &out), Ok(()));
    }
    assert_eq!(client.message_sign_final(session), Ok(()));
}
