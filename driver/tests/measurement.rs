//! The measurement of `jeton pipeline`: ratios, the result store, interrupts and outputs.

mod common;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, copy_tool, jeton, peer, run, succeed};
use jeton_peers::Known;
use rusqlite::{Connection, OpenFlags};

fn measure(min_seconds: &str, more: &[&str]) -> std::process::Command {
    let mut command = jeton(["pipeline", "--module", "in-process", "--sizes", "1"]);
    command.args(["--min-seconds", min_seconds]).args(more);
    command
}

#[test]
fn two_result_stores_are_compared() {
    let scratch = Scratch::new();
    let stores = [scratch.file("before"), scratch.file("after")];
    for store in &stores {
        succeed(&mut measure("0", &["--results", store]));
    }
    let text = succeed(jeton(["compare"]).args(&stores));
    let row = text.lines().find(|line| line.contains("ca_self_sign")).expect("a row of this stage");
    for part in ["in-process", "ecdsa-p256", " us", " %"] {
        assert!(row.contains(part), "{row}");
    }
    assert_eq!(text.lines().filter(|line| line.contains("ecdsa-p256")).count(), 15, "{text}");
    let samples = count(&stores[0], "SELECT count(*) FROM sample");
    assert_eq!(samples, 6 * 15);
    let described =
        "SELECT count(*) FROM measurement JOIN module ON measurement = id WHERE name = 'in-process'";
    assert_eq!(count(&stores[0], described), 1);
}

#[test]
fn a_file_that_is_not_a_result_store_is_refused_and_kept() {
    let scratch = Scratch::new();
    let file = scratch.file("text");
    std::fs::write(&file, "important").expect("the directory is writable");
    for command in [&mut measure("0", &["--results", &file]), jeton(["compare"]).args([&file, &file])] {
        let (code, text) = run(command);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("not a database") || text.contains("not a result store"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "important");
}

#[test]
fn outputs_are_opened_before_the_work_begins() {
    for option in ["--json", "--results", "--db", "--keep"] {
        let started = Instant::now();
        let (code, text) = run(&mut measure("600", &[option, "/proc/none/file"]));
        assert_eq!(code, 1, "{option}: {text}");
        assert!(started.elapsed() < Duration::from_secs(60), "{option}");
        assert!(!text.contains("batch of 1"), "{option}: {text}");
    }
}

#[test]
fn an_interrupt_keeps_and_prints_what_was_measured() {
    let scratch = Scratch::new();
    let (store, temporary) = (scratch.file("store"), scratch.file("tmp"));
    std::fs::create_dir(&temporary).expect("the directory is fresh");
    let mut command = measure("600", &["--results", &store]);
    let mut child =
        command.env("TMPDIR", &temporary).stdout(Stdio::piped()).spawn().expect("the tool starts");
    wait_for_samples(&store, &mut child);
    let pid = child.id().to_string();
    succeed(std::process::Command::new("sh").args(["-c", "kill -INT $0", &pid]));
    let output = child.wait_with_output().expect("the tool ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("interrupted: ") && text.contains("cert_gen"), "{text}");
    assert!(count(&store, "SELECT count(*) FROM sample") >= 15);
    let left: Vec<_> = std::fs::read_dir(&temporary).expect("the directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_tool_reports_that_its_module_is_missing() {
    let scratch = Scratch::new();
    // The tool also searches the directory above its own.
    let directory = scratch.file("bin");
    std::fs::create_dir(&directory).expect("a directory");
    let copy = format!("{directory}/jeton");
    copy_tool(&copy);
    let (code, text) = run(std::process::Command::new(&copy).args(["pipeline", "--sizes", "1"]));
    assert!(code == 1 && text.contains("libjeton_pkcs11.so is not beside this program"), "{text}");
}

#[test]
fn stages_outside_the_module_have_no_ratio() {
    if peer(Known::Jeton).is_none() {
        return;
    }
    let text = succeed(&mut jeton([
        "pipeline",
        "--module",
        "jeton",
        "--sizes",
        "1",
        "--min-seconds",
        "0",
        "--ca-key-algo",
        "ed25519",
    ]));
    let ratio = |stage: &str| {
        let row = text.lines().find(|line| line.contains(stage)).expect("a row of this stage");
        row.trim_end_matches('│').rsplit('┆').next().map(|cell| cell.trim().to_owned())
    };
    assert_eq!(ratio("crl_build").as_deref(), Some(""));
    assert_eq!(ratio("db_insert_certs").as_deref(), Some(""));
    let of_signing = ratio("ca_self_sign").expect("a cell");
    assert!(of_signing.trim_start_matches('~').parse::<f64>().is_ok_and(|ratio| ratio > 0.0), "{text}");
}

/// Waits until the store has a sample.
fn wait_for_samples(store: &str, child: &mut Child) {
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        assert!(child.try_wait().is_ok_and(|status| status.is_none()), "the tool ended early");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let samples = Connection::open_with_flags(store, flags)
            .and_then(|store| store.query_row("SELECT count(*) FROM sample", [], |row| row.get::<_, i64>(0)));
        if samples.is_ok_and(|samples| samples > 0) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no sample in 120 s");
}

fn count(store: &str, query: &str) -> i64 {
    let store = Connection::open(store).expect("a store");
    store.query_row(query, [], |row| row.get(0)).expect("a number")
}
