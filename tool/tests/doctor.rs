//! `jeton doctor`: each check finds the fault that it looks for, and `--repair` mends only the
//! faults that are safe to mend.

mod common;

use std::fs::Permissions;
use std::time::SystemTime;

use common::*;
use jeton_child::{Child, Silence};

/// Returns a directory with a token, and the file of the token. `None` if the module is not built.
/// The PIN records are those of the module's default configuration.
fn setup() -> Option<(Tool, String)> {
    let tool = Tool::empty()?;
    tool.write("conf", "");
    tool.ok("token init --label mine");
    tool.ok("key generate --type ec:p256 --label key");
    let token = tool.token_file("tokens");
    Some((tool, token))
}

impl Tool {
    fn tokens(&self) -> String {
        self.file("tokens")
    }

    /// Returns the findings, except the one about locked memory, which depends on the machine.
    fn examine(&self, more: &str) -> Vec<Value> {
        findings(&mut self.command(&format!("doctor --json {more}")), &["memory-lock"])
    }

    /// Checks that `jeton doctor` has findings with these names and no others. Returns them.
    fn finds(&self, expected: &[&str]) -> Vec<Value> {
        named(self.examine(""), expected)
    }

    /// Checks that `--repair` mends everything.
    fn mends(&self) {
        let all = self.examine("--repair");
        assert!(!all.is_empty() && all.iter().all(|row| row["repaired"] == true), "{all:?}");
        self.finds(&[]);
    }

