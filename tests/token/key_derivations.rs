//! Attacks on unreadable keys by derivation and unwrapping: keys that are short enough to guess,
//! copies with more usages, keys without CKA_DERIVE.

use jeton::backend::{Hash, Provider};
use jeton::error::{Error, Result};
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::{HkdfSalt, MacFunction, Mechanism, Params};
use jeton::module::Output;
use jeton::object::template::{Given, Raw};
use serde_json::Value;

use crate::derive::{derive, shown, value};
use crate::keys::key_object;
use crate::support::{Attributes, Client, Directory, LABEL, PIN, SO_PIN, each_backend, none, plain, with_iv};

const SHA256: MacFunction = MacFunction::Hmac(Hash::Sha256);

fn secret(key_type: KeyType, len: u8) -> Attributes {
    let value: Vec<u8> = (1..=len).collect();
    key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, &value)
}

/// Creates an unreadable key with CKA_DERIVE.
fn closed(client: &Client, session: SessionHandle, key_type: KeyType, len: u8) -> ObjectHandle {
    let key = secret(key_type, len).flag(A::SENSITIVE, true).flag(A::DERIVE, true);
    client.create(session, &key).expect("a key")
}

/// Creates a key with a known value.
fn known(client: &Client, session: SessionHandle, len: u8) -> ObjectHandle {
    let key = secret(KeyType::GENERIC_SECRET, len).flag(A::DERIVE, true).and(&shown());
    client.create(session, &key).expect("a key")
}

fn derives() -> Attributes {
    none().flag(A::DERIVE, true)
}

fn data(bytes: &[u8]) -> Params {
    Params::Data(bytes.into())
}

fn len(len: u64) -> Attributes {
    none().number(A::VALUE_LEN, len)
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
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
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
    });
}

/// Finding M1 of docs/security.md: a key that may only verify was accepted as the salt key. The
/// derived key was the MAC of the base key under the salt key.
#[test]
fn hkdf_extract_with_a_salt_key_returns_no_readable_mac() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let message = known(&client, session, 32);
        let salt = |more: Attributes| {
            let key = secret(KeyType::GENERIC_SECRET, 40).flag(A::SIGN, false).and(&more);
            client.create(session, &key).expect("a key")
        };
        let extract = |salt| (M::HKDF_DERIVE, hkdf(true, false, HkdfSalt::Key(salt)));
        let verifies = salt(none().flag(A::DERIVE, false));
        let refused = derive(&client, session, extract(verifies), message, &none());
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
        for hidden in [none().flag(A::EXTRACTABLE, false), none().flag(A::SENSITIVE, true)] {
            let salt = salt(derives().and(&hidden));
            let refused = value(&client, session, extract(salt), message, &none());
            assert_eq!(refused, Err(Error::TemplateInconsistent));
            let mechanism = (M::HKDF_DATA, hkdf(true, false, HkdfSalt::Key(salt)));
            assert_eq!(
                derive(&client, session, mechanism, message, &len(32)),
                Err(Error::TemplateInconsistent)
            );
            let key = derive(&client, session, extract(salt), message, &none()).expect("a key");
            assert_eq!(client.read(session, key, A::VALUE), Err(Error::AttributeSensitive));
            // RFC 5869: the output of the expand step may be public.
            let mechanism = (M::HKDF_DERIVE, hkdf(true, true, HkdfSalt::Key(salt)));
            assert!(value(&client, session, mechanism, message, &len(32)).is_ok());
        }
    });
}

