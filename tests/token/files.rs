//! The files of a token directory: copies and links of a token file, other files, permissions, and
//! files that are removed while a process has them open.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::mpsc::sync_channel;

use jeton::id::token_flag;
use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::prelude::*;

pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub fn tokens(module: &Module) -> Vec<SlotId> {
    let has_token =
        |slot: &SlotId| module.token(*slot).expect("a slot").flags & token_flag::TOKEN_INITIALIZED != 0;
    module.slots().expect("slots").into_iter().filter(has_token).collect()
}

#[test]
fn a_copy_or_link_of_a_token_file_is_not_a_token() {
    type Plant = fn(&Path, &Path);
    let plants: [Plant; 4] = [
        |path, other| assert_ne!(fs::copy(path, other).expect("a copy"), 0),
        |path, other| fs::rename(path, other).expect("another name"),
        |path, other| fs::hard_link(path, other).expect("a link"),
        |path, other| symlink(path, other).expect("a link"),
    ];
    for name in ["backup.jeton", "0000000000000000.jeton"] {
        for plant in plants {
            let client = Client::new(DEFAULT);
            client.user();
            let path = client.directory.file("jeton");
            plant(&path, &client.directory.path().join(name));
            let slots = client.slots().expect("slots");
            let open = client.directory.descriptors();
            for _ in 0..1500 {
                assert_eq!(client.slots().expect("slots"), slots);
            }
            assert_eq!(slots.len(), 2, "the token's slot and the free one");
            assert_eq!(client.directory.descriptors(), open);
        }
    }
}

#[test]
fn only_the_file_named_after_its_serial_number_is_the_token() {
    let client = Client::new(DEFAULT);
    let path = client.directory.file("jeton");
    client.finalize().expect("a module");
    let copy = client.directory.path().join("0 an older copy.jeton");
    fs::copy(&path, &copy).expect("a copy");
    let client = Client::beside(&client.directory, DEFAULT, "");
    let session = client.user();
    client.create(session, &data("new").stored()).expect("data");
    client.finalize().expect("a module");
    assert_eq!(tokens(&Client::beside(&client.directory, DEFAULT, "").module).len(), 1);
    let rows = |path: &Path| -> i64 {
        let connection = Connection::open(path).expect("a file");
        connection.query_row("SELECT count(*) FROM object", [], |row| row.get(0)).expect("a count")
    };
    assert_eq!(rows(&path), 1);
    assert_eq!(rows(&copy), 0);
}

#[test]
fn a_renamed_token_file_is_a_token_at_the_next_start() {
    let client = Client::new(DEFAULT);
    client.finalize().expect("a module");
    let path = client.directory.file("jeton");
    fs::rename(&path, client.directory.path().join("ca.jeton")).expect("another name");
    let client = Client::beside(&client.directory, DEFAULT, "");
    let session = client.user();
    client.create(session, &data("new").stored()).expect("data");
    assert_eq!(tokens(&client.module), [client.slot]);
}

/// Ways to remove or replace the main file of a token.
pub const HARMS: [fn(&Path); 3] = [
    |path| fs::remove_file(path).expect("a file"),
    |path| fs::rename(path, path.with_file_name("ca.jeton")).expect("another name"),
    |path| {
        fs::copy(path, path.with_extension("other")).expect("a copy");
        fs::rename(path.with_extension("other"), path).expect("another file");
    },
];

#[test]
fn a_change_of_a_removed_or_renamed_file_is_not_acknowledged() {
    let harms: [fn(&Path); 3] = [
        |path| {
            for suffix in ["", "-wal", "-shm"] {
                fs::remove_file(beside(path, suffix)).expect("a file");
            }
        },
        |path| fs::remove_file(beside(path, "-wal")).expect("a file"),
        |path| fs::remove_file(beside(path, "-shm")).expect("a file"),
    ];
    for harm in HARMS.into_iter().chain(harms) {
        let (client, session) = one_user();
        let object = client.create(session, &data("before").stored()).expect("data");
        harm(&client.directory.file("jeton"));
        let removed = Err(Error::DeviceRemoved);
        assert_eq!(client.create(session, &data("after").stored()).map(drop), removed);
        assert_eq!(client.set(session, object, &none().label("after")), removed);
        assert_eq!(client.destroy_object(session, object), removed);
    }
}

