//! Known answers that no vector file has: digests, Ed25519 signatures, and ECDSA at the edges of its encoding.

use jeton::backend::{Curve, Hash, PrivateParts, Provider, PublicParts, Scheme};
use jeton::error::Error;
use jeton::secret::Secret;

use crate::support::{bytes, digest, hex, sign, verify};

/// Of nothing, of "abc" and of a million "a" (FIPS 180-2, appendices A to C).
const DIGESTS: [(Hash, [&str; 3]); 5] = [
    (
        Hash::Sha1,
        [
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
        ],
    ),
    (
        Hash::Sha224,
        [
            "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f",
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
            "20794655980c91d8bbb4c1ea97618a4bf03f42581948b2ee4ee7ad67",
        ],
    ),
    (
        Hash::Sha256,
        [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        ],
    ),
    (
        Hash::Sha384,
        [
            "38b060a751ac96384cd9327eb1b1e36a21fdb71114be07434c0cc7bf63f6e1da274edebfe76f65fbd51ad2f14898b95b",
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            "9d0e1809716474cb086e834e310a4a1ced149e9c00f248527972cec5704c2a5b07b8b3dc38ecc4ebae97ddd87f3d8985",
        ],
    ),
    (
        Hash::Sha512,
        [
            "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973ebde0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b",
        ],
    ),
];

#[test]
fn digests_have_the_standards_values() {
    let million = vec![b'a'; 1_000_000];
    for provider in Provider::ALL {
        for (hash, expected) in DIGESTS {
            for (data, expected) in [&b""[..], b"abc", &million].into_iter().zip(expected) {
                assert_eq!(
                    digest(provider, hash, data),
                    hex(expected),
                    "{} {hash:?} {}",
                    provider.name,
                    data.len()
                );
            }
        }
    }
}

#[test]
fn digests_in_parts_are_those_of_the_whole() {
    let data = bytes(1000);
    for provider in Provider::ALL {
        for (hash, _) in DIGESTS {
            let mut hasher = provider.digest.start(hash).unwrap();
            // Around the block sizes, and empty parts; a second round sees that `finish` started over.
            for part in [1, 3, 63, 64, 65, 127, 128, 129, 999] {
                for chunk in data.chunks(part) {
                    hasher.update(chunk).unwrap();
                    hasher.update(&[]).unwrap();
                }
                let mut out = vec![0; hash.len()];
                hasher.finish(&mut out).unwrap();
                assert_eq!(out, digest(provider, hash, &data), "{} {hash:?} {part}", provider.name);
            }
        }
    }
}

#[test]
fn reset_forgets_the_input() {
    for provider in Provider::ALL {
        for (hash, expected) in DIGESTS {
            let mut hasher = provider.digest.start(hash).unwrap();
            hasher.update(b"forget me").unwrap();
            hasher.reset().unwrap();
            hasher.update(b"abc").unwrap();
            let mut out = vec![0; hash.len()];
            hasher.finish(&mut out).unwrap();
            assert_eq!(out, hex(expected[1]), "{} {hash:?}", provider.name);
        }
    }
}

#[test]
fn random_bytes_differ() {
    for provider in Provider::ALL {
        let mut blocks = [[0; 32]; 3];
        for block in &mut blocks {
            provider.random.fill(block).unwrap();
        }
        let [a, b, c] = blocks;
        assert!(a != b && b != c && a != c && a != [0; 32], "{}", provider.name);
        assert_eq!(provider.random.fill(&mut []), Ok(()));
    }
}

/// Seed, public key, message, signature (RFC 8032, 7.1, tests 1 and 2).
const ED25519: [[&str; 4]; 2] = [
    [
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595b\
         be24655141438e7a100b",
    ],
    [
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb430\
         2aeeb00d291612bb0c00",
    ],
];

#[test]
fn ed25519_signatures_are_those_of_rfc_8032() {
    for provider in Provider::ALL {
        for [seed, point, message, signature] in ED25519.map(|row| row.map(hex)) {
            let key = PrivateParts::Ed25519 { seed: Secret::new(seed) };
            let public = PublicParts::Ed25519 { point: point.try_into().unwrap() };
            assert!(provider.keys.private(&key).unwrap().public().unwrap() == public, "{}", provider.name);
            assert_eq!(
                sign(provider, &key, &Scheme::Ed25519, &message).unwrap(),
                signature,
                "{}",
                provider.name
            );
        }
    }
}

