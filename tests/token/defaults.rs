//! Defaults of attributes that depend on the login or on the function.

use crate::derive::derive;
use crate::prelude::*;

fn secret(key_type: KeyType) -> Attributes {
    key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, &[7; 32])
}

/// The conformance cases "of a session key without a login" have the other functions.
///
/// PKCS#11 3.2, "Storage objects": the default of `CKA_PRIVATE` is the token's choice, and "may
/// depend on the values of other attributes of the object".
#[test]
fn a_session_object_that_is_made_without_a_login_is_public() {
    let client = Client::new(DEFAULT);
    let (module, session) = (&client.module, client.open());
    let check = |key, what: &str| {
        assert_eq!([A::PRIVATE, A::TOKEN].map(|id| client.flag(session, key, id)), [false, false], "{what}");
    };
    let (public, private) = pair(&client, session, Kind::MlKem512, &none());
    let (sealed, sent) = client.encapsulate(session, public, &none().template()).expect("a key");
    check(sent, "C_EncapsulateKey");
    let kem = plain(M::ML_KEM);
    let received = module.decapsulate_key(session, &kem, private, &none().template(), &sealed);
    check(received.expect("a key"), "C_DecapsulateKey");

    // A private key is still sensitive and not extractable. A token object, a private object
    // and a key with CKA_ALWAYS_AUTHENTICATE are still refused without a login.
    assert!(client.flag(session, private, A::SENSITIVE) && !client.flag(session, private, A::EXTRACTABLE));
    let aes = secret(KeyType::AES);
    for refused in [
        aes.clone().stored(),
        aes.clone().flag(A::PRIVATE, true),
        key_object(ObjectClass::PRIVATE_KEY, KeyType::EC).flag(A::ALWAYS_AUTHENTICATE, true),
    ] {
        let made = client.create(session, &refused).map(drop);
        assert!(matches!(made, Err(Error::UserNotLoggedIn | Error::TemplateIncomplete)), "{made:?}");
    }
    module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    assert_eq!(client.create(session, &aes), Err(Error::UserNotLoggedIn));
    module.logout(session).expect("the SO");
    module.login(session, User::User, PIN).expect("the user");
    let key = client.create(session, &aes).expect("a key");
    assert!(client.flag(session, key, A::PRIVATE));
}

/// PKCS#11 3.2, "Common key attributes": `CKA_DERIVE` has the default `CK_FALSE`.
#[test]
fn a_secret_key_derives_only_if_its_template_says_so() {
    let (client, session) = one_user();
    for key_type in [KeyType::AES, KeyType::GENERIC_SECRET, KeyType::HKDF] {
        let key = client.create(session, &secret(key_type)).expect("a key");
        assert!(!client.flag(session, key, A::DERIVE), "{key_type}");
        let hash = plain(M::SHA256_KEY_DERIVATION);
        let refused = client.derive_key(session, &hash, key, &none().template());
        let expected = [Err(Error::KeyFunctionNotPermitted), Err(Error::KeyTypeInconsistent)];
        assert!(expected.contains(&refused), "{key_type} {refused:?}");
    }
    let template = none().number(A::VALUE_LEN, 16);
    let key = client.generate_key(session, M::AES_KEY_GEN, &template).expect("a key");
    assert!(!client.flag(session, key, A::DERIVE));
}

/// PKCS#11 3.2, "RSA": the sizes of `CK_MECHANISM_INFO` are those that the token supports.
#[test]
fn rsa_keys_of_every_size_in_the_range_are_generated_and_used() {
    each_user(|client, session| {
        let generator = client.mechanism(client.slot, M::RSA_PKCS_KEY_PAIR_GEN).expect("a mechanism");
        assert_eq!((generator.min, generator.max), (1024, 8192));
        let signs = client.mechanism(client.slot, M::RSA_PKCS).expect("a mechanism");
        assert_eq!((signs.min, signs.max), (1024, 16384));
        // AWS-LC itself generates only sizes that are multiples of 128.
        for bits in [1024, 1025, 1032, 2041, 2044, 3092] {
            let request = none().number(A::MODULUS_BITS, bits);
            let made = client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &none());
            let (public, private) = made.unwrap_or_else(|error| panic!("{bits}: {error:?}"));
            assert_eq!(client.number(session, public, A::MODULUS_BITS), bits);
            let mechanism = plain(M::SHA256_RSA_PKCS);
            let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
            assert_eq!(signature.len() as u64, bits.div_ceil(8));
            assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
        }
        for bits in [512, 1023, 8193] {
            let request = none().number(A::MODULUS_BITS, bits);
            let refused = client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &none());
            assert_eq!(refused, Err(Error::KeySizeRange), "{bits}");
        }
    });
}

