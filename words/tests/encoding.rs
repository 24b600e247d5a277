//! The words in messages.

use jeton_secret::Secret;
use jeton_words::cipher::{AeadScheme, CipherMode, CipherScheme, Nonce};
use jeton_words::hash::Hash;
use jeton_words::id::{AttributeType, MechanismType, ObjectHandle};
use jeton_words::mechanism::{MECHANISMS, Mechanism, find};
use jeton_words::message::{Generator, MessageParams};
use jeton_words::params::{AgreementKdf, HkdfSalt, MuKey, Params};
use jeton_words::password::Password;
use jeton_words::shape::{MacFunction, Shape};
use jeton_words::sp800_108::{Field, Kdf, Number};
use jeton_words::template::{Given, Raw, Template};
use jeton_words::tls::{Randoms, TlsPrf};
use postcard::{from_bytes, to_allocvec};

fn again(given: &Mechanism) -> Mechanism {
    from_bytes(&to_allocvec(given).expect("a message")).expect("a mechanism")
}

#[test]
fn a_mechanism_and_its_parameter_are_the_same_after_a_message() {
    let aead = |nonce: &[u8]| {
        let (cipher, nonce) = (AeadScheme::AesGcm, nonce.into());
        Params::Cipher(CipherScheme::Aead { cipher, nonce, aad: [7; 300].into(), tag_len: 16, data_len: 0 })
    };
    let password = Password(Secret::from(&b"a password"[..]));
    let pbkdf2 = Params::Pbkdf2 { hash: Hash::Sha256, salt: [1, 2].into(), iterations: 9, password };
    for (id, params) in [
        (MechanismType::SHA256, Params::None),
        (MechanismType::AES_GCM, aead(&[1; 12])),
        (MechanismType::AES_GCM, aead(&[2; 17])),
        (MechanismType::PKCS5_PBKD2, pbkdf2),
    ] {
        let given = Mechanism { info: find(id).expect("a mechanism"), params };
        assert!(again(&given) == given);
    }
}

/// A parameter, and whether a mechanism of a shape has such a one.
type Sample = (Params, fn(Shape) -> bool);