#[test]
fn ecdsa_verifies_halves_without_their_common_zeros() {
    // Made for this test: r and s both begin with a zero byte, which is left out.
    let point = hex(
        "0456cebb19ad99b7c2eb9031f56d69b47bfb2439e3ab5cdaa1f415ec376d8f6ac154aeefdb165a3cc871528624109149\
         a63acc10501b15221335d02ae3715f21ac",
    );
    let digest = hex("14110079e11f2d58b797e99e7b7aaa976b1dd81272a92958c43f50f43506e7ed");
    let short = hex(
        "8bb3abe1d940fe19d1037b71c4cd5a00f62ee65db8b43989ae5768aac3020bcb144f4d6330a2455db158f3e41ec76a8d\
         80a9ca0f511b11b3218e552f521e",
    );
    let (r, s) = short.split_at(31);
    let key = PublicParts::Ec { curve: Curve::P256, point };
    for provider in Provider::ALL {
        assert_eq!(verify(provider, &key, &Scheme::Ecdsa, &digest, &short), Ok(()), "{}", provider.name);
        let full = [&[0], r, &[0], s].concat();
        assert_eq!(verify(provider, &key, &Scheme::Ecdsa, &digest, &full), Ok(()), "{}", provider.name);
        // One half alone cut: the split falls elsewhere.
        let uneven = [&[0], r, s].concat();
        let outcome = verify(provider, &key, &Scheme::Ecdsa, &digest, &uneven);
        assert_eq!(outcome, Err(Error::SignatureLenRange), "{}", provider.name);
    }
}

#[test]
fn p521_takes_the_leftmost_bits_of_longer_digests() {
    // Made for this test by the formulas of FIPS 186-5, 6.4 over Python's integers, for digests of `bytes(length)`.
    let point = hex(
        "04005ff595b54340908a6d105a3102cc855e863fe87e7f74b8c8377e746a7df34428010117ab45a94b46ddb0c8026732\
         f39d8e07df96eeaf6cd3bdb5bf060963da88f701e497a39834d363f54e693b6ec22b4eedad23d5773173894b8fece4d8\
         820f471ae7d0b529102a61b5648c2bebc5993824567d38b07c3ed0c04d5b2ae31a3aecdaf6",
    );
    let signatures = [
        (
            65,
            "007018654b845288c0df3e826b910fbce4613eaff120f9211fa44bc366b64147d7c5fa43f9dac9b923b24f34dcafed20\
             0c011684574d5d37f8ad1975acb77d61ed61009185a72554e79aa8f5911fb118dcd258890e5af6f4a9ebe17468f51e91\
             3583d765e5e641be42a918b9e64207f69ad0b2ee4c52bd2e0fb9ecac1bcfe0e9d04b25e7",
        ),
        (
            66,
            "001d985e41f2914876603b01a1631a91edca10f5ec67fbb93c14cf33877c49434299bda9d05db90a34d590ffc66cbcf7\
             71bca2eddf98ed7d90e829815f3642caa64f01a7927f572f8db01ec11b85c75885b4bc32587f0eebcdc14cb6e973d9b8\
             e2a3f0fa60e92d35048bfa3690ec27baab8bfadcb0307f816b45c637b0d33303990677bc",
        ),
        (
            100,
            "00f169217378950abfb1fca17ffbf01c60ebe338eed47303cf05c899dc2a73f5b9f22249b43081106897f1f9a45f6b83\
             c911583641923d2d11b5df16de8b7800bbfd009162dd64980fad89766ec348f32ab9fb65245dd081709e7d708c9cfd16\
             08f31aea0e628c38389db86460adcd5d76df4b45d01dccc3c4a00415651df625cfd479f2",
        ),
    ];
    let key = PublicParts::Ec { curve: Curve::P521, point };
    for provider in Provider::ALL {
        for (len, signature) in signatures {
            let outcome = verify(provider, &key, &Scheme::Ecdsa, &bytes(len), &hex(signature));
            assert_eq!(outcome, Ok(()), "{} {len}", provider.name);
        }
    }
}
