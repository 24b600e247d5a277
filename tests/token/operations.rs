//! Operations: how they start, stay active and end.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{AttributeType as A, MechanismType as M, ObjectHandle, mechanism_flag as flag};
use jeton::mechanism::{Mechanism, Params};
use jeton::module::{Output, User};

use crate::keys::{Kind, RSA, pair};
use crate::support::{Client, PIN, data, each_backend, none, plain};

#[test]
fn keys_sign_only_with_the_right_usage_and_type() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::P256, &none());
        let other = client.create(session, &data("no key")).expect("data");
        let ecdsa = plain(M::ECDSA_SHA256);
        let sign = |mechanism: &Mechanism, key| client.module.sign_init(session, mechanism, key);
        let verify = |mechanism: &Mechanism, key| client.module.verify_init(session, mechanism, key);
        for key in [other, ObjectHandle(0), ObjectHandle(4711)] {
            assert_eq!(sign(&ecdsa, key), Err(Error::KeyHandleInvalid));
            assert_eq!(verify(&ecdsa, key), Err(Error::KeyHandleInvalid));
        }
        assert_eq!(sign(&ecdsa, public), Err(Error::KeyFunctionNotPermitted));
        assert_eq!(verify(&ecdsa, private), Err(Error::KeyFunctionNotPermitted));
        assert_eq!(sign(&plain(M::EDDSA), private), Err(Error::KeyTypeInconsistent));
        assert_eq!(verify(&plain(M::SHA256_RSA_PKCS), public), Err(Error::KeyTypeInconsistent));
        assert_eq!(sign(&plain(M::SHA256), private), Err(Error::MechanismInvalid));
        assert_eq!(sign(&plain(M::EC_KEY_PAIR_GEN), private), Err(Error::MechanismInvalid));

        let idle = none().flag(A::SIGN, false);
        let (_, idle) =
            client.generate(session, M::EC_KEY_PAIR_GEN, &Kind::P256.request(), &idle).expect("a pair");
        assert_eq!(sign(&ecdsa, idle), Err(Error::KeyFunctionNotPermitted));
        // After all of these refusals the session can still sign.
        client.sign(session, &ecdsa, private, b"data").expect("a signature");
    });
}

#[test]
fn allowed_mechanisms_restrict_a_key() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let allowed = none().number(A::ALLOWED_MECHANISMS, M::ECDSA_SHA256.0);
        let (public, private) = pair(&client, session, Kind::P256, &allowed.stored());
        let mechanism = plain(M::ECDSA_SHA256);
        let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
        assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
        for other in [M::ECDSA, M::ECDSA_SHA384].map(plain) {
            let refused = client.module.sign_init(session, &other, private);
            assert_eq!(refused, Err(Error::MechanismInvalid));
            let refused = client.module.verify_init(session, &other, public);
            assert_eq!(refused, Err(Error::MechanismInvalid));
        }
        assert_eq!(
            client.read(session, private, A::ALLOWED_MECHANISMS).expect("a list").len(),
            size_of::<usize>()
        );
    });
}

#[test]
fn an_unrestricted_key_has_an_empty_list_of_allowed_mechanisms() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::P256, &none());
        for key in [public, private] {
            assert_eq!(client.read(session, key, A::ALLOWED_MECHANISMS), Ok(Vec::new()));
        }
        client.sign(session, &plain(M::ECDSA_SHA256), private, b"data").expect("a signature");
        let other = client.create(session, &data("not a key")).expect("data");
        assert_eq!(client.read(session, other, A::ALLOWED_MECHANISMS), Err(Error::AttributeTypeInvalid));
    });
}

#[test]
fn parameters_must_fit_the_mechanism() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (_, rsa) = pair(&client, session, Kind::Rsa, &none());
        let (_, ed) = pair(&client, session, Kind::Ed25519, &none());
        let (_, ml_dsa) = pair(&client, session, Kind::MlDsa44, &none());
        let pss = |hash, salt_len| Params::Pss { hash, mgf: hash, salt_len };
        let (_, ed448) = pair(&client, session, Kind::Ed448, &none());
        let long = || [0; 256].as_slice().into();
        let prehashed = Params::Eddsa { prehash: true, context: long() };
        let in_context = Params::Eddsa { prehash: false, context: long() };
        let unnamed = Params::SignContext { deterministic: true, context: Box::default(), hash: None };
        let too_long = Params::SignContext { deterministic: true, context: long(), hash: None };
        for (id, params, key) in [
            (M::RSA_PKCS_PSS, Params::None, rsa),
            (M::SHA256_RSA_PKCS_PSS, pss(Hash::Sha1, 20), rsa),
            (M::SHA256_RSA_PKCS, pss(Hash::Sha256, 32), rsa),
            (M::EDDSA, prehashed, ed),
            (M::EDDSA, in_context.clone(), ed),
            (M::EDDSA, in_context, ed448),
            (M::HASH_ML_DSA, unnamed, ml_dsa),
            (M::HASH_ML_DSA, Params::None, ml_dsa),
            (M::ML_DSA, too_long, ml_dsa),
            (M::ML_DSA, pss(Hash::Sha256, 32), ml_dsa),
        ] {
            let mechanism = Mechanism { params, ..plain(id) };
            let refused = client.module.sign_init(session, &mechanism, key);
            assert_eq!(refused, Err(Error::MechanismParamInvalid), "{id}");
        }
    });
}

