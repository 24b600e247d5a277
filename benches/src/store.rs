//! A token file beside a token in a PostgreSQL database: changes of objects, the start, signatures,
//! and the delay until another process notices a change. The turns of the two stores alternate.
//! Writes `docs/benchmarks/store.md`.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cryptoki_sys::{CKA_LABEL, CKA_SIGN, CKM_ECDSA, CKR_KEY_HANDLE_INVALID};
use jeton_child::Child;
use jeton_client::{Access, Attribute, Failure, Mechanism, Module, ObjectHandle, Session, User};
use jeton_laboratory::figure::nanoseconds;
use jeton_laboratory::{Interval, Machine, Table, median};
use jeton_peers::PIN;

use super::{AnyError, child};
use crate::artefacts::{Artefacts, write_page};
use crate::child::{Instance, Role, Work, in_turns};
use crate::instructions;
use crate::names::SIGNATURE;
use crate::scheme::{Scheme, named};
use crate::server::{Server, USER, binaries};
use crate::target::{Home, ModuleToken, aes_object, token_key};

const TURNS: usize = 15;
const CHANGES: usize = 40;
const SIGNATURES: usize = 2_000;
/// The objects of the token whose start is measured.
const COUNTS: [(usize, &str); 2] = [(10_000, "10,000"), (100_000, "100,000")];
const STARTS: usize = 11;
const NOTICES: usize = 11;
const MAKERS: usize = 8;
const BACKEND: &str = "aws-lc";
/// How long a process waits for a change of another one.
const PATIENCE: Duration = Duration::from_secs(60);
const READY: &str = "ready";
const NOTICED: &str = "noticed";

/// The seconds that the calls of a child took.
type Times = Vec<(String, Vec<f64>)>;

/// A token in a file or in a database.
struct Place<'a> {
    name: &'static str,
    artefacts: &'a Artefacts,
    directory: &'a Path,
    /// The address of the server; `None` for a file.
    url: Option<String>,
}

pub fn measure(artefacts: &Artefacts) -> Result<(), AnyError> {
    let Some(server) = Server::start("bench", "") else {
        println!("the store is not measured: PostgreSQL is not installed");
        return Ok(());
    };
    // The server's files are in this directory, too. So both stores use the same disk.
    let directory = tempfile::tempdir()?;
    let place = |name, url| Place { name, artefacts, directory: directory.path(), url };
    let places = [place("file", None), place("database", Some(server.url()))];
    if jeton_child::output(child::of_role(&Role::Load(places[1].instance("trial")))).is_err() {
        println!("the store is not measured: the module was built without the feature `postgresql`");
        return Ok(());
    }
    let mut table = Table::new(1, ["operation", "file", "database"]);
    let mut add = |name: &str, times: [Option<Vec<f64>>; 2]| {
        let [file, database] =
            times.map(|times| times.and_then(Interval::of).map_or_else(String::new, shown));
        println!("{name}: {file}, {database}");
        table.add([name.to_owned(), file, database]);
    };
    limits(&server, directory.path(), &mut add)?;
    changes(&places, &mut add)?;
    for (count, shown) in COUNTS {
        starts(&places, count, shown, &mut add)?;
    }
    notices(&places, &mut add)?;
    let page = [heading()?, table.markdown(), counted(&places)?].concat();
    write_page("store.md", &page)
}

type Add<'a> = dyn FnMut(&str, [Option<Vec<f64>>; 2]) + 'a;

/// Measures what a change waits for at least: a write to the disk of the machine, and a commit of
/// the server without Jeton.
fn limits(server: &Server, directory: &Path, add: &mut Add<'_>) -> Result<(), AnyError> {
    let (mut disk, mut commits) = (Vec::new(), Vec::new());
    pgbench(server, directory, &["--initialize", "--init-steps=dtgp", "--quiet"])?;
    let script = directory.join("commit.sql");
    let sql = "UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\n";
    fs::write(&script, sql)?;
    let file = File::create(directory.join("disk"))?;
    for _ in 0..TURNS {
        disk.push(write_to_disk(&file)?);
        commits.push(commit(server, directory, &script)?);
    }
    add("a write of 4 KiB and `fdatasync`, without Jeton", [Some(disk), None]);
    add("a commit of one row with `pgbench`, without Jeton", [None, Some(commits)]);
    Ok(())
}

