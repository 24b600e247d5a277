//! The files of a token directory: copies and links of a token file, other files, permissions, and
//! files that are removed while a process has them open.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use jeton::error::Error;
use jeton::id::{SlotId, token_flag};
use jeton::module::Module;
use rusqlite::Connection;

use crate::support::{Client, Directory, data, none, one_backend, one_user};

/// Returns the path of the token's file.
fn file(directory: &Directory) -> PathBuf {
    let mut files = fs::read_dir(directory.path()).expect("the directory");
    let token = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jeton");
    files.find_map(|entry| Some(entry.expect("an entry").path()).filter(token)).expect("a token file")
}

/// Returns the path with a suffix.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the slots that have a token.
fn tokens(module: &Module) -> Vec<SlotId> {
    let has_token =
        |slot: &SlotId| module.token(*slot).expect("a slot").flags & token_flag::TOKEN_INITIALIZED != 0;
    module.slots().expect("slots").into_iter().filter(has_token).collect()
}

/// Returns the number of descriptors of this process for files of a directory.
fn descriptors(directory: &Directory) -> usize {
    let links = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let targets = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.starts_with(directory.path())).count()
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
            one_backend(|provider| {
                let client = Client::new(provider);
                client.user();
                let path = file(&client.directory);
                plant(&path, &path.with_file_name(name));
                let slots = client.module.slots().expect("slots");
                let open = descriptors(&client.directory);
                for _ in 0..1500 {
                    assert_eq!(client.module.slots().expect("slots"), slots);
                }
                assert_eq!(slots.len(), 2, "the token's slot and the free one");
                assert_eq!(descriptors(&client.directory), open);
            });
        }
    }
}

#[test]
fn only_the_file_named_after_its_serial_number_is_the_token() {
    one_backend(|provider| {
        let client = Client::new(provider);
        let path = file(&client.directory);
        client.module.finalize().expect("a module");
        fs::copy(&path, path.with_file_name("0 an older copy.jeton")).expect("a copy");
        let client = Client::beside(&client.directory, provider, "");
        let session = client.user();
        client.create(session, &data("new").stored()).expect("data");
        client.module.finalize().expect("a module");
        assert_eq!(tokens(&Client::beside(&client.directory, provider, "").module).len(), 1);
        let rows = |path: &Path| -> i64 {
            let connection = Connection::open(path).expect("a file");
            connection.query_row("SELECT count(*) FROM object", [], |row| row.get(0)).expect("a count")
        };
        assert_eq!(rows(&path), 1);
        assert_eq!(rows(&path.with_file_name("0 an older copy.jeton")), 0);
    });
}

#[test]
fn a_renamed_token_file_is_a_token_at_the_next_start() {
    one_backend(|provider| {
        let client = Client::new(provider);
        client.module.finalize().expect("a module");
        let path = file(&client.directory);
        fs::rename(&path, path.with_file_name("ca.jeton")).expect("another name");
        let client = Client::beside(&client.directory, provider, "");
        let session = client.user();
        client.create(session, &data("new").stored()).expect("data");
        assert_eq!(tokens(&client.module), [client.slot]);
    });
}

#[test]
fn a_change_of_a_removed_or_renamed_file_is_not_acknowledged() {
    type Harm = fn(&Path);
    let harms: [Harm; 6] = [
        |path| {
            for suffix in ["", "-wal", "-shm"] {
                fs::remove_file(beside(path, suffix)).expect("a file");
            }
        },
        |path| fs::remove_file(path).expect("a file"),
        |path| fs::remove_file(beside(path, "-wal")).expect("a file"),
        |path| fs::remove_file(beside(path, "-shm")).expect("a file"),
        |path| fs::rename(path, path.with_file_name("ca.jeton")).expect("another name"),
        |path| {
            fs::copy(path, path.with_extension("other")).expect("a copy");
            fs::rename(path.with_extension("other"), path).expect("another file");
        },
    ];
    for harm in harms {
        one_user(|client, session| {
            let object = client.create(session, &data("before").stored()).expect("data");
            harm(&file(&client.directory));
            let removed = Err(Error::DeviceRemoved);
            assert_eq!(client.create(session, &data("after").stored()).map(drop), removed);
            assert_eq!(client.set(session, object, &none().label("after")), removed);
            assert_eq!(client.module.destroy_object(session, object), removed);
        });
    }
}

