//! Known answers of the modes and MACs that Wycheproof lacks, and the limits of their lengths.

use jeton::backend::{CipherScheme, Direction, Hash, MacScheme, Provider};
use jeton::error::Error;
use jeton_vectors::hex;

use crate::support::{bytes, crypt, mac};

/// Key and message of SP 800-38A, appendix F.
const KEY: &str = "2b7e151628aed2a6abf7158809cf4f3c";
const MESSAGE: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52ef\
    f69f2445df4f9b17ad2b417be66c3710";

/// 00 01 .. 0f
fn iv() -> [u8; 16] {
    std::array::from_fn(|index| index as u8)
}

#[test]
fn modes_match_sp_800_38a() {
    let block: [u8; 16] = std::array::from_fn(|index| 0xf0 + index as u8);
    let rows: [(CipherScheme, &str); 7] = [
        (
            CipherScheme::AesEcb,
            "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf43b1cd7f598ece23881b00e3ed030688\
             7b0c785e27e8ad3f8223207104725dd4",
        ),
        (
            CipherScheme::AesCbc { iv: iv(), padded: false },
            "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b273bed6b8e3c1743b7116e69e22229516\
             3ff1caa1681fac09120eca307586e1a7",
        ),
        (
            CipherScheme::AesOfb { iv: iv() },
            "3b3fd92eb72dad20333449f8e83cfb4a7789508d16918f03f53c52dac54ed8259740051e9c5fecf64344f7a82260edcc\
             304c6528f659c77866a510d9c1d6ae5e",
        ),
        (
            CipherScheme::AesCfb { iv: iv(), bits: 128 },
            "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b26751f67a3cbb140b1808cf187a4f4df\
             c04b05357c5d1c0eeac4c66f9ff7f2e6",
        ),
        (CipherScheme::AesCfb { iv: iv(), bits: 8 }, "3b79424c9c0dd436bace9e0ed4586a4f32b9"),
        (CipherScheme::AesCfb { iv: iv(), bits: 1 }, "68b3"),
        (
            CipherScheme::AesCtr { block, bits: 128 },
            "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff5ae4df3edbd5d35e5b4f09020db03eab\
             1e031dda2fbe03d1792170a0f3009cee",
        ),
    ];
    for provider in Provider::ALL {
        for (index, (scheme, expected)) in rows.iter().enumerate() {
            let expected = hex(expected);
            let message = &hex(MESSAGE)[..expected.len()];
            let made = crypt(provider, scheme, Direction::Encrypt, &hex(KEY), message);
            assert_eq!(made, Ok(expected.clone()), "{} {index}", provider.name);
            let back = crypt(provider, scheme, Direction::Decrypt, &hex(KEY), &expected);
            assert_eq!(back.as_deref(), Ok(message), "{} {index}", provider.name);
        }
    }
}

/// RFC 3962, appendix B, has the last two blocks in the opposite order (CS3).
#[test]
fn ciphertext_stealing_matches_rfc_3962_with_swapped_blocks() {
    let key = b"chicken teriyaki";
    let message = b"I would like the General Gau's Chicken, please, and wonton soup.";
    let scheme = CipherScheme::AesCts { iv: [0; 16] };
    for provider in Provider::ALL {
        for (len, expected) in [
            (17, "97c6353568f2bf8cb4d8a580362da7ff7f"),
            (31, "97687268d6ecccc0c07b25e25ecfe5fc00783e0efdb2c1d445d4c8eff7ed22"),
        ] {
            let made = crypt(provider, &scheme, Direction::Encrypt, key, &message[..len]);
            assert_eq!(made, Ok(hex(expected)), "{} {len}", provider.name);
        }
        // Without a partial block the result equals CBC.
        let cbc = CipherScheme::AesCbc { iv: [0; 16], padded: false };
        for len in [16, 32, 64] {
            let [one, other] = [&scheme, &cbc]
                .map(|scheme| crypt(provider, scheme, Direction::Encrypt, key, &message[..len]));
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
        assert_eq!(
            crypt(provider, &scheme, Direction::Encrypt, &key, &message),
            Ok(expected),
            "{}",
            provider.name
        );
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
fn chacha20_matches_rfc_8439_and_the_original() {
    let key: Vec<u8> = (0..32).collect();
    let sunscreen =
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it.";
    let rfc = CipherScheme::ChaCha20 { nonce: hex("000000000000004a00000000").into(), counter: 1 };
    let original = CipherScheme::ChaCha20 { nonce: [0; 8].into(), counter: 0 };
    for provider in Provider::ALL {
        let made = crypt(provider, &rfc, Direction::Encrypt, &key, sunscreen);
        let expected = "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dabcd62b357\
            1639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736\
            5af90bbf74a35be6b40b8eedf2785e42874d";
        assert_eq!(made, Ok(hex(expected)), "{}", provider.name);
        let made = crypt(provider, &original, Direction::Encrypt, &[0; 32], &[0; 32]);
        let expected = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7";
        assert_eq!(made, Ok(hex(expected)), "{}", provider.name);
        let wrong = CipherScheme::ChaCha20 { nonce: [0; 11].into(), counter: 0 };
        let outcome = crypt(provider, &wrong, Direction::Encrypt, &[0; 32], &[]);
        assert_eq!(outcome, Err(Error::MechanismParamInvalid), "{}", provider.name);
    }
}

#[test]
fn xcbc_mac_matches_rfc_3566() {
    let numbers: Vec<u8> = (0..34).collect();
    let zeros = [0; 1000];
    for provider in Provider::ALL {
        for (message, expected) in [
            (&numbers[..0], "75f0251d528ac01c4573dfd584d79f29"),
            (&numbers[..3], "5b376580ae2f19afe7219ceef172756f"),
            (&numbers[..16], "d2a246fa349b68a79998a4394ff7a263"),
            (&numbers[..20], "47f51b4564966215b8985c63055ed308"),
            (&numbers[..32], "f54f0ec8d2b9f3d36807734bd5283fd4"),
            (&numbers[..34], "becbb3bccdb518a30677d5481fb6b4d8"),
            (&zeros, "f0dafee895db30253761103b5d84528f"),
        ] {
            let made = mac(provider, &MacScheme::AesXcbc, &numbers[..16], message, 5);
            assert_eq!(made, Ok(hex(expected)), "{} {}", provider.name, message.len());
        }
        let outcome = mac(provider, &MacScheme::AesXcbc, &numbers[..24], &[], 1);
        assert_eq!(outcome, Err(Error::KeySizeRange), "{}", provider.name);
    }
}

#[test]
fn cbc_mac_equals_the_last_block_of_cbc() {
    let cbc = CipherScheme::AesCbc { iv: [0; 16], padded: false };
    for provider in Provider::ALL {
        for len in [1, 15, 16, 17, 32, 100] {
            let mut padded = bytes(len);
            padded.resize(len.next_multiple_of(16), 0);
            let encrypted = crypt(provider, &cbc, Direction::Encrypt, &hex(KEY), &padded).unwrap();
            let made = mac(provider, &MacScheme::AesCbcMac, &hex(KEY), &bytes(len), 9).unwrap();
            assert_eq!(made, encrypted[encrypted.len() - 16..], "{} {len}", provider.name);
        }
    }
}

#[test]
fn hmac_with_shake_is_refused() {
    for provider in Provider::ALL {
        for hash in [Hash::Shake128, Hash::Shake256] {
            let outcome = mac(provider, &MacScheme::Hmac(hash), &[1; 32], &[], 1);
            assert_eq!(outcome, Err(Error::MechanismInvalid), "{}", provider.name);
        }
    }
}