#[test]
fn no_derivation_shortens_a_key_to_a_guessable_length() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let unextractable = secret(KeyType::GENERIC_SECRET, 32).flag(A::EXTRACTABLE, false).and(&derives());
        let unextractable = client.create(session, &unextractable).expect("a key");
        for key in [
            closed(&client, session, KeyType::GENERIC_SECRET, 32),
            closed(&client, session, KeyType::AES, 32),
            unextractable,
        ] {
            let extract = |bit| (M::EXTRACT_KEY_FROM_KEY, Params::Bit(bit));
            let refused = |mechanism: (M, Params), template: &Attributes| {
                let id = mechanism.0;
                assert_eq!(
                    derive(&client, session, mechanism, key, template),
                    Err(Error::KeySizeRange),
                    "{id}"
                );
            };
            for short in [1, 8, 13, 15] {
                refused(extract(0), &len(short));
                refused((M::XOR_BASE_AND_DATA, data(&[0; 32])), &len(short));
                refused((M::XOR_BASE_AND_DATA, data(&vec![0; short as usize])), &none());
                refused((M::CONCATENATE_BASE_AND_DATA, data(&[0; 4])), &len(short));
                refused((M::CONCATENATE_DATA_AND_BASE, data(&[0; 4])), &len(short));
                refused((M::CONCATENATE_BASE_AND_KEY, Params::Key(key)), &len(short));
                // These two mechanisms do not inherit the protection. They refuse a short key only
                // if its template makes it unreadable.
                for hidden in [none().flag(A::SENSITIVE, true), none().flag(A::EXTRACTABLE, false)] {
                    let hidden = hidden.and(&len(short));
                    refused((M::SHA256_KEY_DERIVATION, Params::None), &hidden);
                    refused((M::HKDF_DERIVE, hkdf(true, true, HkdfSalt::Null)), &hidden);
                }
            }
            for half in [16, 24, 32] {
                assert!(derive(&client, session, extract(128), key, &len(half)).is_ok());
                let xor = (M::XOR_BASE_AND_DATA, data(&vec![0; half as usize]));
                assert!(derive(&client, session, xor, key, &none()).is_ok());
            }
        }
        // A key of 64 bytes is not shortened to a quarter.
        let long = closed(&client, session, KeyType::GENERIC_SECRET, 64);
        let extract = (M::EXTRACT_KEY_FROM_KEY, Params::Bit(0));
        assert_eq!(derive(&client, session, extract.clone(), long, &len(16)), Err(Error::KeySizeRange));
        assert!(derive(&client, session, extract.clone(), long, &len(32)).is_ok());
        // RFC 2409, appendix B: a shorter key consists of the first bytes of the base key.
        let generic = len(16).number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0);
        assert!(derive(&client, session, extended(None), long, &generic).is_ok());
        let refused = derive(&client, session, extended(None), long, &len(1));
        assert_eq!(refused, Err(Error::KeySizeRange));
        // A key that is derived from a readable key can have any length.
        let open = known(&client, session, 32);
        assert!(derive(&client, session, extract, open, &len(1)).is_ok());
    });
}

/// If 31 known bytes come before the key, a caller could otherwise cut out a part with one unknown
/// byte.
#[test]
fn known_bytes_joined_to_a_key_do_not_count_for_its_length() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
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
                let refused = derive(&client, session, cut, joined, &len(32));
                assert_eq!(refused, Err(Error::KeySizeRange), "{id}");
            }
            // The same holds after a copy, another derivation, or a rotation.
            let copy = client.copy(session, joined, &none()).expect("a copy");
            let xored = derive(&client, session, (M::XOR_BASE_AND_DATA, data(&[0; 63])), joined, &derives());
            let turned = (M::EXTRACT_KEY_FROM_KEY, Params::Bit(8));
            let turned = derive(&client, session, turned, joined, &derives().and(&len(63))).expect("a key");
            for key in [copy, xored.expect("a key"), turned] {
                let refused = derive(&client, session, extract.clone(), key, &len(32));
                assert_eq!(refused, Err(Error::KeySizeRange));
            }
            // Hashing the concatenation is its intended use.
            let hash = (M::SHA256_KEY_DERIVATION, Params::None);
            assert!(derive(&client, session, hash, joined, &none()).is_ok());
        }
        let given = key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &[1; 16]);
        let given = client.create(session, &given.number(A::JETON_COPIED, 1));
        assert_eq!(given, Err(Error::AttributeReadOnly));
    });
}