/// `[mechanisms] min-rsa-bits` refuses shorter keys that are generated, imported or used.
#[test]
fn a_configured_minimum_refuses_short_rsa_keys() {
    let (client, session) = one_user();
    let request = none().number(A::MODULUS_BITS, 1024);
    let short = none().stored().label("short");
    let made = client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request.clone().and(&short), &short);
    let (public, _) = made.expect("a pair");
    let modulus = client.read(session, public, A::MODULUS).expect("a modulus");

    let configuration = ", mechanisms = { min-rsa-bits = 2048 }";
    let other = Client::beside(&client.directory, DEFAULT, configuration);
    let session = other.user();
    let generator = other.mechanism(other.slot, M::RSA_PKCS_KEY_PAIR_GEN).expect("a mechanism");
    assert_eq!((generator.min, generator.max), (2048, 8192));
    let refused = other.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &none()).map(drop);
    assert_eq!(refused, Err(Error::KeySizeRange));
    let import = key_object(ObjectClass::PUBLIC_KEY, KeyType::RSA)
        .bytes(A::MODULUS, &modulus)
        .bytes(A::PUBLIC_EXPONENT, &[1, 0, 1]);
    assert_eq!(other.create(session, &import), Err(Error::KeySizeRange));
    let wanted = Attributes::of(ObjectClass::PRIVATE_KEY).label("short");
    let private = other.find_one(session, &wanted);
    assert_eq!(other.sign_init(session, &plain(M::SHA256_RSA_PKCS), private), Err(Error::KeySizeRange));
    let request = none().number(A::MODULUS_BITS, 2048);
    assert!(other.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &none()).is_ok());
}

/// A key of 512 bits, and a signature of "data" with SHA-256, made with OpenSSL 3.0.
const SHORT_MODULUS: &str = "b377a89f8b065b09f13e906771fd1afee406f68a005181f1d2449caf6d306f93\
    86d373c1bb9f30bed0ab0afa487f4d8343724e697de13b282e66df4efbd03893";
const SHORT_PRIVATE_EXPONENT: &str = "7044496acc8844491aeddd5da8d401a033bb1b5cc6c83636b52790b0b8e854d2\
    f3106b23e33a97297601bda9e5b199b0d86c80785da3a708a1cfb24418fb71a1";
const SHORT_SIGNATURE: &str = "93e277438f60737d0b7aa155bf11010ac4ba431711819b4029de98f5ace922b4\
    310e6d1ce11089077afa5b899970907b75a9809f093883549f7f4782283ec974";

/// Old certificates have such keys. The key does nothing else, because everyone can compute its
/// private key.
#[test]
fn a_public_key_of_512_bits_only_verifies_and_only_if_configured() {
    each_backend(|provider| {
        let public = key_object(ObjectClass::PUBLIC_KEY, KeyType::RSA)
            .bytes(A::MODULUS, &hex(SHORT_MODULUS))
            .bytes(A::PUBLIC_EXPONENT, &[1, 0, 1]);
        let client = Client::new(provider);
        assert_eq!(client.create(client.user(), &public), Err(Error::KeySizeRange));

        let client = Client::with(provider, ", mechanisms = { min-rsa-bits = 512 }");
        let (session, signature) = (client.user(), hex(SHORT_SIGNATURE));
        let key = client.create(session, &public).expect("a key");
        let verify = |id, data: &[u8]| client.verify(session, &plain(id), key, data, &signature);
        assert_eq!(verify(M::SHA256_RSA_PKCS, b"data"), Ok(()));
        assert_eq!(verify(M::SHA256_RSA_PKCS, b"datA"), Err(Error::SignatureInvalid));
        // These hashes do not fit the modulus.
        assert_eq!(verify(M::SHA512_RSA_PKCS, b"data"), Err(Error::KeySizeRange));
        let pss = Params::Pss { hash: Hash::Sha512, mgf: Hash::Sha512, salt_len: 0 };
        let pss = Mechanism { params: pss, ..plain(M::SHA512_RSA_PKCS_PSS) };
        assert_eq!(client.verify(session, &pss, key, b"data", &signature), Err(Error::KeySizeRange));
        assert_eq!(client.encrypt_init(session, &plain(M::RSA_PKCS), key), Err(Error::KeySizeRange));

        let private = key_object(ObjectClass::PRIVATE_KEY, KeyType::RSA)
            .bytes(A::MODULUS, &hex(SHORT_MODULUS))
            .bytes(A::PUBLIC_EXPONENT, &[1, 0, 1])
            .bytes(A::PRIVATE_EXPONENT, &hex(SHORT_PRIVATE_EXPONENT));
        assert_eq!(client.create(session, &private), Err(Error::KeySizeRange));
        let request = none().number(A::MODULUS_BITS, 512);
        let made = client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &none());
        assert_eq!(made, Err(Error::KeySizeRange));
    });
}