#[test]
fn inputs_of_the_wrong_length_are_refused_and_end_the_operation() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::Rsa, &none());
        let pss = Params::Pss { hash: Hash::Sha256, mgf: Hash::Sha256, salt_len: 32 };
        let pss = Mechanism { params: pss, ..plain(M::RSA_PKCS_PSS) };
        let (raw, pkcs) = (plain(M::RSA_X_509), plain(M::RSA_PKCS));
        for (mechanism, len, expected) in [
            (&raw, 257, Error::DataLenRange),
            (&pkcs, 246, Error::DataLenRange),
            (&pss, 31, Error::DataLenRange),
            (&pss, 33, Error::DataLenRange),
        ] {
            let input = vec![1; len];
            assert_eq!(client.sign(session, mechanism, private, &input), Err(expected));
            let over = client.module.sign(session, &input, Output::Length);
            assert_eq!(over, Err(Error::OperationNotInitialized));
            let verified = client.verify(session, mechanism, public, &input, &[1; 256]);
            assert_eq!(verified, Err(expected));
        }
        // The data has the length of the modulus and is a greater number.
        assert_eq!(client.sign(session, &raw, private, &[0xff; 256]), Err(Error::DataInvalid));
        client.sign(session, &raw, private, b"short").expect("a signature");
        client.sign(session, &pkcs, private, b"").expect("a signature");
    });
}

#[test]
fn a_second_init_of_an_active_operation_is_refused() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (session, module) = (client.user(), &client.module);
        let (public, private) = pair(&client, session, Kind::Ed25519, &none());
        let mechanism = plain(M::EDDSA);
        let mut out = [0; 64];
        assert_eq!(module.sign_update(session, b""), Err(Error::OperationNotInitialized));
        let unstarted = module.sign_final(session, Output::Buffer(&mut out));
        assert_eq!(unstarted, Err(Error::OperationNotInitialized));
        assert_eq!(module.verify_update(session, b""), Err(Error::OperationNotInitialized));

        module.sign_init(session, &mechanism, private).expect("an operation");
        assert_eq!(module.sign_init(session, &mechanism, private), Err(Error::OperationActive));
        // Other operations are not affected.
        module.verify_init(session, &mechanism, public).expect("an operation");
        module.digest_init(session, &plain(M::SHA256)).expect("an operation");
        module.find_init(session, &none().template()).expect("a search");

        module.sign_update(session, b"da").expect("a part");
        assert_eq!(module.sign(session, b"data", Output::Buffer(&mut out)), Err(Error::OperationActive));
        assert_eq!(module.sign(session, b"data", Output::Length), Err(Error::OperationActive));
        module.sign_update(session, b"ta").expect("a part");
        module.sign_final(session, Output::Buffer(&mut out)).expect("a signature");
        module.verify_update(session, b"data").expect("a part");
        assert_eq!(module.verify(session, b"data", &out), Err(Error::OperationActive));
        assert_eq!(module.verify_final(session, &out), Ok(()));
    });
}

#[test]
fn session_cancel_ends_the_operations_of_its_flags() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (session, module) = (client.user(), &client.module);
        let (public, private) = pair(&client, session, Kind::Ed25519, &none());
        let mechanism = plain(M::EDDSA);
        module.sign_init(session, &mechanism, private).expect("an operation");
        module.verify_init(session, &mechanism, public).expect("an operation");
        module.digest_init(session, &plain(M::SHA256)).expect("an operation");
        module.find_init(session, &none().template()).expect("a search");
        module.cancel(session, flag::SIGN | flag::FIND_OBJECTS).expect("operations");
        assert_eq!(module.sign_update(session, b""), Err(Error::OperationNotInitialized));
        assert_eq!(module.find(session, &mut []), Err(Error::OperationNotInitialized));
        assert_eq!(module.verify_update(session, b""), Ok(()));
        assert_eq!(module.digest_update(session, b""), Ok(()));
        module.cancel(session, flag::VERIFY | flag::DIGEST).expect("operations");
        assert_eq!(module.verify_update(session, b""), Err(Error::OperationNotInitialized));
        assert_eq!(module.digest_update(session, b""), Err(Error::OperationNotInitialized));
    });
}

#[test]
fn keys_and_mechanisms_alternate_in_a_session() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let pairs = [Kind::P256, Kind::P256, Kind::P384].map(|kind| pair(&client, session, kind, &none()));
        for _ in 0..2 {
            for (public, private) in pairs {
                for mechanism in [M::ECDSA_SHA256, M::ECDSA_SHA384].map(plain) {
                    let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
                    assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
                    let others = pairs.iter().filter(|(other, _)| *other != public);
                    for (other, _) in others {
                        assert!(client.verify(session, &mechanism, *other, b"data", &signature).is_err());
                    }
                }
            }
        }
    });
}

