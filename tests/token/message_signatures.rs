//! Message-based signatures: every mechanism that signs, in one part and in several; calls in the
//! wrong order; keys that need a PIN for each use.

use jeton::error::Error;
use jeton::id::{AttributeType as A, MechanismType as M, mechanism_flag as flag};
use jeton::module::{Output, User};

use crate::keys::{Kind, RSA, pair};
use crate::mechanisms::{each_case, message};
use crate::support::{Client, PIN, each_backend, none, plain};

#[test]
fn message_signatures_equal_those_of_single_operations() {
    each_case(|client, session, case, (public, private)| {
        let (module, mechanism) = (&client.module, &case.mechanism);
        if mechanism.info.flags & flag::MESSAGE_SIGN == 0 {
            assert_eq!(mechanism.info.id, M::AES_GMAC);
            return;
        }
        module.message_sign_init(session, mechanism, private).expect("an operation");
        module.message_verify_init(session, mechanism, public).expect("an operation");
        for start in [3, 4] {
            let data = message(case.message, start);
            let needed = module.sign_message(session, &data, Output::Length).expect("a length");
            let refused = module.sign_message(session, &data, Output::Buffer(&mut vec![0; needed - 1]));
            assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
            let mut whole = vec![0; needed];
            assert_eq!(module.sign_message(session, &data, Output::Buffer(&mut whole)), Ok(needed));

            // Parts of a cancelled operation have no effect on the next one.
            module.sign_message_begin(session).expect("a message");
            module.sign_message_part(session, b"given up").expect("a part");
            module.sign_message_cancel(session).expect("a message");
            let (head, tail) = data.split_at(data.len() / 2);
            module.sign_message_begin(session).expect("a message");
            module.sign_message_part(session, head).expect("a part");
            assert_eq!(module.sign_message(session, &data, Output::Length), Err(Error::OperationActive));
            assert_eq!(module.sign_message_end(session, tail, Output::Length), Ok(needed));
            let refused = module.sign_message_end(session, tail, Output::Buffer(&mut vec![0; needed - 1]));
            assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
            let mut parts = vec![0; needed];
            assert_eq!(module.sign_message_end(session, tail, Output::Buffer(&mut parts)), Ok(needed));
            let over = module.sign_message_end(session, tail, Output::Buffer(&mut parts));
            assert_eq!(over, Err(Error::OperationNotInitialized));
            if case.repeats {
                let single = client.sign(session, mechanism, private, &data);
                assert_eq!((single.as_ref(), &parts), (Ok(&whole), &whole));
            }

            for signature in [&whole, &parts] {
                assert_eq!(client.verify(session, mechanism, public, &data, signature), Ok(()));
                assert_eq!(module.verify_message(session, &data, signature), Ok(()));
                module.verify_message_begin(session).expect("a message");
                module.verify_message_part(session, head).expect("a part");
                let mixed = module.verify_message(session, &data, signature);
                assert_eq!(mixed, Err(Error::OperationActive));
                assert_eq!(module.verify_message_end(session, tail, signature), Ok(()));
            }
            *whole.last_mut().expect("bytes") ^= 1;
            for (wrong, error) in
                [(&whole[..], Error::SignatureInvalid), (&whole[1..], Error::SignatureLenRange)]
            {
                assert_eq!(module.verify_message(session, &data, wrong), Err(error));
                module.verify_message_begin(session).expect("a message");
                module.verify_message_part(session, head).expect("a part");
                assert_eq!(module.verify_message_end(session, tail, wrong), Err(error));
                let over = module.verify_message_part(session, head);
                assert_eq!(over, Err(Error::OperationNotInitialized));
            }
        }
        assert_eq!(module.message_sign_final(session), Ok(()));
        assert_eq!(module.message_verify_final(session), Ok(()));
        assert_eq!(module.message_sign_final(session), Err(Error::OperationNotInitialized));
        assert_eq!(module.message_verify_final(session), Err(Error::OperationNotInitialized));
    });
}

