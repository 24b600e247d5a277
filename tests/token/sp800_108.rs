//! SP 800-108: known answers of NIST's ACVP server (algorithm KDF, revision 1.0). The number after
//! `tcId` is NIST's number of the case. For inputs that NIST does not have, Python computed the
//! answers: `hmac.new(bytes(range(32)), i.to_bytes(2, "big") +
//! b"\xde\xad\xbe\xef\0\xfe\xed\xbe\xef" + L.to_bytes(2, "big"), "sha256")`, i from 1 on.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectHandle};
use jeton::mechanism::sp800_108::{Field, Number};
use jeton::mechanism::{MacFunction, Mechanism, Params};
use jeton::module::{Additional, Derived};

use crate::derive::{base, derive, shown, value};
use crate::support::{Attributes, Client, each_backend, hex, none, plain};

/// Every mechanism that has a case here.
pub const COVERED: [M; 3] =
    [M::SP800_108_COUNTER_KDF, M::SP800_108_FEEDBACK_KDF, M::SP800_108_DOUBLE_PIPELINE_KDF];

const KEY: [u8; 32] = {
    let mut key = [0; 32];
    let mut at = 0;
    while at < 32 {
        key[at] = at as u8;
        at += 1;
    }
    key
};

fn number(len: usize) -> Number {
    Number { little_endian: false, len }
}

fn bytes(digits: &str) -> Field {
    Field::Bytes(hex(digits).into())
}

fn params(prf: MacFunction, iv: &str, fields: Vec<Field>) -> Params {
    Params::Sp800_108 { prf, fields, iv: hex(iv).into() }
}

fn sized(len: usize) -> Attributes {
    none().number(A::VALUE_LEN, len as u64)
}

#[test]
fn sp800_108_keys_match_nist_vectors() {
    let variable = || Field::Iteration(None);
    let (sha1, sha3) = (MacFunction::Hmac(Hash::Sha1), MacFunction::Hmac(Hash::Sha3_384));
    let cases = [
        // tcId 3
        (
            M::SP800_108_COUNTER_KDF,
            "5FBB37D515DA4DE35EB9177CAA17B135",
            params(
                MacFunction::AesCmac,
                "",
                vec![bytes("EE5691BF4BFD78FD55A87086A592A5B3"), Field::Iteration(Some(number(1)))],
            ),
            "54B3B5A2F578B50D89F1E7DB1A32A9BCBB96069DCEBCBA36B9AE9CEA1F56053C",
        ),
        // tcId 11
        (
            M::SP800_108_COUNTER_KDF,
            "951956AD105A4F772B8F25C8A681D92D",
            params(
                MacFunction::AesCmac,
                "",
                vec![Field::Iteration(Some(number(1))), bytes("C29F8BF900546D5959DF3AB416835F31")],
            ),
            "7668E606435D9D8011F25C55C50DEF6124196F88A5658DAAA81BE2C27C1AA646F5DF767D8ED6E0D84ED6DC1BF49839E61C42\
             C3F5E6533765BEC32069F6F81C5D",
        ),
        // tcId 2435
        (
            M::SP800_108_FEEDBACK_KDF,
            "A46140C4F6725512F32BCFE131822086",
            params(
                sha1,
                "931501DDBC7534A4E30175BCF341D2F26BECA5E1",
                vec![variable(), bytes("8F714B9A449461AB31AAE4C2E61AAE22"), Field::Counter(number(4))],
            ),
            "9E8D0653BF7E03E19431F5F6A4A64E7132C1DBDD554BB7BA7440056D884A21521392BCA1F50AE2867A00253A0B8F9004D8BB9E\
             44395B35E0C8CA33021C3DADB8E684B9BD74D38F9269B235CF0BC18E9AB68A295C14CC418E7B0F0B185331B8D4E493720F",
        ),
        // tcId 2449
        (
            M::SP800_108_FEEDBACK_KDF,
            "CB75C9125A1E3ACAEC2F2A25E7AFF92C",
            params(
                sha1,
                "",
                vec![variable(), Field::Counter(number(4)), bytes("EA0645BF27A9B0805794453EAD364CDE")],
            ),
            "AC099BCC9D7A8C4B4A9D3C28F0A4CFAD7CBE49FBB2F5FF92616A3C967732E27509C6E1229261D74682161E666192C0E4C171F7\
             306D01F262913B6C89F4FABF9557483E9EFBC4CB130502352D4B50C60B",
        ),
        // tcId 5953
        (
            M::SP800_108_DOUBLE_PIPELINE_KDF,
            "7CDA645BBBF2BA163B1DC487A1EB9C76",
            params(
                sha3,
                "",
                vec![variable(), Field::Counter(number(2)), bytes("ADF679152579E1DCBEF18B2C049B2E55")],
            ),
            "73F3180ECA461BC3C8EB11523F4869B8E4B71365B7A484A22B8DB4D37BEA7EE3EDA61D1DDA126C5B33F8FD11F641523EB126E4\
             F1FD5043784B98D2F5E007834F83A656E2C3BE84B2BF1DD007CA1194C86167A9D75C0317005399A31548E342D1",
        ),
        // tcId 5961
        (
            M::SP800_108_DOUBLE_PIPELINE_KDF,
            "BC626DB65EB56A621EA8595321D68284",
            params(
                sha3,
                "",
                vec![Field::Counter(number(2)), variable(), bytes("E391C59511159555A43983445689D165")],
            ),
            "30897ABA4B6DC270BE990D0409163CBF85E0A2DC42D635E1582B4ED528A0CBDA7A6E06871B524728821BFBF325B9E19EAA87C4\
             0181EFF9409E11E1CD0077FE28476BDE4B0FB2766AEBE460EAA1E927D0A106FC2FABB82DDEB8803D210F928A99",
        ),
    ];
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (id, key, params, known) in &cases {
            let known = hex(known);
            let key_type = match params {
                Params::Sp800_108 { prf: MacFunction::AesCmac, .. } => KeyType::AES,
                _ => KeyType::GENERIC_SECRET,
            };
            let key = base(&client, session, key_type, &hex(key));
            let got = value(&client, session, (*id, params.clone()), key, &sized(known.len()));
            assert_eq!(got, Ok(known), "{id}");
        }
    });
}

