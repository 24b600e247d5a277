//! `jeton audit`: logs that were moved away, emptied or cut.

mod common;

use common::*;

/// A token with an audit log, which several commands wrote.
fn audited() -> Option<Tool> {
    let tool = Tool::empty()?;
    fs::create_dir(tool.file("log")).expect("a directory");
    tool.configure(&format!("[audit]\nfile = '{}'\n", tool.file("log/audit.jsonl")));
    tool.ok("token init --label mine");
    tool.ok("key generate --type ec:p256 --label signer --id 0a");
    tool.write("message", "hello");
    Some(tool)
}

fn sign(tool: &Tool) {
    tool.ok("sign message --label signer --out signature --force");
}

/// Moves the log away, as logrotate does.
fn rotate(tool: &Tool, to: &str) {
    fs::rename(tool.file("log/audit.jsonl"), tool.file(&format!("log/{to}"))).expect("a log");
    fs::write(tool.file("log/audit.jsonl"), "").expect("a file");
}

#[test]
fn files_that_were_moved_away_verify_together() {
    let Some(tool) = audited() else { return };
    rotate(&tool, "audit.jsonl.2");
    sign(&tool);
    let first = tool.json("audit verify log/audit.jsonl.2 --json")["last_hash"].clone();
    rotate(&tool, "audit.jsonl.1");
    sign(&tool);
    sign(&tool);

    let files = "log/audit.jsonl.1 log/audit.jsonl.2 log/audit.jsonl";
    let valid = |line: &str| {
        let report = tool.json(line);
        assert_eq!(report["breaks"], serde_json::json!([]), "{line}");
        report["valid_lines"].as_u64().expect("a number")
    };
    let all = valid(&format!("audit verify --json {files}"));
    assert_eq!(valid("audit verify --json log"), all);
    tool.write("log/jeton.log", "another file\n");
    says(tool.ok("audit verify log"), "jeton.log is left out: it does not begin as an audit log");
    // Without the oldest file, its last hash shows that nothing else is missing.
    let rest = "log/audit.jsonl.1 log/audit.jsonl";
    let reason = "audit.jsonl.1, line 1: continues a file that is not here";
    says(tool.fails(1, &format!("audit verify {rest}")), reason);
    let first = first.as_str().expect("a hash");
    assert!(valid(&format!("audit verify --json {rest} --after {first}")) < all);
    says(tool.fails(2, "audit verify log --after 12"), "--after needs the 64 hexadecimal digits");
    // A file in the middle is missing.
    let reason = "audit.jsonl, line 1: continues a file that is not here";
    says(tool.fails(1, "audit verify log/audit.jsonl.2 log/audit.jsonl"), reason);
    assert_eq!(tool.json(&format!("audit report --json {files}"))["keys"][0]["calls"], 4);
}

#[test]
fn logrotate_with_the_file_of_the_packages_keeps_the_chain() {
    let Some(tool) = audited() else { return };
    // An ordinary user has no /usr/sbin in the search path.
    if !Path::new("/usr/sbin/logrotate").is_file() {
        return jeton_programs::skip_without("logrotate", &["logrotate"]);
    }
    let text = include_str!("../packaging/logrotate").replace("/var/log/jeton", &tool.file("log"));
    assert!(text.contains(&tool.file("log/audit.jsonl")), "{text}");
    tool.write("rotation", text);
    tool.shell("chmod 640 log/audit.jsonl");
    for _ in 0..3 {
        tool.shell("chmod 644 rotation; /usr/sbin/logrotate --force --state state rotation");
        sign(&tool);
    }
    let names = ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3", "audit.jsonl.end"];
    assert_eq!(tool.files("log"), names.map(str::to_owned).into());
    for name in ["audit.jsonl", "audit.jsonl.3", "audit.jsonl.end"] {
        let mode = fs::metadata(tool.file(&format!("log/{name}"))).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o640, "{name}");
    }
    says(tool.ok("audit verify log"), ", 0 breaks");
    assert_eq!(tool.json("audit report log --json")["keys"][0]["calls"], 4);
}

#[test]
fn an_emptied_log_is_a_break() {
    let Some(tool) = audited() else { return };
    let verify = "audit verify log/audit.jsonl";
    tool.ok(verify);
    // No process has the log open.
    tool.write("log/audit.jsonl", "");
    let reason = "audit.jsonl.end names the last line of the log, and no file has this line";
    says(tool.fails(1, verify), reason);
    sign(&tool);
    says(tool.fails(1, verify), "line 1: continues a file that is not here: the log was emptied");
    says(tool.fails(1, "audit verify log"), ", 1 break\n");
}

#[test]
fn a_deleted_log_and_lines_cut_off_at_its_end_are_breaks() {
    let Some(tool) = audited() else { return };
    let log = String::from_utf8(tool.read("log/audit.jsonl")).expect("text");
    let (start, _) = log.trim_end().rsplit_once('\n').expect("lines");
    tool.write("log/audit.jsonl", format!("{start}\n"));
    says(tool.fails(1, "audit verify log/audit.jsonl"), "names the last line of the log");
    sign(&tool);
    says(tool.fails(1, "audit verify log/audit.jsonl"), "says that lines are missing");

    fs::remove_file(tool.file("log/audit.jsonl")).expect("a log");
    tool.fails(3, "audit verify log/audit.jsonl");
    sign(&tool);
    says(tool.fails(1, "audit verify log"), "line 1: continues a file that is not here");
}

#[test]
fn the_report_has_the_last_use_of_each_key() {
    let Some(tool) = audited() else { return };
    sign(&tool);
    let times = |more: &str| tool.json(&format!("audit report log --json {more}"));
    let report = times("");
    let key = &report["keys"][0];
    let [first, last] = ["first", "last"].map(|name| key[name].as_str().expect("a time").to_owned());
    assert!(first <= last && last.starts_with("20") && last.ends_with('Z'), "{key}");
    assert_eq!(report["last"], report["clients"][0]["last"]);
    assert_eq!(times("--since 1h"), report);
    assert_eq!(times("--since 2026-01-31")["calls"], report["calls"]);
    assert_eq!(times("--since 2999-12-31")["calls"], 0);
    says(tool.fails(2, "audit report log --since yesterday"), "write a date or how long ago: 2026-01-31");
    let text = tool.ok("audit report log");
    says(&text, "last call");
    says(&text, format!("from {}", report["first"].as_str().expect("a time")));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
