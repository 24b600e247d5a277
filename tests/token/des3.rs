//! Triple DES: known answers, the parity of keys, wrapping, and a token that does not offer it.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass};
use jeton::mechanism::Mechanism;
use jeton::module::Output;

use crate::keys::key_object;
use crate::support::{Attributes, Client, each_backend, hex, none, plain, with_iv};

const KEY: &str = "0123456789abcdef23456789abcdef01456789abcdef0123";
const TEXT: &[u8] = b"The qufck brown fox jump";

fn key() -> Attributes {
    key_object(ObjectClass::SECRET_KEY, KeyType::DES3).bytes(A::VALUE, &hex(KEY))
}

fn with(id: M) -> Mechanism {
    with_iv(id, &[0, 1, 2, 3, 4, 5, 6, 7])
}

/// ECB: SP 800-67, B.1. CBC: `openssl enc -des-ede3-cbc` of OpenSSL 3.0.
#[test]
fn tdes_matches_known_values() {
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

/// The values are from OpenSSL 3.0: `printf 00112233445566778899aabbccddeeff0102030400000000 | xxd
/// -r -p | openssl enc -des-ede3-ecb -nopad -K KEY`, then the same with `-des-ede3-cbc -iv
/// 0001020304050607`, then with the key itself as the message.
#[test]
fn wrapping_pads_secret_keys_to_blocks_of_eight_bytes() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let usages = none().flag(A::WRAP, true).flag(A::UNWRAP, true);
        let wrapping = client.create(session, &key().and(&usages)).expect("a wrapping key");
        let short = hex("00112233445566778899aabbccddeeff01020304");
        for (mechanism, key_type, value, known) in [
            (
                plain(M::DES3_ECB),
                KeyType::GENERIC_SECRET,
                &short,
                "109aeac4d79bfaddf9ad78eda08644d5b2ccb7b273bba797",
            ),
            (
                with(M::DES3_CBC),
                KeyType::GENERIC_SECRET,
                &short,
                "6f14fb5e9186be21828978a90af1794fb25fcd97cd029759",
            ),
            (with(M::DES3_CBC), KeyType::DES3, &hex(KEY), "04c9c882ffa783fa8313193ece3c9db407cbc438a18d7fff"),
        ] {
            let shown = none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true);
            let template = key_object(ObjectClass::SECRET_KEY, key_type).and(&shown);
            let key = client.create(session, &template.clone().bytes(A::VALUE, value)).expect("a key");
            let mut out = [0; 64];
            let wrapped =
                client.module.wrap_key(session, &mechanism, wrapping, key, Output::Buffer(&mut out));
            let wrapped = &out[..wrapped.expect("a wrapped key")];
            assert_eq!(wrapped, hex(known));
            let template = match key_type {
                KeyType::GENERIC_SECRET => template.number(A::VALUE_LEN, value.len() as u64),
                _ => template,
            };
            let back = client.module.unwrap_key(session, &mechanism, wrapping, wrapped, &template.template());
            assert_eq!(client.read(session, back.expect("a key"), A::VALUE), Ok(value.clone()));
        }
    });
}

#[test]
fn an_update_returns_each_complete_block() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = client.create(session, &key()).expect("a key");
        let module = &client.module;
        let mut out = [0; 32];
        for mechanism in [plain(M::DES3_ECB), with(M::DES3_CBC), with(M::DES3_CBC_PAD)] {
            module.encrypt_init(session, &mechanism, key).expect("an operation");
            assert_eq!(module.encrypt_update(session, &TEXT[..7], Output::Buffer(&mut out)), Ok(0));
            assert_eq!(module.encrypt_update(session, &TEXT[7..9], Output::Buffer(&mut out)), Ok(8));
            assert_eq!(module.encrypt_update(session, &TEXT[9..], Output::Buffer(&mut out[8..])), Ok(16));
            let end = module.encrypt_final(session, Output::Buffer(&mut out[24..])).expect("an end");
            let whole = out[..24 + end].to_vec();

            module.decrypt_init(session, &mechanism, key).expect("an operation");
            // With padding, decryption holds back the last block, because it may be the padding.
            let first = module.decrypt_update(session, &whole[..16], Output::Buffer(&mut out));
            let first = first.expect("a part");
            assert_eq!(first, if end == 0 { 16 } else { 8 });
            let more = module.decrypt_update(session, &whole[16..], Output::Buffer(&mut out[first..]));
            let len = first + more.expect("a part");
            let end = module.decrypt_final(session, Output::Buffer(&mut out[len..])).expect("an end");
            assert_eq!(&out[..len + end], TEXT);
        }
    });
}

#[test]
fn tdes_keys_have_odd_parity() {
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
fn tdes_is_offered_only_if_configured() {
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
