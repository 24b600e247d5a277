//! Compares the ciphers and MACs of the backends: each backend decrypts the ciphertext of the
//! others, also in several parts.

use jeton::backend::{AeadScheme, Cipher, CipherScheme, Direction, Hash, MacScheme, Provider};
use jeton::error::Error;

use crate::support::{bytes, crypt, mac, pairs, run};

/// A scheme with the lengths that it accepts and refuses.
struct Case {
    name: &'static str,
    /// Takes the length of the message, because CCM needs it.
    scheme: fn(usize) -> CipherScheme,
    keys: &'static [usize],
    /// Message lengths that encryption accepts.
    takes: &'static [usize],
    /// Message lengths that encryption refuses.
    refuses: &'static [usize],
    /// Ciphertext lengths that decryption refuses.
    refuses_back: &'static [usize],
    authenticated: bool,
}

const IV: [u8; 16] = *b"initial vector 1";
const AES: &[usize] = &[16, 24, 32];
const ANY: &[usize] = &[0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 1000, 4111];
const BLOCKS: &[usize] = &[0, 16, 32, 48, 256, 272, 4096];
const NO_BLOCKS: &[usize] = &[1, 15, 17, 31, 33, 4095];
const FROM_A_BLOCK: &[usize] = &[16, 17, 20, 31, 32, 33, 47, 48, 49, 255, 256, 257, 1000];
const BELOW_A_BLOCK: &[usize] = &[0, 1, 15];

