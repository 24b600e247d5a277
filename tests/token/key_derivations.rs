//! Attacks on unreadable keys by derivation and unwrapping: keys that are short enough to guess,
//! copies with more usages, keys without CKA_DERIVE.

use serde_json::Value;

use crate::audit::audits;
use crate::derive::derive;
use crate::guards::{derives, digests, len};
use crate::prelude::*;

const SHA256: MacFunction = MacFunction::Hmac(Hash::Sha256);

fn secret(key_type: KeyType, len: u8) -> Attributes {
    let value: Vec<u8> = (1..=len).collect();
    key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, &value)
}

fn closed(client: &Client, session: SessionHandle, key_type: KeyType, len: u8) -> ObjectHandle {
    let key = secret(key_type, len).flag(A::SENSITIVE, true).flag(A::DERIVE, true);
    client.create(session, &key).expect("a key")
}

fn known(client: &Client, session: SessionHandle, len: u8) -> ObjectHandle {
    let key = secret(KeyType::GENERIC_SECRET, len).flag(A::DERIVE, true).and(&shown());
    client.create(session, &key).expect("a key")
}

fn data(bytes: &[u8]) -> Params {
    Params::Data(bytes.into())
}

fn extended(shared: Option<ObjectHandle>) -> (M, Params) {
    (M::IKE1_EXTENDED_DERIVE, Params::Ike1Extended { prf: SHA256, shared, extra: Box::default() })
}

fn hkdf(extract: bool, expand: bool, salt: HkdfSalt) -> Params {
    Params::Hkdf { extract, expand, hash: Hash::Sha256, salt, info: Box::default() }
}

/// Returns derivations whose parameter contains the handle `other`: at least one for each parameter
/// type that can contain the handle of a key.
fn with_other(other: ObjectHandle) -> Vec<(M, Params)> {
    use jeton::mechanism::sp800_108::{Field, Number};
    let counter = Field::Iteration(Some(Number { little_endian: false, len: 4 }));
    let fields = vec![counter, Field::Key(other)];
    let (nonces, cookies) = (vec![1; 32].into_boxed_slice(), vec![2; 16].into_boxed_slice());
    vec![
        (M::CONCATENATE_BASE_AND_KEY, Params::Key(other)),
        (M::HKDF_DERIVE, hkdf(true, true, HkdfSalt::Key(other))),
        (M::HKDF_DERIVE, hkdf(true, false, HkdfSalt::Key(other))),
        (M::HKDF_DATA, hkdf(true, true, HkdfSalt::Key(other))),
        (M::SP800_108_COUNTER_KDF, Params::Sp800_108 { prf: SHA256, fields, iv: Box::default() }),
        (M::IKE_PRF_DERIVE, Params::IkePrf { prf: SHA256, data_as_key: false, nonces, new_key: Some(other) }),
        (
            M::IKE1_PRF_DERIVE,
            Params::Ike1Prf { prf: SHA256, shared: other, previous: None, cookies, number: 0 },
        ),
        extended(Some(other)),
        (
            M::IKE2_PRF_PLUS_DERIVE,
            Params::Ike2PrfPlus { prf: SHA256, seed_key: Some(other), seed: Box::default() },
        ),
    ]
}

/// Derives with a template that is valid for the mechanism. A concatenation keeps its full length.
fn derived(
    client: &Client,
    session: SessionHandle,
    mechanism: (M, Params),
    base: ObjectHandle,
) -> Result<ObjectHandle> {
    let template = match mechanism.0 {
        M::CONCATENATE_BASE_AND_KEY => none(),
        M::HKDF_DATA => len(32),
        _ => len(32).number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0),
    };
    derive(client, session, mechanism, base, &template)
}

#[test]
fn a_key_in_a_mechanism_parameter_follows_the_rules_of_the_base_key() {
    let (client, session) = one_user();
    let base = known(&client, session, 32);
    let create = |more: Attributes| {
        let key = secret(KeyType::GENERIC_SECRET, 32).and(&shown()).and(&more);
        client.create(session, &key).expect("a key")
    };
    let yes = none().flag(A::DERIVE, true);
    let only = |id: M| yes.clone().number(A::ALLOWED_MECHANISMS, id.0);
    for mechanism in with_other(create(yes.clone())) {
        assert!(derived(&client, session, mechanism.clone(), base).is_ok(), "{}", mechanism.0);
    }
    let count = with_other(base).len();
    for at in 0..count {
        let id = with_other(base)[at].0;
        let answer = |other| derived(&client, session, with_other(other)[at].clone(), base).map(drop);
        let refused = Err(Error::KeyFunctionNotPermitted);
        assert_eq!(answer(create(none().flag(A::DERIVE, false))), refused, "{id}");
        assert_eq!(answer(create(only(M::SHA256_HMAC))), Err(Error::MechanismInvalid), "{id}");
        assert_eq!(answer(create(only(id))), Ok(()), "{id}");
        assert_eq!(answer(ObjectHandle(0)), Err(Error::KeyHandleInvalid), "{id}");
    }
}

