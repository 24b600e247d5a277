//! Wrapping through the core's API: the encoding of a private key, templates, raw RSA, and the
//! nonce of C_WrapKeyAuthenticated. The cases of each mechanism are in
//! `conformance/src/cases/wrapping.rs`.

use jeton::mechanism::message::{Generator, MessageParams};

use crate::prelude::*;

/// RFC 5915: the wrapped scalar has the length of the order, even if a shorter one was imported.
#[test]
fn a_short_scalar_is_wrapped_at_full_length() {
    each_user(|client, session| {
        let iv = with_iv(M::AES_CBC_PAD, &[3; 16]);
        let (by, _) = pair(client, session, Kind::Aes, &none());
        let key =
            key_object(ObjectClass::PRIVATE_KEY, KeyType::EC).bytes(A::EC_PARAMS, P256).bytes(A::VALUE, &[5]);
        let key = client.create(session, &key.and(&shown())).expect("a key");
        let wrapped = client.wrap(session, &iv, by, key).expect("a wrapped key");
        let der = client.crypt(session, Direction::Decrypt, &iv, by, &wrapped).expect("DER");
        let scalar = [&[4, 32][..], &[0; 31], &[5]].concat();
        assert!(der.windows(34).any(|window| window == scalar));
        assert_eq!(client.wrap(session, &plain(M::AES_ECB), by, key), Err(Error::KeyNotWrappable));
    });
}

/// PKCS#11 3.2, "Wrapping/unwrapping private keys": a key without one of the numbers of
/// RSAPrivateKey.
#[test]
fn an_rsa_key_that_lacks_a_part_is_not_wrapped() {
    each_user(|client, session| {
        let (by, _) = pair(client, session, Kind::Aes, &none());
        let parts = [A::PRIME_1, A::PRIME_2, A::EXPONENT_1, A::EXPONENT_2, A::COEFFICIENT];
        let whole = RSA.private.clone().and(&shown());
        let bare = parts.into_iter().fold(whole.clone(), Attributes::without);
        for (key, outcome) in [(whole, Ok(())), (bare, Err(Error::KeyNotWrappable))] {
            let key = client.create(session, &key).expect("a key");
            assert_eq!(client.wrap(session, &plain(M::AES_KEY_WRAP_KWP), by, key).map(drop), outcome);
        }
    });
}

/// PKCS #8 has the group, as `openssl pkey` reads it: `DHParameter`.
#[test]
fn a_private_key_of_a_group_is_wrapped_as_pkcs_8_and_unwrapped() {
    each_user(|client, session| {
        let (by, _) = pair(client, session, Kind::Aes, &none());
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let bits = none().number(A::VALUE_BITS, 163).and(&shown());
        let made = client.generate(session, Kind::Dh.generator(), &Kind::Dh.request(), &bits);
        let (_, private) = made.expect("a pair");
        let wrapped = client.wrap(session, &kwp, by, private).expect("a wrapped key");
        let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::DH);
        let unwrap = |template: &Attributes| client.unwrap(session, &kwp, by, &wrapped, template);
        let back = unwrap(&template.clone().and(&shown())).expect("a key");
        for id in [A::VALUE, A::PRIME, A::BASE, A::VALUE_BITS] {
            assert_eq!(client.read(session, back, id), client.read(session, private, id), "{id}");
        }
        let based = template.clone().bytes(A::BASE, &[3]);
        assert_eq!(unwrap(&based), Err(Error::TemplateInconsistent));
        assert!(unwrap(&key_object(ObjectClass::PRIVATE_KEY, KeyType::RSA)).is_err());
        let sized = |bits| template.clone().number(A::VALUE_BITS, bits);
        assert!(unwrap(&sized(163)).is_ok());
        assert_eq!(unwrap(&sized(164)), Err(Error::TemplateInconsistent));
    });
}

#[test]
fn an_unwrapped_key_has_the_length_of_its_template_and_of_its_type() {
    each_user(|client, session| {
        let (by, _) = pair(client, session, Kind::Aes, &none());
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let key = secret(KeyType::GENERIC_SECRET, &[7; 21]).and(&shown());
        let key = client.create(session, &key).expect("a key");
        let wrapped = client.wrap(session, &kwp, by, key).expect("a wrapped key");
        for readable in [shown(), none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false)] {
            let unwrap = |kind, sized: &Attributes| {
                let template = key_object(ObjectClass::SECRET_KEY, kind).and(&readable).and(sized);
                client.unwrap(session, &kwp, by, &wrapped, &template).map(drop)
            };
            let len = |len| none().number(A::VALUE_LEN, len);
            assert_eq!(unwrap(KeyType::GENERIC_SECRET, &len(21)), Ok(()));
            for (kind, sized) in [
                (KeyType::GENERIC_SECRET, len(20)),
                (KeyType::GENERIC_SECRET, len(22)),
                (KeyType::AES, none()),
                (KeyType::AES, len(16)),
            ] {
                assert_eq!(unwrap(kind, &sized), Err(Error::WrappedKeyLenRange));
            }
        }
    });
}

