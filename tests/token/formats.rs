//! The promise for token files: every version reads the files of all earlier versions.
//!
//! `fixtures` has one file of each format from 2 on, one with the approved algorithms, and one with
//! keys that no longer may be stored. A commit that introduces a new format adds a file of this
//! format.

use std::fs;

use rusqlite::Connection;

use crate::prelude::*;

/// A format, its stored file and the number of the user's objects in it. No version of Jeton wrote
/// format 1.
const FILES: [(Format, &str, usize); 3] = [
    ((2, false), "8d17499fca84648f.jeton", 5),
    ((3, false), "17c183126338a4cb.jeton", 6),
    ((3, true), "fips-17c183126338a4cb.jeton", 6),
];
/// A token with public keys of Ed25519 whose points have the orders 1, 4 and 8.
const SMALL_ORDER: &str = "16b01b06876e386a.jeton";
/// The version of the file, and whether its PIN records need no memory, as PBKDF2 does.
type Format = (i64, bool);

fn copy(name: &str, directory: &Directory) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/token/fixtures").join(name);
    fs::copy(fixture, directory.path().join(name)).expect("the fixture");
}

fn format(directory: &Path) -> Format {
    let mut files = files_below(directory).into_iter();
    let file = files.find(|path| path.extension().is_some_and(|end| end == "jeton")).expect("a token file");
    let connection = Connection::open(file).expect("a database");
    let read = "SELECT user_version, substr(so_pin, 1, 1) = x'00' FROM pragma_user_version, token";
    connection.query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a format")
}

#[test]
fn a_stored_file_of_each_format_opens_and_its_keys_sign() {
    each_backend(|provider| {
        for (stored, name, objects) in FILES {
            let directory = Directory::new();
            copy(name, &directory);
            assert_eq!(format(directory.path()), stored);
            let client = Client::beside(&directory, provider, "");
            let session = client.user();
            assert_eq!(client.find(session, &none()).len(), objects, "{name}");
            let ec = Attributes::of(ObjectClass::PRIVATE_KEY).number(A::KEY_TYPE, KeyType::EC.0);
            let keys = client.find(session, &ec);
            assert_ne!(keys.len(), 0, "{name}");
            for key in keys {
                client.sign(session, &plain(M::ECDSA), key, &[7; 32]).expect("a signature");
            }
            client.finalize().expect("a module");
            assert_eq!(format(directory.path()), (FILES[FILES.len() - 1].0.0, stored.1));
        }
    });
}

/// A version that did not check the order of points stored these keys. Everyone can make a
/// signature that fits them.
#[test]
fn a_stored_public_key_of_small_order_verifies_nothing() {
    each_backend(|provider| {
        let directory = Directory::new();
        copy(SMALL_ORDER, &directory);
        let client = Client::beside(&directory, provider, "");
        let session = client.user();
        let edwards = Attributes::of(ObjectClass::PUBLIC_KEY).number(A::KEY_TYPE, KeyType::EC_EDWARDS.0);
        let keys = client.find(session, &edwards);
        assert_eq!(keys.len(), 3);
        let (eddsa, refused) = (plain(M::EDDSA), Err(Error::KeyFunctionNotPermitted));
        // R is the neutral element, and S is 0.
        let mut signature = [0; 64];
        signature[0] = 1;
        for key in keys {
            assert_eq!(client.verify_init(session, &eddsa, key), refused);
            assert_eq!(client.verify(session, &eddsa, key, b"any", &signature), refused);
            assert_eq!(client.verify_signature_init(session, &eddsa, key, &signature), refused);
            assert_eq!(client.message_verify_init(session, &eddsa, key), refused);
            // No new one is stored.
            let point = client.read(session, key, A::EC_POINT).expect("a point");
            let template = key_object(ObjectClass::PUBLIC_KEY, KeyType::EC_EDWARDS);
            let template = template.bytes(A::EC_PARAMS, ED25519).bytes(A::EC_POINT, &point);
            assert_eq!(client.create(session, &template), Err(Error::AttributeValueInvalid));
        }
    });
}

#[test]
fn the_newest_format_has_a_stored_file() {
    let client = Client::new(DEFAULT);
    client.finalize().expect("a module");
    assert!(FILES.iter().any(|(stored, ..)| *stored == format(client.directory.path())));
}