    fn sql(&self, sql: &str) {
        let store = rusqlite::Connection::open(self.token_file("tokens")).expect("a token");
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
    let Some((tool, _)) = setup() else { return };
    tool.finds(&[]);
    tool.fails(2, "doctor --what");
}

#[test]
fn wrong_permissions_are_found_and_mended_and_those_of_a_group_are_sound() {
    let Some((tool, token)) = setup() else { return };
    set_mode(&tool.tokens(), 0o777);
    set_mode(&token, 0o644);
    let all = tool.finds(&["permissions"]);
    assert_eq!(all.len(), 2);
    assert_eq!(all[1]["remedy"], format!("chmod 600 {}", token));
    tool.mends();
    assert_eq!(fs::metadata(tool.tokens()).expect("a directory").mode() & 0o777, 0o700);
    // The weaker way is no finding, since the administrator chose it.
    let note = format!("note: {}: a member of its group can end each process", tool.tokens());
    let notes = || {
        let output = tool.command("doctor").output().expect("the tool starts");
        String::from_utf8_lossy(&output.stderr).matches(&note).count()
    };
    assert_eq!(notes(), 0);
    set_mode(&tool.tokens(), 0o2770);
    set_mode(&token, 0o660);
    tool.finds(&[]);
    assert_eq!(notes(), 1);
    set_mode(&token, 0o664);
    tool.finds(&["permissions"]);
}

/// A group that shares the directory keeps its rights when the setgid bit was lost.
#[test]
fn a_directory_on_the_way_to_which_every_user_may_write_is_found() {
    let Some((tool, _)) = setup() else { return };
    let folder = tool.path().to_str().expect("UTF-8").to_owned();
    set_mode(&folder, 0o777);
    let all = tool.finds(&["permissions"]);
    assert_eq!(all[0]["remedy"], format!("chmod o-w {folder}"));
    set_mode(&folder, 0o1777);
    tool.finds(&[]);
}

#[test]
fn a_repair_keeps_the_rights_of_a_group_that_uses_the_tokens() {
    let Some((tool, token)) = setup() else { return };
    set_mode(&tool.tokens(), 0o770);
    set_mode(&token, 0o660);
    let all = tool.finds(&["permissions"]);
    assert_eq!(all[0]["remedy"], format!("chmod g+s {}", tool.tokens()));
    tool.mends();
    let mode = |path: &str| fs::metadata(path).expect("a file").mode() & 0o7777;
    assert_eq!((mode(&tool.tokens()), mode(&token)), (0o2770, 0o660));
    // A group that may only read keeps this right too: the finding is not repaired.
    set_mode(&tool.tokens(), 0o750);
    set_mode(&token, 0o640);
    let all = tool.examine("--repair");
    assert!(all.len() == 1 && all[0]["repaired"] == false, "{all:?}");
    assert_eq!(mode(&token), 0o640);
}

#[test]
fn a_file_that_the_user_may_not_open_is_not_damaged() {
    let Some((tool, _)) = setup() else { return };
    let folder = tool.path();
    if chown(folder, Some(12345), None).and_then(|()| chown(tool.tokens(), Some(12345), None)).is_err() {
        return skip("only root can give files away");
    }
    let program = tool.file("jeton");
    copy_tool(&program);
    let as_user = |line: &[&str]| {
        let mut command = Command::new(&program);
        command.args(line).uid(12345).env("JETON_DIR", tool.tokens()).env("JETON_CONF", tool.file("conf"));
        command.env("JETON_MODULE", tool.file("module.so")).env_remove("JETON_PIN");
        run(&mut command)
    };
    fs::copy(Known::Jeton.library().expect("the module"), tool.file("module.so")).expect("a copy");
    for file in tool.files("tokens") {
        set_mode(&tool.file(&format!("tokens/{file}")), 0o600);
    }
    let (code, text) = as_user(&["doctor"]);
    let explains = text.contains("access:") && text.contains("Permission denied (os error 13)");
    assert!(code == 1 && explains && !text.contains("damaged") && !text.contains("restore"), "{text}");
    let (code, text) = as_user(&["object", "list"]);
    let is_quiet = !text.contains("token init") && !text.contains("ERROR");
    assert!(code == 9 && text.contains("Permission denied") && is_quiet, "exit {code}: {text}");
}

#[test]
fn an_altered_record_is_found_with_the_pin_and_its_omission_is_named_without() {
    let Some((tool, _)) = setup() else { return };
    tool.sql("UPDATE record SET body = CAST(substr(body, 1, length(body) - 1) || iif(substr(body, -1) = X'00', X'01', X'00') AS BLOB) WHERE id = (SELECT max(id) FROM record)");
    let all = tool.finds(&["damaged"]);
    assert_eq!(all[0]["repairable"], false);
    let (_, text) = run(&mut tool.without_pins("doctor"));
    assert!(text.contains("not examined: the encrypted records of the token"), "{text}");
}

#[test]
fn a_file_of_another_owner_is_found() {
    let Some((tool, token)) = setup() else { return };
    if chown(&token, Some(12345), None).is_err() {
        return skip("only root can give files away");
    }
    let all = tool.finds(&["owner"]);
    assert!(all[0]["remedy"].as_str().is_some_and(|remedy| remedy.starts_with("chown ")), "{all:?}");
}

#[test]
fn leftover_files_that_no_process_holds_are_removed() {
    let Some((tool, _)) = setup() else { return };
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let names = ["a.new", "a.new-journal", "a.backup", "gone.jeton-shm", "gone.jeton-lock"];
    for name in names {
        let path = tool.file(&format!("tokens/{name}"));
        fs::write(&path, "").expect("the directory is writable");
        set_mode(&path, 0o600);
        // A process may still be writing a new file, so `jeton doctor` does not report this file.
        tool.finds(&[]);
        set_time(&path, long_ago);
        tool.finds(&["leftover"]);
        let held = File::open(&path).expect("a file");
        held.lock().expect("a lock");
        let all = tool.examine("--repair");
        assert!(all.iter().all(|row| row["repaired"] == false), "{all:?}");
        drop(held);
        tool.mends();
    }
    // The write-ahead log may hold the last changes of a token whose file is missing, so `--repair`
    // keeps the log.
    let log = tool.file("tokens/gone.jeton-wal");
    fs::write(&log, "changes").expect("the directory is writable");
    set_mode(&log, 0o600);
    let all = tool.examine("--repair");
    assert!(all.len() == 1 && all[0]["repaired"] == false, "{all:?}");
    assert!(fs::exists(&log).expect("a directory"));
}

impl Tool {
    /// Moves the token out of its own directory, so that it is flat, as older versions made it.
    /// Returns the path of its file.
    fn flatten(&self) -> String {
        let file = self.token_file("tokens");
        let flat = self.file(&format!("tokens/{}.jeton", self.serial()));
        fs::rename(&file, &flat).expect("the token");
        fs::remove_dir_all(Path::new(&file).parent().expect("a directory")).expect("its own directory");
        flat
    }
}

#[test]
fn a_flat_token_is_found_and_moved_into_its_own_directory() {
    let Some((tool, token)) = setup() else { return };
    let flat = tool.flatten();
    tool.signs("key");
    let all = tool.finds(&["flat"]);
    assert_eq!((&all[0]["file"], &all[0]["repairable"]), (&flat.into(), &true.into()));
    tool.mends();
    assert_eq!(tool.token_file("tokens"), token);
    tool.signs("key");
    tool.ok("token delete --token mine --yes");
    assert_eq!(tool.files("tokens"), BTreeSet::new());
}

#[test]
fn a_flat_token_that_a_program_uses_stays_flat() {
    let Some((tool, _)) = setup() else { return };
    let flat = tool.flatten();
    let parameters = format!("token-dir = '{}'", tool.tokens());
    let (module, session) = log_in(Known::Jeton.library().expect("the module"), Some(&parameters));
    let (code, text) = run(&mut tool.command("doctor --repair"));
    assert!(code == 1 && text.contains("another process has the token open"), "exit {code}: {text}");
    assert_eq!(session.find(&[]).expect("a search").len(), 2);
    drop(session);
    module.finalize().expect("a module");
    assert!(fs::exists(&flat).expect("a directory"));
    tool.mends();
    tool.signs("key");
}

/// Each token is in one place and opens there, whenever the tool is killed.
#[test]
fn a_move_into_own_directories_that_is_killed_is_done_by_the_next() {
    let Some(tool) = Tool::empty() else { return };
    tool.write("conf", "[pin]\nmemory-kib = 8\npasses = 1\n");
    let tokens = 12;
    for number in 0..tokens {
        tool.ok(&format!("token init --label token-{number}"));
    }
    for name in tool.files("tokens").into_iter().filter(|name| name.ends_with(".jeton")) {
        let (own, file) = name.split_once('/').expect("its own directory");
        let path = |name: &str| tool.file(&format!("tokens/{name}"));
        fs::rename(path(&name), path(file)).expect("the token");
        fs::remove_dir_all(path(own)).expect("its own directory");
    }
    let places = || {
        let files: Vec<_> =
            tool.files("tokens").into_iter().filter(|name| name.ends_with(".jeton")).collect();
        let moved = files.iter().filter(|name| name.contains('/')).count();
        assert_eq!(files.len(), tokens, "{files:?}");
        moved
    };
    let (mut kills, mut wait) = (0, Duration::from_millis(5));
    while places() < tokens {
        let mut command = tool.command("doctor --repair");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the tool");
        sleep(wait);
        // The process may already have ended.
        let _ = child.kill();
        child.wait().expect("the tool");
        kills += 1;
        let listed = tool.rows("token list --json");
        let labels = listed.iter().filter_map(|slot| slot["token"]["label"].as_str());
        assert_eq!(labels.filter(|label| label.starts_with("token-")).count(), tokens);
        wait += Duration::from_millis(3);
    }
    println!("{kills} runs moved {tokens} tokens");
    for number in 0..tokens {
        tool.ok(&format!("object list --login --token token-{number}"));
    }
}

#[test]
fn a_link_in_place_of_an_own_directory_and_an_empty_one_are_found() {
    let Some((tool, token)) = setup() else { return };
    let (own, aside) = (Path::new(&token).parent().expect("a directory"), tool.file("aside"));
    let empty = tool.file("tokens/0123456789abcdef");
    fs::create_dir(&empty).expect("a directory");
    set_mode(&empty, 0o700);
    tool.finds(&[]);
    let times = fs::FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(3600));
    File::open(&empty).and_then(|directory| directory.set_times(times)).expect("its owner");
    tool.finds(&["leftover"]);
    tool.mends();
    assert!(!fs::exists(&empty).expect("a directory"));
    fs::rename(own, &aside).expect("a directory");
    std::os::unix::fs::symlink(&aside, own).expect("a link");
    tool.finds(&["link"]);
    tool.fails(3, "object list --login");
}

