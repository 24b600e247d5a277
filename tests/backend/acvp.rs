//! NIST's ACVP vectors: keys of ML-DSA, ML-KEM and SLH-DSA from seeds, and decapsulation.

use jeton::backend::{MlDsa, MlKem, PairSpec, PrivateParts, Provider, PublicParts, SlhDsa};
use jeton::secret::Secret;
use jeton_vectors::acvp::{ML_DSA_KEYS, ML_KEM_DECAPSULATION, ML_KEM_KEYS, SLH_DSA_KEYS, Set, Test};

/// Runs a set with each backend. Does nothing if the file of the set is missing.
fn each_backend(name: &str, count: usize, check: impl Fn(&Provider, &Test<'_>)) {
    let Some(set) = Set::read(name) else { return };
    for provider in Provider::ALL {
        let executed = set.tests().inspect(|test| check(provider, test)).count();
        println!("{}: ACVP {name}: {executed} tests", provider.name);
        assert_eq!(executed, count);
    }
}

#[test]
fn ml_dsa_keys_from_seeds_match_acvp() {
    each_backend(ML_DSA_KEYS, 75, |provider, test| {
        let (set, seed) = (ml_dsa_set(test.parameters), Secret::new(test.bytes("seed")));
        let (public, private) = provider.keys.generate(&PairSpec::MlDsa { set, seed: Some(&seed) }).unwrap();
        let expected = PublicParts::MlDsa { set, key: test.bytes("pk") };
        assert!(public == expected, "{} {}: public key", provider.name, test.number);
        let PrivateParts::MlDsa { seed: kept, key, .. } = private else { panic!("not an ML-DSA key") };
        assert_eq!(kept.as_deref(), Some(&seed[..]), "{} {}: seed", provider.name, test.number);
        assert_eq!(key[..], test.bytes("sk"), "{} {}: expanded key", provider.name, test.number);
    });
}

#[test]
fn ml_kem_keys_from_seeds_match_acvp() {
    each_backend(ML_KEM_KEYS, 75, |provider, test| {
        let set = ml_kem_set(test.parameters);
        let seed = Secret::new([test.bytes("d"), test.bytes("z")].concat());
        let (public, private) = provider.keys.generate(&PairSpec::MlKem { set, seed: Some(&seed) }).unwrap();
        let expected = PublicParts::MlKem { set, key: test.bytes("ek") };
        assert!(public == expected, "{} {}: public key", provider.name, test.number);
        let PrivateParts::MlKem { key, .. } = private else { panic!("not an ML-KEM key") };
        assert_eq!(key[..], test.bytes("dk"), "{} {}: expanded key", provider.name, test.number);
    });
}

#[test]
fn ml_kem_decapsulation_matches_acvp() {
    each_backend(ML_KEM_DECAPSULATION, 105, |provider, test| {
        let (set, key) = (ml_kem_set(test.parameters), Secret::new(test.bytes("dk")));
        let key = provider.keys.private(&PrivateParts::MlKem { set, seed: None, key }).unwrap();
        let secret = key.decapsulate(&test.bytes("c")).unwrap();
        assert_eq!(secret[..], test.bytes("k"), "{} {}", provider.name, test.number);
    });
}

#[test]
fn slh_dsa_keys_from_seeds_match_acvp() {
    each_backend(SLH_DSA_KEYS, 22, |provider, test| {
        let set = slh_dsa_set(test.parameters);
        let seed = Secret::new(["skSeed", "skPrf", "pkSeed"].map(|part| test.bytes(part)).concat());
        let (public, private) = provider.keys.generate(&PairSpec::SlhDsa { set, seed: Some(&seed) }).unwrap();
        let expected = PublicParts::SlhDsa { set, key: test.bytes("pk") };
        assert!(public == expected, "{} {}: public key", provider.name, test.number);
        let PrivateParts::SlhDsa { key, .. } = private else { panic!("not an SLH-DSA key") };
        assert_eq!(key[..], test.bytes("sk"), "{} {}: private key", provider.name, test.number);
    });
}

fn ml_dsa_set(name: &str) -> MlDsa {
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
    // The variants are named `Sha2_128s` (SLH-DSA-SHA2-128s) and `Shake128s` (SLH-DSA-SHAKE-128s).
    let plain = name.replace("SLH-DSA-", "").replace("SHA2-", "SHA2_").replace("SHAKE-", "SHAKE");
    *SlhDsa::ALL.iter().find(|set| format!("{set:?}").eq_ignore_ascii_case(&plain)).expect(name)
}
