//! `jeton migrate`: stores of other versions than the installed ones, from `tests/stores`.

mod common;

use common::migration::{Migration, PIN, copy, survives_damage};
use common::*;
use jeton_migrate::Value;

struct Stored {
    name: &'static str,
    format: &'static str,
    /// Its only file, if the tool gets this file instead of the directory.
    file: Option<&'static str>,
    /// The files in which damage must be found.
    files: &'static [&'static str],
    objects: usize,
    pairs: usize,
}

const SOFTHSM: Stored = Stored {
    name: "softhsm-2.6.1-sqlite",
    format: "SQLite backend",
    file: None,
    files: &["a70bf21c-227a-201b-903a-7836a6e82063/sqlite3.db"],
    objects: 14,
    pairs: 5,
};
const NSS: Stored = Stored {
    name: "nss-3.132",
    format: "NSS",
    file: None,
    files: &["key4.db", "cert9.db"],
    objects: 33,
    pairs: 15,
};
const KRYOPTIC: Stored = Stored {
    name: "kryoptic-1.5.4",
    format: "Kryoptic",
    file: Some("token.sql"),
    files: &["token.sql"],
    objects: 35,
    pairs: 15,
};

impl Stored {
    /// Returns a copy; `None` if Jeton's module is absent.
    fn migration(&self) -> Option<Migration> {
        peer(Known::Jeton)?;
        let store = stored(self.name);
        Some(self.file.map_or_else(|| Migration::of(&store), |file| Migration::of_file(&store, file)))
    }
}

/// The options of a migration.
const LABEL: [&str; 2] = ["--label", "new"];

fn stored(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores").join(name)
}

/// The stores of NSS and Kryoptic have RSA, EC, Ed25519, X25519, ML-DSA, ML-KEM and secret keys.
#[test]
fn every_object_of_a_stored_token_is_migrated_once() {
    for stored in [SOFTHSM, NSS, KRYOPTIC] {
        let Some(migration) = stored.migration() else { return };
        says(migration.migrates_once(&LABEL, stored.objects, stored.pairs), stored.format);
    }
}

#[test]
fn a_wrong_pin_of_a_stored_token_is_refused() {
    for stored in [SOFTHSM, NSS, KRYOPTIC] {
        let Some(migration) = stored.migration() else { return };
        migration.refuses_pin("--pin-file", "wrong", "the PIN is wrong");
    }
}

#[test]
fn a_damaged_file_of_a_stored_token_is_named() {
    for stored in [SOFTHSM, NSS, KRYOPTIC] {
        let Some(migration) = stored.migration() else { return };
        for file in stored.files {
            let path = Path::new(&migration.old()).join(file);
            let content = fs::read(&path).expect("a file");
            fs::write(&path, &content[..content.len() / 2]).expect("a file");
            migration.refused(&LABEL, &format!("{file}: damaged: "));
            fs::write(&path, &content).expect("a file");
        }
    }
}

#[test]
fn a_truncated_value_of_the_sqlite_backend_is_found_and_its_object_named() {
    let Some(migration) = SOFTHSM.migration() else { return };
    let database = Path::new(&migration.old()).join(SOFTHSM.files[0]);
    let connection = rusqlite::Connection::open(database).expect("a database");
    // A private exponent.
    let text = "SELECT object_id FROM attribute_binary WHERE type = 0x123 LIMIT 1";
    let object: i64 = connection.query_row(text, [], |row| row.get(0)).expect("a row");
    let change = "UPDATE attribute_binary SET value = substr(value, 2) WHERE type = 0x123 AND object_id = ?1";
    connection.execute(change, [object]).expect("a change");
    drop(connection);
    migration.refused(&LABEL, &format!("object {object}: attribute 0x123 cannot be decrypted"));
}

