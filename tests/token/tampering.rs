//! An attacker alters the file of a token. The attacker can write to the file and has no PIN.

use std::os::unix::fs::FileExt;

use jeton::store::Change;
use jeton::store::change_counter::Counter;
use rusqlite::{Connection, params};

use crate::files::beside;
use crate::prelude::*;

fn connect(client: &Client) -> Connection {
    let connection = Connection::open(client.directory.file("jeton")).expect("the token file");
    connection.busy_timeout(Duration::from_secs(20)).expect("a connection");
    connection
}

fn tamper(client: &Client, statements: &str) {
    connect(client).execute_batch(statements).expect("statements");
}

fn stored(client: &Client, session: SessionHandle, labels: &[&str]) -> Vec<ObjectHandle> {
    let private = |label: &&str| data(label).stored().flag(A::PRIVATE, true);
    labels.iter().map(|label| client.create(session, &private(label)).expect("data")).collect()
}

/// Returns the labels that the user sees after a login in another process.
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
    let (client, session) = one_user();
    stored(&client, session, &["altered"]);
    // Changes the last byte of the record.
    let last = "iif(substr(body, -1) = x'00', x'01', x'00')";
    let body = format!("CAST(substr(body, 1, length(body) - 1) || {last} AS BLOB)");
    tamper(&client, &format!("UPDATE record SET body = {body}"));
    client.create(session, &data("sound").stored()).expect("data");
    let other = Client::beside(&client.directory, DEFAULT, "");
    let session = other.user();
    assert_eq!(other.find(session, &data("altered")), []);
    other.find_one(session, &data("sound"));
    let (public, private) = pair(&other, session, Kind::P256, &none().stored());
    let mechanism = plain(M::ECDSA_SHA256);
    let signature = other.sign(session, &mechanism, private, b"data").expect("a signature");
    assert_eq!(other.verify(session, &mechanism, public, b"data", &signature), Ok(()));
}

#[test]
fn an_altered_public_record_is_refused_at_the_login() {
    let (client, session) = one_user();
    let (public, private) = pair(&client, session, Kind::P256, &none().stored());
    // The last byte of the public record belongs to the value of an attribute.
    let connection = connect(&client);
    let read = "SELECT id, body FROM object JOIN record USING (id) WHERE private = 0";
    let (id, mut body): (i64, Vec<u8>) =
        connection.query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a record");
    *body.last_mut().expect("a body") ^= 1;
    connection.execute("UPDATE record SET body = ?2 WHERE id = ?1", params![id, body]).expect("a write");
    client.logout(session).expect("the user");
    client.login(session);
    assert_eq!(client.find(session, &none().flag(A::VERIFY, true)), []);
    assert_eq!(client.object(session, public).err(), Some(Error::ObjectHandleInvalid));
    let again = client.find_one(session, &none().flag(A::SIGN, true));
    assert_ne!(again, private);
    client.sign(session, &plain(M::ECDSA_SHA256), again, b"data").expect("a signature");
}

#[test]
fn a_removed_row_affects_few_other_objects() {
    const LABELS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (client, session) = one_user();
    stored(&client, session, &LABELS);
    assert_eq!(seen(&client.directory, DEFAULT), LABELS);
    tamper(&client, "DELETE FROM object WHERE id = (SELECT max(id) FROM object)");
    let left = seen(&client.directory, DEFAULT);
    // The token also leaves out each object whose number has the same low six bits as that of
    // the removed object. This is rare among seven objects.
    assert!((1..=7).contains(&left.len()), "{left:?}");
}

#[test]
fn an_older_record_instead_of_a_newer_one_is_refused() {
    let (client, session) = one_user();
    let key = stored(&client, session, &["before"])[0];
    let old = connect(&client);
    let read = "SELECT id, private, tag, names, body FROM object JOIN record USING (id)";
    type Row = (i64, bool, Vec<u8>, Vec<u8>, Vec<u8>);
    let (id, private, tag, names, body): Row = old
        .query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .expect("a row");
    client.set(session, key, &none().label("after")).expect("a change");
    assert_eq!(seen(&client.directory, DEFAULT), ["after"]);
    old.execute("REPLACE INTO object VALUES(?1, ?2, ?3, ?4)", params![id, private, tag, names])
        .expect("a write");
    old.execute("REPLACE INTO record VALUES(?1, ?2)", params![id, body]).expect("a write");
    assert_eq!(seen(&client.directory, DEFAULT), [""; 0]);
}

