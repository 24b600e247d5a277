//! TLS: the objects of a connection, the protection of their keys, and the mechanisms that the
//! conformance suite does not have. The known answers are in
//! `conformance/src/mechanisms/protocols.rs`.

use jeton::functions::Derived;
use jeton::mechanism::tls::{Randoms, TlsPrf};

use crate::derive::{base, derive, value};
use crate::prelude::*;

/// The mechanisms with a test here that the conformance suite does not have.
pub const COVERED: [M; 3] = [M::TLS_PRF, M::SSL3_PRE_MASTER_KEY_GEN, M::TLS_PRE_MASTER_KEY_GEN];

const SHA256: TlsPrf = TlsPrf::Hash(Hash::Sha256);

fn bytes(from: u8, to: u8) -> Vec<u8> {
    (from..to).collect()
}

fn randoms() -> Randoms {
    Randoms { client: bytes(0, 32).into(), server: bytes(32, 64).into() }
}

fn pre_master() -> Vec<u8> {
    [vec![3, 3], bytes(0, 46)].concat()
}

fn secret(client: &Client, session: SessionHandle, value: &[u8]) -> ObjectHandle {
    base(client, session, KeyType::GENERIC_SECRET, value)
}

fn run(
    client: &Client,
    session: SessionHandle,
    (id, params): (M, Params),
    key: ObjectHandle,
    template: &Attributes,
) -> Result<Derived, Error> {
    let mechanism = Mechanism { params, ..plain(id) };
    client.derive(session, &mechanism, key, &template.template(), &mut [])
}

fn master() -> Params {
    Params::TlsMaster { prf: SHA256, randoms: randoms() }
}

fn keys(mac_len: usize, iv_len: usize) -> (M, Params) {
    let params = Params::TlsKeys { prf: SHA256, randoms: randoms(), mac_len, key_len: 16, iv_len };
    (M::TLS12_KEY_AND_MAC_DERIVE, params)
}

#[test]
fn a_master_secret_has_48_bytes_and_one_type() {
    let (client, session) = one_user();
    let [whole, short] = [&pre_master()[..], &pre_master()[1..]].map(|pre| secret(&client, session, pre));
    let aes = base(&client, session, KeyType::AES, &[1; 32]);
    let generic = none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0).number(A::VALUE_LEN, 48);
    for (key, template, answer) in [
        // "these facts are all implicit in the mechanism, there is no need to specify any of
        // them"
        (whole, none(), Ok(())),
        (whole, generic, Ok(())),
        (whole, none().number(A::KEY_TYPE, KeyType::SHA256_HMAC.0), Err(Error::TemplateInconsistent)),
        (whole, none().number(A::VALUE_LEN, 49), Err(Error::TemplateInconsistent)),
        (short, none(), Err(Error::KeySizeRange)),
        (aes, none(), Err(Error::KeyTypeInconsistent)),
    ] {
        let extended = Params::TlsExtendedMaster { prf: SHA256, session_hash: bytes(0, 32).into() };
        for mechanism in
            [(M::TLS12_MASTER_KEY_DERIVE, master()), (M::TLS12_EXTENDED_MASTER_KEY_DERIVE, extended)]
        {
            assert_eq!(derive(&client, session, mechanism, key, &template).map(drop), answer);
        }
    }
    // A key of TLS_KDF has the length of the template and the protection of the master secret.
    let (label, context) = (Box::from(*b"label"), None);
    let kdf = (M::TLS_KDF, Params::TlsKdf { prf: SHA256, label, randoms: randoms(), context });
    assert_eq!(derive(&client, session, kdf.clone(), whole, &none()), Err(Error::TemplateIncomplete));
    client.set(session, whole, &none().flag(A::SENSITIVE, true)).expect("a change");
    let refused = value(&client, session, kdf, whole, &none().number(A::VALUE_LEN, 40));
    assert_eq!(refused, Err(Error::TemplateInconsistent));
}

