//! Tests of the policy *cnsa2*. `src/config/cnsa2.rs` has its rules.

use jeton::id::mechanism_flag as does;
use jeton::id::value::{ML_DSA_87, ML_KEM_1024};
use jeton::mechanism::password::Password;

use crate::prelude::*;
use crate::samples::samples;
use crate::stateful;

const CNSA2: &str = ", mechanisms = { legacy = true }, policy = { name = 'cnsa2' }";

fn client() -> (Client, SessionHandle) {
    let client = Client::with(DEFAULT, CNSA2);
    let session = client.user();
    (client, session)
}

/// The mechanisms that are left. The table of `docs/policies.md` has them too.
#[test]
fn only_the_mechanisms_of_the_suite_are_offered() {
    let (client, _) = client();
    let expected = [
        M::ML_KEM_KEY_PAIR_GEN,
        M::ML_KEM,
        M::ML_DSA_KEY_PAIR_GEN,
        M::ML_DSA,
        M::SHA384,
        M::SHA384_HMAC,
        M::SHA384_HMAC_GENERAL,
        M::SHA512,
        M::SHA512_HMAC,
        M::SHA512_HMAC_GENERAL,
        M::GENERIC_SECRET_KEY_GEN,
        M::SHA384_KEY_DERIVATION,
        M::SHA512_KEY_DERIVATION,
        M::PKCS5_PBKD2,
        M::SP800_108_COUNTER_KDF,
        M::SP800_108_FEEDBACK_KDF,
        M::SP800_108_DOUBLE_PIPELINE_KDF,
        M::IKE2_PRF_PLUS_DERIVE,
        M::IKE_PRF_DERIVE,
        M::AES_XTS,
        M::AES_XTS_KEY_GEN,
        M::AES_KEY_GEN,
        M::AES_ECB,
        M::AES_CBC,
        M::AES_CBC_PAD,
        M::AES_CTR,
        M::AES_GCM,
        M::AES_CCM,
        M::AES_CTS,
        M::AES_CMAC,
        M::AES_CMAC_GENERAL,
        M::AES_GMAC,
        M::AES_ECB_ENCRYPT_DATA,
        M::AES_CBC_ENCRYPT_DATA,
        M::AES_OFB,
        M::AES_CFB64,
        M::AES_CFB8,
        M::AES_CFB128,
        M::AES_CFB1,
        M::AES_KEY_WRAP,
        M::AES_KEY_WRAP_PAD,
        M::AES_KEY_WRAP_KWP,
        M::AES_KEY_WRAP_PKCS7,
        M::SHA384_KEY_GEN,
        M::SHA512_KEY_GEN,
        M::HKDF_DERIVE,
        M::HKDF_DATA,
        M::HKDF_KEY_GEN,
        M::HSS_KEY_PAIR_GEN,
        M::HSS,
        M::XMSS,
        M::ML_DSA_EXTERNAL_MU_GEN,
        M::ML_DSA_EXTERNAL_MU,
        M::PUB_KEY_FROM_PRIV_KEY,
    ];
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(client.mechanisms(client.slot).expect("mechanisms"), expected);
    // Wrapping without integrity is off, as under strict.
    let flags = client.mechanism(client.slot, M::AES_CBC).expect("a mechanism").flags;
    assert_eq!(flags & (does::ENCRYPT | does::WRAP | does::UNWRAP), does::ENCRYPT);
    for (id, size) in [(M::ML_DSA, 2592), (M::ML_KEM, 1568), (M::AES_GCM, 32), (M::AES_XTS, 64)] {
        let info = client.mechanism(client.slot, id).expect("a mechanism");
        assert_eq!((info.min, info.max), (size, size), "{id}");
    }
}

/// Returns whether the suite has the key of a sample.
fn is_in_suite(template: &Attributes) -> bool {
    let number = |id| template.value(id).try_into().map(u64::from_ne_bytes).expect("a number");
    let len = || template.value(A::VALUE).len();
    match KeyType(number(A::KEY_TYPE)) {
        KeyType::ML_DSA => number(A::PARAMETER_SET) == ML_DSA_87,
        KeyType::ML_KEM => number(A::PARAMETER_SET) == ML_KEM_1024,
        KeyType::AES => len() == 32,
        KeyType::AES_XTS => len() == 64,
        KeyType::GENERIC_SECRET | KeyType::HKDF => len() >= 32,
        KeyType::SHA384_HMAC | KeyType::SHA512_HMAC => len() >= 32,
        // The level of this sample is 1.
        KeyType::HSS | KeyType::XMSS => true,
        _ => false,
    }
}

