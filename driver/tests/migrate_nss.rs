//! `jeton migrate`: a database that NSS made.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use common::migration::{Migration, PIN, fingerprint};
use common::{Scratch, has, peer, run, succeed};
use cryptoki_sys::*;
use jeton_driver::client::{Access, Attribute, Mechanism, Module, Session, User};
use jeton_peers::Known;

/// The key pairs that the test generates: RSA by its length, curves by their OIDs.
const RSA: [u64; 4] = [1024, 2048, 3072, 4096];
const CURVES: [&[u8]; 3] = [
    &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
    &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22],
    &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23],
];

/// Each key pair is two objects. The test also generates two secret keys. certutil adds four
/// objects: a key pair, a certificate, and a trust object for the certificate. NSS refuses data
/// objects in its database.
const OBJECTS: usize = 2 * (RSA.len() + CURVES.len()) + 2 + 4;
const PAIRS: usize = RSA.len() + CURVES.len() + 1;

/// Returns a database that NSS made; the tests use copies of it. `None` if a program is absent.
fn database() -> Option<&'static Path> {
    static DATABASE: OnceLock<Option<Scratch>> = OnceLock::new();
    let database = DATABASE.get_or_init(|| {
        peer(Known::Jeton)?;
        let library = peer(Known::Nss)?;
        has("certutil", "-H").then(|| make_database(&library))
    });
    database.as_ref().map(Scratch::path)
}

fn migration() -> Option<Migration> {
    Some(Migration::of(&database()?.join("nss")))
}

fn make_database(library: &Path) -> Scratch {
    let scratch = Scratch::new();
    let directory = scratch.file("nss");
    fs::create_dir(&directory).expect("a directory");
    fs::write(scratch.file("pin"), PIN).expect("a file");
    fs::write(scratch.file("noise"), [7; 64]).expect("a file");
    let (pin, noise) = (scratch.file("pin"), scratch.file("noise"));
    let certutil = |arguments: &[&str]| {
        let directory = format!("sql:{directory}");
        succeed(Command::new("certutil").args(["-d", &directory, "-f", &pin]).args(arguments));
    };
    certutil(&["-N"]);
    certutil(&["-S", "-n", "CA", "-s", "CN=CA", "-x", "-t", "CT,,", "-k", "rsa", "-g", "2048", "-z", &noise]);

    let module = Module::load(library).expect("NSS");
    let parameters =
        format!("configdir='sql:{directory}' certPrefix='' keyPrefix='' secmod='secmod.db' flags=");
    module.initialize(Some(&parameters)).expect("NSS");
    let slot = *module.slots(true).expect("slots").get(1).expect("the slot of keys");
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    session.login(User::User, Some(PIN)).expect("a login");
    for (index, bits) in RSA.iter().enumerate() {
        let more =
            [Attribute::number(CKA_MODULUS_BITS, *bits), Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])];
        pair(&session, CKM_RSA_PKCS_KEY_PAIR_GEN, index as u8, &more);
    }
    for (index, curve) in CURVES.iter().enumerate() {
        pair(&session, CKM_EC_KEY_PAIR_GEN, 16 + index as u8, &[Attribute::bytes(CKA_EC_PARAMS, *curve)]);
    }
    for (mechanism, label) in [(CKM_AES_KEY_GEN, "aes"), (CKM_GENERIC_SECRET_KEY_GEN, "generic")] {
        let template = [
            Attribute::flag(CKA_TOKEN, true),
            Attribute::flag(CKA_PRIVATE, true),
            Attribute::flag(CKA_SENSITIVE, true),
            Attribute::bytes(CKA_LABEL, label),
            Attribute::bytes(CKA_ID, label),
            Attribute::number(CKA_VALUE_LEN, 32),
        ];
        session.generate_key(&Mechanism::new(mechanism), &template).expect("a secret key");
    }
    session.close().expect("the session");
    module.finalize().expect("NSS");
    scratch
}

