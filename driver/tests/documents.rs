//! The certificates, CRLs and OCSP responses of `pipeline` are valid: OpenSSL accepts
//! those with classical algorithms, and the baseline and other modules verify what one module
//! signed. A flipped byte is found, and its certificate is named.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Scratch, driver, fails, has, modules, peer, succeed};
use jeton_peers::Known;
use rusqlite::Connection;
use serde_json::Value;

const CLASSIC: [&str; 6] = ["ecdsa-p256", "ecdsa-p384", "ed25519", "rsa2048", "rsa3072", "rsa4096"];
const ALL: &str =
    "ecdsa-p256,ecdsa-p384,ed25519,rsa2048,rsa3072,rsa4096,ml-dsa-44,ml-dsa-65,ml-dsa-87,slh-dsa-sha2-128f";

#[test]
fn openssl_and_the_baseline_accept_the_documents_of_each_module() {
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
        succeed(&mut verify(&scratch, &["in-process"]));
        for algorithm in measured.iter().filter(|algorithm| CLASSIC.contains(algorithm)) {
            for signer in [module, "in-process"] {
                openssl_accepts(&scratch.path().join("keep").join(signer).join(algorithm));
            }
        }
    }
}

#[test]
fn each_module_verifies_what_another_one_signed() {
    const FIVE: &str = "ecdsa-p256,ed25519,ml-dsa-44,ml-dsa-65,rsa2048";
    let [aws_lc, rustcrypto] = ["aws-lc", "rustcrypto"].map(|name| vec!["jeton", "--backend", name]);
    let rows = [
        (Known::Jeton, FIVE, aws_lc.clone(), rustcrypto.clone()),
        (Known::Jeton, FIVE, rustcrypto, aws_lc),
        (Known::SoftHsm2, "ecdsa-p256,rsa2048", vec!["in-process"], vec!["softhsm2"]),
        (Known::Nss, "ecdsa-p256,rsa2048", vec!["in-process"], vec!["nss"]),
    ];
    for (needed, algorithms, signs, verifies) in rows {
        if peer(needed).is_none() {
            continue;
        }
        let scratch = Scratch::new();
        let more = [&["--sizes", "4"], &signs[1..]].concat();
        let report = pipeline(&scratch, signs[0], algorithms, &more);
        let text = succeed(&mut verify(&scratch, &verifies));
        // Of each module and algorithm: four certificates, a CRL and four OCSP responses.
        let columns = report["modules"].as_array().map_or(0, Vec::len);
        let batches = columns * algorithms.split(',').count();
        assert_eq!(text.matches("9 verify").count(), batches, "{text}");
    }
}

#[test]
fn the_algorithms_of_a_ca_and_its_subscribers_may_differ() {
    let scratch = Scratch::new();
    let names = "ed25519/ecdsa-p384,ecdsa-p384/ml-dsa-44,slh-dsa-sha2-128f/rsa2048";
    let module = modules(&[Known::Jeton]).pop().expect("the baseline");
    let report = pipeline(&scratch, module, names, &["--sizes", "2", "--module", "in-process"]);
    assert_eq!(measured(&report, module), names.split(',').collect::<Vec<_>>());
    assert!(Path::new(&scratch.file("keep/in-process/ed25519+ecdsa-p384/leaf.pem")).exists());
    let text = succeed(&mut verify(&scratch, &["in-process"]));
    assert!(text.contains("batch of 2: 5 verify"), "{text}");
}

/// Runs the pipeline and returns its report.
fn pipeline(scratch: &Scratch, module: &str, algorithms: &str, more: &[&str]) -> Value {
    let (json, db, keep) = (scratch.file("report.json"), scratch.file("db"), scratch.file("keep"));
    let mut command = driver(["pipeline", "--min-seconds", "0", "--rsa-key-pool", "1"]);
    command.args(["--module", module, "--ca-key-algo", algorithms]).args(more);
    succeed(command.args(["--json", &json, "--db", &db, "--keep", &keep]));
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

/// Returns a command that verifies the whole database with a module. Options may follow its name.
fn verify(scratch: &Scratch, module: &[&str]) -> Command {
    let mut command = driver(["verify-db", "--db", &scratch.file("db"), "--module"]);
    command.args(module);
    command
}

fn openssl_accepts(directory: &Path) {
    if !has("openssl") {
        return;
    }
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(directory);
        command
    };
    for (arguments, wanted) in [
        ("verify -x509_strict -CAfile ca.pem leaf.pem", "leaf.pem: OK"),
        ("crl -in crl.pem -CAfile ca.pem -noout -verify", "verify OK"),
        (
            "ocsp -respin ocsp.der -CAfile ca.pem -issuer ca.pem -cert leaf.pem -no_nonce",
            "Response verify OK",
        ),
        ("ocsp -respin ocsp.der -CAfile ca.pem -issuer ca.pem -cert leaf.pem -no_nonce", "leaf.pem: revoked"),
    ] {
        let text = succeed(&mut openssl(arguments));
        assert!(text.contains(wanted), "{text}");
    }
    // The CRL is in force: it revokes the leaf.
    let text = fails(2, &mut openssl("verify -crl_check -CRLfile crl.pem -CAfile ca.pem leaf.pem"));
    assert!(text.contains("certificate revoked"), "{text}");
}

#[test]
fn a_flipped_byte_is_found_in_every_field_and_the_serial_is_named() {
    let scratch = Scratch::new();
    pipeline(&scratch, "in-process", "ecdsa-p256", &["--sizes", "4"]);
    for module in modules(&[Known::Jeton, Known::SoftHsm2]) {
        assert!(succeed(&mut verify(&scratch, &[module])).contains("batch of 4: 9 verify"));
        // A negative offset counts from the end.
        let offsets: &[isize] = if module == "in-process" { &[0, 1, 4, 30, 150, -1, -40] } else { &[150] };
        for offset in offsets {
            flip(&scratch, *offset);
            let text = fails(1, &mut verify(&scratch, &[module]));
            for wanted in ["certificate with serial 3", "batch of 4: 8 verify"] {
                assert!(text.contains(wanted), "{module}, offset {offset}\n{text}");
            }
            flip(&scratch, *offset);
        }
    }
}

/// Inverts a bit of certificate 3 in the database.
fn flip(scratch: &Scratch, offset: isize) {
    let connection = Connection::open(scratch.file("db")).expect("the database is there");
    let select = "SELECT certificates.rowid, der FROM certificates JOIN batches ON batch = id
                  WHERE serial = 3 AND size = 4";
    let (rowid, mut der): (i64, Vec<u8>) =
        connection.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("there is one");
    let index = if offset < 0 { der.len() - offset.unsigned_abs() } else { offset.unsigned_abs() };
    der[index] ^= 1;
    let changed = connection.execute("UPDATE certificates SET der = ?1 WHERE rowid = ?2", (der, rowid));
    assert_eq!(changed, Ok(1));
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
    let text = fails(1, again.args(["--db", &scratch.file("db")]));
    assert!(text.contains("cert_verify: certificate with serial 3"), "{text}");
}