#[test]
fn only_the_keys_of_the_suite_are_imported() {
    let other = Client::new(DEFAULT);
    let all = samples(&other, other.user());
    let (client, session) = client();
    let mut taken = 0;
    for sample in all.iter().filter(|sample| sample.object_type.is_key()) {
        let usages = [A::ENCRYPT, A::DECRYPT, A::WRAP, A::UNWRAP, A::SIGN, A::VERIFY, A::DERIVE];
        let bare = usages.iter().fold(sample.whole.clone(), |whole, id| whole.without(*id));
        let outcome = client.create(session, &bare);
        match is_in_suite(&sample.whole) {
            true => drop(outcome.unwrap_or_else(|error| panic!("{:?}: {error:?}", sample.kind))),
            false => assert_eq!(outcome, Err(Error::KeySizeRange), "{:?}", sample.kind),
        }
        taken += usize::from(is_in_suite(&sample.whole));
    }
    assert!(taken >= 5, "{taken}");
    for (len, taken) in [(16, false), (24, false), (32, true)] {
        let outcome = client.create(session, &secret(KeyType::AES, &vec![7; len]));
        assert_eq!(outcome.is_ok(), taken, "{len}");
    }
    // A certificate of any key is no key.
    client.create(session, &data("some data")).expect("an object");
}

#[test]
fn only_the_keys_of_the_suite_are_generated() {
    let (client, session) = client();
    let (sign, wrap) = (none().flag(A::SIGN, true), none().flag(A::DECAPSULATE, true));
    for (mechanism, private, sets) in
        [(M::ML_DSA_KEY_PAIR_GEN, &sign, 1..=3), (M::ML_KEM_KEY_PAIR_GEN, &wrap, 1..=3)]
    {
        for set in sets {
            let made = client.generate(session, mechanism, &none().number(A::PARAMETER_SET, set), private);
            match set {
                3 => drop(made.expect("a pair")),
                _ => assert_eq!(made, Err(Error::KeySizeRange), "{mechanism} {set}"),
            }
        }
    }
    for (len, taken) in [(16, false), (24, false), (32, true)] {
        let made = client.generate_key(session, M::AES_KEY_GEN, &none().number(A::VALUE_LEN, len));
        assert_eq!(made.err(), (!taken).then_some(Error::KeySizeRange), "{len}");
    }
    for (levels, taken) in [(1, true), (2, false)] {
        // LMS_SHA256_M32_H5 and LMOTS_SHA256_N32_W4.
        let private = stateful::levels(&vec![(5, 3); levels]).flag(A::SIGN, true);
        let made = client.generate(session, M::HSS_KEY_PAIR_GEN, &none(), &private);
        assert_eq!(made.err(), (!taken).then_some(Error::KeySizeRange), "{levels} levels");
    }
    let public = none().number(A::MODULUS_BITS, 4096);
    let made = client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &public, &sign);
    assert_eq!(made, Err(Error::MechanismInvalid));
}

/// The hashes of parameters are those of the suite.
#[test]
fn a_parameter_names_a_hash_of_the_suite() {
    let (client, session) = client();
    let base = client
        .create(session, &secret(KeyType::GENERIC_SECRET, &[7; 32]).flag(A::DERIVE, true))
        .expect("a key");
    let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES)
        .number(A::VALUE_LEN, 32)
        .flag(A::SENSITIVE, true)
        .flag(A::EXTRACTABLE, false);
    for (hash, taken) in [
        (Hash::Sha256, false),
        (Hash::Sha384, true),
        (Hash::Sha512, true),
        (Hash::Sha512_256, false),
        (Hash::Sha3_384, false),
    ] {
        let refused = (!taken).then_some(Error::MechanismParamInvalid);
        let hkdf =
            Params::Hkdf { extract: true, expand: true, hash, salt: HkdfSalt::Null, info: Box::default() };
        let hkdf = Mechanism { params: hkdf, ..plain(M::HKDF_DERIVE) };
        let made = client.module.derive_key(session, &hkdf, base, &template.template());
        assert_eq!(made.err(), refused, "{hash:?}");
        let password = Password(jeton_secret::Secret::from(&b"a password"[..]));
        let pbkdf2 = Params::Pbkdf2 { hash, salt: [7; 16].into(), iterations: 1000, password };
        let pbkdf2 = Mechanism { params: pbkdf2, ..plain(M::PKCS5_PBKD2) };
        let made = client.module.generate_key(session, &pbkdf2, &template.template());
        // No mechanism of PBKDF2 has SHA-3.
        if hash != Hash::Sha3_384 {
            assert_eq!(made.err(), refused, "{hash:?}");
        }
    }
}

