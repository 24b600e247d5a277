//! Calls whose arguments the C interface refused: the error that takes precedence, and what ends.

use jeton::mechanism::message::MessageParams;
use jeton_words::token::{Function as F, Token};

use crate::prelude::*;

/// The errors of arguments that end an operation.
const ENDING: [Error; 3] = [Error::ArgumentsBad, Error::MechanismParamInvalid, Error::HostMemory];

/// An operation that the test starts, its `Init` function, and the functions that continue it.
struct Started<'a> {
    start: &'a dyn Fn() -> Result<()>,
    init: F,
    parts: &'a [F],
}

fn active(client: &Client, session: SessionHandle) -> u16 {
    client.with_session(session, |session| Ok(session.active())).expect("a session")
}

#[test]
fn an_invalid_session_takes_precedence_over_a_refused_argument() {
    let (client, session) = one_user();
    for function in F::ALL {
        for error in [Error::ArgumentsBad, Error::MechanismInvalid, Error::BufferTooSmall { needed: 7 }] {
            let refused = client.refused(SessionHandle(0), *function, error);
            assert_eq!(refused, Error::SessionHandleInvalid, "{function:?}");
        }
        for error in [Error::GeneralError, Error::HostMemory] {
            assert_eq!(client.refused(SessionHandle(0), *function, error), error, "{function:?}");
        }
    }
    assert_eq!(client.refused(session, F::C_SignInit, Error::MechanismInvalid), Error::MechanismInvalid);
}

#[test]
fn a_refused_argument_ends_the_operation_that_the_function_continues() {
    let (client, session) = one_user();
    let (public, private) = pair(&client, session, Kind::P256, &none());
    let (rsa_public, rsa) = pair(&client, session, Kind::Rsa, &none());
    let (aes, _) = pair(&client, session, Kind::Aes, &none());
    let (sha256, ecdsa, recover) = (plain(M::SHA256), plain(M::ECDSA), plain(M::RSA_PKCS));
    let cbc = with_iv(M::AES_CBC, &[0; 16]);
    let started = [
        Started {
            start: &|| client.digest_init(session, &sha256),
            init: F::C_DigestInit,
            parts: &[F::C_Digest, F::C_DigestUpdate, F::C_DigestFinal],
        },
        Started {
            start: &|| client.sign_init(session, &ecdsa, private),
            init: F::C_SignInit,
            parts: &[F::C_Sign, F::C_SignUpdate, F::C_SignFinal],
        },
        Started {
            start: &|| client.verify_init(session, &ecdsa, public),
            init: F::C_VerifyInit,
            parts: &[F::C_Verify, F::C_VerifyUpdate, F::C_VerifyFinal],
        },
        Started {
            start: &|| client.verify_signature_init(session, &ecdsa, public, &[1; 64]),
            init: F::C_VerifySignatureInit,
            parts: &[F::C_VerifySignature, F::C_VerifySignatureUpdate],
        },
        Started {
            start: &|| client.encrypt_init(session, &cbc, aes),
            init: F::C_EncryptInit,
            parts: &[
                F::C_Encrypt,
                F::C_EncryptUpdate,
                F::C_EncryptFinal,
                F::C_DigestEncryptUpdate,
                F::C_SignEncryptUpdate,
            ],
        },
        Started {
            start: &|| client.decrypt_init(session, &cbc, aes),
            init: F::C_DecryptInit,
            parts: &[
                F::C_Decrypt,
                F::C_DecryptUpdate,
                F::C_DecryptFinal,
                F::C_DecryptDigestUpdate,
                F::C_DecryptVerifyUpdate,
            ],
        },
        Started {
            start: &|| client.sign_recover_init(session, &recover, rsa),
            init: F::C_SignRecoverInit,
            parts: &[F::C_SignRecover],
        },
        Started {
            start: &|| client.verify_recover_init(session, &recover, rsa_public),
            init: F::C_VerifyRecoverInit,
            parts: &[F::C_VerifyRecover],
        },
    ];
    for Started { start, .. } in &started {
        start().expect("an operation");
    }
    let all = active(&client, session);
    for (place, Started { start, init, parts }) in started.iter().enumerate() {
        // Each function ends its own operation, for these errors only.
        for function in *parts {
            for error in ENDING {
                assert_eq!(client.refused(session, *function, error), error);
                assert_eq!(active(&client, session), all & !(1 << place), "{function:?}");
                start().expect("an operation");
            }
            for error in [Error::BufferTooSmall { needed: 1 }, Error::MechanismInvalid] {
                assert_eq!(client.refused(session, *function, error), error);
            }
            assert_eq!(active(&client, session), all);
        }
        client.clear(session, *init).expect("a session");
        assert_eq!(active(&client, session), all & !(1 << place), "{init:?}");
        client.clear(session, *init).expect("a session");
        start().expect("an operation");
    }
    // The other functions end nothing.
    let parts: Vec<_> = started.iter().flat_map(|started| started.parts).collect();
    for function in F::ALL.iter().filter(|function| !parts.contains(function)) {
        for error in ENDING {
            client.refused(session, *function, error);
        }
        assert_eq!(active(&client, session), all, "{function:?}");
    }
}

