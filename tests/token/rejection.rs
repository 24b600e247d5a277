//! Results that do not reveal whether a padding is valid: PKCS #1 v1.5 with implicit rejection, and
//! the CBC padding of wrapped keys.

use std::cell::OnceCell;

use crate::prelude::*;

const VECTORS: &str = include_str!("rejection.txt");

fn message(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(3).wrapping_add(1)).collect()
}

/// Reads the lines of the vectors as pairs of name and value.
fn vectors() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once('=').expect("two sides"))
        .map(|(left, right)| (left.trim(), hex(right.trim())))
}

fn key(client: &Client, session: SessionHandle) -> (ObjectHandle, ObjectHandle) {
    let number = |name| vectors().find(|(left, _)| *left == name).expect("a number of the key").1;
    let half = |class| {
        let half = key_object(class, KeyType::RSA);
        half.bytes(A::MODULUS, &number("n")).bytes(A::PUBLIC_EXPONENT, &number("e"))
    };
    let private = half(ObjectClass::PRIVATE_KEY)
        .bytes(A::PRIVATE_EXPONENT, &number("d"))
        .bytes(A::PRIME_1, &number("p"))
        .bytes(A::PRIME_2, &number("q"))
        .bytes(A::EXPONENT_1, &number("dp"))
        .bytes(A::EXPONENT_2, &number("dq"))
        .bytes(A::COEFFICIENT, &number("qinv"));
    let public = client.create(session, &half(ObjectClass::PUBLIC_KEY)).expect("a key");
    (public, client.create(session, &private).expect("a key"))
}

/// Returns `00 02`, bytes that are not zero, `00` and the message, up to the length of the modulus.
fn padded(message: &[u8]) -> Vec<u8> {
    [&[0, 2][..], &vec![0x55; 256 - 3 - message.len()], &[0], message].concat()
}

/// Returns encoded messages with every type of wrong padding.
fn wrong_paddings() -> Vec<(&'static str, Vec<u8>)> {
    let mechanism = |at: usize, byte| {
        let mut em = padded(&[7; 32]);
        em[at] = byte;
        em
    };
    vec![
        ("the first byte is not 0", mechanism(0, 1)),
        ("the second byte is not 2", mechanism(1, 1)),
        ("no byte of padding", mechanism(2, 0)),
        ("seven bytes of padding", mechanism(9, 0)),
        ("no zero after the padding", [&[0, 2][..], &[0x55; 254]].concat()),
        ("all zeros", vec![0; 256]),
        ("the number 1", [&[0; 255][..], &[1]].concat()),
    ]
}

/// Encrypts a whole block without padding.
fn sealed(client: &Client, session: SessionHandle, public: ObjectHandle, em: &[u8]) -> Vec<u8> {
    client.crypt(session, Direction::Encrypt, &plain(M::RSA_X_509), public, em).expect("a ciphertext")
}

#[test]
fn implicit_rejection_matches_other_implementations() {
    each_user(|client, session| {
        let (_, private) = key(client, session);
        let ciphertexts: Vec<_> = vectors().filter(|(left, _)| left.len() == 512).collect();
        assert_eq!(ciphertexts.len(), 8);
        for (ciphertext, message) in ciphertexts {
            let ciphertext = hex(ciphertext);
            let opened = client.crypt(session, Direction::Decrypt, &plain(M::RSA_PKCS), private, &ciphertext);
            assert_eq!(opened.as_ref(), Ok(&message));
        }
    });
}

#[test]
fn wrong_pkcs1_padding_decrypts_to_the_same_bytes_in_each_backend() {
    let of_first = OnceCell::new();
    each_user(|client, session| {
        let (public, private) = key(client, session);
        let mechanism = plain(M::RSA_PKCS);
        let mut all = Vec::new();
        for (wrong, em) in wrong_paddings() {
            let ciphertext = sealed(client, session, public, &em);
            let opened = client.crypt(session, Direction::Decrypt, &mechanism, private, &ciphertext);
            assert!(opened.is_ok(), "{wrong}: {opened:?}");
            for _ in 0..2 {
                let again = client.crypt(session, Direction::Decrypt, &mechanism, private, &ciphertext);
                assert_eq!(again, opened);
            }
            all.push(opened);
        }
        for pair in all.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
        assert_eq!(of_first.get_or_init(|| all.clone()), &all);
        // Eight bytes of padding are enough, and a message may be empty.
        for len in [245, 244, 32, 1, 0] {
            let ciphertext = sealed(client, session, public, &padded(&message(len)));
            let opened = client.crypt(session, Direction::Decrypt, &mechanism, private, &ciphertext);
            assert_eq!(opened, Ok(message(len)));
        }
        // An error that depends only on public data is still returned.
        let above = client.crypt(session, Direction::Decrypt, &mechanism, private, &[0xff; 256]);
        assert_eq!(above, Err(Error::EncryptedDataInvalid));
        let short = client.crypt(session, Direction::Decrypt, &mechanism, private, &[1; 255]);
        assert_eq!(short, Err(Error::EncryptedDataLenRange));
    });
}

/// Returns the attributes of a secret key whose value can be read.
fn shown(key_type: KeyType) -> Attributes {
    key_object(ObjectClass::SECRET_KEY, key_type).flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true)
}

