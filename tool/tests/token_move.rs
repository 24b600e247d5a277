//! `jeton token move` between the token directory and a PostgreSQL database, and `jeton doctor` and
//! `jeton token delete` with a token in a database.
//!
//! `JETON_MOVE_ROUNDS` is the number of moves that are killed. The default is 12.
//!
//! The tests do nothing if the module is not built, or if the tool was built without the client of
//! PostgreSQL. If PostgreSQL is not installed, they fail in CI, and do nothing elsewhere.

mod common;
#[path = "../../tests/token/server.rs"]
#[allow(dead_code, reason = "the tests of the core use the rest")]
mod server;

use std::ops::Deref;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use jeton_tool::client::User;
use server::{Server, USER, binaries};

/// The labels of the objects of the token.
const LABELS: [&str; 2] = ["key", "other"];

/// A directory with one token, and a schema of the database without tokens.
struct Setup {
    tool: Tool,
    server: &'static Server,
    schema: String,
    serial: String,
}

impl Deref for Setup {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        &self.tool
    }
}

impl Setup {
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        peer(Known::Jeton)?;
        let Some(server) = Server::shared() else {
            jeton_programs::skip_without("PostgreSQL", &["postgresql"]);
            return None;
        };
        let schema = format!("move_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut setup = Self { tool: Tool::empty()?, server, schema, serial: String::new() };
        setup.configure("");
        if run(&mut setup.in_database("config check")).0 != 0 {
            skip("the tool was built without the client of PostgreSQL");
            return None;
        }
        setup.ok("token init --label mine");
        for label in LABELS {
            setup.ok(&format!("key generate --type ec:p256 --label {label}"));
        }
        setup.serial = setup.tool.serial();
        Some(setup)
    }

    /// Writes two configurations: one without and one with the database. Both have `more` in
    /// `[store]`.
    fn configure(&self, more: &str) {
        self.configure_as(USER, more);
    }

    fn configure_as(&self, role: &str, more: &str) {
        let text = format!("{CHEAP}[store]\n{more}");
        let url = self.server.url().replace(&format!("//{USER}@"), &format!("//{role}@"));
        let database = format!("{text}\nurl = \"{url}\"\nschema = \"{}\"\n", self.schema);
        self.write("conf", text);
        self.write("database.toml", database);
    }

    /// Returns a command whose configuration names the database. That of [`Tool::command`] names
    /// none.
    fn in_database(&self, line: &(impl Line + ?Sized)) -> Command {
        let mut command = self.command(line);
        command.env("JETON_CONF", self.file("database.toml"));
        command
    }

    fn moving(&self, to: &str) -> Command {
        self.in_database(&format!("token move --to {to} --serial {}", self.serial))
    }

    /// Returns the name of a file of the token, in the token directory.
    fn token(&self, extension: &str) -> String {
        format!("{0}/{0}.{extension}", self.serial)
    }

    /// Returns the names of the files in the token directory, without the files that SQLite and
    /// Jeton keep beside a token file (`….jeton-…`).
    fn token_files(&self) -> Vec<String> {
        self.files("tokens").into_iter().filter(|name| !name.contains(".jeton-")).collect()
    }

    /// Returns whether the directory has the token, and whether the database has it.
    fn places(&self) -> (bool, bool) {
        let database = self.sql(&format!("SELECT count(*) FROM token WHERE serial = '{}'", self.serial));
        (self.files("tokens").contains(&self.token("jeton")), database == "1")
    }

    /// Runs SQL as the superuser, in the schema of the token. Returns the rows.
    fn sql(&self, sql: &str) -> String {
        let mut command = Command::new(binaries().expect("PostgreSQL").join("psql"));
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        command.arg("--host").arg(&self.server.directory).args(["--username", USER]);
        let sql = format!("SET client_min_messages = error; SET search_path = {}; {sql}", self.schema);
        succeed(command.args(["--command", &sql, "postgres"])).trim_end().to_owned()
    }

    /// Makes the tables: the first command that uses the database creates them.
    fn make_tables(&self) {
        succeed(&mut self.in_database("token list"));
    }

    /// Makes the server run `action` in each commit that inserts or deletes a token. The action
    /// waits, or makes the commit fail.
    fn at_commit(&self, action: &str) {
        self.sql(&format!(
            "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {action}; RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER acting AFTER INSERT OR DELETE ON token DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION {}.act()",
            self.schema
        ));
    }

