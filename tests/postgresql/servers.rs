//! The server of a test process ends with the process, and its files are removed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use jeton_child::Child;

use crate::server;
use crate::support::server::Server;

/// The name of the server of a process that holds one until the test kills the process.
const NAME: &str = "held";
/// The message of this process when the server runs.
const READY: &str = "the server is held";
const LIMIT: Duration = Duration::from_secs(30);

/// Not a test: returns at once, except in the process that [`holder`] starts. That process starts a
/// server and waits to be killed.
#[test]
fn a_process_holds_a_server() {
    if jeton_child::role::<()>().is_some() {
        let _server = Server::start(NAME, "-c fsync=off").expect("a server");
        jeton_child::say(&READY);
        // The input ends with the test.
        assert!(jeton_child::heard::<()>().is_none());
    }
}

/// Starts the process that holds a server.
fn holder() -> Child {
    Child::start(&mut jeton_child::of_test("servers::a_process_holds_a_server", &())).expect("a process")
}

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what}, after {LIMIT:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts the process, and waits until its server runs.
fn ready_holder() -> Child {
    let mut holder = holder();
    assert_eq!(holder.hear::<String>(LIMIT).expect("a message"), READY);
    holder
}

fn kill(mut holder: Child) {
    holder.kill().expect("a process");
}

/// The processes whose command line has this directory.
fn processes_of(directory: &Path) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("the processes").flatten();
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    let uses = |process: &String| {
        let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(&*directory.to_string_lossy())
    };
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(uses).collect()
}

#[test]
fn a_server_ends_when_its_test_process_is_killed() {
    if server().is_none() {
        return;
    }
    for started in [true, false] {
        let holder = if started { ready_holder() } else { holder() };
        let directory = Server::directory_of(holder.id(), NAME);
        // During the start, only the lock exists.
        until("there is no lock", || directory.join("lock").exists());
        assert!(!started || !processes_of(&directory).is_empty());
        kill(holder);
        until("the server still runs", || !directory.exists() && processes_of(&directory).is_empty());
    }
}

#[test]
fn a_server_ends_when_its_script_is_killed_and_the_next_start_removes_its_files() {
    if server().is_none() {
        return;
    }
    let holder = ready_holder();
    let directory = Server::directory_of(holder.id(), NAME);
    // The script is a child of the thread that started it.
    let threads = fs::read_dir(format!("/proc/{}/task", holder.id())).expect("the threads").flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let script = children.collect::<String>();
    let done = Command::new("kill").arg("-KILL").args(script.split_whitespace()).status();
    assert!(done.expect("kill").success());
    until("the server still runs", || processes_of(&directory).is_empty());
    kill(holder);
    Server::start("after", "-c fsync=off").expect("a server");
    assert!(!directory.exists());
}
