//! `jeton migrate`: stores of programs that are not installed, from `tests/stores`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::migration::{Migration, PIN, copy, fingerprint};
use common::{Scratch, peer, succeed};
use jeton_migrate::Value;
use jeton_peers::Known;

const OBJECTS: usize = 14;

fn store() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/softhsm-2.6.1-sqlite")
}

/// Returns the database of the one token in a store.
fn database(store: &Path) -> PathBuf {
    let mut entries = fs::read_dir(store).expect("a directory");
    entries.next().expect("a token").expect("an entry").path().join("sqlite3.db")
}

#[test]
fn every_object_of_the_sqlite_backend_comes_once() {
    if peer(Known::Jeton).is_none() {
        return;
    }
    let migration = Migration::of(&store());
    let before = fingerprint(Path::new(&migration.old()));
    // Debian's module lacks this backend: the tool says so and continues.
    let text = succeed(&mut migration.command(&[]));
    assert!(text.contains("SQLite backend"), "{text}");
    let wanted = format!("{OBJECTS} of {OBJECTS} objects come; 5 of 5 private keys are proved");
    assert!(text.contains(&wanted), "{text}");
    let text = succeed(&mut migration.command(&[]));
    assert!(text.contains(&format!("all {OBJECTS} objects already")), "{text}");
    assert_eq!(fingerprint(Path::new(&migration.old())), before);
}

#[test]
fn a_list_of_mechanisms_of_the_sqlite_backend_is_read() {
    let tokens = jeton_migrate::tokens(&store()).expect("a store");
    let objects = tokens[0].read(PIN.as_bytes()).expect("the right PIN");
    let lists = objects.iter().filter_map(|object| {
        object
            .attributes
            .get(&cryptoki_sys::CKA_ALLOWED_MECHANISMS)
            .filter(|list| **list != Value::Mechanisms(vec![]))
    });
    let lists: Vec<_> = lists.collect();
    assert_eq!(lists, [&Value::Mechanisms(vec![cryptoki_sys::CKM_SHA512_RSA_PKCS])]);
}

/// Reads databases with flipped bits: a panic fails the test.
#[test]
fn the_reader_of_the_sqlite_backend_survives_damaged_databases() {
    let scratch = Scratch::new();
    copy(&store(), &scratch.path().join("store"));
    let directory = scratch.path().join("store");
    let path = database(&directory);
    let read = || {
        jeton_migrate::tokens(&directory)
            .and_then(|tokens| tokens[0].read(PIN.as_bytes()).map(|all| all.len()))
    };
    assert!(read().is_ok_and(|count| count == OBJECTS));
    let content = fs::read(&path).expect("a file");
    let used = (0..content.len()).filter(|at| *at < 100 || content[*at] != 0).step_by(7);
    for at in used {
        let mut flipped = content.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, &flipped).expect("a file");
        let _ = read();
    }
    for length in (0..content.len()).step_by(1021) {
        fs::write(&path, &content[..length]).expect("a file");
        assert!(read().is_err(), "{length} bytes");
    }
}
