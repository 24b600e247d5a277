//! The bytes of a token's files contain no secret in clear, and no bytes of replaced or destroyed
//! records.

use std::fs;

use jeton::admin::{Pins, SealingChange, TokenFile};
use jeton::config::Format;
use rusqlite::Connection;

use crate::guards::digests;
use crate::prelude::*;

const SECRET: &[u8] = b"a secret that is not for the disk";
const NEW_PIN: &[u8] = b"a newer PIN of the user";

/// Returns the bytes of the main file and of the write-ahead log.
fn bytes_on_disk(directory: &Directory) -> Vec<u8> {
    let main = directory.file("jeton");
    let log = main.with_extension("jeton-wal");
    [fs::read(main).expect("the token file"), fs::read(log).unwrap_or_default()].concat()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn column(directory: &Directory, sql: &str) -> Vec<u8> {
    let connection = Connection::open(directory.file("jeton")).expect("the token file");
    connection.query_row(sql, [], |row| row.get(0)).expect("a row")
}

/// Returns the part of a PIN record that holds the wrapped token key.
fn wrapped_key(directory: &Directory, pin: &str) -> Vec<u8> {
    let record = column(directory, &format!("SELECT {pin} FROM token"));
    record[record.len() - 64..].to_vec()
}

fn generic(label: &str) -> Attributes {
    secret(KeyType::GENERIC_SECRET, SECRET).label(label).stored()
}

/// Returns the template of a secret key with `CKA_PRIVATE` false that can be extracted.
fn public_key(label: &str) -> Attributes {
    generic(label).flag(A::PRIVATE, false).flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true)
}

#[test]
fn a_key_with_cka_private_false_is_never_stored_in_clear() {
    let (client, session) = one_user();
    let key = client.create(session, &public_key("made")).expect("a key");
    client.copy(session, key, &none().label("copied")).expect("a copy");
    client.create(session, &data("not secret").stored()).expect("data");
    let mut bytes = bytes_on_disk(&client.directory);
    client.finalize().expect("a module");
    bytes.extend(bytes_on_disk(&client.directory));
    assert!(contains(&bytes, b"some data") && contains(&bytes, b"copied"));
    assert!(!contains(&bytes, &SECRET[..16]));
}

#[test]
fn a_locked_private_key_lacks_the_same_attributes_as_after_a_login() {
    let (client, session) = one_user();
    let (_, key) = pair(&client, session, Kind::P256, &none().stored().flag(A::PRIVATE, false));
    let check = |key| {
        assert_eq!(client.read(session, key, A::CHECK_VALUE), Err(Error::AttributeTypeInvalid));
        assert_eq!(client.read(session, key, A::VALUE), Err(Error::AttributeSensitive));
    };
    check(key);
    client.logout(session).expect("a logout");
    check(client.find_one(session, &none().number(A::CLASS, ObjectClass::PRIVATE_KEY.0)));
}

#[test]
fn a_stored_key_with_cka_private_false_is_used_only_after_a_login() {
    let (client, session) = one_user();
    let hmac = plain(M::SHA256_HMAC);
    let key = client.create(session, &public_key("key").flag(A::SIGN, true)).expect("a key");
    let code = client.sign(session, &hmac, key, b"data").expect("a code");
    let check = |key| {
        assert_eq!(client.read(session, key, A::LABEL).expect("a label"), b"key");
        assert_eq!(client.number(session, key, A::VALUE_LEN), SECRET.len() as u64);
        for id in [A::VALUE, A::CHECK_VALUE] {
            assert_eq!(client.read(session, key, id), Err(Error::AttributeSensitive), "{id}");
        }
        let refused = Err(Error::UserNotLoggedIn);
        assert_eq!(client.sign_init(session, &hmac, key), refused);
        assert_eq!(client.verify_init(session, &hmac, key), refused);
        assert_eq!(digests(&client, session, key), refused);
        assert_eq!(client.copy(session, key, &none().flag(A::TOKEN, false)), Err(Error::UserNotLoggedIn));
        assert_eq!(client.set(session, key, &none().label("other")), refused);
        assert_eq!(client.find(session, &none().bytes(A::VALUE, SECRET)), []);
    };
    client.logout(session).expect("the user");
    check(key);
    // After the next login, the key can be used again with the same handle.
    client.login(session);
    assert_eq!(client.sign(session, &hmac, key, b"data"), Ok(code.clone()));
    assert_eq!(client.read(session, key, A::VALUE).expect("a value"), SECRET);
    client.set(session, key, &none().label("key")).expect("a change");
    client.logout(session).expect("the user");
    check(key);
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    assert_eq!(client.sign(session, &hmac, key, b"data"), Ok(code.clone()));
    // Another process, without a login.
    let other = Client::beside(&client.directory, DEFAULT, "");
    let others = other.open();
    let found = other.find_one(others, &none().label("key"));
    assert_eq!(other.sign_init(others, &hmac, found), Err(Error::UserNotLoggedIn));
    other.login(others);
    assert_eq!(other.sign(others, &hmac, found, b"data"), Ok(code));
}

