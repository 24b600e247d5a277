//! Modes and MACs without published vectors, by their definition, the limits of their lengths, and
//! digests in parts.

use crate::support::*;

const KEY: &str = "2b7e151628aed2a6abf7158809cf4f3c";

/// 00 01 .. 0f
fn iv() -> [u8; 16] {
    std::array::from_fn(|index| index as u8)
}

/// Without a partial block, ciphertext stealing (CS1) does nothing.
#[test]
fn ciphertext_stealing_of_whole_blocks_equals_cbc() {
    let (steals, cbc) = (CipherScheme::AesCts { iv: iv() }, CipherScheme::AesCbc { iv: iv(), padded: false });
    for provider in Provider::ALL {
        for len in [16, 32, 64] {
            let [one, other] = [&steals, &cbc]
                .map(|scheme| crypt(provider, scheme, Direction::Encrypt, &hex(KEY), &bytes(len)));
            assert_eq!(one, other, "{} {len}", provider.name);
        }
    }
}

#[test]
fn cfb64_matches_its_definition() {
    let (key, message) = (hex(KEY), bytes(64));
    for provider in Provider::ALL {
        let mut register = iv().to_vec();
        let mut expected = Vec::new();
        for segment in message.chunks(8) {
            let keystream =
                crypt(provider, &CipherScheme::AesEcb, Direction::Encrypt, &key, &register).unwrap();
            let made: Vec<u8> = segment.iter().zip(keystream).map(|(a, b)| a ^ b).collect();
            register = [&register[8..], &made].concat();
            expected.extend(made);
        }
        let scheme = CipherScheme::AesCfb { iv: iv(), bits: 64 };
        let made = crypt(provider, &scheme, Direction::Encrypt, &key, &message);
        assert_eq!(made, Ok(expected), "{}", provider.name);
    }
}

#[test]
fn ctr_counters_use_their_bits_and_never_wrap() {
    for provider in Provider::ALL {
        let mut block = [0xff; 16];
        block[15] = 0xfe;
        let run = |bits, len| {
            let scheme = CipherScheme::AesCtr { block, bits };
            crypt(provider, &scheme, Direction::Encrypt, &hex(KEY), &vec![0; len])
        };
        for bits in [1, 2, 7, 8, 9, 31, 32, 64, 127, 128] {
            // An 8-bit counter that starts at fe has two values left. A 1-bit counter has two
            // values.
            let made = run(bits, 32).unwrap();
            let blocks = [block, [0xff; 16]].concat();
            let expected = crypt(provider, &CipherScheme::AesEcb, Direction::Encrypt, &hex(KEY), &blocks);
            assert_eq!(Ok(made), expected, "{} {bits}", provider.name);
            assert_eq!(run(bits, 33), Err(Error::DataLenRange), "{} {bits}", provider.name);
        }
        for bits in [0, 129] {
            assert_eq!(run(bits, 1), Err(Error::MechanismParamInvalid), "{} {bits}", provider.name);
        }
    }
}

#[test]
fn wrong_nonces_keys_and_hashes_are_refused() {
    let chacha20 = CipherScheme::ChaCha20 { nonce: [0; 11].into(), counter: 0 };
    for provider in Provider::ALL {
        let outcome = crypt(provider, &chacha20, Direction::Encrypt, &[0; 32], &[]);
        refused(provider, outcome, Error::MechanismParamInvalid, "a nonce of 11 bytes");
        refused(provider, mac(provider, &MacScheme::AesXcbc, &[0; 24], &[], 1), Error::KeySizeRange, "XCBC");
        for scheme in [MacScheme::AesCmac, MacScheme::AesCbcMac, MacScheme::AesGmac { iv: [0; 12].into() }] {
            for len in [0, 8, 15, 17, 31, 33] {
                refused(provider, mac(provider, &scheme, &bytes(len), &[], 1), Error::KeySizeRange, len);
            }
        }
        for hash in [Hash::Shake128, Hash::Shake256] {
            let outcome = mac(provider, &MacScheme::Hmac(hash), &[1; 32], &[], 1);
            refused(provider, outcome, Error::MechanismInvalid, hash);
        }
    }
}

#[test]
fn cbc_mac_equals_the_last_block_of_cbc() {
    let cbc = CipherScheme::AesCbc { iv: [0; 16], padded: false };
    for provider in Provider::ALL {
        for len in [0, 1, 15, 16, 17, 32, 100] {
            // ISO/IEC 9797-1, 6.3.2: an empty message is padded to one block.
            let mut padded = bytes(len);
            padded.resize(len.next_multiple_of(16).max(16), 0);
            let encrypted = crypt(provider, &cbc, Direction::Encrypt, &hex(KEY), &padded).unwrap();
            let made = mac(provider, &MacScheme::AesCbcMac, &hex(KEY), &bytes(len), 9).unwrap();
            assert_eq!(made, encrypted[encrypted.len() - 16..], "{} {len}", provider.name);
        }
    }
}

#[test]
fn kw_with_pkcs7_wraps_the_padded_message() {
    let [bare, padded] = [false, true].map(|padded| CipherScheme::AesKw { iv: None, padded });
    for provider in Provider::ALL {
        for len in [8, 9, 15, 16, 17, 1000] {
            let padding = 8 - len % 8;
            let message = [bytes(len), vec![padding as u8; padding]].concat();
            let expected = crypt(provider, &bare, Direction::Encrypt, &hex(KEY), &message);
            let made = crypt(provider, &padded, Direction::Encrypt, &hex(KEY), &bytes(len));
            assert_eq!(made, expected, "{} {len}", provider.name);
        }
    }
}

/// Every hash function, also those that only digests and HMACs use.
fn hashes() -> impl Iterator<Item = Hash> {
    Hash::ALL.into_iter().chain(Hash::BLAKE2B)
}

#[test]
fn digests_in_parts_equal_those_of_one_part() {
    let data = bytes(1000);
    for (provider, hash) in
        Provider::ALL.iter().flat_map(|provider| hashes().map(move |hash| (provider, hash)))
    {
        let mut hasher = provider.digest.start(hash).unwrap();
        let mut out = vec![0; hash.len()];
        // Lengths around the block sizes, and empty parts. The second and later rounds show that
        // `finish` resets the digest, and that `reset` discards the input.
        for part in [1, 3, 63, 64, 65, 127, 128, 129, 999] {
            for chunk in data.chunks(part) {
                hasher.update(chunk).unwrap();
                hasher.update(&[]).unwrap();
            }
            hasher.finish(&mut out).unwrap();
            assert_eq!(out, digest(provider, hash, &data), "{} {hash:?} {part}", provider.name);
            hasher.update(b"forget me").unwrap();
            hasher.reset().unwrap();
        }
    }
}
