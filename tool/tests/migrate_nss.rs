//! `jeton migrate`: a database that NSS made.

mod common;

use common::migration::{Migration, survives_damage};
use common::old_store::Old;
use common::*;

/// Returns a database that NSS made; the tests use copies of it. It has the objects that every
/// module makes, and those of a CA that certutil made: a key pair, a certificate, and a trust
/// object for the certificate. `None` if a program is absent.
fn database() -> Option<&'static Old> {
    static DATABASE: OnceLock<Option<Old>> = OnceLock::new();
    let database = DATABASE.get_or_init(|| {
        let mut old = Old::new(Known::Nss, "")?;
        make_ca(&old.scratch, "old", "CA", &["-k", "rsa", "-g", "2048", "-f", &old.scratch.file("pin")]);
        old.objects += 4;
        old.pairs += 1;
        Some(old)
    });
    database.as_ref()
}

fn migration() -> Option<Migration> {
    database().map(Old::migration)
}

/// Makes a key pair with a certificate, and trusts it.
fn make_ca(scratch: &Scratch, directory: &str, name: &str, more: &[&str]) {
    let (noise, database) = (scratch.file("noise"), format!("sql:{}", scratch.file(directory)));
    fs::write(&noise, [7; 64]).expect("a file");
    let mut command = Command::new("certutil");
    command.args(["-S", "-n", name, "-s", &format!("CN={name}"), "-x", "-t", "CT,,", "-z", &noise]);
    succeed(command.args(["-d", &database]).args(more));
}

#[test]
fn every_object_of_nss_is_migrated_once_and_each_key_is_proved() {
    let (Some(migration), Some(old)) = (migration(), database()) else { return };
    let text = succeed(&mut migration.command(&["--dry-run"]));
    assert_eq!(text.matches(", proved\n").count(), old.pairs, "{text}");
    migration.migrates_once(&["--label", "from NSS"], old.objects, old.pairs);

    // The flags of the new private keys.
    let mut command = Command::new("pkcs11-tool");
    command.arg("--module").arg(Known::Jeton.library().expect("the module")).args(["--login", "--pin", PIN]);
    command.env("JETON_DIR", migration.tokens()).env("JETON_CONF", migration.scratch.file("conf"));
    if has("pkcs11-tool") {
        let text = succeed(command.args(["--list-objects", "--type", "privkey"]));
        assert_eq!(text.matches("Private Key Object").count(), old.pairs, "{text}");
        // The key of certutil is extractable in NSS too.
        assert_eq!(text.matches(", extractable").count(), 1, "{text}");
    }
}

#[test]
fn a_wrong_password_of_nss_is_refused() {
    let Some(migration) = migration() else { return };
    migration.refuses_pin("--pin-file", "wrong", "the PIN is wrong");
}

#[test]
fn an_altered_attribute_of_nss_is_found_by_its_mac() {
    let Some(database) = database() else { return };
    let path = database.scratch.path().join("old/cert9.db");
    let connection = rusqlite::Connection::open(path).expect("a database");
    // The trust in servers: NSS 3.132 has the number of PKCS#11 3.2, NSS 3.87 has its own.
    let trust = ["a62c", "ace536358"].into_iter().find(|column| {
        let text = format!("SELECT 1 FROM nssPublic WHERE {column} IS NOT NULL");
        connection.query_row(&text, [], |_| Ok(())).is_ok()
    });
    let trust = trust.expect("a trust object");
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

#[test]
fn the_reader_of_nss_survives_damaged_databases() {
    let Some(scratch) = database_without_password() else { return };
    let directory = scratch.path().join("nss");
    for file in ["key4.db", "cert9.db"] {
        survives_damage(&directory.join(file), 7, 4093, || {
            jeton_migrate::tokens(&directory)
                .and_then(|tokens| tokens[0].read(b""))
                .is_ok_and(|all| all.len() == 4)
        });
    }
}

#[test]
fn a_new_pin_is_needed_for_a_database_without_a_password() {
    let Some(scratch) = database_without_password() else { return };
    let migration = Migration::of(&scratch.path().join("nss"));
    let mut command = migration.command(&["--label", "empty"]);
    let (code, text) = run(command.env("JETON_PIN", "").env("JETON_NEW_PIN", "a new PIN"));
    assert_eq!(code, 0, "{text}");
    says(text, "4 of 4 objects are migrated; 1 of 1 private keys are proved");
}

/// Returns a database with a key pair, its certificate and a trust object for the certificate. NSS
/// derives the keys of an empty password with one iteration, so reading this database takes little
/// time.
fn database_without_password() -> Option<Scratch> {
    peer(Known::Jeton)?;
    if !has("certutil") {
        return None;
    }
    let scratch = Scratch::new();
    let database = format!("sql:{}", scratch.file("nss"));
    fs::create_dir(scratch.file("nss")).expect("a directory");
    succeed(Command::new("certutil").args(["-N", "--empty-password", "-d", &database]));
    make_ca(&scratch, "nss", "ca", &["-k", "ec", "-q", "nistp256"]);
    Some(scratch)
}
