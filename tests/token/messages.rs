//! Message-based encryption and signatures through the core's API: beside other operations, in the
//! wrong order, cancelled, with every mechanism, and with keys that need a PIN for each use. The
//! cases of each mechanism are in `messages.rs` and `schemes.rs` of `conformance/src/cases`.

use jeton::id::mechanism_flag as flag;
use jeton::mechanism;
use jeton::mechanism::message::MessageParams;

use crate::prelude::*;

const NONCE: [u8; 12] = [9; 12];
const AAD: &[u8] = b"known";

fn secret(client: &Client, session: SessionHandle) -> ObjectHandle {
    let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &[1; 16]);
    client.create(session, &template).expect("a key")
}

fn params() -> MessageParams {
    MessageParams::new(AeadScheme::AesGcm, &NONCE, 16).expect("lengths of the cipher")
}

#[test]
fn message_operations_run_beside_others_and_end_at_logout() {
    let (client, session) = one_user();
    let key = secret(&client, session);
    let gcm = plain(M::AES_GCM);
    let single = aead_params(AeadScheme::AesGcm, &NONCE, AAD, 16, 0);
    let single = Mechanism { params: single, ..plain(M::AES_GCM) };
    client.encrypt_init(session, &single, key).expect("an operation");
    client.message_crypt_init(session, Direction::Encrypt, &gcm, key).expect("an operation");
    let (mut given, mut cipher_text) = (params(), [0; 4]);
    let buffer = Output::Buffer(&mut cipher_text);
    assert_eq!(client.crypt_message(session, Direction::Encrypt, &mut given, AAD, b"data", buffer), Ok(4));
    let mut out = [0; 20];
    assert_eq!(client.encrypt(session, b"data", Output::Buffer(&mut out)), Ok(20));
    assert_eq!(out[..], [&cipher_text[..], given.tag()].concat());

    client.logout(session).expect("the user");
    let mut again = params();
    let over = client.crypt_message(session, Direction::Encrypt, &mut again, AAD, b"data", Output::Length);
    assert_eq!(over, Err(Error::OperationNotInitialized));
}

#[test]
fn cancelling_ends_a_message_or_its_operation() {
    let (client, session) = one_user();
    let key = secret(&client, session);
    for (direction, own) in
        [(Direction::Encrypt, flag::MESSAGE_ENCRYPT), (Direction::Decrypt, flag::MESSAGE_DECRYPT)]
    {
        let begin = || client.crypt_message_begin(session, direction, &mut params(), AAD);
        let part = || client.crypt_message_next(session, direction, b"", Output::Buffer(&mut []));
        let init = || client.message_crypt_init(session, direction, &plain(M::AES_GCM), key);
        let missing = Error::OperationNotInitialized;
        assert_eq!((init(), begin(), part()), (Ok(()), Ok(()), Ok(0)));
        assert_eq!(client.crypt_message_cancel(session, direction), Ok(()));
        assert_eq!((part(), begin()), (Err(missing), Ok(())));
        assert_eq!(client.message_crypt_cancel(session, direction), Ok(()));
        assert_eq!((part(), init(), begin()), (Err(missing), Ok(()), Ok(())));
        assert_eq!(client.cancel(session, own), Ok(()));
        assert_eq!((part(), begin()), (Err(missing), Err(missing)));
    }
}

#[test]
fn only_mechanisms_with_message_flags_take_messages() {
    let (client, session) = one_user();
    let key = secret(&client, session);
    for row in mechanism::all() {
        let mechanism = plain(row.id);
        let flags = client.mechanism(client.slot, row.id).expect("a mechanism").flags;
        let as_said = |outcome: Result<(), Error>, flag| {
            assert_eq!(outcome == Err(Error::MechanismInvalid), flags & flag == 0, "{}", row.id);
        };
        let crypt = |direction| client.message_crypt_init(session, direction, &mechanism, key);
        as_said(crypt(Direction::Encrypt), flag::MESSAGE_ENCRYPT);
        as_said(crypt(Direction::Decrypt), flag::MESSAGE_DECRYPT);
        as_said(client.message_sign_init(session, &mechanism, key), flag::MESSAGE_SIGN);
        as_said(client.message_verify_init(session, &mechanism, key), flag::MESSAGE_VERIFY);
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            client.message_crypt_cancel(session, direction).expect("an operation");
        }
        client.message_sign_cancel(session).expect("an operation");
        client.message_verify_cancel(session).expect("an operation");
        let messages = flag::MESSAGE_ENCRYPT | flag::MESSAGE_SIGN;
        assert_eq!(flags & flag::MULTI_MESSAGE != 0, flags & messages != 0, "{}", row.id);
    }
}

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
    assert_eq!(client.sign_message_next(session, b"data"), Err(missing));
    assert_eq!(client.verify_message_next(session, b"data"), Err(missing));
    client.sign_message_begin(session).expect("a message");
    client.verify_message_begin(session).expect("a message");
    assert_eq!(client.message_sign_final(session), Err(Error::OperationActive));
    assert_eq!(client.message_verify_final(session), Err(Error::OperationActive));
    client.cancel(session, flag::MESSAGE_SIGN).expect("an operation");
    assert_eq!(client.sign_message_next(session, b"data"), Err(missing));
    assert_eq!(client.verify_message_next(session, b"data"), Ok(()));
    client.cancel(session, flag::MESSAGE_VERIFY).expect("an operation");
    assert_eq!(client.verify_message_next(session, b"data"), Err(missing));

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
        assert_eq!(client.sign_message_next(session, b"da"), Ok(()));
        assert_eq!(client.sign_message_end(session, b"ta", Output::Buffer(&mut out)), Ok(256));
        assert_eq!(client.verify(session, &mechanism, public, b"data", &out), Ok(()));
    }
    assert_eq!(client.message_sign_final(session), Ok(()));
}
