//! Stateful hash-based signatures: HSS, XMSS and XMSS^MT.

use std::collections::BTreeSet;
use std::ffi::c_ulong;

use jeton_vectors::{self as vectors, Miss, Operation, PublicKey};

use crate::prelude::*;

/// The mechanisms that the tests here cover.
pub const MECHANISMS: [M; 3] = [M::HSS, M::XMSS, M::XMSSMT];
/// LMS_SHA256_M32_H5, and LMS_SHA256_M24_H5 (SP 800-208, 4).
const H5: u64 = 5;
const SHORT_H5: u64 = 10;
/// LMOTS_SHA256_N32_W4 and LMOTS_SHA256_N24_W4.
const W4: u64 = 3;
const SHORT_W4: u64 = 7;
const KEY_TYPES: [KeyType; 3] = [KeyType::HSS, KeyType::XMSS, KeyType::XMSSMT];

/// A public key, a message, and bytes that may be its signature.
struct Vector {
    key: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
}

fn published(key_type: KeyType) -> Vec<Vector> {
    let set = vectors::sets().into_iter().find(|set| set.name == "Stateful").expect("the set");
    let mut found = Vec::new();
    set.run(
        |operation| {
            if let Operation::Verify { key: PublicKey::Stateful { family, key }, message, signature, .. } =
                operation
                && key_type.to_string() == format!("CKK_{family}")
            {
                let (key, message, signature) = (key.clone(), message.clone(), signature.clone());
                found.push(Vector { key, message, signature });
            }
            Err::<(), _>(Miss::<Error>::Inexpressible)
        },
        |error| Ok(format!("{error:?}")),
    );
    found
}

/// Returns the template of a public key. The first four bytes of a key of XMSS number its parameter
/// set.
fn template(key_type: KeyType, key: &[u8]) -> Attributes {
    let template = key_object(ObjectClass::PUBLIC_KEY, key_type).bytes(A::VALUE, key);
    match key_type {
        KeyType::HSS => template,
        _ => template
            .number(A::PARAMETER_SET, key[..4].iter().fold(0, |set, byte| set << 8 | u64::from(*byte))),
    }
}

pub fn public_key(key_type: KeyType) -> Attributes {
    template(key_type, &published(key_type)[0].key)
}

#[test]
fn published_signatures_verify_with_the_signature_first_or_last() {
    each_user(|client, session| {
        for (key_type, id) in KEY_TYPES.into_iter().zip(MECHANISMS) {
            let (mut good, mechanism) = (0, plain(id));
            for Vector { key, message, mut signature } in published(key_type) {
                let key = client.create(session, &template(key_type, &key)).expect("a key");
                let outcome = client.verify(session, &mechanism, key, &message, &signature);
                client.verify_signature_init(session, &mechanism, key, &signature).expect("an operation");
                assert_eq!(client.verify_signature(session, &message), outcome);
                if outcome.is_ok() {
                    good += 1;
                    let other = client.verify(session, &mechanism, key, b"another message", &signature);
                    assert_eq!(other, Err(Error::SignatureInvalid));
                    signature.pop();
                    let short = client.verify(session, &mechanism, key, &message, &signature);
                    assert_eq!(short, Err(Error::SignatureLenRange));
                }
            }
            assert!(good >= 2, "{key_type}");
        }
    });
}

/// PKCS#11 3.2, "HSS", "XMSS and XMSS^MT": single-part operations only. The token does not sign
/// with XMSS.
#[test]
fn the_mechanisms_verify_in_one_part() {
    let (client, session) = one_user();
    for (key_type, id) in KEY_TYPES.into_iter().zip(MECHANISMS) {
        let key = client.create(session, &public_key(key_type)).expect("a key");
        client.verify_init(session, &plain(id), key).expect("an operation");
        assert_eq!(client.verify_update(session, b"part"), Err(Error::OperationNotInitialized), "{id}");
        let refused = client.sign_init(session, &plain(id), key);
        let error = if id == M::HSS { Error::KeyFunctionNotPermitted } else { Error::MechanismInvalid };
        assert_eq!(refused, Err(error), "{id}");
    }
}

