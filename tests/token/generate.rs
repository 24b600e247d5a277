//! Key generation: mechanisms that generate keys, their results, and the templates that they
//! refuse.

use jeton::mechanism::password::Password;
use jeton::mechanism::{self, Action};
use jeton_secret::Secret;

use crate::prelude::*;

/// Lengths of secret keys that a mechanism generates, and lengths that it refuses.
fn lengths(key_type: KeyType) -> (&'static [u64], &'static [u64]) {
    match key_type {
        KeyType::AES => (&[16, 24, 32], &[0, 8, 15, 33, 64, u64::MAX]),
        KeyType::AES_XTS => (&[32, 64], &[0, 16, 48, u64::MAX]),
        KeyType::DES3 => (&[24], &[0, 8, 16, 32, u64::MAX]),
        KeyType::CHACHA20 => (&[32], &[0, 16, 33, u64::MAX]),
        _ => (&[1, 20, 4096], &[0, 4097, u64::MAX]),
    }
}

pub fn covered() -> impl Iterator<Item = M> {
    let pairs = Kind::PAIRS.into_iter().chain(Kind::AGREEING).chain(Kind::ENCAPSULATING);
    // The test of Diffie-Hellman is in `dh.rs`.
    pairs.map(Kind::generator).chain([M::DH_PKCS_KEY_PAIR_GEN, M::EC_KEY_PAIR_GEN_W_EXTRA_BITS])
}

#[test]
fn generated_key_pairs_have_their_attributes_and_sign() {
    each_user(|client, session| {
        for kind in Kind::PAIRS {
            let private = none().label("private").bytes(A::ID, b"7").stored();
            let made = client.generate(session, kind.generator(), &kind.request().label("public"), &private);
            let (public, private) = made.expect("a pair");
            for (half, class, label) in
                [(public, ObjectClass::PUBLIC_KEY, "public"), (private, ObjectClass::PRIVATE_KEY, "private")]
            {
                assert_eq!(client.number(session, half, A::CLASS), class.0);
                assert_eq!(client.number(session, half, A::KEY_TYPE), kind.key_type().0);
                assert_eq!(client.number(session, half, A::KEY_GEN_MECHANISM), kind.generator().0);
                assert_eq!(client.read(session, half, A::LABEL).expect("a label"), label.as_bytes());
                assert!(client.flag(session, half, A::LOCAL));
            }
            assert!(client.flag(session, private, A::TOKEN) && !client.flag(session, public, A::TOKEN));
            assert!(client.flag(session, private, A::PRIVATE) && !client.flag(session, public, A::PRIVATE));
            for request in kind.request().ids() {
                let given = client.read(session, public, request).expect("the requested attribute");
                assert_eq!(given, kind.request().value(request));
            }
            let mechanism = plain(match kind.key_type() {
                KeyType::RSA => M::SHA256_RSA_PKCS,
                KeyType::EC => M::ECDSA_SHA256,
                KeyType::EC_EDWARDS => M::EDDSA,
                KeyType::SLH_DSA => M::SLH_DSA,
                KeyType::JETON_COMPOSITE_ML_DSA => M::JETON_COMPOSITE_ML_DSA,
                _ => M::ML_DSA,
            });
            let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
            assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()), "{kind:?}");
        }
    });
}

/// FIPS 186-5, A.2.1. The unit tests of `src/backend/shared/extra_bits.rs` check the numbers.
#[test]
fn pairs_from_extra_random_bits_have_their_mechanism_and_work_on_every_curve() {
    each_user(|client, session| {
        let id = M::EC_KEY_PAIR_GEN_W_EXTRA_BITS;
        for kind in Kind::PAIRS.into_iter().filter(|kind| kind.key_type() == KeyType::EC) {
            let pair = || client.generate(session, id, &kind.request(), &none()).expect("a pair");
            let ((public, private), (other, _)) = (pair(), pair());
            for half in [public, private] {
                assert_eq!(client.number(session, half, A::KEY_GEN_MECHANISM), id.0);
                assert!(client.flag(session, half, A::LOCAL));
            }
            assert!(client.flag(session, private, A::NEVER_EXTRACTABLE));
            let point = |key| client.read(session, key, A::EC_POINT).expect("a point");
            assert_ne!(point(public), point(other), "{kind:?}");
            let mechanism = plain(M::ECDSA_SHA256);
            let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
            assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()), "{kind:?}");
        }
        let made = client.generate(session, id, &Kind::Ed25519.request(), &none());
        assert_eq!(made, Err(Error::CurveNotSupported));
    });
}

