//! A token whose file was altered by somebody who can write to it and has no PIN.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jeton::backend::Provider;
use jeton::error::Error;
use jeton::id::{AttributeType as A, MechanismType as M, ObjectHandle, SessionHandle};
use jeton::module::{Module, User};
use rusqlite::{Connection, params};

use crate::keys::{Kind, pair};
use crate::support::{Client, Directory, PIN, data, each_backend, none, plain};

/// The token's file.
fn file(directory: &Directory) -> PathBuf {
    let mut files = std::fs::read_dir(directory.path()).expect("the directory");
    let token = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jeton");
    files.find_map(|entry| Some(entry.expect("an entry").path()).filter(token)).expect("a token file")
}

fn connect(client: &Client) -> Connection {
    let connection = Connection::open(file(&client.directory)).expect("the token file");
    connection.busy_timeout(Duration::from_secs(20)).expect("a connection");
    connection
}

/// Some statements, in place of the attacker.
fn tamper(client: &Client, statements: &str) {
    connect(client).execute_batch(statements).expect("statements");
}

/// Objects with these labels, private ones, in the store.
fn stored(client: &Client, session: SessionHandle, labels: &[&str]) -> Vec<ObjectHandle> {
    let private = |label: &&str| data(label).stored().flag(A::PRIVATE, true);
    labels.iter().map(|label| client.create(session, &private(label)).expect("data")).collect()
}

/// The labels that the user sees after a fresh login, in another process's place.
fn seen(directory: &Arc<Directory>, provider: &Provider) -> Vec<String> {
    let client = Client::beside(directory, provider, "");
    let session = client.user();
    let mut labels: Vec<_> = client
        .find(session, &none())
        .into_iter()
        .map(|object| client.read(session, object, A::LABEL).expect("a label"))
        .map(|label| String::from_utf8(label).expect("text"))
        .collect();
    labels.sort();
    labels
}

#[test]
fn an_altered_private_record_is_refused_and_the_others_are_usable() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        stored(&client, session, &["altered"]);
        tamper(&client, "UPDATE record SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB)");
        client.create(session, &data("sound").stored()).expect("data");
        let other = Client::beside(&client.directory, provider, "");
        let session = other.user();
        assert_eq!(other.find(session, &data("altered")), []);
        other.find_one(session, &data("sound"));
        let (public, private) = pair(&other, session, Kind::P256, &none().stored());
        let with = plain(M::ECDSA_SHA256);
        let signature = other.sign(session, &with, private, b"data").expect("a signature");
        assert_eq!(other.verify(session, &with, public, b"data", &signature), Ok(()));
    });
}

#[test]
fn an_altered_public_record_is_refused_at_the_login() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (public, private) = pair(&client, session, Kind::P256, &none().stored());
        // The last byte of the public record is one of an attribute's value, after nonce and tag.
        let connection = connect(&client);
        let read = "SELECT id, body FROM object JOIN record USING (id) WHERE private = 0";
        let (id, mut body): (i64, Vec<u8>) =
            connection.query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a record");
        *body.last_mut().expect("a body") ^= 1;
        connection.execute("UPDATE record SET body = ?2 WHERE id = ?1", params![id, body]).expect("a write");
        client.module.logout(session).expect("the user");
        client.login(session);
        assert_eq!(client.find(session, &none().flag(A::VERIFY, true)), []);
        assert_eq!(client.module.object(session, public).err(), Some(Error::ObjectHandleInvalid));
        let again = client.find_one(session, &none().flag(A::SIGN, true));
        assert_ne!(again, private);
        client.sign(session, &plain(M::ECDSA_SHA256), again, b"data").expect("a signature");
    });
}

#[test]
fn an_object_that_was_removed_accuses_few_others() {
    const LABELS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        stored(&client, session, &LABELS);
        assert_eq!(seen(&client.directory, provider), LABELS);
        tamper(&client, "DELETE FROM object WHERE id = (SELECT max(id) FROM object)");
        let left = seen(&client.directory, provider);
        // Those whose numbers share the low six bits with the one that is gone are left out too: seldom one of seven.
        assert!((1..=7).contains(&left.len()), "{left:?}");
    });
}

#[test]
fn an_older_record_in_the_place_of_a_newer_is_refused() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = stored(&client, session, &["before"])[0];
        let old = connect(&client);
        let read = "SELECT id, private, tag, names, body FROM object JOIN record USING (id)";
        type Row = (i64, bool, Vec<u8>, Vec<u8>, Vec<u8>);
        let (id, private, tag, names, body): Row = old
            .query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
            .expect("a row");
        client.set(session, key, &none().label("after")).expect("a change");
        assert_eq!(seen(&client.directory, provider), ["after"]);
        old.execute("REPLACE INTO object VALUES(?1, ?2, ?3, ?4)", params![id, private, tag, names])
            .expect("a write");
        old.execute("REPLACE INTO record VALUES(?1, ?2)", params![id, body]).expect("a write");
        assert_eq!(seen(&client.directory, provider), [""; 0]);
    });
}

#[test]
fn rows_that_were_added_doubled_or_renamed_are_refused() {
    for statements in [
        "INSERT INTO object SELECT id + 64, private, tag, names FROM object;
         INSERT INTO record SELECT id + 64, body FROM record",
        "UPDATE object SET names = CAST(names || x'0102030405060708' AS BLOB)",
        "UPDATE object SET names = x''",
        "UPDATE object SET private = 0",
        "UPDATE token SET change = change + 1",
        "UPDATE token SET summary = x''",
    ] {
        each_backend(|provider| {
            let client = Client::new(provider);
            let session = client.user();
            stored(&client, session, &["one"]);
            tamper(&client, statements);
            assert_eq!(seen(&client.directory, provider), [""; 0], "{statements}");
        });
    }
}