/// The attacks "Review, C3" find keys that a derivation shortened. Here are the limits.
#[test]
fn no_derivation_cuts_an_unreadable_key() {
    let (client, session) = one_user();
    let extract = |bit| (M::EXTRACT_KEY_FROM_KEY, Params::Bit(bit));
    let unextractable = secret(KeyType::GENERIC_SECRET, 32).flag(A::EXTRACTABLE, false).and(&derives());
    let unextractable = client.create(session, &unextractable).expect("a key");
    for key in [closed(&client, session, KeyType::AES, 32), unextractable] {
        let xor = |len| (M::XOR_BASE_AND_DATA, data(&vec![0; len]));
        let made = |mechanism, template| derive(&client, session, mechanism, key, &template).map(drop);
        assert_eq!(made(extract(0), len(15)), Err(Error::KeySizeRange));
        assert_eq!(made(xor(15), none()), Err(Error::KeySizeRange));
        // These two mechanisms do not inherit the protection. They refuse a short key only if
        // its template makes it unreadable.
        for hidden in [none().flag(A::SENSITIVE, true), none().flag(A::EXTRACTABLE, false)] {
            let hidden = hidden.and(&len(13));
            let hash = (M::SHA256_KEY_DERIVATION, Params::None);
            assert_eq!(made(hash, hidden.clone()), Err(Error::KeySizeRange));
            let hkdf = (M::HKDF_DERIVE, hkdf(true, true, HkdfSalt::Null));
            assert_eq!(made(hkdf, hidden), Err(Error::KeySizeRange));
        }
        for part in [16, 24, 31] {
            assert_eq!(made(extract(0), len(part)), Err(Error::KeySizeRange));
            assert_eq!(made(xor(part as usize), none()), Err(Error::KeySizeRange));
        }
        assert_eq!(made(extract(0), len(32)), Ok(()));
        assert_eq!(made(xor(32), none()), Ok(()));
    }
    let long = closed(&client, session, KeyType::GENERIC_SECRET, 64);
    let open = known(&client, session, 32);
    // RFC 2409, appendix B: a shorter key consists of the first bytes of the base key.
    let generic = |bytes| len(bytes).number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0);
    for (mechanism, key, template, answer) in [
        (extract(0), long, len(16), Err(Error::KeySizeRange)),
        (extract(0), long, len(64), Ok(())),
        (extended(None), long, generic(16), Ok(())),
        (extended(None), long, generic(1), Err(Error::KeySizeRange)),
        // A key that is derived from a readable key can have any length.
        (extract(0), open, len(1), Ok(())),
    ] {
        assert_eq!(derive(&client, session, mechanism, key, &template).map(drop), answer);
    }
}

/// If 31 known bytes come before the key, a caller could otherwise cut out a part with one unknown
/// byte.
#[test]
fn known_bytes_joined_to_a_key_do_not_count_for_its_length() {
    let (client, session) = one_user();
    let key = closed(&client, session, KeyType::AES, 32);
    let open = known(&client, session, 31);
    let sensitive = closed(&client, session, KeyType::GENERIC_SECRET, 31);
    let extract = (M::EXTRACT_KEY_FROM_KEY, Params::Bit(0));
    let aes = |len: u64| none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, len);
    let prefix = (M::CONCATENATE_DATA_AND_BASE, data(&[0; 31]));
    for (mechanism, base) in [
        (prefix.clone(), key),
        ((M::CONCATENATE_BASE_AND_KEY, Params::Key(key)), open),
        // The creator of an imported sensitive key knows its value.
        ((M::CONCATENATE_BASE_AND_KEY, Params::Key(key)), sensitive),
    ] {
        assert_eq!(derive(&client, session, mechanism.clone(), base, &aes(32)), Err(Error::KeySizeRange));
        let joined = derive(&client, session, mechanism.clone(), base, &derives()).expect("a key");
        for cut in [extract.clone(), extended(None), (M::XOR_BASE_AND_DATA, data(&[0; 32]))] {
            let id = cut.0;
            assert_eq!(derive(&client, session, cut, joined, &len(32)), Err(Error::KeySizeRange), "{id}");
        }
        // The same holds after a copy or another derivation.
        let copy = client.copy(session, joined, &none()).expect("a copy");
        let xored = derive(&client, session, (M::XOR_BASE_AND_DATA, data(&[0; 63])), joined, &derives());
        for key in [copy, xored.expect("a key")] {
            assert_eq!(derive(&client, session, extract.clone(), key, &len(32)), Err(Error::KeySizeRange));
        }
        // Hashing the concatenation is its intended use.
        let hash = (M::SHA256_KEY_DERIVATION, Params::None);
        assert!(derive(&client, session, hash, joined, &none()).is_ok());
    }
    let given = key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &[1; 16]);
    assert_eq!(client.create(session, &given.number(A::JETON_COPIED, 1)), Err(Error::AttributeReadOnly));
}

