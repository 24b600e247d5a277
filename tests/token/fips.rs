//! The build with the validated module: which calls the token tells as approved, compared with the
//! service indicator of the module, and what `fips = "enforce"` refuses.

use jeton::backend::aws_lc::service_indicator;
use jeton::backend::{AeadScheme, Direction, Hash};
use jeton::config::fips;
use jeton::error::Error;
use jeton::functions::Output;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, SessionHandle};
use jeton::mechanism::password::Password;
use jeton::mechanism::{self, Mechanism, Params};
use jeton::session::Session;
use jeton_secret::Secret;

use crate::keys::{Kind, SECP256K1, pair, secret};
use crate::mechanisms::{KNOWN, cases, message};
use crate::support::{Attributes, Client, DEFAULT, aead_params, none, plain, shown, with_iv};

/// The keys that this build has.
const KINDS: [Kind; 10] = [
    Kind::Rsa,
    Kind::P224,
    Kind::P256,
    Kind::P384,
    Kind::P521,
    Kind::Secp256k1,
    Kind::Ed25519,
    Kind::Aes,
    Kind::Generic,
    Kind::Hmac,
];

/// The module counts the end of an encryption (`EVP_CipherFinal_ex`). Jeton pads the last block
/// itself, so it does not call this function.
const NO_END: &str = "encrypted in parts";
/// The module also counts what the service is built from: hashes, HMAC and random numbers.
const PARTS: &str = "built from approved parts";

/// The calls of which the token and the module say different things: the start and the end of the
/// name, and the reason.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("encrypt CKM_AES_ECB", "", NO_END),
    ("decrypt CKM_AES_ECB", "", NO_END),
    ("encrypt CKM_AES_CBC", "", NO_END),
    ("decrypt CKM_AES_CBC", "", NO_END),
    ("encrypt CKM_AES_XTS", "", NO_END),
    ("decrypt CKM_AES_XTS", "", NO_END),
    ("sign CKM_ECDSA_SHA", "Secp256k1", PARTS),
    ("verify CKM_ECDSA_SHA", "Secp256k1", PARTS),
    ("sign CKM_ECDSA_SHA1 ", "", PARTS),
    ("sign CKM_SHA1_RSA_PKCS", "", PARTS),
    ("sign CKM_SHA256_RSA_PKCS_PSS", "refused", PARTS),
    ("verify CKM_SHA256_RSA_PKCS_PSS", "refused", PARTS),
    ("sign CKM_TLS", "", PARTS),
    ("verify CKM_TLS", "", PARTS),
    ("generate CKM_EC_MONTGOMERY", "", PARTS),
];

/// Calls a function, and returns what the token tells, whether the module counts, and the name of
/// the call.
fn call(client: &Client, session: SessionHandle, name: String, work: impl FnOnce()) -> (bool, bool, String) {
    let before = service_indicator();
    work();
    let counted = service_indicator() != before;
    (client.module.validation_flags(session).expect("flags") == 1, counted, name)
}