#[test]
fn the_next_login_seals_the_keys_with_cka_private_false_in_an_older_file() {
    let scalar: Vec<u8> = (1..=32).collect();
    let secrets = [&b"a public secret!"[..], b"an extractable secret value", &scalar];
    for user in [User::User, User::SecurityOfficer] {
        // The last version of Jeton before format 3 created this token of format 2, which stores
        // keys with `CKA_PRIVATE` false in clear.
        let directory = Directory::new();
        let name = "8d17499fca84648f.jeton";
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/token/fixtures").join(name);
        fs::copy(fixture, directory.path().join(name)).expect("the fixture");
        let client = Client::beside(&directory, DEFAULT, "");
        let session = client.open();
        assert!(secrets.iter().all(|secret| contains(&bytes_on_disk(&directory), secret)));
        let key = client.find_one(session, &none().label("public ec"));
        let ecdsa = plain(M::ECDSA);
        assert_eq!(client.sign_init(session, &ecdsa, key), Err(Error::UserNotLoggedIn));
        let open = client.find_one(session, &none().label("open generic"));
        assert_eq!(client.read(session, open, A::VALUE), Err(Error::AttributeSensitive));
        let pin = if user == User::User { PIN } else { SO_PIN };
        client.module.login(session, user, pin).expect("a login");
        for secret in secrets {
            assert!(!contains(&bytes_on_disk(&directory), secret), "{secret:?}");
        }
        assert_eq!(column(&directory, "SELECT CAST(user_version AS BLOB) FROM pragma_user_version"), b"3");
        assert_eq!(client.read(session, open, A::VALUE).expect("a value"), secrets[1]);
        client.sign(session, &ecdsa, key, &[7; 32]).expect("a signature");
        assert_eq!(client.find(session, &none()).len(), if user == User::User { 5 } else { 4 });
        // Another process finds the same objects.
        let other = Client::beside(&directory, DEFAULT, "");
        assert_eq!(other.find(other.user(), &none()).len(), 5);
    }
}

#[test]
fn a_file_of_a_newer_format_is_not_changed() {
    let client = Client::new(DEFAULT);
    client.finalize().expect("a module");
    let path = client.directory.file("jeton");
    Connection::open(&path).expect("the file").pragma_update(None, "user_version", 4).expect("a change");
    let other = Client::beside(&client.directory, DEFAULT, "");
    assert_eq!(other.open_session(other.slot, Access::ReadWrite), Err(Error::TokenNotRecognized));
}

#[test]
fn a_pin_change_erases_the_old_pin_record() {
    for initialised_by_so in [false, true] {
        let client = Client::new(DEFAULT);
        // Another process has the token open and is logged in.
        let other = Client::beside(&client.directory, DEFAULT, "");
        let _others = other.user();
        let session = client.open();
        let old = wrapped_key(&client.directory, "user_pin");
        assert!(contains(&bytes_on_disk(&client.directory), &old));
        if initialised_by_so {
            client.set_user_pin(session, NEW_PIN);
        } else {
            client.set_pin(session, PIN, NEW_PIN).expect("a PIN");
        }
        let bytes = bytes_on_disk(&client.directory);
        assert!(!contains(&bytes, &old));
        assert!(contains(&bytes, &wrapped_key(&client.directory, "user_pin")));
    }
}

#[test]
fn a_login_that_strengthens_a_pin_record_erases_the_weaker_one() {
    let client = Client::new(DEFAULT);
    client.finalize().expect("a module");
    let old = wrapped_key(&client.directory, "user_pin");
    let parameters = format!(
        "token-dir = '{}', backend = '{}', pin = {{ memory-kib = 64, passes = 2 }}",
        client.directory.path().display(),
        DEFAULT.name
    );
    client.initialize(Some(&parameters)).expect("a module");
    let session = client.user();
    assert!(!contains(&bytes_on_disk(&client.directory), &old));
    client.close_session(session).expect("a session");
}

