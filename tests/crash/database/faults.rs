//! Three hosts on three servers under Patroni, while the leader is killed, switched over, stopped
//! and cut off, its manager is killed, its disk is full, and its standbys stop. Compares what all
//! processes saw, and measures how soon they continue.

use super::history::{self, Call, What, Wrong};
use super::hosts::{Task, directory_of, doomed, tell};
use super::namespaces::Namespaces;
use super::patroni::{Leader, NODES, Patroni, Processes};
use super::*;
use crate::counted::{Counts as Uses, Signer, make_keys};
use crate::open_files::now;

const HOSTS: usize = 3;
/// The pause of a process between two calls.
const PAUSE: Duration = Duration::from_millis(40);
/// The pause of a process between two signatures with a one-time key. A run of an hour must not use
/// up the key.
const RARELY: Duration = Duration::from_millis(400);
/// The number of objects that a process keeps.
const KEPT: usize = 4;
/// The number of keys that are destroyed, one in each round.
const DOOMED: usize = 100;
const USES: u64 = 1_000_000;
/// The bounds of docs/postgresql.md in milliseconds, and the time that the test needs to notice
/// that the new leader can acknowledge changes. Patroni decides when a standby follows the leader.
const BACK: u128 = 5000 + LOOK;
const REFUSED: u128 = 3000 + LOOK;
const LOOK: u128 = 1000;
/// How long a fault lasts that needs no other leader.
const SHORT: Duration = Duration::from_secs(15);
/// How long another server may take to become the leader.
const PROMOTION: Duration = Duration::from_secs(90);
/// How long the processes work after a fault.
const AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
enum Fault {
    Killed,
    SwitchedOver,
    Stopped,
    CutOff,
    CutFromOthers,
    ManagerKilled,
    DiskFull,
    StandbysStopped,
}

use Fault::{CutFromOthers, CutOff, DiskFull, Killed, ManagerKilled, StandbysStopped, Stopped, SwitchedOver};

const FAULTS: [Fault; 8] =
    [SwitchedOver, Killed, ManagerKilled, Stopped, CutFromOthers, StandbysStopped, CutOff, DiskFull];

impl Fault {
    fn has_new_leader(self) -> bool {
        !matches!(self, DiskFull | StandbysStopped)
    }

    fn begin(self, servers: &Patroni<'_>, leader: usize) {
        match self {
            Killed => servers.signal(leader, "KILL", Processes::All),
            SwitchedOver => servers.switch_over(leader),
            Stopped => servers.signal(leader, "STOP", Processes::All),
            CutOff => servers.connect(leader, "down"),
            CutFromOthers => servers.cut_from_others(leader, "add"),
            ManagerKilled => servers.signal(leader, "KILL", Processes::Manager),
            DiskFull => servers.fill(leader, true),
            StandbysStopped => signal_standbys(servers, leader, "STOP"),
        }
    }

    fn end(self, servers: &mut Patroni<'_>, leader: usize) {
        match self {
            Killed => servers.start_node(leader),
            SwitchedOver => {}
            Stopped => servers.signal(leader, "CONT", Processes::All),
            CutOff => servers.connect(leader, "up"),
            CutFromOthers => servers.cut_from_others(leader, "del"),
            ManagerKilled => servers.start_manager(leader),
            DiskFull => servers.fill(leader, false),
            StandbysStopped => signal_standbys(servers, leader, "CONT"),
        }
    }
}

fn signal_standbys(servers: &Patroni<'_>, leader: usize, signal: &str) {
    (0..NODES)
        .filter(|node| *node != leader)
        .for_each(|node| servers.signal(node, signal, Processes::Server));
}

/// A fault, and the times of the recovery.
struct Round {
    fault: Fault,
    /// When the new leader had a synchronous standby, or when the fault ended.
    recovered: u128,
    /// When a key was destroyed after that.
    destroyed: u128,
}

