//! Keys of every type that are wrapped and unwrapped, and wrapping that is refused.

use jeton::backend::{AeadScheme, Hash};
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::{Mechanism, Params};
use jeton::module::Output;
use jeton::object::template::{Given, Raw};

use crate::ciphers::{Way, message};
use crate::keys::{Kind, P256, RSA, key_object, pair};
use crate::rsa::oaep;
use crate::support::{Attributes, Client, aead_params, each_backend, none, plain, with_iv};

fn shown() -> Attributes {
    none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true)
}

fn secret(key_type: KeyType, value: &[u8]) -> Attributes {
    key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, value)
}

fn with(id: M, params: Params) -> Mechanism {
    Mechanism { params, ..plain(id) }
}

/// Returns mechanisms that wrap keys of every type: three with an AES key, one with an RSA pair.
fn every_kind() -> Vec<Mechanism> {
    let gcm = aead_params(AeadScheme::AesGcm, &[1; 12], &[], 16, 0);
    vec![
        plain(M::AES_KEY_WRAP_KWP),
        with_iv(M::AES_CBC_PAD, &[3; 16]),
        with(M::AES_GCM, gcm),
        with(
            M::RSA_AES_KEY_WRAP,
            Params::RsaAesWrap { aes_bits: 256, hash: Hash::Sha256, mgf: Hash::Sha1, label: Box::default() },
        ),
    ]
}

fn wrap(
    client: &Client,
    session: SessionHandle,
    mechanism: &Mechanism,
    by: ObjectHandle,
    key: ObjectHandle,
) -> Result<Vec<u8>, Error> {
    let mut out = vec![0; client.module.wrap_key(session, mechanism, by, key, Output::Length)?];
    let short = out.len() - 1;
    let refused = client.module.wrap_key(session, mechanism, by, key, Output::Buffer(&mut out[..short]));
    assert!(matches!(refused, Err(Error::BufferTooSmall { .. })));
    let len = client.module.wrap_key(session, mechanism, by, key, Output::Buffer(&mut out))?;
    out.truncate(len);
    Ok(out)
}

fn unwrap(
    client: &Client,
    session: SessionHandle,
    mechanism: &Mechanism,
    by: ObjectHandle,
    wrapped: &[u8],
    template: &Attributes,
) -> Result<ObjectHandle, Error> {
    client.module.unwrap_key(session, mechanism, by, wrapped, &template.template())
}

/// Returns a key that wraps with this mechanism, and the key that unwraps.
fn wrapping(client: &Client, session: SessionHandle, mechanism: &Mechanism) -> (ObjectHandle, ObjectHandle) {
    let rsa = mechanism.info.key_type == Some(KeyType::RSA);
    pair(client, session, if rsa { Kind::Rsa } else { Kind::Aes }, &none())
}

#[test]
fn secret_keys_are_unwrapped_unchanged() {
    each_backend(|provider| {
        let client = Client::with(provider, ", policy = { raw-rsa-wrap = true }");
        let session = client.user();
        let mut all = every_kind();
        all.extend([plain(M::AES_KEY_WRAP), plain(M::RSA_PKCS), oaep(Hash::Sha256, Hash::Sha256, b"")]);
        all.extend([plain(M::AES_ECB), with_iv(M::AES_CBC, &[3; 16]), plain(M::RSA_X_509)]);
        for mechanism in all {
            let id = mechanism.info.id;
            println!("{id}");
            let (by, back) = wrapping(&client, session, &mechanism);
            let pads = [M::AES_ECB, M::AES_CBC, M::RSA_X_509].contains(&id);
            for (key_type, len) in [
                (KeyType::AES, 32),
                (KeyType::AES, 24),
                (KeyType::GENERIC_SECRET, 40),
                (KeyType::GENERIC_SECRET, 21),
            ] {
                if id == M::AES_KEY_WRAP && len == 21 {
                    continue;
                }
                let key =
                    client.create(session, &secret(key_type, &message(len)).and(&shown())).expect("a key");
                let wrapped = wrap(&client, session, &mechanism, by, key).expect("a wrapped key");
                let template = key_object(ObjectClass::SECRET_KEY, key_type).flag(A::SENSITIVE, false);
                let sized = template.clone().number(A::VALUE_LEN, len as u64);
                let template = if pads { sized } else { template };
                let key = unwrap(&client, session, &mechanism, back, &wrapped, &template).expect("a key");
                assert_eq!(client.read(session, key, A::VALUE), Ok(message(len)), "{len}");
                assert_eq!(client.number(session, key, A::VALUE_LEN), len as u64);
                assert!(client.flag(session, key, A::EXTRACTABLE));
                for id in [A::LOCAL, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE] {
                    assert!(!client.flag(session, key, id), "{id}");
                }
                // An invalid wrapped key creates no object.
                let before = client.find(session, &none()).len();
                let refused = unwrap(&client, session, &mechanism, back, &wrapped[1..], &template);
                assert!(refused.is_err() || pads, "{id}");
                let wrong = template.clone().number(A::VALUE_LEN, 4000);
                assert!(unwrap(&client, session, &mechanism, back, &wrapped, &wrong).is_err());
                assert_eq!(client.find(session, &none()).len(), before);
            }
        }
    });
}