#[test]
fn generated_secret_keys_have_the_requested_length_and_differ() {
    each_user(|client, session| {
        // The keys of HOTP have other attributes. Their test is in `otp.rs`.
        let rows = mechanism::all().filter(|row| row.action == Action::Generate && row.id != M::HOTP_KEY_GEN);
        for row in rows {
            let (mechanism, key_type) = (row.id, row.key_type.expect("a key type"));
            let (lengths, refused) = lengths(key_type);
            let make = |len| {
                let template = shown().number(A::VALUE_LEN, len);
                client.generate_key(session, mechanism, &template)
            };
            for len in lengths {
                let keys = [make(*len), make(*len)].map(|key| key.expect("a key"));
                assert_eq!(client.number(session, keys[0], A::KEY_TYPE), key_type.0);
                let values = keys.map(|key| client.read(session, key, A::VALUE).expect("a value"));
                assert_eq!(values[0].len() as u64, *len);
                assert!(*len < 16 || values[0] != values[1], "{mechanism}");
            }
            for len in refused {
                assert_eq!(make(*len), Err(Error::KeySizeRange), "{mechanism} {len}");
            }
        }
    });
}

#[test]
fn local_always_sensitive_and_never_extractable_are_recorded() {
    let (client, session) = one_user();
    for (sensitive, extractable) in [(true, false), (true, true), (false, false), (false, true)] {
        let template =
            none().number(A::VALUE_LEN, 32).flag(A::SENSITIVE, sensitive).flag(A::EXTRACTABLE, extractable);
        let key = client.generate_key(session, M::AES_KEY_GEN, &template);
        let key = key.expect("a key");
        let history =
            |key| [A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE].map(|id| client.flag(session, key, id));
        assert_eq!(history(key), [sensitive, !extractable]);
        client
            .set(session, key, &none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false))
            .expect("a change");
        assert_eq!(history(key), [sensitive, !extractable]);
        let copy = client.copy(session, key, &none()).expect("a copy");
        assert_eq!(history(copy), [sensitive, !extractable]);
        assert!(client.flag(session, copy, A::LOCAL));
    }
    let (_, private) = pair(&client, session, Kind::P256, &none());
    assert!(client.flag(session, private, A::ALWAYS_SENSITIVE));
    assert!(client.flag(session, private, A::NEVER_EXTRACTABLE));
}

#[test]
fn impossible_generation_templates_are_refused() {
    let (client, session) = one_user();
    let refuses = |mechanism, public: Attributes, private: Attributes, error| {
        assert_eq!(client.generate(session, mechanism, &public, &private), Err(error));
    };
    let p256 = || Kind::P256.request();
    for bits in [0, 512, 1023, 8193, 16384, u64::MAX] {
        let public = none().number(A::MODULUS_BITS, bits);
        refuses(M::RSA_PKCS_KEY_PAIR_GEN, public, none(), Error::KeySizeRange);
    }
    for mechanism in Kind::PAIRS.map(Kind::generator).into_iter().chain([M::EC_KEY_PAIR_GEN_W_EXTRA_BITS]) {
        refuses(mechanism, none(), none(), Error::TemplateIncomplete);
    }
    let unknown_curve = none().bytes(A::EC_PARAMS, &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x1f]);
    refuses(M::EC_KEY_PAIR_GEN, unknown_curve, none(), Error::CurveNotSupported);
    refuses(M::EC_KEY_PAIR_GEN, Kind::Ed25519.request(), none(), Error::CurveNotSupported);
    refuses(M::EC_EDWARDS_KEY_PAIR_GEN, p256(), none(), Error::CurveNotSupported);
    let unknown_set = none().number(A::PARAMETER_SET, value::ML_DSA_87 + 1);
    refuses(M::ML_DSA_KEY_PAIR_GEN, unknown_set, none(), Error::AttributeValueInvalid);
    let ec = M::EC_KEY_PAIR_GEN;
    let another_class = p256().number(A::CLASS, ObjectClass::PRIVATE_KEY.0);
    refuses(ec, another_class, none(), Error::TemplateInconsistent);
    let another_type = none().number(A::KEY_TYPE, KeyType::RSA.0);
    refuses(ec, p256(), another_type, Error::TemplateInconsistent);
    refuses(ec, p256(), none().bytes(A::VALUE, &[1; 32]), Error::AttributeReadOnly);
    refuses(ec, p256().flag(A::LOCAL, true), none(), Error::AttributeReadOnly);
    refuses(ec, p256(), none().flag(A::VERIFY, true), Error::TemplateInconsistent);
    refuses(ec, p256().bytes(A::EC_POINT, &[4; 65]), none(), Error::TemplateInconsistent);
    refuses(ec, p256(), none().bytes(A::EC_PARAMS, P384), Error::TemplateInconsistent);
    let another_set = Kind::MlDsa65.request();
    let ml_dsa = M::ML_DSA_KEY_PAIR_GEN;
    refuses(ml_dsa, Kind::MlDsa44.request(), another_set, Error::TemplateInconsistent);
    // A failed generation leaves no key.
    assert_eq!(client.find(session, &none()), []);

    let key = |mechanism, template: Attributes| client.generate_key(session, mechanism, &template);
    assert_eq!(key(M::AES_KEY_GEN, none()), Err(Error::TemplateIncomplete));
    assert_eq!(key(M::EC_KEY_PAIR_GEN, none()), Err(Error::MechanismInvalid));
    assert_eq!(key(M::SHA256, none()), Err(Error::MechanismInvalid));
    refuses(M::AES_KEY_GEN, p256(), none(), Error::MechanismInvalid);
}

