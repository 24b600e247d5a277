//! `jeton issue`: its certificates, its outputs, wrong input, interrupts and a full disk.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, has, jeton, peer, run, succeed};
use jeton_peers::Known;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

fn issue(more: &[&str]) -> Command {
    let mut command = jeton(["issue", "--clients", "2", "--requests", "2", "--warm-up", "1"]);
    command.args(more);
    command
}

#[test]
fn openssl_verifies_the_certificates_of_each_classical_algorithm() {
    let module = if peer(Known::Jeton).is_some() { "jeton" } else { "in-process" };
    let quick = "ecdsa-p256,ecdsa-p384,ed25519,rsa2048";
    let verified = kept(module, &["--ca-key-type", quick])
        + kept("in-process", &["--ca-key-type", "rsa3072,rsa4096"])
        + kept("in-process", &["--key-type", quick]);
    // Each load has at least one round, in which each module issues a certificate.
    assert!(verified >= 4 + 2 + 4, "{verified}");
}

#[test]
fn openssl_verifies_what_softhsm2_signed() {
    if peer(Known::SoftHsm2).is_some() {
        assert!(kept("softhsm2", &["--ca-key-type", "ec:P-256,rsa:2048"]) >= 2);
    }
}

#[test]
fn jeton_and_the_baseline_issue_with_a_post_quantum_ca() {
    let module = if peer(Known::Jeton).is_some() { "jeton" } else { "in-process" };
    let scratch = Scratch::new();
    let json = scratch.file("json");
    let all = "ml-dsa-44,ml-dsa-65,ml-dsa-87";
    succeed(&mut issue(&["--module", module, "--ca-key-type", all, "--key-type", all, "--json", &json]));
    let report = read(&json);
    for one in report["modules"].as_array().expect("a list") {
        assert_eq!(one["loads"].as_array().map(Vec::len), Some(9), "{one}");
    }
}

/// Issues certificates, keeps them, and verifies all of them with OpenSSL. Returns their number, or
/// a large number if OpenSSL is not installed.
fn kept(module: &str, options: &[&str]) -> usize {
    let scratch = Scratch::new();
    let keep = scratch.file("keep");
    let mut command = jeton(["issue", "--clients", "1", "--requests", "1", "--warm-up", "0"]);
    succeed(command.args(["--module", module, "--keep", &keep]).args(options));
    if !has("openssl", "version") {
        return usize::MAX / 4;
    }
    let mut count = 0;
    for ca in find(Path::new(&keep), "ca.pem") {
        let folder = ca.parent().expect("a file is in a folder");
        for entry in fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("an entry").path();
            if path != ca {
                let mut command = Command::new("openssl");
                command.args(["verify", "-x509_strict", "-CAfile"]).arg(&ca).arg(&path);
                let text = succeed(&mut command);
                assert!(text.contains(": OK"), "{text}");
                count += 1;
            }
        }
    }
    count
}