#[test]
fn added_duplicated_or_renamed_rows_are_refused() {
    for statements in [
        "INSERT INTO object SELECT id + 64, private, tag, names FROM object;
         INSERT INTO record SELECT id + 64, body FROM record",
        "UPDATE object SET names = CAST(names || x'0102030405060708' AS BLOB)",
        "UPDATE object SET names = x''",
        "UPDATE object SET private = 0",
        "UPDATE token SET change = change + 1",
        "UPDATE token SET summary = x''",
    ] {
        let (client, session) = one_user();
        stored(&client, session, &["one"]);
        tamper(&client, statements);
        assert_eq!(seen(&client.directory, DEFAULT), [""; 0], "{statements}");
    }
}

/// Statements that give a token file another schema: triggers that undo each PIN failure or delete
/// each new row, views, indexes, and tables that are added, changed or dropped.
const PLANTED: [&str; 11] = [
    "CREATE TRIGGER planted AFTER UPDATE OF user_failures ON token WHEN NEW.user_failures > 0
     BEGIN UPDATE token SET user_failures = 0; END",
    "CREATE TRIGGER planted AFTER INSERT ON object BEGIN DELETE FROM object WHERE id = NEW.id; END",
    "CREATE VIEW planted AS SELECT * FROM object",
    "ALTER TABLE object RENAME TO real; CREATE VIEW object AS SELECT * FROM real",
    "CREATE INDEX planted ON object(tag)",
    "CREATE UNIQUE INDEX planted ON object(private)",
    "CREATE TABLE planted(a)",
    "CREATE VIRTUAL TABLE planted USING fts5(a)",
    "ALTER TABLE object ADD COLUMN planted INTEGER DEFAULT 0",
    "DROP TABLE record",
    "ANALYZE",
];

#[test]
fn a_file_with_another_schema_is_refused() {
    // A counter has the serial number in its name.
    let other_name = "UPDATE token SET serial = '../../../elsewhere'";
    for statements in PLANTED.into_iter().chain([other_name]) {
        let (client, session) = one_user();
        stored(&client, session, &["one"]);
        client.finalize().expect("a module");
        tamper(&client, statements);
        let other = Client::beside(&client.directory, DEFAULT, "");
        let refused = other.open_session(other.slot, Access::ReadWrite);
        assert_eq!(refused.err(), Some(Error::TokenNotRecognized), "{statements}");
    }
}

/// The rows of pages that share their children could have no end.
#[test]
fn a_table_whose_pages_share_their_children_is_refused() {
    const PAGE: usize = 4096;
    const CELL: u16 = PAGE as u16 - 5;
    let (client, session) = one_user();
    stored(&client, session, &["one"]);
    client.finalize().expect("a module");
    let find = "SELECT rootpage FROM sqlite_schema WHERE name = 'object'";
    let root: u32 = connect(&client).query_row(find, [], |row| row.get(0)).expect("a page");
    let path = client.directory.file("jeton");
    let mut file = std::fs::read(&path).expect("the token file");
    // The root gets two children, which are both the copy of it.
    let at = (root as usize - 1) * PAGE;
    file.extend_from_within(at..at + PAGE);
    let child = (file.len() as u32 / PAGE as u32).to_be_bytes();
    file[28..32].copy_from_slice(&child);
    let [high, low] = CELL.to_be_bytes();
    let parent = [&[5, 0, 0, 0, 1, high, low, 0], &child[..], &[high, low]].concat();
    file[at..at + parent.len()].copy_from_slice(&parent);
    file[at + usize::from(CELL)..at + PAGE].copy_from_slice(&[&child[..], &[1]].concat());
    std::fs::write(&path, file).expect("the token file");
    let other = Client::beside(&client.directory, DEFAULT, "");
    let found = other.find_init(other.open(), &none().template());
    assert_eq!(found, Err(Error::TokenNotRecognized));
}