#[test]
fn private_keys_are_unwrapped_and_sign() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for mechanism in every_kind() {
            let (by, back) = wrapping(&client, session, &mechanism);
            let others = [Kind::X25519, Kind::X448, Kind::MlKem512, Kind::MlKem1024];
            for kind in Kind::PAIRS.into_iter().chain(others) {
                println!("{} {kind:?}", mechanism.info.id);
                let (public, private) = if kind == Kind::Rsa {
                    let private = RSA.private.clone().and(&shown());
                    (
                        client.create(session, &RSA.public).expect("a key"),
                        client.create(session, &private).expect("a key"),
                    )
                } else {
                    client.generate(session, kind.generator(), &kind.request(), &shown()).expect("a pair")
                };
                let wrapped = wrap(&client, session, &mechanism, by, private).expect("a wrapped key");
                let template =
                    key_object(ObjectClass::PRIVATE_KEY, kind.key_type()).flag(A::SENSITIVE, false);
                let key = unwrap(&client, session, &mechanism, back, &wrapped, &template).expect("a key");
                let id = if kind == Kind::Rsa { A::PRIVATE_EXPONENT } else { A::VALUE };
                assert_eq!(client.read(session, key, id), client.read(session, private, id));
                let signs = match kind.key_type() {
                    KeyType::RSA => M::SHA256_RSA_PKCS,
                    KeyType::EC => M::ECDSA_SHA256,
                    KeyType::EC_EDWARDS => M::EDDSA,
                    KeyType::DSA => M::DSA_SHA256,
                    KeyType::ML_DSA => M::ML_DSA,
                    KeyType::SLH_DSA => M::SLH_DSA,
                    _ => continue,
                };
                let signature = client.sign(session, &plain(signs), key, b"data").expect("a signature");
                assert_eq!(client.verify(session, &plain(signs), public, b"data", &signature), Ok(()));
                let other = key_object(
                    ObjectClass::PRIVATE_KEY,
                    if kind == Kind::Rsa { KeyType::EC } else { KeyType::RSA },
                );
                let refused = unwrap(&client, session, &mechanism, back, &wrapped, &other);
                // AES key wrap checks the integrity before the plaintext is read.
                let authentic = matches!(mechanism.info.id, M::AES_KEY_WRAP | M::AES_KEY_WRAP_KWP);
                let error = if authentic { Error::TemplateInconsistent } else { Error::WrappedKeyInvalid };
                assert_eq!(refused, Err(error));
            }
        }
    });
}

/// RFC 5915: the wrapped scalar has the length of the order, even if a shorter one was imported.
#[test]
fn a_short_scalar_is_wrapped_at_full_length() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let iv = with_iv(M::AES_CBC_PAD, &[3; 16]);
        let (by, _) = wrapping(&client, session, &iv);
        let key =
            key_object(ObjectClass::PRIVATE_KEY, KeyType::EC).bytes(A::EC_PARAMS, P256).bytes(A::VALUE, &[5]);
        let key = client.create(session, &key.and(&shown())).expect("a key");
        let wrapped = wrap(&client, session, &iv, by, key).expect("a wrapped key");
        let der = Way::Decrypt.whole(&client, session, &iv, by, &wrapped).expect("DER");
        let scalar = [&[4, 32][..], &[0; 31], &[5]].concat();
        assert!(der.windows(34).any(|window| window == scalar));
        assert_eq!(wrap(&client, session, &plain(M::AES_ECB), by, key), Err(Error::KeyNotWrappable));
    });
}