#[test]
fn a_public_key_describes_itself() {
    let (client, session) = one_user();
    // RFC 9802, 4: the object identifier, and the key without DER around it.
    let heads = [
        (KeyType::HSS, "060b2a864886f70d0109100311"),
        (KeyType::XMSS, "06082b06010505070622"),
        (KeyType::XMSSMT, "06082b06010505070623"),
    ];
    for (key_type, identifier) in heads {
        let template = public_key(key_type);
        let key = client.create(session, &template).expect("a key");
        let info = client.read(session, key, A::PUBLIC_KEY_INFO).expect("a public key");
        let bits = [&[0], template.value(A::VALUE)].concat();
        assert!(info.windows(identifier.len() / 2).any(|part| part == hex(identifier)), "{key_type}");
        assert!(info.ends_with(&bits), "{key_type}");
        assert!(client.flag(session, key, A::VERIFY));
    }
    let key = client.create(session, &public_key(KeyType::HSS)).expect("a key");
    let described = [A::HSS_LEVELS, A::HSS_LMS_TYPE, A::HSS_LMOTS_TYPE];
    // LMS_SHA256_M32_H5 and LMOTS_SHA256_N32_W8.
    assert_eq!(described.map(|id| client.number(session, key, id)), [1, 5, 4]);
}

#[test]
fn a_malformed_public_key_is_refused() {
    let (client, session) = one_user();
    for key_type in KEY_TYPES {
        let good = public_key(key_type);
        let refuses = |value: &[u8], error| {
            let template = good.clone().without(A::VALUE).bytes(A::VALUE, value);
            assert_eq!(client.create(session, &template), Err(error), "{key_type} {}", value.len());
        };
        let value = good.value(A::VALUE).to_vec();
        for len in 0..value.len() {
            refuses(&value[..len], Error::AttributeValueInvalid);
        }
        refuses(&[&value[..], &[0]].concat(), Error::AttributeValueInvalid);
        let mut unknown = value.clone();
        unknown[0] = 1;
        refuses(&unknown, Error::AttributeValueInvalid);
    }
    for key_type in [KeyType::XMSS, KeyType::XMSSMT] {
        let other = public_key(key_type).without(A::PARAMETER_SET).number(A::PARAMETER_SET, 5);
        assert_eq!(client.create(session, &other), Err(Error::TemplateInconsistent));
    }
    let described = public_key(KeyType::HSS).and(&none().number(A::HSS_LEVELS, 1));
    assert_eq!(client.create(session, &described), Err(Error::AttributeReadOnly));
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| (*number as c_ulong).to_ne_bytes()).collect()
}

/// Returns the template of a private key with levels of these types.
pub fn levels(types: &[(u64, u64)]) -> Attributes {
    let (lms, ots): (Vec<_>, Vec<_>) = types.iter().copied().unzip();
    none()
        .number(A::HSS_LEVELS, types.len() as u64)
        .bytes(A::HSS_LMS_TYPES, &numbers(&lms))
        .bytes(A::HSS_LMOTS_TYPES, &numbers(&ots))
}

fn generate(
    client: &Client,
    session: SessionHandle,
    private: &Attributes,
) -> Result<(ObjectHandle, ObjectHandle)> {
    client.generate(session, M::HSS_KEY_PAIR_GEN, &none(), private)
}

/// Returns the number of the one-time key of the top level of a signature (RFC 8554, 6.2).
fn leaf(signature: &[u8]) -> u32 {
    u32::from_be_bytes(signature[4..8].try_into().expect("a number"))
}

#[test]
fn an_hss_key_signs_until_it_is_exhausted() {
    each_user(|client, session| {
        for types in [&[(H5, W4)][..], &[(SHORT_H5, SHORT_W4)]] {
            let (public, private) = generate(client, session, &levels(types)).expect("a pair");
            assert_eq!(client.number(session, private, A::HSS_KEYS_REMAINING), 32);
            for number in 0..32 {
                let signature =
                    client.sign(session, &plain(M::HSS), private, b"message").expect("a signature");
                assert_eq!(leaf(&signature), number);
                assert_eq!(client.verify(session, &plain(M::HSS), public, b"message", &signature), Ok(()));
            }
            assert_eq!(client.number(session, private, A::HSS_KEYS_REMAINING), 0);
            assert_eq!(client.sign(session, &plain(M::HSS), private, b"message"), Err(Error::KeyExhausted));
        }
    });
}

