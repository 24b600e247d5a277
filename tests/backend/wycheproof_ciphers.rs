//! Project Wycheproof's vectors of symmetric ciphers, key wraps and MACs.

use jeton::backend::{AeadScheme, CipherScheme, Direction, Hash, MacScheme, Provider};
use jeton::error::{Error, Result};
use jeton_vectors::wycheproof::{aead, cipher, keywrap, mac, mac_with_nonce};

use crate::support::{crypt, mac as code};
use crate::wycheproof::Run;

/// Fails if decryption or encryption fails or has another result than the vector.
fn both_ways(
    provider: &Provider,
    scheme: &CipherScheme,
    key: &[u8],
    plain: &[u8],
    cipher: &[u8],
) -> Result<()> {
    let decrypted = crypt(provider, scheme, Direction::Decrypt, key, cipher)?;
    let encrypted = crypt(provider, scheme, Direction::Encrypt, key, plain)?;
    if decrypted == plain && encrypted == cipher { Ok(()) } else { Err(Error::EncryptedDataInvalid) }
}

#[test]
fn aes_gcm() {
    aead_set(aead::TestName::AesGcm, AeadScheme::AesGcm, |test, tag_len| {
        Some(CipherScheme::Aead {
            cipher: AeadScheme::AesGcm,
            nonce: test.nonce[..].into(),
            aad: test.aad[..].into(),
            tag_len,
            data_len: 0,
        })
    });
}

#[test]
fn aes_ccm() {
    aead_set(aead::TestName::AesCcm, AeadScheme::AesCcm, |test, tag_len| {
        Some(CipherScheme::Aead {
            cipher: AeadScheme::AesCcm,
            nonce: test.nonce[..].into(),
            aad: test.aad[..].into(),
            tag_len,
            data_len: test.ct.len(),
        })
    });
}

#[test]
fn chacha20_poly1305() {
    aead_set(aead::TestName::ChaCha20Poly1305, AeadScheme::ChaCha20Poly1305, |test, _| {
        // The backends accept only nonces of 12 bytes here.
        let nonce = <[u8; 12]>::try_from(&test.nonce[..]).ok()?.into();
        Some(CipherScheme::Aead {
            cipher: AeadScheme::ChaCha20Poly1305,
            nonce,
            aad: test.aad[..].into(),
            tag_len: 16,
            data_len: 0,
        })
    });
}

/// Checks decryption and encryption with a separate tag, twice with one cipher.
fn beside(provider: &Provider, scheme: AeadScheme, test: &aead::Test) -> Result<()> {
    let mut cipher = provider.ciphers.aead(scheme, &test.key)?;
    for _ in 0..2 {
        let mut plain = vec![0xa5; test.ct.len()];
        let opened = cipher.open(&test.nonce, &test.aad, &test.ct, &test.tag, &mut plain);
        assert!(
            opened.is_ok() || plain.iter().all(|byte| [0, 0xa5].contains(byte)),
            "plaintext of a forgery"
        );
        opened?;
        let (mut sealed, mut tag) = (vec![0; test.pt.len()], vec![0; test.tag.len()]);
        cipher.seal(&test.nonce, &test.aad, &test.pt, &mut sealed, &mut tag)?;
        if plain != test.pt[..] || sealed != test.ct[..] || tag != test.tag[..] {
            return Err(Error::EncryptedDataInvalid);
        }
    }
    Ok(())
}

fn aead_set(name: aead::TestName, kept: AeadScheme, scheme: fn(&aead::Test, usize) -> Option<CipherScheme>) {
    let set = aead::TestSet::load(name).expect("a set of the crate");
    Run::each(&format!("{name:?}"), |run| {
        for group in &set.test_groups {
            for test in &group.tests {
                let Some(scheme) = scheme(test, group.tag_size / 8) else {
                    run.skipped += 1;
                    continue;
                };
                let sealed = [&test.ct[..], &test.tag].concat();
                let outcome = both_ways(run.provider, &scheme, &test.key, &test.pt, &sealed);
                run.judge(test.tc_id, &test.comment, test.result, outcome);
                let outcome = beside(run.provider, kept, test);
                run.judge(test.tc_id, &test.comment, test.result, outcome);
            }
        }
    });
}

