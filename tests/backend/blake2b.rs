//! BLAKE2b and its HMAC. The digest of 512 bits is from RFC 7693, appendix A. Python's `hashlib`
//! and `hmac` computed the other values.

use jeton::backend::{Hash, MacScheme, PairSpec, Provider, Scheme};
use jeton::error::Error;
use jeton_vectors::hex;

use crate::support::{digest, mac};

#[test]
fn digests_and_macs_match_known_values() {
    // The digest of `abc`; the MAC of `data` with a key longer than a block.
    let known = [
        (
            Hash::Blake2b160,
            "384264f676f39536840523f284921cdc68b6846b",
            "3b0200e5ad69ce57c165e3b8ce597d1f2ba306fa",
        ),
        (
            Hash::Blake2b256,
            "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319",
            "0bb898004f132bf8ac2f95238becdf94ad6050cc74cfa911d175c44957ccf9e1",
        ),
        (
            Hash::Blake2b384,
            "6f56a82c8e7ef526dfe182eb5212f7db9df1317e57815dbda46083fc30f54ee6c66ba83be64b302d7cba6ce15bb556f4",
            "44158527beec47ca98e173db5edb8ec7d59d305a2a8b099f1795a792b93823a6319a9b5bd5055869f3b059ed675652d9",
        ),
        (
            Hash::Blake2b512,
            "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
            "5e01bdd05f1685cc62fa2d6452d310191b636a7f3d32cd47c1184c0438ee8f19d4709a42f1fa8004fc8b64e9cc87b54bf27cd1f9f029a8d3582ddd2a8be88017",
        ),
    ];
    let key: Vec<u8> = (0..150).collect();
    for provider in Provider::ALL {
        for (hash, expected, code) in known {
            assert_eq!(digest(provider, hash, b"abc"), hex(expected), "{} {hash:?}", provider.name);
            let mut hasher = provider.digest.start(hash).expect("a digest");
            let mut out = vec![0; hash.len()];
            for part in [&b"a"[..], b"", b"bc"] {
                hasher.update(part).expect("a part");
            }
            hasher.finish(&mut out).expect("a digest");
            assert_eq!(out, hex(expected), "{} {hash:?}", provider.name);
            for part in [1, 4] {
                let made = mac(provider, &MacScheme::Hmac(hash), &key, b"data", part);
                assert_eq!(made, Ok(hex(code)), "{} {hash:?}", provider.name);
            }
        }
    }
}

/// PKCS #1 DigestInfo and HashML-DSA have no identifiers for BLAKE2b.
#[test]
fn pkcs1_signatures_refuse_blake2b() {
    for provider in Provider::ALL {
        let spec = PairSpec::Rsa { bits: 2048, public_exponent: &[1, 0, 1] };
        let (_, private) = provider.keys.generate(&spec).expect("a pair");
        let key = provider.keys.private(&private).expect("a key");
        for hash in Hash::BLAKE2B {
            let scheme = Scheme::RsaPkcs1 { hash: Some(hash) };
            assert_eq!(key.clone().signer(&scheme).err(), Some(Error::MechanismParamInvalid));
        }
    }
}