#[test]
fn generation_needs_the_rights_to_store_the_key() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    let make = |session, public: Attributes, private| {
        client.generate(session, M::EC_KEY_PAIR_GEN, &public, &private)
    };
    let p256 = || none().bytes(A::EC_PARAMS, P256);
    assert_eq!(make(session, p256(), none().flag(A::PRIVATE, true)), Err(Error::UserNotLoggedIn));
    assert_eq!(make(session, p256(), none().stored()), Err(Error::UserNotLoggedIn));
    make(session, p256(), none().flag(A::PRIVATE, false)).expect("a pair of the session");
    client.login(session);
    let read_only = client.open_session(client.slot, Access::ReadOnly).expect("a session");
    assert_eq!(make(read_only, p256().stored(), none()), Err(Error::SessionReadOnly));
    assert_eq!(make(read_only, p256(), none().stored()), Err(Error::SessionReadOnly));
    make(read_only, p256(), none()).expect("a pair of the session");
}

#[test]
fn an_rsa_key_pair_has_the_requested_exponent() {
    each_user(|client, session| {
        let request = Kind::Rsa.request().bytes(A::PUBLIC_EXPONENT, &[0, 1, 0, 1]);
        let (public, private) =
            client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &none()).expect("a pair");
        for half in [public, private] {
            assert_eq!(client.read(session, half, A::PUBLIC_EXPONENT).expect("an exponent"), [1, 0, 1]);
            assert_eq!(client.read(session, half, A::MODULUS).expect("a modulus").len(), 256);
        }
    });
}

/// RFC 8017, 3.1: a public exponent is odd and at least 3. PKCS#11 3.2, "PKCS #1 RSA key pair
/// generation": the code for one that cannot be used.
#[test]
fn an_invalid_public_exponent_is_an_inconsistent_template() {
    each_user(|client, session| {
        for wrong in [&[][..], &[0], &[1], &[2], &[1, 0, 0], &[0xff; 33]] {
            let request = Kind::Rsa.request().bytes(A::PUBLIC_EXPONENT, wrong);
            let made = client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &none());
            assert_eq!(made, Err(Error::TemplateInconsistent), "{wrong:?}");
        }
        assert_eq!(client.find(session, &none()), []);
    });
}

#[test]
fn tdes_keys_have_odd_parity() {
    each_user(|client, session| {
        let mut even = hex("0123456789abcdef23456789abcdef01456789abcdef0123");
        even[9] ^= 1;
        let refused = client.create(session, &secret(KeyType::DES3, &even));
        assert_eq!(refused.err(), Some(Error::AttributeValueInvalid));
        let made = client.generate_key(session, M::DES3_KEY_GEN, &shown());
        let value = client.read(session, made.expect("a key"), A::VALUE).expect("a value");
        assert_eq!(value.len(), 24);
        assert!(value.iter().all(|byte| byte.count_ones() % 2 == 1));
    });
}

/// The conformance suite has the known answers.
#[test]
fn the_template_sets_the_type_of_a_password_key() {
    let (client, session) = one_user();
    let make = |iterations, kind: Option<KeyType>, len: Option<u64>| {
        let password = Password(Secret::from(&b"password"[..]));
        let params = Params::Pbkdf2 { hash: Hash::Sha1, salt: Box::from(*b"salt"), iterations, password };
        let template = kind.map_or(none(), |kind| none().number(A::KEY_TYPE, kind.0));
        let template = len.map_or(template.clone(), |len| template.number(A::VALUE_LEN, len));
        let mechanism = Mechanism { params, ..plain(M::PKCS5_PBKD2) };
        let key = client.module.generate_key(session, &mechanism, &template.template())?;
        Ok(client.number(session, key, A::VALUE_LEN))
    };
    let generic = Some(KeyType::GENERIC_SECRET);
    for (iterations, kind, len, answer) in [
        (1, Some(KeyType::AES), Some(24), Ok(24)),
        // The template may omit a length that the key type fixes.
        (1, Some(KeyType::CHACHA20), None, Ok(32)),
        (1, None, Some(32), Err(Error::TemplateIncomplete)),
        (1, Some(KeyType::AES), None, Err(Error::TemplateIncomplete)),
        (1, Some(KeyType::AES), Some(20), Err(Error::KeySizeRange)),
        (1, Some(KeyType::RSA), Some(32), Err(Error::AttributeValueInvalid)),
        (1, generic, Some(0), Err(Error::KeySizeRange)),
        (1, generic, Some(4097), Err(Error::KeySizeRange)),
        (1, generic, Some(u64::MAX), Err(Error::KeySizeRange)),
        (u32::MAX, generic, Some(20), Err(Error::MechanismParamInvalid)),
        // A key of many blocks multiplies the number of iterations.
        (1 << 20, generic, Some(4096), Err(Error::MechanismParamInvalid)),
    ] {
        assert_eq!(make(iterations, kind, len), answer, "{kind:?} {len:?}");
    }
}
