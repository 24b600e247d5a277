//! Backups of a token in use, killed runs, wrong keys, a full disk, hostile backups, and conflicts
//! of a restored token with other files.
//!
//! In one test four processes create keys and sign while the token is backed up.
//! `JETON_BACKUP_SECONDS` is the duration of this test in seconds. The default is 4. In another
//! test
//! `JETON_BACKUP_ROUNDS` backups and as many restores are killed. The default is 12.

mod common;

use common::*;
use cryptoki_sys::*;
use jeton_child::{Child, Silence};
use jeton_tool::Error;
use jeton_tool::backup::{Protection, recipient_of};
use jeton_tool::client::{Attribute, Mechanism, ObjectHandle, Session, names};
use serde::{Deserialize, Serialize};

const WORKERS: usize = 4;
/// The page size of a token file.
const PAGE: usize = 4096;
/// The limits of a command that reads a hostile backup: the processor time in seconds, and the
/// memory in KiB.
const LIMITS: &str = "ulimit -t 20 -v 4000000";
/// The DER of the OID of P-256.
const P256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";

/// Makes a token with a key, and an identity in a file. Returns `None` if the module is not built.
fn setup() -> Option<Tool> {
    let tool = Tool::new()?;
    tool.ok("key generate --type ec:p256 --label first --id 01");
    let said = tool.ok("backup new-key identity");
    assert_eq!(said.trim(), format!("Recipient: {}", tool.recipient("identity")));
    Some(tool)
}

impl Tool {
    /// Returns the recipient of an identity.
    fn recipient(&self, identity: &str) -> String {
        recipient_of(Path::new(&self.file(identity))).expect("an identity")
    }

    fn create(&self, file: &str) -> String {
        format!("backup create {file} --recipient {}", self.recipient("identity"))
    }

    fn back_up(&self, file: &str) {
        self.ok(&self.create(file));
    }

    fn restore(&self, file: &str, tokens: &str, more: &str) -> Value {
        let line = format!("backup restore {file} --identity identity --json {more}");
        serde_json::from_str(&succeed(&mut self.command_in(tokens, &line))).expect("JSON")
    }

    fn labels(&self, tokens: &str) -> BTreeSet<String> {
        let list = succeed(&mut self.command_in(tokens, "object list --json"));
        let list: Vec<Value> = serde_json::from_str(&list).expect("a list");
        list.iter().filter_map(|object| Some(object["label"].as_str()?.to_owned())).collect()
    }

    fn has(&self, name: &str) -> bool {
        Path::new(&self.file(name)).exists()
    }
}

const RESTORE: &str = "backup restore backup --identity identity";

#[test]
fn a_backup_for_recipients_is_verified_and_restored_by_each_of_them() {
    let Some(tool) = setup() else { return };
    tool.ok("backup new-key second");
    tool.write("all", format!("# both\n{}\n{}\n", tool.recipient("identity"), tool.recipient("second")));
    says(tool.ok("backup create backup --recipients-file all"), "Every record opens.");
    assert_eq!(fs::metadata(tool.file("backup")).expect("a file").mode() & 0o777, 0o600);
    for identity in ["identity", "second"] {
        says(tool.ok(&format!("backup verify backup --identity {identity}")), "Every record opens.");
    }
    says(succeed(&mut tool.without_pins("backup verify backup --identity second")), "were not opened");
    tool.ok("backup new-key stranger");
    refused(&mut tool.command("backup verify backup --identity stranger"), "for other keys");
    refused(&mut tool.command("backup verify backup"), "give an --identity");
    let restored = tool.restore("backup", "restored", "");
    assert_eq!(restored["label"], "mine");
    assert_eq!(tool.labels("restored"), tool.labels("tokens"));
    assert_eq!(tool.files("tokens").iter().filter(|name| name.ends_with(".backup")).count(), 0);
}