const CASES: &[Case] = &[
    Case {
        name: "ECB",
        scheme: |_| CipherScheme::AesEcb,
        keys: AES,
        takes: BLOCKS,
        refuses: NO_BLOCKS,
        refuses_back: NO_BLOCKS,
        authenticated: false,
    },
    Case {
        name: "CBC",
        scheme: |_| CipherScheme::AesCbc { iv: IV, padded: false },
        keys: AES,
        takes: BLOCKS,
        refuses: NO_BLOCKS,
        refuses_back: NO_BLOCKS,
        authenticated: false,
    },
    Case {
        name: "CBC with padding",
        scheme: |_| CipherScheme::AesCbc { iv: IV, padded: true },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[0, 1, 15, 17, 33],
        authenticated: false,
    },
    Case {
        name: "CTS",
        scheme: |_| CipherScheme::AesCts { iv: IV },
        keys: AES,
        takes: FROM_A_BLOCK,
        refuses: BELOW_A_BLOCK,
        refuses_back: BELOW_A_BLOCK,
        authenticated: false,
    },
    Case {
        name: "XTS",
        scheme: |_| CipherScheme::AesXts { tweak: IV },
        keys: &[32, 64],
        takes: FROM_A_BLOCK,
        refuses: BELOW_A_BLOCK,
        refuses_back: BELOW_A_BLOCK,
        authenticated: false,
    },
    Case {
        name: "CTR of 128 bits",
        scheme: |_| CipherScheme::AesCtr { block: IV, bits: 128 },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[],
        authenticated: false,
    },
    Case {
        name: "CTR of 11 bits",
        scheme: |_| CipherScheme::AesCtr { block: [0; 16], bits: 11 },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[],
        authenticated: false,
    },
    Case {
        name: "OFB",
        scheme: |_| CipherScheme::AesOfb { iv: IV },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[],
        authenticated: false,
    },
    Case {
        name: "CFB1",
        scheme: |_| CipherScheme::AesCfb { iv: IV, bits: 1 },
        keys: AES,
        takes: &[0, 1, 2, 15, 16, 17, 100],
        refuses: &[],
        refuses_back: &[],
        authenticated: false,
    },
    Case {
        name: "CFB8",
        scheme: |_| CipherScheme::AesCfb { iv: IV, bits: 8 },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[],
        authenticated: false,
    },
    Case {
        name: "CFB64",
        scheme: |_| CipherScheme::AesCfb { iv: IV, bits: 64 },
        keys: AES,
        takes: &[0, 8, 16, 24, 1000],
        refuses: &[1, 7, 9, 15],
        refuses_back: &[1, 7, 9, 15],
        authenticated: false,
    },
    Case {
        name: "CFB128",
        scheme: |_| CipherScheme::AesCfb { iv: IV, bits: 128 },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[],
        authenticated: false,
    },
    Case {
        name: "GCM",
        scheme: |_| CipherScheme::Aead {
            cipher: AeadScheme::AesGcm,
            nonce: IV[..12].into(),
            aad: IV[..5].into(),
            tag_len: 16,
            data_len: 0,
        },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[0, 1, 15],
        authenticated: true,
    },
    Case {
        name: "GCM with a long nonce and a short tag",
        scheme: |_| CipherScheme::Aead {
            cipher: AeadScheme::AesGcm,
            nonce: vec![7; 256].into(),
            aad: Box::default(),
            tag_len: 4,
            data_len: 0,
        },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[0, 1, 3],
        authenticated: true,
    },
    Case {
        name: "CCM",
        scheme: |len| CipherScheme::Aead {
            cipher: AeadScheme::AesCcm,
            nonce: IV[..13].into(),
            aad: IV[..].into(),
            tag_len: 16,
            data_len: len,
        },
        keys: AES,
        takes: ANY,
        refuses: &[],
        refuses_back: &[0, 15],
        authenticated: true,
    },
    Case {
        name: "CCM with much additional data",
        scheme: |len| CipherScheme::Aead {
            cipher: AeadScheme::AesCcm,
            nonce: IV[..7].into(),
            aad: vec![9; 0x1_0001].into(),
            tag_len: 6,
            data_len: len,
        },
        keys: AES,
        takes: &[0, 1, 16, 100],
        refuses: &[],
        refuses_back: &[0, 5],
        authenticated: true,
    },
    Case {
        name: "KW",
        scheme: |_| CipherScheme::AesKw { iv: None },
        keys: AES,
        takes: &[16, 24, 32, 40, 64, 1000],
        refuses: &[0, 8, 15, 17, 20],
        refuses_back: &[0, 8, 16, 23, 25],
        authenticated: true,
    },
    Case {
        name: "KW with an initial value",
        scheme: |_| CipherScheme::AesKw { iv: Some([3; 8]) },
        keys: AES,
        takes: &[16, 24],
        refuses: &[],
        refuses_back: &[],
        authenticated: true,
    },
    Case {
        name: "KWP",
        scheme: |_| CipherScheme::AesKwp { iv: None },
        keys: AES,
        takes: &[1, 7, 8, 9, 15, 16, 17, 100, 1000],
        refuses: &[0],
        refuses_back: &[0, 8, 15, 17],
        authenticated: true,
    },
    Case {
        name: "KWP with an initial value",
        scheme: |_| CipherScheme::AesKwp { iv: Some([3; 4]) },
        keys: AES,
        takes: &[1, 8, 9],
        refuses: &[],
        refuses_back: &[],
        authenticated: true,
    },
    Case {
        name: "ChaCha20",
        scheme: |_| CipherScheme::ChaCha20 { nonce: IV[..12].into(), counter: 3 },
        keys: &[32],
        takes: ANY,
        refuses: &[],
        refuses_back: &[],
        authenticated: false,
    },
    Case {
        name: "ChaCha20 with a counter of 64 bits",
        scheme: |_| CipherScheme::ChaCha20 { nonce: IV[..8].into(), counter: 0xffff_fffe },
        keys: &[32],
        takes: ANY,
        refuses: &[],
        refuses_back: &[],
        authenticated: false,
    },
    Case {
        name: "ChaCha20-Poly1305",
        scheme: |_| CipherScheme::Aead {
            cipher: AeadScheme::ChaCha20Poly1305,
            nonce: [5; 12].into(),
            aad: IV[..3].into(),
            tag_len: 16,
            data_len: 0,
        },
        keys: &[32],
        takes: ANY,
        refuses: &[],
        refuses_back: &[0, 15],
        authenticated: true,
    },
];

fn cipher(provider: &Provider, case: &Case, direction: Direction, key: &[u8], len: usize) -> Box<dyn Cipher> {
    let made = provider.ciphers.cipher(&(case.scheme)(len), direction, key);
    made.unwrap_or_else(|error| panic!("{} {}: {error:?}", provider.name, case.name))
}