#[test]
fn a_schema_change_under_a_running_process_is_refused_and_has_no_effect() {
    for statements in PLANTED {
        let (client, session) = one_user();
        stored(&client, session, &["one"]);
        tamper(&client, statements);
        assert!(client.create(session, &data("two").stored()).is_err(), "{statements}");
        client.logout(session).expect("the user");
        let wrong = client.module.login(session, User::User, b"a wrong one");
        assert!(!matches!(wrong, Ok(()) | Err(Error::PinIncorrect)), "{statements}: {wrong:?}");
    }
}

#[test]
fn a_file_with_a_rollback_journal_beside_it_is_refused() {
    let client = Client::new(DEFAULT);
    client.finalize().expect("a module");
    let path = client.directory.file("jeton");
    std::fs::write(path.with_extension("jeton-journal"), b"a journal").expect("a file");
    let other = Client::beside(&client.directory, DEFAULT, "");
    assert_eq!(other.open_session(other.slot, Access::ReadWrite).err(), Some(Error::TokenNotRecognized));
}

#[test]
fn rows_altered_under_a_running_process_are_found_at_the_next_write_and_search() {
    const LABELS: [&str; 4] = ["a", "b", "c", "d"];
    for statements in [
        "DELETE FROM object WHERE id = (SELECT max(id) FROM object)",
        "UPDATE record SET id = id - 64 WHERE id = (SELECT max(id) FROM object);
         UPDATE object SET id = id - 64 WHERE id = (SELECT max(id) FROM object)",
        "UPDATE object SET private = 0 WHERE id = (SELECT max(id) FROM object)",
    ] {
        let (client, session) = one_user();
        let objects = stored(&client, session, &LABELS);
        assert_eq!(client.find(session, &none()).len(), LABELS.len());
        tamper(&client, statements);
        // To look for altered rows, the module loads the rows again only after a pause of 16
        // times the duration of a load.
        std::thread::sleep(Duration::from_millis(200));
        client.create(session, &data("after").stored()).expect("data");
        let known = objects.iter().filter(|object| client.object(session, **object).is_ok());
        assert!(known.count() < LABELS.len(), "{statements}");
        assert!(client.find(session, &data("after")).len() <= 1);

        let (client, session) = one_user();
        stored(&client, session, &LABELS);
        assert_eq!(client.find(session, &none()).len(), LABELS.len());
        tamper(&client, statements);
        std::thread::sleep(Duration::from_millis(200));
        assert!(client.find(session, &none()).len() < LABELS.len(), "{statements}");
    }
}

/// Rows that come before a malformed row could otherwise be used until a load succeeds.
#[test]
fn the_rows_of_a_failed_load_are_not_used() {
    let (client, session) = one_user();
    let (_, key) = pair(&client, session, Kind::P256, &none().stored());
    let attacker = connect(&client);
    attacker
        .execute_batch(
            "CREATE TEMP TABLE rows AS SELECT * FROM object;
             CREATE TEMP TABLE bodies AS SELECT * FROM record",
        )
        .expect("a copy");
    client.destroy_object(session, key).expect("a key");
    attacker
        .execute_batch(
            "REPLACE INTO object SELECT * FROM rows; REPLACE INTO record SELECT * FROM bodies;
             INSERT INTO object VALUES(9223372036854775807, 1, x'00', x'');
             UPDATE token SET change = change + 1",
        )
        .expect("the rows of the destroyed key, and a malformed row");
    // The next use of a key is the first one that looks for changes.
    std::thread::sleep(Duration::from_millis(1100));
    for handle in (key.0..key.0 + 8).map(ObjectHandle) {
        assert!(client.sign_init(session, &plain(M::ECDSA), handle).is_err(), "{}", handle.0);
    }
    assert!(client.find_init(session, &none().template()).is_err());
}