/// `CKM_XOR_BASE_AND_DATA` with zeros gives the key itself.
#[test]
fn a_derivation_that_copies_a_key_cannot_gain_a_usage() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let create = |more: Attributes| {
            let key = secret(KeyType::AES, 32).flag(A::DERIVE, true).flag(A::SENSITIVE, true).and(&more);
            client.create(session, &key).expect("a key")
        };
        let xor = |base, template: &Attributes| {
            let aes = template.clone().number(A::KEY_TYPE, KeyType::AES.0);
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
        let frozen =
            create(none().flag(A::DECRYPT, false).flag(A::MODIFIABLE, false).flag(A::COPYABLE, false));
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
        let refused_mode = client.module.encrypt_init(session, &plain(M::AES_CBC_PAD), key);
        assert_eq!(refused_mode, Err(Error::MechanismInvalid));
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
        let aes = none().number(A::KEY_TYPE, KeyType::AES.0).flag(A::DECRYPT, true);
        assert!(derive(&client, session, hash, wraps, &aes).is_ok());
    });
}

#[test]
fn the_template_attributes_of_a_key_apply_to_its_derived_copies() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let forced = none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
        let own = secret(KeyType::AES, 32).flag(A::SENSITIVE, true).and(&derives());
        let mut template = own.template();
        template.0.push(Given { id: A::UNWRAP_TEMPLATE, value: Raw::Template(forced.template()) });
        let by = client.module.create_object(session, &template).expect("a key");
        let aes = none().number(A::KEY_TYPE, KeyType::AES.0);
        let mechanism = (M::XOR_BASE_AND_DATA, data(&[0; 32]));
        let copy = derive(&client, session, mechanism, by, &aes).expect("a key");
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let key = client.create(session, &secret(KeyType::AES, 16).and(&shown())).expect("a key");
        let mut wrapped = [0; 24];
        client.module.wrap_key(session, &kwp, by, key, Output::Buffer(&mut wrapped)).expect("a key");
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES).flag(A::SENSITIVE, false);
        let refused = client.module.unwrap_key(session, &kwp, copy, &wrapped, &template.template());
        assert_eq!(refused, Err(Error::TemplateInconsistent));
    });
}

/// NIST SP 800-131A asks for 112 bits in a key of HMAC.
#[test]
fn a_short_sensitive_key_is_refused_for_macs_and_digests() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
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
                assert_eq!(module.sign_init(session, mechanism, key), answer, "C_SignInit");
                module.sign_cancel(session).expect("a session");
                assert_eq!(module.verify_init(session, mechanism, key), answer, "C_VerifyInit");
                module.verify_cancel(session).expect("a session");
                assert_eq!(module.message_sign_init(session, mechanism, key), answer, "C_MessageSignInit");
                module.message_sign_cancel(session).expect("a session");
                assert_eq!(
                    module.message_verify_init(session, mechanism, key),
                    answer,
                    "C_MessageVerifyInit"
                );
                module.message_verify_cancel(session).expect("a session");
                let tag = &[0; 32][..if mechanism == &general { 1 } else { 32 }];
                assert_eq!(module.verify_signature_init(session, mechanism, key, tag), answer);
                module.verify_signature_cancel(session).expect("a session");
            }
            module.digest_init(session, &plain(M::SHA256)).expect("an operation");
            assert_eq!(module.digest_key(session, key), answer, "C_DigestKey");
            module.digest_cancel(session).expect("a session");
            for mechanism in
                [(M::SHA256_KEY_DERIVATION, Params::None), (M::HKDF_DERIVE, hkdf(true, true, HkdfSalt::Null))]
            {
                assert_eq!(derive(&client, session, mechanism, key, &len(32)).map(drop), answer);
            }
        }
    });
}

#[test]
fn digest_key_checks_cka_derive_and_the_allowed_mechanisms() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let create =
            |more: Attributes| client.create(session, &secret(KeyType::AES, 32).and(&more)).expect("a key");
        let sensitive = none().flag(A::SENSITIVE, true);
        let digest = |key| {
            module.digest_init(session, &plain(M::SHA256)).expect("an operation");
            let outcome = module.digest_key(session, key);
            module.digest_cancel(session).expect("a session");
            outcome
        };
        assert_eq!(digest(create(sensitive.clone().and(&derives()))), Ok(()));
        assert_eq!(digest(create(none().flag(A::DERIVE, false))), Ok(()));
        let idle = create(sensitive.clone());
        assert_eq!(digest(idle), Err(Error::KeyIndigestible));
        let listed = create(none().number(A::ALLOWED_MECHANISMS, M::AES_ECB.0));
        assert_eq!(digest(listed), Err(Error::KeyIndigestible));
        let listed = create(none().number(A::ALLOWED_MECHANISMS, M::SHA256.0));
        assert_eq!(digest(listed), Ok(()));
    });
}

