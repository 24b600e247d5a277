use super::*;
use crate::error::Error;

type S = CipherScheme;

const IV: [u8; 16] = [1; 16];

fn cipher(scheme: &S, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>> {
    AllCiphers.cipher(scheme, direction, key)
}

/// Processes a message in parts of length `part`. Checks that each output has the announced length.
fn run(cipher: &mut dyn Cipher, input: &[u8], part: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for input in input.chunks(part) {
        let mut piece = vec![0; cipher.update_len(input.len())];
        assert_eq!(cipher.update(input, &mut piece)?, piece.len());
        out.extend(piece);
    }
    let mut last = vec![0; cipher.finish_len()];
    let len = cipher.finish(&mut last)?;
    out.extend(&last[..len]);
    Ok(out)
}

fn encrypt(scheme: &S, key: &[u8], input: &[u8]) -> Result<Vec<u8>> {
    run(&mut *cipher(scheme, Direction::Encrypt, key)?, input, usize::MAX)
}

/// Returns the schemes of AES and ChaCha20 that accept one or more blocks of 16 bytes, each with
/// the length of its key. CCM is absent, because it accepts only the announced length.
fn schemes() -> Vec<(S, usize)> {
    let iv = IV;
    let aad: Box<[u8]> = [5; 20].into();
    let mut schemes = Vec::new();
    for key in [16, 24, 32] {
        schemes.extend([
            (S::AesEcb, key),
            (S::AesCbc { iv, padded: false }, key),
            (S::AesCbc { iv, padded: true }, key),
            (S::AesCts { iv }, key),
            (S::AesCtr { block: iv, bits: 32 }, key),
            (S::AesOfb { iv }, key),
            (
                S::Aead {
                    cipher: AeadScheme::AesGcm,
                    nonce: [1; 12].into(),
                    aad: aad.clone(),
                    tag_len: 16,
                    data_len: 0,
                },
                key,
            ),
            (S::AesKw { iv: None, padded: false }, key),
            (S::AesKw { iv: None, padded: true }, key),
            (S::AesKwp { iv: Some([1, 2, 3, 4]) }, key),
        ]);
        schemes.extend([1, 8, 64, 128].map(|bits| (S::AesCfb { iv, bits }, key)));
    }
    schemes.extend([32, 64].map(|key| (S::AesXts { tweak: iv }, key)));
    schemes.extend([
        (S::ChaCha20 { nonce: [1; 8].into(), counter: 1 << 40 }, 32),
        (S::ChaCha20 { nonce: [1; 12].into(), counter: 1 }, 32),
        (
            S::Aead {
                cipher: AeadScheme::ChaCha20Poly1305,
                nonce: [1; 12].into(),
                aad,
                tag_len: 16,
                data_len: 0,
            },
            32,
        ),
    ]);
    schemes
}

fn key(len: usize) -> Vec<u8> {
    (1..=len as u8).collect()
}

#[test]
fn a_short_buffer_loses_no_output() {
    for (scheme, key_len) in schemes() {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let key = key(key_len);
            let (plain, ciphertext) = (vec![9; 48], encrypt(&scheme, &key, &[9; 48]).unwrap());
            let (input, expected) = match direction {
                Direction::Encrypt => (plain, ciphertext),
                Direction::Decrypt => (ciphertext, plain),
            };
            let mut cipher = cipher(&scheme, direction, &key).unwrap();
            let needed = cipher.update_len(input.len());
            if needed > 0 {
                let refused = cipher.update(&input, &mut vec![0; needed - 1]);
                assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
            }
            let mut out = vec![0; needed];
            cipher.update(&input, &mut out).unwrap();
            let rest = expected.len() - needed;
            if rest > 0 {
                let refused = cipher.finish(&mut vec![0; rest - 1]);
                assert!(matches!(refused, Err(Error::BufferTooSmall { .. })));
            }
            let mut last = vec![0; cipher.finish_len()];
            let len = cipher.finish(&mut last).unwrap();
            assert_eq!([&out, &last[..len]].concat(), expected);
        }
    }
}