#[test]
fn the_trees_of_lower_levels_follow_each_other() {
    each_user(|client, session| {
        let types = [(H5, W4), (H5, 4), (H5, 2)];
        let (public, private) = generate(client, session, &levels(&types)).expect("a pair");
        assert_eq!(client.number(session, private, A::HSS_KEYS_REMAINING), 1 << 15);
        let mut signatures = BTreeSet::new();
        // The second tree of the lowest level begins with the signature 32.
        for _ in 0..34 {
            let signature = client.sign(session, &plain(M::HSS), private, b"message").expect("a signature");
            assert_eq!(client.verify(session, &plain(M::HSS), public, b"message", &signature), Ok(()));
            signatures.insert(signature);
        }
        assert_eq!(signatures.len(), 34);
    });
}

#[test]
fn the_template_of_an_hss_key_names_its_levels() {
    let (client, session) = one_user();
    for (template, error) in [
        (none(), Error::TemplateIncomplete),
        (levels(&[(H5, W4)]).without(A::HSS_LEVELS).number(A::HSS_LEVELS, 2), Error::TemplateInconsistent),
        (levels(&[(4, W4)]), Error::AttributeValueInvalid),
        (levels(&[(1 << 40, W4)]), Error::AttributeValueInvalid),
        (levels(&[]), Error::AttributeValueInvalid),
        (levels(&[(H5, W4); 9]), Error::AttributeValueInvalid),
        (levels(&[(H5, SHORT_W4)]), Error::AttributeValueInvalid),
        (levels(&[(H5, W4), (SHORT_H5, SHORT_W4)]), Error::AttributeValueInvalid),
        // 2^75 one-time keys.
        (levels(&[(9, W4); 3]), Error::AttributeValueInvalid),
        (levels(&[(H5, W4)]).flag(A::EXTRACTABLE, true), Error::TemplateInconsistent),
        (levels(&[(H5, W4)]).flag(A::SENSITIVE, false), Error::TemplateInconsistent),
        (levels(&[(H5, W4)]).flag(A::COPYABLE, true), Error::TemplateInconsistent),
        (levels(&[(H5, W4)]).number(A::JETON_NEXT_KEY, 7), Error::AttributeReadOnly),
        (levels(&[(H5, W4)]).bytes(A::VALUE, b"seed"), Error::AttributeReadOnly),
    ] {
        let made = generate(&client, session, &template);
        assert_eq!(made, Err(error), "{:?}", template.ids().collect::<Vec<_>>());
    }
}

#[test]
fn an_hss_key_never_leaves_the_token_and_never_goes_back() {
    let (client, session) = one_user();
    let (_, key) = generate(&client, session, &levels(&[(H5, W4)])).expect("a pair");
    assert_eq!(client.read(session, key, A::VALUE), Err(Error::AttributeSensitive));
    assert_eq!(client.copy(session, key, &none()), Err(Error::ActionProhibited));
    for back in [A::JETON_NEXT_KEY, A::HSS_KEYS_REMAINING] {
        let changed = client.set(session, key, &none().number(back, 1));
        assert_eq!(changed, Err(Error::AttributeReadOnly), "{back}");
    }
    assert_eq!(client.set(session, key, &none().flag(A::COPYABLE, true)), Err(Error::AttributeReadOnly));
    let object = key_object(ObjectClass::PRIVATE_KEY, KeyType::HSS);
    let created = client.create(session, &object.clone().and(&levels(&[(H5, W4)])));
    assert_eq!(created, Err(Error::AttributeReadOnly));
    assert!(client.create(session, &object).is_err());
    client.sign_init(session, &plain(M::HSS), key).expect("an operation");
    assert_eq!(client.operation_state(session, Output::Length), Err(Error::StateUnsaveable));
}