/// `CKM_XOR_BASE_AND_DATA` with zeros gives the key itself.
#[test]
fn a_derivation_that_copies_a_key_cannot_gain_a_usage() {
    let (client, session) = one_user();
    let create = |more: Attributes| {
        let key = secret(KeyType::AES, 32).flag(A::DERIVE, true).flag(A::SENSITIVE, true).and(&more);
        client.create(session, &key).expect("a key")
    };
    let xor = |base, template: &Attributes| {
        let aes = len(32).number(A::KEY_TYPE, KeyType::AES.0).and(template);
        derive(&client, session, (M::XOR_BASE_AND_DATA, data(&[0; 32])), base, &aes)
    };
    let refused = |base, template: Attributes| {
        assert_eq!(xor(base, &template), Err(Error::TemplateInconsistent));
    };
    let wraps = create(none().flag(A::DECRYPT, false).flag(A::ENCRYPT, false));
    refused(wraps, none().flag(A::DECRYPT, true));
    let key = xor(wraps, &none()).expect("a key");
    assert!(!client.flag(session, key, A::DECRYPT) && !client.flag(session, key, A::ENCRYPT));
    assert!(client.flag(session, key, A::WRAP));
    let frozen = create(none().flag(A::DECRYPT, false).flag(A::MODIFIABLE, false).flag(A::COPYABLE, false));
    refused(frozen, none().flag(A::MODIFIABLE, true));
    refused(frozen, none().flag(A::COPYABLE, true));
    let key = xor(frozen, &none()).expect("a key");
    assert_eq!(client.set(session, key, &none().flag(A::DECRYPT, true)), Err(Error::ActionProhibited));
    let private = create(none());
    refused(private, none().flag(A::PRIVATE, false));
    let trusted_alone = create(none().flag(A::WRAP_WITH_TRUSTED, true).flag(A::EXTRACTABLE, true));
    refused(trusted_alone, none().flag(A::WRAP_WITH_TRUSTED, false));
    let key = xor(trusted_alone, &none()).expect("a key");
    assert!(client.flag(session, key, A::WRAP_WITH_TRUSTED));

    let both = [M::XOR_BASE_AND_DATA, M::AES_ECB];
    let native = |ids: &[M]| -> Vec<u8> {
        ids.iter().flat_map(|id| none().number(A::ID, id.0).value(A::ID).to_vec()).collect()
    };
    let listed = create(none().bytes(A::ALLOWED_MECHANISMS, &native(&both)));
    let key = xor(listed, &none()).expect("a key");
    assert_eq!(client.read(session, key, A::ALLOWED_MECHANISMS), Ok(native(&both)));
    assert_eq!(client.encrypt_init(session, &plain(M::AES_CBC_PAD), key), Err(Error::MechanismInvalid));
    let some = none().bytes(A::ALLOWED_MECHANISMS, &native(&[M::AES_ECB, M::AES_GCM]));
    let key = xor(listed, &some).expect("a key");
    assert_eq!(client.read(session, key, A::ALLOWED_MECHANISMS), Ok(native(&[M::AES_ECB])));
    refused(listed, none().bytes(A::ALLOWED_MECHANISMS, &native(&[M::AES_GCM])));

    // A generic secret, which cannot encrypt, may become a key that can.
    let generic = closed(&client, session, KeyType::GENERIC_SECRET, 32);
    let key = xor(generic, &none().flag(A::ENCRYPT, true)).expect("a key");
    assert!(client.flag(session, key, A::ENCRYPT));
    // A derivation by hash makes another key, which may have other usages.
    let hash = (M::SHA256_KEY_DERIVATION, Params::None);
    let aes = len(32).number(A::KEY_TYPE, KeyType::AES.0).flag(A::DECRYPT, true);
    assert!(derive(&client, session, hash, wraps, &aes).is_ok());
}

#[test]
fn the_template_attributes_of_a_key_apply_to_its_derived_copies() {
    let (client, session) = one_user();
    let forced = none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
    let own = secret(KeyType::AES, 32).flag(A::SENSITIVE, true).and(&derives());
    let by = client.create_with(session, &own, A::UNWRAP_TEMPLATE, &forced).expect("a key");
    let aes = len(32).number(A::KEY_TYPE, KeyType::AES.0);
    let mechanism = (M::XOR_BASE_AND_DATA, data(&[0; 32]));
    let copy = derive(&client, session, mechanism, by, &aes).expect("a key");
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    let key = client.create(session, &secret(KeyType::AES, 16).and(&shown())).expect("a key");
    let wrapped = client.wrap(session, &kwp, by, key).expect("a wrapped key");
    let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES).flag(A::SENSITIVE, false);
    assert_eq!(client.unwrap(session, &kwp, copy, &wrapped, &template), Err(Error::TemplateInconsistent));
}