#[test]
fn each_backend_decrypts_the_ciphertext_of_the_other_in_any_parts() {
    for (from, to) in pairs() {
        for case in CASES {
            for (key, &len) in
                case.keys.iter().flat_map(|key| case.takes.iter().map(move |len| (bytes(*key), len)))
            {
                let what = format!("{} to {}: {} of {len} bytes", from.name, to.name, case.name);
                let message = bytes(len);
                let sealed = run(&mut *cipher(from, case, Direction::Encrypt, &key, len), [&message[..]])
                    .expect(&what);
                let mut encrypting = cipher(to, case, Direction::Encrypt, &key, len);
                let mut decrypting = cipher(to, case, Direction::Decrypt, &key, len);
                // The same cipher processes several messages. After each one, it starts another
                // message, and `reset` drops that message.
                for part in [1, 3, 16, 17, 100] {
                    assert_eq!(
                        run(&mut *encrypting, message.chunks(part)).as_ref(),
                        Ok(&sealed),
                        "{what} by {part}"
                    );
                    assert_eq!(
                        run(&mut *decrypting, sealed.chunks(part)).as_ref(),
                        Ok(&message),
                        "{what} by {part}"
                    );
                    for cipher in [&mut encrypting, &mut decrypting] {
                        cipher.update(&[1; 19], &mut [0; 64]).expect(&what);
                        cipher.reset().expect(&what);
                    }
                }
                if case.authenticated {
                    refuses_spoilt(&what, &mut *decrypting, &sealed);
                    assert_eq!(
                        run(&mut *decrypting, [&sealed[..]]).as_ref(),
                        Ok(&message),
                        "{what}: after refusals"
                    );
                }
            }
        }
    }
}

fn refuses_spoilt(what: &str, cipher: &mut dyn Cipher, sealed: &[u8]) {
    for at in [0, sealed.len() / 2, sealed.len() - 1] {
        let mut spoilt = sealed.to_vec();
        spoilt[at] ^= 0x10;
        assert_eq!(run(cipher, [&spoilt[..]]), Err(Error::EncryptedDataInvalid), "{what}: byte {at}");
    }
}

#[test]
fn wrong_lengths_are_refused_and_the_cipher_continues() {
    for provider in Provider::ALL {
        for case in CASES {
            let key = bytes(case.keys[0]);
            let good = *case.takes.last().expect("a length");
            for (direction, lens, error) in [
                (Direction::Encrypt, case.refuses, Error::DataLenRange),
                (Direction::Decrypt, case.refuses_back, Error::EncryptedDataLenRange),
            ] {
                let sealed =
                    crypt(provider, &(case.scheme)(good), Direction::Encrypt, &key, &bytes(good)).unwrap();
                let (input, output) = match direction {
                    Direction::Encrypt => (bytes(good), sealed),
                    Direction::Decrypt => (sealed, bytes(good)),
                };
                let mut cipher = cipher(provider, case, direction, &key, good);
                for len in lens {
                    let outcome = run(&mut *cipher, [&bytes(*len)[..]]);
                    assert_eq!(outcome, Err(error), "{} {} {len}", provider.name, case.name);
                    let outcome = run(&mut *cipher, [&input[..]]);
                    assert_eq!(outcome.as_ref(), Ok(&output), "{} {}: after {len}", provider.name, case.name);
                }
            }
        }
    }
}

#[test]
fn keys_of_wrong_lengths_are_refused() {
    for provider in Provider::ALL {
        for case in CASES {
            for len in [0, 1, 15, 17, 31, 33, 63, 65] {
                let made = provider.ciphers.cipher(&(case.scheme)(0), Direction::Encrypt, &bytes(len));
                assert_eq!(made.err(), Some(Error::KeySizeRange), "{} {} {len}", provider.name, case.name);
            }
        }
    }
}

