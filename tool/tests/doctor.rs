//! `jeton doctor`: each check finds the fault that it looks for, and `--repair` mends only the
//! faults that are safe to mend.

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, SystemTime};

use common::{PIN, Tool, run, skip};
use jeton_child::{Child, Silence};
use jeton_peers::Known;
use jeton_tool::client::{Access, Module, User};
use serde_json::Value;

struct Setup {
    tool: Tool,
    token: String,
}

impl Deref for Setup {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        &self.tool
    }
}

impl Setup {
    /// Returns `None` if the module is not built. The PIN records are those of the module's default
    /// configuration.
    fn new() -> Option<Self> {
        let tool = Tool::empty()?;
        tool.write("conf", "");
        tool.ok("token init --label mine");
        tool.ok("key generate --type ec:p256 --label key");
        let token = tool.token_file("tokens");
        Some(Self { tool, token })
    }

    fn configure(&self, text: &str) {
        self.write("conf", text);
    }

    fn tokens(&self) -> String {
        self.scratch.file("tokens")
    }

    /// Runs `jeton doctor` and checks its exit status. Returns its findings, except the finding
    /// about locked memory, which depends on the machine.
    fn examine(&self, more: &str) -> Vec<Value> {
        let output = self.command(&format!("doctor --json {more}")).output().expect("the tool starts");
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let all = all.as_array().expect("a list").clone();
        let wrong = all.iter().any(|row| row["repaired"] != true);
        assert_eq!(output.status.code(), Some(i32::from(wrong)), "{all:?}");
        all.into_iter().filter(|row| row["check"] != "memory-lock").collect()
    }

    /// Checks that `jeton doctor` has findings with these names and no others. Returns them.
    fn finds(&self, expected: &[&str]) -> Vec<Value> {
        let all = self.examine("");
        let names: BTreeSet<_> = all.iter().map(|row| row["check"].as_str().expect("a name")).collect();
        assert_eq!(names, expected.iter().copied().collect(), "{all:?}");
        all
    }

    /// Checks that `--repair` mends everything.
    fn mends(&self) {
        let all = self.examine("--repair");
        assert!(!all.is_empty() && all.iter().all(|row| row["repaired"] == true), "{all:?}");
        self.finds(&[]);
    }

    fn sql(&self, sql: &str) {
        let store = rusqlite::Connection::open(&self.token).expect("a token");
        store.execute_batch(sql).expect("valid SQL");
    }
}

fn set_mode(path: &str, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("its owner");
}

fn set_time(path: &str, time: SystemTime) {
    File::options().append(true).open(path).and_then(|file| file.set_modified(time)).expect("its owner");
}

#[test]
fn a_sound_directory_has_no_findings_and_wrong_usage_exits_with_2() {
    let Some(setup) = Setup::new() else { return };
    setup.finds(&[]);
    setup.fails(2, "doctor --what");
}

#[test]
fn wrong_permissions_are_found_and_mended_and_those_of_a_group_are_sound() {
    let Some(setup) = Setup::new() else { return };
    set_mode(&setup.tokens(), 0o777);
    set_mode(&setup.token, 0o644);
    let all = setup.finds(&["permissions"]);
    assert_eq!(all.len(), 2);
    assert_eq!(all[1]["remedy"], format!("chmod 600 {}", setup.token));
    setup.mends();
    assert_eq!(fs::metadata(setup.tokens()).expect("a directory").mode() & 0o777, 0o755);
    // The weaker way is no finding, since the administrator chose it.
    let note = format!("note: {}: a member of its group can end each process", setup.tokens());
    let notes = || {
        let output = setup.command("doctor").output().expect("the tool starts");
        String::from_utf8_lossy(&output.stderr).matches(&note).count()
    };
    assert_eq!(notes(), 0);
    set_mode(&setup.tokens(), 0o2770);
    set_mode(&setup.token, 0o660);
    setup.finds(&[]);
    assert_eq!(notes(), 1);
    set_mode(&setup.token, 0o664);
    setup.finds(&["permissions"]);
}

