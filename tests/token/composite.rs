//! Composite ML-DSA: signatures that the draft and Bouncy Castle made, and signatures and keys that
//! are no composite. `conformance/clients/Composites.java` made the rows of Bouncy Castle 1.87. The
//! row of the draft is from `src/testvectors.json` of its repository (January 2026).

use jeton::admin::keys::{KeyPair, read_private_key};
use jeton::backend::{Composite, Curve, Traditional};

use crate::prelude::*;

const SIGNS: M = M::JETON_COMPOSITE_ML_DSA;

struct Vector {
    label: String,
    private: Vec<u8>,
    message: Vec<u8>,
    context: Vec<u8>,
    signature: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let rows: serde_json::Value = serde_json::from_str(include_str!("composites.json")).expect("JSON");
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().expect("a string").to_owned();
    let bytes = |row: &serde_json::Value, name: &str| hex(&text(row, name));
    let vector = |row| Vector {
        label: text(row, "label"),
        private: bytes(row, "private"),
        message: bytes(row, "message"),
        context: bytes(row, "context"),
        signature: bytes(row, "signature"),
    };
    rows.as_array().expect("rows").iter().map(vector).collect()
}

fn in_context(context: &[u8]) -> Mechanism {
    let params = Params::SignContext { deterministic: false, context: context.into(), hash: None };
    Mechanism { params, ..plain(SIGNS) }
}

/// Creates both keys of a file.
fn import(client: &Client, session: SessionHandle, file: &[u8]) -> (ObjectHandle, ObjectHandle) {
    let KeyPair { public, private, .. } = read_private_key(file).expect("a key");
    let object = |parts: Vec<(u64, jeton_secret::Secret)>| {
        parts.into_iter().fold(none(), |all, (id, value)| all.bytes(A(id), &value))
    };
    let private = client.create(session, &object(private).and(&shown())).expect("a private key");
    (client.create(session, &object(public)).expect("a public key"), private)
}

fn number(vector: &Vector) -> u64 {
    let row = Composite::ALL.iter().find(|row| row.label == vector.label);
    row.expect("an algorithm").number.into()
}

#[test]
fn signatures_of_the_draft_and_of_bouncy_castle_verify_with_their_private_keys() {
    let vectors = vectors();
    assert!(Composite::ALL.iter().all(|row| vectors.iter().any(|vector| vector.label == row.label)));
    each_user(|client, session| {
        for vector in &vectors {
            let (public, private) = import(client, session, &vector.private);
            for key in [public, private] {
                assert_eq!(client.number(session, key, A::PARAMETER_SET), number(vector));
            }
            let Vector { label, message, signature, context, .. } = vector;
            let verify = |context: &[u8], message: &[u8], signature: &[u8]| {
                client.verify(session, &in_context(context), public, message, signature)
            };
            assert_eq!(verify(context, message, signature), Ok(()), "{label}");
            assert_eq!(verify(b"another", message, signature), Err(Error::SignatureInvalid), "{label}");
            assert_eq!(verify(context, b"another", signature), Err(Error::SignatureInvalid), "{label}");
            let own = client.sign(session, &in_context(context), private, message).expect("a signature");
            assert_eq!(verify(context, message, &own), Ok(()), "{label}");
            // A signature has the length that C_Sign told.
            let lengths = [(); 8].map(|()| {
                client.sign(session, &in_context(b""), private, message).expect("a signature").len()
            });
            assert_eq!(lengths, [own.len(); 8], "{label}");
        }
    });
}

/// PKCS #8 is that of the file, and a key that is wrapped is the same key again.
#[test]
fn a_composite_key_is_wrapped_in_the_encoding_of_the_draft() {
    each_user(|client, session| {
        for vector in &vectors() {
            let (public, private) = import(client, session, &vector.private);
            let wrapping = pair(client, session, Kind::Aes, &none()).0;
            let mechanism = plain(M::AES_KEY_WRAP_KWP);
            let wrapped = client.wrap(session, &mechanism, wrapping, private).expect("a wrapped key");
            let template =
                key_object(ObjectClass::PRIVATE_KEY, KeyType::JETON_COMPOSITE_ML_DSA).and(&shown());
            let again = client.unwrap(session, &mechanism, wrapping, &wrapped, &template).expect("a key");
            let value = |key| client.read(session, key, A::VALUE).expect("a value");
            assert_eq!(value(again), value(private));
            assert!(vector.private.ends_with(&value(private)), "{}", vector.label);
            let info = |key| client.read(session, key, A::PUBLIC_KEY_INFO).expect("a public key");
            assert_eq!(info(again), info(public), "{}", vector.label);
            assert!(info(public).ends_with(&value(public)), "{}", vector.label);
        }
    });
}