/// Returns a parameter of each variant, and of each part that the shape chooses.
fn samples() -> Vec<Sample> {
    let (hash, mgf, some) = (Hash::Sha256, Hash::Sha256, || Box::<[u8]>::from([7; 12]));
    let prf = TlsPrf::Hash(hash);
    let mac = MacFunction::Hmac(hash);
    let key = ObjectHandle(9);
    let randoms = || Randoms { client: [1; 32].into(), server: [2; 32].into() };
    let context = |hash| Params::SignContext { deterministic: false, context: some(), hash };
    let keys = |prf, iv_len| Params::TlsKeys { prf, randoms: randoms(), mac_len: 0, key_len: 16, iv_len };
    let aead = |cipher| {
        let nonce: Nonce = [1; 12].into();
        Params::Cipher(CipherScheme::Aead { cipher, nonce, aad: some(), tag_len: 16, data_len: 0 })
    };
    let cipher = |scheme| Params::Cipher(scheme);
    let fields = |number| vec![Field::Iteration(number)];
    let number = Some(Number { little_endian: false, len: 4 });
    let kdf = |number, iv| Params::Sp800_108 { prf: mac, fields: fields(number), iv };
    let password = Password(Secret::from(&b"a password"[..]));
    let old = TlsPrf::Md5Sha1;
    vec![
        (Params::None, |shape| {
            let is_optional = matches!(shape, Shape::Eddsa | Shape::SignContext);
            is_optional || matches!(shape, Shape::None | Shape::Cipher(CipherMode::Aead(_)))
        }),
        (Params::Pss { hash, mgf, salt_len: 32 }, |shape| shape == Shape::Pss),
        (Params::Eddsa { prehash: false, context: some() }, |shape| shape == Shape::Eddsa),
        (context(None), |shape| shape == Shape::SignContext),
        (context(Some(hash)), |shape| shape == Shape::HashSignContext),
        (Params::MuGen { key: MuKey::Object(key), context: some() }, |shape| shape == Shape::MuGen),
        (Params::Oaep { hash, mgf, label: some() }, |shape| shape == Shape::Oaep),
        (Params::RsaAesWrap { aes_bits: 256, hash, mgf, label: some() }, |shape| shape == Shape::RsaAesWrap),
        (cipher(CipherScheme::AesEcb), |shape| shape == Shape::Cipher(CipherMode::AesEcb)),
        (cipher(CipherScheme::AesCbc { iv: [0; 16], padded: true }), |shape| {
            shape == Shape::Cipher(CipherMode::AesCbcPad)
        }),
        (cipher(CipherScheme::AesCfb { iv: [0; 16], bits: 8 }), |shape| {
            shape == Shape::Cipher(CipherMode::AesCfb(8))
        }),
        (aead(AeadScheme::AesGcm), |shape| shape == Shape::Cipher(CipherMode::Aead(AeadScheme::AesGcm))),
        (aead(AeadScheme::AesCcm), |shape| shape == Shape::Cipher(CipherMode::Aead(AeadScheme::AesCcm))),
        (Params::Gmac { iv: some(), tag_len: 16 }, |shape| shape == Shape::Gmac),
        (Params::Length(12), |shape| shape == Shape::Length),
        (Params::Ecdh { kdf: Some(AgreementKdf::X963(hash)), shared: some(), peer: some() }, |shape| {
            shape == Shape::Ecdh
        }),
        (Params::Hkdf { extract: true, expand: true, hash, salt: HkdfSalt::Null, info: some() }, |shape| {
            shape == Shape::Hkdf
        }),
        (Params::Data(some()), |shape| matches!(shape, Shape::Data | Shape::Integer)),
        (Params::CbcData { iv: [0; 16], data: some() }, |shape| shape == Shape::CbcData),
        (Params::Key(key), |shape| shape == Shape::Key),
        (Params::Bit(3), |shape| shape == Shape::Bit),
        (Params::EcdhAesWrap { aes_bits: 256, kdf: None, shared: [].into() }, |shape| {
            shape == Shape::EcdhAesWrap
        }),
        (Params::Otp { counter: None, digits: None, format: None, flags: 0 }, |shape| shape == Shape::Otp),
        (kdf(number, [].into()), |shape| shape == Shape::Sp800_108(Kdf::Counter)),
        (kdf(None, [].into()), |shape| {
            matches!(shape, Shape::Sp800_108(Kdf::Feedback | Kdf::DoublePipeline))
        }),
        (kdf(None, some()), |shape| shape == Shape::Sp800_108(Kdf::Feedback)),
        (Params::Pbkdf2 { hash, salt: some(), iterations: 9, password }, |shape| shape == Shape::Pbkdf2),
        (Params::Version([3, 1]), |shape| shape == Shape::Version),
        (Params::TlsMaster { prf: old, randoms: randoms() }, |shape| matches!(shape, Shape::TlsMaster(_))),
        (Params::TlsMaster { prf, randoms: randoms() }, |shape| matches!(shape, Shape::Tls12Master(_))),
        (Params::TlsExtendedMaster { prf, session_hash: some() }, |shape| {
            matches!(shape, Shape::Tls12ExtendedMaster(_))
        }),
        (keys(old, 16), |shape| shape == Shape::TlsKeys),
        (keys(prf, 16), |shape| shape == Shape::Tls12Keys),
        // Its key block has no vectors.
        (keys(prf, 0), |shape| matches!(shape, Shape::Tls12Keys | Shape::Tls12SafeKeys)),
        (Params::TlsKdf { prf, label: some(), randoms: randoms(), context: None }, |shape| {
            shape == Shape::TlsKdf
        }),
        (Params::TlsMac { prf: old, len: 12, server: true }, |shape| shape == Shape::TlsMac),
        (Params::TlsPrf { seed: some(), label: some(), len: 48 }, |shape| shape == Shape::TlsPrf),
        (Params::IkePrf { prf: mac, data_as_key: false, nonces: some(), new_key: None }, |shape| {
            shape == Shape::IkePrf
        }),
        (Params::Ike1Prf { prf: mac, shared: key, previous: None, cookies: some(), number: 0 }, |shape| {
            shape == Shape::Ike1Prf
        }),
        (Params::Ike1Extended { prf: mac, shared: None, extra: some() }, |shape| {
            shape == Shape::Ike1Extended
        }),
        (Params::Ike2PrfPlus { prf: mac, seed_key: None, seed: some() }, |shape| shape == Shape::Ike2PrfPlus),
    ]
}