/// Two processes and threads sign with one key, with blocks of uses and without.
#[test]
fn no_two_signatures_have_the_same_one_time_key() {
    for reserve in [1, 5] {
        let configuration = format!(", stateful = {{ reserve = {reserve} }}");
        let one = Client::new(DEFAULT);
        let made = generate(&one, one.user(), &levels(&[(6, W4)]).stored().label("lms"));
        made.expect("a pair");
        let clients = [(); 2].map(|()| Client::beside(&one.directory, DEFAULT, &configuration));
        let mut leaves = Vec::new();
        std::thread::scope(|scope| {
            let sign = |client: &Client| {
                let session = client.user();
                let private = Attributes::of(ObjectClass::PRIVATE_KEY).label("lms");
                let key = client.find_one(session, &private);
                let sign = || client.sign(session, &plain(M::HSS), key, b"message");
                (0..40).map(|_| leaf(&sign().expect("a signature"))).collect::<Vec<_>>()
            };
            let threads = clients.each_ref().map(|client| scope.spawn(move || sign(client)));
            leaves.extend(threads.into_iter().flat_map(|thread| thread.join().expect("a thread")));
        });
        assert_eq!(leaves.iter().collect::<BTreeSet<_>>().len(), 80);
    }
}

#[test]
fn a_limit_of_uses_counts_every_use_and_only_falls() {
    each_user(|client, session| {
        let limit = none().number(A::JETON_USES_LEFT, 3);
        let left = |key| client.number(session, key, A::JETON_USES_LEFT);
        let ec = |private: &Attributes| {
            client.generate(session, M::EC_KEY_PAIR_GEN, &Kind::P256.request(), private)
        };
        let (_, key) = ec(&limit).expect("a pair");
        let sign = || client.sign(session, &plain(M::ECDSA_SHA256), key, b"message").map(drop);
        assert_eq!(sign(), Ok(()));
        assert_eq!((left(key), client.number(session, key, A::JETON_USES)), (2, 3));
        let set_limit = |left| client.set(session, key, &none().number(A::JETON_USES_LEFT, left));
        assert_eq!((set_limit(3), set_limit(1)), (Err(Error::AttributeReadOnly), Ok(())));
        // A query for the length is no use.
        client.sign_init(session, &plain(M::ECDSA_SHA256), key).expect("an operation");
        client.module.sign(session, b"message", Output::Length).expect("a length");
        let mut signature = [0; 64];
        assert_eq!(client.module.sign(session, b"message", Output::Buffer(&mut signature)), Ok(64));
        assert_eq!((left(key), sign()), (0, Err(Error::KeyExhausted)));
        assert_eq!(client.copy(session, key, &none()), Err(Error::ActionProhibited));
        for free in [A::EXTRACTABLE, A::COPYABLE] {
            assert_eq!(ec(&limit.clone().flag(free, true)), Err(Error::TemplateInconsistent));
        }
        // A key that was made without a limit gets none later.
        let (_, unlimited) = ec(&none()).expect("a pair");
        assert_eq!(client.set(session, unlimited, &limit), Err(Error::AttributeReadOnly));

        // Decryption counts, too.
        let limited = RSA.private.clone().without(A::EXTRACTABLE).and(&limit);
        let key = client.create(session, &limited).expect("a key");
        let public = client.create(session, &RSA.public).expect("a key");
        let sealed = client.crypt(session, Direction::Encrypt, &plain(M::RSA_PKCS), public, b"plain");
        let (ciphertext, mut plaintext) = (sealed.expect("a ciphertext"), [0; 256]);
        for outcome in [Ok(5), Ok(5), Ok(5), Err(Error::KeyExhausted)] {
            client.decrypt_init(session, &plain(M::RSA_PKCS), key).expect("an operation");
            let buffer = Output::Buffer(&mut plaintext);
            assert_eq!(client.decrypt(session, &ciphertext, buffer), outcome);
        }
    });
}