/// `[mechanisms] curves` and `min-ec-bits` refuse keys on other and on smaller curves that are
/// generated, imported or used.
#[test]
fn configured_curves_refuse_keys_on_the_others() {
    let named = ", mechanisms = { curves = ['secp384r1', 'edwards448', 'curve448'] }";
    let sized = ", mechanisms = { min-ec-bits = 384 }";
    let rules = [(named, Error::CurveNotSupported), (sized, Error::KeySizeRange)];
    let kinds = [
        (Kind::P256, Kind::P384, M::ECDSA_SHA256),
        (Kind::Ed25519, Kind::Ed448, M::EDDSA),
        (Kind::X25519, Kind::X448, M::ECDH1_DERIVE),
    ];
    let (client, session) = one_user();
    for (kind, _, _) in kinds {
        pair(&client, session, kind, &none().stored().label(&format!("{kind:?}")));
    }
    for (configuration, error) in rules {
        let other = Client::beside(&client.directory, DEFAULT, configuration);
        let session = other.user();
        for (refused, allowed, uses) in kinds {
            println!("{configuration} {refused:?}");
            assert_eq!(other.generate(session, refused.generator(), &refused.request(), &none()), Err(error));
            let find = |class| other.find_one(session, &Attributes::of(class).label(&format!("{refused:?}")));
            let (public, private) = (find(ObjectClass::PUBLIC_KEY), find(ObjectClass::PRIVATE_KEY));
            let point = other.read(session, public, A::EC_POINT).expect("a point");
            let import = key_object(ObjectClass::PUBLIC_KEY, refused.key_type());
            let import = import.and(&refused.request()).bytes(A::EC_POINT, &point);
            assert_eq!(other.create(session, &import), Err(error));
            let used = match uses {
                M::ECDH1_DERIVE => {
                    let peer = point[..].into();
                    let params = Params::Ecdh { kdf: None, shared: Box::default(), peer };
                    derive(&other, session, (uses, params), private, &none()).map(drop)
                }
                _ => other.sign_init(session, &plain(uses), private),
            };
            assert_eq!(used, Err(Error::KeySizeRange));
            pair(&other, session, allowed, &none());
        }
    }
}

/// A mechanism without a curve is not offered. Key sizes are those of the remaining curves.
#[test]
fn configured_curves_limit_the_mechanisms() {
    let sizes = |rules: &str, id: M| {
        let client = Client::with(DEFAULT, &format!(", mechanisms = {{ {rules} }}"));
        client.mechanism(client.slot, id).map(|info| (info.min, info.max))
    };
    let nist = "curves = ['secp256r1', 'secp384r1', 'curve448']";
    assert_eq!(sizes(nist, M::ECDSA), Ok((256, 384)));
    assert_eq!(sizes(nist, M::ECDH1_DERIVE), Ok((256, 448)));
    assert_eq!(sizes(nist, M::ECDH_AES_KEY_WRAP), Ok((256, 448)));
    assert_eq!(sizes(nist, M::ECDH_X_AES_KEY_WRAP), Ok((448, 448)));
    assert_eq!(sizes(nist, M::EDDSA), Err(Error::MechanismInvalid));
    assert_eq!(sizes("curves = []", M::EC_KEY_PAIR_GEN), Err(Error::MechanismInvalid));
    assert_eq!(sizes("min-ec-bits = 256", M::EDDSA), Ok((255, 448)));
    assert_eq!(sizes("min-ec-bits = 256", M::EC_KEY_PAIR_GEN), Ok((256, 521)));
    assert_eq!(sizes("min-ec-bits = 257", M::EDDSA), Ok((448, 448)));
    assert_eq!(sizes("min-ec-bits = 224", M::RSA_PKCS), sizes("curves = []", M::RSA_PKCS));
}