#[test]
fn other_files_are_ignored() {
    let client = Client::new(DEFAULT);
    let path = client.directory.path().join("other");
    fs::write(path.with_file_name("text.jeton"), "no token").expect("a file");
    fs::write(path.with_file_name("empty.jeton"), "").expect("a file");
    fs::create_dir(path.with_file_name("directory.jeton")).expect("a directory");
    let other = Connection::open(path.with_file_name("other.jeton")).expect("a file");
    other.execute_batch("CREATE TABLE other(a)").expect("a table");
    assert_eq!(tokens(&client.module), [client.slot]);
    assert_eq!(tokens(&Client::beside(&client.directory, DEFAULT, "").module).len(), 1);
}

#[test]
fn a_world_writable_file_or_directory_is_refused() {
    let client = Client::new(DEFAULT);
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let path = client.directory.file("jeton");
    client.finalize().expect("a module");
    mode(&path, 0o602);
    assert_eq!(tokens(&Client::beside(&client.directory, DEFAULT, "").module), []);
    mode(&path, 0o660);
    assert_eq!(tokens(&Client::beside(&client.directory, DEFAULT, "").module).len(), 1);
    let start = || Module::new().initialize(Some(&client.directory.parameters(DEFAULT, "")));
    for (directory, allowed) in [(0o777, false), (0o702, false), (0o1777, false), (0o770, true)] {
        mode(client.directory.path(), directory);
        assert_eq!(start().is_ok(), allowed, "{directory:o}");
    }
}

#[test]
fn a_world_writable_directory_of_counters_is_refused() {
    for mode in [0o777, 0o1777] {
        let (directory, counters) = (Directory::new(), Directory::new());
        let more = counters.for_counters();
        Client::initialise(&directory, DEFAULT, &more).finalize().expect("a module");
        assert_eq!(start_and_store(&directory, &more), Ok(()));
        fs::set_permissions(counters.path(), fs::Permissions::from_mode(mode)).expect("a mode");
        assert_eq!(start_and_store(&directory, &more), Err(Error::DeviceError), "{mode:o}");
    }
}

#[test]
fn a_directory_below_a_world_writable_one_is_refused() {
    let (outer, elsewhere) = (Directory::new(), Directory::new());
    let inner = |name: &str| {
        fs::create_dir(outer.path().join(name)).expect("a directory");
        Directory::lent(&outer.path().join(name))
    };
    let (tokens, counters) = (inner("tokens"), inner("counters"));
    Client::initialise(&tokens, DEFAULT, "").finalize().expect("a module");
    let more = counters.for_counters();
    Client::initialise(&elsewhere, DEFAULT, &more).finalize().expect("a module");
    let link = outer.path().join("link");
    symlink(tokens.path(), &link).expect("a link");
    for (mode, allowed) in [(0o777, false), (0o1777, true), (0o775, true)] {
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(mode)).expect("a mode");
        for directory in [tokens.path(), &link] {
            let parameters = Directory::lent(directory).parameters(DEFAULT, "");
            assert_eq!(Module::new().initialize(Some(&parameters)).is_ok(), allowed, "{mode:o}");
        }
        let stored = start_and_store(&elsewhere, &more);
        assert_eq!(stored, if allowed { Ok(()) } else { Err(Error::DeviceError) }, "{mode:o}");
    }
}

