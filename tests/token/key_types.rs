//! The findings K1 to K4 of the review of commit d77ec499, and their relatives: a key type that
//! reads parts of a key apart, or that changes its bytes, and check values. Each test fails with
//! the rules of that commit. `rule::becomes` and `rule::has_check_value` are the rules.

use jeton::mechanism::sp800_108::{Field, Number};

use crate::derive::{derive, value};
use crate::guards::{derives, hidden, len};
use crate::prelude::*;

const SHA256: MacFunction = MacFunction::Hmac(Hash::Sha256);

/// Runs a test with each backend, with and without the legacy mechanisms.
fn each_configuration(test: impl Fn(&Client, SessionHandle)) {
    each_backend(|provider| {
        for configuration in ["", ", mechanisms = { legacy = true }"] {
            println!("configuration: {configuration}");
            let client = Client::with(provider, configuration);
            test(&client, client.user());
        }
    });
}

fn counted(len: u8) -> Vec<u8> {
    (1..=len).collect()
}

fn key(client: &Client, session: SessionHandle, len: u8, more: &Attributes) -> ObjectHandle {
    let template = secret(KeyType::GENERIC_SECRET, &counted(len)).and(&derives()).and(more);
    client.create(session, &template).expect("a key")
}

fn mask(bytes: &[u8]) -> (M, Params) {
    (M::XOR_BASE_AND_DATA, Params::Data(bytes.into()))
}

fn join(bytes: &[u8]) -> (M, Params) {
    (M::CONCATENATE_BASE_AND_DATA, Params::Data(bytes.into()))
}

/// Takes the start of a key.
fn head() -> (M, Params) {
    let params = Params::Ike1Extended { prf: SHA256, shared: None, extra: Box::default() };
    (M::IKE1_EXTENDED_DERIVE, params)
}

fn hkdf() -> (M, Params) {
    let (salt, info) = (HkdfSalt::Null, Box::default());
    (M::HKDF_DERIVE, Params::Hkdf { extract: true, expand: true, hash: Hash::Sha256, salt, info })
}

fn sp800_108() -> (M, Params) {
    let fields = vec![Field::Iteration(Some(Number { little_endian: false, len: 4 }))];
    (M::SP800_108_COUNTER_KDF, Params::Sp800_108 { prf: SHA256, fields, iv: Box::default() })
}

fn of_type(key_type: KeyType) -> Attributes {
    none().number(A::KEY_TYPE, key_type.0)
}

/// Returns the derivations that copy a key, each with the length of the base key and the bytes of
/// the result.
fn copies() -> Vec<(u8, (M, Params), Vec<u8>)> {
    let masked = |len: u8| counted(len).iter().map(|byte| byte ^ 9).collect::<Vec<_>>();
    vec![
        (24, mask(&[9; 24]), masked(24)),
        (32, mask(&[9; 32]), masked(32)),
        (16, join(&[9; 8]), [&counted(16)[..], &[9; 8]].concat()),
        (16, join(&[9; 16]), [&counted(16)[..], &[9; 16]].concat()),
        (24, (M::EXTRACT_KEY_FROM_KEY, Params::Bit(0)), counted(24)),
        (32, head(), counted(24)),
        (48, head(), counted(32)),
    ]
}