/// A group that shares the directory keeps its rights when the setgid bit was lost.
#[test]
fn a_repair_keeps_the_rights_of_a_group_that_uses_the_tokens() {
    let Some(setup) = Setup::new() else { return };
    set_mode(&setup.tokens(), 0o770);
    set_mode(&setup.token, 0o660);
    let all = setup.finds(&["permissions"]);
    assert_eq!(all[0]["remedy"], format!("chmod g+s {}", setup.tokens()));
    setup.mends();
    let mode = |path: &str| fs::metadata(path).expect("a file").mode() & 0o7777;
    assert_eq!((mode(&setup.tokens()), mode(&setup.token)), (0o2770, 0o660));
    // A group that may only read keeps this right too: the finding is not repaired.
    set_mode(&setup.tokens(), 0o750);
    set_mode(&setup.token, 0o640);
    let all = setup.examine("--repair");
    assert!(all.len() == 1 && all[0]["repaired"] == false, "{all:?}");
    assert_eq!(mode(&setup.token), 0o640);
}

#[test]
fn a_file_that_the_user_may_not_open_is_not_damaged() {
    let Some(setup) = Setup::new() else { return };
    let folder = setup.scratch.path();
    if chown(folder, Some(12345), None).and_then(|()| chown(setup.tokens(), Some(12345), None)).is_err() {
        return skip("only root can give files away");
    }
    let tool = setup.scratch.file("jeton");
    common::copy_tool(&tool);
    let as_user = |line: &[&str]| {
        let mut command = Command::new(&tool);
        command
            .args(line)
            .uid(12345)
            .env("JETON_DIR", setup.tokens())
            .env("JETON_CONF", setup.scratch.file("conf"));
        command.env("JETON_MODULE", setup.scratch.file("module.so")).env_remove("JETON_PIN");
        run(&mut command)
    };
    fs::copy(Known::Jeton.library().expect("the module"), setup.scratch.file("module.so")).expect("a copy");
    for file in fs::read_dir(setup.tokens()).expect("a directory").flatten() {
        set_mode(file.path().to_str().expect("UTF-8"), 0o600);
    }
    let (code, text) = as_user(&["doctor"]);
    assert!(
        code == 1 && text.contains("access:") && text.contains("Permission denied (os error 13)"),
        "{text}"
    );
    assert!(!text.contains("damaged") && !text.contains("restore"), "{text}");
    let (code, text) = as_user(&["object", "list"]);
    assert!(
        code == 9 && text.contains("Permission denied") && !text.contains("token init"),
        "exit {code}: {text}"
    );
}

#[test]
fn an_altered_record_is_found_with_the_pin_and_its_omission_is_named_without() {
    let Some(setup) = Setup::new() else { return };
    setup.sql("UPDATE record SET body = CAST(substr(body, 1, length(body) - 1) || iif(substr(body, -1) = X'00', X'01', X'00') AS BLOB) WHERE id = (SELECT max(id) FROM record)");
    let all = setup.finds(&["damaged"]);
    assert_eq!(all[0]["repairable"], false);
    let (_, text) = run(&mut setup.without_pins("doctor"));
    assert!(text.contains("not examined: the encrypted records of the token"), "{text}");
}

#[test]
fn a_file_of_another_owner_is_found() {
    let Some(setup) = Setup::new() else { return };
    if chown(&setup.token, Some(12345), None).is_err() {
        return skip("only root can give files away");
    }
    let all = setup.finds(&["owner"]);
    assert!(all[0]["remedy"].as_str().is_some_and(|remedy| remedy.starts_with("chown ")), "{all:?}");
}