/// Two keys of each algorithm, and signatures of one message.
#[test]
fn each_component_must_be_right() {
    each_user(|client, session| {
        for row in &Composite::ALL {
            let (label, first) = (row.label, row.ml_dsa.signature_len());
            let request = none().number(A::PARAMETER_SET, row.number.into());
            let generate = || {
                let made =
                    client.generate(session, M::JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN, &request, &none());
                made.expect("a pair")
            };
            let (keys, other) = (generate(), generate());
            let sign = |key| client.sign(session, &plain(SIGNS), key, b"a message").expect("a signature");
            let (good, foreign) = (sign(keys.1), sign(other.1));
            let verify =
                |signature: &[u8]| client.verify(session, &plain(SIGNS), keys.0, b"a message", signature);
            assert_eq!(verify(&good), Ok(()), "{label}");
            for at in [0, first - 1, first + 9, good.len() - 1] {
                let mut altered = good.clone();
                altered[at] ^= 1;
                assert_eq!(verify(&altered), Err(Error::SignatureInvalid), "{label}, byte {at}");
            }
            for mixed in
                [[&good[..first], &foreign[first..]].concat(), [&foreign[..first], &good[first..]].concat()]
            {
                assert!(verify(&mixed).is_err(), "{label}");
            }
            for part in [&good[..first], &good[first..], &good[..good.len() - 1], &good[1..], &[]] {
                assert!(verify(part).is_err(), "{label}, {} bytes", part.len());
            }
            assert!(verify(&[&good[..], &[0]].concat()).is_err(), "{label}");
            let missing = [&vec![0; first][..], &good[first..]].concat();
            assert!(verify(&missing).is_err(), "{label}");
            let missing = [&good[..first], &vec![0; good.len() - first][..]].concat();
            assert!(verify(&missing).is_err(), "{label}");
            let long = in_context(&[7; 256]);
            assert_eq!(client.sign_init(session, &long, keys.1), Err(Error::MechanismParamInvalid));
        }
    });
}

/// The components of a composite key work with no other mechanism, and a key with the component of
/// another algorithm is refused.
#[test]
fn a_component_is_no_key_of_its_own() {
    each_user(|client, session| {
        let vectors = vectors();
        for vector in &vectors {
            let (public, private) = import(client, session, &vector.private);
            for id in [M::ML_DSA, M::ECDSA, M::EDDSA, M::SHA256_RSA_PKCS] {
                let refused = Err(Error::KeyTypeInconsistent);
                assert_eq!(client.sign_init(session, &plain(id), private), refused, "{id}");
                assert_eq!(client.verify_init(session, &plain(id), public), refused, "{id}");
            }
            let value = |key| client.read(session, key, A::VALUE).expect("a value");
            let (public, private) = (value(public), value(private));
            let create = |class, set: u64, value: &[u8]| {
                let key = key_object(class, KeyType::JETON_COMPOSITE_ML_DSA).bytes(A::VALUE, value);
                client.create(session, &key.number(A::PARAMETER_SET, set)).err()
            };
            let invalid = Some(Error::AttributeValueInvalid);
            let halves = |class, whole: &[u8]| {
                for wrong in [&whole[..32], &whole[..whole.len() - 1], &whole[1..], &[]] {
                    assert_eq!(create(class, number(vector), wrong), invalid, "{}", vector.label);
                }
                let longer = [whole, &[0]].concat();
                assert_eq!(create(class, number(vector), &longer), invalid, "{}", vector.label);
                assert_eq!(create(class, 36, whole), invalid);
            };
            halves(ObjectClass::PUBLIC_KEY, &public);
            halves(ObjectClass::PRIVATE_KEY, &private);
        }
        let other = |from: &str, to: &str| {
            let find =
                |label: &str| vectors.iter().find(|vector| vector.label.contains(label)).expect("a row");
            let (_, private) = import(client, session, &find(from).private);
            let value = client.read(session, private, A::VALUE).expect("a value");
            let key = key_object(ObjectClass::PRIVATE_KEY, KeyType::JETON_COMPOSITE_ML_DSA);
            let key = key.bytes(A::VALUE, &value).number(A::PARAMETER_SET, number(find(to)));
            assert_eq!(client.create(session, &key).err(), Some(Error::AttributeValueInvalid), "{from}");
        };
        other("MLDSA65-ECDSA-P256", "MLDSA65-ECDSA-P384");
        other("MLDSA65-ECDSA-P384", "MLDSA65-Ed25519");
        other("MLDSA65-Ed25519", "MLDSA65-RSA3072-PSS");
        other("MLDSA65-RSA3072-PSS", "MLDSA65-ECDSA-P256");
    });
}

