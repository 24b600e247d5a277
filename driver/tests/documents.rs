//! The certificates, CRLs and OCSP responses of the pipeline are valid: OpenSSL accepts those with
//! classical algorithms, and the baseline `in-process` verifies all of them.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Scratch, has, jeton, peer, run, succeed};
use jeton_peers::Known;
use serde_json::Value;

const CLASSIC: [&str; 6] = ["ecdsa-p256", "ecdsa-p384", "ed25519", "rsa2048", "rsa3072", "rsa4096"];
const ALL: &str =
    "ecdsa-p256,ecdsa-p384,ed25519,ml-dsa-44,ml-dsa-65,ml-dsa-87,rsa2048,rsa3072,rsa4096,slh-dsa-sha2-128f";

#[test]
fn in_process_signs_with_all_algorithms_and_openssl_accepts_the_classical_ones() {
    let scratch = Scratch::new();
    let report = pipeline(&scratch, "in-process", ALL);
    assert_eq!(measured(&report, "in-process"), ALL.split(',').collect::<Vec<_>>());
    check(&scratch, "in-process", &CLASSIC);
}

#[test]
fn softhsm2_makes_documents_that_openssl_and_in_process_accept() {
    if peer(Known::SoftHsm2).is_none() {
        return;
    }
    let scratch = Scratch::new();
    let report = pipeline(&scratch, "softhsm2", &without_slh_dsa());
    let measured = measured(&report, "softhsm2");
    for algorithm in ["ecdsa-p256", "ecdsa-p384", "rsa2048", "rsa3072", "rsa4096"] {
        assert!(measured.contains(&algorithm), "{algorithm} is not in {measured:?}");
    }
    check(&scratch, "softhsm2", &measured);
}

#[test]
fn nss_makes_documents_that_openssl_and_in_process_accept() {
    if peer(Known::Nss).is_none() {
        return;
    }
    let scratch = Scratch::new();
    let report = pipeline(&scratch, "nss", &without_slh_dsa());
    let measured = measured(&report, "nss");
    for algorithm in ["ecdsa-p256", "rsa2048", "rsa3072", "rsa4096"] {
        assert!(measured.contains(&algorithm), "{algorithm} is not in {measured:?}");
    }
    check(&scratch, "nss", &measured);
}

#[test]
fn jeton_signs_with_all_algorithms_and_openssl_accepts_the_classical_ones() {
    if peer(Known::Jeton).is_none() {
        return;
    }
    let scratch = Scratch::new();
    let report = pipeline(&scratch, "jeton", ALL);
    assert_eq!(measured(&report, "jeton"), ALL.split(',').collect::<Vec<_>>());
    check(&scratch, "jeton", &CLASSIC);
}

#[test]
fn each_backend_of_jeton_verifies_what_the_other_signed() {
    if peer(Known::Jeton).is_none() {
        return;
    }
    let all = "ecdsa-p256,ed25519,ml-dsa-44,ml-dsa-65,rsa2048";
    for (signs, verifies) in [("aws-lc", "rustcrypto"), ("rustcrypto", "aws-lc")] {
        let scratch = Scratch::new();
        pipeline_with(&scratch, "jeton", all, &["--backend", signs]);
        let mut command =
            jeton(["verify-db", "--module", "jeton", "--backend", verifies, "--db", &scratch.file("db")]);
        let text = succeed(&mut command);
        // For each of the five algorithms: four certificates, a CRL and four OCSP responses of
        // Jeton, and as many of the baseline.
        assert_eq!(text.matches("9 verify").count(), 10, "{text}");
    }
}

#[test]
fn a_peer_verifies_what_in_process_signed() {
    let scratch = Scratch::new();
    pipeline(&scratch, "in-process", "ecdsa-p256,rsa2048");
    for known in [Known::SoftHsm2, Known::Nss] {
        if peer(known).is_some() {
            let text =
                succeed(&mut jeton(["verify-db", "--module", known.name(), "--db", &scratch.file("db")]));
            assert_eq!(text.matches("9 verify").count(), 2, "{text}");
        }
    }
}

/// Returns all algorithms except SLH-DSA, which is slow and which these peers lack.
fn without_slh_dsa() -> String {
    ALL.replace(",slh-dsa-sha2-128f", "")
}

/// Runs the pipeline with batches of 4 certificates and returns its report.
fn pipeline(scratch: &Scratch, module: &str, algorithms: &str) -> Value {
    pipeline_with(scratch, module, algorithms, &[])
}

fn pipeline_with(scratch: &Scratch, module: &str, algorithms: &str, more: &[&str]) -> Value {
    let (json, db, keep) = (scratch.file("report.json"), scratch.file("db"), scratch.file("keep"));
    let mut command = jeton(["pipeline", "--sizes", "4", "--min-seconds", "0", "--rsa-key-pool", "1"]);
    command.args(["--module", module, "--ca-key-algo", algorithms]).args(more);
    succeed(command.args(["--json", &json, "--db", &db, "--keep", &keep]));
    let text = std::fs::read_to_string(json).expect("the report was written");
    serde_json::from_str(&text).expect("the report is JSON")
}

/// Returns the algorithms with which the module was measured. Checks that each has the times of
/// fifteen stages.
fn measured<'a>(report: &'a Value, module: &str) -> Vec<&'a str> {
    let modules = report["modules"].as_array().expect("a list of modules");
    let module = modules.iter().find(|one| one["name"] == module).expect("the module is in the report");
    let batches = module["batches"].as_array().expect("a list of batches");
    for batch in batches {
        let seconds = batch["seconds"].as_array().expect("a list of times");
        assert_eq!(seconds.len(), 15);
        assert!(seconds.iter().all(|time| time["value"].as_f64().is_some_and(|time| time > 0.0)), "{batch}");
    }
    batches.iter().filter_map(|batch| batch["algorithm"].as_str()).collect()
}

/// Verifies the whole database with `in-process`. Verifies the kept files of the classical
/// algorithms with OpenSSL.
fn check(scratch: &Scratch, module: &str, algorithms: &[&str]) {
    succeed(&mut jeton(["verify-db", "--module", "in-process", "--db", &scratch.file("db")]));
    if !has("openssl", "version") {
        return;
    }
    for algorithm in algorithms.iter().filter(|algorithm| CLASSIC.contains(algorithm)) {
        openssl_accepts(&scratch.path().join("keep").join(module).join(algorithm));
    }
}

fn openssl_accepts(directory: &Path) {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        succeed(command.args(arguments.split(' ')).current_dir(directory))
    };
    let text = openssl("verify -x509_strict -CAfile ca.pem leaf.pem");
    assert!(text.contains("leaf.pem: OK"), "{text}");
    let text = openssl("crl -in crl.pem -CAfile ca.pem -noout -verify");
    assert!(text.contains("verify OK"), "{text}");
    let text = openssl("ocsp -respin ocsp.der -CAfile ca.pem -issuer ca.pem -cert leaf.pem -no_nonce");
    assert!(text.contains("Response verify OK"), "{text}");
    assert!(text.contains("leaf.pem: revoked"), "{text}");
    // The CRL is in force: it revokes the leaf.
    let mut command = Command::new("openssl");
    command.args("verify -crl_check -CRLfile crl.pem -CAfile ca.pem leaf.pem".split(' '));
    let (code, text) = run(command.current_dir(directory));
    assert!(code != 0 && text.contains("certificate revoked"), "{text}");
}