#[test]
fn each_key_of_a_connection_has_the_usages_of_its_purpose() {
    let (client, session) = one_user();
    let master = secret(&client, session, &[7; 48]);
    let aes = none().number(A::KEY_TYPE, KeyType::AES.0).label("a key");
    let connect = |mac_len| match run(&client, session, keys(mac_len, 4), master, &aes) {
        Ok(Derived::Connection(made)) => made,
        _ => panic!("a connection"),
    };
    let made = connect(32);
    for (keys, key_type, usages, label) in [
        (made.keys, KeyType::AES, &[A::ENCRYPT, A::DECRYPT, A::DERIVE][..], &b"a key"[..]),
        (made.macs, KeyType::GENERIC_SECRET, &[A::SIGN, A::VERIFY], b""),
    ] {
        for key in keys.expect("keys") {
            assert_eq!(client.number(session, key, A::KEY_TYPE), key_type.0);
            assert!(usages.iter().all(|id| client.flag(session, key, *id)));
            assert_eq!(client.read(session, key, A::LABEL).as_deref(), Ok(label));
        }
    }
    // An authenticated cipher needs no MAC keys.
    assert!(connect(0).macs.is_none());
}

/// The version of a pre-master secret is its first two bytes. A rotation can move any two bytes
/// there.
#[test]
fn a_copy_of_an_unreadable_key_returns_no_version() {
    let (client, session) = one_user();
    let hidden = none().flag(A::SENSITIVE, true).flag(A::DERIVE, true).bytes(A::VALUE, &pre_master());
    let hidden = hidden.and(&key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET));
    let hidden = client.create(session, &hidden).expect("a key");
    let extended = Params::TlsExtendedMaster { prf: SHA256, session_hash: bytes(0, 32).into() };
    let extract = (M::EXTRACT_KEY_FROM_KEY, Params::Bit(0));
    let xor = (M::XOR_BASE_AND_DATA, Params::Data([0; 48].into()));
    for copying in [extract, xor] {
        let length = none().number(A::VALUE_LEN, 48);
        let template = if copying.0 == M::EXTRACT_KEY_FROM_KEY { length } else { none() };
        let template = template.flag(A::DERIVE, true);
        let copy = derive(&client, session, copying, hidden, &template).expect("a key");
        for mechanism in
            [(M::TLS12_MASTER_KEY_DERIVE, master()), (M::TLS12_EXTENDED_MASTER_KEY_DERIVE, extended.clone())]
        {
            assert_eq!(derive(&client, session, mechanism, copy, &none()), Err(Error::KeyTypeInconsistent));
        }
    }
}

#[test]
fn a_tls12_master_secret_derives_only_its_keys() {
    let (client, session) = one_user();
    let pre = secret(&client, session, &pre_master());
    let mechanism = (M::TLS12_MASTER_KEY_DERIVE, master());
    let master =
        derive(&client, session, mechanism.clone(), pre, &none().flag(A::DERIVE, true)).expect("a key");
    let hash = (M::SHA256_KEY_DERIVATION, Params::None);
    assert_eq!(derive(&client, session, hash, master, &none()), Err(Error::MechanismInvalid));
    let finished = Params::TlsMac { prf: SHA256, len: 12, server: true };
    let finished = Mechanism { params: finished, ..plain(M::TLS_MAC) };
    client.sign(session, &finished, master, b"hash").expect("a code");
    let more = none().bytes(A::ALLOWED_MECHANISMS, &M::SHA256_HMAC.0.to_ne_bytes());
    assert_eq!(derive(&client, session, mechanism, pre, &more), Err(Error::TemplateInconsistent));
}