#[test]
fn a_token_that_was_never_complete_is_removed_with_its_directory() {
    let Some((tool, _)) = setup() else { return };
    let own = tool.file("tokens/0123456789abcdef");
    let new = format!("{own}/0123456789abcdef.new");
    fs::create_dir(&own).expect("a directory");
    set_mode(&own, 0o700);
    fs::write(&new, "").expect("the directory is writable");
    set_mode(&new, 0o600);
    tool.finds(&[]);
    set_time(&new, SystemTime::now() - Duration::from_secs(3600));
    assert_eq!(tool.finds(&["leftover"])[0]["file"], new);
    tool.mends();
    assert!(!fs::exists(&own).expect("a directory"));
}

#[test]
fn a_damaged_token_is_found() {
    let Some((tool, token)) = setup() else { return };
    tool.sql("DELETE FROM record WHERE id = (SELECT max(id) FROM record)");
    let all = tool.finds(&["damaged"]);
    assert!(all[0]["problem"].as_str().is_some_and(|text| text.contains("its record is missing")), "{all:?}");
    fs::write(&token, "not a token").expect("its owner");
    tool.finds(&["damaged"]);
}

#[test]
fn wrong_and_locked_pins_are_found() {
    let Some((tool, _)) = setup() else { return };
    tool.sql("UPDATE token SET user_failures = 4");
    tool.finds(&[]);
    tool.sql("UPDATE token SET user_failures = 5");
    tool.finds(&["wrong-pins"]);
    tool.sql("UPDATE token SET user_failures = 10, so_failures = 10");
    let all = tool.finds(&["locked-pin"]);
    let remedies: Vec<_> = all.iter().filter_map(|row| row["remedy"].as_str()).collect();
    assert!(remedies.len() == 2 && remedies[0].contains("pin reset") && remedies[1].contains("pin unblock"));
    // The remedy for the user's PIN works.
    tool.sql("UPDATE token SET so_failures = 0");
    tool.ok(&format!("pin unblock --serial {} --new-pin {PIN}", tool.serial()));
    tool.finds(&[]);
}

