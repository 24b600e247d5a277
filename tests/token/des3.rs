//! Triple DES: the parity of keys.

use crate::prelude::*;

const KEY: &str = "0123456789abcdef23456789abcdef01456789abcdef0123";

fn key() -> Attributes {
    secret(KeyType::DES3, &hex(KEY))
}

#[test]
fn tdes_keys_have_odd_parity() {
    each_user(|client, session| {
        let mut even = hex(KEY);
        even[9] ^= 1;
        let refused = client.create(session, &key().without(A::VALUE).bytes(A::VALUE, &even));
        assert_eq!(refused.err(), Some(Error::AttributeValueInvalid));
        let open = shown();
        let made = client.generate_key(session, M::DES3_KEY_GEN, &open);
        let value = client.read(session, made.expect("a key"), A::VALUE).expect("a value");
        assert_eq!(value.len(), 24);
        assert!(value.iter().all(|byte| byte.count_ones() % 2 == 1));
    });
}