fn pair(session: &Session, mechanism: CK_MECHANISM_TYPE, id: u8, more: &[Attribute]) {
    let common = [
        Attribute::flag(CKA_TOKEN, true),
        Attribute::bytes(CKA_ID, [id]),
        Attribute::bytes(CKA_LABEL, format!("pair {id}")),
    ];
    let public = [&common, more, &[Attribute::flag(CKA_VERIFY, true)]].concat();
    let private = [
        Attribute::flag(CKA_PRIVATE, true),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_EXTRACTABLE, false),
        Attribute::flag(CKA_SIGN, true),
    ];
    let private = [&common[..], &private].concat();
    session.generate_key_pair(&Mechanism::new(mechanism), &public, &private).expect("a key pair");
}

#[test]
fn every_object_of_nss_is_migrated_once_and_each_key_is_proved() {
    let Some(migration) = migration() else { return };
    let before = fingerprint(Path::new(&migration.old()));
    let text = succeed(&mut migration.command(&["--dry-run"]));
    assert_eq!(
        text.matches("proved by a signature, both ways through the old module").count(),
        PAIRS,
        "{text}"
    );
    let text = succeed(&mut migration.command(&["--label", "from NSS"]));
    let wanted =
        format!("{OBJECTS} of {OBJECTS} objects are migrated; {PAIRS} of {PAIRS} private keys are proved");
    assert!(text.contains(&wanted), "{text}");
    let text = succeed(&mut migration.command(&["--label", "from NSS"]));
    assert!(text.contains(&format!("all {OBJECTS} objects already")), "{text}");
    assert_eq!(fingerprint(Path::new(&migration.old())), before);

    // The flags of the new private keys.
    let mut command = Command::new("pkcs11-tool");
    command.arg("--module").arg(Known::Jeton.library().expect("the module")).args(["--login", "--pin", PIN]);
    command.env("JETON_DIR", migration.tokens()).env("JETON_CONF", migration.scratch.file("conf"));
    if has("pkcs11-tool", "--version") {
        let text = succeed(command.args(["--list-objects", "--type", "privkey"]));
        assert_eq!(text.matches("Private Key Object").count(), PAIRS, "{text}");
        // The key of certutil is extractable in NSS too.
        assert_eq!(text.matches(", extractable").count(), 1, "{text}");
    }
}

#[test]
fn a_wrong_password_of_nss_is_refused() {
    let Some(migration) = migration() else { return };
    let pin = migration.scratch.file("pin");
    fs::write(&pin, "wrong").expect("a file");
    migration.refused(&["--pin-file", &pin], "the PIN is wrong");
}

/// Returns the column with the trust in servers. NSS 3.132 has the number of PKCS#11 3.2, NSS 3.87
/// has its own.
fn trust_column() -> Option<&'static str> {
    let path = database()?.join("nss/cert9.db");
    let connection = rusqlite::Connection::open(path).expect("a database");
    ["a62c", "ace536358"].into_iter().find(|column| {
        let text = format!("SELECT 1 FROM nssPublic WHERE {column} IS NOT NULL");
        connection.query_row(&text, [], |_| Ok(())).is_ok()
    })
}