#[test]
fn weak_pin_records_are_found_until_a_login() {
    let Some((tool, _)) = setup() else { return };
    tool.write("conf", "[pin]\nmemory-kib = 32768\n");
    assert_eq!(tool.finds(&["weak-pin-record"]).len(), 2);
    tool.ok("object list --login");
    assert_eq!(tool.finds(&["weak-pin-record"]).len(), 1);
    tool.write("conf", "[pin]\nmemory-kib = 8\npasses = 1\n");
    tool.finds(&[]);
    tool.ok(&["pin", "change", "--new-pin", PIN]);
    let all = tool.finds(&["weak-pin-record"]);
    assert!(all[0]["remedy"].as_str().is_some_and(|text| text.contains("memory-kib = 19456")), "{all:?}");
}

#[test]
fn a_missing_sealing_key_is_found() {
    let Some((tool, _)) = setup() else { return };
    tool.ok("sealing-key new key");
    tool.write("conf", format!("[store]\nsealing-key = \"file:{}\"\n", tool.file("key")));
    tool.ok("sealing-key set");
    tool.finds(&[]);
    fs::rename(tool.file("key"), tool.file("elsewhere")).expect("a file");
    let all = tool.finds(&["sealing-key"]);
    assert!(all[0]["problem"].as_str().is_some_and(|text| text.contains("No such file")), "{all:?}");
    tool.write("conf", "");
    tool.finds(&["sealing-key"]);
}

#[test]
fn a_second_file_a_wrong_clock_and_a_missing_directory_are_found() {
    let Some((tool, token)) = setup() else { return };
    let copy = tool.file("tokens/copy.jeton");
    fs::copy(&token, &copy).expect("the directory is writable");
    let all = tool.finds(&["duplicate"]);
    assert_eq!(all[0]["file"], copy);
    fs::remove_file(copy).expect("a file");
    set_time(&token, SystemTime::now() + Duration::from_secs(30 * 24 * 3600));
    tool.finds(&["clock"]);
    fs::rename(tool.tokens(), tool.file("elsewhere")).expect("a directory");
    tool.finds(&["directory"]);
}