#[test]
fn a_refused_argument_ends_the_message_and_not_the_operation() {
    let (client, session) = one_user();
    let (public, private) = pair(&client, session, Kind::P256, &none());
    let (ecdsa, gcm) = (plain(M::ECDSA_SHA256), plain(M::AES_GCM));
    client.message_sign_init(session, &ecdsa, private).expect("an operation");
    client.message_verify_init(session, &ecdsa, public).expect("an operation");
    for function in [F::C_SignMessageNext, F::C_SignMessageEnd] {
        client.sign_message_begin(session).expect("a message");
        for other in [F::C_SignMessage, F::C_SignMessageBegin, F::C_MessageSignInit] {
            assert_eq!(client.refused(session, other, Error::ArgumentsBad), Error::ArgumentsBad);
        }
        assert_eq!(client.refused(session, function, Error::MechanismInvalid), Error::MechanismInvalid);
        assert_eq!(client.sign_message_next(session, b"data"), Ok(()));
        assert_eq!(client.refused(session, function, Error::ArgumentsBad), Error::ArgumentsBad);
        assert_eq!(client.sign_message_next(session, b"data"), Err(Error::OperationNotInitialized));
    }
    for function in [F::C_VerifyMessageNext, F::C_VerifyMessageEnd] {
        client.verify_message_begin(session).expect("a message");
        assert_eq!(client.refused(session, function, Error::ArgumentsBad), Error::ArgumentsBad);
        assert_eq!(client.verify_message_next(session, b"data"), Err(Error::OperationNotInitialized));
    }

    let (aes, _) = pair(&client, session, Kind::Aes, &none());
    for (direction, message, begin, next, end) in [
        (
            Direction::Encrypt,
            F::C_EncryptMessage,
            F::C_EncryptMessageBegin,
            F::C_EncryptMessageNext,
            F::C_EncryptMessageEnd,
        ),
        (
            Direction::Decrypt,
            F::C_DecryptMessage,
            F::C_DecryptMessageBegin,
            F::C_DecryptMessageNext,
            F::C_DecryptMessageEnd,
        ),
    ] {
        let refused = |function| client.refused(session, function, Error::MechanismParamInvalid);
        let start = || {
            let mut params = MessageParams::new(AeadScheme::AesGcm, &[1; 12], 16)?;
            client.crypt_message_begin(session, direction, &mut params, b"")
        };
        let part = || client.crypt_message_next(session, direction, b"", Output::Buffer(&mut []));
        // A wrong order of calls takes precedence, except where the parameter is not read.
        let missing = Error::OperationNotInitialized;
        assert_eq!([message, begin, end].map(refused), [missing; 3]);
        assert_eq!(refused(next), Error::MechanismParamInvalid);
        client.message_crypt_init(session, direction, &gcm, aes).expect("an operation");
        assert_eq!([message, begin].map(refused), [Error::MechanismParamInvalid; 2]);
        assert_eq!(refused(end), missing);
        for function in [next, end] {
            start().expect("a message");
            assert_eq!([message, begin].map(refused), [Error::OperationActive; 2]);
            assert_eq!(part(), Ok(0));
            assert_eq!(refused(function), Error::MechanismParamInvalid);
            assert_eq!(part(), Err(missing));
        }
    }
}

#[test]
fn a_parameter_for_another_cipher_is_refused_also_in_a_query_for_the_length() {
    let (client, session) = one_user();
    let (aes, _) = pair(&client, session, Kind::Aes, &none());
    let direction = Direction::Encrypt;
    client.message_crypt_init(session, direction, &plain(M::AES_GCM), aes).expect("an operation");
    let mut gcm = MessageParams::new(AeadScheme::AesGcm, &[1; 12], 16).expect("lengths of GCM");
    let mut other = MessageParams::new(AeadScheme::AesCcm, &[1; 12], 16).expect("lengths of CCM");
    let whole = client.crypt_message(session, direction, &mut other, b"", b"data", Output::Length);
    assert_eq!(whole, Err(Error::MechanismParamInvalid));
    let begin = client.crypt_message_begin(session, direction, &mut other, b"");
    assert_eq!(begin, Err(Error::MechanismParamInvalid));
    client.crypt_message_begin(session, direction, &mut gcm, b"").expect("a message");
    let end = client.crypt_message_end(session, direction, &mut other, b"data", Output::Length);
    assert_eq!(end, Err(Error::MechanismParamInvalid));
    // The message has ended, and the operation has not.
    client.crypt_message_begin(session, direction, &mut gcm, b"").expect("a message");
}
