//! Wrapping by key agreement. The tests unwrap keys that Python's `cryptography` wrapped, and wrap
//! and unwrap keys with a key pair of each kind in `Kind::AGREEING`.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::{AgreementKdf, Mechanism, Params};
use jeton::module::Output;

use crate::keys::{Kind, P256, RSA, X25519, key_object, pair};
use crate::support::{Attributes, Client, each_backend, hex, none, plain};

/// Every mechanism that has a case here.
pub const COVERED: [M; 3] = [M::ECDH_AES_KEY_WRAP, M::ECDH_COF_AES_KEY_WRAP, M::ECDH_X_AES_KEY_WRAP];

fn with(id: M, aes_bits: usize, kdf: Option<Hash>, shared: &[u8]) -> Mechanism {
    let kdf = kdf.map(AgreementKdf::X963);
    Mechanism { params: Params::EcdhAesWrap { aes_bits, kdf, shared: shared.into() }, ..plain(id) }
}

fn shown() -> Attributes {
    none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true)
}

/// Generates a key pair with CKA_WRAP and CKA_UNWRAP, which are false by default for curves.
fn pair_of(client: &Client, session: SessionHandle, kind: Kind) -> (ObjectHandle, ObjectHandle) {
    let public = kind.request().flag(A::WRAP, true);
    client.generate(session, kind.generator(), &public, &none().flag(A::UNWRAP, true)).expect("a pair")
}

fn wrap(
    client: &Client,
    session: SessionHandle,
    mechanism: &Mechanism,
    by: ObjectHandle,
    key: ObjectHandle,
) -> Result<Vec<u8>, Error> {
    let needed = client.module.wrap_key(session, mechanism, by, key, Output::Length)?;
    let mut out = vec![0; needed];
    let short = client.module.wrap_key(session, mechanism, by, key, Output::Buffer(&mut out[..needed - 1]));
    assert_eq!(short, Err(Error::BufferTooSmall { needed }));
    assert_eq!(client.module.wrap_key(session, mechanism, by, key, Output::Buffer(&mut out)), Ok(needed));
    Ok(out)
}

#[test]
fn keys_wrapped_by_another_library_are_unwrapped() {
    // Every byte of the token's private key is 11. Every byte of the sender's ephemeral private key
    // is 22. The wrapped key has the bytes 00 to 27. All numbers are hexadecimal.
    let p256 = "04d65a93977caa3d1b081852ff57a79e465f1660577304baead505dd3a48589cf3\
                50185e895372df6221ea3a137557e473fddb6755f05bd507c3c533fce9c91285";
    let cases = [
        (
            with(M::ECDH_AES_KEY_WRAP, 256, Some(Hash::Sha256), b"shared"),
            KeyType::EC,
            P256,
            format!(
                "{p256}75c21378d3b81e53a04e9f9a62b6e7caa254c8fcd1faceab4028c37b9ba1b920b2a2d188265fe125\
                 ed66f06f7d7381cb"
            ),
        ),
        (
            with(M::ECDH_COF_AES_KEY_WRAP, 128, None, b""),
            KeyType::EC,
            P256,
            format!(
                "0441{p256}127b8048f7c88ef3a7ce04314fbaa29c854df2cd1dea42d116d17a9c633058bd28d640f6c833\
                 b30d56381939a6cb6fc6"
            ),
        ),
        (
            with(M::ECDH_X_AES_KEY_WRAP, 192, Some(Hash::Sha512), b""),
            KeyType::EC_MONTGOMERY,
            X25519,
            "0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f20\
             6e30501cb7975f7a5cdce9d8978fe79561ad11ff5e7f0334b7a62e7f4d49483b702ee99addc4813d22108c23\
             3dd9411f"
                .to_owned(),
        ),
    ];
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (mechanism, key_type, curve, wrapped) in &cases {
            let own = key_object(ObjectClass::PRIVATE_KEY, *key_type)
                .bytes(A::EC_PARAMS, curve)
                .bytes(A::VALUE, &[0x11; 32])
                .flag(A::UNWRAP, true);
            let own = client.create(session, &own).expect("a key");
            let template = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET).and(&shown());
            let wrapped = hex(wrapped);
            let unwrap = |wrapped: &[u8]| {
                client.module.unwrap_key(session, mechanism, own, wrapped, &template.template())
            };
            let key = unwrap(&wrapped).expect("a key");
            assert_eq!(client.read(session, key, A::VALUE), Ok((0..40).collect()));
            for at in [0, 3, 40, wrapped.len() - 1] {
                let mut flipped = wrapped.clone();
                flipped[at] ^= 1;
                assert_eq!(unwrap(&flipped), Err(Error::WrappedKeyInvalid), "{} {at}", mechanism.info.id);
            }
            assert_eq!(unwrap(&wrapped[..31]), Err(Error::WrappedKeyLenRange));
            assert_eq!(unwrap(&wrapped[..wrapped.len() - 1]), Err(Error::WrappedKeyLenRange));
        }
    });
}

