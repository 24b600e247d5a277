//! Operations: how they start, stay active and end.

use crate::prelude::*;

#[test]
fn allowed_mechanisms_restrict_a_key() {
    let (client, session) = one_user();
    let allowed = none().number(A::ALLOWED_MECHANISMS, M::ECDSA_SHA256.0);
    let (public, private) = pair(&client, session, Kind::P256, &allowed.stored());
    let mechanism = plain(M::ECDSA_SHA256);
    let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
    assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
    for other in [M::ECDSA, M::ECDSA_SHA384].map(plain) {
        assert_eq!(client.sign_init(session, &other, private), Err(Error::MechanismInvalid));
        assert_eq!(client.verify_init(session, &other, public), Err(Error::MechanismInvalid));
    }
    assert_eq!(
        client.read(session, private, A::ALLOWED_MECHANISMS).expect("a list").len(),
        size_of::<usize>()
    );
}

#[test]
fn parameters_must_fit_the_mechanism() {
    let (client, session) = one_user();
    let (_, rsa) = pair(&client, session, Kind::Rsa, &none());
    let (_, ed) = pair(&client, session, Kind::Ed25519, &none());
    let (_, ml_dsa) = pair(&client, session, Kind::MlDsa44, &none());
    let pss = |hash, salt_len| Params::Pss { hash, mgf: hash, salt_len };
    let (_, ed448) = pair(&client, session, Kind::Ed448, &none());
    let long = || [0; 256].as_slice().into();
    let prehashed = Params::Eddsa { prehash: true, context: long() };
    let in_context = Params::Eddsa { prehash: false, context: long() };
    let unnamed = Params::SignContext { deterministic: true, context: Box::default(), hash: None };
    let within = Params::SignContext { deterministic: true, context: [7][..].into(), hash: None };
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
        // The context is in the mu.
        (M::ML_DSA_EXTERNAL_MU, within, ml_dsa),
        (M::ML_DSA, pss(Hash::Sha256, 32), ml_dsa),
    ] {
        let mechanism = Mechanism { params, ..plain(id) };
        assert_eq!(client.sign_init(session, &mechanism, key), Err(Error::MechanismParamInvalid), "{id}");
    }
}

#[test]
fn keys_and_mechanisms_alternate_in_a_session() {
    each_user(|client, session| {
        let pairs = [Kind::P256, Kind::P256, Kind::P384].map(|kind| pair(client, session, kind, &none()));
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
    each_user(|client, session| {
        let (public, private) = pair(client, session, Kind::MlDsa44, &none());
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
        assert_eq!(client.verify(session, &one, public, b"data", &in_two), Err(Error::SignatureInvalid));
    });
}

#[test]
fn re_arming_notices_that_the_key_changed_or_was_destroyed() {
    let client = Client::new(DEFAULT);
    let (session, other) = (client.user(), client.open());
    let mechanism = plain(M::ECDSA_SHA256);
    for both in [none(), none().stored()] {
        let (public, private) = pair(&client, other, Kind::P256, &both);
        let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
        let verify = || client.verify(session, &mechanism, public, b"data", &signature);
        assert_eq!(verify(), Ok(()));
        client.set(other, private, &none().flag(A::SIGN, false)).expect("a change");
        client.set(other, public, &none().flag(A::VERIFY, false)).expect("a change");
        assert_eq!(client.sign(session, &mechanism, private, b"data"), Err(Error::KeyFunctionNotPermitted));
        assert_eq!(verify(), Err(Error::KeyFunctionNotPermitted));
        client.set(other, private, &none().flag(A::SIGN, true)).expect("a change");
        client.set(other, public, &none().flag(A::VERIFY, true)).expect("a change");
        client.sign(session, &mechanism, private, b"data").expect("a signature");
        assert_eq!(verify(), Ok(()));
        for key in [public, private] {
            client.destroy_object(other, key).expect("a key");
        }
        assert_eq!(client.sign(session, &mechanism, private, b"data"), Err(Error::KeyHandleInvalid));
        assert_eq!(verify(), Err(Error::KeyHandleInvalid));
    }
}

#[test]
fn re_arming_notices_that_the_session_of_the_key_was_closed() {
    let client = Client::new(DEFAULT);
    let (session, other) = (client.user(), client.open());
    let mechanism = plain(M::ECDSA_SHA256);
    let (public, private) = pair(&client, other, Kind::P256, &none());
    let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
    assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
    client.close_session(other).expect("a session");
    assert_eq!(client.sign(session, &mechanism, private, b"data"), Err(Error::KeyHandleInvalid));
    assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Err(Error::KeyHandleInvalid));
}