#[test]
fn only_the_owner_can_read_a_counter_file() {
    let counters = Directory::new();
    let client = Client::with(DEFAULT, &counters.for_counters());
    let session = client.user();
    client.create(session, &data("one").stored()).expect("data");
    let mut count = 0;
    for entry in fs::read_dir(counters.path()).expect("the directory") {
        let data = entry.expect("a file").metadata().expect("a file");
        assert_eq!(data.permissions().mode() & 0o777, 0o600);
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn files_of_a_shared_directory_are_open_to_its_group() {
    const SHARED: u32 = 0o2770;
    // Only the directories of the first case are both setgid and writable by their group.
    for (directory_mode, file_mode) in [(SHARED, 0o660), (0o770, 0o600), (0o2750, 0o600)] {
        let (directory, counters) = (Directory::new(), Directory::new());
        for shared in [&directory, &counters] {
            let mode = fs::Permissions::from_mode(directory_mode);
            fs::set_permissions(shared.path(), mode).expect("a mode");
        }
        let client = Client::initialise(&directory, DEFAULT, &counters.for_counters());
        let session = client.user();
        client.create(session, &data("one").stored()).expect("data");
        let modes = |directory: &Directory| -> Vec<(String, u32)> {
            let mode = |file: PathBuf| {
                let mode = file.metadata().expect("a file").permissions().mode() & 0o777;
                (file.display().to_string(), mode)
            };
            files_below(directory.path()).into_iter().map(mode).collect()
        };
        let (tokens, counters) = (modes(&client.directory), modes(&counters));
        // Four files: the token, its log, its index and its lock. Two files: the counter and
        // its lock.
        assert_eq!((tokens.len(), counters.len()), (4, 2), "{tokens:?} {counters:?}");
        for (name, mode) in tokens.iter().chain(&counters) {
            assert_eq!(*mode, file_mode, "{name} in a directory of mode {directory_mode:o}");
        }
    }
}

const PRECIOUS: &str = "another user's";

/// Puts something under a name: a link to another user's file, a link to nothing, a second name of
/// that file, or a FIFO.
const PLANTS: [fn(&Path, &Path); 4] = [
    |name, other| symlink(other, name).expect("a link"),
    |name, other| symlink(other.with_file_name("missing"), name).expect("a link"),
    |name, other| fs::hard_link(other, name).expect("a link"),
    |name, _| mknodat(CWD, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO"),
];

/// Plants each file under this name. Checks that `work` ends, and that it neither writes another
/// user's file nor creates one. Returns the results.
fn with_plants<T: Send + 'static>(name: &Path, work: impl Fn() -> T + Send + Sync + 'static) -> Vec<T> {
    let others = Directory::new();
    let other = others.path().join("other");
    fs::write(&other, PRECIOUS).expect("a file");
    let work = Arc::new(work);
    let try_plant = |plant: &fn(&Path, &Path)| {
        let _ = fs::remove_file(name);
        plant(name, &other);
        let (sender, receiver) = sync_channel(1);
        let work = Arc::clone(&work);
        std::thread::spawn(move || sender.send(work()));
        let done = receiver.recv_timeout(Duration::from_secs(60)).expect("an end");
        assert_eq!(fs::read_to_string(&other).expect("a file"), PRECIOUS);
        assert_eq!(fs::read_dir(others.path()).expect("the directory").count(), 1);
        done
    };
    let results = PLANTS.iter().map(try_plant).collect();
    let _ = fs::remove_file(name);
    results
}

/// Starts another module, logs the user in and stores an object.
fn start_and_store(directory: &Arc<Directory>, more: &str) -> Result<(), Error> {
    let client = Client::beside(directory, DEFAULT, more);
    let session = client.open_session(client.slot, Access::ReadWrite)?;
    client.module.login(session, User::User, PIN)?;
    client.create(session, &data("new").stored()).map(drop)
}

/// A member of a group that shares the directory plants the file.
#[test]
fn a_planted_file_of_a_token_is_neither_written_nor_waited_for() {
    let client = Client::new(DEFAULT);
    client.finalize().expect("a module");
    let (directory, token) = (Arc::clone(&client.directory), client.directory.file("jeton"));
    for suffix in ["-lock", "-wal", "-shm"] {
        let shared = Arc::clone(&directory);
        let results = with_plants(&beside(&token, suffix), move || start_and_store(&shared, ""));
        assert!(results.iter().all(Result::is_err), "{suffix}: {results:?}");
        start_and_store(&directory, "").expect("a token without the planted file");
    }
    fs::rename(&token, directory.path().join("aside")).expect("another name");
    let shared = Arc::clone(&directory);
    let results = with_plants(&token, move || start_and_store(&shared, ""));
    assert!(results.iter().all(Result::is_err), "{results:?}");
}

#[test]
fn a_planted_file_of_a_counter_is_neither_written_nor_waited_for() {
    let (directory, counters) = (Directory::new(), Directory::new());
    let more = counters.for_counters();
    Client::initialise(&directory, DEFAULT, &more).finalize().expect("a module");
    start_and_store(&directory, &more).expect("a counter");
    let serial = directory.file("jeton").file_stem().expect("a name").to_owned();
    let counter = counters.path().join(serial).with_extension("counter");
    let number = fs::read(&counter).expect("the counter");
    // The new file is replaced. A change that is on disk does not fail because of the lock; the
    // log says that it was not counted.
    for (extension, works) in [("counter-new", true), ("counter-lock", true), ("counter", false)] {
        let (shared, more) = (Arc::clone(&directory), more.clone());
        let name = counter.with_extension(extension);
        let results = with_plants(&name, move || start_and_store(&shared, &more));
        assert!(results.iter().all(|result| result.is_ok() == works), "{extension}: {results:?}");
    }
    fs::write(&counter, number).expect("the counter");
    start_and_store(&directory, &more).expect("a counter without planted files");
}

#[test]
fn a_planted_log_is_neither_written_nor_waited_for() {
    let (directory, logs) = (Directory::new(), Directory::new());
    // In a private directory, only the administrator can make a link.
    fs::set_permissions(logs.path(), fs::Permissions::from_mode(0o2770)).expect("a mode");
    for section in ["audit", "log"] {
        let name = logs.path().join(section);
        let more = format!(", {section} = {{ file = '{}' }}", name.display());
        let parameters = directory.parameters(DEFAULT, &more);
        let results = with_plants(&name, move || Module::new().initialize(Some(&parameters)));
        assert!(results.iter().all(Result::is_err), "{section}: {results:?}");
    }
}

fn contents(directory: &Directory) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory.path()).expect("the directory").flatten();
    entries.map(|entry| (entry.path(), fs::read(entry.path()).expect("a file"))).collect()
}