#[test]
fn connection_keys_inherit_the_protection_of_the_master_secret() {
    let keys = || keys(20, 4);
    let (client, session) = one_user();
    let aes = none().number(A::KEY_TYPE, KeyType::AES.0).label("connection");
    for (sensitive, extractable) in [(true, false), (false, true)] {
        let template = none()
            .number(A::VALUE_LEN, 48)
            .flag(A::DERIVE, true)
            .flag(A::SENSITIVE, sensitive)
            .flag(A::EXTRACTABLE, extractable);
        let generate = plain(M::GENERIC_SECRET_KEY_GEN);
        let master = client.module.generate_key(session, &generate, &template.template());
        let master = master.expect("a key");
        let Ok(Derived::Connection(made)) = run(&client, session, keys(), master, &aes) else {
            panic!("a connection")
        };
        for key in [made.macs, made.keys].into_iter().flatten().flatten() {
            let read = [A::SENSITIVE, A::EXTRACTABLE, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE]
                .map(|id| client.flag(session, key, id));
            assert_eq!(read, [sensitive, extractable, sensitive, !extractable]);
            client.destroy_object(session, key).expect("an object");
        }
        for wrong in [
            aes.clone().flag(A::SENSITIVE, !sensitive),
            aes.clone().flag(A::EXTRACTABLE, !extractable),
            aes.clone().number(A::VALUE_LEN, 32),
        ] {
            let refused = run(&client, session, keys(), master, &wrong).err();
            assert_eq!(refused, Some(Error::TemplateInconsistent));
        }
        let xts = none().number(A::KEY_TYPE, KeyType::AES_XTS.0).label("connection");
        // No key of a connection has 32 bytes, and no unreadable one has a type that reads halves.
        let refusal = if sensitive { Error::TemplateInconsistent } else { Error::KeySizeRange };
        assert_eq!(run(&client, session, keys(), master, &xts).err(), Some(refusal));
    }
    // "none of the four keys will be created"
    assert_eq!(client.find(session, &none().number(A::VALUE_LEN, 20)), []);
    assert_eq!(client.find(session, &none().label("connection")), []);
    let short = secret(&client, session, &[1; 47]);
    assert_eq!(run(&client, session, keys(), short, &aes).err(), Some(Error::KeySizeRange));
}

#[test]
fn the_tls_prf_returns_as_many_bytes_as_the_caller_asks_for() {
    each_user(|client, session| {
        // prf10(bytes(range(47)), b"label", b"seed", 21)
        let key = secret(client, session, &bytes(0, 47));
        let (seed, label) = (Box::from(*b"seed"), Box::from(*b"label"));
        let mechanism = (M::TLS_PRF, Params::TlsPrf { seed, label, len: 21 });
        let Ok(Derived::Output(output)) = run(client, session, mechanism, key, &none()) else {
            panic!("bytes")
        };
        assert_eq!(output[..], hex("d3ac09c2c758a412f0701c8b70dc0c4012edf86618"));
        // The same through C_Sign, in a buffer of any length.
        let general = plain(M::TLS_PRF_GENERAL);
        client.sign_init(session, &general, key).expect("an operation");
        let mut signed = [0; 21];
        assert_eq!(client.module.sign(session, b"labelseed", Output::Buffer(&mut signed)), Ok(21));
        assert_eq!(signed[..], output[..]);
        assert_eq!(client.verify(session, &general, key, b"labelseed", &output[..20]), Ok(()));
    });
}

#[test]
fn a_pre_master_secret_begins_with_the_version() {
    let (client, session) = one_user();
    for id in [M::SSL3_PRE_MASTER_KEY_GEN, M::TLS_PRE_MASTER_KEY_GEN] {
        let make = |template: &Attributes| {
            let mechanism = Mechanism { params: Params::Version([3, 2]), ..plain(id) };
            client.module.generate_key(session, &mechanism, &template.template())
        };
        let keys = [(); 2].map(|()| make(&shown()).expect("a key"));
        let values = keys.map(|key| client.read(session, key, A::VALUE).expect("a value"));
        assert!(values.iter().all(|value| value.len() == 48 && value[..2] == [3, 2]));
        assert_ne!(values[0], values[1]);
        make(&none().number(A::VALUE_LEN, 48)).expect("a key");
        let wrong = [none().number(A::VALUE_LEN, 47), none().number(A::KEY_TYPE, KeyType::AES.0)];
        for wrong in wrong {
            assert_eq!(make(&wrong), Err(Error::TemplateInconsistent));
        }
    }
}