#[test]
fn an_altered_summary_is_not_overwritten() {
    let (client, session) = one_user();
    stored(&client, session, &["one"]);
    tamper(&client, "UPDATE token SET summary = x'00'");
    assert_eq!(client.create(session, &data("two").stored()), Err(Error::DeviceError));
    let rows: i64 =
        connect(&client).query_row("SELECT count(*) FROM object", [], |row| row.get(0)).expect("a count");
    assert_eq!(rows, 1);
}

#[test]
fn a_counter_refuses_an_older_copy_of_the_file() {
    let (directory, counters) = with_counters();
    let configuration = counters.for_counters();
    let path = directory.file("jeton");
    let counted = |label: &str| {
        let client = Client::beside(&directory, DEFAULT, &configuration);
        let session = client.user();
        stored(&client, session, &[label]);
        client.finalize().expect("a module");
    };
    counted("one");
    let copy = std::fs::read(&path).expect("the token file");
    counted("two");
    assert_eq!(seen(&directory, DEFAULT), ["one", "two"]);
    std::fs::write(&path, copy).expect("the token file");
    // Without the counter an older copy is accepted.
    assert_eq!(seen(&directory, DEFAULT), ["one"]);
    let client = Client::beside(&directory, DEFAULT, &configuration);
    assert_eq!(client.module.login(client.open(), User::User, PIN), Err(Error::DeviceError));
}

#[test]
fn a_counter_without_its_directory_refuses_the_login_and_the_change() {
    let (directory, counters) = with_counters();
    let client = Client::beside(&directory, DEFAULT, &counters.for_counters());
    let session = client.user();
    stored(&client, session, &["one"]);
    let away = directory.path().join("away");
    std::fs::rename(counters.path(), &away).expect("the counters' directory");
    assert_eq!(client.create(session, &data("two").stored()), Err(Error::DeviceError));
    client.finalize().expect("a module");
    let client = Client::beside(&directory, DEFAULT, &counters.for_counters());
    assert_eq!(client.module.login(client.open(), User::User, PIN), Err(Error::DeviceError));
    std::fs::rename(&away, counters.path()).expect("the counters' directory");
    client.user();
}

#[test]
fn a_counter_refuses_a_copy_with_an_older_pin() {
    let (directory, counters) = with_counters();
    let configuration = counters.for_counters();
    let path = directory.file("jeton");
    let copy = std::fs::read(&path).expect("the token file");
    let client = Client::beside(&directory, DEFAULT, &configuration);
    let session = client.open();
    client.set_pin(session, PIN, b"a newer one").expect("a PIN");
    client.finalize().expect("a module");
    std::fs::write(&path, copy).expect("the token file");
    let client = Client::beside(&directory, DEFAULT, &configuration);
    assert_eq!(client.module.login(client.open(), User::User, PIN), Err(Error::DeviceError));
}

/// Returns a directory with a token that no module has open, and one for its counters.
fn with_counters() -> (Arc<Directory>, Arc<Directory>) {
    let client = Client::new(DEFAULT);
    client.finalize().expect("a module");
    (Arc::clone(&client.directory), Directory::new())
}

/// Returns the number in the only counter of a directory.
fn counted(counters: &Directory) -> i64 {
    std::fs::read_to_string(counters.file("counter")).expect("a counter").parse().expect("a number")
}

/// Stores an object, copies the file, and stores more objects. Returns the object and the copy.
fn changed_since(client: &Client, session: SessionHandle) -> (ObjectHandle, PathBuf) {
    let older = client.directory.path().join("older");
    let object = stored(client, session, &["one"])[0];
    connect(client).execute("VACUUM INTO ?1", [older.to_str()]).expect("a copy");
    stored(client, session, &["two", "three"]);
    (object, older)
}