#[test]
fn unwrapping_does_not_shorten_a_key() {
    each_backend(|provider| {
        let client =
            Client::with(provider, ", mechanisms = { legacy = true }, policy = { raw-rsa-wrap = true }");
        let (module, session) = (&client.module, client.user());
        let aes = client.create(session, &secret(KeyType::AES, 32)).expect("a key");
        let des = client.module.generate_key(session, &plain(M::DES3_KEY_GEN), &none().template());
        let des = des.expect("a key");
        let (public, private) = crate::keys::pair(&client, session, crate::keys::Kind::Rsa, &none());
        let iv = |id, len| with_iv(id, &vec![3; len]);
        for (mechanism, by, back) in [
            (plain(M::AES_ECB), aes, aes),
            (iv(M::AES_CBC, 16), aes, aes),
            (plain(M::DES3_ECB), des, des),
            (iv(M::DES3_CBC, 8), des, des),
            (iv(M::AES_CBC_PAD, 16), aes, aes),
            (plain(M::AES_KEY_WRAP_KWP), aes, aes),
            (plain(M::RSA_X_509), public, private),
        ] {
            let id = mechanism.info.id;
            // With CBC padding, the length of the plaintext depends on the padding, which is not
            // authenticated. A wrong length therefore has the same error as a wrong padding.
            let refused = match id {
                M::AES_CBC_PAD => Err(Error::WrappedKeyInvalid),
                _ => Err(Error::TemplateInconsistent),
            };
            for len in [20u8, 32] {
                let key = secret(KeyType::GENERIC_SECRET, len).and(&shown());
                let key = client.create(session, &key).expect("a key");
                let mut wrapped = vec![0; 512];
                let out = Output::Buffer(&mut wrapped);
                let written = module.wrap_key(session, &mechanism, by, key, out).expect("a wrapped key");
                let unwrap = |len: u8| {
                    let template = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET)
                        .number(A::VALUE_LEN, len.into())
                        .flag(A::SENSITIVE, false);
                    module.unwrap_key(session, &mechanism, back, &wrapped[..written], &template.template())
                };
                for cut in [1, 8, 15, 16, len - 1] {
                    assert_eq!(unwrap(cut), refused, "{id} {len} to {cut}");
                }
                let key = unwrap(len).expect("a key");
                assert_eq!(client.number(session, key, A::VALUE_LEN), u64::from(len), "{id}");
            }
        }
    });
}

#[test]
fn the_audit_log_names_every_key_of_a_derivation() {
    each_backend(|provider: &Provider| {
        let directory = Directory::new();
        let file = directory.path().join("audit.jsonl");
        let configuration = format!(", audit = {{ file = '{}' }}", file.display());
        let client = Client::beside(&directory, provider, &configuration);
        client.module.init_token(client.slot, SO_PIN, LABEL).expect("a token");
        let session = client.open();
        client.module.login(session, jeton::module::User::SecurityOfficer, SO_PIN).expect("the SO");
        client.module.init_pin(session, PIN).expect("a PIN");
        client.module.logout(session).expect("the SO");
        client.login(session);
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
        client.module.finalize().expect("a module");
        let text = std::fs::read_to_string(&file).expect("an audit log");
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let derivations: Vec<_> = records.filter(|record| record["function"] == "C_DeriveKey").collect();
        assert_eq!(derivations.len(), calls);
        for (at, record) in derivations.iter().enumerate() {
            let wanted = &names[at / (calls / 2)];
            let objects = record["objects"].as_array().expect("names");
            assert!(objects.iter().any(|name| name == wanted.as_str()), "{record}");
        }
    });
}
