//! The certificates, CRLs and OCSP responses of `pipeline` are valid: OpenSSL accepts those with
//! classical algorithms, and AWS-LC those with ML-DSA. A flipped byte is found, and its certificate
//! is named.

mod common;

use std::fs;
use std::process::Command;

use aws_lc_rs::signature::{ML_DSA_44, ML_DSA_65, ML_DSA_87, ParsedPublicKey};
use common::{Scratch, driver, fails, has, modules, says, succeed};
use der::{Decode, Encode};
use jeton_ca::issuer::ocsp_payload;
use jeton_peers::Known;
use jeton_pki::Signed;
use rusqlite::Connection;
use serde_json::Value;
use x509_cert::Certificate;

const CLASSIC: [&str; 6] = ["ecdsa-p256", "ecdsa-p384", "ed25519", "rsa2048", "rsa3072", "rsa4096"];
const ALL: &str =
    "ecdsa-p256,ecdsa-p384,ed25519,rsa2048,rsa3072,rsa4096,ml-dsa-44,ml-dsa-65,ml-dsa-87,slh-dsa-sha2-128f";

#[test]
fn openssl_and_aws_lc_accept_the_documents_of_each_module() {
    // The baseline signs in each run, too.
    let mut all = modules(&[Known::Jeton, Known::SoftHsm2, Known::Nss]);
    if all.len() > 1 {
        all.remove(0);
    }
    for module in all {
        let scratch = Scratch::new();
        // These peers lack SLH-DSA, and make long RSA keys slowly.
        let is_peer = ["softhsm2", "nss"].contains(&module);
        let algorithms = if is_peer { "ecdsa-p256,ecdsa-p384,ed25519,ml-dsa-65,rsa2048" } else { ALL };
        let report = pipeline(&scratch, module, algorithms, &["--sizes", "4"]);
        let measured = measured(&report, module);
        let required = match module {
            "softhsm2" => "ecdsa-p256,ecdsa-p384,rsa2048",
            "nss" => "ecdsa-p256,rsa2048",
            _ => ALL,
        };
        for algorithm in required.split(',') {
            assert!(measured.contains(&algorithm), "{algorithm} is not in {measured:?}");
        }
        aws_lc_accepts_all_with_ml_dsa(&scratch);
        for algorithm in measured.iter().filter(|algorithm| CLASSIC.contains(algorithm)) {
            for signer in [module, "in-process"] {
                openssl_accepts(&scratch, signer, algorithm);
            }
        }
    }
}

#[test]
fn the_algorithms_of_a_ca_and_its_subscribers_may_differ() {
    let scratch = Scratch::new();
    let names = "ed25519/ecdsa-p384,ecdsa-p384/ml-dsa-44,slh-dsa-sha2-128f/rsa2048";
    let module = modules(&[Known::Jeton]).pop().expect("the baseline");
    let report = pipeline(&scratch, module, names, &["--sizes", "2", "--module", "in-process"]);
    assert_eq!(measured(&report, module), names.split(',').collect::<Vec<_>>());
    assert!(documents(&scratch, "ed25519/ecdsa-p384").iter().any(|one| one.module == "in-process"));
}

/// Runs the pipeline and returns its report.
fn pipeline(scratch: &Scratch, module: &str, algorithms: &str, more: &[&str]) -> Value {
    let (json, db) = (scratch.file("report.json"), scratch.file("db"));
    let mut command = driver(["pipeline", "--min-seconds", "0", "--rsa-key-pool", "1"]);
    command.args(["--module", module, "--ca-key-algo", algorithms]).args(more);
    succeed(command.args(["--json", &json, "--db", &db]));
    serde_json::from_str(&fs::read_to_string(json).expect("the report was written")).expect("JSON")
}

/// Returns the algorithms with which the module was measured. Checks that each has the times of
/// fifteen stages.
fn measured<'a>(report: &'a Value, module: &str) -> Vec<&'a str> {
    let modules = report["modules"].as_array().expect("a list of modules");
    let module = modules.iter().find(|one| one["name"] == module).expect("the module is in the report");
    let batches = module["measured"].as_array().expect("a list of batches");
    for batch in batches {
        let seconds = batch["seconds"].as_array().expect("a list of times");
        let count = seconds.iter().filter(|time| time["value"].as_f64().is_some_and(|time| time > 0.0));
        assert_eq!((seconds.len(), count.count()), (15, 15), "{batch}");
    }
    batches.iter().filter_map(|batch| batch["algorithm"].as_str()).collect()
}

/// A document of the database.
struct Document {
    module: String,
    ca: Vec<u8>,
    kind: String,
    der: Vec<u8>,
}