/// Creates and destroys objects, and looks for those of other processes. Without a connection it
/// finds nothing in memory (`outage-seconds = 0`).
pub fn changing_child() {
    let (task, client, session) = start(", outage-seconds = 0");
    let (mut random, mut kept) = (Random::seeded(task.seed), Vec::new());
    for number in 0.. {
        let label = format!("{}-{number}", task.name);
        let object = data(&label).stored();
        let created = call(&label, ["created", "may-be-created"], || client.create(session, &object));
        if let Some(object) = created {
            tell(&task, "created", &label);
            kept.push((label, object));
        }
        if kept.len() > KEPT {
            let (label, object) = kept.swap_remove(random.below(KEPT as u64) as usize);
            let names = ["destroyed", "may-be-destroyed"];
            if call(&label, names, || client.destroy_object(session, object)).is_some() {
                tell(&task, "destroyed", &label);
            }
        }
        for what in ["created", "destroyed"] {
            let other = format!("{what} change{}", random.below(HOSTS as u64));
            let Ok(label) = std::fs::read_to_string(task.shared.join(other)) else { continue };
            let begin = now();
            match find(&client, session, &label) {
                Ok(count) => {
                    assert!(count <= 1, "{label} exists {count} times");
                    println!("{} {label} {begin} {}", ["missing", "found"][count], now());
                }
                Err(reason) => expect_outage(reason),
            }
        }
        sleep(PAUSE);
    }
}

/// Signs with keys that are destroyed one after the other, and never searches.
pub fn signing_child() {
    let (_, client, session) = start("");
    let key = |place| client.find_one(session, &none().label(&doomed(place)).flag(A::SIGN, true));
    let mut keys: Vec<_> = (0..DOOMED).map(|place| (place, key(place))).collect();
    ready();
    let mut longest = Duration::ZERO;
    loop {
        keys.retain(|(place, key)| {
            let begin = Instant::now();
            let signed = client.sign(session, &plain(M::ECDSA_SHA256), *key, b"data");
            if begin.elapsed() > longest {
                longest = begin.elapsed();
                println!("longest {}", longest.as_millis());
            }
            match signed {
                Ok(_) => true,
                Err(Error::KeyHandleInvalid) => {
                    println!("gone {place} {}", now());
                    false
                }
                Err(reason) => panic!("{reason:?}"),
            }
        });
        sleep(PAUSE);
    }
}

/// Signs with keys whose uses are counted.
pub fn counting_child() {
    let task: Task = argument();
    let store = format!(", store = {{ {} }}", task.store);
    let signer = until_ok(|| Signer::try_new(&directory(), 1, &store));
    ready();
    loop {
        let begin = now();
        match signer.try_sign(|line| println!("{line}")) {
            Ok(()) => println!("ok - {begin} {}", now()),
            Err(reason) => expect_outage(reason),
        }
        sleep(RARELY);
    }
}

/// Logs in and out.
pub fn login_child() {
    let (_, client, session) = start("");
    ready();
    loop {
        let _ = client.logout(session);
        let begin = now();
        match client.module.login(session, User::User, &pin(0)) {
            Ok(()) => println!("ok - {begin} {}", now()),
            Err(reason) => expect_outage(reason),
        }
        sleep(RARELY);
    }
}

fn start(more: &str) -> (Task, Client, SessionHandle) {
    let task: Task = argument();
    let store = format!(", store = {{ {}{more} }}", task.store);
    let client = until_ok(|| try_with(&directory(), u32::MAX, Provider::ALL[0], &store));
    let session = until_ok(|| client.open_session(client.slot, Access::ReadWrite));
    until_ok(|| client.module.login(session, User::User, &pin(0)));
    (task, client, session)
}

/// Makes a call, and says when it began and ended, with one name if it succeeds and the other one
/// if it fails.
fn call<T>(label: &str, names: [&str; 2], call: impl FnOnce() -> Result<T>) -> Option<T> {
    let begin = now();
    let done = call();
    let name = names[usize::from(done.is_err())];
    println!("{name} {label} {begin} {}", now());
    done.map_err(expect_outage).ok()
}

fn expect_outage(reason: Error) {
    assert!([Error::DeviceError, Error::DeviceMemory].contains(&reason), "{reason:?}");
}

fn find(client: &Client, session: SessionHandle, label: &str) -> Result<usize> {
    let mut found = [ObjectHandle(0); 4];
    client.find_init(session, &none().label(label).template())?;
    let count = client.module.find(session, &mut found);
    client.find_final(session)?;
    count
}