/// As the attacker, replaces the data in the file of a token in use by that of an earlier copy.
fn roll_back(client: &Client, copy: &Path) {
    let copy = copy.display();
    let text = format!(
        "ATTACH '{copy}' AS older; BEGIN;
         DELETE FROM main.object; INSERT INTO main.object SELECT * FROM older.object;
         DELETE FROM main.record; INSERT INTO main.record SELECT * FROM older.record;
         UPDATE main.token SET (so_pin, user_pin, change, summary) =
             (SELECT so_pin, user_pin, change, summary FROM older.token); COMMIT"
    );
    tamper(client, &text);
}

/// A call in a session of the user, with an object in the store.
type Attempt = fn(&Client, SessionHandle, ObjectHandle) -> Result<(), Error>;

/// Calls that write to the store, read it or try a PIN.
const ATTEMPTS: [(&str, Attempt); 8] = [
    ("create", |client, session, _| client.create(session, &data("new").stored()).map(drop)),
    ("copy", |client, session, object| client.copy(session, object, &none().label("a copy")).map(drop)),
    ("generate", |client, session, _| {
        let pair = none().stored();
        let public = Kind::P256.request().and(&pair);
        client.generate(session, Kind::P256.generator(), &public, &pair).map(drop)
    }),
    ("set", |client, session, object| client.set(session, object, &none().label("new"))),
    ("destroy", |client, session, object| client.destroy_object(session, object)),
    ("find", |client, session, _| client.find_init(session, &none().template())),
    ("set PIN", |client, session, _| client.set_pin(session, PIN, b"a new one")),
    ("login", |client, session, _| {
        client.logout(session).expect("the user");
        client.module.login(session, User::User, PIN)
    }),
];

#[test]
fn a_rollback_during_a_login_fails_every_call_and_keeps_the_counter() {
    for (name, attempt) in ATTEMPTS {
        let (directory, counters) = with_counters();
        let client = Client::beside(&directory, DEFAULT, &counters.for_counters());
        let session = client.user();
        let (object, older) = changed_since(&client, session);
        let before = counted(&counters);
        roll_back(&client, &older);

        let refused = attempt(&client, session, object).expect_err(name);
        assert!([Error::DeviceRemoved, Error::DeviceError].contains(&refused), "{name}: {refused:?}");
        assert!(counted(&counters) >= before, "{name} lowered the counter");
        // The login ends, and no other login succeeds, here or in another process.
        assert_eq!(client.find_init(session, &none().template()), Err(Error::DeviceRemoved), "{name}");
        assert_eq!(client.module.login(session, User::User, PIN), Err(Error::DeviceError), "{name}");
        let other = Client::beside(&directory, DEFAULT, &counters.for_counters());
        assert_eq!(other.module.login(other.open(), User::User, PIN), Err(Error::DeviceError), "{name}");
        assert!(counted(&counters) >= before, "{name} lowered the counter");
    }
}

#[test]
fn a_running_process_notices_a_rollback_without_a_counter() {
    for (name, attempt) in ATTEMPTS {
        let (client, session) = one_user();
        let (object, older) = changed_since(&client, session);
        roll_back(&client, &older);
        assert_eq!(attempt(&client, session, object), Err(Error::DeviceRemoved), "{name}");
        assert_eq!(client.module.login(session, User::User, PIN), Err(Error::DeviceRemoved), "{name}");
        // A process that starts now has seen no later state, so it accepts the older one.
        assert_eq!(seen(&client.directory, DEFAULT), ["one"], "{name}");
    }
}

#[test]
fn older_files_during_a_login_are_repaired_or_refused_and_keep_the_counter() {
    let (client, counters) = (Client::new(DEFAULT), Directory::new());
    let client = Client::beside(&client.directory, DEFAULT, &counters.for_counters());
    let session = client.user();
    let path = client.directory.file("jeton");
    let journal = path.with_extension("jeton-wal");
    stored(&client, session, &["one"]);
    let copies = [&path, &journal].map(|path| (path, std::fs::read(path).expect("a file")));
    stored(&client, session, &["two", "three"]);
    let before = counted(&counters);
    copies.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).expect("a file"));
    // SQLite continues with the pages in memory. Writing them may even repair the file.
    let written = client.create(session, &data("new").stored()).is_ok();
    assert!(counted(&counters) >= before);
    client.finalize().expect("a module");
    let other = Client::beside(&client.directory, DEFAULT, &counters.for_counters());
    let session = other.open_session(other.slot, Access::ReadWrite);
    let accepted = session.and_then(|session| other.module.login(session, User::User, PIN)).is_ok();
    assert!(counted(&counters) >= before);
    if accepted {
        other.finalize().expect("a module");
        assert!(written);
        assert_eq!(seen(&client.directory, DEFAULT), ["new", "one", "three", "two"]);
    }
}