#[test]
fn the_token_tells_as_approved_what_the_module_counts() {
    let client = Client::new(DEFAULT);
    let session = client.user();
    let listed = client.mechanisms(client.slot).expect("mechanisms");
    let mut calls = Vec::new();
    let mut add = |name, work: &dyn Fn()| calls.push(call(&client, session, name, work));
    let pairs: Vec<_> = KINDS.map(|kind| (kind, pair(&client, session, kind, &none()))).into();
    for case in cases().iter().filter(|case| listed.contains(&case.mechanism.info.id)) {
        let data = message(case.message, 3);
        for (kind, (public, private)) in pairs.iter().filter(|(kind, _)| case.kinds.contains(kind)) {
            let refused = fips::check_parameter(&case.mechanism).map_or(" refused", |()| "");
            let name = format!("{} {kind:?}{refused}", case.mechanism.info.id);
            // The module has no Ed25519 with a context.
            let Ok(signature) = client.sign(session, &case.mechanism, *private, &data) else { continue };
            add(format!("sign {name}"), &|| {
                client.sign(session, &case.mechanism, *private, &data).expect("a signature");
            });
            add(format!("verify {name}"), &|| {
                client
                    .verify(session, &case.mechanism, *public, &data, &signature)
                    .expect("a good signature");
            });
        }
    }
    for (id, ..) in KNOWN.iter().filter(|(id, ..)| listed.contains(id)) {
        add(format!("digest {id}"), &|| {
            client.digest_init(session, &plain(*id)).expect("a digest");
            client.digest(session, b"abc", Output::Buffer(&mut [0; 64])).expect("a digest");
        });
    }
    let aes = client.create(session, &secret(KeyType::AES, &[7; 32])).expect("a key");
    let xts = client.create(session, &secret(KeyType::AES_XTS, &message(64, 3))).expect("a key");
    let gcm = aead_params(AeadScheme::AesGcm, &[1; 12], b"", 16, 0);
    for (mechanism, key) in [
        (plain(M::AES_ECB), aes),
        (with_iv(M::AES_CBC, &[1; 16]), aes),
        (with_iv(M::AES_CBC_PAD, &[1; 16]), aes),
        (with_iv(M::AES_OFB, &[1; 16]), aes),
        (with_iv(M::AES_CFB128, &[1; 16]), aes),
        (with_iv(M::AES_XTS, &[1; 16]), xts),
        (Mechanism { params: gcm, ..plain(M::AES_GCM) }, aes),
        (plain(M::AES_KEY_WRAP), aes),
    ] {
        let data = message(64, 3);
        let crypt =
            |direction, data| client.crypt(session, direction, &mechanism, key, data).expect("an output");
        let sealed = crypt(Direction::Encrypt, &data);
        for (name, direction, data) in
            [("encrypt", Direction::Encrypt, &data), ("decrypt", Direction::Decrypt, &sealed)]
        {
            add(format!("{name} {}", mechanism.info.id), &|| drop(crypt(direction, data)));
        }
    }
    for kind in KINDS.into_iter().chain([Kind::X25519, Kind::MlKem768]).filter(|kind| *kind != Kind::Rsa) {
        add(format!("generate {} {kind:?}", kind.generator()), &|| {
            pair(&client, session, kind, &none());
        });
    }
    let rsa = none().number(A::MODULUS_BITS, 2048).bytes(A::PUBLIC_EXPONENT, &[1, 0, 1]);
    add("generate CKM_RSA_PKCS_KEY_PAIR_GEN".to_owned(), &|| {
        client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &rsa, &none()).expect("a pair");
    });
    for (password, iterations) in
        [(&b"a long password"[..], 1000), (b"a long password", 999), (b"short", 1000)]
    {
        let password = Password(Secret::from(password));
        let params = Params::Pbkdf2 { hash: Hash::Sha256, salt: [7; 16].into(), iterations, password };
        let template = none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, 32);
        let mechanism = Mechanism { params, ..plain(M::PKCS5_PBKD2) };
        add(format!("generate CKM_PKCS5_PBKD2 {iterations}"), &|| {
            client.module.generate_key(session, &mechanism, &template.template()).expect("a key");
        });
    }
    let wrong: Vec<_> = calls
        .iter()
        .filter(|(told, counted, name)| {
            let differs =
                DIFFERENCES.iter().any(|(start, end, _)| name.starts_with(start) && name.ends_with(end));
            (told != counted) != differs
        })
        .collect();
    assert!(calls.len() > 100 && wrong.is_empty(), "{} calls\n{wrong:#?}", calls.len());
}