#[test]
fn message_signing_calls_must_come_in_order_and_can_be_cancelled() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let (public, private) = pair(&client, session, Kind::P256, &none());
        let mechanism = plain(M::ECDSA_SHA256);
        let missing = Error::OperationNotInitialized;
        assert_eq!(module.sign_message_begin(session), Err(missing));
        assert_eq!(module.verify_message_begin(session), Err(missing));
        let init = || {
            module.message_sign_init(session, &mechanism, private)?;
            module.message_verify_init(session, &mechanism, public)
        };
        init().expect("operations");
        assert_eq!(module.message_sign_init(session, &mechanism, private), Err(Error::OperationActive));
        assert_eq!(module.message_verify_init(session, &mechanism, public), Err(Error::OperationActive));
        assert_eq!(module.sign_message_part(session, b"data"), Err(missing));
        assert_eq!(module.verify_message_part(session, b"data"), Err(missing));
        module.sign_message_begin(session).expect("a message");
        module.verify_message_begin(session).expect("a message");
        assert_eq!(module.message_sign_final(session), Err(Error::OperationActive));
        assert_eq!(module.message_verify_final(session), Err(Error::OperationActive));
        module.cancel(session, flag::MESSAGE_SIGN).expect("an operation");
        assert_eq!(module.sign_message_part(session, b"data"), Err(missing));
        assert_eq!(module.verify_message_part(session, b"data"), Ok(()));
        module.cancel(session, flag::MESSAGE_VERIFY).expect("an operation");
        assert_eq!(module.verify_message_part(session, b"data"), Err(missing));

        init().expect("operations");
        module.message_sign_cancel(session).expect("an operation");
        module.message_verify_cancel(session).expect("an operation");
        init().expect("operations");
        module.logout(session).expect("the user");
        assert_eq!(module.sign_message_begin(session), Err(missing));
        assert_eq!(module.verify_message_begin(session), Err(missing));
    });
}

#[test]
fn always_authenticate_needs_the_pin_for_each_message() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (session, module) = (client.user(), &client.module);
        let key = client.create(session, &RSA.private.clone().flag(A::ALWAYS_AUTHENTICATE, true));
        let public = client.create(session, &RSA.public).expect("a key");
        let mechanism = plain(M::SHA256_RSA_PKCS);
        let login = |pin| module.login(session, User::ContextSpecific, pin);
        let mut out = [0; 256];
        assert_eq!(login(PIN), Err(Error::OperationNotInitialized));
        module.message_sign_init(session, &mechanism, key.expect("a key")).expect("an operation");
        for _ in 0..2 {
            let refused = module.sign_message(session, b"data", Output::Buffer(&mut out));
            assert_eq!(refused, Err(Error::UserNotLoggedIn));
            assert_eq!(module.sign_message_begin(session), Err(Error::UserNotLoggedIn));
            // The operation waits for the PIN.
            assert_eq!(login(b"a wrong one"), Err(Error::PinIncorrect));
            assert_eq!(login(PIN), Ok(()));
            assert_eq!(module.sign_message(session, b"data", Output::Buffer(&mut out)), Ok(256));
            assert_eq!(client.verify(session, &mechanism, public, b"data", &out), Ok(()));

            // A message in several parts needs one PIN.
            assert_eq!(module.sign_message_begin(session), Err(Error::UserNotLoggedIn));
            assert_eq!(login(PIN), Ok(()));
            assert_eq!(module.sign_message_begin(session), Ok(()));
            assert_eq!(module.sign_message_part(session, b"da"), Ok(()));
            assert_eq!(module.sign_message_end(session, b"ta", Output::Buffer(&mut out)), Ok(256));
            assert_eq!(client.verify(session, &mechanism, public, b"data", &out), Ok(()));
        }
        assert_eq!(module.message_sign_final(session), Ok(()));
    });
}