fn find(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(find(&path, name));
        } else if path.ends_with(name) {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_tables_are_the_same_in_text_json_and_on_the_page() {
    let scratch = Scratch::new();
    let [json, store, page, html] = ["json", "store", "page.md", "page.html"].map(|name| scratch.file(name));
    let module = if peer(Known::Jeton).is_some() { "jeton" } else { "in-process" };
    let mut command =
        jeton(["issue", "--module", module, "--clients", "1,3", "--requests", "6", "--pool", "1,2"]);
    let text = succeed(command.args(["--json", &json, "--results", &store]));
    for wanted in ["Issuance: keys ecdsa-p256", "errors", "Where the time goes", "Memory", "is the limit"] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    let report = read(&json);
    let loads = report["modules"][0]["loads"].as_array().expect("a list");
    assert_eq!(loads.len(), 4);
    for load in loads {
        assert_eq!(load["issued"]["value"], 6.0);
        assert_eq!(load["errors"]["value"], 0.0);
        for name in
            ["issuances_per_second", "latency_p99_seconds", "finalize_mean_seconds", "heap_peak_bytes"]
        {
            assert!(load[name]["value"].as_f64().is_some_and(|value| value > 0.0), "{name}: {load}");
        }
        let phases: f64 = load
            .as_object()
            .expect("an object")
            .iter()
            .filter(|(name, _)| name.starts_with("phase_"))
            .filter_map(|(_, value)| value["low"].as_f64())
            .sum();
        assert!(phases <= 1.01 * load["latency_mean_seconds"]["high"].as_f64().expect("a number"), "{load}");
    }
    succeed(&mut jeton(["report", &store, "--markdown", &page, "--html", &html]));
    let page = fs::read_to_string(page).expect("a page");
    for table in report["tables"].as_array().expect("a list") {
        let title = table["title"].as_str().expect("a title");
        let heading = title.split(':').next().expect("a part");
        assert!(page.contains(&format!("\n## {heading}")), "{title}\n{page}");
        for cell in table["rows"][0]["cells"].as_array().expect("cells") {
            assert!(page.contains(cell.as_str().expect("a text")), "{cell}");
        }
    }
    assert!(page.contains("data:image/svg+xml") && page.contains("issuance under load"));
}

fn read(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a report")).expect("JSON")
}

#[test]
fn wrong_options_are_named_and_nothing_runs() {
    let scratch = Scratch::new();
    let text = scratch.file("text");
    fs::write(&text, "not a module").expect("the directory is writable");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--key-type", "rsa1"], 2, r#"unknown algorithm "rsa1""#),
        (&["--ca-key-type", "ec:p257"], 2, r#"unknown algorithm "ec:p257""#),
        (&["--module", "no-such-module"], 2, r#"module "no-such-module""#),
        (&["--clients", "0"], 2, "--clients"),
        (&["--database", "/proc/none"], 2, "is neither memory, file nor a directory"),
        (&["--module", &text, "--pin", "1234"], 1, "FAILED: text: cannot load"),
    ];
    for (options, status, wanted) in cases {
        let mut command = jeton(["issue", "--requests", "1", "--warm-up", "0"]);
        let (code, text) = run(command.args(["--module", "in-process"]).args(options));
        assert!(code == status && text.contains(wanted), "{options:?}: {code}\n{text}");
    }
}

#[test]
fn outputs_are_opened_before_the_work_begins() {
    for option in ["--json", "--results", "--keep"] {
        let mut command =
            issue(&["--module", "in-process", "--min-seconds", "600", option, "/proc/none/file"]);
        let started = Instant::now();
        let (code, text) = run(&mut command);
        assert!(code == 1 && !text.contains("Issuance"), "{option}: {text}");
        assert!(started.elapsed() < Duration::from_secs(60), "{option}");
    }
}

#[test]
fn an_interrupt_prints_what_was_measured_and_leaves_no_file() {
    let scratch = Scratch::new();
    let folders = ["tmp", "db"].map(|name| scratch.file(name));
    for folder in &folders {
        fs::create_dir(folder).expect("the directory is fresh");
    }
    let store = scratch.file("store");
    let mut command = issue(&["--module", "in-process", "--min-seconds", "600", "--results", &store]);
    command.args(["--database", &folders[1]]).env("TMPDIR", &folders[0]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the tool starts");
    wait_for_runs(&store, &mut child);
    succeed(Command::new("sh").args(["-c", "kill -INT $0", &child.id().to_string()]));
    let output = child.wait_with_output().expect("the tool ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("interrupted: ") && text.contains("Issuance"), "{text}");
    assert_empty(&folders);
}

#[test]
fn a_full_disk_ends_the_load_with_a_message_and_leaves_no_file() {
    let scratch = Scratch::new();
    let folders = ["tmp", "db"].map(|name| scratch.file(name));
    for folder in &folders {
        fs::create_dir(folder).expect("the directory is fresh");
    }
    // `ulimit -f` makes a write fail, as a full disk does: 1000 blocks of 512 bytes.
    let script = "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_jeton"), "issue", "--module", "in-process"]);
    command.args(["--clients", "4", "--requests", "2000", "--database", &folders[1]]);
    let (code, text) = run(command.env("TMPDIR", &folders[0]));
    assert!(code == 1 && text.contains("FAILED: in-process: clients 4,"), "{code} {text}");
    assert!(text.contains("database: "), "{text}");
    assert_empty(&folders);
}

#[test]
fn a_full_disk_is_reported_when_the_report_is_written() {
    let (code, text) = run(&mut issue(&["--module", "in-process", "--json", "/dev/full"]));
    assert!(code == 1 && text.contains("/dev/full: No space left on device"), "{text}");
}

fn assert_empty(folders: &[String]) {
    for folder in folders {
        let left: Vec<_> = fs::read_dir(folder).expect("the folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Waits until the store has a run.
fn wait_for_runs(store: &str, child: &mut Child) {
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        assert!(child.try_wait().is_ok_and(|status| status.is_none()), "the tool ended early");
        let count = |store: Connection| {
            store.query_row("SELECT count(*) FROM issuance", [], |row| row.get::<_, i64>(0))
        };
        let runs = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(count);
        if runs.is_ok_and(|runs| runs > 0) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no run in 120 s");
}
