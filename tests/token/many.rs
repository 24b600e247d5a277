//! Tests of a module that may have fewer token files open than it has tokens. The module closes an
//! idle file, and opens it again when it needs the token. The same rules apply to a token while its
//! file is open and while it is closed.

use std::collections::HashSet;
use std::fs;

use jeton::id::token_flag;
use rusqlite::Connection;

use crate::files::HARMS;
use crate::prelude::*;

/// The largest number of open token files.
const OPEN: usize = 3;
/// The largest number of descriptors for one open token: those of its file, log, index and locks.
const DESCRIPTORS: usize = 8;
/// Longer than a step of the file system's clock. A write after this pause gives the file another
/// time stamp.
const REST: Duration = Duration::from_millis(80);

fn limited() -> String {
    format!(", store = {{ open-tokens = {OPEN} }}")
}

fn with_tokens(provider: &Provider, count: usize) -> (Client, Vec<SlotId>) {
    let client = Client::beside(&Directory::new(), provider, &limited());
    let slots: Vec<_> = (0..count).map(|_| add_token(&client)).collect();
    (client, slots)
}

fn add_token(client: &Client) -> SlotId {
    let slot = *client.slots().expect("slots").last().expect("a free slot");
    client.make_token(slot, PIN);
    slot
}

fn user_of(client: &Client, slot: SlotId) -> SessionHandle {
    let session = client.open_session(slot, Access::ReadWrite).expect("a session");
    client.login(session);
    session
}

fn path_of(client: &Client, slot: SlotId) -> PathBuf {
    let serial = client.token(slot).expect("a token").serial;
    client.directory.path().join(&serial).join(&serial).with_extension("jeton")
}

fn is_open(path: &Path) -> bool {
    let links = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    links.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| target == path)
}

/// Logs in to each token in `others` except `slot`, so that the module closes the file of `slot`.
fn close_file(client: &Client, slot: SlotId, others: &[SlotId]) {
    std::thread::sleep(REST);
    let path = path_of(client, slot);
    for other in others.iter().filter(|other| **other != slot) {
        let session = user_of(client, *other);
        client.close_session(session).expect("a session");
    }
    assert!(!is_open(&path), "the file is open");
}

/// A token whose file is closed while the user is logged in, and a key of this token.
struct Scene {
    client: Client,
    slots: Vec<SlotId>,
    session: SessionHandle,
    key: ObjectHandle,
    path: PathBuf,
}

impl Scene {
    fn new(provider: &Provider) -> Self {
        let (client, slots) = with_tokens(provider, OPEN + 2);
        let session = user_of(&client, slots[0]);
        let (_, key) = pair(&client, session, Kind::P256, &none().stored().label("key"));
        let path = path_of(&client, slots[0]);
        let scene = Self { client, slots, session, key, path };
        scene.close();
        scene
    }

    /// Closes the file of the first token, searches, and closes the file again. The first search
    /// after a write opens the file. Later searches leave it closed.
    fn close(&self) {
        close_file(&self.client, self.slots[0], &self.slots);
        self.client.find(self.session, &none());
        close_file(&self.client, self.slots[0], &self.slots);
    }

    fn other(&self, provider: &Provider) -> (Client, SessionHandle) {
        let other = Client::beside(&self.client.directory, provider, "");
        let session = user_of(&other, self.slots[0]);
        (other, session)
    }

    fn sign(&self) -> Result<Vec<u8>, Error> {
        self.client.sign(self.session, &plain(M::ECDSA_SHA256), self.key, b"data")
    }
}

#[test]
fn open_files_stay_within_the_limit() {
    let (client, slots) = with_tokens(DEFAULT, 4 * OPEN);
    assert!(client.directory.descriptors() <= OPEN * DESCRIPTORS);
    let sessions: Vec<_> = slots.iter().map(|slot| user_of(&client, *slot)).collect();
    for _ in 0..3 {
        for session in &sessions {
            client.create(*session, &data("an object").stored()).expect("an object");
            assert!(client.directory.descriptors() <= OPEN * DESCRIPTORS);
        }
    }
    let other = Client::beside(&client.directory, DEFAULT, &limited());
    for (slot, session) in slots.iter().zip(sessions) {
        assert_eq!(client.find(session, &data("an object")).len(), 3);
        assert_eq!(other.find(user_of(&other, *slot), &data("an object")).len(), 3);
    }
}

