//! The promise for token files: every version reads the files of all earlier versions.
//!
//! `fixtures` has one file of each format from 2 on. A commit that introduces a new format adds a
//! file of this format.

use std::fs;

use rusqlite::Connection;

use crate::prelude::*;

/// A format, its stored file and the number of the user's objects in it. No version of Jeton wrote
/// format 1.
const FILES: [(i64, &str, usize); 2] = [(2, "8d17499fca84648f.jeton", 5), (3, "17c183126338a4cb.jeton", 6)];

fn format(directory: &Path) -> i64 {
    let mut entries = fs::read_dir(directory).expect("the directory").flatten().map(|entry| entry.path());
    let file = entries.find(|path| path.extension().is_some_and(|end| end == "jeton")).expect("a token file");
    let connection = Connection::open(file).expect("a database");
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a version")
}

#[test]
fn a_stored_file_of_each_format_opens_and_its_keys_sign() {
    each_backend(|provider| {
        for (number, name, objects) in FILES {
            let directory = Directory::new();
            let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/token/fixtures").join(name);
            fs::copy(fixture, directory.path().join(name)).expect("the fixture");
            assert_eq!(format(directory.path()), number);
            let client = Client::beside(&directory, provider, "");
            let session = client.user();
            assert_eq!(client.find(session, &none()).len(), objects, "format {number}");
            let ec = Attributes::of(ObjectClass::PRIVATE_KEY).number(A::KEY_TYPE, KeyType::EC.0);
            let keys = client.find(session, &ec);
            assert_ne!(keys.len(), 0, "format {number}");
            for key in keys {
                client.sign(session, &plain(M::ECDSA), key, &[7; 32]).expect("a signature");
            }
            client.finalize().expect("a module");
            assert_eq!(format(directory.path()), FILES[FILES.len() - 1].0);
        }
    });
}

#[test]
fn the_newest_format_has_a_stored_file() {
    let client = Client::new(DEFAULT);
    client.finalize().expect("a module");
    assert_eq!(format(client.directory.path()), FILES[FILES.len() - 1].0);
}