    /// Checks that the token has both private keys, and that both sign.
    fn check(&self, make: impl Fn(&str) -> Command) {
        let listed = succeed(&mut make("object list --json --login --class private"));
        let all: Vec<Value> = serde_json::from_str(&listed).expect("a list");
        let labels: BTreeSet<_> = all.iter().map(|row| row["label"].as_str()).collect();
        assert_eq!(labels.len(), LABELS.len(), "{listed}");
        self.write("message", "hello");
        for label in LABELS {
            succeed(&mut make(&format!("sign message --label {label} --out signature --force")));
            succeed(&mut make(&format!("verify message --label {label} --signature signature")));
        }
    }

    /// Checks that exactly one store has the token, and that the token is complete.
    fn check_either(&self) {
        match self.places() {
            (true, false) => self.check(|line| self.command(line)),
            (false, true) => self.check(|line| self.in_database(line)),
            places => panic!("directory and database: {places:?}, {:?}", self.token_files()),
        }
    }

    /// Checks that `doctor` has these findings and no others, except those that the machine, the
    /// fast server of the tests and their weak PIN records cause. Returns them.
    fn finds(&self, expected: &[&str]) -> Vec<Value> {
        let ignored = ["memory-lock", "database-durability", "weak-pin-record"];
        named(findings(&mut self.in_database("doctor --json"), &ignored), expected)
    }
}

fn kill(mut child: Child) {
    // The process may already have ended.
    let _ = child.kill();
    child.wait().expect("the tool");
}