#[test]
fn re_arming_compares_the_mechanism_parameter() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::MlDsa44, &none());
        let within = |context: &[u8]| Mechanism {
            params: Params::SignContext { deterministic: true, context: context.into(), hash: None },
            ..plain(M::ML_DSA)
        };
        let (one, two) = (within(b"one"), within(b"two"));
        let in_one = client.sign(session, &one, private, b"data").expect("a signature");
        let in_two = client.sign(session, &two, private, b"data").expect("a signature");
        assert_eq!(client.sign(session, &one, private, b"data").expect("a signature"), in_one);
        assert_eq!(client.verify(session, &one, public, b"data", &in_one), Ok(()));
        assert_eq!(client.verify(session, &two, public, b"data", &in_two), Ok(()));
        let crossed = client.verify(session, &one, public, b"data", &in_two);
        assert_eq!(crossed, Err(Error::SignatureInvalid));
    });
}

#[test]
fn re_arming_notices_that_the_key_changed_or_was_destroyed() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (session, other) = (client.user(), client.open());
        let mechanism = plain(M::ECDSA_SHA256);
        for both in [none(), none().stored()] {
            let (public, private) = pair(&client, other, Kind::P256, &both);
            let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
            let verify = || client.verify(session, &mechanism, public, b"data", &signature);
            assert_eq!(verify(), Ok(()));
            client.set(other, private, &none().flag(A::SIGN, false)).expect("a change");
            client.set(other, public, &none().flag(A::VERIFY, false)).expect("a change");
            let refused = client.sign(session, &mechanism, private, b"data");
            assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
            assert_eq!(verify(), Err(Error::KeyFunctionNotPermitted));
            client.set(other, private, &none().flag(A::SIGN, true)).expect("a change");
            client.set(other, public, &none().flag(A::VERIFY, true)).expect("a change");
            client.sign(session, &mechanism, private, b"data").expect("a signature");
            assert_eq!(verify(), Ok(()));
            for key in [public, private] {
                client.module.destroy_object(other, key).expect("a key");
            }
            assert_eq!(client.sign(session, &mechanism, private, b"data"), Err(Error::KeyHandleInvalid));
            assert_eq!(verify(), Err(Error::KeyHandleInvalid));
        }
    });
}

#[test]
fn re_arming_notices_that_the_session_of_the_key_was_closed() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (session, other) = (client.user(), client.open());
        let mechanism = plain(M::ECDSA_SHA256);
        let (public, private) = pair(&client, other, Kind::P256, &none());
        let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
        assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
        client.module.close_session(other).expect("a session");
        assert_eq!(client.sign(session, &mechanism, private, b"data"), Err(Error::KeyHandleInvalid));
        let verified = client.verify(session, &mechanism, public, b"data", &signature);
        assert_eq!(verified, Err(Error::KeyHandleInvalid));
    });
}

#[test]
fn always_authenticate_needs_the_pin_for_each_signature() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (session, module) = (client.user(), &client.module);
        let key = RSA.private.clone().stored().flag(A::ALWAYS_AUTHENTICATE, true);
        let key = client.create(session, &key).expect("a key");
        let usual = client.create(session, &RSA.private).expect("a key");
        let public = client.create(session, &RSA.public).expect("a key");
        let mechanism = plain(M::SHA256_RSA_PKCS);
        let login = |pin| module.login(session, User::ContextSpecific, pin);
        let mut out = [0; 256];
        assert_eq!(login(PIN), Err(Error::OperationNotInitialized));
        for _ in 0..2 {
            // Without the PIN the operation ends.
            module.sign_init(session, &mechanism, key).expect("an operation");
            let refused = module.sign(session, b"data", Output::Buffer(&mut out));
            assert_eq!(refused, Err(Error::UserNotLoggedIn));
            let over = module.sign(session, b"data", Output::Buffer(&mut out));
            assert_eq!(over, Err(Error::OperationNotInitialized));

            module.sign_init(session, &mechanism, key).expect("an operation");
            assert_eq!(login(b"a wrong one"), Err(Error::PinIncorrect));
            assert_eq!(login(PIN), Ok(()));
            assert_eq!(login(PIN), Err(Error::OperationNotInitialized));
            module.sign(session, b"data", Output::Buffer(&mut out)).expect("a signature");
            assert_eq!(client.verify(session, &mechanism, public, b"data", &out), Ok(()));
        }
        module.sign_init(session, &mechanism, key).expect("an operation");
        assert_eq!(module.sign_update(session, b"data"), Err(Error::UserNotLoggedIn));
        module.sign_init(session, &mechanism, usual).expect("an operation");
        assert_eq!(login(PIN), Err(Error::OperationNotInitialized));
    });
}