#[test]
fn a_backup_with_a_passphrase_is_restored_on_another_file_system() {
    let Some(tool) = setup() else { return };
    tool.ok("backup create backup");
    let mut wrong = tool.command_in("tokens", "backup verify backup");
    refused(wrong.env("JETON_BACKUP_PASSPHRASE", "another passphrase"), "the passphrase is wrong");
    refused(&mut tool.command("backup verify backup --identity identity"), "has a passphrase");
    let mut short = tool.command_in("tokens", "backup create other");
    refused(short.env("JETON_BACKUP_PASSPHRASE", "short"), "at least 12");
    assert!(!tool.has("other"));
    // A file system in memory, if the machine has one.
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let tokens = memory.path().join("tokens");
    let tokens = tokens.to_str().expect("UTF-8");
    let mut command = tool.command_in("tokens", "backup restore backup");
    succeed(command.env("JETON_DIR", tokens));
    let mut list = tool.command_in("tokens", "object list");
    assert!(succeed(list.env("JETON_DIR", tokens)).contains("first"));
}

#[test]
fn a_backup_goes_through_a_pipe_and_replaces_no_file() {
    let Some(tool) = setup() else { return };
    let mut stream = tool.command_in("tokens", &tool.create("-"));
    let bytes = stream.output().expect("the tool starts").stdout;
    tool.write("backup", &bytes);
    let mut verify = tool.command_in("tokens", "backup verify - --identity identity");
    verify.stdin(File::open(tool.file("backup")).expect("a file"));
    succeed(&mut verify);
    let again = tool.create("backup");
    refused(&mut tool.command(&again), "--force");
    assert_eq!(tool.read("backup"), bytes);
    tool.ok(&format!("{again} --force"));
    assert_ne!(tool.read("backup"), bytes);
    tool.fails(2, "backup create x --recipient age1x");
}

#[test]
fn an_altered_or_truncated_backup_is_refused_and_leaves_no_file() {
    let Some(tool) = setup() else { return };
    tool.back_up("backup");
    let whole = tool.read("backup");
    let check = |bytes: &[u8], what: &str| {
        tool.write("bad", bytes);
        for verb in ["verify", "restore"] {
            let mut command = tool.command_in("other", &format!("backup {verb} bad --identity identity"));
            let (code, text) = run(&mut command);
            assert!(code > 0 && code != 2 && !text.contains("panicked"), "{what}: exit {code}: {text}");
            assert!(code == 8 || !what.starts_with("cut"), "{what}: exit {code}: {text}");
        }
        assert!(tool.files("other").is_empty(), "{what}");
    };
    for at in [0, 30, 100, 250, whole.len() / 2, whole.len() - 1] {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        check(&altered, &format!("byte {at}"));
    }
    for len in [0, 20, 200, whole.len() / 2, whole.len() - 1] {
        check(&whole[..len], &format!("cut at {len}"));
    }
}