#[test]
fn wrong_pkcs1_padding_unwraps_to_the_same_key_of_the_wanted_length() {
    let of_first = OnceCell::new();
    each_user(|client, session| {
        let (public, private) = key(client, session);
        let mechanism = plain(M::RSA_PKCS);
        let sized = |key_type, len: u64| (shown(key_type).number(A::VALUE_LEN, len), vec![len as usize]);
        let wanted = [
            sized(KeyType::GENERIC_SECRET, 48),
            sized(KeyType::AES, 16),
            sized(KeyType::AES, 32),
            (shown(KeyType::AES), vec![16, 24, 32]),
            (shown(KeyType::DES3), vec![24]),
            (shown(KeyType::CHACHA20), vec![32]),
            (shown(KeyType::GENERIC_SECRET), (1..=245).collect()),
        ];
        let mut all = Vec::new();
        let mut cases = wrong_paddings();
        // A valid padding, with a message whose length is wrong for most of these keys.
        cases.push(("5 bytes", padded(&[7; 5])));
        cases.push(("nothing", padded(&[])));
        for (wrong, em) in cases {
            let ciphertext = sealed(client, session, public, &em);
            for (template, lengths) in &wanted {
                let open = || {
                    let key = client.unwrap(session, &mechanism, private, &ciphertext, template);
                    let key = key.unwrap_or_else(|error| panic!("{wrong}: {error:?}"));
                    client.read(session, key, A::VALUE).expect("a value")
                };
                let value = open();
                assert!(lengths.contains(&value.len()), "{wrong}: {} bytes", value.len());
                assert_eq!(open(), value, "{wrong}");
                all.push(value);
            }
            // The unwrapping of a private key always fails with the same error.
            let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC);
            let refused = client.unwrap(session, &mechanism, private, &ciphertext, &template);
            assert_eq!(refused, Err(Error::WrappedKeyInvalid), "{wrong}");
        }
        assert_eq!(of_first.get_or_init(|| all.clone()), &all);
        for (template, lengths) in &wanted {
            // Each byte has odd parity, as DES needs.
            let value = vec![7; lengths[0]];
            let ciphertext = sealed(client, session, public, &padded(&value));
            let key = client.unwrap(session, &mechanism, private, &ciphertext, template).expect("a key");
            assert_eq!(client.read(session, key, A::VALUE), Ok(value));
        }
        let ciphertext = sealed(client, session, public, &padded(&[7; 32]));
        let long = shown(KeyType::GENERIC_SECRET).number(A::VALUE_LEN, 246);
        let refused = client.unwrap(session, &mechanism, private, &ciphertext, &long);
        assert_eq!(refused, Err(Error::KeySizeRange), "no message has this length");
    });
}

fn cbc_pad(id: M, block: usize) -> Mechanism {
    with_iv(id, &vec![3; block])
}

#[test]
fn every_invalid_unauthenticated_wrapped_key_has_the_same_error() {
    each_user(|client, session| {
        let oaep = oaep(Hash::Sha256, Hash::Sha256, b"");
        let des3 = client.generate_key(session, M::DES3_KEY_GEN, &none());
        let des3 = des3.expect("a key");
        for (mechanism, block, (by, back)) in [
            (cbc_pad(M::AES_CBC_PAD, 16), 16, pair(client, session, Kind::Aes, &none())),
            (cbc_pad(M::DES3_CBC_PAD, 8), 8, (des3, des3)),
            (oaep, 0, pair(client, session, Kind::Rsa, &none())),
        ] {
            for len in [1, 20, 33] {
                let value = shown(KeyType::GENERIC_SECRET).bytes(A::VALUE, &message(len));
                let key = client.create(session, &value).expect("a key");
                let wrapped = client.wrap(session, &mechanism, by, key).expect("a wrapped key");
                for template in [
                    shown(KeyType::AES),
                    shown(KeyType::DES3),
                    shown(KeyType::GENERIC_SECRET).number(A::VALUE_LEN, 21),
                    key_object(ObjectClass::PRIVATE_KEY, KeyType::RSA),
                ] {
                    let refused = client.unwrap(session, &mechanism, back, &wrapped, &template);
                    assert_eq!(refused, Err(Error::WrappedKeyInvalid));
                }
                // Vaudenay's attack gives the last byte of the padding each value.
                for flip in (1..=u8::MAX).filter(|_| block > 0) {
                    let mut forged = [&vec![0; block][..], &wrapped].concat();
                    let at = forged.len() - block - 1;
                    forged[at] ^= flip;
                    let template = shown(KeyType::AES).number(A::VALUE_LEN, 24);
                    let refused = client.unwrap(session, &mechanism, back, &forged, &template);
                    assert_eq!(refused, Err(Error::WrappedKeyInvalid), "{flip}");
                }
            }
            if block == 0 {
                continue;
            }
            // A private key of another type than the template says.
            let private = RSA.private.clone().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true);
            let key = client.create(session, &private).expect("a key");
            let wrapped = client.wrap(session, &mechanism, by, key).expect("a wrapped key");
            let other = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC);
            let refused = client.unwrap(session, &mechanism, back, &wrapped, &other);
            assert_eq!(refused, Err(Error::WrappedKeyInvalid));
        }
    });
}
