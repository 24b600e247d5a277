//! The tool reports a failure with the certificate, the function and the return code, and continues
//! with the other work.

mod common;

use std::path::Path;

use common::{Scratch, jeton, peer, run, succeed};
use jeton_peers::Known;
use rusqlite::Connection;

#[test]
fn a_flipped_byte_is_found_in_every_field_and_the_serial_is_named() {
    for offset in [0, 1, 4, 30, 150, -1, -40] {
        flipped_byte_is_found("in-process", offset);
    }
}

#[test]
fn a_flipped_byte_is_found_through_softhsm2() {
    if peer(Known::SoftHsm2).is_some() {
        flipped_byte_is_found("softhsm2", 150);
    }
}

#[test]
fn a_flipped_byte_is_found_through_jeton() {
    if peer(Known::Jeton).is_some() {
        flipped_byte_is_found("jeton", 150);
    }
}

#[test]
fn cert_verify_verifies_the_bytes_of_the_database_and_names_the_serial() {
    let scratch = Scratch::new();
    succeed(&mut stored(&scratch, "in-process"));
    // A trigger in the database alters certificate 3 when it is stored, so only reading it back
    // shows the change.
    let trigger = "CREATE TRIGGER spoil AFTER INSERT ON certificates WHEN NEW.serial = 3 BEGIN
        UPDATE certificates
        SET der = CAST(substr(der, 1, length(der) - 6) || x'010203040506' AS BLOB)
        WHERE batch = NEW.batch AND serial = NEW.serial; END";
    Connection::open(scratch.path().join("db"))
        .expect("a database")
        .execute_batch(trigger)
        .expect("valid SQL");
    let (code, text) = run(&mut stored(&scratch, "in-process"));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("cert_verify: certificate with serial 3"), "{text}");
}

