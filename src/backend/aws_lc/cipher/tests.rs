use super::super::tests::hex;
use super::*;
use crate::error::Error;

type S = CipherScheme;

/// SP 800-38A, F: the keys, the initialisation vector, the first counter block, and the four blocks
/// of plaintext.
const KEY_128: &str = "2b7e151628aed2a6abf7158809cf4f3c";
const KEY_192: &str = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
const KEY_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
const IV: &str = "000102030405060708090a0b0c0d0e0f";
const COUNTER: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
const PLAIN: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                     30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

fn array<const N: usize>(digits: &str) -> [u8; N] {
    hex(digits).try_into().unwrap()
}

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

fn decrypt(scheme: &S, key: &[u8], input: &[u8]) -> Result<Vec<u8>> {
    run(&mut *cipher(scheme, Direction::Decrypt, key)?, input, usize::MAX)
}

/// Checks both directions. In each direction, one cipher processes the message again and again, in
/// parts of different lengths. In between, the cipher processes half of the message and is reset.
fn check(scheme: &S, key: &[u8], plain: &[u8], ciphertext: &[u8]) {
    for (direction, input, expected) in
        [(Direction::Encrypt, plain, ciphertext), (Direction::Decrypt, ciphertext, plain)]
    {
        let mut cipher = cipher(scheme, direction, key).unwrap();
        for part in [usize::MAX, 1, 3, 7, 15, 16, 17, 31, 33, 64, 65] {
            assert_eq!(run(&mut *cipher, input, part).unwrap(), expected, "{direction:?} in parts of {part}");
            let mut out = vec![0; cipher.update_len(input.len() / 2)];
            cipher.update(&input[..input.len() / 2], &mut out).unwrap();
            cipher.reset().unwrap();
        }
    }
}

