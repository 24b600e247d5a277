//! A result store of another version, and a full disk: every command that uses a store ends with a
//! message and leaves nothing behind. Tests of other bad input are in the files of the commands.

mod common;

use std::process::Command;

use common::{Scratch, jeton, run, succeed};
use rusqlite::Connection;

/// The shortest measurement of each command that writes a store.
const WRITERS: [&[&str]; 3] = [
    &["pipeline", "--module", "in-process", "--sizes", "1", "--min-seconds", "0"],
    &["issue", "--module", "in-process", "--clients", "1", "--requests", "1", "--warm-up", "0"],
    &[
        "tls",
        "--module",
        "in-process",
        "--keys",
        "p256",
        "--versions",
        "1.3",
        "--exchanges",
        "x25519",
        "--handshakes",
        "full",
        "--threads",
        "1",
        "--min-seconds",
        "0",
    ],
];

/// The names in a directory.
fn names(path: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).expect("the directory");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn one_store_keeps_measurements_of_all_commands_and_the_report_shows_the_newest() {
    let scratch = Scratch::new();
    let [store, page] = ["store", "page.md"].map(|name| scratch.file(name));
    for (writer, title) in WRITERS.iter().zip(["PKI pipeline", "issuance under load", "TLS handshakes"]) {
        succeed(jeton(*writer).args(["--results", &store]));
        succeed(&mut jeton(["report", &store, "--markdown", &page]));
        let text = std::fs::read_to_string(&page).expect("the page");
        assert!(text.lines().next().is_some_and(|line| line.contains(title)), "{title}\n{text}");
        assert!(text.contains("data:image/svg+xml"), "{title}");
    }
}

#[test]
fn a_store_of_another_version_is_named_and_kept() {
    let scratch = Scratch::new();
    let [store, page] = ["store", "page.html"].map(|name| scratch.file(name));
    succeed(jeton(WRITERS[0]).args(["--results", &store]));
    let connection = Connection::open(&store).expect("a database");
    connection.pragma_update(None, "user_version", 7).expect("a pragma");
    drop(connection);
    let before = std::fs::read(&store).expect("the store");
    let readers = [jeton(["report", &store, "--html", &page]), jeton(["compare", &store, &store])];
    let writers = WRITERS.map(|writer| {
        let mut command = jeton(writer);
        command.args(["--results", &store]);
        command
    });
    for mut command in readers.into_iter().chain(writers) {
        let (code, text) = run(&mut command);
        let wanted = "store: a result store of version 7; this tool reads version 3";
        assert!(code == 1 && text.contains(wanted), "{command:?}: {code} {text}");
        assert_eq!(std::fs::read(&store).expect("the store"), before, "{command:?}");
    }
    assert_eq!(names(scratch.path()), ["store"]);
}

#[test]
fn a_full_disk_ends_each_command_with_a_message_and_leaves_no_file() {
    let scratch = Scratch::new();
    let temporary = scratch.file("tmp");
    std::fs::create_dir(&temporary).expect("the directory is fresh");
    // `ulimit -f` makes a write fail, as a full disk does. The unit is 512 bytes.
    let limited = |blocks: &str, arguments: &[&str]| {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_jeton")]).args(arguments).env("TMPDIR", &temporary);
        run(&mut command)
    };
    let (code, text) =
        limited("400", &["pipeline", "--module", "in-process", "--sizes", "512", "--min-seconds", "0"]);
    let wanted = "FAILED: in-process, ecdsa-p256, batch of 512: db_insert_certs: database: ";
    assert!(code == 1 && text.contains(wanted), "{code} {text}");
    for writer in WRITERS {
        let store = scratch.file("store");
        let (code, text) = limited("8", &[writer, &["--results", &store]].concat());
        assert!(code == 1 && text.contains(&format!("jeton: {store}: ")), "{writer:?}: {code} {text}");
        for suffix in ["", "-wal", "-shm"] {
            // The tool does not remove the store, which belongs to the user.
            let _ = std::fs::remove_file(format!("{store}{suffix}"));
        }
    }
    assert!(names(std::path::Path::new(&temporary)).is_empty(), "{temporary}");
}

#[test]
fn a_full_disk_is_reported_by_each_command_that_reads_a_store() {
    let scratch = Scratch::new();
    let store = scratch.file("store");
    succeed(jeton(WRITERS[0]).args(["--results", &store]));
    for option in ["--html", "--markdown"] {
        let (code, text) = run(&mut jeton(["report", &store, option, "/dev/full"]));
        assert!(code == 1 && text.contains("jeton: /dev/full: No space left on device"), "{text}");
    }
    let full = std::fs::File::create("/dev/full").expect("a device");
    let output = jeton(["compare", &store, &store]).stdout(full).output().expect("the tool starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("No space left on device"), "{text}");
}