/// Returns the median time of a write of 4 KiB and `fdatasync`.
pub(crate) fn write_to_disk(file: &File) -> std::io::Result<f64> {
    let mut times = Vec::new();
    for number in 0..CHANGES {
        let start = Instant::now();
        file.write_all_at(&[number as u8; 4096], 0)?;
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(median(times))
}

/// Returns the median time of a commit of one client of `pgbench`.
fn commit(server: &Server, directory: &Path, script: &Path) -> Result<f64, AnyError> {
    let (count, script) = (format!("--transactions={CHANGES}"), format!("--file={}", script.display()));
    let log = format!("--log-prefix={}", directory.join("commits").display());
    pgbench(server, directory, &["--no-vacuum", "--log", &count, &script, &log])?;
    let mut times = Vec::new();
    for entry in fs::read_dir(directory)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("commits") {
            let text = fs::read_to_string(entry.path())?;
            // The third number of a line is the time in microseconds.
            let time = |line: &str| line.split(' ').nth(2)?.parse::<f64>().ok();
            times.extend(text.lines().filter_map(time).map(|time| time / 1e6));
            fs::remove_file(entry.path())?;
        }
    }
    if times.is_empty() { Err("pgbench wrote no times".into()) } else { Ok(median(times)) }
}

fn pgbench(server: &Server, directory: &Path, arguments: &[&str]) -> Result<(), AnyError> {
    let mut command = program("pgbench")?;
    command.arg("--host").arg(&server.directory).arg(format!("--port={}", server.port));
    command.args(["--username", USER]).args(arguments).arg("postgres").current_dir(directory);
    jeton_child::output(command)?;
    Ok(())
}

fn program(name: &str) -> Result<Command, AnyError> {
    Ok(Command::new(binaries().ok_or("PostgreSQL is not installed")?.join(name)))
}