fn until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_token_moves_to_the_database_and_back() {
    let Some(setup) = Setup::new() else { return };
    let wrong = run(setup.command("object list --login").env("JETON_PIN", "wrong PIN"));
    assert_ne!(wrong.0, 0);
    let info = |command: &mut Command| {
        let text = succeed(command);
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = info(&mut setup.command("token info"));
    assert!(before.iter().any(|line| line.contains("1 of 10 wrong PINs")), "{before:?}");

    let moved = succeed(setup.moving("database").arg("--json"));
    let moved: Value = serde_json::from_str(&moved).expect("JSON");
    assert_eq!(moved["serial"], setup.serial);
    assert_eq!((&moved["label"], &moved["objects"]), (&"mine".into(), &4.into()));
    assert_eq!(moved["finished"], false);
    assert!(moved["to"].as_str().is_some_and(|to| to.starts_with("postgresql://")), "{moved}");
    assert_eq!(setup.files("tokens"), BTreeSet::new());
    assert_eq!(info(&mut setup.in_database("token info")), before);
    setup.check(|line| setup.in_database(line));
    for line in ["backup create copy", "rekey --format fips --backup copy"] {
        refused(&mut setup.in_database(line), "tools of PostgreSQL");
    }
    assert!(!Path::new(&setup.file("postgresql:")).exists());

    let text = succeed(&mut setup.moving("directory"));
    assert!(text.contains("4 objects") && text.contains("has no [store] url"), "{text}");
    assert_eq!(setup.places(), (true, false));
    setup.check(|line| setup.command(line));
    assert_eq!(setup.sql("SELECT count(*) FROM object"), "0");
}

#[test]
fn a_move_logs_out_a_program_that_uses_the_file() {
    let Some(setup) = Setup::new() else { return };
    let parameters =
        format!("token-dir = '{}', pin = {{ memory-kib = 8, passes = 1 }}", setup.file("tokens"));
    let (module, session) = log_in(Known::Jeton.library().expect("the module"), Some(&parameters));
    assert_eq!(session.find(&[]).expect("a search").len(), 4);
    succeed(&mut setup.moving("database"));
    let refused = session.find(&[]).expect_err("the token was moved");
    assert!(refused.code_name().starts_with("CKR_DEVICE_REMOVED"), "{}", refused.code_name());
    assert!(session.find(&[]).map_or(true, |found| found.is_empty()));
    assert!(session.login(User::User, Some(PIN)).is_err());
    drop(session);
    module.finalize().expect("a module");
    setup.check_either();
}

#[test]
fn a_move_that_cannot_be_done_changes_nothing() {
    let Some(setup) = Setup::new() else { return };
    let refuses = |command: &mut Command, code: i32, reason: &str| {
        let (found, text) = run(command);
        assert!(found == code && text.contains(reason), "{found}: {text}");
        assert_eq!(setup.places(), (true, false));
    };
    setup.make_tables();
    refuses(&mut setup.command("token move --to database"), 1, "[store] url");
    refuses(&mut setup.in_database("token move"), 2, "--to");
    refuses(&mut setup.in_database("token move --to elsewhere"), 2, "possible values");
    refuses(&mut setup.moving("directory"), 1, "no such token in the database");
    let other = setup.in_database("token move --to database --token other");
    refuses(&mut { other }, 1, "no such token in the token directory");

    setup.configure(&format!("counter-dir = \"{}\"", setup.path().display()));
    let counter = setup.file(&format!("{}.counter", setup.serial));
    fs::write(&counter, "1000").expect("a file");
    refuses(&mut setup.moving("database"), 1, "later state");
    fs::remove_file(&counter).expect("a file");
    setup.configure("");

    let row = format!("'{}', 0, repeat(' ', 32)::bytea, '', 0, '', 0, 0, ''", setup.serial);
    setup.sql(&format!("INSERT INTO token VALUES ({row}); "));
    says(fails(1, &mut setup.moving("database")), "has a token with the serial number");
    setup.sql("DELETE FROM token");

    setup.at_commit("RAISE EXCEPTION 'no commit today'");
    refuses(&mut setup.moving("database"), 1, "the token is in the token directory");
    assert_eq!(setup.token_files(), [setup.token("jeton")]);
    setup.sql("DROP TRIGGER acting ON token");
    setup.check_either();
    succeed(&mut setup.moving("database"));
}

#[test]
fn a_damaged_token_stays_where_it_is() {
    let Some(setup) = Setup::new() else { return };
    let file = setup.file(&format!("tokens/{}", setup.token("jeton")));
    let store = rusqlite::Connection::open(&file).expect("a token");
    store.execute_batch("CREATE TEMP TABLE old AS SELECT * FROM record; DELETE FROM record WHERE id = (SELECT max(id) FROM record)").expect("SQL");
    says(fails(8, &mut setup.moving("database")), "its record is missing");
    store.execute_batch("DELETE FROM record; INSERT INTO record SELECT * FROM old").expect("SQL");
    drop(store);
    succeed(&mut setup.moving("database"));
    setup.sql("UPDATE object SET tag = set_byte(tag, 0, 255 - get_byte(tag, 0)) WHERE id = (SELECT min(id) FROM object)");
    says(fails(8, &mut setup.moving("directory")), "not the one that its row names");
    assert_eq!((setup.places(), setup.token_files()), ((false, true), vec![]));
    setup.finds(&["damaged", "database-rights"]);
}

#[test]
fn a_move_that_is_killed_at_any_time_is_finished_or_undone_by_the_next() {
    let Some(setup) = Setup::new() else { return };
    setup.make_tables();
    // An even number: each pause comes once in each direction.
    let rounds = number("JETON_MOVE_ROUNDS", 12);
    let mut interrupted = 0;
    for round in 0..rounds {
        let to = if setup.places().0 { "database" } else { "directory" };
        let child = setup.moving(to).stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("the tool");
        sleep(Duration::from_millis(20 + 60 * (round / 2 * 2) / rounds));
        kill(child);
        interrupted += i32::from(setup.token_files().iter().any(|name| name.ends_with(".moving")));
        assert_ne!(setup.places(), (true, true));
        let (_, text) = run(&mut setup.moving(to));
        let at_home = if to == "database" { (false, true) } else { (true, false) };
        assert_eq!(setup.places(), at_home, "{text}");
        assert!(
            !setup.token_files().iter().any(|name| name.ends_with(".moving")),
            "{:?}",
            setup.token_files()
        );
    }
    println!("{interrupted} of {rounds} moves were interrupted between their steps");
    setup.check_either();
}

#[test]
fn a_move_that_is_killed_while_the_server_commits_is_finished() {
    let Some(setup) = Setup::new() else { return };
    setup.make_tables();
    setup.at_commit("PERFORM pg_sleep(1)");
    let moving = setup.token("moving");
    for (to, at_home) in [("database", (false, true)), ("directory", (true, false))] {
        let child = setup.moving(to).stdout(Stdio::null()).spawn().expect("the tool");
        let commits = "SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'";
        until(|| setup.sql(commits) == "1");
        kill(child);
        // At this moment neither store has the token.
        assert_eq!(setup.token_files(), [&*moving]);
        if to == "database" {
            setup.finds(&["interrupted-move", "database-rights"]);
        }
        // While the server commits, it does not notice that the client has ended. So the next move
        // waits.
        says(succeed(&mut setup.moving(to)), "Finished or undid an earlier move");
        assert_eq!(setup.places(), at_home);
        setup.check_either();
    }
}

#[test]
fn an_undone_move_does_not_name_a_store_that_never_had_the_token() {
    let Some(setup) = Setup::new() else { return };
    setup.make_tables();
    // A move to the database was killed before it removed the token's file.
    let [file, moving] = ["jeton", "moving"].map(|end| format!("tokens/{}", setup.token(end)));
    fs::copy(setup.file(&file), setup.file(&moving)).expect("a file");
    let moved = succeed(setup.moving("directory").arg("--json"));
    let moved: Value = serde_json::from_str(&moved).expect("JSON");
    assert_eq!((&moved["finished"], &moved["from"]), (&true.into(), &Value::Null));
    assert!(moved["to"].as_str().is_some_and(|to| to.ends_with(&file)), "{moved}");
    assert_eq!(setup.places(), (true, false));
    setup.check_either();
}

#[test]
fn doctor_examines_the_database() {
    let Some(setup) = Setup::new() else { return };
    succeed(&mut setup.moving("database"));
    let all = setup.finds(&["database-rights"]);
    assert!(all[0]["problem"].as_str().is_some_and(|text| text.contains("is a superuser")), "{all:?}");

    let (role, schema) = (format!("{}_host", setup.schema), &setup.schema);
    setup.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON format TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON token, object, attempt TO {role}"
    ));
    setup.configure_as(&role, "");
    setup.finds(&[]);
    setup.check(|line| setup.in_database(line));
    setup.sql(&format!("REVOKE INSERT, DELETE ON object FROM {role}"));
    let all = setup.finds(&["database-rights"]);
    let remedy = all[0]["remedy"].as_str().expect("a remedy");
    assert!(["INSERT", "DELETE", "ON object"].iter().all(|word| remedy.contains(word)), "{remedy}");
    setup.sql(&format!("GRANT INSERT, DELETE ON object TO {role}"));

    setup.sql("UPDATE token SET user_failures = 10");
    setup.finds(&["locked-pin"]);
    setup.sql("UPDATE token SET user_failures = 0");
    setup.write(&format!("tokens/{}.jeton", setup.serial), "");
    setup.finds(&["duplicate"]);
}