#[test]
fn a_cancelled_or_failed_operation_is_not_approved() {
    let client = Client::new(DEFAULT);
    let session = client.user();
    let told = || client.module.validation_flags(session).expect("flags");
    let (public, private) = pair(&client, session, Kind::P256, &none());
    let ecdsa = plain(M::ECDSA_SHA256);
    let mut signature = client.sign(session, &ecdsa, private, b"message").expect("a signature");
    assert_eq!(told(), 1);
    signature[5] ^= 1;
    assert!(client.verify(session, &ecdsa, public, b"message", &signature).is_err());
    assert_eq!(told(), 0);
    client.sign(session, &ecdsa, private, b"message").expect("a signature");
    client.sign_init(session, &ecdsa, private).expect("an operation");
    // As `C_SignInit` without a mechanism.
    let cancel = |session: &mut Session| {
        session.operations.sign.clear();
        Ok(())
    };
    client.module.with_session(session, cancel).expect("a session");
    assert_eq!(told(), 0);
    // A shared secret is approved, but no key of a cipher, and no encapsulation.
    let request = Kind::P256.request().flag(A::ENCAPSULATE, true);
    let (public, private) = client
        .generate(session, M::EC_KEY_PAIR_GEN, &request, &none().flag(A::DERIVE, true))
        .expect("a pair");
    let ecdh = |peer| {
        let params = Params::Ecdh { kdf: None, shared: Box::default(), peer };
        Mechanism { params, ..plain(M::ECDH1_DERIVE) }
    };
    let peer: Box<[u8]> = client.read(session, public, A::EC_POINT).expect("a point").into();
    let template = |key_type: KeyType| none().number(A::KEY_TYPE, key_type.0).number(A::VALUE_LEN, 32);
    for (key_type, approved) in [(KeyType::AES, 0), (KeyType::GENERIC_SECRET, 1)] {
        let (mechanism, template) = (ecdh(peer.clone()), template(key_type));
        client.module.derive_key(session, &mechanism, private, &template.template()).expect("a key");
        assert_eq!(told(), approved);
    }
    let (mechanism, template) = (ecdh(Box::default()), template(KeyType::GENERIC_SECRET));
    let out = Output::Buffer(&mut [0; 65]);
    client.module.encapsulate_key(session, &mechanism, public, &template.template(), out).expect("a key");
    assert_eq!(told(), 0);
}

#[test]
fn enforce_refuses_what_is_not_approved() {
    let client = Client::with(DEFAULT, ", policy = { fips = 'enforce' }");
    let session = client.user();
    let listed = client.mechanisms(client.slot).expect("mechanisms");
    assert!(mechanism::all().all(|row| !listed.contains(&row.id) || fips::approved(row) != 0));
    let (_, private) = pair(&client, session, Kind::P256, &none());
    assert!(client.sign(session, &plain(M::ECDSA_SHA256), private, b"message").is_ok());
    for id in [M::ECDSA, M::ECDSA_SHA1] {
        assert_eq!(client.sign_init(session, &plain(id), private), Err(Error::MechanismInvalid));
    }
    let (_, private) = pair(&client, session, Kind::Rsa, &none());
    let pss = |salt_len| Params::Pss { hash: Hash::Sha256, mgf: Hash::Sha256, salt_len };
    for (salt_len, answer) in [(32, Ok(())), (20, Err(Error::MechanismParamInvalid))] {
        let mechanism = Mechanism { params: pss(salt_len), ..plain(M::SHA256_RSA_PKCS_PSS) };
        assert_eq!(client.sign_init(session, &mechanism, private), answer);
        client
            .module
            .with_session(session, |session| Ok(session.operations.sign.cancel()))
            .expect("a session");
    }
    let koblitz = none().bytes(A::EC_PARAMS, SECP256K1);
    assert_eq!(
        client.generate(session, M::EC_KEY_PAIR_GEN, &koblitz, &none()),
        Err(Error::CurveNotSupported)
    );
    let gcm = |tag| Mechanism {
        params: aead_params(AeadScheme::AesGcm, &[1; 12], b"", tag, 0),
        ..plain(M::AES_GCM)
    };
    let aes = client.create(session, &secret(KeyType::AES, &[7; 32])).expect("a key");
    assert_eq!(
        client.crypt(session, Direction::Decrypt, &gcm(8), aes, &[0; 32]),
        Err(Error::MechanismParamInvalid)
    );
    for (key_type, len) in [(KeyType::GENERIC_SECRET, 13), (KeyType::CHACHA20, 32)] {
        let created = client.create(session, &secret(key_type, &vec![7; len]).and(&shown()));
        assert_eq!(created, Err(Error::KeySizeRange));
    }
}

#[test]
fn the_validation_object_names_the_module() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    let object = client.find_one(session, &Attributes::of(ObjectClass::VALIDATION));
    let version = jeton::backend::aws_lc::version();
    assert_eq!(client.read(session, object, A::VALIDATION_MODULE_ID).expect("a name"), version.as_bytes());
    assert_eq!(client.number(session, object, A::VALIDATION_FLAG), 1);
    assert_eq!(client.module.validation_flags(session), Ok(0));
}