/// `[mechanisms]` refuses a composite key as it refuses its traditional component.
#[test]
fn configured_sizes_and_curves_limit_the_traditional_component() {
    type IsRefused = fn(&Composite) -> bool;

    let (client, session) = one_user();
    let named = |row: &Composite| none().stored().label(row.label);
    for row in &Composite::ALL {
        let request = named(row).number(A::PARAMETER_SET, row.number.into());
        let made = client.generate(session, M::JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN, &request, &named(row));
        made.expect("a pair");
    }
    let is_small: IsRefused =
        |row| matches!(row.traditional, Traditional::Ecdsa(Curve::P256) | Traditional::Ed25519);
    let is_rsa: IsRefused =
        |row| matches!(row.traditional, Traditional::RsaPkcs1(_) | Traditional::RsaPss(_));
    let rules = [
        ("min-ec-bits = 384", is_small, Error::KeySizeRange),
        ("curves = ['secp384r1']", is_small, Error::CurveNotSupported),
        ("min-rsa-bits = 4096", is_rsa, Error::KeySizeRange),
    ];
    for (rule, is_refused, error) in rules {
        let other = Client::beside(&client.directory, DEFAULT, &format!(", mechanisms = {{ {rule} }}"));
        let session = other.user();
        for row in &Composite::ALL {
            let find = |class| other.find_one(session, &Attributes::of(class).label(row.label));
            let (public, private) = (find(ObjectClass::PUBLIC_KEY), find(ObjectClass::PRIVATE_KEY));
            let request = none().number(A::PARAMETER_SET, row.number.into());
            let value = other.read(session, public, A::VALUE).expect("a value");
            let import = key_object(ObjectClass::PUBLIC_KEY, KeyType::JETON_COMPOSITE_ML_DSA);
            let made = other.create(session, &import.and(&request).bytes(A::VALUE, &value)).err();
            let signs = other.sign(session, &plain(SIGNS), private, b"data").err();
            if is_refused(row) {
                let generator = M::JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN;
                let generated = other.generate(session, generator, &request, &none()).err();
                assert_eq!((generated, made), (Some(error), Some(error)), "{rule}: {}", row.label);
                assert_eq!(signs, Some(Error::KeySizeRange), "{rule}: {}", row.label);
            } else {
                assert_eq!((made, signs), (None, None), "{rule}: {}", row.label);
            }
        }
    }
}

/// The rules of public keys of others hold for the traditional component.
#[test]
fn a_weak_traditional_component_is_refused() {
    each_user(|client, session| {
        for vector in &vectors() {
            let (public, _) = import(client, session, &vector.private);
            let mut value = client.read(session, public, A::VALUE).expect("a value");
            let end = value.len();
            if vector.label.contains("Ed25519") {
                // A point of order 1.
                value[end - 32..].fill(0);
                value[end - 32] = 1;
            } else if vector.label.contains("RSA3072") {
                // The exponent has five bytes in DER. The modulus gets the factor 3: 256 is 1
                // modulo 3.
                let last = end - 6;
                let rest: u32 = value[last - 383..last].iter().map(|byte| u32::from(*byte)).sum();
                value[last] =
                    (1..=5).step_by(2).find(|odd| (rest + u32::from(*odd)).is_multiple_of(3)).expect("one");
            } else {
                // The point is not on the curve.
                value[end - 1] ^= 1;
            }
            let key = key_object(ObjectClass::PUBLIC_KEY, KeyType::JETON_COMPOSITE_ML_DSA);
            let key = key.bytes(A::VALUE, &value).number(A::PARAMETER_SET, number(vector));
            let refused = client.create(session, &key).err();
            assert_eq!(refused, Some(Error::AttributeValueInvalid), "{}", vector.label);
        }
    });
}