#[test]
fn doctor_finds_a_server_that_does_not_answer() {
    let Some(setup) = Setup::new() else { return };
    let database = fs::read_to_string(setup.file("database.toml")).expect("a file");
    let elsewhere = database.replace("port=5432", "port=5433");
    setup.write("database.toml", elsewhere);
    setup.finds(&["database"]);
}

#[test]
fn tables_of_a_later_version_are_refused_and_stay_as_they_are() {
    let Some(setup) = Setup::new() else { return };
    setup.make_tables();
    for (format, reason) in [("2", "install the later version"), ("0", "no version of Jeton writes")] {
        setup.sql(&format!("UPDATE format SET version = {format}"));
        refused(&mut setup.in_database("token info"), reason);
        setup.finds(&["database"]);
        refused(&mut setup.moving("database"), reason);
        assert_eq!(setup.sql("SELECT version FROM format"), format);
    }
    assert_eq!(setup.places(), (true, false));
}

#[test]
fn a_token_of_the_database_is_deleted() {
    let Some(setup) = Setup::new() else { return };
    succeed(&mut setup.moving("database"));
    let text = succeed(&mut setup.in_database("token delete --token mine --yes"));
    assert!(text.contains("removed postgresql://") && text.contains(&setup.serial), "{text}");
    assert_eq!(setup.sql("SELECT count(*) FROM token, object"), "0");
    let (code, text) = run(&mut setup.in_database(&format!("token delete --serial {} --yes", setup.serial)));
    assert_ne!(code, 0, "{text}");
}