#[test]
fn aes_cbc_with_padding() {
    cipher_set(cipher::TestName::AesCbcPkcs5, |iv| CipherScheme::AesCbc { iv, padded: true });
}

#[test]
fn aes_xts() {
    cipher_set(cipher::TestName::AesXts, |tweak| CipherScheme::AesXts { tweak });
}

fn cipher_set(name: cipher::TestName, scheme: fn([u8; 16]) -> CipherScheme) {
    let set = cipher::TestSet::load(name).expect("a set of the crate");
    Run::each(&format!("{name:?}"), |run| {
        for group in &set.test_groups {
            // SP 800-38E has no XTS with AES-192.
            if matches!(name, cipher::TestName::AesXts) && group.key_size == 384 {
                run.skipped += group.tests.len();
                continue;
            }
            for test in &group.tests {
                // A vector may leave out the last bytes of its tweak.
                let mut iv = [0; 16];
                iv[..test.nonce.len()].copy_from_slice(&test.nonce);
                let outcome = both_ways(run.provider, &scheme(iv), &test.key, &test.pt, &test.ct);
                run.judge(test.tc_id, &test.comment, test.result, outcome);
            }
        }
    });
}

#[test]
fn aes_key_wraps() {
    use keywrap::TestName as T;
    for (name, scheme) in [
        (T::AesKeyWrap, CipherScheme::AesKw { iv: None }),
        (T::AesKeyWrapWithPadding, CipherScheme::AesKwp { iv: None }),
    ] {
        let set = keywrap::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("{name:?}"), |run| {
            for group in &set.test_groups {
                for test in &group.tests {
                    let outcome = both_ways(run.provider, &scheme, &test.key, &test.pt, &test.ct);
                    run.judge(test.tc_id, &test.comment, test.result, outcome);
                }
            }
        });
    }
}

/// Checks that the MAC begins with this tag.
fn verify(provider: &Provider, scheme: &MacScheme, key: &[u8], message: &[u8], tag: &[u8]) -> Result<()> {
    let made = code(provider, scheme, key, message, 7)?;
    if made[..tag.len()] == *tag { Ok(()) } else { Err(Error::SignatureInvalid) }
}

#[test]
fn hmac_and_cmac() {
    use mac::TestName as T;
    for (name, scheme) in [
        (T::AesCmac, MacScheme::AesCmac),
        (T::HmacSha1, MacScheme::Hmac(Hash::Sha1)),
        (T::HmacSha224, MacScheme::Hmac(Hash::Sha224)),
        (T::HmacSha256, MacScheme::Hmac(Hash::Sha256)),
        (T::HmacSha384, MacScheme::Hmac(Hash::Sha384)),
        (T::HmacSha512, MacScheme::Hmac(Hash::Sha512)),
        (T::HmacSha512_224, MacScheme::Hmac(Hash::Sha512_224)),
        (T::HmacSha512_256, MacScheme::Hmac(Hash::Sha512_256)),
        (T::HmacSha3_224, MacScheme::Hmac(Hash::Sha3_224)),
        (T::HmacSha3_256, MacScheme::Hmac(Hash::Sha3_256)),
        (T::HmacSha3_384, MacScheme::Hmac(Hash::Sha3_384)),
        (T::HmacSha3_512, MacScheme::Hmac(Hash::Sha3_512)),
    ] {
        let set = mac::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("{name:?}"), |run| {
            for group in &set.test_groups {
                for test in &group.tests {
                    let outcome = verify(run.provider, &scheme, &test.key, &test.msg, &test.tag);
                    run.judge(test.tc_id, &test.comment, test.result, outcome);
                }
            }
        });
    }
}

#[test]
fn aes_gmac() {
    let set = mac_with_nonce::TestSet::load(mac_with_nonce::TestName::Gmac).expect("a set of the crate");
    Run::each("Gmac", |run| {
        for group in &set.test_groups {
            for test in &group.tests {
                let scheme = MacScheme::AesGmac { iv: test.nonce[..].into() };
                let outcome = verify(run.provider, &scheme, &test.key, &test.msg, &test.tag);
                run.judge(test.tc_id, &test.comment, test.result, outcome);
            }
        }
    });
}