#[test]
fn no_file_is_open_before_a_token_is_used() {
    let (client, slots) = with_tokens(DEFAULT, OPEN);
    client.finalize().expect("a module");
    std::thread::sleep(REST);
    let client = Client::beside(&client.directory, DEFAULT, "");
    assert_eq!(client.slots().expect("slots").len(), slots.len() + 1);
    for slot in slots {
        let info = client.token(slot).expect("a token");
        assert_eq!(info.label, *LABEL);
        let set = token_flag::TOKEN_INITIALIZED | token_flag::USER_PIN_INITIALIZED;
        assert_eq!(info.flags & (set | token_flag::WRITE_PROTECTED), set);
    }
    assert_eq!(client.directory.descriptors(), 0);
}

#[test]
fn the_information_of_an_unused_token_shows_changes_by_other_processes() {
    let (client, slots) = with_tokens(DEFAULT, 1);
    client.finalize().expect("a module");
    std::thread::sleep(REST);
    let reader = Client::beside(&client.directory, DEFAULT, "");
    let writer = Client::beside(&client.directory, DEFAULT, "");
    assert_eq!(reader.flags() & token_flag::USER_PIN_COUNT_LOW, 0);
    let session = writer.open();
    for _ in 0..20 {
        assert_eq!(writer.module.login(session, User::User, b"wrong"), Err(Error::PinIncorrect));
        assert_ne!(reader.flags() & token_flag::USER_PIN_COUNT_LOW, 0);
        writer.login(session);
        assert_eq!(reader.flags() & token_flag::USER_PIN_COUNT_LOW, 0);
        writer.logout(session).expect("a login");
    }
    writer.close_session(session).expect("a session");
    let label = b"another label                   ";
    writer.init_token(slots[0], SO_PIN, label).expect("a token");
    assert_eq!(reader.token(slots[0]).expect("a token").label, *label);
}

#[test]
fn new_tokens_of_another_process_are_in_the_next_slot_list() {
    let (client, _) = with_tokens(DEFAULT, 1);
    let other = Client::beside(&client.directory, DEFAULT, "");
    for _ in 0..30 {
        add_token(&client);
        let ours: HashSet<_> = client.slots().expect("slots").into_iter().collect();
        let theirs: HashSet<_> = other.slots().expect("slots").into_iter().collect();
        assert_eq!(ours, theirs);
    }
}

#[test]
fn keys_work_while_their_file_is_closed() {
    let scene = Scene::new(DEFAULT);
    for _ in 0..3 {
        scene.sign().expect("a signature");
        // Longer than the time between two checks for changes.
        std::thread::sleep(Duration::from_millis(1100));
    }
    assert!(!is_open(&scene.path), "an unchanged file is not opened");
}

#[test]
fn a_search_finds_what_another_process_wrote_to_a_closed_file() {
    let scene = Scene::new(DEFAULT);
    let (other, session) = scene.other(DEFAULT);
    for count in 1..=5 {
        other.create(session, &data("new").stored()).expect("an object");
        assert_eq!(scene.client.find(scene.session, &data("new")).len(), count);
        close_file_of_one(&scene);
    }
}

#[test]
fn a_key_that_another_process_destroyed_stops_signing_within_two_seconds() {
    let scene = Scene::new(DEFAULT);
    scene.sign().expect("a signature");
    let (other, session) = scene.other(DEFAULT);
    let key = other.find_one(session, &none().label("key").flag(A::SIGN, true));
    other.destroy_object(session, key).expect("a key");
    jeton_child::until(Duration::from_secs(2), "a destroyed key signs", || scene.sign().is_err());
    assert_eq!(scene.sign(), Err(Error::KeyHandleInvalid));
}

