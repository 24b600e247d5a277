//! A write, sync, truncation, deletion, opening or mapping of a file fails, with ENOSPC, EIO or
//! EROFS, once or permanently. The test tries such faults in random order until its time is over.
//! Afterwards acknowledged changes exist, a failed call has its full effect or no effect, and the
//! correct PIN opens the token.

use std::fmt::Debug;

use rusqlite::{Connection, OpenFlags};

use super::*;
use crate::vfs::{Failure, Fault};

const WRONG: &[u8] = b"a wrong one";
const NEW: &[u8] = b"the user's new PIN";
/// A limit that the failures of these tests do not reach.
const LIMIT: u32 = 100;

/// The results of the calls of a run, by name.
type Said = Vec<(&'static str, Result<(), Error>)>;

/// The work of a process under faults, and the check of the token afterwards.
struct Scenario {
    name: &'static str,
    /// Prepares the directory, without faults.
    prepare: fn(&Directory),
    run: fn(&Client) -> Said,
    /// Compares the token with the results of the calls.
    check: fn(&Directory, &Said, Fault) -> Result<(), String>,
}

const SCENARIOS: [Scenario; 2] = [
    Scenario { name: "a new token", prepare: |_| {}, run: make, check: check_made },
    Scenario { name: "a token in use", prepare: prepare_use, run: work, check: check_work },
];

pub fn case() {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let mut command = jeton_child::of_role(&role_of("faults", &Directory::new(), ()));
    command.env("TMPDIR", place);
    Process::run(command).echo();
}

pub fn child() {
    let seconds = number("JETON_CRASH_FAULT_SECONDS", 4);
    let until = Instant::now() + Duration::from_secs(seconds);
    vfs::install();
    let mut runs = Vec::new();
    for (place, scenario) in SCENARIOS.iter().enumerate() {
        let calls = perform(scenario, None).expect("a run without faults");
        println!("{}: {calls} calls of the file system can fail", scenario.name);
        for first in 0..calls {
            for how in [Failure::Full, Failure::Broken, Failure::ReadOnly] {
                for count in [1, u64::MAX] {
                    runs.push((place, Fault { how, first, count }));
                }
            }
        }
    }
    let mut random = Random::new("JETON_CRASH_SEED");
    let all = runs.len();
    let mut done = 0;
    while !runs.is_empty() && Instant::now() < until {
        let (place, fault) = runs.swap_remove(random.below(runs.len() as u64) as usize);
        let scenario = &SCENARIOS[place];
        if let Err(reason) = perform(scenario, Some(fault)) {
            panic!("{}, {fault:?}: {reason}", scenario.name);
        }
        done += 1;
    }
    println!("{done} of {all} faults, each in a run of its own (JETON_CRASH_FAULT_SECONDS={seconds})");
}

/// Runs the work with a fault in a new directory. Returns the number of file system calls.
fn perform(scenario: &Scenario, fault: Option<Fault>) -> Result<u64, String> {
    let directory = Directory::new();
    (scenario.prepare)(&directory);
    vfs::set_fault(fault);
    let said = match quiet(&directory) {
        Ok(client) => {
            let said = (scenario.run)(&client);
            client.finalize().expect("a module");
            said
        }
        Err(_) => Vec::new(),
    };
    let calls = vfs::set_fault(None);
    if fault.is_none() {
        let wrong = said.iter().find(|(name, outcome)| outcome.is_err() && *name != "wrong PIN");
        assert!(wrong.is_none(), "without a fault: {said:?}");
    }
    let fault = fault.unwrap_or(Fault { how: Failure::Broken, first: u64::MAX, count: 0 });
    (scenario.check)(&directory, &said, fault).map_err(|reason| format!("{reason} after {said:?}"))?;
    Ok(calls)
}

/// A client that logs nothing: most calls fail here.
fn quiet(directory: &Directory) -> Result<Client, Error> {
    let path = directory.path();
    let text = format!(
        "token-dir = '{}', log = {{ level = 'off' }}, \
         pin = {{ memory-kib = 8, passes = 1, retries = {LIMIT}, uncounted-delay = 0 }}",
        path.display()
    );
    Client::start(&Directory::lent(path), &text)
}

fn make(client: &Client) -> Said {
    let mut said = Said::new();
    said.push(("initialise", client.init_token(client.slot, SO_PIN, LABEL)));
    let Ok(session) = client.open_session(client.slot, Access::ReadWrite) else { return said };
    said.push(("SO", client.module.login(session, User::SecurityOfficer, SO_PIN)));
    said.push(("set", client.init_pin(session, PIN)));
    let _ = client.logout(session);
    said.push(("user", client.module.login(session, User::User, PIN)));
    said
}

fn check_made(directory: &Directory, said: &Said, fault: Fault) -> Result<(), String> {
    let client = quiet(directory).map_err(told("a module"))?;
    let made = acknowledged(said, "initialise");
    // The last slot has no token.
    let tokens = client.slots().map_err(told("slots"))?.len() - 1;
    ensure(tokens == 1 || tokens == 0 && !made, format!("{tokens} tokens"))?;
    if tokens == 0 {
        // The next token can be initialised.
        client.init_token(client.slot, SO_PIN, LABEL).map_err(told("a token afterwards"))?;
    }
    let counted = failures(directory)?;
    // If only one call failed, the next call removed what it had left behind.
    let right = fault.count != 1 || counted == (0, 0);
    ensure(right, format!("failures are {counted:?} without a wrong PIN"))?;
    let session = client.open_session(client.slot, Access::ReadWrite).map_err(told("a session"))?;
    client.module.login(session, User::SecurityOfficer, SO_PIN).map_err(told("the SO"))?;
    client.logout(session).map_err(told("a logout"))?;
    match client.module.login(session, User::User, PIN) {
        Ok(()) => {}
        Err(Error::UserPinNotInitialized) if !acknowledged(said, "set") => {}
        Err(error) => return Err(format!("the user: {error:?}")),
    }
    client.finalize().map_err(told("an end"))
}

/// Copies the files of a token with three objects into the directory.
fn prepare_use(directory: &Directory) {
    static READY: std::sync::OnceLock<Arc<Directory>> = std::sync::OnceLock::new();
    let ready = READY.get_or_init(|| {
        let directory = token();
        let client = client(&directory, LIMIT);
        let session = client.user();
        for label in ["kept", "changed", "doomed"] {
            client.create(session, &data(label).stored()).expect("an object");
        }
        client.finalize().expect("a module");
        directory
    });
    copy_files(ready.path(), directory.path());
}

/// Uses the token as the user, and ends with a wrong PIN.
fn work(client: &Client) -> Said {
    let mut said = Said::new();
    let Ok(session) = client.open_session(client.slot, Access::ReadWrite) else { return said };
    said.push(("user", client.module.login(session, User::User, PIN)));
    said.push(("create", client.create(session, &data("created").stored()).map(drop)));
    let both = none().stored().label("pair");
    let request = Kind::P256.request().and(&both);
    said.push(("pair", client.generate(session, Kind::P256.generator(), &request, &both).map(drop)));
    let one = |label: &str| {
        client.find_init(session, &none().label(label).template())?;
        let mut found = [ObjectHandle(0); 2];
        let count = client.module.find(session, &mut found);
        let _ = client.find_final(session);
        if count? == 1 { Ok(found[0]) } else { Err(Error::ObjectHandleInvalid) }
    };
    let changed = one("changed")
        .and_then(|object| client.set(session, object, &none().bytes(A::VALUE, b"another value")));
    said.push(("change", changed));
    said.push(("destroy", one("doomed").and_then(|object| client.destroy_object(session, object))));
    said.push(("new PIN", client.set_pin(session, PIN, NEW)));
    let _ = client.logout(session);
    said.push(("wrong PIN", client.module.login(session, User::User, WRONG)));
    said
}

fn check_work(directory: &Directory, said: &Said, fault: Fault) -> Result<(), String> {
    let client = quiet(directory).map_err(told("a module"))?;
    let (so, user) = failures(directory)?;
    let tried =
        said.iter().any(|(name, outcome)| *name == "wrong PIN" && *outcome == Err(Error::PinIncorrect));
    // On a full or read-only disk a wrong PIN may stay uncounted. If the disk fails permanently,
    // the failure that is counted before a correct PIN stays.
    let most = if fault.count == 1 { u32::from(tried) } else { 3 };
    let least = u32::from(tried && fault.count == 0);
    ensure(so == 0 && (least..=most).contains(&user), format!("{user} failures"))?;
    let session = client.open_session(client.slot, Access::ReadWrite).map_err(told("a session"))?;
    let changed = acknowledged(said, "new PIN");
    let old = client.module.login(session, User::User, PIN);
    match (old, changed) {
        (Ok(()), false) => {}
        (Err(Error::PinIncorrect), _) => {
            client.module.login(session, User::User, NEW).map_err(told("the new PIN"))?;
        }
        (old, _) => return Err(format!("the old PIN: {old:?}")),
    }
    ensure(failures(directory)? == (0, 0), "failures after a right PIN".to_owned())?;
    let count = |label| client.find(session, &none().label(label)).len();
    let values = |label: &str| -> Vec<Vec<u8>> {
        let found = client.find(session, &none().label(label));
        found.into_iter().filter_map(|object| client.read(session, object, A::VALUE).ok()).collect()
    };
    expect("kept", values("kept") == [b"some data"])?;
    let (old, new) = (vec![b"some data".to_vec()], vec![b"another value".to_vec()]);
    let found = values("changed");
    expect("changed", found == new || found == old && !acknowledged(said, "change"))?;
    expect("doomed", count("doomed") == 0 || count("doomed") == 1 && !acknowledged(said, "destroy"))?;
    expect("created", count("created") == 1 || count("created") == 0 && !acknowledged(said, "create"))?;
    expect("pair", count("pair") == 2 || count("pair") == 0 && !acknowledged(said, "pair"))?;
    if count("pair") == 2 {
        let key = |flag| client.find_one(session, &none().label("pair").flag(flag, true));
        let (mechanism, [private, public]) = (plain(M::ECDSA_SHA256), [A::SIGN, A::VERIFY].map(key));
        let signature = client.sign(session, &mechanism, private, b"data").map_err(told("a signature"))?;
        let verified = client.verify(session, &mechanism, public, b"data", &signature);
        verified.map_err(told("a verification"))?;
    }
    client.create(session, &data("later").stored()).map_err(told("an object afterwards"))?;
    client.finalize().map_err(told("an end"))
}

/// Returns the counted failures of the SO PIN and of the user PIN, from the only token file of a
/// directory. Returns zeros if there is no file.
pub fn failures(directory: &Directory) -> Result<(u32, u32), String> {
    let token = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jeton");
    let Some(path) = files_below(directory.path()).into_iter().find(token) else { return Ok((0, 0)) };
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let row = connection.and_then(|connection| {
        connection.query_row("SELECT so_failures, user_failures FROM token", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    });
    row.map_err(|reason| format!("failures: {reason}"))
}

fn acknowledged(said: &Said, name: &str) -> bool {
    said.iter().any(|(known, outcome)| *known == name && outcome.is_ok())
}

fn expect(what: &str, holds: bool) -> Result<(), String> {
    ensure(holds, format!("{what} differs from what was acknowledged"))
}

fn told<E: Debug>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error:?}")
}