/// Returns the schemes of AES and ChaCha20 that accept one or more blocks of 16 bytes, each with
/// the length of its key. CCM is absent, because it accepts only the announced length.
fn schemes() -> Vec<(S, usize)> {
    let iv = array(IV);
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
fn sp_800_38a_ecb_cbc_and_stream_modes() {
    let (iv, block) = (array(IV), array(COUNTER));
    let ecb = "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf\
               43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4";
    let ecb_192 = "bd334f1d6e45f25ff712a214571fa5cc";
    let ecb_256 = "f3eed1bdb5d2a03c064b5a7e3db181f8";
    let cbc = "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
               73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7";
    let cfb1 = "68b3";
    let cfb8 = "3b79424c9c0dd436bace9e0ed4586a4f32b9";
    let cfb = "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b\
               26751f67a3cbb140b1808cf187a4f4dfc04b05357c5d1c0eeac4c66f9ff7f2e6";
    let ofb = "3b3fd92eb72dad20333449f8e83cfb4a7789508d16918f03f53c52dac54ed825\
               9740051e9c5fecf64344f7a82260edcc304c6528f659c77866a510d9c1d6ae5e";
    let ctr = "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
               5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee";
    for (scheme, key, expected) in [
        (S::AesEcb, KEY_128, ecb),
        (S::AesEcb, KEY_192, ecb_192),
        (S::AesEcb, KEY_256, ecb_256),
        (S::AesCbc { iv, padded: false }, KEY_128, cbc),
        (S::AesCfb { iv, bits: 1 }, KEY_128, cfb1),
        (S::AesCfb { iv, bits: 8 }, KEY_128, cfb8),
        (S::AesCfb { iv, bits: 128 }, KEY_128, cfb),
        (S::AesOfb { iv }, KEY_128, ofb),
        (S::AesCtr { block, bits: 128 }, KEY_128, ctr),
    ] {
        let expected = hex(expected);
        check(&scheme, &hex(key), &hex(PLAIN)[..expected.len()], &expected);
    }
}

#[test]
fn cbc_with_padding_is_cbc_of_the_padded_message() {
    let (iv, key) = (array(IV), key(32));
    for len in 0..=33 {
        let plain = &hex(PLAIN)[..len];
        let padding = 16 - len % 16;
        let padded = [plain, &vec![padding as u8; padding]].concat();
        let ciphertext = encrypt(&S::AesCbc { iv, padded: false }, &key, &padded).unwrap();
        check(&S::AesCbc { iv, padded: true }, &key, plain, &ciphertext);
    }
}

#[test]
fn wrong_padding_and_half_blocks_have_different_errors() {
    let (iv, key) = (array(IV), key(16));
    let padded = S::AesCbc { iv, padded: true };
    for end in [&[0][..], &[17], &[1, 2], &[3, 2, 3], &[0xff], &[15, 16]] {
        let mut block = [16; 16];
        block[16 - end.len()..].copy_from_slice(end);
        if end == [15, 16] {
            block[0] = 15;
        }
        let ciphertext = encrypt(&S::AesCbc { iv, padded: false }, &key, &block).unwrap();
        assert_eq!(decrypt(&padded, &key, &ciphertext), Err(Error::EncryptedDataInvalid), "{end:?}");
    }
    for len in [0, 15, 17] {
        assert_eq!(decrypt(&padded, &key, &vec![1; len]), Err(Error::EncryptedDataLenRange));
    }
    for scheme in [S::AesEcb, S::AesCbc { iv, padded: false }, S::AesCfb { iv, bits: 64 }] {
        for len in [1, 15, 17, 31] {
            assert_eq!(encrypt(&scheme, &key, &vec![1; len]), Err(Error::DataLenRange));
            assert_eq!(decrypt(&scheme, &key, &vec![1; len]), Err(Error::EncryptedDataLenRange));
        }
        assert_eq!(encrypt(&scheme, &key, &[]), Ok(vec![]));
    }
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
    let (iv, key) = (array(IV), key(16));
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
fn several_parts_give_the_output_of_one_part() {
    for (scheme, key_len) in schemes() {
        for blocks in [2, 4, 41] {
            let plain: Vec<u8> = (0..blocks * 16).map(|byte| byte as u8).collect();
            let ciphertext = encrypt(&scheme, &key(key_len), &plain).unwrap();
            check(&scheme, &key(key_len), &plain, &ciphertext);
        }
    }
}

#[test]
fn ciphertext_stealing_shortens_the_last_block_but_one() {
    let (iv, key) = (array(IV), key(24));
    for len in 16..=65 {
        let plain: Vec<u8> = (0..len).collect();
        let mut padded = plain.clone();
        padded.resize(plain.len().next_multiple_of(16), 0);
        let mut expected = encrypt(&S::AesCbc { iv, padded: false }, &key, &padded).unwrap();
        // CS1: the last block but one becomes shorter by the length of the padding.
        if !plain.len().is_multiple_of(16) {
            let stub = expected.len() - 32 + plain.len() % 16;
            expected.drain(stub..expected.len() - 16);
        }
        check(&S::AesCts { iv }, &key, &plain, &expected);
    }
    assert_eq!(encrypt(&S::AesCts { iv }, &key, &[0; 15]), Err(Error::DataLenRange));
    assert_eq!(decrypt(&S::AesCts { iv }, &key, &[0; 15]), Err(Error::EncryptedDataLenRange));
}

#[test]
fn ctr_refuses_a_message_that_would_wrap_the_counter() {
    let mut block = [0xff; 16];
    block[15] = 0xfe;
    let key = key(16);
    for bits in [1, 2, 8, 31, 32, 64, 127, 128] {
        let scheme = S::AesCtr { block, bits };
        let mut ciphertext = encrypt(&scheme, &key, &[0; 32]).unwrap();
        let mut zero = [0xff; 16];
        let pad = encrypt(&S::AesEcb, &key, &[block, zero].concat()).unwrap();
        assert_eq!(ciphertext, pad);
        assert_eq!(encrypt(&scheme, &key, &[0; 33]), Err(Error::DataLenRange));
        // The cipher refuses a part that goes beyond the limit. The message can still continue with
        // a shorter part.
        let mut cipher = cipher(&scheme, Direction::Encrypt, &key).unwrap();
        cipher.update(&[0; 31], &mut ciphertext).unwrap();
        assert_eq!(cipher.update(&[0; 2], &mut zero), Err(Error::DataLenRange));
        assert_eq!(cipher.update(&[0; 1], &mut zero), Ok(1));
        assert_eq!(zero[0], pad[31]);
    }
    for bits in [0, 129] {
        let refused = cipher(&S::AesCtr { block, bits }, Direction::Encrypt, &key).err();
        assert_eq!(refused, Some(Error::MechanismParamInvalid));
    }
}

#[test]
fn cfb64_is_cfb_with_segments_of_eight_bytes() {
    let (iv, key): ([u8; 16], _) = (array(IV), key(16));
    let plain = hex(PLAIN);
    let (mut register, mut expected) = (iv, Vec::new());
    for segment in plain.chunks(8) {
        let pad = encrypt(&S::AesEcb, &key, &register).unwrap();
        expected.extend(segment.iter().zip(pad).map(|(byte, pad)| byte ^ pad));
        register.copy_within(8.., 0);
        register[8..].copy_from_slice(&expected[expected.len() - 8..]);
    }
    check(&S::AesCfb { iv, bits: 64 }, &key, &plain, &expected);
}

/// IEEE 1619-2007, B: vector 2, the first block of vector 10, and vectors 15 to 18, which have
/// incomplete last blocks.
#[test]
fn ieee_1619_xts() {
    let e9 = array("9a785634120000000000000000000000");
    let stub_key = hex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0");
    let plain: Vec<u8> = (0..20).collect();
    for expected in [
        "6c1625db4671522d3d7599601de7ca09ed",
        "d069444b7a7e0cab09e24447d24deb1fedbf",
        "e5df1351c0544ba1350b3363cd8ef4beedbf9d",
        "9d84c813f719aa2c7be3f66171c7c5c2edbf9dac",
    ] {
        let expected = hex(expected);
        check(&S::AesXts { tweak: e9 }, &stub_key, &plain[..expected.len()], &expected);
    }
    let key = [[0x11; 16], [0x22; 16]].concat();
    let tweak = array("33333333330000000000000000000000");
    let expected = hex("c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0");
    check(&S::AesXts { tweak }, &key, &[0x44; 32], &expected);
    let key = hex("2718281828459045235360287471352662497757247093699959574966967627\
         3141592653589793238462643383279502884197169399375105820974944592");
    let tweak = array("ff000000000000000000000000000000");
    let plain: Vec<u8> = (0..=255).chain(0..=255).collect();
    let ciphertext = encrypt(&S::AesXts { tweak }, &key, &plain).unwrap();
    assert_eq!(ciphertext[..16], hex("1c3b3a102f770386e4836c99e370cf9b"));
    check(&S::AesXts { tweak }, &key, &plain, &ciphertext);
}

#[test]
fn xts_refuses_equal_key_halves_and_units_shorter_than_a_block() {
    let tweak = [0; 16];
    for (key, error) in [
        (key(48), Error::KeySizeRange),
        (key(16), Error::KeySizeRange),
        (vec![1; 32], Error::DataInvalid),
        (vec![1; 64], Error::DataInvalid),
    ] {
        assert_eq!(cipher(&S::AesXts { tweak }, Direction::Encrypt, &key).err(), Some(error));
    }
    for len in [32, 64] {
        assert_eq!(encrypt(&S::AesXts { tweak }, &key(len), &[0; 15]), Err(Error::DataLenRange));
        assert_eq!(decrypt(&S::AesXts { tweak }, &key(len), &[0; 15]), Err(Error::EncryptedDataLenRange));
        for stub in 1..16 {
            let plain = vec![3; 1040 + stub];
            let ciphertext = encrypt(&S::AesXts { tweak }, &key(len), &plain).unwrap();
            assert_eq!(decrypt(&S::AesXts { tweak }, &key(len), &ciphertext).unwrap(), plain);
        }
    }
}

/// Test cases 4, 5 and 6 (AES-128), 16 (AES-256) and 1 (empty) of the GCM specification.
#[test]
fn gcm_matches_its_specification() {
    let plain = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                 1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    let aad = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
    let key = "feffe9928665731c6d6a8f9467308308";
    let iv_480 = "9313225df88406e555909c5aff5269aa6a7a9538534f7da1e4c303d2a318a728\
                  c3c0c95156809539fcf0e2429a6b525416aedbf5a0de6a57a637b39b";
    let cases = [
        (
            key.to_owned(),
            "cafebabefacedbaddecaf888",
            plain,
            aad,
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091\
             5bc94fbc3221a5db94fae95ae7121a47",
        ),
        (
            key.to_owned(),
            "cafebabefacedbad",
            plain,
            aad,
            "61353b4c2806934a777ff51fa22a4755699b2a714fcdc6f83766e5f97b6c7423\
             73806900e49f24b22b097544d4896b424989b5e1ebac0f07c23f4598\
             3612d2e79e3b0785561be14aaca2fccb",
        ),
        (
            key.to_owned(),
            iv_480,
            plain,
            aad,
            "8ce24998625615b603a033aca13fb894be9112a5c3a211a8ba262a3cca7e2ca7\
             01e4a9a4fba43c90ccdcb281d48c7c6fd62875d2aca417034c34aee5\
             619cc5aefffe0bfa462af43c1699d050",
        ),
        (
            key.repeat(2),
            "cafebabefacedbaddecaf888",
            plain,
            aad,
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662\
             76fc6ece0f4e1768cddf8853bb2d551b",
        ),
        ("00".repeat(16), "000000000000000000000000", "", "", "58e2fccefa7e3061367f1d57a4e7455a"),
    ];
    for (key, iv, plain, aad, expected) in cases {
        let (plain, expected) = (hex(plain), hex(expected));
        for tag_len in [4, 8, 12, 13, 14, 15, 16] {
            let scheme = S::Aead {
                cipher: AeadScheme::AesGcm,
                nonce: hex(iv).into(),
                aad: hex(aad).into(),
                tag_len,
                data_len: 0,
            };
            check(&scheme, &hex(&key), &plain, &expected[..plain.len() + tag_len]);
        }
    }
}

/// The examples of SP 800-38C, C.1 to C.3.
#[test]
fn sp_800_38c_ccm() {
    for (nonce, aad, plain, tag_len, expected) in [
        ("10111213141516", 8, 4, 4, "7162015b4dac255d"),
        ("1011121314151617", 16, 16, 6, "d2a1f0e051ea5f62081a7792073d593d1fc64fbfaccd"),
        (
            "101112131415161718191a1b",
            20,
            24,
            8,
            "e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5484392fbc1b09951",
        ),
    ] {
        let key: Vec<u8> = (0x40..0x50).collect();
        let aad: Vec<u8> = (0..aad).collect();
        let plain: Vec<u8> = (0x20..0x20 + plain).collect();
        let (nonce, aad) = (hex(nonce).into(), aad.into());
        check(
            &S::Aead { cipher: AeadScheme::AesCcm, nonce, aad, tag_len, data_len: plain.len() },
            &key,
            &plain,
            &hex(expected),
        );
    }
}

#[test]
fn ccm_accepts_only_the_announced_length() {
    let scheme = |nonce: usize, tag_len, data_len| S::Aead {
        cipher: AeadScheme::AesCcm,
        nonce: vec![1; nonce].into(),
        aad: [].into(),
        tag_len,
        data_len,
    };
    for (len, data_len) in [(0, 0), (0, 1), (5, 4), (4, 5)] {
        let sealed = encrypt(&scheme(13, 16, data_len), &key(16), &vec![1; len]);
        assert_eq!(sealed.is_ok(), len == data_len);
        assert_eq!(sealed.err().unwrap_or(Error::DataLenRange), Error::DataLenRange);
        let opened = decrypt(&scheme(13, 16, data_len), &key(16), &vec![1; len + 16]);
        let expected =
            if len == data_len { Error::EncryptedDataInvalid } else { Error::EncryptedDataLenRange };
        assert_eq!(opened, Err(expected));
    }
    check(&scheme(7, 4, 0), &key(32), &[], &encrypt(&scheme(7, 4, 0), &key(32), &[]).unwrap());
    for (nonce, tag_len, data_len) in
        [(6, 16, 1), (14, 16, 1), (13, 5, 1), (13, 2, 1), (13, 18, 1), (13, 16, 65536)]
    {
        let refused = cipher(&scheme(nonce, tag_len, data_len), Direction::Encrypt, &key(16)).err();
        assert_eq!(refused, Some(Error::MechanismParamInvalid));
    }
}

/// The vectors of RFC 3394, 4.1, 4.2, 4.3 and 4.6.
#[test]
fn rfc_3394_kw() {
    let plain = hex("00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f");
    for (key, plain_len, expected) in [
        (16, 16, "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5"),
        (24, 16, "96778b25ae6ca435f92b5b97c050aed2468ab8a17ad84e5d"),
        (32, 16, "64e8c3f9ce0f5ba263e9777905818a2a93c8191e7d6e8ae7"),
        (32, 32, "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21"),
    ] {
        let key: Vec<u8> = (0..key).collect();
        check(&S::AesKw { iv: None, padded: false }, &key, &plain[..plain_len], &hex(expected));
    }
}

/// The vectors of RFC 5649, 6.
#[test]
fn rfc_5649_kwp() {
    let key = hex("5840df6e29b02af1ab493b705bf16ea1ae8338f4dcc176a8");
    for (plain, expected) in [
        (
            "c37b7e6492584340bed12207808941155068f738",
            "138bdeaa9b8fa7fc61f97742e72248ee5ae6ae5360d1ae6a5f54f373fa543b6a",
        ),
        ("466f7250617369", "afbeb0f07dfbf5419200f2ccb50bb24f"),
    ] {
        check(&S::AesKwp { iv: None }, &key, &hex(plain), &hex(expected));
        check(&S::AesKwp { iv: Some([0xa6, 0x59, 0x59, 0xa6]) }, &key, &hex(plain), &hex(expected));
    }
}

#[test]
fn unwrapping_needs_the_initial_value_of_the_wrapping() {
    let key = key(32);
    for len in [1, 7, 8, 9, 16, 31, 32, 33] {
        let plain = vec![0; len];
        let own = S::AesKwp { iv: Some([9; 4]) };
        let wrapped = encrypt(&own, &key, &plain).unwrap();
        check(&own, &key, &plain, &wrapped);
        let foreign = decrypt(&S::AesKwp { iv: None }, &key, &wrapped);
        assert_eq!(foreign, Err(Error::EncryptedDataInvalid));
    }
    let own = S::AesKw { iv: Some([9; 8]), padded: false };
    let wrapped = encrypt(&own, &key, &[1; 24]).unwrap();
    check(&own, &key, &[1; 24], &wrapped);
    assert_eq!(
        decrypt(&S::AesKw { iv: None, padded: false }, &key, &wrapped),
        Err(Error::EncryptedDataInvalid)
    );
    // KWP refuses this output of KW.
    assert_eq!(decrypt(&S::AesKwp { iv: None }, &key, &wrapped), Err(Error::EncryptedDataInvalid));

    for (scheme, bad, bad_wrapped) in [
        (S::AesKw { iv: None, padded: false }, &[0, 8, 15, 17][..], &[0, 8, 16, 23, 25][..]),
        (S::AesKwp { iv: None }, &[0], &[0, 8, 15, 17]),
    ] {
        for len in bad {
            assert_eq!(encrypt(&scheme, &key, &vec![0; *len]), Err(Error::DataLenRange));
        }
        for len in bad_wrapped {
            assert_eq!(decrypt(&scheme, &key, &vec![0; *len]), Err(Error::EncryptedDataLenRange));
        }
    }
}

#[test]
fn kw_with_pkcs7_wraps_the_padded_message() {
    let (key, bare, padded) =
        (key(32), S::AesKw { iv: None, padded: false }, S::AesKw { iv: None, padded: true });
    for len in [8, 9, 15, 16, 17, 1000] {
        let message = vec![3; len];
        let padding = 8 - len % 8;
        let whole = [&message[..], &vec![padding as u8; padding]].concat();
        check(&padded, &key, &message, &encrypt(&bare, &key, &whole).unwrap());
    }
    for wrong in [0, 9, 4] {
        let wrapped = encrypt(&bare, &key, &[wrong; 16]).unwrap();
        let (good, refused) = (wrong == 4, decrypt(&padded, &key, &wrapped));
        assert_eq!(refused, if good { Ok(vec![4; 12]) } else { Err(Error::EncryptedDataInvalid) });
    }
    let foreign = encrypt(&S::AesKw { iv: Some([9; 8]), padded: true }, &key, &[1; 24]).unwrap();
    assert_eq!(decrypt(&padded, &key, &foreign), Err(Error::EncryptedDataInvalid));
    assert_eq!(encrypt(&padded, &key, &[0; 7]), Err(Error::DataLenRange));
    assert_eq!(decrypt(&padded, &key, &[0; 16]), Err(Error::EncryptedDataLenRange));
}

#[test]
fn kwp_refuses_impossible_lengths_and_paddings() {
    let key = key(16);
    // The test wraps with KW and its own initial value of eight bytes. So it can set any value in
    // the length field of KWP.
    for (len, data) in [(0u32, [0; 16]), (8, [0; 16]), (17, [0; 16]), (u32::MAX, [0; 16]), (15, [1; 16])] {
        let mut iv = [0xa6, 0x59, 0x59, 0xa6, 0, 0, 0, 0];
        iv[4..].copy_from_slice(&len.to_be_bytes());
        let wrapped = encrypt(&S::AesKw { iv: Some(iv), padded: false }, &key, &data).unwrap();
        let refused = decrypt(&S::AesKwp { iv: None }, &key, &wrapped);
        assert_eq!(refused, Err(Error::EncryptedDataInvalid), "{len}");
    }
}

const SUNSCREEN: &[u8] = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
                           the future, sunscreen would be it.";

/// The vector of RFC 8439, 2.4.2.
#[test]
fn rfc_8439_chacha20() {
    let key: Vec<u8> = (0..32).collect();
    let scheme = S::ChaCha20 { nonce: hex("000000000000004a00000000").into(), counter: 1 };
    let expected = hex("6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b\
         f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8\
         07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736\
         5af90bbf74a35be6b40b8eedf2785e42874d");
    check(&scheme, &key, SUNSCREEN, &expected);
    // With this nonce and counter, the original ChaCha20 starts from the same state.
    let original = S::ChaCha20 { nonce: hex("0000004a00000000").into(), counter: 1 };
    check(&original, &key, SUNSCREEN, &expected);
}

#[test]
fn original_chacha20_counts_beyond_32_bits_and_no_counter_wraps() {
    let key = key(32);
    let original = |counter| S::ChaCha20 { nonce: [7; 8].into(), counter };
    let across = encrypt(&original(0xffff_ffff), &key, &[0; 192]).unwrap();
    check(&original(0xffff_ffff), &key, &[0; 192], &across);
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

/// The vector of RFC 8439, 2.8.2.
#[test]
fn rfc_8439_chacha20_poly1305() {
    let key: Vec<u8> = (0x80..0xa0).collect();
    let scheme = S::Aead {
        cipher: AeadScheme::ChaCha20Poly1305,
        nonce: hex("070000004041424344454647").into(),
        aad: hex("50515253c0c1c2c3c4c5c6c7").into(),
        tag_len: 16,
        data_len: 0,
    };
    let expected = hex("d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
         3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
         92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
         3ff4def08e4b7a9de576d26586cec64b6116\
         1ae10b594f09e26a7e902ecbd0600691");
    check(&scheme, &key, SUNSCREEN, &expected);
}

#[test]
fn a_changed_ciphertext_or_tag_leaves_no_plaintext_in_the_output() {
    let aad: Box<[u8]> = [5; 3].into();
    for (scheme, key_len) in [
        (
            S::Aead {
                cipher: AeadScheme::AesGcm,
                nonce: [1; 12].into(),
                aad: aad.clone(),
                tag_len: 12,
                data_len: 0,
            },
            16,
        ),
        (
            S::Aead {
                cipher: AeadScheme::AesCcm,
                nonce: [1; 12].into(),
                aad: aad.clone(),
                tag_len: 12,
                data_len: 40,
            },
            24,
        ),
        (
            S::Aead {
                cipher: AeadScheme::ChaCha20Poly1305,
                nonce: [1; 12].into(),
                aad: aad.clone(),
                tag_len: 16,
                data_len: 0,
            },
            32,
        ),
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

#[test]
fn wrong_lengths_of_keys_and_parameters_are_refused() {
    for (scheme, key_len) in schemes() {
        for wrong in [0, 1, 15, 17, 31, 33, 63, 65, 128] {
            let refused = cipher(&scheme, Direction::Encrypt, &vec![1; wrong]).err();
            assert_eq!(refused, Some(Error::KeySizeRange), "{key_len} {wrong}");
        }
    }
    let gcm = |iv: usize, tag_len| S::Aead {
        cipher: AeadScheme::AesGcm,
        nonce: vec![1; iv].into(),
        aad: [].into(),
        tag_len,
        data_len: 0,
    };
    for bad in [gcm(0, 16), gcm(65_537, 16), gcm(12, 0), gcm(12, 3), gcm(12, 5), gcm(12, 11), gcm(12, 17)] {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            assert_eq!(cipher(&bad, direction, &key(16)).err(), Some(Error::MechanismParamInvalid));
        }
    }
    for iv in [1, 11, 13, 16, 17, 256] {
        let sealed = encrypt(&gcm(iv, 16), &key(16), b"message").unwrap();
        assert_eq!(decrypt(&gcm(iv, 16), &key(16), &sealed).unwrap(), b"message");
    }
    let cfb = S::AesCfb { iv: [0; 16], bits: 32 };
    assert_eq!(cipher(&cfb, Direction::Encrypt, &key(16)).err(), Some(Error::MechanismParamInvalid));
}