/// K1, K2 and K4: triple DES reads three parts of a key apart, and XTS two.
#[test]
fn a_copy_of_an_unreadable_key_has_no_type_that_reads_parts_apart() {
    each_configuration(|client, session| {
        for (base_len, mechanism, bytes) in copies() {
            let key_type = if bytes.len() == 24 { KeyType::DES3 } else { KeyType::AES_XTS };
            let template = of_type(key_type).and(&len(bytes.len() as u64));
            for closed in [hidden(), none().flag(A::SENSITIVE, true), none().flag(A::EXTRACTABLE, false)] {
                let base = key(client, session, base_len, &closed);
                let made = derive(client, session, mechanism.clone(), base, &template);
                assert_eq!(made, Err(Error::TemplateInconsistent), "{} {base_len}", mechanism.0);
            }
            // The template of the base key has the type.
            let base = secret(KeyType::GENERIC_SECRET, &counted(base_len)).and(&derives()).and(&hidden());
            let forcing = client.create_with(session, &base, A::DERIVE_TEMPLATE, &of_type(key_type));
            let made = len(bytes.len() as u64);
            let made = derive(client, session, mechanism.clone(), forcing.expect("a key"), &made);
            assert_eq!(made, Err(Error::TemplateInconsistent), "{} {base_len}", mechanism.0);
            // The result of a readable key is not limited.
            let base = key(client, session, base_len, &shown());
            for made in [none(), hidden()] {
                let made = template.clone().and(&made);
                derive(client, session, mechanism.clone(), base, &made).expect("a key");
            }
        }
        // A copy of a copy, of which the IKE derivation takes the start.
        let base = key(client, session, 32, &hidden());
        let generic = of_type(KeyType::GENERIC_SECRET).and(&len(32)).and(&derives());
        let masked = derive(client, session, mask(&[9; 32]), base, &generic).expect("a key");
        let made = derive(client, session, head(), masked, &of_type(KeyType::DES3).and(&len(24)));
        assert_eq!(made, Err(Error::TemplateInconsistent));
    });
}

/// A key type of one length has it also if the template does not say so. Before, the rules took the
/// key for whole, and a concatenation of known bytes showed an unreadable key byte by byte.
#[test]
fn a_key_type_of_one_length_cuts_a_key_as_its_length_in_a_template_does() {
    each_configuration(|client, session| {
        let longer = [
            (32, (M::CONCATENATE_DATA_AND_BASE, Params::Data([0; 31].into()))),
            (32, join(&[0; 31])),
            (48, mask(&[9; 48])),
            (48, (M::EXTRACT_KEY_FROM_KEY, Params::Bit(0))),
            (48, head()),
        ];
        for (base_len, mechanism) in longer {
            let base = key(client, session, base_len, &hidden());
            let made =
                [of_type(KeyType::CHACHA20), of_type(KeyType::CHACHA20).and(&len(32))].map(|template| {
                    let made = derive(client, session, mechanism.clone(), base, &template.and(&hidden()));
                    made.map(|made| client.number(session, made, A::JETON_COPIED))
                });
            assert_eq!(made[0], made[1], "{} {base_len}", mechanism.0);
        }
    });
}

/// A relative of K3: a derivation could give the same bytes to two keys, one of which has its
/// parity set.
#[test]
fn an_unreadable_result_is_no_key_of_triple_des() {
    each_configuration(|client, session| {
        let base = key(client, session, 32, &hidden());
        let des3 = of_type(KeyType::DES3).and(&len(24));
        for mechanism in [hkdf(), sp800_108()] {
            let made = derive(client, session, mechanism.clone(), base, &des3.clone().and(&hidden()));
            assert_eq!(made, Err(Error::TemplateInconsistent), "{}", mechanism.0);
            let made = value(client, session, mechanism.clone(), base, &des3);
            let made = made.expect("a readable key");
            assert!(made.iter().all(|byte| byte.count_ones() % 2 == 1), "{}", mechanism.0);
            // The halves of a whole result do not change apart.
            let xts = of_type(KeyType::AES_XTS).and(&len(64)).and(&hidden());
            derive(client, session, mechanism, base, &xts).expect("a key");
        }
    });
}

