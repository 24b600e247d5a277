//! Known answers that no vector file has: digests, EdDSA signatures, and limits of the ECDSA
//! encoding.

use jeton::backend::{Curve, Hash, PrivateParts, Provider, PublicParts, Scheme};
use jeton::error::Error;
use jeton::secret::Secret;
use jeton_vectors::hex;

use crate::support::{bytes, digest, sign, verify};

/// The digests of the empty message, of "abc" and of a million "a" (FIPS 180-2, appendices A to C;
/// the others from Python's hashlib).
const DIGESTS: [(Hash, [&str; 3]); 13] = [
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
    (
        Hash::Sha512_224,
        [
            "6ed0dd02806fa89e25de060c19d3ac86cabb87d6a0ddd05c333b84f4",
            "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa",
            "37ab331d76f0d36de422bd0edeb22a28accd487b7a8453ae965dd287",
        ],
    ),
    (
        Hash::Sha512_256,
        [
            "c672b8d1ef56ed28ab87c3622c5114069bdd3ad7b8f9737498d0c01ecef0967a",
            "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23",
            "9a59a052930187a97038cae692f30708aa6491923ef5194394dc68d56c74fb21",
        ],
    ),
    (
        Hash::Sha3_224,
        [
            "6b4e03423667dbb73b6e15454f0eb1abd4597f9a1b078e3f5b5a6bc7",
            "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf",
            "d69335b93325192e516a912e6d19a15cb51c6ed5c15243e7a7fd653c",
        ],
    ),
    (
        Hash::Sha3_256,
        [
            "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
            "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
            "5c8875ae474a3634ba4fd55ec85bffd661f32aca75c6d699d0cdcb6c115891c1",
        ],
    ),
    (
        Hash::Sha3_384,
        [
            "0c63a75b845e4f7d01107d852e4c2485c51a50aaaa94fc61995e71bbee983a2ac3713831264adb47fb6bd1e058d5f004",
            "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
            "eee9e24d78c1855337983451df97c8ad9eedf256c6334f8e948d252d5e0e76847aa0774ddb90a842190d2c558b4b8340",
        ],
    ),
    (
        Hash::Sha3_512,
        [
            "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a615b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26",
            "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
            "3c3a876da14034ab60627c077bb98f7e120a2a5370212dffb3385a18d4f38859ed311d0a9d5141ce9cc5c66ee689b266a8aa18ace8282a0e0db596c90b0a7b87",
        ],
    ),
    (
        Hash::Shake128,
        [
            "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26",
            "5881092dd818bf5cf8a3ddb793fbcba74097d5c526a6d35f97b83351940f2cc8",
            "9d222c79c4ff9d092cf6ca86143aa411e369973808ef97093255826c5572ef58",
        ],
    ),
    (
        Hash::Shake256,
        [
            "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762fd75dc4ddd8c0f200cb05019d67b592f6fc821c49479ab48640292eacb3b7c4be",
            "483366601360a8771c6863080cc4114d8db44530f8f1e1ee4f94ea37e78b5739d5a15bef186a5386c75744c0527e1faa9f8726e462a12a4feb06bd8801e751e4",
            "3578a7a4ca9137569cdf76ed617d31bb994fca9c1bbf8b184013de8234dfd13a3fd124d4df76c0a539ee7dd2f6e1ec346124c815d9410e145eb561bcd97b18ab",
        ],
    ),
];

