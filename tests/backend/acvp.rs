//! NIST's ACVP vectors for ML-DSA key generation, where they are at hand.
//!
//! The sets for signing and verifying are of the internal interface (no `0 || len(ctx) || ctx` before the message),
//! which a `Scheme` cannot say and PKCS#11 does not have: those of Wycheproof serve instead.

use std::path::PathBuf;

use jeton::backend::{MlDsa, PairSpec, PrivateParts, Provider, PublicParts};
use jeton::secret::Secret;
use serde_json::Value;

use crate::support::hex;

#[test]
fn ml_dsa_keys_of_seeds_are_nists() {
    let Some(set) = read("ML-DSA-keyGen-FIPS204.json") else { return };
    for provider in Provider::ALL {
        let mut executed = 0;
        for group in list(&set, "testGroups") {
            let parameters = parameter_set(text(group, "parameterSet"));
            for test in list(group, "tests") {
                key_of_seed(provider, parameters, test);
                executed += 1;
            }
        }
        println!("{}: ACVP ML-DSA keyGen: {executed} tests", provider.name);
        assert_eq!(executed, 75);
    }
}

fn key_of_seed(provider: &Provider, set: MlDsa, test: &Value) {
    let (seed, case) = (Secret::new(hex(text(test, "seed"))), &test["tcId"]);
    let (public, private) = provider.keys.generate(&PairSpec::MlDsa { set, seed: Some(&seed) }).unwrap();
    let expected = PublicParts::MlDsa { set, key: hex(text(test, "pk")) };
    assert!(public == expected, "{} {case}: public key", provider.name);
    let PrivateParts::MlDsa { seed: kept, key, .. } = private else { panic!("not an ML-DSA key") };
    assert_eq!(kept.as_deref(), Some(&seed[..]), "{} {case}: seed", provider.name);
    assert_eq!(key[..], hex(text(test, "sk")), "{} {case}: expanded key", provider.name);
}

/// A set below `acvp/` of the directory `JETON_VECTORS`, or of its usual place beside the repository.
fn read(name: &str) -> Option<Value> {
    let directory = std::env::var_os("JETON_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors"), PathBuf::from);
    let path = directory.join("acvp").join(name);
    match std::fs::read_to_string(&path) {
        Ok(json) => Some(serde_json::from_str(&json).expect("a JSON file")),
        Err(error) => {
            println!("skipped: {}: {error}", path.display());
            None
        }
    }
}

fn parameter_set(name: &str) -> MlDsa {
    match name {
        "ML-DSA-44" => MlDsa::MlDsa44,
        "ML-DSA-65" => MlDsa::MlDsa65,
        "ML-DSA-87" => MlDsa::MlDsa87,
        _ => panic!("unknown parameter set {name}"),
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().expect("a list")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().expect("a string")
}