#[test]
fn a_low_limit_on_locked_memory_is_found() {
    let Some((tool, _)) = setup() else { return };
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -l 64; exec {} doctor", env!("CARGO_BIN_EXE_jeton"))]);
    command.env("JETON_DIR", tool.tokens()).env("JETON_CONF", tool.file("conf"));
    says(fails(1, &mut command), "memory-lock: the limit on locked memory is 64 KiB");
}

/// Mounts a file system and runs `jeton doctor` with the tokens in `folder`. Checks that it has a
/// finding with this name.
fn found_where_mounted(tool: &Tool, mount: &str, folder: &str, check: &str) {
    let script = format!("{mount} && JETON_DIR={folder} exec {} doctor --json", env!("CARGO_BIN_EXE_jeton"));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", &script]);
    let output = command.env("JETON_CONF", tool.file("conf")).output();
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
    let Some((tool, _)) = setup() else { return };
    let folder = tool.file("small");
    fs::create_dir(&folder).expect("a directory");
    let mount = format!("mount -t tmpfs -o size=8m none {folder} && cp -a {}/. {folder}", tool.tokens());
    found_where_mounted(&tool, &mount, &folder, "free-space");
}

#[test]
fn a_read_only_file_system_is_found() {
    let Some((tool, _)) = setup() else { return };
    let folder = tool.tokens();
    let mount = format!("mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}");
    found_where_mounted(&tool, &mount, &folder, "read-only");
}

#[test]
fn processes_with_another_module_are_found() {
    let Some((tool, _)) = setup() else { return };
    let other = tool.file("libjeton_pkcs11.so");
    fs::copy(Known::Jeton.library().expect("the module"), &other).expect("the disk has room");
    let start = |module: &str| {
        let mut command = jeton_child::of_test("process_of_another_test", &module);
        command.env("JETON_DIR", tool.tokens()).env("JETON_CONF", tool.file("conf"));
        let mut child = Child::start(&mut command).expect("this test starts");
        let ready: Result<String, _> = child.hear(LIMIT);
        assert_eq!(ready.expect("the process is ready"), "ready");
        child
    };
    let mut first = start(&other);
    tool.finds(&[]);
    let mut second = start(Known::Jeton.library().expect("the module").to_str().expect("UTF-8"));
    tool.finds(&["other-versions"]);
    fs::remove_file(&other).expect("a file");
    let all = tool.finds(&["other-versions"]);
    let expected = format!("restart the processes {}", first.id());
    assert_eq!(all[0]["remedy"], expected);
    for child in [&mut first, &mut second] {
        assert!(matches!(child.finish(LIMIT), Silence::Ended(status) if status.success()));
    }
    tool.finds(&[]);
}

/// The longest time for which a process may print nothing.
const LIMIT: Duration = Duration::from_secs(60);

/// Not a test: another test starts this function in a process of its own. The process uses the
/// token until its standard input ends.
#[test]
fn process_of_another_test() {
    let Some(module) = jeton_child::role::<String>() else { return };
    let (_module, _session) = log_in(module.expect("a path"), None);
    jeton_child::say(&"ready");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("a pipe");
}

#[test]
fn keys_that_the_policy_cnsa2_refuses_are_findings() {
    let Some((tool, _)) = setup() else { return };
    tool.ok("key generate --type ml-dsa-87 --label good");
    tool.finds(&[]);
    tool.write("conf", "[policy]\nname = 'cnsa2'\n");
    let found = tool.finds(&["cnsa2"]);
    let says = |row: &Value| row["problem"] == "the policy cnsa2 refuses the key \"key\" (CKK_EC)";
    assert!(found.len() == 2 && found.iter().all(says), "{found:?}");
    // `key generate` and `ca profiles` follow the policy.
    tool.ok("key generate --type ml-dsa-87 --label other");
    refused(&mut tool.command("key generate --type ec:p384 --label third"), "jeton mechanisms");
    refused(&mut tool.command("key generate --type ml-dsa-65 --label third"), "jeton mechanisms");
    let profiles = tool.ok("ca profiles");
    assert!(profiles.contains("keys = [\"ml-dsa-87\"]") && !profiles.contains("\"ec:p256\""), "{profiles}");
}
