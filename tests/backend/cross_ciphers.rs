//! Compares the ciphers and MACs of the backends: each backend decrypts the ciphertext of the
//! others, also in several parts.

use crate::support::*;

/// A scheme with the lengths that it accepts.
struct Case {
    name: &'static str,
    /// Takes the length of the message, because CCM needs it.
    scheme: fn(usize) -> CipherScheme,
    keys: &'static [usize],
    takes: &'static [usize],
}

const IV: [u8; 16] = *b"initial vector 1";
const AES: &[usize] = &[16, 24, 32];
const ANY: &[usize] = &[0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 1000, 4111];
const BLOCKS: &[usize] = &[0, 16, 32, 48, 256, 272, 4096];
const FROM_A_BLOCK: &[usize] = &[16, 17, 20, 31, 32, 33, 47, 48, 49, 255, 256, 257, 1000];

impl Case {
    const fn new(
        name: &'static str,
        keys: &'static [usize],
        takes: &'static [usize],
        scheme: fn(usize) -> CipherScheme,
    ) -> Self {
        Self { name, scheme, keys, takes }
    }

    fn is_authenticated(&self) -> bool {
        use CipherScheme::{Aead, AesKw, AesKwp};
        matches!((self.scheme)(0), Aead { .. } | AesKw { .. } | AesKwp { .. })
    }
}

const CASES: &[Case] = &[
    Case::new("ECB", AES, BLOCKS, |_| CipherScheme::AesEcb),
    Case::new("CBC", AES, BLOCKS, |_| CipherScheme::AesCbc { iv: IV, padded: false }),
    Case::new("CBC with padding", AES, ANY, |_| CipherScheme::AesCbc { iv: IV, padded: true }),
    Case::new("CTS", AES, FROM_A_BLOCK, |_| CipherScheme::AesCts { iv: IV }),
    Case::new("XTS", &[32, 64], FROM_A_BLOCK, |_| CipherScheme::AesXts { tweak: IV }),
    Case::new("CTR of 128 bits", AES, ANY, |_| CipherScheme::AesCtr { block: IV, bits: 128 }),
    Case::new("CTR of 11 bits", AES, ANY, |_| CipherScheme::AesCtr { block: [0; 16], bits: 11 }),
    Case::new("OFB", AES, ANY, |_| CipherScheme::AesOfb { iv: IV }),
    Case::new("CFB1", AES, &[0, 1, 2, 15, 16, 17, 100], |_| CipherScheme::AesCfb { iv: IV, bits: 1 }),
    Case::new("CFB8", AES, ANY, |_| CipherScheme::AesCfb { iv: IV, bits: 8 }),
    Case::new("CFB64", AES, &[0, 8, 16, 24, 1000], |_| CipherScheme::AesCfb { iv: IV, bits: 64 }),
    Case::new("CFB128", AES, ANY, |_| CipherScheme::AesCfb { iv: IV, bits: 128 }),
    Case::new("GCM", AES, ANY, |_| aead(AeadScheme::AesGcm, &IV[..12], &IV[..5], 16, 0)),
    Case::new("GCM with a long nonce and a short tag", AES, ANY, |_| {
        aead(AeadScheme::AesGcm, &[7; 256], &[], 4, 0)
    }),
    Case::new("CCM", AES, ANY, |len| aead(AeadScheme::AesCcm, &IV[..13], &IV, 16, len)),
    Case::new("CCM with much additional data", AES, &[0, 1, 16, 100], |len| {
        aead(AeadScheme::AesCcm, &IV[..7], &[9; 0x1_0001], 6, len)
    }),
    Case::new("KW", AES, &[16, 24, 32, 40, 64, 1000], |_| CipherScheme::AesKw { iv: None, padded: false }),
    Case::new("KW with an initial value", AES, &[16, 24], |_| CipherScheme::AesKw {
        iv: Some([3; 8]),
        padded: false,
    }),
    Case::new("KW with PKCS #7", AES, &[8, 9, 15, 16, 17, 1000], |_| CipherScheme::AesKw {
        iv: None,
        padded: true,
    }),
    Case::new("KWP", AES, &[1, 7, 8, 9, 15, 16, 17, 100, 1000], |_| CipherScheme::AesKwp { iv: None }),
    Case::new("KWP with an initial value", AES, &[1, 8, 9], |_| CipherScheme::AesKwp { iv: Some([3; 4]) }),
    Case::new("ChaCha20", &[32], ANY, |_| CipherScheme::ChaCha20 { nonce: IV[..12].into(), counter: 3 }),
    Case::new("ChaCha20 with a counter of 64 bits", &[32], ANY, |_| CipherScheme::ChaCha20 {
        nonce: IV[..8].into(),
        counter: 0xffff_fffe,
    }),
    Case::new("ChaCha20-Poly1305", &[32], ANY, |_| {
        aead(AeadScheme::ChaCha20Poly1305, &[5; 12], &IV[..3], 16, 0)
    }),
];