pub fn case() {
    let seconds: u64 = number("JETON_CRASH_CLUSTER_SECONDS", 0);
    if seconds == 0 {
        return jeton_programs::skip("JETON_CRASH_CLUSTER_SECONDS sets how long the servers fail");
    }
    history::test();
    let Some(namespaces) = Namespaces::make(NODES + HOSTS) else {
        return jeton_programs::skip("only root can make network namespaces");
    };
    if !jeton_programs::has("patroni") || !jeton_programs::has("etcd") {
        return;
    }
    let mut servers = Patroni::start(&namespaces);
    let first = Directory::new();
    std::fs::create_dir(first.path().join("shared")).expect("a directory");
    first.use_url(&servers.url());
    let store = servers.store(&first);
    let near = until_ok(|| try_with(&first, u32::MAX, Provider::ALL[0], &format!(", store = {{ {store} }}")));
    near.init_token(near.slot, SO_PIN, LABEL).expect("a token");
    unlock(&near, &pin(0));
    make_keys(&near, USES);
    // The login of `make_keys` is that of all sessions.
    let session = near.open();
    for place in 0..DOOMED {
        pair(&near, session, Kind::P256, &none().stored().label(&doomed(place)));
    }
    let directories: Vec<_> = (0..HOSTS).map(|host| directory_of(&first, host, &servers.url())).collect();
    let start = |role: &'static str, host: usize| {
        let shared = first.path().join("shared");
        let name = format!("{}{host}", role.rsplit(' ').next().expect("a word"));
        let task = Task { name, seed: host as u64, shared, store: store.clone(), writes: true };
        let space = namespaces.name(NODES + host);
        let mut process = Process::below("ip", &["netns", "exec", &space], role, &directories[host], task);
        process.go();
        (role, process)
    };
    let roles = ["faults change", "faults sign", "faults count", "faults login"];
    let processes: Vec<_> = (0..HOSTS).flat_map(|host| roles.map(|role| start(role, host))).collect();
    sleep(AFTER);
    let (begin, mut rounds) = (Instant::now(), Vec::new());
    for (place, fault) in FAULTS.into_iter().cycle().take(DOOMED).enumerate() {
        if begin.elapsed().as_secs() >= seconds {
            break;
        }
        let destroy = || {
            until_ok(|| {
                let mut found = [ObjectHandle(0)];
                let wanted = none().label(&doomed(place)).flag(A::SIGN, true);
                near.find_init(session, &wanted.template())?;
                let count = near.module.find(session, &mut found);
                near.find_final(session)?;
                if count? == 0 { Ok(()) } else { near.destroy_object(session, found[0]) }
            });
        };
        if !servers.wait_until_healthy() {
            break;
        }
        rounds.push(round(&mut servers, fault, destroy));
    }
    let is_healthy = servers.wait_until_healthy();
    sleep(AFTER);
    let said: Vec<_> = processes.into_iter().map(|(role, process)| (role, process.kill())).collect();
    report(&rounds, &said);
    assert!(is_healthy, "the servers do not follow one leader");
}

fn round(servers: &mut Patroni<'_>, fault: Fault, destroy: impl FnOnce()) -> Round {
    let Leader { node, timeline } = servers.leader().expect("a leader");
    println!("{} {fault:?}: node {node}, timeline {timeline}", now());
    fault.begin(servers, node);
    let mut is_over = !fault.has_new_leader();
    if fault.has_new_leader() {
        let end = Instant::now() + PROMOTION;
        while !is_over && servers.leader().is_none_or(|leader| leader.timeline <= timeline) {
            sleep(Duration::from_millis(200));
            if Instant::now() > end {
                // The managers have no quorum, for example on a busy machine.
                println!("no server became the leader");
                fault.end(servers, node);
                servers.wait_until_healthy();
                is_over = true;
            }
        }
    } else {
        let end = Instant::now() + SHORT;
        while Instant::now() < end {
            if let StandbysStopped = fault {
                // As an impatient administrator does.
                servers.sql(
                    node,
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
                );
            }
            sleep(Duration::from_secs(1));
        }
        fault.end(servers, node);
    }
    let promoted = Instant::now();
    servers.wait_for_standby();
    println!("the leader has a standby after {} ms", promoted.elapsed().as_millis());
    let recovered = now();
    destroy();
    let destroyed = now();
    sleep(AFTER);
    if !is_over {
        fault.end(servers, node);
    }
    Round { fault, recovered, destroyed }
}