/// Returns the documents of CAs with this algorithm, by batch and serial number.
fn documents(scratch: &Scratch, algorithm: &str) -> Vec<Document> {
    let connection = Connection::open(scratch.file("db")).expect("the database is there");
    let select = "SELECT module, ca_certificate, kind, der FROM batches JOIN (
            SELECT batch, serial, der, 'leaf' AS kind FROM certificates UNION ALL
            SELECT batch, number, der, 'crl' FROM crls UNION ALL
            SELECT batch, serial, der, 'ocsp' FROM ocsp_responses)
        ON batch = id WHERE algorithm = ?1 ORDER BY id, serial";
    let mut statement = connection.prepare(select).expect("valid SQL");
    let rows = statement.query_map([algorithm], |row| {
        Ok(Document { module: row.get(0)?, ca: row.get(1)?, kind: row.get(2)?, der: row.get(3)? })
    });
    rows.expect("the tables are there").map(|row| row.expect("a row")).collect()
}

/// Verifies every document with a signature of ML-DSA in the database.
fn aws_lc_accepts_all_with_ml_dsa(scratch: &Scratch) {
    for (name, verification) in
        [("ml-dsa-44", &ML_DSA_44), ("ml-dsa-65", &ML_DSA_65), ("ml-dsa-87", &ML_DSA_87)]
    {
        for Document { ca, kind, mut der, .. } in documents(scratch, name) {
            if kind == "ocsp" {
                der = ocsp_payload(&der).expect("a response").to_vec();
            }
            let ca = Certificate::from_der(&ca).expect("a certificate");
            let key = ca.tbs_certificate.subject_public_key_info.to_der().expect("a key");
            let signed = Signed::parse(&der).expect("a signed document");
            let key = ParsedPublicKey::new(verification, key).expect("a key of ML-DSA");
            assert!(key.verify_sig(signed.tbs, signed.signature).is_ok(), "{name}: {kind}");
        }
    }
}

/// Verifies the documents of the first batch of this module and algorithm.
fn openssl_accepts(scratch: &Scratch, module: &str, algorithm: &str) {
    if !has("openssl") {
        return;
    }
    let all = documents(scratch, algorithm).into_iter().filter(|one| one.module == module);
    // Later documents of a batch or of other batches are written first, and overwritten.
    for Document { ca, kind, der, .. } in all.rev() {
        fs::write(scratch.file("ca.der"), ca).expect("a file");
        fs::write(scratch.file(&format!("{kind}.der")), der).expect("a file");
    }
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(scratch.path());
        command
    };
    for (kind, name) in [("x509", "ca"), ("x509", "leaf"), ("crl", "crl")] {
        succeed(&mut openssl(&format!("{kind} -inform der -in {name}.der -out {name}.pem")));
    }
    for (arguments, wanted) in [
        ("verify -x509_strict -CAfile ca.pem leaf.pem", "leaf.pem: OK"),
        ("crl -in crl.pem -CAfile ca.pem -noout -verify", "verify OK"),
        (
            "ocsp -respin ocsp.der -CAfile ca.pem -issuer ca.pem -cert leaf.pem -no_nonce",
            "Response verify OK",
        ),
        ("ocsp -respin ocsp.der -CAfile ca.pem -issuer ca.pem -cert leaf.pem -no_nonce", "leaf.pem: revoked"),
    ] {
        says(succeed(&mut openssl(arguments)), wanted);
    }
    // The CRL is in force: it revokes the leaf.
    says(
        fails(2, &mut openssl("verify -crl_check -CRLfile crl.pem -CAfile ca.pem leaf.pem")),
        "certificate revoked",
    );
}

#[test]
fn cert_verify_verifies_the_bytes_of_the_database_and_names_the_serial() {
    let scratch = Scratch::new();
    pipeline(&scratch, "in-process", "ecdsa-p256", &["--sizes", "4"]);
    // A trigger in the database alters certificate 3 when it is stored, so only reading it back
    // shows the change.
    let trigger = "CREATE TRIGGER spoil AFTER INSERT ON certificates WHEN NEW.serial = 3 BEGIN
        UPDATE certificates
        SET der = CAST(substr(der, 1, length(der) - 6) || x'010203040506' AS BLOB)
        WHERE batch = NEW.batch AND serial = NEW.serial; END";
    let spoiled = Connection::open(scratch.file("db")).and_then(|database| database.execute_batch(trigger));
    spoiled.expect("valid SQL");
    let mut again = driver(["pipeline", "--module", "in-process", "--sizes", "4", "--min-seconds", "0"]);
    says(fails(1, again.args(["--db", &scratch.file("db")])), "cert_verify: certificate with serial 3");
}