#[test]
fn parameters_of_wrong_lengths_are_refused() {
    let gcm = |iv: usize, tag_len| CipherScheme::Aead {
        cipher: AeadScheme::AesGcm,
        nonce: bytes(iv).into(),
        aad: Box::default(),
        tag_len,
        data_len: 0,
    };
    let ccm = |nonce: usize, tag_len, data_len| CipherScheme::Aead {
        cipher: AeadScheme::AesCcm,
        nonce: bytes(nonce).into(),
        aad: Box::default(),
        tag_len,
        data_len,
    };
    for provider in Provider::ALL {
        let schemes = [
            gcm(0, 16),
            gcm(AeadScheme::MAX_NONCE + 1, 16),
            gcm(12, 0),
            gcm(12, 7),
            gcm(12, 11),
            gcm(12, 17),
            ccm(6, 16, 0),
            ccm(14, 16, 0),
            ccm(13, 2, 0),
            ccm(13, 5, 0),
            ccm(13, 18, 0),
            // More than a length field of two bytes can hold.
            ccm(13, 16, 0x1_0000),
            CipherScheme::AesCfb { iv: IV, bits: 16 },
        ];
        for (index, scheme) in schemes.iter().enumerate() {
            let made = provider.ciphers.cipher(scheme, Direction::Encrypt, &[1; 16]).err();
            assert_eq!(made, Some(Error::MechanismParamInvalid), "{} {index}", provider.name);
        }
    }
}

#[test]
fn wrong_padding_is_refused() {
    let raw = CipherScheme::AesCbc { iv: IV, padded: false };
    let padded = CipherScheme::AesCbc { iv: IV, padded: true };
    for provider in Provider::ALL {
        let key = bytes(32);
        for end in [[2, 1], [9, 0], [9, 17], [1, 2], [3, 3], [9, 255]] {
            let message = [&[9; 30][..], &end].concat();
            let sealed = crypt(provider, &raw, Direction::Encrypt, &key, &message).unwrap();
            let outcome = crypt(provider, &padded, Direction::Decrypt, &key, &sealed);
            let expected =
                if end == [2, 1] { Ok(message[..31].to_vec()) } else { Err(Error::EncryptedDataInvalid) };
            assert_eq!(outcome, expected, "{} {end:?}", provider.name);
        }
    }
}

#[test]
fn ccm_refuses_a_message_whose_length_differs_from_the_parameter() {
    let scheme = CipherScheme::Aead {
        cipher: AeadScheme::AesCcm,
        nonce: bytes(12).into(),
        aad: Box::default(),
        tag_len: 8,
        data_len: 20,
    };
    for provider in Provider::ALL {
        for len in [0, 19, 21] {
            let outcome = crypt(provider, &scheme, Direction::Encrypt, &bytes(16), &bytes(len));
            assert_eq!(outcome, Err(Error::DataLenRange), "{} {len}", provider.name);
        }
    }
}

#[test]
fn both_backends_make_the_same_macs() {
    let hmacs = Hash::ALL.into_iter().filter(|hash| !matches!(hash, Hash::Shake128 | Hash::Shake256));
    let mut schemes: Vec<(MacScheme, &[usize])> =
        hmacs.map(|hash| (MacScheme::Hmac(hash), &[0, 1, 32, 64, 65, 136, 200][..])).collect();
    schemes.extend([
        (MacScheme::AesCmac, AES),
        (MacScheme::AesGmac { iv: IV[..12].into() }, AES),
        (MacScheme::AesGmac { iv: IV[..1].into() }, AES),
        (MacScheme::AesCbcMac, AES),
        (MacScheme::AesXcbc, &AES[..1]),
    ]);
    for (from, to) in pairs() {
        for (index, (scheme, keys)) in schemes.iter().enumerate() {
            for (key, len) in keys.iter().flat_map(|key| ANY.iter().map(move |len| (bytes(*key), *len))) {
                let what = format!("{} and {}: MAC {index} of {len} bytes", from.name, to.name);
                let message = bytes(len);
                let expected = mac(from, scheme, &key, &message, len.max(1)).expect(&what);
                let mut code = to.macs.mac(scheme, &key).expect(&what);
                assert_eq!(code.mac_len(), expected.len(), "{what}");
                for part in [1, 16, 17, 129] {
                    message.chunks(part).for_each(|part| code.update(part).expect(&what));
                    let mut made = vec![0; expected.len()];
                    code.finish(&mut made).expect(&what);
                    assert_eq!(made, expected, "{what} by {part}");
                    code.update(&[1; 19]).expect(&what);
                    code.reset().expect(&what);
                }
            }
        }
    }
}
