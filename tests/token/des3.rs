//! Triple DES: known answers, the parity of keys, wrapping, and a token that has it not.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass};
use jeton::mechanism::{Mechanism, Params};
use jeton::module::Output;

use crate::keys::key_object;
use crate::support::{Attributes, Client, each_backend, hex, none, plain};

const KEY: &str = "0123456789abcdef23456789abcdef01456789abcdef0123";
const TEXT: &[u8] = b"The qufck brown fox jump";

fn key() -> Attributes {
    key_object(ObjectClass::SECRET_KEY, KeyType::DES3).bytes(A::VALUE, &hex(KEY))
}

fn with(id: M) -> Mechanism {
    Mechanism { params: Params::Iv([0, 1, 2, 3, 4, 5, 6, 7].into()), ..plain(id) }
}

/// ECB: SP 800-67, B.1. CBC: `openssl enc -des-ede3-cbc` of OpenSSL 3.0.
#[test]
fn known_answers() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = client.create(session, &key()).expect("a key");
        for (mechanism, known) in [
            (plain(M::DES3_ECB), "a826fd8ce53b855fcce21c8112256fe668d5c05dd9b6b900"),
            (with(M::DES3_CBC), "f368d06f3bbd614e60f2d0245cad3f818d5c69f2cb3fd5c7"),
            (with(M::DES3_CBC_PAD), "f368d06f3bbd614e60f2d0245cad3f818d5c69f2cb3fd5c7efa5066e2c4e03b9"),
        ] {
            let mut out = [0; 32];
            client.module.encrypt_init(session, &mechanism, key).expect("an operation");
            let len = client.module.encrypt(session, TEXT, Output::Buffer(&mut out)).expect("a ciphertext");
            assert_eq!(out[..len], hex(known)[..]);
        }
        assert_eq!(client.read(session, key, A::CHECK_VALUE), Ok(hex("4eba73")));
    });
}

#[test]
fn the_parity_of_keys_is_odd() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let mut even = hex(KEY);
        even[9] ^= 1;
        let refused = client.create(session, &key().without(A::VALUE).bytes(A::VALUE, &even));
        assert_eq!(refused.err(), Some(Error::AttributeValueInvalid));
        let open = none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true);
        let made = client.module.generate_key(session, &plain(M::DES3_KEY_GEN), &open.template());
        let value = client.read(session, made.expect("a key"), A::VALUE).expect("a value");
        assert_eq!(value.len(), 24);
        assert!(value.iter().all(|byte| byte.count_ones() % 2 == 1));
    });
}

#[test]
fn a_token_has_it_only_where_the_configuration_does() {
    each_backend(|provider| {
        let client = Client::with(provider, "");
        let session = client.user();
        let offered = client.module.mechanisms(client.slot).expect("mechanisms");
        for id in [M::DES3_KEY_GEN, M::DES3_ECB, M::DES3_CBC, M::DES3_CBC_PAD] {
            assert!(!offered.contains(&id), "{id}");
        }
        let key = client.create(session, &key()).expect("a key");
        let refused = client.module.encrypt_init(session, &plain(M::DES3_ECB), key);
        assert_eq!(refused, Err(Error::MechanismInvalid));
    });
}