#[test]
fn keys_of_every_type_are_wrapped_and_unwrapped() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let secret = key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &[7; 24]);
        let secret = client.create(session, &secret.and(&shown())).expect("a key");
        let rsa = client.create(session, &RSA.private.clone().and(&shown())).expect("a key");
        for kind in Kind::AGREEING {
            let (public, private) = pair_of(&client, session, kind);
            let own = match kind.key_type() {
                KeyType::EC => M::ECDH_COF_AES_KEY_WRAP,
                _ => M::ECDH_X_AES_KEY_WRAP,
            };
            for mechanism in
                [with(M::ECDH_AES_KEY_WRAP, 256, Some(Hash::Sha384), b"info"), with(own, 128, None, b"")]
            {
                println!("{} {kind:?}", mechanism.info.id);
                for (key, class, key_type, id) in [
                    (secret, ObjectClass::SECRET_KEY, KeyType::AES, A::VALUE),
                    (rsa, ObjectClass::PRIVATE_KEY, KeyType::RSA, A::PRIVATE_EXPONENT),
                ] {
                    let wrapped = wrap(&client, session, &mechanism, public, key).expect("a wrapped key");
                    let template = key_object(class, key_type).flag(A::SENSITIVE, false);
                    let back = client
                        .module
                        .unwrap_key(session, &mechanism, private, &wrapped, &template.template())
                        .expect("a key");
                    assert_eq!(client.read(session, back, id), client.read(session, key, id));
                    let again = wrap(&client, session, &mechanism, public, key).expect("a wrapped key");
                    assert_ne!(wrapped, again);
                }
            }
        }
    });
}

#[test]
fn keys_of_the_wrong_type_or_size_are_refused() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &[7; 16]);
        let key = client.create(session, &key.and(&shown())).expect("a key");
        let (p224, _) = pair_of(&client, session, Kind::P224);
        let (x25519, _) = pair_of(&client, session, Kind::X25519);
        let (ed25519, _) = pair(&client, session, Kind::Ed25519, &none());
        // The CKA_WRAP of this public key has its default, false.
        let (idle, _) = pair(&client, session, Kind::P256, &none());
        let out = |mechanism: &Mechanism, by| wrap(&client, session, mechanism, by, key).err();
        let kdf = |id| with(id, 256, Some(Hash::Sha256), b"");
        assert_eq!(out(&kdf(M::ECDH_AES_KEY_WRAP), idle), Some(Error::KeyFunctionNotPermitted));
        let inconsistent = Some(Error::WrappingKeyTypeInconsistent);
        assert_eq!(out(&kdf(M::ECDH_AES_KEY_WRAP), ed25519), inconsistent);
        assert_eq!(out(&kdf(M::ECDH_COF_AES_KEY_WRAP), x25519), inconsistent);
        assert_eq!(out(&kdf(M::ECDH_X_AES_KEY_WRAP), p224), inconsistent);
        let missing =
            client.module.wrap_key(session, &plain(M::ECDH_AES_KEY_WRAP), p224, key, Output::Length);
        assert_eq!(missing, Err(Error::MechanismParamInvalid));
        // The coordinate of P-224 has fewer than 256 bits, and without a KDF it is the AES key.
        let bare = with(M::ECDH_AES_KEY_WRAP, 256, None, b"");
        let mut room = [0; 200];
        let refused = client.module.wrap_key(session, &bare, p224, key, Output::Buffer(&mut room));
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
    });
}