fn changes(places: &[Place<'_>; 2], add: &mut Add<'_>) -> Result<(), AnyError> {
    let instances = places.each_ref().map(|place| place.instance("changes"));
    for instance in &instances {
        run(instance, Work::Prepare(0))?;
    }
    let mut all: [Times; 2] = Default::default();
    in_turns(TURNS, 2, |number| {
        for (place, (name, times)) in run(&instances[number], Work::Change)?.into_iter().enumerate() {
            if place == all[number].len() {
                all[number].push((name, Vec::new()));
            }
            all[number][place].1.push(median(times));
        }
        Ok(())
    })?;
    let [file, database] = all;
    for ((name, file), (_, database)) in file.into_iter().zip(database) {
        add(&name, [Some(file), Some(database)]);
    }
    Ok(())
}

fn starts(places: &[Place<'_>; 2], count: usize, shown: &str, add: &mut Add<'_>) -> Result<(), AnyError> {
    let instances = places.each_ref().map(|place| place.instance(&format!("start{count}")));
    for instance in &instances {
        run(instance, Work::Prepare(count))?;
    }
    let mut all = [Vec::new(), Vec::new()];
    in_turns(STARTS, 2, |number| {
        let times = run(&instances[number], Work::Start(count))?;
        all[number].extend(times.into_iter().flat_map(|(_, times)| times));
        Ok(())
    })?;
    let name = format!("`C_Initialize`, `C_Login` and a search, {shown} objects");
    add(&name, all.map(Some));
    Ok(())
}

fn notices(places: &[Place<'_>; 2], add: &mut Add<'_>) -> Result<(), AnyError> {
    let [file, database] = places.each_ref().map(|place| {
        let instance = place.instance("notices");
        run(&instance, Work::Prepare(0))?;
        run(&instance, Work::Tell)
    });
    for ((name, file), (_, database)) in file?.into_iter().zip(database?) {
        add(&name, [Some(file), Some(database)]);
    }
    Ok(())
}

/// Counts the instructions of a signature with each store. Returns a paragraph of the page.
fn counted(places: &[Place<'_>; 2]) -> Result<String, AnyError> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok("\nInstructions were not counted: valgrind is not installed.\n".to_owned());
    }
    let mut numbers = Vec::new();
    for place in places {
        let role = |_: &Path, count| Role::Store(place.instance(&format!("count{count}")), Work::Sign(count));
        numbers.push(instructions::difference(role, instructions::count_instructions)?);
    }
    let text = format!(
        "\n{SIGNATURE}, counted by callgrind: {:.0} instructions with a file, {:.0} with a database. Both numbers \
         include\nthe look for changes once a second, which happens more often per signature in the slow simulated \
         processor.\n",
        numbers[0], numbers[1]
    );
    print!("{text}");
    Ok(text)
}

fn run(instance: &Instance, work: Work) -> Result<Times, AnyError> {
    let times = child::ask::<Option<Times>>(child::of_role(&Role::Store(instance.clone(), work)))?;
    Ok(times.unwrap_or_default())
}

impl Place<'_> {
    fn instance(&self, token: &str) -> Instance {
        let directory = self.directory.join(format!("{}-{token}", self.name));
        let instance = Instance::of(&self.artefacts.module, &directory, BACKEND);
        match &self.url {
            Some(url) => instance.in_database(url, &format!("bench_{token}")),
            None => instance,
        }
    }
}

fn heading() -> Result<String, AnyError> {
    let mut command = program("postgres")?;
    command.arg("--version");
    let (version, _) = jeton_child::output(command)?;
    // `postgres (PostgreSQL) 15.20 (Debian ...)`
    let version = version.split(' ').nth(2).unwrap_or("unknown").trim();
    Ok(format!(
        "# A token file beside a token in a database\n\n`cargo run --release -p jeton-benches --features postgresql -- \
         store` writes this page. The database is that of\nPostgreSQL {version} with its default settings, on the same machine \
         and disk, behind a Unix socket. A network adds its\nround trips. The turns of the two stores alternate. A figure is \
         the median of the turns with its 95 % interval. A turn\nis the median of {CHANGES} changes, the mean of \
         {SIGNATURES} signatures, or one start of a process that has loaded the\nmodule. Jeton's PINs have the cheapest \
         key derivation. The first two rows are the limits: what the disk and the\nserver need without Jeton.\n\n\
         The delays are from the return of the call until another process, which searches or signs without a pause, \
         notices the\nchange; 0 µs means before the return. They are those of {NOTICES} changes.\n\n{}\n\n",
        Machine::this()
    ))
}

pub(crate) fn shown(Interval { value, low, high }: Interval) -> String {
    let [value, low, high] = [value, low, high].map(|seconds| nanoseconds(seconds * 1e9));
    format!("{value} ({low} to {high})")
}

pub(crate) fn work(instance: &Instance, work: Work) -> Result<(), AnyError> {
    fs::create_dir_all(&instance.directory)?;
    let module = Module::load(&instance.library)?;
    let times = match work {
        Work::Prepare(count) => return prepare(instance, count),
        Work::Notice => return Ok(notice(&module, instance)?),
        Work::Sign(count) => return sign_often(instance, count),
        Work::Change => change(&module, instance)?,
        Work::Start(count) => start(&module, instance, count)?,
        Work::Tell => tell(&module, instance)?,
    };
    jeton_child::say(&times);
    Ok(())
}

fn sign_often(instance: &Instance, count: u64) -> Result<(), AnyError> {
    let (token, pair) = (ModuleToken::fresh(instance, Home::Token)?, named("p256"));
    token.signing(pair, Scheme::Ecdsa, token.pair(pair)?)?.time(count);
    Ok(())
}

fn prepare(instance: &Instance, count: usize) -> Result<(), AnyError> {
    let token = ModuleToken::fresh(instance, Home::Token)?;
    token.fill(0..count, Home::Token, MAKERS, &|| false)?;
    Ok(())
}

fn begin(module: &Module, instance: &Instance) -> Result<Session, Failure> {
    module.initialize(Some(&instance.parameters()))?;
    let slot = module.slots(true)?[0];
    let session = module.open_session(slot, Access::ReadWrite)?;
    session.login(User::User, Some(PIN))?;
    Ok(session)
}

fn change(module: &Module, instance: &Instance) -> Result<Times, Failure> {
    let session = begin(module, instance)?;
    let mut objects = Vec::new();
    let create = timed(CHANGES, |number| {
        objects.push(session.create_object(&aes_object(number, Home::Token))?);
        Ok(())
    })?;
    let set = timed(CHANGES, |number| {
        session.set_attributes(objects[number], &[Attribute::bytes(CKA_LABEL, "another label")])
    })?;
    let destroy = timed(CHANGES, |number| session.destroy_object(objects[number]))?;
    let key = new_key(&session, "signs")?;
    sign(&session, key)?;
    let start = Instant::now();
    for _ in 0..SIGNATURES {
        sign(&session, key)?;
    }
    let signature = start.elapsed().as_secs_f64() / SIGNATURES as f64;
    session.destroy_object(key)?;
    module.finalize()?;
    Ok(vec![
        ("`C_CreateObject`".to_owned(), create),
        ("`C_SetAttributeValue`".to_owned(), set),
        ("`C_DestroyObject`".to_owned(), destroy),
        ("`C_SignInit` and `C_Sign`, P-256".to_owned(), vec![signature]),
    ])
}

/// Makes calls. Returns their times in seconds.
fn timed(count: usize, mut call: impl FnMut(usize) -> Result<(), Failure>) -> Result<Vec<f64>, Failure> {
    let mut times = Vec::new();
    for number in 0..count {
        let start = Instant::now();
        call(number)?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// Generates a P-256 key pair. Returns the private key.
fn new_key(session: &Session, label: &str) -> Result<ObjectHandle, Failure> {
    let pair = token_key(session, label)?;
    session.destroy_object(pair.0)?;
    Ok(pair.1)
}

fn sign(session: &Session, key: ObjectHandle) -> Result<(), Failure> {
    session.sign_init(&Mechanism::new(CKM_ECDSA), key)?;
    session.sign(&[7; 32], &mut [0; 64]).map(drop)
}

fn start(module: &Module, instance: &Instance, count: usize) -> Result<Times, Failure> {
    let label = aes_object(count / 2, Home::Token).swap_remove(0);
    let start = Instant::now();
    let session = begin(module, instance)?;
    let found = session.find(&[label])?;
    let took = start.elapsed().as_secs_f64();
    assert_eq!(found.len(), 1);
    module.finalize()?;
    Ok(vec![(String::new(), vec![took])])
}

/// The label of the objects of a change that another process notices.
fn label_of(number: usize) -> String {
    format!("change {number}")
}

/// Creates keys, and destroys them while another process signs. Returns the times until the other
/// process notices each.
fn tell(module: &Module, instance: &Instance) -> Result<Times, AnyError> {
    let session = begin(module, instance)?;
    let mut other = Child::start(&mut child::of_role(&Role::Store(instance.clone(), Work::Notice)))?;
    let mut next = |word: &str| -> Result<f64, AnyError> {
        let line = other.line(PATIENCE).map_err(|silence| format!("the other process: {silence:?}"))?;
        let time = line.strip_prefix(word).and_then(|time| time.trim().parse().ok());
        Ok(time.ok_or_else(|| format!("the other process said {line:?}"))?)
    };
    let (mut found, mut stopped) = (Vec::new(), Vec::new());
    next(READY)?;
    for number in 0..NOTICES {
        // The other process asks once a second. The changes come at different times of this second.
        std::thread::sleep(Duration::from_millis(500 + 97 * number as u64));
        let key = new_key(&session, &label_of(number))?;
        let created = seconds();
        found.push((next(NOTICED)? - created).max(0.0));
        next(READY)?;
        std::thread::sleep(Duration::from_millis(500 + 89 * number as u64));
        session.destroy_object(key)?;
        let destroyed = seconds();
        stopped.push((next(NOTICED)? - destroyed).max(0.0));
    }
    other.wait()?;
    Ok(vec![
        ("delay until another process finds a new object".to_owned(), found),
        ("delay until another process stops using a destroyed key".to_owned(), stopped),
    ])
}

/// The other process: finds each new key, and signs with it until this fails. Prints the times.
fn notice(module: &Module, instance: &Instance) -> Result<(), Failure> {
    let session = begin(module, instance)?;
    say(READY);
    for number in 0..NOTICES {
        let wanted = [Attribute::bytes(CKA_LABEL, label_of(number)), Attribute::flag(CKA_SIGN, true)];
        let begin = Instant::now();
        let key = loop {
            if let [key] = session.find(&wanted)?[..] {
                break key;
            }
            assert!(begin.elapsed() < PATIENCE, "the other process creates no key");
        };
        say(NOTICED);
        sign(&session, key)?;
        say(READY);
        let begin = Instant::now();
        loop {
            match sign(&session, key) {
                Err(failure) if failure.code == CKR_KEY_HANDLE_INVALID => break,
                other => other?,
            }
            assert!(begin.elapsed() < PATIENCE, "the other process destroys no key");
        }
        say(NOTICED);
    }
    module.finalize()
}

fn say(word: &str) {
    println!("{word} {:.9}", seconds());
    // If the reader has ended, the next call of this process shows it.
    let _ = std::io::stdout().flush();
}

/// Returns the time of the clock that all processes share.
fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