/// A key that was made under another policy is not used, but it can be read and destroyed.
#[test]
fn an_older_key_outside_the_suite_is_not_used() {
    let directory = Directory::new();
    let client = Client::initialise(&directory, DEFAULT, "");
    let session = client.user();
    for (label, len) in [("small", 16), ("large", 32)] {
        let key = secret(KeyType::AES, &vec![7; len]).stored().label(label);
        let others = [A::WRAP, A::UNWRAP, A::SIGN, A::VERIFY, A::DERIVE];
        let key = others.into_iter().fold(key, |key, id| key.flag(id, false));
        client.create(session, &key.flag(A::ENCRYPT, true).flag(A::DECRYPT, true)).expect("a key");
    }
    pair(&client, session, Kind::MlDsa44, &none().stored().label("pair"));
    drop(client);
    let client = Client::beside(&directory, DEFAULT, CNSA2);
    let session = client.user();
    let find =
        |label: &str, class: ObjectClass| client.find_one(session, &Attributes::of(class).label(label));
    let encrypts = |key| client.encrypt_init(session, &with_iv(M::AES_CBC, &[3; 16]), key);
    let (small, large) = (find("small", ObjectClass::SECRET_KEY), find("large", ObjectClass::SECRET_KEY));
    assert_eq!(encrypts(small), Err(Error::KeySizeRange));
    assert_eq!(encrypts(large), Ok(()));
    let (public, private) = (find("pair", ObjectClass::PUBLIC_KEY), find("pair", ObjectClass::PRIVATE_KEY));
    assert_eq!(client.sign_init(session, &plain(M::ML_DSA), private), Err(Error::KeySizeRange));
    assert_eq!(client.verify_init(session, &plain(M::ML_DSA), public), Err(Error::KeySizeRange));
    client.destroy_object(session, small).expect("a key");
}

/// A signature of the suite works, with the mechanisms that 3.3 has for it.
#[test]
fn keys_of_the_suite_sign_and_agree() {
    each_backend(|provider| {
        let client = Client::with(provider, CNSA2);
        let session = client.user();
        let set = none().number(A::PARAMETER_SET, ML_DSA_87);
        let public = set.flag(A::VERIFY, true);
        let private = none().flag(A::SIGN, true);
        let (public, private) =
            client.generate(session, M::ML_DSA_KEY_PAIR_GEN, &public, &private).expect("a pair");
        for (mechanism, message) in [(M::ML_DSA, &b"a message"[..]), (M::ML_DSA_EXTERNAL_MU, &[7; 64])] {
            let signature = client.sign(session, &plain(mechanism), private, message).expect("a signature");
            let outcome = client.verify(session, &plain(mechanism), public, message, &signature);
            assert_eq!(outcome, Ok(()));
        }
        let refused = [M::HASH_ML_DSA_SHA512, M::SLH_DSA, M::ECDSA_SHA384, M::SHA384_RSA_PKCS_PSS];
        for mechanism in refused {
            let outcome = client.sign_init(session, &plain(mechanism), private);
            assert_eq!(outcome, Err(Error::MechanismInvalid), "{mechanism}");
        }
        for mechanism in [M::SHA256, M::SHA3_384, M::SHA_1] {
            let outcome = client.digest_init(session, &plain(mechanism));
            assert_eq!(outcome, Err(Error::MechanismInvalid), "{mechanism}");
        }
        assert_eq!(client.digest_init(session, &plain(M::SHA384)), Ok(()));
    });
}