#[test]
fn nothing_is_written_over_a_summary_that_was_altered() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        stored(&client, session, &["one"]);
        tamper(&client, "UPDATE token SET summary = x'00'");
        assert_eq!(client.create(session, &data("two").stored()), Err(Error::DeviceError));
        let rows: i64 =
            connect(&client).query_row("SELECT count(*) FROM object", [], |row| row.get(0)).expect("a count");
        assert_eq!(rows, 1);
    });
}

#[test]
fn an_older_copy_of_the_file_is_refused_where_a_counter_is_kept() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let counters = Directory::new();
        let configuration = format!(", store = {{ counter-dir = '{}' }}", counters.path().display());
        let directory = Arc::clone(&client.directory);
        let path = file(&directory);
        let counted = |label: &str| {
            let client = Client::beside(&directory, provider, &configuration);
            let session = client.user();
            stored(&client, session, &[label]);
            client.module.finalize().expect("a module");
        };
        client.module.finalize().expect("a module");
        counted("one");
        let copy = std::fs::read(&path).expect("the token file");
        counted("two");
        assert_eq!(seen(&directory, provider), ["one", "two"]);
        std::fs::write(&path, copy).expect("the token file");
        // Without the counter an older copy is as good as any.
        assert_eq!(seen(&directory, provider), ["one"]);
        let client = Client::beside(&directory, provider, &configuration);
        let session = client.open();
        assert_eq!(client.module.login(session, User::User, PIN), Err(Error::DeviceError));
    });
}

#[test]
fn a_copy_with_an_older_pin_is_refused_where_a_counter_is_kept() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let counters = Directory::new();
        let configuration = format!(", store = {{ counter-dir = '{}' }}", counters.path().display());
        let directory = Arc::clone(&client.directory);
        let path = file(&directory);
        client.module.finalize().expect("a module");
        let copy = std::fs::read(&path).expect("the token file");
        let client = Client::beside(&directory, provider, &configuration);
        let session = client.open();
        client.module.set_pin(session, PIN, b"a newer one").expect("a PIN");
        client.module.finalize().expect("a module");
        std::fs::write(&path, copy).expect("the token file");
        let client = Client::beside(&directory, provider, &configuration);
        let session = client.open();
        assert_eq!(client.module.login(session, User::User, PIN), Err(Error::DeviceError));
    });
}

/// What is told of an object: its label, other values, whether it signs.
type Told = (Vec<u8>, Vec<u8>, bool);

/// Everything that a user is told of the objects.
fn told(module: &Module) -> Result<Vec<Told>, Error> {
    let slot = module.slots(true)?[0];
    let session = module.open_session(slot, true)?;
    module.login(session, User::User, PIN)?;
    module.find_init(session, &none().template())?;
    let mut found = [ObjectHandle(0); 16];
    let count = module.find(session, &mut found)?;
    let mut all = Vec::new();
    for handle in &found[..count] {
        let Ok(object) = module.object(session, *handle) else { continue };
        let bytes = |id| match object.attribute(id) {
            Ok(jeton::object::AttributeView::Bytes(bytes)) => bytes.into_owned(),
            _ => Vec::new(),
        };
        let mut values = Vec::new();
        for id in [
            A::CLASS,
            A::KEY_TYPE,
            A::ID,
            A::VALUE,
            A::EC_POINT,
            A::EC_PARAMS,
            A::SENSITIVE,
            A::EXTRACTABLE,
            A::SIGN,
        ] {
            values.extend(bytes(id));
        }
        let signs = module.sign_init(session, &plain(M::ECDSA_SHA256), *handle).is_ok();
        all.push((bytes(A::LABEL), values, signs));
    }
    all.sort();
    Ok(all)
}

#[test]
fn a_flipped_byte_never_changes_what_is_told() {
    // Every byte in turn takes minutes; a stride that is a prime reaches every table of the file.
    let stride = std::env::var("JETON_FLIP_STRIDE").map_or(397, |text| text.parse().expect("a number"));
    let provider = Provider::ALL[0];
    let client = Client::new(provider);
    let session = client.user();
    stored(&client, session, &["private"]);
    pair(&client, session, Kind::P256, &none().stored().label("pair"));
    let parameters = client.directory.parameters(provider, "");
    client.module.finalize().expect("a module");
    let path = file(&client.directory);
    let whole = std::fs::read(&path).expect("the token file");
    let open = || {
        let module = Module::new();
        module.initialize(Some(&parameters)).expect("a module");
        let outcome = told(&module);
        module.finalize().expect("a module");
        outcome
    };
    let truth = open().expect("a sound token");
    assert_eq!(truth.len(), 3);
    let (mut same, mut fewer, mut refused) = (0, 0, 0);
    for at in (0..whole.len()).step_by(stride) {
        let mut altered = whole.clone();
        altered[at] ^= 0x10;
        std::fs::write(&path, &altered).expect("the token file");
        for journal in ["-wal", "-shm"] {
            let mut name = path.clone().into_os_string();
            name.push(journal);
            let _ = std::fs::remove_file(name);
        }
        match open() {
            Ok(all) if all == truth => same += 1,
            Ok(all) => {
                assert!(all.iter().all(|object| truth.contains(object)), "byte {at}");
                fewer += 1;
            }
            Err(_) => refused += 1,
        }
    }
    println!(
        "{} bytes, every {stride}th flipped: {same} of no effect, {fewer} left objects out, {refused} refused",
        whole.len()
    );
    assert!(fewer > 0 && refused > 0);
}