#[test]
fn an_altered_value_of_kryoptic_is_found_by_its_tag() {
    let Some(migration) = KRYOPTIC.migration() else { return };
    let connection = rusqlite::Connection::open(&migration.from).expect("a database");
    // A private exponent.
    let text = "SELECT id, val FROM objects WHERE attr = 0x123 LIMIT 1";
    let (id, mut value): (i64, Vec<u8>) =
        connection.query_row(text, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a row");
    let last = value.len() - 1;
    value[last] ^= 1;
    let change = "UPDATE objects SET val = ?1 WHERE attr = 0x123 AND id = ?2";
    connection.execute(change, (value, id)).expect("a change");
    drop(connection);
    migration.refused(&LABEL, &format!("object {id}: attribute 0x123 cannot be decrypted"));
}

#[test]
fn keys_that_need_the_pin_for_each_use_are_proved() {
    let Some(migration) = KRYOPTIC.migration() else { return };
    // The private keys need the PIN (0x202).
    let private = "id IN (SELECT id FROM objects WHERE attr = 0 AND val = 3)";
    let sql = format!("UPDATE objects SET val = 1 WHERE attr = 0x202 AND {private}");
    assert_eq!(change(&migration, &sql), KRYOPTIC.pairs);
    let text = succeed(&mut migration.command(&[&LABEL[..], &["--dry-run"]].concat()));
    assert_eq!(text.matches(", proved\n").count(), KRYOPTIC.pairs, "{text}");
    let text = succeed(&mut migration.command(&LABEL));
    assert!(text.contains("35 of 35 objects are migrated; 15 of 15 private keys are proved"), "{text}");
}

/// Changes a database of Kryoptic. Returns the number of rows that changed.
fn change(migration: &Migration, sql: &str) -> usize {
    let connection = rusqlite::Connection::open(&migration.from).expect("a database");
    connection.execute(sql, []).expect("a change")
}

#[test]
fn a_token_of_kryoptic_in_use_or_without_a_pin_or_in_another_format_is_refused() {
    let Some(migration) = KRYOPTIC.migration() else { return };
    let journal = Path::new(&migration.old()).join("token.sql-journal");
    fs::write(&journal, "a journal").expect("a file");
    migration.refused(&LABEL, "a program uses this database");
    fs::remove_file(journal).expect("a file");
    change(&migration, "DELETE FROM meta WHERE value = 'USER'");
    migration.refused(&LABEL, "the user's PIN was never set");
    change(&migration, "UPDATE meta SET value = 'v2' WHERE name = 'version'");
    migration.refused(&LABEL, "has the version \"v2\", and only \"v1\" is supported");
    fs::write(&migration.from, "text").expect("a file");
    migration.refused(&LABEL, "no token here");
}

#[test]
fn a_killed_migration_leaves_no_half_token() {
    for stored in [SOFTHSM, NSS, KRYOPTIC] {
        let Some(migration) = stored.migration() else { return };
        migration.leaves_no_half_token_when_it_is_killed(&[], stored.objects);
    }
}

#[test]
fn migrations_that_run_together_make_one_token() {
    let Some(migration) = KRYOPTIC.migration() else { return };
    let texts: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..3).map(|_| scope.spawn(|| succeed(&mut migration.command(&LABEL)))).collect();
        runs.into_iter().map(|run| run.join().expect("a thread")).collect()
    });
    let later = texts.iter().filter(|text| text.contains("has all 35 objects already")).count();
    assert_eq!(later, 2, "{texts:?}");
    let listed = migration.listed();
    assert_eq!(listed.iter().filter(|name| name.len() == SERIAL).count(), 1, "{listed:?}");
}

#[test]
fn a_full_disk_leaves_no_half_token_of_a_stored_token() {
    for stored in [SOFTHSM, NSS, KRYOPTIC] {
        let Some(migration) = stored.migration() else { return };
        migration.leaves_no_half_token_on_a_full_disk("300k", &LABEL);
    }
}

#[test]
fn the_readers_of_databases_survive_damage() {
    for (stored, flips, cuts) in [(KRYOPTIC, 97, 4093), (SOFTHSM, 7, 1021)] {
        let scratch = Scratch::new();
        copy(&self::stored(stored.name), scratch.path());
        let path = scratch.path().join(stored.files[0]);
        // The tool gets the file of Kryoptic, and the directory of SoftHSMv2.
        let from = if stored.file.is_some() { &path } else { scratch.path() };
        survives_damage(&path, flips, cuts, || {
            jeton_migrate::tokens(from)
                .and_then(|tokens| tokens[0].read(PIN.as_bytes()))
                .is_ok_and(|all| all.len() == stored.objects)
        });
    }
}

#[test]
fn a_list_of_mechanisms_of_the_sqlite_backend_is_read() {
    let tokens = jeton_migrate::tokens(&stored(SOFTHSM.name)).expect("a store");
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