#[test]
fn a_counter_keeps_the_later_of_two_states() {
    let directory = Directory::new();
    let counter = Counter::of(directory.path(), "0123456789abcdef");
    for (noted, kept) in [(7, 7), (4, 7), (8, 8), (8, 8), (1, 8)] {
        counter.note(Change(noted)).expect("a counter");
        assert_eq!(counter.read(), Ok(Change(kept)));
    }
    // The threads record their states in any order, as several processes do.
    std::thread::scope(|scope| {
        for first in 0..8 {
            let counter = &counter;
            scope.spawn(move || {
                (0..50).for_each(|turn| counter.note(Change(100 + turn * 8 + first)).expect("a counter"));
            });
        }
    });
    assert_eq!(counter.read(), Ok(Change(100 + 49 * 8 + 7)));
}

/// The results for an object: its label, the values of other attributes, and whether it signs.
type Results = (Vec<u8>, Vec<u8>, bool);

/// Returns all results that a user gets for the objects.
fn results(module: &Functions) -> Result<Vec<Results>, Error> {
    let slot = module.slots()?[0];
    let session = module.open_session(slot, Access::ReadWrite)?;
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
        let key = [A::CLASS, A::KEY_TYPE, A::ID, A::VALUE, A::EC_POINT, A::EC_PARAMS];
        let values = key.into_iter().chain([A::SENSITIVE, A::EXTRACTABLE, A::SIGN]).flat_map(bytes).collect();
        let signs = module.sign_init(session, &plain(M::ECDSA_SHA256), *handle).is_ok();
        all.push((bytes(A::LABEL), values, signs));
    }
    all.sort();
    Ok(all)
}

/// The files of a token: the name's suffix and the content of each.
type Files = Vec<(&'static str, Vec<u8>)>;

/// Returns a client with a token of three objects, and the files that a killed process leaves: only
/// `-wal` has the newest data.
fn killed() -> (Client, Files) {
    let (client, session) = one_user();
    stored(&client, session, &["private"]);
    client.finalize().expect("a module");
    let client = Client::beside(&client.directory, DEFAULT, "");
    let session = client.user();
    pair(&client, session, Kind::P256, &none().stored().label("pair"));
    let path = client.directory.file("jeton");
    let read = |suffix| (suffix, std::fs::read(beside(&path, suffix)).expect("a file of the token"));
    let files = ["", "-wal", "-shm"].map(read).to_vec();
    client.finalize().expect("a module");
    (client, files)
}

fn restore(path: &Path, files: &Files) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(beside(path, suffix));
    }
    for (suffix, content) in files {
        std::fs::write(beside(path, suffix), content).expect("a file of the token");
    }
}

/// The approximate number of flips in each file that CI tries, spread over the file.
const FLIPS: usize = 60;
/// The number of bytes in the header of the index ("WAL-mode File Format", 2.1) and a few bytes
/// after it.
const INDEX_HEAD: usize = 168;
/// The lowest bit, one in the middle, and all bits.
const MASKS: [u8; 3] = [0x01, 0x10, 0xff];

