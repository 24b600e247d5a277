//! The words in messages.

use jeton_secret::Secret;
use jeton_words::cipher::{AeadScheme, CipherScheme};
use jeton_words::hash::Hash;
use jeton_words::id::{AttributeType, MechanismType};
use jeton_words::mechanism::{MECHANISMS, Mechanism, find};
use jeton_words::message::{Generator, MessageParams};
use jeton_words::params::Params;
use jeton_words::password::Password;
use jeton_words::template::{Given, Raw, Template};
use jeton_words::tls::{Randoms, TlsPrf};
use postcard::{from_bytes, to_allocvec};

fn again(given: &Mechanism) -> Mechanism {
    from_bytes(&to_allocvec(given).expect("a message")).expect("a mechanism")
}

#[test]
fn a_mechanism_and_its_parameter_are_the_same_after_a_message() {
    for info in &MECHANISMS {
        let given = Mechanism { info, params: Params::None };
        assert!(again(&given) == given, "{}", info.id);
    }
    let aead = |nonce: &[u8]| {
        let (cipher, nonce) = (AeadScheme::AesGcm, nonce.into());
        Params::Cipher(CipherScheme::Aead { cipher, nonce, aad: [7; 300].into(), tag_len: 16, data_len: 0 })
    };
    let password = Password(Secret::from(&b"a password"[..]));
    let pbkdf2 = Params::Pbkdf2 { hash: Hash::Sha256, salt: [1, 2].into(), iterations: 9, password };
    for params in [aead(&[1; 12]), aead(&[2; 17]), pbkdf2] {
        let given = Mechanism { info: &MECHANISMS[0], params };
        assert!(again(&given) == given);
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