#[test]
fn an_altered_attribute_of_nss_is_found_by_its_mac() {
    if database().is_none() {
        return;
    }
    let trust = trust_column().expect("a trust object");
    let wanted = &format!("attribute 0x{} was altered", trust[1..].to_uppercase());
    // A private exponent, a modulus, and the trust in a certificate.
    for (file, table, column, wanted) in [
        ("key4.db", "nssPrivate", "a123", "attribute 0x123"),
        ("cert9.db", "nssPublic", "a120", "attribute 0x120 was altered"),
        ("cert9.db", "nssPublic", trust, wanted),
    ] {
        let Some(migration) = migration() else { return };
        let connection =
            rusqlite::Connection::open(Path::new(&migration.old()).join(file)).expect("a database");
        let text = format!("SELECT id, {column} FROM {table} WHERE {column} IS NOT NULL LIMIT 1");
        let (id, mut value): (i64, Vec<u8>) =
            connection.query_row(&text, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a row");
        let last = value.len() - 1;
        value[last] ^= 1;
        let text = format!("UPDATE {table} SET {column} = ?1 WHERE id = ?2");
        // The last value is the marker of NSS for an empty value.
        for (value, wanted) in [(value, wanted), (vec![0xa5, 0x00, 0x5a], "damaged: ")] {
            connection.execute(&text, (value, id)).expect("a change");
            migration.refused(&[], wanted);
        }
    }
}

#[test]
fn a_truncated_database_of_nss_is_refused() {
    let Some(migration) = migration() else { return };
    for file in ["key4.db", "cert9.db"] {
        let path = Path::new(&migration.old()).join(file);
        let content = fs::read(&path).expect("a file");
        for length in [content.len() / 2, 100] {
            fs::write(&path, &content[..length]).expect("a file");
            migration.refused(&[], "damaged");
        }
        fs::write(&path, &content).expect("a file");
    }
}

#[test]
fn a_database_of_nss_in_use_is_refused() {
    let Some(migration) = migration() else { return };
    fs::write(Path::new(&migration.old()).join("key4.db-journal"), "a journal").expect("a file");
    migration.refused(&[], "a program uses this database");
}

/// Reads databases with flipped bits: a panic fails the test.
#[test]
fn the_reader_of_nss_survives_damaged_databases() {
    let Some(scratch) = database_without_password() else { return };
    let directory = scratch.path().join("nss");
    let read =
        || jeton_migrate::tokens(&directory).and_then(|tokens| tokens[0].read(b"")).map(|all| all.len());
    assert!(read().is_ok_and(|count| count == 4));
    for file in ["key4.db", "cert9.db"] {
        let path = directory.join(file);
        let content = fs::read(&path).expect("a file");
        // Flips a bit in every seventh byte of the file header (100 bytes) and of the bytes that
        // are not zero. Most pages are empty.
        let used = (0..content.len()).filter(|at| *at < 100 || content[*at] != 0).step_by(7);
        for at in used {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).expect("a file");
            let _ = read();
        }
        fs::write(&path, &content).expect("a file");
    }
    assert!(read().is_ok_and(|count| count == 4));
}

#[test]
fn a_new_pin_is_needed_for_a_database_without_a_password() {
    let Some(scratch) = database_without_password() else { return };
    let migration = Migration::of(&scratch.path().join("nss"));
    let mut command = migration.command(&["--label", "empty"]);
    let (code, text) = run(command.env("JETON_PIN", "").env("JETON_NEW_PIN", "a new PIN"));
    assert!(
        code == 0 && text.contains("4 of 4 objects are migrated; 1 of 1 private keys are proved"),
        "{text}"
    );
}

/// Returns a database with a key pair, its certificate and a trust object for the certificate. NSS
/// derives the keys of an empty password with one iteration, so reading this database takes little
/// time.
fn database_without_password() -> Option<Scratch> {
    peer(Known::Jeton)?;
    if !has("certutil", "-H") {
        return None;
    }
    let scratch = Scratch::new();
    let database = format!("sql:{}", scratch.file("nss"));
    fs::create_dir(scratch.file("nss")).expect("a directory");
    fs::write(scratch.file("noise"), [7; 64]).expect("a file");
    succeed(Command::new("certutil").args(["-N", "--empty-password", "-d", &database]));
    let mut command = Command::new("certutil");
    command.args(["-S", "-n", "ca", "-s", "CN=ca", "-x", "-t", "CT,,", "-k", "ec", "-q", "nistp256"]);
    succeed(command.args(["-z", &scratch.file("noise"), "-d", &database]));
    Some(scratch)
}