/// Prints how soon the processes continued, and fails if one was too late or saw something wrong.
fn report(rounds: &[Round], said: &[(&str, Vec<String>)]) {
    let mut calls = BTreeMap::<&str, Vec<Call>>::new();
    let mut uses = Uses::new(USES);
    let mut late = Vec::new();
    for (_, lines) in said {
        for line in lines {
            uses.add(line).expect("a new use");
            let Some((label, call)) = parse(line) else { continue };
            calls.entry(label).or_default().push(call);
        }
    }
    for (place, round) in rounds.iter().enumerate() {
        let refused = said.iter().filter(|(role, _)| role.ends_with("sign")).map(|(_, lines)| {
            let word = format!("gone {place} ");
            let gone = numbers(lines, &word).first().copied();
            gone.map_or(u128::MAX, |gone| u128::from(gone).saturating_sub(round.destroyed))
        });
        let back = said.iter().filter(|(role, _)| !role.ends_with("sign")).map(|(_, lines)| {
            let words = ["ok ", "created ", "destroyed "];
            let done = lines.iter().filter(|line| words.iter().any(|word| line.starts_with(word)));
            let ends = done.filter_map(|line| line.rsplit(' ').next()?.parse::<u128>().ok());
            ends.filter(|end| *end > round.recovered).min().map_or(u128::MAX, |end| end - round.recovered)
        });
        let (refused, back) = (refused.max().expect("a process"), back.max().expect("a process"));
        println!(
            "{:?}: changes and logins after {back} ms, key destroyed after {} ms and refused {refused} ms later",
            round.fault,
            round.destroyed - round.recovered
        );
        if refused > REFUSED || back > BACK {
            late.push(format!("{:?}: {back} {refused}", round.fault));
        }
    }
    let wrong: Vec<_> = calls
        .iter()
        .flat_map(|(label, calls)| history::check(calls).into_iter().map(move |wrong| (label, wrong)))
        .collect();
    let count = |what| calls.values().flatten().filter(|call| call.what == what).count();
    let longest = said.iter().flat_map(|(_, lines)| numbers(lines, "longest ")).max();
    println!(
        "{} faults: {} objects created and {} destroyed, {} and {} perhaps, {} found and {} missing; {} one-time keys \
         used; the longest signature took {longest:?} ms",
        rounds.len(),
        count(What::Created),
        count(What::Destroyed),
        count(What::MayBeCreated),
        count(What::MayBeDestroyed),
        count(What::Found),
        count(What::NotFound),
        uses.numbers.len()
    );
    // While an old primary still answers, a search may be as old as the use of a key.
    let is_allowed =
        |wrong: &Wrong| matches!(wrong, Wrong::CameBack(after) | Wrong::Lost(after) if *after <= REFUSED);
    let stale: Vec<_> = wrong.iter().filter(|(_, wrong)| is_allowed(wrong)).collect();
    println!("searches on an old primary: {stale:?}");
    assert!(wrong.iter().all(|(_, wrong)| is_allowed(wrong)), "{wrong:?}");
    assert!(late.is_empty(), "too late: {late:?}");
    assert!(count(What::Created) > 0 && count(What::Found) > 0 && !uses.numbers.is_empty());
}

fn parse(line: &str) -> Option<(&str, Call)> {
    let mut words = line.split(' ');
    let what = match words.next()? {
        "created" => What::Created,
        "may-be-created" => What::MayBeCreated,
        "destroyed" => What::Destroyed,
        "may-be-destroyed" => What::MayBeDestroyed,
        "found" => What::Found,
        "missing" => What::NotFound,
        _ => return None,
    };
    let label = words.next()?;
    Some((label, Call { what, begin: words.next()?.parse().ok()?, end: words.next()?.parse().ok()? }))
}
