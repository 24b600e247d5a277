//! The directories of a token directory: each token has one of its own, and a token of an older
//! version is flat.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use jeton::admin::layout::{self, Listed};
use jeton::config::{Seen, Settings};
use jeton::functions::Threads;

use crate::files::{beside, tokens};
use crate::prelude::*;

/// Returns the names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
}

fn own_directory(directory: &Directory) -> PathBuf {
    directory.file("jeton").parent().expect("a directory").to_owned()
}

/// Returns a directory with one token that has an object, and its serial number. No module has it
/// open.
fn one_token() -> (Arc<Directory>, String) {
    let (client, session) = one_user();
    client.create(session, &data("kept").stored()).expect("data");
    let serial = client.token(client.slot).expect("a token").serial;
    client.finalize().expect("a module");
    (Arc::clone(&client.directory), serial)
}

/// Checks that a new module finds one token, logs in and finds its object.
fn opens(directory: &Arc<Directory>) {
    let client = Client::beside(directory, DEFAULT, "");
    assert_eq!(tokens(&client.module), [client.slot]);
    let session = client.user();
    assert_eq!(client.find(session, &none().label("kept")).len(), 1);
    client.create(session, &data("new").stored()).expect("data");
}

fn finds_none(directory: &Arc<Directory>) {
    assert_eq!(tokens(&Client::beside(directory, DEFAULT, "").module), []);
}

fn relocated(directory: &Directory, flat: &Path) -> Result<PathBuf, String> {
    let parameters = directory.parameters(DEFAULT, "");
    layout::give_own_directory(Some(&parameters), flat).map_err(|problem| problem.to_string())
}

#[test]
fn all_files_of_a_new_token_are_in_a_directory_of_its_owner() {
    let (client, session) = one_user();
    client.create(session, &data("one").stored()).expect("data");
    let serial = client.token(client.slot).expect("a token").serial;
    assert_eq!(names(client.directory.path()), [serial.as_str()]);
    let own = client.directory.path().join(&serial);
    assert_eq!(own.metadata().expect("a directory").mode() & 0o7777, 0o700);
    let inside = names(&own);
    assert!(inside.len() == 4 && inside.iter().all(|name| name.starts_with(&serial)), "{inside:?}");
}

#[test]
fn a_flat_token_opens_and_stays_where_it_is() {
    let (directory, serial) = one_token();
    let flat = directory.flatten();
    opens(&directory);
    assert_eq!(directory.file("jeton"), flat);
    assert!(names(directory.path()).iter().all(|name| name.starts_with(&format!("{serial}.jeton"))));
}

#[test]
fn a_link_and_a_directory_of_every_user_are_no_directory_of_a_token() {
    let (directory, _) = one_token();
    let (own, aside) = (own_directory(&directory), Directory::new());
    fs::set_permissions(&own, Permissions::from_mode(0o777)).expect("its owner");
    let waiting = Client::beside(&directory, DEFAULT, "");
    assert_eq!(tokens(&waiting.module), []);
    fs::set_permissions(&own, Permissions::from_mode(0o700)).expect("its owner");
    // A running process looks again.
    assert_eq!(tokens(&waiting.module).len(), 1);
    waiting.finalize().expect("a module");
    let moved = aside.path().join("moved");
    fs::rename(&own, &moved).expect("a directory");
    symlink(&moved, &own).expect("a link");
    finds_none(&directory);
    assert_eq!(layout::list(directory.path()), Ok(vec![]));
    fs::remove_file(&own).expect("a link");
    fs::rename(&moved, &own).expect("a directory");
    opens(&directory);
}

#[test]
fn a_token_in_the_directory_of_another_serial_number_is_left_out() {
    let (directory, _) = one_token();
    let (own, other) = (own_directory(&directory), directory.path().join("0000000000000000"));
    fs::rename(directory.file("jeton"), own.join("0000000000000000.jeton")).expect("another name");
    fs::rename(&own, &other).expect("another name");
    finds_none(&directory);
    // Its name in the token directory says nothing.
    fs::rename(other.join("0000000000000000.jeton"), directory.path().join("ca.jeton"))
        .expect("a flat token");
    opens(&directory);
}

/// `C_InitToken` makes the directory before the file.
#[test]
fn a_running_process_finds_the_file_that_appears_in_an_empty_directory() {
    let (directory, _) = one_token();
    let (file, hidden) = (directory.file("jeton"), directory.path().join("hidden"));
    fs::rename(&file, &hidden).expect("another name");
    std::thread::sleep(Duration::from_millis(100));
    let client = Client::beside(&directory, DEFAULT, "");
    assert_eq!(tokens(&client.module), []);
    fs::hard_link(&hidden, &file).expect("a link");
    fs::remove_file(&hidden).expect("a link");
    assert_eq!(tokens(&client.module).len(), 1);
}