#[test]
fn a_destroyed_key_leaves_no_byte_of_its_record() {
    let (client, session) = one_user();
    let other = Client::beside(&client.directory, DEFAULT, "");
    let _others = other.user();
    let key = client.create(session, &generic("gone")).expect("a key");
    let record = column(&client.directory, "SELECT body FROM record");
    assert!(contains(&bytes_on_disk(&client.directory), &record[26..]));
    client.destroy_object(session, key).expect("a key");
    let bytes = bytes_on_disk(&client.directory);
    assert!(record.windows(16).skip(2).all(|part| !contains(&bytes, part)));
}

#[test]
fn many_destroyed_keys_leave_no_byte_of_their_records() {
    let (client, session) = one_user();
    let keys: Vec<_> = (1..=60_usize)
        .map(|len| {
            let key = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET).stored();
            client.create(session, &key.bytes(A::VALUE, &vec![7; len * 37])).expect("a key")
        })
        .collect();
    let connection = Connection::open(client.directory.file("jeton")).expect("the token file");
    let mut statement = connection.prepare("SELECT body FROM record").expect("a table");
    let records: Vec<Vec<u8>> =
        statement.query_map([], |row| row.get(0)).expect("rows").map(|row| row.expect("a row")).collect();
    drop(statement);
    drop(connection);
    assert_eq!(records.len(), keys.len());
    // Destroys every second key first, so that the other rows move between pages.
    let (even, odd): (Vec<_>, Vec<_>) = keys.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    for (_, key) in even.into_iter().chain(odd) {
        client.destroy_object(session, *key).expect("a key");
    }
    let bytes = bytes_on_disk(&client.directory);
    // A record has its nonce in the first bytes and its tag in the last ones.
    let parts = records.iter().flat_map(|record| [&record[2..26], &record[record.len() - 16..]]);
    let left = parts.filter(|part| contains(&bytes, part)).count();
    assert_eq!(left, 0, "parts of records that are left");
}

#[test]
fn initialisation_erases_all_bytes_of_the_previous_token() {
    let (client, session) = one_user();
    client.create(session, &generic("gone")).expect("a key");
    let record = column(&client.directory, "SELECT body FROM record");
    let pins = ["so_pin", "user_pin"].map(|pin| wrapped_key(&client.directory, pin));
    client.close_session(session).expect("a session");
    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    let bytes = bytes_on_disk(&client.directory);
    assert!(!contains(&bytes, &record[2..26]));
    assert!(pins.iter().all(|pin| !contains(&bytes, pin)));
}

#[test]
fn bytes_kept_for_a_reader_are_erased_by_a_later_write() {
    let (client, session) = one_user();
    let key = client.create(session, &generic("gone")).expect("a key");
    let record = column(&client.directory, "SELECT body FROM record");
    let mut reader = Connection::open(client.directory.file("jeton")).expect("the token file");
    let reading = reader.transaction().expect("a transaction");
    let _: i64 = reading.query_row("SELECT count(*) FROM record", [], |row| row.get(0)).expect("a count");
    // The call succeeds, although the old bytes must stay while the reader needs them.
    client.destroy_object(session, key).expect("a key");
    assert!(contains(&bytes_on_disk(&client.directory), &record[2..26]));
    drop(reading);
    // After a failed erasure, the module waits for one second before it tries again.
    std::thread::sleep(Duration::from_millis(1100));
    client.create(session, &data("next").stored()).expect("data");
    assert!(!contains(&bytes_on_disk(&client.directory), &record[2..26]));
}

#[test]
fn bytes_that_a_killed_process_left_are_erased_at_the_next_login() {
    let (client, session) = one_user();
    let key = client.create(session, &generic("gone")).expect("a key");
    let record = column(&client.directory, "SELECT body FROM record");
    // Simulates a process that was killed after its commit: copies the files while they contain old
    // bytes.
    let mut reader = Connection::open(client.directory.file("jeton")).expect("the token file");
    let reading = reader.transaction().expect("a transaction");
    let _: i64 = reading.query_row("SELECT count(*) FROM record", [], |row| row.get(0)).expect("a count");
    client.destroy_object(session, key).expect("a key");
    let copy = Directory::new();
    for path in [client.directory.file("jeton"), client.directory.file("jeton").with_extension("jeton-wal")] {
        fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("a copy");
    }
    drop(reading);
    assert!(contains(&bytes_on_disk(&copy), &record[2..26]));
    let other = Client::beside(&copy, DEFAULT, "");
    assert_eq!(other.find(other.user(), &none()), []);
    assert!(!contains(&bytes_on_disk(&copy), &record[2..26]));
}

