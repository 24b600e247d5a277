//! NIST's ACVP vectors for keys of ML-DSA, ML-KEM and SLH-DSA and for ML-KEM, where they are at hand.
//!
//! The sets for signing and verifying, of SLH-DSA too, are of the internal interface (no `0 || len(ctx) || ctx` before the message),
//! which a `Scheme` cannot say and PKCS#11 does not have: for ML-DSA those of Wycheproof serve instead.
//! Encapsulation with a given randomness is left out likewise; its results are decapsulated.

use std::path::PathBuf;

use jeton::backend::{MlDsa, MlKem, PairSpec, PrivateParts, Provider, PublicParts, SlhDsa};
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

#[test]
fn ml_kem_keys_of_seeds_are_nists() {
    let Some(set) = read("ML-KEM-keyGen-FIPS203.json") else { return };
    for provider in Provider::ALL {
        let mut executed = 0;
        for group in list(&set, "testGroups") {
            let set = ml_kem_set(text(group, "parameterSet"));
            for test in list(group, "tests") {
                let seed = Secret::new(hex(&[text(test, "d"), text(test, "z")].concat()));
                let spec = PairSpec::MlKem { set, seed: Some(&seed) };
                let (public, private) = provider.keys.generate(&spec).unwrap();
                let expected = PublicParts::MlKem { set, key: hex(text(test, "ek")) };
                assert!(public == expected, "{} {}: public key", provider.name, test["tcId"]);
                let PrivateParts::MlKem { key, .. } = private else { panic!("not an ML-KEM key") };
                assert_eq!(key[..], hex(text(test, "dk")), "{} {}: expanded", provider.name, test["tcId"]);
                executed += 1;
            }
        }
        println!("{}: ACVP ML-KEM keyGen: {executed} tests", provider.name);
        assert_eq!(executed, 75);
    }
}

#[test]
fn ml_kem_decapsulates_to_nists_secrets() {
    let Some(set) = read("ML-KEM-encapDecap-FIPS203.json") else { return };
    for provider in Provider::ALL {
        let mut executed = 0;
        for group in list(&set, "testGroups") {
            let set = ml_kem_set(text(group, "parameterSet"));
            for test in list(group, "tests") {
                let holder = if group["dk"].is_string() { group } else { test };
                let key = Secret::new(hex(text(holder, "dk")));
                let key = provider.keys.private(&PrivateParts::MlKem { set, seed: None, key }).unwrap();
                let secret = key.decapsulate(&hex(text(test, "c"))).unwrap();
                assert_eq!(secret[..], hex(text(test, "k")), "{} {}", provider.name, test["tcId"]);
                executed += 1;
            }
        }
        println!("{}: ACVP ML-KEM encapDecap: {executed} tests", provider.name);
        assert_eq!(executed, 105);
    }
}

/// Keys of a small (s) set take 100 ms: the first of each such group serves.
#[test]
fn slh_dsa_keys_of_seeds_are_nists() {
    let Some(set) = read("SLH-DSA-keyGen-FIPS205.json") else { return };
    for provider in Provider::ALL {
        let mut executed = 0;
        for group in list(&set, "testGroups") {
            let name = text(group, "parameterSet");
            let set = slh_dsa_set(name);
            let tests = list(group, "tests");
            for test in &tests[..if name.ends_with('s') { 1 } else { tests.len() }] {
                let seed = ["skSeed", "skPrf", "pkSeed"].map(|part| text(test, part)).concat();
                let seed = Secret::new(hex(&seed));
                let spec = PairSpec::SlhDsa { set, seed: Some(&seed) };
                let (public, private) = provider.keys.generate(&spec).unwrap();
                let expected = PublicParts::SlhDsa { set, key: hex(text(test, "pk")) };
                assert!(public == expected, "{} {}: public key", provider.name, test["tcId"]);
                let PrivateParts::SlhDsa { key, .. } = private else { panic!("not an SLH-DSA key") };
                assert_eq!(key[..], hex(text(test, "sk")), "{} {}: private key", provider.name, test["tcId"]);
                executed += 1;
            }
        }
        println!("{}: ACVP SLH-DSA keyGen: {executed} tests", provider.name);
        assert_eq!(executed, 22);
    }
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

fn ml_kem_set(name: &str) -> MlKem {
    match name {
        "ML-KEM-512" => MlKem::MlKem512,
        "ML-KEM-768" => MlKem::MlKem768,
        "ML-KEM-1024" => MlKem::MlKem1024,
        _ => panic!("unknown parameter set {name}"),
    }
}

fn slh_dsa_set(name: &str) -> SlhDsa {
    // `Sha2_128s` is SLH-DSA-SHA2-128s, `Shake128s` SLH-DSA-SHAKE-128s.
    let plain = name.replace("SLH-DSA-", "").replace("SHA2-", "SHA2_").replace("SHAKE-", "SHAKE");
    *SlhDsa::ALL.iter().find(|set| format!("{set:?}").eq_ignore_ascii_case(&plain)).expect(name)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().expect("a list")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().expect("a string")
}