#[test]
fn a_file_that_was_replaced_or_removed_while_closed_ends_the_login() {
    for harm in HARMS {
        let scene = Scene::new(DEFAULT);
        let slots = scene.client.slots().expect("slots");
        harm(&scene.path);
        let template = data("after").stored();
        assert_eq!(scene.client.create(scene.session, &template).map(drop), Err(Error::DeviceRemoved));
        assert_eq!(scene.client.find_init(scene.session, &none().template()), Err(Error::DeviceRemoved));
        assert!(scene.sign().is_err());
        assert_eq!(scene.client.module.login(scene.session, User::User, PIN), Err(Error::DeviceRemoved));
        assert_eq!(scene.client.slots().expect("slots"), slots);
    }
}

#[test]
fn an_older_copy_written_over_a_closed_file_is_refused() {
    let scene = Scene::new(DEFAULT);
    let older = fs::read(&scene.path).expect("a file");
    scene.client.create(scene.session, &data("later").stored()).expect("an object");
    scene.close();
    fs::write(&scene.path, older).expect("an older copy");
    assert_eq!(scene.client.find_init(scene.session, &none().template()), Err(Error::DeviceRemoved));
    assert_eq!(scene.sign(), Err(Error::DeviceRemoved));
    assert_eq!(scene.client.module.login(scene.session, User::User, PIN), Err(Error::DeviceRemoved));
}

#[test]
fn an_older_copy_is_refused_after_the_token_left_memory() {
    let (client, slots) = with_tokens(DEFAULT, OPEN + 2);
    let path = path_of(&client, slots[0]);
    close_file(&client, slots[0], &slots);
    let older = fs::read(&path).expect("a file");
    let session = user_of(&client, slots[0]);
    client.create(session, &data("later").stored()).expect("an object");
    client.close_session(session).expect("a session");
    close_file(&client, slots[0], &slots);
    fs::write(&path, older).expect("an older copy");
    let session = client.open_session(slots[0], Access::ReadWrite).expect("a session");
    assert_eq!(client.module.login(session, User::User, PIN), Err(Error::DeviceRemoved));
}

#[test]
fn rows_altered_in_a_closed_file_are_found_at_the_next_search_and_write() {
    let alter = |path: &Path| {
        let other = Connection::open(path).expect("a file");
        other.execute("UPDATE object SET tag = zeroblob(16)", []).expect("rows");
    };
    let scene = Scene::new(DEFAULT);
    alter(&scene.path);
    assert_eq!(scene.client.find(scene.session, &none().label("key")), []);
    let scene = Scene::new(DEFAULT);
    alter(&scene.path);
    scene.client.create(scene.session, &data("new").stored()).expect("an object");
    assert_eq!(scene.sign(), Err(Error::KeyHandleInvalid));
}

#[test]
fn another_schema_in_a_closed_file_is_refused() {
    let scene = Scene::new(DEFAULT);
    let other = Connection::open(&scene.path).expect("a file");
    other
        .execute_batch("CREATE TRIGGER planted AFTER INSERT ON record BEGIN DELETE FROM record; END")
        .expect("a trigger");
    drop(other);
    assert!(scene.client.create(scene.session, &data("new").stored()).is_err());
    let (client, slots) = (scene.client, scene.slots);
    client.close_session(scene.session).expect("a session");
    for slot in &slots[1..] {
        let session = user_of(&client, *slot);
        client.close_session(session).expect("a session");
    }
    assert!(client.open_session(slots[0], Access::ReadWrite).is_err());
    let started = Client::beside(&client.directory, DEFAULT, "");
    assert_eq!(started.slots().expect("slots").len(), slots.len());
}

#[test]
fn wrong_pins_are_counted_across_closings() {
    let (client, slots) = with_tokens(DEFAULT, OPEN + 2);
    let wrong = |expected| {
        let session = client.open_session(slots[0], Access::ReadWrite).expect("a session");
        assert_eq!(client.module.login(session, User::User, b"wrong"), Err(expected));
        client.close_session(session).expect("a session");
        close_file(&client, slots[0], &slots);
    };
    (0..3).for_each(|_| wrong(Error::PinIncorrect));
    assert_ne!(client.token(slots[0]).expect("a token").flags & token_flag::USER_PIN_LOCKED, 0);
    wrong(Error::PinLocked);
}