#[test]
fn a_mechanism_has_only_the_parameter_of_its_shape() {
    for (number, (params, has)) in samples().into_iter().enumerate() {
        for info in &MECHANISMS {
            let message = to_allocvec(&(info.id, &params)).expect("a message");
            let is_taken = from_bytes::<Mechanism>(&message).is_ok();
            assert_eq!(is_taken, has(info.shape), "{}, sample {number}", info.id);
        }
    }
}

#[test]
fn an_unknown_mechanism_is_refused() {
    let number = MechanismType(0x8000_0000_0000_0001);
    assert!(find(number).is_none());
    let message = to_allocvec(&(number, Params::None)).expect("a message");
    assert!(from_bytes::<Mechanism>(&message).is_err());
}

#[test]
fn a_parameter_beyond_its_limits_is_refused() {
    let prf = TlsPrf::Hash(Hash::Sha256);
    let keys = |iv_len| {
        let randoms = Randoms { client: [1; 32].into(), server: [2; 32].into() };
        Params::TlsKeys { prf, randoms, mac_len: 0, key_len: 16, iv_len }
    };
    let mac = |len| Params::TlsMac { prf, len, server: true };
    let output = |len| Params::TlsPrf { seed: [1].into(), label: [2].into(), len };
    let data = |len| Params::Data(vec![0; len].into());
    for (id, params, fits) in [
        (MechanismType::TLS12_MAC, mac(12), true),
        (MechanismType::TLS12_MAC, mac(1 << 62), false),
        // A key that may only verify would show its MACs one byte after the other.
        (MechanismType::SHA256_HMAC_GENERAL, Params::Length(0), false),
        (MechanismType::AES_GMAC, Params::Gmac { iv: [1; 12].into(), tag_len: 3 }, false),
        (MechanismType::TLS_PRF, output(48), true),
        (MechanismType::TLS_PRF, output(1 << 62), false),
        (MechanismType::TLS12_KEY_AND_MAC_DERIVE, keys(16), true),
        (MechanismType::TLS12_KEY_AND_MAC_DERIVE, keys(1 << 60), false),
        // Its key block has no vectors.
        (MechanismType::TLS12_KEY_SAFE_DERIVE, keys(0), true),
        (MechanismType::TLS12_KEY_SAFE_DERIVE, keys(16), false),
        (MechanismType::XOR_BASE_AND_DATA, data(1 << 16), true),
        (MechanismType::XOR_BASE_AND_DATA, data((1 << 16) + 1), false),
    ] {
        let message = to_allocvec(&(id, params)).expect("a message");
        assert_eq!(from_bytes::<Mechanism>(&message).is_ok(), fits, "{id}");
    }
}

#[test]
fn a_template_borrows_from_its_message() {
    let bytes = |id, value| Given { id, value: Raw::Bytes(value) };
    let inner = Template(vec![bytes(AttributeType::ID, &[5; 200])]);
    let nested = Given { id: AttributeType::WRAP_TEMPLATE, value: Raw::Template(inner) };
    let message =
        to_allocvec(&Template(vec![bytes(AttributeType::LABEL, b"label"), nested])).expect("a message");
    let read: Template<'_> = from_bytes(&message).expect("a template");
    assert_eq!(read.bytes(AttributeType::LABEL), Some(&b"label"[..]));
    let Raw::Template(inner) = &read.0[1].value else { panic!("not a template") };
    let value = inner.bytes(AttributeType::ID).expect("a value");
    assert_eq!(value, [5; 200]);
    assert!(message.as_ptr_range().contains(&value.as_ptr()));
}

#[test]
fn a_message_parameter_with_wrong_lengths_is_refused() {
    let read = |nonce_len, tag_len: usize, fixed_bits: usize| {
        let nonce = serde_bytes::ByteBuf::from(vec![0; nonce_len]);
        let (scheme, generator) = (AeadScheme::AesGcm, Generator::Counter);
        let fields = (scheme, nonce, fixed_bits, generator, [3u8; 16], tag_len, 0usize);
        from_bytes::<MessageParams>(&to_allocvec(&fields).expect("a message"))
    };
    let good = read(12, 12, 96).expect("a parameter");
    assert_eq!((good.nonce(), good.tag(), good.fixed_bits()), (&[0; 12][..], &[3; 12][..], 96));
    for (nonce_len, tag_len, fixed_bits) in [(12, 17, 0), (12, usize::MAX, 0), (0, 16, 0), (12, 16, 97)] {
        assert!(read(nonce_len, tag_len, fixed_bits).is_err(), "{nonce_len} {tag_len} {fixed_bits}");
    }
}