/// The wrapped key of CKM_RSA_X_509 has no length, so the template has it.
#[test]
fn rsa_wraps_secret_keys_if_the_policy_allows_it() {
    each_backend(|provider| {
        let client = Client::with(provider, ", policy = { raw-rsa-wrap = true }");
        let session = client.user();
        let (by, back) = pair(&client, session, Kind::Rsa, &none());
        for (id, sized) in [(M::RSA_PKCS, none()), (M::RSA_X_509, none().number(A::VALUE_LEN, 21))] {
            let key = secret(KeyType::GENERIC_SECRET, &[7; 21]).and(&shown());
            let key = client.create(session, &key).expect("a key");
            let wrapped = client.wrap(session, &plain(id), by, key).expect("a wrapped key");
            let template = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET);
            let template = template.flag(A::SENSITIVE, false).and(&sized);
            let key = client.unwrap(session, &plain(id), back, &wrapped, &template).expect("a key");
            assert_eq!(client.read(session, key, A::VALUE), Ok(vec![7; 21]));
        }
    });
}

#[test]
fn wrap_and_unwrap_templates_are_enforced() {
    let (client, session) = one_user();
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    let forced = none().flag(A::SENSITIVE, true).flag(A::WRAP, false);
    let own = secret(KeyType::AES, &[7; 16]);
    let mut template = own.template();
    for id in [A::WRAP_TEMPLATE, A::UNWRAP_TEMPLATE] {
        template.0.push(Given { id, value: Raw::Template(forced.template()) });
    }
    let by = client.create_object(session, &template).expect("a key");
    let key = secret(KeyType::AES, &[8; 16]).flag(A::EXTRACTABLE, true);
    let open = client.create(session, &key).expect("a key");
    assert_eq!(client.wrap_key(session, &kwp, by, open, Output::Length), Err(Error::KeyHandleInvalid));
    let bound = client.create(session, &key.and(&forced)).expect("a key");
    let wrapped = client.wrap(session, &kwp, by, bound).expect("a wrapped key");
    let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES);
    let key = client.unwrap(session, &kwp, by, &wrapped, &template).expect("a key");
    assert!(client.flag(session, key, A::SENSITIVE) && !client.flag(session, key, A::WRAP));
    let refused = client.unwrap(session, &kwp, by, &wrapped, &template.flag(A::WRAP, true));
    assert_eq!(refused, Err(Error::TemplateInconsistent));
}

#[test]
fn wrap_key_authenticated_generates_the_nonce_of_the_parameter() {
    let (client, session) = one_user();
    let gcm = || MessageParams::new(AeadScheme::AesGcm, &[5; 12], 16).expect("lengths of the cipher");
    let made = |session, generator, fixed_bits| {
        let mut given = gcm();
        given.set_generator(generator, fixed_bits).expect("fixed bits of the nonce");
        client.wrapping_nonce(session, &mut given)?;
        Ok::<_, Error>(given.nonce().to_vec())
    };
    assert_eq!(made(session, Generator::None, 0), Ok(vec![5; 12]));
    for generator in [Generator::Any, Generator::Random] {
        let one = made(session, generator, 16).expect("a nonce");
        let two = made(session, generator, 16).expect("a nonce");
        assert_ne!(one, two);
        assert_eq!((&one[..2], &two[..2]), (&[5; 2][..], &[5; 2][..]));
    }
    // A counter would start at zero again for each wrapped key, and repeat its nonces.
    let (by, _) = pair(&client, session, Kind::Aes, &none());
    for generator in [Generator::Counter, Generator::CounterXor] {
        assert_eq!(made(session, generator, 0), Err(Error::MechanismParamInvalid));
        let mut params = gcm();
        params.set_generator(generator, 0).expect("no fixed bits");
        let key = client.create(session, &secret(KeyType::AES, &[7; 16]).and(&shown())).expect("a key");
        let out = Output::Buffer(&mut [0; 16]);
        let refused =
            client.wrap_key_authenticated(session, &plain(M::AES_GCM), &mut params, b"", by, key, out);
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
    }
    assert_eq!(made(SessionHandle(0), Generator::Any, 0), Err(Error::SessionHandleInvalid));
}