/// Opens the token's file as the tool `jeton` does.
fn administered(client: &Client, provider: &Provider, configuration: &str) -> TokenFile {
    let parameters = client.directory.parameters(provider, configuration);
    TokenFile::all(Some(&parameters)).expect("tokens").0.pop().expect("a token")
}

const PINS: Pins<'_> = Pins { so: SO_PIN, user: Some(PIN) };

#[test]
fn a_new_token_key_keeps_the_objects_and_the_pins() {
    let (client, session) = one_user();
    client.create(session, &generic("private")).expect("a key");
    client.create(session, &public_key("public")).expect("a key");
    client.create(session, &data("data").stored()).expect("data");
    let record = column(&client.directory, "SELECT body FROM record LIMIT 1");
    let pins = ["so_pin", "user_pin"].map(|pin| wrapped_key(&client.directory, pin));
    let token = administered(&client, DEFAULT, "");
    token.rekey(&PINS).expect("a new key");
    let bytes = bytes_on_disk(&client.directory);
    assert!(!contains(&bytes, &record[2..26]));
    assert!(pins.iter().all(|pin| !contains(&bytes, pin)));
    // A session that was logged in gets the same error as after an initialisation.
    assert_eq!(client.find_init(session, &none().template()), Err(Error::DeviceRemoved));
    client.login(session);
    for label in ["private", "public"] {
        let key = client.find_one(session, &none().label(label));
        client.sign(session, &plain(M::SHA256_HMAC), key, b"data").expect("a code");
    }
    client.find_one(session, &data("data"));
    client.logout(session).expect("the user");
    for format in [Format::Fips, Format::Standard] {
        token.convert(&PINS, format).expect("another format");
        let records = column(&client.directory, "SELECT body FROM record WHERE body NOT NULL LIMIT 1");
        assert_eq!(records[0], format as u8);
        client.login(session);
        assert_eq!(client.find(session, &none()).len(), 3, "{format:?}");
        let more = client.create(session, &data("more").stored()).expect("data");
        client.destroy_object(session, more).expect("data");
        let key = client.find_one(session, &none().label("private"));
        client.sign(session, &plain(M::SHA256_HMAC), key, b"data").expect("a code");
        client.logout(session).expect("the user");
    }
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
}

#[test]
fn a_new_token_key_needs_both_pins() {
    let client = Client::new(DEFAULT);
    let token = administered(&client, DEFAULT, "");
    let wrong: [Pins<'_>; 3] = [
        Pins { so: b"wrong", user: Some(PIN) },
        Pins { so: SO_PIN, user: Some(b"wrong") },
        Pins { so: SO_PIN, user: None },
    ];
    let before = column(&client.directory, "SELECT so_pin FROM token");
    for pins in &wrong {
        assert_eq!(token.rekey(pins), Err(Error::PinIncorrect));
    }
    assert_eq!(column(&client.directory, "SELECT so_pin FROM token"), before);
}

#[test]
fn rekey_refuses_a_pin_record_of_an_older_token_key() {
    let client = Client::new(DEFAULT);
    let token = administered(&client, DEFAULT, "");
    let store = Connection::open(client.directory.file("jeton")).expect("the file");
    for pin in ["user_pin", "so_pin"] {
        let old = column(&client.directory, &format!("SELECT {pin} FROM token"));
        token.rekey(&PINS).expect("a new key");
        let new = column(&client.directory, &format!("SELECT {pin} FROM token"));
        let put =
            |record: &[u8]| store.execute(&format!("UPDATE token SET {pin} = ?"), [record]).expect("done");
        put(&old);
        assert_eq!(token.rekey(&PINS), Err(Error::DeviceError), "{pin}");
        put(&new);
    }
    token.rekey(&PINS).expect("a new key");
}

#[test]
fn rekey_refuses_a_token_that_was_altered() {
    for statement in ["DELETE FROM object", "UPDATE record SET body = CAST(body || x'00' AS BLOB)"] {
        let (client, session) = one_user();
        client.create(session, &generic("altered")).expect("a key");
        Connection::open(client.directory.file("jeton"))
            .expect("the file")
            .execute_batch(statement)
            .expect("done");
        assert_eq!(administered(&client, DEFAULT, "").rekey(&PINS), Err(Error::DeviceError), "{statement}");
    }
}

