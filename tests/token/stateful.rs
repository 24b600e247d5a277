//! Stateful hash-based signatures: HSS, XMSS and XMSS^MT.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass};
use jeton_vectors::{self as vectors, Miss, Operation, PublicKey};

use crate::keys::key_object;
use crate::support::{Attributes, each_user, hex, none, one_user, plain};

/// The mechanisms that the tests here cover.
pub const MECHANISMS: [M; 3] = [M::HSS, M::XMSS, M::XMSSMT];
const KEY_TYPES: [KeyType; 3] = [KeyType::HSS, KeyType::XMSS, KeyType::XMSSMT];

/// A public key, a message, and bytes that may be its signature.
struct Vector {
    key: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
}

/// Returns the published vectors of a key type.
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

/// Returns the template of a published public key.
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
                client
                    .module
                    .verify_signature_init(session, &mechanism, key, &signature)
                    .expect("an operation");
                assert_eq!(client.module.verify_signature(session, &message), outcome);
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

/// PKCS#11 3.2, "HSS", "XMSS and XMSS^MT": single-part operations only. The token does not sign.
#[test]
fn the_mechanisms_verify_in_one_part() {
    one_user(|client, session| {
        for (key_type, id) in KEY_TYPES.into_iter().zip(MECHANISMS) {
            let key = client.create(session, &public_key(key_type)).expect("a key");
            client.module.verify_init(session, &plain(id), key).expect("an operation");
            let part = client.module.verify_update(session, b"part");
            assert_eq!(part, Err(Error::OperationNotInitialized), "{id}");
            let refused = client.module.sign_init(session, &plain(id), key);
            assert_eq!(refused, Err(Error::MechanismInvalid), "{id}");
        }
    });
}

#[test]
fn a_public_key_describes_itself() {
    one_user(|client, session| {
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
    });
}

#[test]
fn a_malformed_public_key_is_refused() {
    one_user(|client, session| {
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
    });
}