#[test]
fn tokens_are_listed_by_their_headers_and_chosen_by_their_serial_numbers() {
    let directory = Directory::new();
    let client = Client::beside(&directory, DEFAULT, "");
    for _ in 0..3 {
        let free = *client.slots().expect("slots").last().expect("a free one");
        client.make_token(free, PIN);
    }
    client.finalize().expect("a module");
    directory.flatten();
    let mut listed = layout::list(directory.path()).expect("tokens");
    assert_eq!(directory.descriptors(), 0);
    let flat = listed.pop().expect("the flat token is the last one");
    let own = |token: &Listed| token.directory == Some(directory.path().join(&token.serial));
    assert!(listed.len() == 2 && flat.directory.is_none() && listed.iter().all(own), "{listed:?}");
    assert!(listed.iter().all(|token| token.label == "a token of the tests"));

    let parameters = directory.parameters(DEFAULT, "");
    let mut settings = Settings::load(Some(&parameters), Threads::Forbidden).expect("settings");
    // A sandbox forbids to list the directory. For root this mode forbids nothing.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o311)).expect("its owner");
    let unknown = ["0000000000000000", "../0000000000000000", ""].map(str::to_owned);
    let serials = unknown.into_iter().chain([listed[1].serial.clone(), flat.serial]).collect();
    settings.tokens = Some(Seen { serials, ..Seen::default() });
    let module = Functions::new();
    module.initialize_with(settings).expect("a module");
    let [slot] = tokens(&module)[..] else { panic!("{:?}", tokens(&module)) };
    assert_eq!(module.token(slot).expect("a token").serial, listed[1].serial);
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    module.login(session, User::User, PIN).expect("the user");
    module.create_object(session, &data("one").stored().template()).expect("data");
    module.finalize().expect("a module");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).expect("its owner");
}

#[test]
fn a_flat_token_moves_into_its_own_directory_unless_it_is_in_use() {
    let (directory, serial) = one_token();
    let flat = directory.flatten();
    let client = Client::beside(&directory, DEFAULT, "");
    let session = client.user();
    let refused = relocated(&directory, &flat).expect_err("it is in use");
    assert!(refused.contains("another process has the token open"), "{refused}");
    client.create(session, &data("while it is in use").stored()).expect("data");
    client.finalize().expect("a module");
    let moved = relocated(&directory, &flat).expect("a move");
    assert_eq!((names(directory.path()), &moved), (vec![serial], &directory.file("jeton")));
    assert_eq!(moved.parent().expect("a directory").metadata().expect("one").mode() & 0o7777, 0o700);
    opens(&directory);
    assert!(relocated(&directory, &moved).is_err());
}

/// A process that was killed leaves its last changes in the log.
#[test]
fn a_move_takes_the_changes_of_the_log_along() {
    let (client, session) = one_user();
    client.create(session, &data("kept").stored()).expect("data");
    let (from, directory) = (client.directory.file("jeton"), Directory::new());
    let flat = directory.path().join("ca.jeton");
    for suffix in ["", "-wal"] {
        fs::copy(beside(&from, suffix), beside(&flat, suffix)).expect("a copy");
    }
    assert_ne!(fs::metadata(beside(&flat, "-wal")).expect("a log").len(), 0);
    relocated(&directory, &flat).expect("a move");
    assert_eq!(names(directory.path()).len(), 1);
    opens(&directory);
}

/// A crash leaves the own directory empty, or the files beside the flat one.
#[test]
fn a_move_that_was_interrupted_is_done_again_and_replaces_no_token() {
    let (directory, serial) = one_token();
    let flat = directory.flatten();
    fs::create_dir(directory.path().join(&serial)).expect("a directory");
    opens(&directory);
    let moved = relocated(&directory, &flat).expect("a move");
    fs::write(beside(&flat, "-lock"), "").expect("a file");
    opens(&directory);
    // A copy, for example from a backup.
    fs::copy(&moved, &flat).expect("a copy");
    let refused = relocated(&directory, &flat).expect_err("another token is there");
    assert!(refused.contains("exists, too"), "{refused}");
    assert!(flat.exists());
    opens(&directory);
}

#[test]
fn a_token_of_a_group_moves_only_in_a_directory_of_the_group() {
    let (directory, serial) = one_token();
    let flat = directory.flatten();
    fs::set_permissions(&flat, Permissions::from_mode(0o660)).expect("its owner");
    let refused = relocated(&directory, &flat).expect_err("its directory is private");
    assert!(refused.contains("chmod g+ws"), "{refused}");
    assert_eq!(directory.file("jeton"), flat);
    assert!(!directory.path().join(serial).exists());
    fs::set_permissions(directory.path(), Permissions::from_mode(0o2770)).expect("its owner");
    let moved = relocated(&directory, &flat).expect("a move");
    let modes =
        [moved.parent().expect("a directory"), &moved].map(|path| path.metadata().expect("it").mode());
    assert_eq!(modes.map(|mode| mode & 0o7777), [0o2770, 0o660]);
    opens(&directory);
}