#[test]
fn a_database_of_another_program_is_not_written() {
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name);
    let open = |name: &str, mode: &str| {
        let other = Connection::open(path(name)).expect("a file");
        other.pragma_update(None, "journal_mode", mode).expect("a mode");
        other.execute_batch("CREATE TABLE other(a); INSERT INTO other VALUES(1)").expect("a table");
        other
    };
    drop(open("rollback.jeton", "DELETE"));
    drop(open("closed.jeton", "WAL"));
    // The log has content as after a crash of the program.
    let running = open("running.jeton", "WAL");
    for suffix in ["", "-wal"] {
        let from = beside(&path("running.jeton"), suffix);
        fs::copy(from, beside(&path("killed.jeton"), suffix)).expect("a copy");
    }
    drop(running);
    let before = contents(&directory);
    assert_eq!(before.len(), 5);
    let client = Client::beside(&directory, DEFAULT, "");
    assert_eq!(tokens(&client.module), []);
    client.finalize().expect("a module");
    assert_eq!(contents(&directory).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(contents(&directory) == before);
}

/// An agent ends in this order. A copy of the token's file then has all objects.
#[test]
fn the_last_application_that_ends_leaves_no_log_beside_the_file() {
    let agent = Client::new(DEFAULT);
    let applications: Vec<_> = (0..3).map(|_| agent.join().expect("an application")).collect();
    for module in &applications {
        let session = module.open_session(agent.slot, Access::ReadWrite).expect("a session");
        module.login(session, User::User, PIN).expect("the user");
        module.create_object(session, &data("a").stored().template()).expect("an object");
    }
    agent.finalize().expect("the agent's own module");
    applications.iter().for_each(|module| module.finalize().expect("an application"));
    let logs = files_below(agent.directory.path())
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with("-wal"));
    let left: Vec<_> = logs.map(|log| log.metadata().expect("a file").len()).collect();
    assert!(left.iter().all(|len| *len == 0), "{left:?}");
    // The modules are still there.
    drop(applications);
}