#[test]
fn other_files_are_ignored() {
    one_backend(|provider| {
        let client = Client::new(provider);
        let path = file(&client.directory);
        fs::write(path.with_file_name("text.jeton"), "no token").expect("a file");
        fs::write(path.with_file_name("empty.jeton"), "").expect("a file");
        fs::create_dir(path.with_file_name("directory.jeton")).expect("a directory");
        let other = Connection::open(path.with_file_name("other.jeton")).expect("a file");
        other.execute_batch("CREATE TABLE other(a)").expect("a table");
        assert_eq!(tokens(&client.module), [client.slot]);
        assert_eq!(tokens(&Client::beside(&client.directory, provider, "").module).len(), 1);
    });
}

#[test]
fn a_world_writable_file_or_directory_is_refused() {
    one_backend(|provider| {
        let client = Client::new(provider);
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        };
        let path = file(&client.directory);
        client.module.finalize().expect("a module");
        mode(&path, 0o602);
        assert_eq!(tokens(&Client::beside(&client.directory, provider, "").module), []);
        mode(&path, 0o660);
        assert_eq!(tokens(&Client::beside(&client.directory, provider, "").module).len(), 1);
        let start = || Module::new().initialize(Some(&client.directory.parameters(provider, "")));
        for (directory, allowed) in [(0o777, false), (0o702, false), (0o1777, true), (0o770, true)] {
            mode(client.directory.path(), directory);
            assert_eq!(start().is_ok(), allowed, "{directory:o}");
        }
    });
}

#[test]
fn only_the_owner_can_read_a_counter_file() {
    one_backend(|provider| {
        let counters = Directory::new();
        let configuration = format!(", store = {{ counter-dir = '{}' }}", counters.path().display());
        let client = Client::with(provider, &configuration);
        let session = client.user();
        client.create(session, &data("one").stored()).expect("data");
        let mut count = 0;
        for entry in fs::read_dir(counters.path()).expect("the directory") {
            let data = entry.expect("a file").metadata().expect("a file");
            assert_eq!(data.permissions().mode() & 0o777, 0o600);
            count += 1;
        }
        assert!(count > 0);
    });
}

#[test]
fn files_of_a_shared_directory_are_open_to_its_group() {
    const SHARED: u32 = 0o2770;
    one_backend(|provider| {
        // Only the directories of the first case are both setgid and writable by their group.
        for (directory_mode, file_mode) in [(SHARED, 0o660), (0o770, 0o600), (0o2750, 0o600)] {
            let (directory, counters) = (Directory::new(), Directory::new());
            for shared in [&directory, &counters] {
                let mode = fs::Permissions::from_mode(directory_mode);
                fs::set_permissions(shared.path(), mode).expect("a mode");
            }
            let store = format!(", store = {{ counter-dir = '{}' }}", counters.path().display());
            let client = Client::initialise(&directory, provider, &store);
            let session = client.user();
            client.create(session, &data("one").stored()).expect("data");
            let modes = |directory: &Directory| -> Vec<(String, u32)> {
                let entries = fs::read_dir(directory.path()).expect("the directory").flatten();
                let mode = |file: fs::DirEntry| {
                    let mode = file.metadata().expect("a file").permissions().mode() & 0o777;
                    (file.file_name().to_string_lossy().into_owned(), mode)
                };
                entries.map(mode).collect()
            };
            let (tokens, counters) = (modes(&client.directory), modes(&counters));
            // Four files: the token, its log, its index and its lock. Two files: the counter and
            // its lock.
            assert_eq!((tokens.len(), counters.len()), (4, 2), "{tokens:?} {counters:?}");
            for (name, mode) in tokens.iter().chain(&counters) {
                assert_eq!(*mode, file_mode, "{name} in a directory of mode {directory_mode:o}");
            }
        }
    });
}