/// Returns a command that runs the tool within [`LIMITS`], with the output of `input` as its
/// standard input.
fn limited(tool: &Tool, input: &str, line: &str) -> Command {
    let command = tool.command_in("other", line);
    let mut shell = Command::new("bash");
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(tool.path()).args(["-c", &format!("{input} | {{ {LIMITS}; exec \"$0\" \"$@\"; }}")]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

#[test]
fn a_backup_with_an_endless_header_is_refused() {
    let Some(tool) = setup() else { return };
    for endless in ["tr '\\0' a </dev/zero", "yes -- $'-> a\\n'"] {
        let input = format!("{{ printf 'age-encryption.org/v1\\n-> '; {endless}; }}");
        let mut verify = limited(&tool, &input, "backup verify - --identity identity");
        says(fails(1, &mut verify), "its header has more than");
    }
}

/// Everyone who knows a recipient can make a backup for this recipient.
#[test]
fn a_hostile_store_inside_a_valid_backup_is_refused_and_leaves_no_file() {
    let Some(tool) = setup() else { return };
    tool.back_up("backup");
    let header = tool.ok("backup verify backup --identity identity --json");
    let header: Value = serde_json::from_str(&header).expect("JSON");
    let token = rusqlite::Connection::open(tool.token_file("tokens")).expect("a token");
    let copy = tool.file("copy");
    token.execute("VACUUM INTO ?1", [&copy]).expect("a copy");
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'object'";
    let objects: usize = token.query_row(root, [], |row| row.get(0)).expect("a table");
    let store = fs::read(copy).expect("a file");
    let elsewhere = serde_json::json!({ "serial": "../0123456789abc" });
    let cases = [
        (&header, store.clone(), None),
        (&elsewhere, store.clone(), Some("the header of the backup is malformed")),
        (&with(&header, "serial", "../0123456789abc"), store.clone(), Some("is not the serial number")),
        (&with(&header, "label", "other"), store.clone(), Some("does not fit its store")),
        (&header, with_shared_pages(&store, 1), Some("not a token that this version knows")),
        (&header, with_shared_pages(&store, objects), Some("the token is damaged: Tree")),
        (&header, store[..store.len() / 2].to_vec(), Some("")),
        (&header, Vec::new(), Some("not a token that this version knows")),
    ];
    for (header, store, expected) in cases {
        let content = [b"jeton backup 1\n", header.to_string().as_bytes(), b"\n", &store].concat();
        tool.write("hostile", encrypted(&tool.recipient("identity"), &content));
        for verb in ["verify", "restore"] {
            let line = format!("backup {verb} hostile --identity identity");
            let (code, text) = run(&mut limited(&tool, ":", &line));
            assert_eq!(code != 0, expected.is_some(), "{verb}: {text}");
            assert!(text.contains(expected.unwrap_or_default()), "{verb}: {text}");
            assert!(!text.contains("panicked"), "{verb}: {text}");
        }
        assert!(expected.is_none() || tool.files("other").is_empty());
        let _ = fs::remove_dir_all(tool.file("other"));
    }
}

fn with(header: &Value, name: &str, value: &str) -> Value {
    let mut header = header.clone();
    header[name] = value.into();
    header
}

fn encrypted(recipient: &str, content: &[u8]) -> Vec<u8> {
    let protection = Protection::Recipients(vec![recipient.parse().expect("a recipient")]);
    let mut file = Vec::new();
    let write = |plain: &mut dyn Write| plain.write_all(content).map_err(Error::io("memory"));
    protection.encrypt(&mut file, write).expect("memory");
    file
}

/// Adds 16 levels of pages between the root page of a table and its rows. Each added page, and the
/// root page, names the same child 101 times. So the table seems to have 101^17 times as many rows.
fn with_shared_pages(store: &[u8], root: usize) -> Vec<u8> {
    const LEVELS: usize = 16;
    // The header of the file is in the first page.
    let start = if root == 1 { 100 } else { 0 };
    let mut store = store.to_vec();
    let added = store.len() / PAGE + 1;
    let mut rows = store[(root - 1) * PAGE..root * PAGE].to_vec();
    assert_eq!(rows[start], 13, "a page without children");
    rows.copy_within(start..PAGE / 2, 0);
    let top = page_of_one_child(added, start);
    store[(root - 1) * PAGE + start..root * PAGE].copy_from_slice(&top[start..]);
    store.extend((1..=LEVELS).flat_map(|level| page_of_one_child(added + level, 0)));
    store.extend(rows);
    let pages = (store.len() / PAGE) as u32;
    store[28..32].copy_from_slice(&pages.to_be_bytes());
    store
}

/// A page that names this child 101 times ("Database File Format" of SQLite's manual).
fn page_of_one_child(child: usize, start: usize) -> Vec<u8> {
    const CELLS: usize = 100;
    let child = (child as u32).to_be_bytes();
    let content = PAGE - 5 * CELLS;
    let mut page = vec![0; PAGE];
    page[start] = 5;
    page[start + 3..start + 5].copy_from_slice(&(CELLS as u16).to_be_bytes());
    page[start + 5..start + 7].copy_from_slice(&(content as u16).to_be_bytes());
    page[start + 8..start + 12].copy_from_slice(&child);
    for cell in 0..CELLS {
        let (place, at) = (start + 12 + 2 * cell, content + 5 * cell);
        page[place..place + 2].copy_from_slice(&(at as u16).to_be_bytes());
        page[at..at + 4].copy_from_slice(&child);
        page[at + 4] = cell as u8;
    }
    page
}

#[test]
fn a_file_with_too_many_recipients_is_refused() {
    let Some(tool) = setup() else { return };
    let all = format!("{}\n", tool.recipient("identity")).repeat(1041);
    tool.write("all", &all);
    let create = "backup create backup --recipients-file all";
    refused(&mut tool.command(create), "the file has more than");
    tool.write("all", &all[..all.len() / 1041 * 1040]);
    tool.ok(create);
    tool.ok("backup verify backup --identity identity");
    let twice = format!("{create} --recipients-file all --force");
    refused(&mut tool.command(&twice), "its header has more than");
    tool.ok("backup verify backup --identity identity");
}

#[test]
fn a_damaged_token_is_not_backed_up() {
    let Some(tool) = setup() else { return };
    let store = rusqlite::Connection::open(tool.token_file("tokens")).expect("a token");
    store.execute("DELETE FROM record WHERE id = (SELECT max(id) FROM record)", []).expect("a row");
    drop(store);
    refused(&mut tool.command(&tool.create("backup")), "its record is missing");
    assert!(!tool.has("backup"));
}

#[test]
fn an_altered_record_is_found_only_with_a_pin() {
    let Some(tool) = setup() else { return };
    let store = rusqlite::Connection::open(tool.token_file("tokens")).expect("a token");
    let sql = "UPDATE record SET body = CAST(substr(body, 1, 40) || x'0001' || substr(body, 43) AS BLOB)
               WHERE id = (SELECT id FROM object WHERE private LIMIT 1)";
    assert_eq!(store.execute(sql, []), Ok(1));
    drop(store);
    let create = tool.create("backup");
    refused(&mut tool.command(&create), "its record was altered");
    succeed(&mut tool.without_pins(&create));
}

#[test]
fn a_restored_token_has_a_later_state_than_its_original_and_the_counter() {
    let Some(tool) = setup() else { return };
    let counters = tool.file("counters");
    fs::create_dir(&counters).expect("a directory");
    tool.configure(&format!("[store]\ncounter-dir = {counters:?}\n"));
    tool.ok("key generate --type aes:256 --label second");
    tool.back_up("backup");
    tool.ok("key generate --type aes:256 --label third");
    // The original token prevents the restore.
    let taken = fails(4, &mut tool.command(RESTORE));
    says(taken, "move it away first, or restore with a new serial number");
    fs::rename(tool.file("tokens"), tool.file("old")).expect("a directory");
    // The state of the backup is older than the counter.
    refused(&mut tool.command(&format!("{RESTORE} --as-it-is")), "the counter knows a later state");
    let mut wrong = tool.command_in("tokens", RESTORE);
    refused(wrong.env("JETON_PIN", "wrong pin"), "the PIN is wrong");
    tool.ok(RESTORE);
    assert_eq!(tool.labels("tokens"), ["first", "second"].map(str::to_owned).into());
    tool.ok("key generate --type aes:256 --label fourth");
    // The original is now older than the counter.
    refused(&mut tool.command_in("old", "object list"), "older copy");
}

#[test]
fn a_restored_token_with_a_new_serial_number_works_beside_its_original() {
    let Some(tool) = setup() else { return };
    tool.back_up("backup");
    let restored = tool.restore("backup", "tokens", "--new-serial");
    let serial = restored["serial"].as_str().expect("a serial");
    let list = tool.rows("token list --json");
    let serials: BTreeSet<_> = list.iter().map(|slot| slot["token"]["serial"].to_string()).collect();
    assert_eq!(serials.len(), 3, "{list:?}");
    let find = format!("object list --serial {serial} --label first --json");
    assert_eq!(tool.rows(&find).len(), 2);
    tool.write("message", "message");
    let name = "--label first --class private --out signature";
    tool.ok(&format!("sign message --serial {serial} {name}"));
    let files = tool.files("tokens");
    let mut serials = files.iter().filter_map(|name| name.strip_suffix(".jeton")?.split('/').next());
    let original = serials.find(|name| *name != serial).expect("the original");
    tool.ok(&format!("verify message --serial {original} --label first --signature signature"));
    // Each token has its own token key, so a new key for one token does not change the other token.
    tool.ok(&format!("rekey --serial {serial}"));
    tool.ok(&format!("object list --login --serial {original}"));
}

#[test]
fn only_the_original_token_uses_a_key_that_counts_its_uses() {
    let Some(tool) = setup() else { return };
    let uses = |tokens: &str, code| {
        assert!(succeeds(&mut worker(&tool, tokens, &Role::Use(code))), "{tokens}");
    };
    assert!(succeeds(&mut worker(&tool, "tokens", &Role::Limit)));
    tool.back_up("backup");
    uses("tokens", CKR_OK);
    tool.restore("backup", "independent", "--new-serial");
    uses("independent", CKR_KEY_EXHAUSTED);
    tool.restore("backup", "later", "");
    uses("later", CKR_KEY_EXHAUSTED);
    // A new token key is no copy.
    tool.ok("rekey");
    for code in [CKR_OK, CKR_OK, CKR_OK, CKR_OK, CKR_KEY_EXHAUSTED] {
        uses("tokens", code);
    }
}

#[test]
fn a_restore_beside_the_write_ahead_log_of_an_earlier_token_is_refused() {
    let Some(tool) = setup() else { return };
    tool.back_up("backup");
    let token = tool.token_file("tokens");
    fs::remove_file(&token).expect("a file");
    fs::write(format!("{token}-wal"), "left over").expect("the directory is writable");
    refused(&mut tool.command(RESTORE), "jeton-wal");
    assert!(!Path::new(&token).exists());
}

#[test]
fn the_sealing_key_is_needed_to_open_the_records_of_a_backup() {
    let Some(tool) = setup() else { return };
    tool.ok("sealing-key new sealing");
    tool.configure(&format!("[store]\nsealing-key = \"file:{}\"\n", tool.file("sealing")));
    tool.ok("sealing-key set");
    tool.back_up("backup");
    tool.restore("backup", "restored", "");
    assert!(tool.labels("restored").contains("first"));
    tool.configure("");
    refused(&mut tool.command_in("third", RESTORE), "without the sealing key");
}

#[test]
fn a_killed_backup_or_restore_does_not_prevent_the_next_one() {
    let Some(tool) = setup() else { return };
    for number in 0..20 {
        tool.ok(&format!("key generate --type aes:256 --label key-{number}"));
    }
    tool.back_up("whole");
    let kill = |mut command: Command, after: u64| {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the tool starts");
        sleep(Duration::from_millis(after));
        let _ = child.kill();
        child.wait().expect("it ends").success()
    };
    let rounds = number("JETON_BACKUP_ROUNDS", 12);
    for after in (0..rounds).map(|round| 25 * round / rounds) {
        kill(tool.command_in("tokens", &format!("{} --force", tool.create("killed"))), after);
        if tool.has("killed") {
            tool.ok("backup verify killed --identity identity");
            fs::remove_file(tool.file("killed")).expect("a file");
        }
        let restore = "backup restore whole --identity identity";
        let tokens = format!("restored-{after}");
        let done = kill(tool.command_in(&tokens, restore), after);
        if !tool.files(&tokens).iter().any(|name| name.ends_with(".jeton")) {
            assert!(!done);
            succeed(&mut tool.command_in(&tokens, restore));
        }
        assert_eq!(tool.labels(&tokens).len(), 21);
    }
    tool.back_up("last");
    let rest = tool.files("tokens");
    assert!(!rest.iter().any(|name| name.ends_with(".backup") || name.ends_with(".new")), "{rest:?}");
    let rest = tool.files(".");
    assert!(!rest.iter().any(|name| name.starts_with(".tmp")), "{rest:?}");
}

#[test]
fn a_full_disk_leaves_no_backup() {
    let Some(tool) = setup() else { return };
    // `ulimit -f` makes a write fail, as a full disk does.
    let script = format!("ulimit -f 8; exec {} {}", env!("CARGO_BIN_EXE_jeton"), tool.create("small"));
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(tool.path());
    command.env("JETON_CONF", tool.file("conf")).env("JETON_DIR", tool.file("tokens"));
    fails(10, &mut command);
    assert!(!tool.has("small"));
    assert!(!tool.files("tokens").iter().any(|name| name.ends_with(".backup")));
}

/// The work of another process of this test, in the directory of the test.
#[derive(Serialize, Deserialize)]
enum Role {
    /// Generates key pairs until the file `stop` exists. Prints the label of each key that has
    /// signed.
    Work(usize),
    /// Checks that the token has these keys, and that all its keys sign.
    Check(BTreeSet<String>),
    /// Makes a key pair whose private key may be used five times.
    Limit,
    /// Signs with that key. Fails unless the outcome is this return code.
    Use(u64),
}

fn worker(tool: &Tool, tokens: &str, role: &Role) -> Child {
    let mut command = jeton_child::of_test("process_of_another_test", role);
    command.current_dir(tool.path());
    command.env("JETON_CONF", tool.file("conf")).env("JETON_DIR", tool.file(tokens));
    Child::start(&mut command).expect("this test starts")
}

/// Waits for a process. Returns whether it succeeded.
fn succeeds(child: &mut Child) -> bool {
    matches!(child.finish(jeton_child::UNLIMITED), Silence::Ended(status) if status.success())
}

/// Not a test: [`worker`] starts this function in a process of its own.
#[test]
fn process_of_another_test() {
    let Some(role) = jeton_child::role() else { return };
    let (_module, session) = log_in(Known::Jeton.library().expect("the module"), None);
    match role.expect("a role") {
        Role::Work(number) => generate_keys(&session, number),
        Role::Check(expected) => check_keys(&session, &expected),
        Role::Limit => limit_key(&session),
        Role::Use(code) => use_limited_key(&session, code),
    }
}

/// Each restored backup has every key that was acknowledged before the backup began, and all its
/// keys sign.
#[test]
fn a_backup_of_a_token_in_use_has_every_acknowledged_key() {
    let Some(tool) = setup() else { return };
    let seconds = number("JETON_BACKUP_SECONDS", 4);
    let mut workers: Vec<_> =
        (0..WORKERS).map(|number| worker(&tool, "tokens", &Role::Work(number))).collect();
    let mut acknowledged = BTreeSet::new();
    let mut hear = |acknowledged: &mut BTreeSet<String>| {
        for worker in &mut workers {
            acknowledged.extend(worker.waiting::<String>());
        }
    };
    let (begin, mut backups) = (Instant::now(), Vec::new());
    while begin.elapsed() < Duration::from_secs(seconds) {
        // A short test has short pauses.
        sleep(Duration::from_millis(250 * seconds.min(20)));
        hear(&mut acknowledged);
        let name = format!("backup-{}", backups.len());
        let start = Instant::now();
        tool.back_up(&name);
        backups.push((name, acknowledged.clone(), start.elapsed()));
    }
    tool.write("stop", "");
    assert!(workers.iter_mut().all(succeeds));
    assert!(backups.iter().any(|(_, acknowledged, _)| !acknowledged.is_empty()));
    for (name, acknowledged, elapsed) in backups {
        let tokens = format!("{name}-tokens");
        let objects = &tool.restore(&name, &tokens, "")["objects"];
        println!(
            "{name}: {} keys acknowledged before, {objects} objects, made in {:.2} s",
            acknowledged.len(),
            elapsed.as_secs_f64()
        );
        assert!(succeeds(&mut worker(&tool, &tokens, &Role::Check(acknowledged))), "{name}");
    }
}

fn generate_keys(session: &Session, number: usize) {
    let mechanism = Mechanism::new(CKM_EC_KEY_PAIR_GEN);
    for count in 0.. {
        if Path::new("stop").exists() {
            break;
        }
        let label = format!("{number}-{count}");
        let name = |more: Vec<Attribute>| {
            let both = [
                Attribute::flag(CKA_TOKEN, true),
                Attribute::bytes(CKA_LABEL, label.as_bytes()),
                Attribute::bytes(CKA_ID, label.as_bytes()),
            ];
            [&both[..], &more[..]].concat()
        };
        let public = name(vec![Attribute::bytes(CKA_EC_PARAMS, P256), Attribute::flag(CKA_VERIFY, true)]);
        let private = name(vec![Attribute::flag(CKA_SIGN, true)]);
        let (public, private) = session.generate_key_pair(&mechanism, &public, &private).expect("a pair");
        assert!(signs(session, private, public));
        jeton_child::say(&label);
    }
}

fn limit_key(session: &Session) {
    let name = [Attribute::flag(CKA_TOKEN, true), Attribute::bytes(CKA_ID, "limited")];
    let limit = Attribute::number(names::JETON_USES_LEFT, 5);
    let public = [&name[..], &[Attribute::bytes(CKA_EC_PARAMS, P256)]].concat();
    let private = [&name[..], &[limit]].concat();
    session.generate_key_pair(&Mechanism::new(CKM_EC_KEY_PAIR_GEN), &public, &private).expect("a pair");
}

fn use_limited_key(session: &Session, expected: u64) {
    let key = of_class(session, CKO_PRIVATE_KEY, Some(b"limited"))[0];
    session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key).expect("an operation");
    assert_eq!(session.sign(b"data", &mut [0; 64]).map_or_else(|failure| failure.code, |_| CKR_OK), expected);
}

fn check_keys(session: &Session, expected: &BTreeSet<String>) {
    let mut missing: BTreeSet<_> = expected.iter().map(String::as_str).collect();
    let labels: Vec<_> = of_class(session, CKO_PRIVATE_KEY, None)
        .into_iter()
        .map(|key| (key, session.attribute(key, CKA_ID).expect("an ID")))
        .collect();
    for (private, id) in &labels {
        let public = of_class(session, CKO_PUBLIC_KEY, Some(id));
        assert_eq!(public.len(), 1, "{id:?}");
        assert!(signs(session, *private, public[0]), "{id:?}");
        missing.remove(str::from_utf8(id).expect("a label"));
    }
    assert!(missing.is_empty(), "{missing:?}");
}

fn of_class(session: &Session, class: u64, id: Option<&[u8]>) -> Vec<ObjectHandle> {
    let mut template = vec![Attribute::number(CKA_CLASS, class)];
    template.extend(id.map(|id| Attribute::bytes(CKA_ID, id)));
    session.find(&template).expect("a search")
}

fn signs(session: &Session, private: ObjectHandle, public: ObjectHandle) -> bool {
    let (mechanism, mut signature) = (Mechanism::new(CKM_ECDSA_SHA256), [0; 64]);
    session.sign_init(&mechanism, private).expect("a key that signs");
    let len = session.sign(b"data", &mut signature).expect("a signature");
    session.verify_init(&mechanism, public).expect("a key that verifies");
    session.verify(b"data", &signature[..len]).expect("a verification")
}

#[test]
fn a_token_directory_that_everybody_may_change_gets_no_token() {
    let Some(tool) = setup() else { return };
    tool.back_up("backup");
    let open = tool.file("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("its owner");
    refused(&mut tool.command_in("open", RESTORE), "");
    assert!(tool.files("open").is_empty());
}