/// Creates a file with a sealing key. Returns its path, and a configuration that names the file.
fn sealing_key(directory: &Directory, name: &str) -> (PathBuf, String) {
    let path = directory.path().join(name);
    jeton::admin::new_sealing_key(&path).expect("a sealing key");
    let configuration = format!(", store = {{ sealing-key = 'file:{}' }}", path.display());
    (path, configuration)
}

#[test]
fn a_pin_without_the_sealing_key_opens_nothing_and_costs_no_attempt() {
    let (client, session) = one_user();
    client.create(session, &generic("key")).expect("a key");
    client.finalize().expect("a module");
    let (_, right) = sealing_key(&client.directory, "right");
    let (_, wrong) = sealing_key(&client.directory, "wrong");
    let token = administered(&client, DEFAULT, &right);
    token.change_sealing_key(&PINS, SealingChange::Set, None).expect("a sealing key");
    assert!(token.info().expect("a token").so.sealing_key.is_some());
    for configuration in ["", &wrong] {
        let other = Client::beside(&client.directory, DEFAULT, configuration);
        let session = other.open();
        for _ in 0..5 {
            let login = other.module.login(session, User::User, PIN);
            assert_eq!(login, Err(Error::DeviceError), "{configuration}");
            let login = other.module.login(session, User::SecurityOfficer, SO_PIN);
            assert_eq!(login, Err(Error::DeviceError), "{configuration}");
        }
        other.finalize().expect("a module");
    }
    let info = token.info().expect("a token");
    assert_eq!((info.so.failures, info.user.expect("a PIN").failures), (0, 0));
    let other = Client::beside(&client.directory, DEFAULT, &right);
    let session = other.user();
    other.find_one(session, &none().label("key"));
    // The record of a new PIN needs the sealing key too.
    other.set_pin(session, PIN, NEW_PIN).expect("a PIN");
    assert!(token.info().expect("a token").user.expect("a PIN").sealing_key.is_some());
}

#[test]
fn a_sealing_key_is_rotated_and_removed() {
    let (client, session) = one_user();
    client.create(session, &generic("key")).expect("a key");
    client.finalize().expect("a module");
    let (first, one) = sealing_key(&client.directory, "one");
    let (second, two) = sealing_key(&client.directory, "two");
    let source = |path: &Path| format!("file:{}", path.display()).parse().expect("a source");
    let (first, second) = (source(&first), source(&second));
    let change = |configuration: &str, change, old| {
        administered(&client, DEFAULT, configuration).change_sealing_key(&PINS, change, old)
    };
    assert_eq!(change("", SealingChange::Set, None), Err(Error::DeviceError));
    assert_eq!(change(&one, SealingChange::Rotate, None), Err(Error::DeviceError));
    assert_eq!(change(&one, SealingChange::Set, None), Ok(()));
    // The configuration does not name the present key.
    assert_eq!(change(&two, SealingChange::Rotate, None), Err(Error::DeviceError));
    assert_eq!(change(&two, SealingChange::Rotate, Some(&first)), Ok(()));
    assert_eq!(change("", SealingChange::Remove, None), Err(Error::DeviceError));
    assert_eq!(change("", SealingChange::Remove, Some(&second)), Ok(()));
    let other = Client::beside(&client.directory, DEFAULT, "");
    let session = other.user();
    other.find_one(session, &none().label("key"));
}

#[test]
fn a_sealing_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let client = Client::new(DEFAULT);
    let (path, configuration) = sealing_key(&client.directory, "key");
    for mode in [0o644, 0o640, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        let token = administered(&client, DEFAULT, &configuration);
        let changed = token.change_sealing_key(&PINS, SealingChange::Set, None);
        assert_eq!(changed, Err(Error::DeviceError), "{mode:o}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::write(&path, [7; 31]).expect("a key that is too short");
    let token = administered(&client, DEFAULT, &configuration);
    assert_eq!(token.change_sealing_key(&PINS, SealingChange::Set, None), Err(Error::DeviceError));
}

#[test]
fn a_token_initialised_with_a_sealing_key_needs_it() {
    let directory = Directory::new();
    let (_, configuration) = sealing_key(&directory, "key");
    let client = Client::beside(&directory, DEFAULT, &configuration);
    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    let other = Client::beside(&directory, DEFAULT, "");
    assert_eq!(other.module.login(other.open(), User::SecurityOfficer, SO_PIN), Err(Error::DeviceError));
}