/// Returns the fields of the sample in the standard. If `segments` is true, the length field is the
/// sum of the segments' lengths. Otherwise it is the sum of the keys' lengths.
fn sample(segments: bool) -> Params {
    params(
        MacFunction::Hmac(Hash::Sha256),
        "",
        vec![
            Field::Iteration(Some(number(2))),
            bytes("deadbeef"),
            bytes("00"),
            bytes("feedbeef"),
            Field::Length { segments, number: number(2) },
        ],
    )
}

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
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = base(&client, session, KeyType::GENERIC_SECRET, &KEY);
        let label = none().label("derived");
        for (segments, first, second) in known {
            let mechanism = Mechanism { params: sample(segments), ..plain(M::SP800_108_COUNTER_KDF) };
            let template = sized(48).and(&shown()).and(&label);
            let other = sized(16).number(A::KEY_TYPE, KeyType::AES.0).and(&shown()).and(&label);
            let mut more = [Additional { template: other.template(), key: None }];
            let derived = client.module.derive(session, &mechanism, key, &template.template(), &mut more);
            let Ok(Derived::Key(made)) = derived else { panic!("a key") };
            assert_eq!(client.read(session, made, A::VALUE), Ok(hex(first)));
            let other = more[0].key.expect("a key");
            assert_eq!(client.read(session, other, A::VALUE), Ok(hex(second)));
            assert_eq!(client.number(session, other, A::KEY_TYPE), KeyType::AES.0);
            for handle in [made, other] {
                client.module.destroy_object(session, handle).expect("an object");
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
                let refused = client.module.derive(session, &mechanism, key, &template.template(), &mut more);
                assert_eq!(refused.err(), Some(error));
                assert_eq!(more.map(|more| more.key), [None, Some(ObjectHandle(0)), None]);
            }
            assert_eq!(client.find(session, &label), []);
        }
    });
}

