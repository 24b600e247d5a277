//! SP 800-108 with several derived keys, and a key as input. Python computed the answers:
//! `hmac.new(bytes(range(32)), i.to_bytes(2, "big") + b"\xde\xad\xbe\xef\0\xfe\xed\xbe\xef" +
//! L.to_bytes(2, "big"), "sha256")`, i from 1 on. The answers of NIST are in
//! `conformance/src/mechanisms/protocols.rs`.

use jeton::functions::{Additional, Derived};
use jeton::mechanism::sp800_108::{Field, Number};

use crate::derive::{base, value};
use crate::prelude::*;

fn number(len: usize) -> Number {
    Number { little_endian: false, len }
}

fn bytes(digits: &str) -> Field {
    Field::Bytes(hex(digits).into())
}

fn params(fields: Vec<Field>) -> Params {
    Params::Sp800_108 { prf: MacFunction::Hmac(Hash::Sha256), fields, iv: Box::default() }
}

fn sized(len: usize) -> Attributes {
    none().number(A::VALUE_LEN, len as u64)
}

fn key() -> Vec<u8> {
    (0..32).collect()
}

/// The input is the sample in the standard. If `segments` is true, the length field is the sum of
/// the segments' lengths. Otherwise it is the sum of the keys' lengths.
#[test]
fn several_derived_keys_share_no_segment() {
    let known = [
        (
            false,
            "bed6233a897fd74e8b8bb7a94a3796fb9dbf6eb41883d318003ffd43438ae8a512d25b25a182f2bb25337240958d0205",
            "709c3ed853189ba33ecdccbf246c6adb",
        ),
        (
            true,
            "6be3743d98495384328ca5203363516ebdba45f4de0a3dba527bd685219cffa67b2cd785509b1e5d043a62cb92e003ff",
            "fc9ef57decdc37b4b973925a0c29e97e",
        ),
    ];
    each_user(|client, session| {
        let key = base(client, session, KeyType::GENERIC_SECRET, &key());
        let label = none().label("derived");
        for (segments, first, second) in known {
            let length = Field::Length { segments, number: number(2) };
            let iteration = Field::Iteration(Some(number(2)));
            let fields = vec![iteration, bytes("deadbeef"), bytes("00"), bytes("feedbeef"), length];
            let mechanism = Mechanism { params: params(fields), ..plain(M::SP800_108_COUNTER_KDF) };
            let template = sized(48).and(&shown()).and(&label);
            let other = sized(16).number(A::KEY_TYPE, KeyType::AES.0).and(&shown()).and(&label);
            let mut more = [Additional { template: other.template(), key: None }];
            let derived = client.derive(session, &mechanism, key, &template.template(), &mut more);
            let Ok(Derived::Key(made)) = derived else { panic!("a key") };
            assert_eq!(client.read(session, made, A::VALUE), Ok(hex(first)));
            let other = more[0].key.expect("a key");
            assert_eq!(client.read(session, other, A::VALUE), Ok(hex(second)));
            assert_eq!(client.number(session, other, A::KEY_TYPE), KeyType::AES.0);
            for handle in [made, other] {
                client.destroy_object(session, handle).expect("an object");
            }
            // If one key cannot be created, no key is created. The handle 0 marks the key that
            // failed.
            let good = sized(16).and(&label);
            for (wrong, error) in [
                (none().and(&label), Error::TemplateIncomplete),
                (sized(20).number(A::KEY_TYPE, KeyType::AES.0).and(&label), Error::KeySizeRange),
                (sized(16).bytes(A::VALUE, &[1; 16]), Error::AttributeReadOnly),
            ] {
                let mut more = [&good, &wrong, &good]
                    .map(|template| Additional { template: template.template(), key: None });
                let refused = client.derive(session, &mechanism, key, &template.template(), &mut more);
                assert_eq!(refused.err(), Some(error));
                assert_eq!(more.map(|more| more.key), [None, Some(ObjectHandle(0)), None]);
            }
            assert_eq!(client.find(session, &label), []);
        }
    });
}

#[test]
fn a_key_handle_is_a_data_field_of_the_kdf() {
    let (client, session) = one_user();
    let key = base(&client, session, KeyType::GENERIC_SECRET, &key());
    let other = base(&client, session, KeyType::GENERIC_SECRET, &[0xaa, 0xbb]);
    let made = |field| {
        let params = params(vec![Field::Iteration(Some(number(4))), field]);
        value(&client, session, (M::SP800_108_COUNTER_KDF, params), key, &sized(40))
    };
    assert!(made(bytes("aabb")).is_ok());
    assert_eq!(made(Field::Key(other)), made(bytes("aabb")));
    // A field of one byte cannot hold the length of 320 bits.
    let short = Field::Length { segments: false, number: number(1) };
    assert_eq!(made(short), Err(Error::MechanismParamInvalid));
}
