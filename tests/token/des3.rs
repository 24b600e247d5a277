//! Triple DES: the parity of keys.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass};

use crate::keys::key_object;
use crate::support::{Attributes, each_user, hex, none, plain};

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