#[test]
fn counters_have_either_byte_order_and_must_fit() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = base(&client, session, KeyType::GENERIC_SECRET, &KEY);
        let id = M::SP800_108_COUNTER_KDF;
        let little = Number { little_endian: true, len: 4 };
        let of = |iteration, length| {
            let length = Field::Length { segments: false, number: length };
            let fields = vec![Field::Iteration(Some(iteration)), bytes("aabb"), length];
            (id, params(MacFunction::Hmac(Hash::Sha256), "", fields))
        };
        // Python: hmac.new(bytes(range(32)), bytes.fromhex("01000000aabb00010000"), "sha256")
        let known = hex("e1666c8cccc74772a456e011a28e8e3943ec62b6bc8d9d76aedeb3a2fd7f4b2b");
        assert_eq!(value(&client, session, of(little, little), key, &sized(32)), Ok(known));
        // A field of one byte cannot hold 256. The first key has a length of 256 bits. The second
        // key needs 256 iterations.
        let refused = value(&client, session, of(little, number(1)), key, &sized(32));
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
        let long = value(&client, session, of(number(1), little), key, &sized(256 * 32));
        assert_eq!(long, Err(Error::KeySizeRange));
        value(&client, session, of(number(1), little), key, &sized(255 * 32)).expect("a key");
        assert_eq!(
            derive(&client, session, of(little, little), key, &none()),
            Err(Error::TemplateIncomplete)
        );
    });
}

#[test]
fn a_key_handle_is_a_data_field_of_the_kdf() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = base(&client, session, KeyType::GENERIC_SECRET, &KEY);
        let other = base(&client, session, KeyType::GENERIC_SECRET, &[0xaa, 0xbb]);
        let of = |field| {
            let fields = vec![Field::Iteration(Some(number(4))), field];
            (M::SP800_108_COUNTER_KDF, params(MacFunction::Hmac(Hash::Sha256), "", fields))
        };
        let with_bytes = value(&client, session, of(bytes("aabb")), key, &sized(40));
        assert_eq!(value(&client, session, of(Field::Key(other)), key, &sized(40)), with_bytes);
        client.set(session, other, &none().flag(A::DERIVE, false)).expect("a change");
        let refused = derive(&client, session, of(Field::Key(other)), key, &sized(40));
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
        let nothing = derive(&client, session, of(Field::Key(ObjectHandle(0))), key, &sized(40));
        assert_eq!(nothing, Err(Error::KeyHandleInvalid));
        let cmac = params(MacFunction::AesCmac, "", vec![Field::Iteration(Some(number(4)))]);
        let refused = derive(&client, session, (M::SP800_108_COUNTER_KDF, cmac), key, &sized(16));
        assert_eq!(refused, Err(Error::KeyTypeInconsistent));
    });
}

#[test]
fn protection_defaults_to_that_of_the_base_key() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (sensitive, extractable) in [(true, false), (false, true)] {
            let template = sized(32).flag(A::DERIVE, true);
            let template = template.flag(A::SENSITIVE, sensitive).flag(A::EXTRACTABLE, extractable);
            let generate = plain(M::GENERIC_SECRET_KEY_GEN);
            let key = client.module.generate_key(session, &generate, &template.template()).expect("a key");
            let read = |key| {
                [A::SENSITIVE, A::EXTRACTABLE, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE]
                    .map(|id| client.flag(session, key, id))
            };
            let mechanism = (M::SP800_108_COUNTER_KDF, sample(false));
            let made = derive(&client, session, mechanism.clone(), key, &sized(32)).expect("a key");
            assert_eq!(read(made), [sensitive, extractable, sensitive, !extractable]);
            // "can both be specified to be either CK_TRUE or CK_FALSE"
            let made = derive(&client, session, mechanism, key, &sized(32).and(&shown())).expect("a key");
            assert_eq!(read(made), [false, true, false, false]);
        }
    });
}