#[test]
fn digests_match_the_standard() {
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
fn digests_in_parts_equal_those_of_one_part() {
    let data = bytes(1000);
    for provider in Provider::ALL {
        for (hash, _) in DIGESTS {
            let mut hasher = provider.digest.start(hash).unwrap();
            // Lengths around the block sizes, and empty parts. The second and later rounds show
            // that `finish` resets the digest.
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
fn reset_discards_the_input() {
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
fn ed25519_signatures_match_rfc_8032() {
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

/// Scheme, seed, message or digest, signature.
type EdRow = (Scheme, &'static str, Vec<u8>, &'static str);

#[test]
fn ed25519ctx_and_ed448_signatures_match_rfc_8032() {
    let ed25519 = |prehash, context: &[u8]| Scheme::Ed25519Context { prehash, context: context.into() };
    let ed448 = |prehash, context: &[u8]| Scheme::Ed448 { prehash, context: context.into() };
    for provider in Provider::ALL {
        let rows: [EdRow; 5] = [
            (
                ed25519(false, b"foo"),
                "0305334e381af78f141cb666f6199f57bc3495335a256a95bd2a55bf546663f6",
                hex("f726936d19c800494e3fdaff20b276a8"),
                "55a4cc2f70a54e04288c5f4cd1e45a7bb520b36292911876cada7323198dd87a8b36950b95130022907a7fb7c4e9b2d5f6cca685\
                 a587b4b21f4b888e4e7edb0d",
            ),
            (
                ed25519(true, b""),
                "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
                digest(provider, Hash::Sha512, b"abc"),
                "98a70222f0b8121aa9d30f813d683f809e462b469c7ff87639499bb94e6dae4131f85042463c2a355a2003d062adf5aaa10b8c61\
                 e636062aaad11c2a26083406",
            ),
            (
                ed448(false, b""),
                "6c82a562cb808d10d632be89c8513ebf6c929f34ddfa8c9f63c9960ef6e348a3528c8a3fcc2f044e39a3fc5b94492f8f032e7549\
                 a20098f95b",
                vec![],
                "533a37f6bbe457251f023c0d88f976ae2dfb504a843e34d2074fd823d41a591f2b233f034f628281f2fd7a22ddd47d7828c59bd0\
                 a21bfd3980ff0d2028d4b18a9df63e006c5d1c2d345b925d8dc00b4104852db99ac5c7cdda8530a113a0f4dbb61149f05a736326\
                 8c71d95808ff2e652600",
            ),
            (
                ed448(false, b"foo"),
                "c4eab05d357007c632f3dbb48489924d552b08fe0c353a0d4a1f00acda2c463afbea67c5e8d2877c5e3bc397a659949ef8021e95\
                 4e0a12274e",
                vec![3],
                "d4f8f6131770dd46f40867d6fd5d5055de43541f8c5e35abbcd001b32a89f7d2151f7647f11d8ca2ae279fb842d607217fce6e04\
                 2f6815ea000c85741de5c8da1144a6a1aba7f96de42505d7a7298524fda538fccbbb754f578c1cad10d54d0d5428407e85dcbc98\
                 a49155c13764e66c3c00",
            ),
            (
                ed448(true, b""),
                "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42ef7822e0d5104127dc05d6dbefde69e3ab2cec7c\
                 867c6e2c49",
                digest(provider, Hash::Shake256, b"abc"),
                "822f6901f7480f3d5f562c592994d9693602875614483256505600bbc281ae381f54d6bce2ea911574932f52a4e6cadd78769375\
                 ec3ffd1b801a0d9b3f4030cd433964b6457ea39476511214f97469b57dd32dbc560a9a94d00bff07620464a3ad203df7dc7ce360\
                 c3cd3696d9d9fab90f00",
            ),
        ];
        for (scheme, seed, input, signature) in rows {
            let seed = Secret::new(hex(seed));
            let key = match scheme {
                Scheme::Ed448 { .. } => PrivateParts::Ed448 { seed },
                _ => PrivateParts::Ed25519 { seed },
            };
            let public = provider.keys.private(&key).unwrap().public().unwrap();
            assert_eq!(sign(provider, &key, &scheme, &input).unwrap(), hex(signature), "{}", provider.name);
            assert_eq!(
                verify(provider, &public, &scheme, &input, &hex(signature)),
                Ok(()),
                "{}",
                provider.name
            );
        }
    }
}

#[test]
fn ecdsa_verifies_shorter_halves_of_equal_length() {
    // Generated for this test: r and s both begin with a zero byte, which is omitted.
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
        // If only one half is shorter, the signature has an odd length.
        let uneven = [&[0], r, s].concat();
        let outcome = verify(provider, &key, &Scheme::Ecdsa, &digest, &uneven);
        assert_eq!(outcome, Err(Error::SignatureLenRange), "{}", provider.name);
    }
}

#[test]
fn p521_uses_the_leftmost_bits_of_longer_digests() {
    // Computed for this test in Python, with the formulas of FIPS 186-5, 6.4. Each digest is
    // `bytes(length)`.
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