/// Returns the offsets of the bytes that are changed, each with the bits to flip.
/// `JETON_FLIP_STRIDE=1` tries every byte, which takes minutes:
///
/// ```text
/// JETON_FLIP_STRIDE=1 cargo test --release -p jeton --test token -- flipped --nocapture
/// ```
fn places(len: usize) -> impl Iterator<Item = (usize, u8)> {
    let stride = std::env::var("JETON_FLIP_STRIDE").ok().map(|text| text.parse().expect("a number"));
    // The stride is odd, so that the flips hit different offsets in pages and records.
    let stride = stride.unwrap_or((len / FLIPS) | 1);
    (0..len).step_by(stride).enumerate().flat_map(move |(count, at)| {
        let some = if stride == 1 { &MASKS[..] } else { &MASKS[count % MASKS.len()..][..1] };
        some.iter().map(move |mask| (at, *mask))
    })
}

#[derive(Debug, Default)]
struct Tally {
    same: usize,
    fewer: usize,
    refused: usize,
}

impl Tally {
    fn count(&mut self, told: Result<Vec<Results>, Error>, truth: &[Results], what: &str) {
        match told {
            Ok(all) if all == truth => self.same += 1,
            Ok(all) => {
                assert!(all.iter().all(|object| truth.contains(object)), "{what}");
                self.fewer += 1;
            }
            Err(_) => self.refused += 1,
        }
    }
}

#[test]
fn a_flipped_byte_never_changes_a_result() {
    let (client, files) = killed();
    let path = client.directory.file("jeton");
    let parameters = client.directory.parameters(DEFAULT, "");
    let open = || {
        let module = Functions::new();
        module.initialize(Some(&parameters)).expect("a module");
        let outcome = results(&module);
        module.finalize().expect("a module");
        outcome
    };
    // The module opens the files of the killed process. `C_Finalize` leaves a single file, which is
    // the second state below.
    restore(&path, &files);
    let truth = open().expect("a sound token");
    assert_eq!(truth.len(), 3);
    let closed = vec![("", std::fs::read(&path).expect("the token file"))];
    for (state, files) in [("killed", files), ("closed", closed)] {
        for (number, (suffix, content)) in files.iter().enumerate() {
            let mut tally = Tally::default();
            for (at, mask) in places(content.len()) {
                let mut altered = files.clone();
                altered[number].1[at] ^= mask;
                restore(&path, &altered);
                tally.count(open(), &truth, &format!("{state}, file {suffix:?}, byte {at}, mask {mask:#x}"));
            }
            println!("{state}, file {suffix:?}, {} bytes: {tally:?}", content.len());
            // The first process that opens the token creates `-shm` again.
            assert!(*suffix == "-shm" || tally.fewer + tally.refused > 0, "{suffix:?}");
        }
    }
}

/// The index of the log is shared memory: if one process flips a byte, all processes read it.
#[test]
fn a_flipped_byte_of_an_index_in_use_never_changes_a_result() {
    let (client, files) = killed();
    let path = client.directory.file("jeton");
    let parameters = client.directory.parameters(DEFAULT, "");
    restore(&path, &files);
    let len = files[2].1.len();
    let mut tally = Tally::default();
    let mut truth = None;
    // All bytes of the index header and of the first page entries.
    let head = (0..INDEX_HEAD).map(|at| (at, MASKS[at % MASKS.len()]));
    // The first flip has mask 0 and changes nothing, as a reference.
    for (at, mask) in [(0, 0)].into_iter().chain(head).chain(places(len)) {
        restore(&path, &files);
        let holder = Client::beside(&client.directory, DEFAULT, "");
        holder.user();
        let index = std::fs::File::options().read(true).write(true).open(beside(&path, "-shm"));
        let index = index.expect("the index");
        let mut byte = [0];
        index.read_exact_at(&mut byte, at as u64).expect("a byte");
        index.write_all_at(&[byte[0] ^ mask], at as u64).expect("a byte");
        let module = Functions::new();
        module.initialize(Some(&parameters)).expect("a module");
        let outcome = results(&module);
        let truth = truth.get_or_insert_with(|| outcome.clone().expect("a sound token"));
        tally.count(outcome, truth, &format!("index, byte {at}, mask {mask:#x}"));
        let _ = (module.finalize(), holder.finalize());
    }
    println!("index in use, {len} bytes: {tally:?}");
}