fn aead(cipher: AeadScheme, nonce: &[u8], aad: &[u8], tag_len: usize, data_len: usize) -> CipherScheme {
    CipherScheme::Aead { cipher, nonce: nonce.into(), aad: aad.into(), tag_len, data_len }
}

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
                    let made = run(&mut *encrypting, message.chunks(part));
                    assert_eq!(made.as_ref(), Ok(&sealed), "{what} by {part}");
                    let made = run(&mut *decrypting, sealed.chunks(part));
                    assert_eq!(made.as_ref(), Ok(&message), "{what} by {part}");
                    for cipher in [&mut encrypting, &mut decrypting] {
                        cipher.update(&[1; 19], &mut [0; 64]).expect(&what);
                        cipher.reset().expect(&what);
                    }
                }
                if case.is_authenticated() {
                    refuses_spoilt(&what, &mut *decrypting, &sealed);
                    let made = run(&mut *decrypting, [&sealed[..]]);
                    assert_eq!(made.as_ref(), Ok(&message), "{what}: after refusals");
                }
            }
        }
    }
}

fn refuses_spoilt(what: &str, cipher: &mut dyn Cipher, sealed: &[u8]) {
    for at in [0, sealed.len() / 2, sealed.len() - 1] {
        let mut spoilt = sealed.to_vec();
        spoilt[at] ^= 0x10;
        let mut out = vec![0; sealed.len()];
        assert_eq!(cipher.update(&spoilt, &mut out), Ok(0), "{what}: byte {at}");
        assert_eq!(cipher.finish(&mut out), Err(Error::EncryptedDataInvalid), "{what}: byte {at}");
        assert!(out.iter().all(|byte| *byte == 0), "{what}: plaintext of a spoilt message");
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
fn xts_refuses_equal_key_halves() {
    for provider in Provider::ALL {
        for len in [32, 64] {
            let scheme = CipherScheme::AesXts { tweak: IV };
            let made = provider.ciphers.cipher(&scheme, Direction::Encrypt, &vec![1; len]);
            refused(provider, made, Error::DataInvalid, len);
        }
    }
}

#[test]
fn original_chacha20_counts_beyond_32_bits_and_no_counter_wraps() {
    let scheme = |nonce, counter| CipherScheme::ChaCha20 { nonce: bytes(nonce).into(), counter };
    for provider in Provider::ALL {
        let run = |scheme, len| crypt(provider, &scheme, Direction::Encrypt, &bytes(32), &vec![0; len]);
        let first = run(scheme(8, 0xffff_ffff), 64).unwrap();
        let after = run(scheme(8, 1 << 32), 128).unwrap();
        assert_eq!(run(scheme(8, 0xffff_ffff), 192), Ok([first, after].concat()), "{}", provider.name);
        for (nonce, counter) in [(12, 0xffff_ffff), (8, u64::MAX)] {
            // The crate `chacha20` never uses the last counter.
            let uses_last = run(scheme(nonce, counter), 64).is_ok();
            assert_eq!(uses_last, provider.name == "aws-lc", "{} {nonce}", provider.name);
            refused(provider, run(scheme(nonce, counter), 65), Error::DataLenRange, nonce);
        }
        for (nonce, counter) in [(12, 1 << 32), (7, 0), (13, 0), (24, 0), (0, 0)] {
            refused(provider, run(scheme(nonce, counter), 0), Error::MechanismParamInvalid, nonce);
        }
    }
}

#[test]
fn parameters_of_wrong_lengths_are_refused() {
    let gcm = |nonce, tag_len| aead(AeadScheme::AesGcm, &bytes(nonce), &[], tag_len, 0);
    let ccm = |nonce, tag_len, len| aead(AeadScheme::AesCcm, &bytes(nonce), &[], tag_len, len);
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
