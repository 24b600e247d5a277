//! Triple DES: the parity of keys, and a token that does not offer it.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass};

use crate::keys::key_object;
use crate::support::{Attributes, Client, each_user, hex, none, one_backend, plain};

const KEY: &str = "0123456789abcdef23456789abcdef01456789abcdef0123";

fn key() -> Attributes {
    key_object(ObjectClass::SECRET_KEY, KeyType::DES3).bytes(A::VALUE, &hex(KEY))
}

#[test]
fn tdes_keys_have_odd_parity() {
    each_user(|client, session| {
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
fn tdes_is_offered_only_if_configured() {
    one_backend(|provider| {
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