#[test]
fn leftover_files_that_no_process_holds_are_removed() {
    let Some(setup) = Setup::new() else { return };
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let names = ["a.new", "a.new-journal", "a.backup", "gone.jeton-shm", "gone.jeton-lock"];
    for name in names {
        let path = setup.scratch.file(&format!("tokens/{name}"));
        fs::write(&path, "").expect("the directory is writable");
        set_mode(&path, 0o600);
        // A process may still be writing a new file, so `jeton doctor` does not report this file.
        setup.finds(&[]);
        set_time(&path, long_ago);
        setup.finds(&["leftover"]);
        let held = File::open(&path).expect("a file");
        held.lock().expect("a lock");
        let all = setup.examine("--repair");
        assert!(all.iter().all(|row| row["repaired"] == false), "{all:?}");
        drop(held);
        setup.mends();
    }
    // The write-ahead log may hold the last changes of a token whose file is missing, so `--repair`
    // keeps the log.
    let log = setup.scratch.file("tokens/gone.jeton-wal");
    fs::write(&log, "changes").expect("the directory is writable");
    set_mode(&log, 0o600);
    let all = setup.examine("--repair");
    assert!(all.len() == 1 && all[0]["repaired"] == false, "{all:?}");
    assert!(fs::exists(&log).expect("a directory"));
}

#[test]
fn a_damaged_token_is_found() {
    let Some(setup) = Setup::new() else { return };
    setup.sql("DELETE FROM record WHERE id = (SELECT max(id) FROM record)");
    let all = setup.finds(&["damaged"]);
    assert!(all[0]["problem"].as_str().is_some_and(|text| text.contains("its record is missing")), "{all:?}");
    fs::write(&setup.token, "not a token").expect("its owner");
    setup.finds(&["damaged"]);
}

#[test]
fn wrong_and_locked_pins_are_found() {
    let Some(setup) = Setup::new() else { return };
    setup.sql("UPDATE token SET user_failures = 4");
    setup.finds(&[]);
    setup.sql("UPDATE token SET user_failures = 5");
    setup.finds(&["wrong-pins"]);
    setup.sql("UPDATE token SET user_failures = 10, so_failures = 10");
    let all = setup.finds(&["locked-pin"]);
    let remedies: Vec<_> = all.iter().filter_map(|row| row["remedy"].as_str()).collect();
    assert!(remedies.len() == 2 && remedies[0].contains("pin reset") && remedies[1].contains("pin unblock"));
    // The remedy for the user's PIN works.
    setup.sql("UPDATE token SET so_failures = 0");
    setup.ok(&format!("pin unblock --serial {} --new-pin {PIN}", setup.serial()));
    setup.finds(&[]);
}

#[test]
fn weak_pin_records_are_found_until_a_login() {
    let Some(setup) = Setup::new() else { return };
    setup.configure("[pin]\nmemory-kib = 32768\n");
    assert_eq!(setup.finds(&["weak-pin-record"]).len(), 2);
    setup.ok("object list --login");
    assert_eq!(setup.finds(&["weak-pin-record"]).len(), 1);
    setup.configure("[pin]\nmemory-kib = 8\npasses = 1\n");
    setup.finds(&[]);
    setup.ok(&["pin", "change", "--new-pin", PIN]);
    let all = setup.finds(&["weak-pin-record"]);
    assert!(all[0]["remedy"].as_str().is_some_and(|text| text.contains("memory-kib = 19456")), "{all:?}");
}

#[test]
fn a_missing_sealing_key_is_found() {
    let Some(setup) = Setup::new() else { return };
    setup.ok("sealing-key new key");
    setup.configure(&format!("[store]\nsealing-key = \"file:{}\"\n", setup.scratch.file("key")));
    setup.ok("sealing-key set");
    setup.finds(&[]);
    fs::rename(setup.scratch.file("key"), setup.scratch.file("elsewhere")).expect("a file");
    let all = setup.finds(&["sealing-key"]);
    assert!(all[0]["problem"].as_str().is_some_and(|text| text.contains("No such file")), "{all:?}");
    setup.configure("");
    setup.finds(&["sealing-key"]);
}

#[test]
fn a_second_file_a_wrong_clock_and_a_missing_directory_are_found() {
    let Some(setup) = Setup::new() else { return };
    let copy = setup.scratch.file("tokens/copy.jeton");
    fs::copy(&setup.token, &copy).expect("the directory is writable");
    let all = setup.finds(&["duplicate"]);
    assert_eq!(all[0]["file"], copy);
    fs::remove_file(copy).expect("a file");
    set_time(&setup.token, SystemTime::now() + Duration::from_secs(30 * 24 * 3600));
    setup.finds(&["clock"]);
    fs::rename(setup.tokens(), setup.scratch.file("elsewhere")).expect("a directory");
    setup.finds(&["directory"]);
}