#[test]
fn wrapping_needs_the_right_attributes() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let (by, _) = pair(&client, session, Kind::Aes, &none());
        let refuses = |by, key, error| {
            assert_eq!(client.module.wrap_key(session, &kwp, by, key, Output::Length), Err(error))
        };
        let create = |more: Attributes| {
            client.create(session, &secret(KeyType::AES, &[7; 16]).and(&more)).expect("a key")
        };
        refuses(by, create(none().flag(A::EXTRACTABLE, false)), Error::KeyUnextractable);
        let open = none();
        refuses(by, create(open.clone().flag(A::WRAP_WITH_TRUSTED, true)), Error::KeyNotWrappable);
        refuses(by, ObjectHandle(0), Error::KeyHandleInvalid);
        refuses(ObjectHandle(0), create(open.clone()), Error::WrappingKeyHandleInvalid);
        refuses(create(none().flag(A::WRAP, false)), create(open.clone()), Error::KeyFunctionNotPermitted);
        let (public, _) = pair(&client, session, Kind::P256, &none());
        refuses(by, public, Error::KeyNotWrappable);

        let wrapped = wrap(&client, session, &kwp, by, create(open)).expect("a wrapped key");
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES);
        let idle = create(none().flag(A::UNWRAP, false));
        let refused = unwrap(&client, session, &kwp, idle, &wrapped, &template);
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
        let refused = unwrap(&client, session, &kwp, ObjectHandle(0), &wrapped, &template);
        assert_eq!(refused, Err(Error::UnwrappingKeyHandleInvalid));
        let mut flipped = wrapped.clone();
        flipped[3] ^= 1;
        let refused = unwrap(&client, session, &kwp, by, &flipped, &template);
        assert_eq!(refused, Err(Error::WrappedKeyInvalid));
        let private = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC);
        let refused = unwrap(&client, session, &kwp, by, &wrapped, &private);
        assert_eq!(refused, Err(Error::WrappedKeyInvalid));
    });
}

#[test]
fn wrap_and_unwrap_templates_are_enforced() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let forced = none().flag(A::SENSITIVE, true).flag(A::WRAP, false);
        let own = secret(KeyType::AES, &[7; 16]);
        let mut template = own.template();
        for id in [A::WRAP_TEMPLATE, A::UNWRAP_TEMPLATE] {
            template.0.push(Given { id, value: Raw::Template(forced.template()) });
        }
        let by = client.module.create_object(session, &template).expect("a key");
        let key = secret(KeyType::AES, &[8; 16]).flag(A::EXTRACTABLE, true);
        let open = client.create(session, &key).expect("a key");
        let refused = client.module.wrap_key(session, &kwp, by, open, Output::Length);
        assert_eq!(refused, Err(Error::KeyHandleInvalid));
        let bound = client.create(session, &key.and(&forced)).expect("a key");
        let wrapped = wrap(&client, session, &kwp, by, bound).expect("a wrapped key");
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES);
        let key = unwrap(&client, session, &kwp, by, &wrapped, &template).expect("a key");
        assert!(client.flag(session, key, A::SENSITIVE) && !client.flag(session, key, A::WRAP));
        let refused = unwrap(&client, session, &kwp, by, &wrapped, &template.flag(A::WRAP, true));
        assert_eq!(refused, Err(Error::TemplateInconsistent));
    });
}

#[test]
fn a_wrong_wrapping_key_has_its_own_error() {
    each_backend(|provider| {
        let client = &Client::new(provider);
        let session = client.user();
        let key = client.create(session, &secret(KeyType::AES, &[7; 16]).and(&shown())).expect("a key");
        let generic = client.create(session, &secret(KeyType::GENERIC_SECRET, &[8; 16])).expect("a key");
        let (kw, absent) = (plain(M::AES_KEY_WRAP), ObjectHandle(u64::MAX));
        let out = |by| client.module.wrap_key(session, &kw, by, key, Output::Length);
        assert_eq!(out(absent), Err(Error::WrappingKeyHandleInvalid));
        assert_eq!(out(generic), Err(Error::WrappingKeyTypeInconsistent));
        let template = secret(KeyType::AES, &[]).without(A::VALUE);
        let back = |by| client.module.unwrap_key(session, &kw, by, &[0; 24], &template.template());
        assert_eq!(back(absent), Err(Error::UnwrappingKeyHandleInvalid));
        assert_eq!(back(generic), Err(Error::UnwrappingKeyTypeInconsistent));
    });
}