#[test]
fn a_last_part_that_does_not_fit_is_written_by_a_later_call() {
    let (iv, key) = (IV, key(16));
    let scheme = S::AesCbc { iv, padded: true };
    let ciphertext = encrypt(&scheme, &key, &[7; 25]).unwrap();
    let mut cipher = cipher(&scheme, Direction::Decrypt, &key).unwrap();
    let mut out = [0; 25];
    assert_eq!(cipher.update(&ciphertext, &mut out), Ok(16));
    assert_eq!(cipher.finish(&mut out[16..24]), Err(Error::BufferTooSmall { needed: 9 }));
    assert_eq!(cipher.finish(&mut out[16..]), Ok(9));
    assert_eq!(out, [7; 25]);
}

#[test]
fn xts_refuses_equal_key_halves() {
    let tweak = [0; 16];
    for (key, error) in [
        (key(48), Error::KeySizeRange),
        (key(16), Error::KeySizeRange),
        (vec![1; 32], Error::DataInvalid),
        (vec![1; 64], Error::DataInvalid),
    ] {
        assert_eq!(cipher(&S::AesXts { tweak }, Direction::Encrypt, &key).err(), Some(error));
    }
}

#[test]
fn original_chacha20_counts_beyond_32_bits_and_no_counter_wraps() {
    let key = key(32);
    let original = |counter| S::ChaCha20 { nonce: [7; 8].into(), counter };
    let across = encrypt(&original(0xffff_ffff), &key, &[0; 192]).unwrap();
    let first = encrypt(&original(0xffff_ffff), &key, &[0; 64]).unwrap();
    let after = encrypt(&original(1 << 32), &key, &[0; 128]).unwrap();
    assert_eq!(across, [first, after].concat());

    let short = S::ChaCha20 { nonce: [7; 12].into(), counter: 0xffff_ffff };
    for last in [short, original(u64::MAX)] {
        encrypt(&last, &key, &[0; 64]).unwrap();
        assert_eq!(encrypt(&last, &key, &[0; 65]), Err(Error::DataLenRange));
    }
    for (nonce, counter) in [(12, 1 << 32), (7, 0), (13, 0), (24, 0), (0, 0)] {
        let scheme = S::ChaCha20 { nonce: vec![0; nonce].into(), counter };
        let refused = cipher(&scheme, Direction::Encrypt, &key).err();
        assert_eq!(refused, Some(Error::MechanismParamInvalid));
    }
}

#[test]
fn a_changed_ciphertext_or_tag_leaves_no_plaintext_in_the_output() {
    let aead = |cipher, tag_len, data_len| {
        let (nonce, aad) = ([1; 12].into(), [5; 3].into());
        S::Aead { cipher, nonce, aad, tag_len, data_len }
    };
    for (scheme, key_len) in [
        (aead(AeadScheme::AesGcm, 12, 0), 16),
        (aead(AeadScheme::AesCcm, 12, 40), 24),
        (aead(AeadScheme::ChaCha20Poly1305, 16, 0), 32),
        (S::AesKw { iv: None, padded: false }, 32),
        (S::AesKw { iv: None, padded: true }, 32),
        (S::AesKwp { iv: None }, 32),
    ] {
        let key = key(key_len);
        let sealed = encrypt(&scheme, &key, &[9; 40]).unwrap();
        let mut cipher = cipher(&scheme, Direction::Decrypt, &key).unwrap();
        for flipped in [0, 39, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[flipped] ^= 0x80;
            let mut out = [0; 48];
            assert_eq!(cipher.update(&changed, &mut out), Ok(0));
            assert_eq!(cipher.finish(&mut out), Err(Error::EncryptedDataInvalid));
            assert_eq!(out, [0; 48]);
            // The same cipher continues with the next message.
            assert_eq!(run(&mut *cipher, &sealed, 11).unwrap(), [9; 40]);
        }
        assert_eq!(run(&mut *cipher, &sealed[..11], 11), Err(Error::EncryptedDataLenRange));
        assert_eq!(run(&mut *cipher, &[], 11), Err(Error::EncryptedDataLenRange));
    }
}