#[test]
fn a_wrong_pin_is_reported_by_function_and_code_and_the_baseline_goes_on() {
    let Some(library) = peer(Known::SoftHsm2) else { return };
    let scratch = Scratch::new();
    let tokens = scratch.file("tokens");
    std::fs::create_dir(&tokens).expect("the directory is fresh");
    let conf = scratch.file("softhsm2.conf");
    std::fs::write(&conf, format!("directories.tokendir = {tokens}\n")).expect("the directory is writable");
    let token = ["--label", "ca", "--so-pin", "12345678", "--pin", "87654321"];
    let mut command = jeton(["init-token", "--module", "softhsm2", "--free"]);
    let text = succeed(command.args(token).env("SOFTHSM2_CONF", &conf));
    assert!(text.contains(r#"The token "ca" with serial"#), "{text}");
    let text = succeed(jeton(["show-slots", "--module", "softhsm2"]).env("SOFTHSM2_CONF", &conf));
    assert!(text.contains("Label:         ca"), "{text}");

    let pipeline = |pin: &str| {
        let mut command = jeton(["pipeline", "--sizes", "2", "--min-seconds", "0", "--token-label", "ca"]);
        command.arg("--module").arg(&library).args(["--pin", pin]).env("SOFTHSM2_CONF", &conf);
        run(&mut command)
    };
    let (code, text) = pipeline("87654321");
    assert_eq!(code, 0, "{text}");
    let (code, text) = pipeline("11111111");
    assert_eq!(code, 1, "{text}");
    let expected = "C_Login: CKR_PIN_INCORRECT (0xA0) while logging in as the user";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("ecdsa-p256, batch of 2 (medians; runs: in-process"), "{text}");
    assert_token_is_empty(&library, &conf);
}

#[test]
fn a_file_that_is_not_a_module_is_reported() {
    let (code, text) = run(&mut jeton(["mechanisms", "--module", "/dev/null"]));
    assert_eq!(code, 1);
    assert!(text.contains("cannot load /dev/null"), "{text}");
}

#[test]
fn the_tool_loads_a_module_before_it_asks_for_the_pin() {
    let scratch = Scratch::new();
    let db = scratch.file("db");
    succeed(&mut stored(&scratch, "in-process"));
    for verb in [&["pipeline"][..], &["verify-db", "--db", &db]] {
        // `setsid` takes the terminal away, if the tests have one.
        let asking = |module: &Path| {
            let mut command = std::process::Command::new("setsid");
            command.arg("--wait").arg(env!("CARGO_BIN_EXE_jeton")).args(verb).arg("--module").arg(module);
            run(command.env_remove("JETON_PIN").stdin(std::process::Stdio::null()))
        };
        let (code, text) = asking(Path::new("/etc/passwd"));
        assert!(code == 1 && text.contains("cannot load /etc/passwd"), "{text}");
        assert!(!text.contains("PIN"), "{text}");
        let Some(library) = peer(Known::SoftHsm2) else { continue };
        let (code, text) = asking(&library);
        assert!(code == 1 && text.contains("no PIN: give --pin, JETON_PIN, or a terminal"), "{text}");
    }
}

#[test]
fn the_algorithms_of_a_ca_and_its_subscribers_may_differ() {
    let scratch = Scratch::new();
    let names = ["ed25519/ecdsa-p384", "ecdsa-p384/ml-dsa-44", "slh-dsa-sha2-128f/rsa2048"];
    let mut command = jeton(["pipeline", "--sizes", "2", "--min-seconds", "0", "--rsa-key-pool", "1"]);
    command.args(["--ca-key-algo", &names.join(","), "--db", &scratch.file("db")]);
    command.args(["--keep", &scratch.file("keep"), "--module", "in-process"]);
    if peer(Known::Jeton).is_some() {
        command.args(["--module", "jeton", "--module", "jeton-rc"]);
    }
    let text = succeed(&mut command);
    for name in names {
        assert!(text.contains(&format!("\n{name}, batch of 2 ")), "{text}");
    }
    assert!(text.contains("RSA: cert_gen generates at most 1 "), "{text}");
    assert!(Path::new(&scratch.file("keep/in-process/ed25519+ecdsa-p384/leaf.pem")).exists());
    let text = succeed(&mut jeton(["verify-db", "--module", "in-process", "--db", &scratch.file("db")]));
    assert!(text.contains("batch of 2: 5 verify"), "{text}");
    let (code, text) = run(&mut jeton(["pipeline", "--ca-key-algo", "ed25519/x"]));
    assert!(code == 2 && text.contains(r#"unknown algorithm "x""#), "{text}");
}

#[test]
fn openssl_in_process_is_a_column_if_the_tool_was_built_with_openssl() {
    let (code, text) =
        run(&mut jeton(["pipeline", "--module", "openssl", "--sizes", "2", "--min-seconds", "0"]));
    if cfg!(feature = "openssl") {
        assert!(code == 0 && text.contains("openssl: OpenSSL called directly"), "{text}");
    } else {
        assert!(code == 1 && text.contains("with the cargo feature `openssl`"), "{text}");
    }
}

#[test]
fn an_unknown_module_and_an_unknown_algorithm_are_named() {
    let (code, text) = run(&mut jeton(["pipeline", "--module", "no-such-module"]));
    assert!(code == 2 && text.contains(r#"module "no-such-module""#), "{text}");
    let (code, text) = run(&mut jeton(["pipeline", "--ca-key-algo", "rsa1"]));
    assert!(code == 2 && text.contains(r#"unknown algorithm "rsa1""#), "{text}");
}

#[test]
fn a_token_of_another_module_is_not_deleted() {
    let (code, text) = run(&mut jeton(["delete-token", "--module", "softhsm2", "--token", "ca"]));
    assert!(code == 2 && text.contains("PKCS#11 has no call that deletes a token"), "{text}");
}

/// Checks that `verify-db` reports certificate 3 after one bit of its byte at `offset` was
/// inverted. A negative `offset` counts from the end.
fn flipped_byte_is_found(module: &str, offset: isize) {
    let scratch = Scratch::new();
    succeed(&mut stored(&scratch, "in-process"));
    let verify = || jeton(["verify-db", "--module", module, "--db", &scratch.file("db")]);
    assert!(succeed(&mut verify()).contains("batch of 4: 9 verify"));
    flip(&scratch.path().join("db"), offset);
    let (code, text) = run(&mut verify());
    assert_eq!(code, 1, "offset {offset}\n{text}");
    assert!(text.contains("certificate with serial 3"), "offset {offset}\n{text}");
    assert!(text.contains("batch of 4: 8 verify"), "offset {offset}\n{text}");
}

fn stored(scratch: &Scratch, module: &str) -> std::process::Command {
    jeton(["pipeline", "--module", module, "--sizes", "4", "--min-seconds", "0", "--db", &scratch.file("db")])
}

fn flip(database: &Path, offset: isize) {
    let connection = Connection::open(database).expect("the database is there");
    let row = "FROM certificates JOIN batches ON batch = id WHERE serial = 3";
    let select = format!("SELECT certificates.rowid, der {row} AND size = 4");
    let (rowid, mut der): (i64, Vec<u8>) =
        connection.query_row(&select, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("there is one");
    let index = if offset < 0 { der.len() - offset.unsigned_abs() } else { offset.unsigned_abs() };
    der[index] ^= 1;
    let changed = connection.execute("UPDATE certificates SET der = ?1 WHERE rowid = ?2", (der, rowid));
    assert_eq!(changed, Ok(1));
}

/// Checks that the pipeline removed its objects from an existing token.
fn assert_token_is_empty(library: &Path, conf: &str) {
    if !common::has("pkcs11-tool", "--help") {
        return;
    }
    let mut command = std::process::Command::new("pkcs11-tool");
    command.arg("--module").arg(library).env("SOFTHSM2_CONF", conf);
    let (_, text) =
        run(command.args(["--token-label", "ca", "--login", "--pin", "87654321", "--list-objects"]));
    assert!(!text.contains("Object"), "{text}");
}