/// NIST SP 800-131A asks for 112 bits in a key of HMAC.
#[test]
fn a_short_sensitive_key_is_refused_for_macs_and_digests() {
    let (client, session) = one_user();
    let general = Mechanism { params: Params::Length(1), ..plain(M::SHA256_HMAC_GENERAL) };
    let create = |len, more: &Attributes| {
        let key = secret(KeyType::GENERIC_SECRET, len).flag(A::DERIVE, true).and(more);
        client.create(session, &key).expect("a key")
    };
    let sensitive = none().flag(A::SENSITIVE, true);
    for (key, answer) in [
        (create(1, &sensitive), Err(Error::KeySizeRange)),
        (create(13, &sensitive), Err(Error::KeySizeRange)),
        (create(14, &sensitive), Ok(())),
        (create(1, &none()), Ok(())),
        (create(1, &shown()), Ok(())),
    ] {
        for mechanism in [&general, &plain(M::SHA256_HMAC), &plain(M::SHA3_256_HMAC)] {
            let tag = &[0; 32][..if mechanism == &general { 1 } else { 32 }];
            let functions: [&dyn Fn() -> Result<()>; 5] = [
                &|| client.sign_init(session, mechanism, key),
                &|| client.verify_init(session, mechanism, key),
                &|| client.message_sign_init(session, mechanism, key),
                &|| client.message_verify_init(session, mechanism, key),
                &|| client.verify_signature_init(session, mechanism, key, tag),
            ];
            for (at, begin) in functions.iter().enumerate() {
                assert_eq!(begin(), answer, "function {at}");
                client.cancel(session, u64::MAX).expect("a session");
            }
        }
        assert_eq!(digests(&client, session, key), answer, "C_DigestKey");
        for mechanism in
            [(M::SHA256_KEY_DERIVATION, Params::None), (M::HKDF_DERIVE, hkdf(true, true, HkdfSalt::Null))]
        {
            assert_eq!(derive(&client, session, mechanism, key, &len(32)).map(drop), answer);
        }
    }
}

#[test]
fn digest_key_checks_cka_derive_and_the_allowed_mechanisms() {
    let (client, session) = one_user();
    let create =
        |more: Attributes| client.create(session, &secret(KeyType::AES, 32).and(&more)).expect("a key");
    let sensitive = none().flag(A::SENSITIVE, true);
    let digest = |key| digests(&client, session, key);
    assert_eq!(digest(create(sensitive.clone().and(&derives()))), Ok(()));
    assert_eq!(digest(create(none().flag(A::DERIVE, false))), Ok(()));
    let idle = create(sensitive.clone());
    assert_eq!(digest(idle), Err(Error::KeyIndigestible));
    let listed = create(none().number(A::ALLOWED_MECHANISMS, M::AES_ECB.0));
    assert_eq!(digest(listed), Err(Error::KeyIndigestible));
    let listed = create(none().number(A::ALLOWED_MECHANISMS, M::SHA256.0));
    assert_eq!(digest(listed), Ok(()));
}

#[test]
fn the_audit_log_names_every_key_of_a_derivation() {
    let directory = Directory::new();
    let file = directory.path().join("audit.jsonl");
    let client = Client::initialise(&directory, DEFAULT, &audits(&file));
    let session = client.user();
    let base = known(&client, session, 32);
    let other = closed(&client, session, KeyType::GENERIC_SECRET, 32);
    let idle = client.create(session, &secret(KeyType::AES, 32).flag(A::DERIVE, false)).expect("a key");
    let name = |key| client.read(session, key, A::UNIQUE_ID).expect("an identifier");
    let names = [other, idle].map(|key| String::from_utf8(name(key)).expect("an identifier"));
    let mut calls = 0;
    for key in [other, idle] {
        for mechanism in with_other(key) {
            let _ = derived(&client, session, mechanism, base);
            calls += 1;
        }
    }
    client.finalize().expect("a module");
    let text = std::fs::read_to_string(&file).expect("an audit log");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let derivations: Vec<_> = records.filter(|record| record["function"] == "C_DeriveKey").collect();
    assert_eq!(derivations.len(), calls);
    for (at, record) in derivations.iter().enumerate() {
        let wanted = &names[at / (calls / 2)];
        let objects = record["objects"].as_array().expect("names");
        assert!(objects.iter().any(|name| name == wanted.as_str()), "{record}");
    }
}