#[test]
fn a_handle_names_the_same_token_object_after_the_token_left_memory() {
    let (client, slots) = with_tokens(DEFAULT, OPEN + 2);
    let session = user_of(&client, slots[0]);
    let old = client.create(session, &data("old").stored()).expect("an object");
    client.close_session(session).expect("a session");
    close_file(&client, slots[0], &slots);
    let session = user_of(&client, slots[0]);
    assert_eq!(client.find_one(session, &data("old")), old);
    assert!(client.read(session, old, A::LABEL).is_ok());
}

#[test]
fn threads_use_more_tokens_than_may_be_open() {
    const TOKENS: usize = 4 * OPEN;
    const THREADS: usize = 2 * OPEN;
    let (client, slots) = with_tokens(DEFAULT, TOKENS);
    let sessions: Vec<_> = slots.iter().map(|slot| user_of(&client, *slot)).collect();
    let (client, slots) = (&client, &slots);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..2 * TOKENS {
                    let slot = slots[(thread + round) % TOKENS];
                    let session = client.open_session(slot, Access::ReadWrite).expect("a session");
                    let label = format!("{thread}-{round}");
                    let object = client.create(session, &data(&label).stored()).expect("an object");
                    assert_eq!(client.find(session, &data(&label)), [object]);
                    client.close_session(session).expect("a session");
                }
            });
        }
    });
    let found: usize = sessions.iter().map(|session| client.find(*session, &none()).len()).sum();
    assert_eq!(found, THREADS * 2 * TOKENS);
    assert!(client.directory.descriptors() <= OPEN * DESCRIPTORS);
}

#[test]
fn a_second_module_keeps_its_locks_when_the_first_closes_a_file() {
    let scene = Scene::new(DEFAULT);
    let (other, session) = scene.other(DEFAULT);
    other.create(session, &data("theirs").stored()).expect("an object");
    // The first module opens and closes the file that the second one has open.
    scene.client.create(scene.session, &data("ours").stored()).expect("an object");
    close_file_of_one(&scene);
    // The open connection of the second module still has its lock on the file.
    assert_eq!(locks(&scene.path), ["READ"]);
    other.create(session, &data("theirs").stored()).expect("an object");
    assert_eq!(other.find(session, &data("theirs")).len(), 2);
    assert_eq!(scene.client.find(scene.session, &none().label("theirs")).len(), 2);
}

/// Makes the first module close the file of the first token, by using its other tokens. Unlike
/// [`close_file`], allows a second module to keep this file open.
fn close_file_of_one(scene: &Scene) {
    std::thread::sleep(REST);
    for slot in &scene.slots[1..] {
        let session = user_of(&scene.client, *slot);
        scene.client.close_session(session).expect("a session");
        // C_GetTokenInfo must not release the second module's lock on the file.
        scene.client.token(scene.slots[0]).expect("a token");
    }
}

/// Returns the type of each lock on a token file: `READ` or `WRITE`.
fn locks(path: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let inode = format!(":{}", fs::metadata(path).expect("a file").ino());
    let text = fs::read_to_string("/proc/locks").expect("the locks of the system");
    let ours = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = ours.filter(|words| words.len() > 5 && words[5].ends_with(&inode));
    ours.map(|words| words[3].to_owned()).collect()
}

#[test]
fn an_invalid_number_of_open_tokens_is_refused() {
    let directory = Directory::new();
    for (number, allowed) in [("0", false), ("1", true), ("65536", true), ("65537", false), ("-1", false)] {
        let parameters = directory.parameters(DEFAULT, &format!(", store = {{ open-tokens = {number} }}"));
        assert_eq!(Module::new().initialize(Some(&parameters)).is_ok(), allowed, "{number}");
    }
}

#[test]
fn a_token_with_another_serial_number_in_the_same_file_is_refused() {
    let (client, slots) = with_tokens(DEFAULT, 1);
    client.finalize().expect("a module");
    std::thread::sleep(REST);
    let client = Client::beside(&client.directory, DEFAULT, "");
    let path = path_of(&client, slots[0]);
    let other = Connection::open(&path).expect("a file");
    other.execute("UPDATE token SET serial = '0000000000000000'", []).expect("a row");
    drop(other);
    assert_eq!(client.open_session(slots[0], Access::ReadWrite).map(drop), Err(Error::DeviceRemoved));
}