/// K3 by way of `C_UnwrapKey`.
#[test]
fn an_unwrapped_unreadable_key_keeps_each_bit() {
    each_configuration(|client, session| {
        let by = client.create(session, &secret(KeyType::AES, &[7; 16])).expect("a key");
        let even = key(client, session, 24, &none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, true));
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let wrapped = client.wrap(session, &kwp, by, even).expect("a wrapped key");
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::DES3);
        let unreadable = client.unwrap(session, &kwp, by, &wrapped, &template.clone().and(&hidden()));
        assert_eq!(unreadable, Err(Error::WrappedKeyInvalid));
        let readable = client.unwrap(session, &kwp, by, &wrapped, &template.clone().and(&shown()));
        let readable = readable.expect("a key with its parity");
        let odd = client.read(session, readable, A::VALUE).expect("a value");
        assert!(odd.iter().all(|byte| byte.count_ones() % 2 == 1));
        let wrapped = client.wrap(session, &kwp, by, readable).expect("a wrapped key");
        client.unwrap(session, &kwp, by, &wrapped, &template.and(&hidden())).expect("an unreadable key");
    });
}

/// K1 and K4: three bytes of a ciphertext under a key that the caller changed.
#[test]
fn a_copy_of_an_unreadable_key_has_no_check_value() {
    each_configuration(|client, session| {
        for (base_len, mechanism, bytes) in copies() {
            let base = key(client, session, base_len, &hidden());
            for key_type in [KeyType::GENERIC_SECRET, KeyType::AES] {
                let template = of_type(key_type).and(&len(bytes.len() as u64));
                let made = derive(client, session, mechanism.clone(), base, &template).expect("a key");
                let copy = client.copy(session, made, &none().flag(A::TOKEN, true)).expect("a copy");
                for made in [made, copy] {
                    assert_eq!(client.read(session, made, A::CHECK_VALUE), Ok(vec![]), "{}", mechanism.0);
                }
                // Neither a template nor a search says whether a guess is right.
                let known = client.create(session, &secret(key_type, &bytes)).expect("a key");
                let right = client.read(session, known, A::CHECK_VALUE).expect("a check value");
                assert_eq!(right.len(), 3);
                let wrong = [right[0] ^ 1, right[1], right[2]];
                for guess in [&right[..], &wrong] {
                    let guess = none().bytes(A::CHECK_VALUE, guess);
                    let refused =
                        derive(client, session, mechanism.clone(), base, &template.clone().and(&guess));
                    assert_eq!(refused, Err(Error::AttributeValueInvalid), "{}", mechanism.0);
                    assert_eq!(client.set(session, made, &guess), Err(Error::AttributeValueInvalid));
                    assert!(client.copy(session, made, &guess).is_err());
                    assert!(!client.find(session, &guess).contains(&made));
                }
                let empty = none().bytes(A::CHECK_VALUE, b"");
                derive(client, session, mechanism.clone(), base, &template.and(&empty)).expect("a key");
            }
        }
        // A key of its own has one.
        let base = key(client, session, 32, &hidden());
        let whole =
            derive(client, session, hkdf(), base, &of_type(KeyType::AES).and(&len(32)).and(&hidden()));
        let whole = whole.expect("a key");
        for key in [base, whole] {
            assert_eq!(client.read(session, key, A::CHECK_VALUE).map(|check| check.len()), Ok(3));
        }
    });
}

/// A relative of K1: the PRF of TLS 1.0 reads the halves of its key apart, also if it signs.
#[test]
fn a_masked_key_does_not_sign_by_halves() {
    each_configuration(|client, session| {
        let signs = none().flag(A::SIGN, true);
        let base = key(client, session, 32, &hidden().and(&signs));
        let generic = of_type(KeyType::GENERIC_SECRET).and(&len(32)).and(&signs);
        let masked = derive(client, session, mask(&[9; 32]), base, &generic).expect("a key");
        let by_halves = plain(M::TLS_PRF_GENERAL);
        assert_eq!(client.sign_init(session, &by_halves, masked), Err(Error::KeyFunctionNotPermitted));
        client.sign_init(session, &plain(M::SHA256_HMAC), masked).expect("an operation");
        client.sign_cancel(session).expect("a session");
        client.sign_init(session, &by_halves, base).expect("an operation");
    });
}