#[test]
fn a_low_limit_on_locked_memory_is_found() {
    let Some(setup) = Setup::new() else { return };
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -l 64; exec {} doctor", env!("CARGO_BIN_EXE_jeton"))]);
    command.env("JETON_DIR", setup.tokens()).env("JETON_CONF", setup.scratch.file("conf"));
    let (code, text) = run(&mut command);
    assert!(code == 1 && text.contains("memory-lock: the limit on locked memory is 64 KiB"), "{text}");
}

/// Mounts a file system and runs `jeton doctor` with the tokens in `folder`. Checks that it has a
/// finding with this name.
fn found_where_mounted(setup: &Setup, mount: &str, folder: &str, check: &str) {
    let script = format!("{mount} && JETON_DIR={folder} exec {} doctor --json", env!("CARGO_BIN_EXE_jeton"));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", &script]);
    let output = command.env("JETON_CONF", setup.scratch.file("conf")).output();
    let Ok(all) =
        output.map_err(drop).and_then(|output| serde_json::from_slice::<Value>(&output.stdout).map_err(drop))
    else {
        return skip("only root can mount file systems on this system");
    };
    let all = all.as_array().expect("a list");
    assert!(all.iter().any(|row| row["check"] == check), "{all:?}");
}

#[test]
fn a_full_file_system_is_found() {
    let Some(setup) = Setup::new() else { return };
    let folder = setup.scratch.file("small");
    fs::create_dir(&folder).expect("a directory");
    let mount = format!("mount -t tmpfs -o size=8m none {folder} && cp -a {}/. {folder}", setup.tokens());
    found_where_mounted(&setup, &mount, &folder, "free-space");
}

#[test]
fn a_read_only_file_system_is_found() {
    let Some(setup) = Setup::new() else { return };
    let folder = setup.tokens();
    let mount = format!("mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}");
    found_where_mounted(&setup, &mount, &folder, "read-only");
}

#[test]
fn processes_with_another_module_are_found() {
    let Some(setup) = Setup::new() else { return };
    let other = setup.scratch.file("libjeton_pkcs11.so");
    fs::copy(Known::Jeton.library().expect("the module"), &other).expect("the disk has room");
    let start = |module: &str| {
        let mut command = jeton_child::of_test("process_of_another_test", &module);
        command.env("JETON_DIR", setup.tokens()).env("JETON_CONF", setup.scratch.file("conf"));
        let mut child = Child::start(&mut command).expect("this test starts");
        let ready: Result<String, _> = child.hear(LIMIT);
        assert_eq!(ready.expect("the process is ready"), "ready");
        child
    };
    let mut first = start(&other);
    setup.finds(&[]);
    let mut second = start(Known::Jeton.library().expect("the module").to_str().expect("UTF-8"));
    setup.finds(&["other-versions"]);
    fs::remove_file(&other).expect("a file");
    let all = setup.finds(&["other-versions"]);
    let expected = format!("restart the processes {}", first.id());
    assert_eq!(all[0]["remedy"], expected);
    for child in [&mut first, &mut second] {
        assert!(matches!(child.finish(LIMIT), Silence::Ended(status) if status.success()));
    }
    setup.finds(&[]);
}

/// The longest time for which a process may print nothing.
const LIMIT: Duration = Duration::from_secs(60);

/// Not a test: another test starts this function in a process of its own. The process uses the
/// token until its standard input ends.
#[test]
fn process_of_another_test() {
    let Some(module) = jeton_child::role::<String>() else { return };
    let module = Module::load(module.expect("a path")).expect("the module");
    module.initialize(None).expect("the configuration");
    let slot = *module.slots(true).expect("slots").first().expect("a token");
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    session.login(User::User, Some(PIN)).expect("the PIN");
    jeton_child::say(&"ready");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("a pipe");
}
