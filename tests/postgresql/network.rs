//! A network that delays messages, loses the connection to the server for some time, or cuts
//! connections in the middle of a message. The hosts use TLS through a proxy of the test.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::prelude::*;
use crate::proxy::Proxy;
use crate::support::server::Server;
use crate::{number, provider, server};

/// `timeout-seconds` of the hosts.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A call waits at most twice for [`TIMEOUT`]: for a connection and for an answer. The remaining
/// time is for a busy machine.
const LONGEST_CALL: Duration = Duration::from_secs(8);
/// How long a host may need to find the server again: the longest pause of the store, and a
/// connection.
const BACK: Duration = Duration::from_secs(20);

/// A server with TLS, a proxy in front of it, and a token.
struct Network {
    proxy: Proxy,
    directory: Arc<Directory>,
    server: Server,
    near: Client,
}

impl Network {
    /// Returns `None` if PostgreSQL is not installed.
    fn start(name: &str) -> Option<Self> {
        server()?;
        let server = Server::start_with_tls(name).expect("a server");
        let proxy = Proxy::start(server.port);
        let directory = Directory::new();
        let password = directory.path().join("password");
        std::fs::write(&password, "a password").expect("a file");
        std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).expect("a mode");
        directory.use_url(&url(server.port));
        let near = Client::initialise(&directory, provider(), &configuration(&server, &directory));
        Some(Self { proxy, directory, server, near })
    }

    /// A host behind the proxy.
    fn far(&self) -> Client {
        self.directory.use_url(&url(self.proxy.port));
        Client::beside(&self.directory, provider(), &configuration(&self.server, &self.directory))
    }

    /// Checks that all hosts find each acknowledged object, and no others except those in doubt.
    fn check(&self, hosts: &[&Client], histories: Vec<History>) {
        let (mut kept, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
        for history in histories {
            kept.extend(history.kept);
            doubtful.extend(history.doubtful);
        }
        // The server may have received a commit and not yet noticed that its connection is gone.
        let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jeton'";
        let are_gone = || self.server.sql(connections) == (hosts.len() + 1).to_string();
        jeton_child::until(BACK, "old connections remain", are_gone);
        let first = labels(&self.near);
        let all: BTreeSet<_> = first.iter().cloned().collect();
        assert_eq!(all.len(), first.len(), "an object exists twice");
        let lost: Vec<_> = kept.difference(&all).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        let stray: Vec<_> = all.difference(&kept).filter(|label| !doubtful.contains(*label)).collect();
        assert!(stray.is_empty(), "unexpected: {stray:?}");
        for host in hosts {
            assert_eq!(labels(host), first);
        }
        println!(
            "{} objects kept, {} labels in doubt, {} of them found",
            kept.len(),
            doubtful.len(),
            all.len() - kept.len()
        );
    }
}

fn url(port: u16) -> String {
    format!("postgresql://host@localhost:{port}/postgres")
}

fn configuration(server: &Server, directory: &Directory) -> String {
    format!(
        ", store = {{ ca-file = '{}', password = 'file:{}', timeout-seconds = {} }}",
        server.directory.join("ca.pem").display(),
        directory.path().join("password").display(),
        TIMEOUT.as_secs()
    )
}

/// The sorted labels of the data objects.
fn labels(client: &Client) -> Vec<String> {
    let session = client.open_session(client.slot, Access::ReadOnly).expect("a session");
    let found = client.find(session, &none().number(A::CLASS, ObjectClass::DATA.0));
    let label = |object: &ObjectHandle| {
        String::from_utf8(client.read(session, *object, A::LABEL).expect("a label")).expect("text")
    };
    let mut labels: Vec<_> = found.iter().map(label).collect();
    labels.sort();
    client.close_session(session).expect("a session");
    labels
}

/// The changes of a host.
#[derive(Default)]
struct History {
    /// The labels of the objects that must exist.
    kept: BTreeSet<String>,
    /// The labels of the objects that may exist, because a call failed.
    doubtful: BTreeSet<String>,
}

/// Creates objects, and changes and destroys some of them, until `stop`.
fn work(client: &Client, session: SessionHandle, name: &str, stop: &AtomicBool) -> History {
    let mut history = History::default();
    for round in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let label = format!("{name} {round}");
        let Some(object) = timed(|| client.create(session, &data(&label).stored())) else {
            history.doubtful.insert(label);
            continue;
        };
        match round % 3 {
            0 => {
                history.kept.insert(label);
            }
            1 => {
                let changed = format!("{label} changed");
                if timed(|| client.set(session, object, &none().label(&changed))).is_some() {
                    history.kept.insert(changed);
                } else {
                    history.doubtful.extend([label, changed]);
                }
            }
            _ => {
                if timed(|| client.destroy_object(session, object)).is_none() {
                    history.doubtful.insert(label);
                }
            }
        }
    }
    history
}

/// Makes a call, which must not take longer than the limit. Returns `None` if the server cannot be
/// reached.
fn timed<T>(call: impl FnOnce() -> Result<T, Error>) -> Option<T> {
    let start = Instant::now();
    let done = call();
    assert!(start.elapsed() < LONGEST_CALL, "a call took {:?}", start.elapsed());
    match done {
        Ok(done) => Some(done),
        Err(Error::DeviceError) => {
            thread::sleep(Duration::from_millis(5));
            None
        }
        Err(reason) => panic!("{reason:?}"),
    }
}

/// Waits until the host can make changes again.
fn wait_for_server(client: &Client, session: SessionHandle, name: &str) -> History {
    let mut history = History::default();
    let start = Instant::now();
    for round in 0.. {
        let label = format!("{name} back {round}");
        if timed(|| client.create(session, &data(&label).stored())).is_some() {
            history.kept.insert(label);
            break;
        }
        history.doubtful.insert(label);
        assert!(start.elapsed() < BACK, "no change for {:?}", start.elapsed());
    }
    history
}

struct Signed {
    per_second: f64,
    longest: Duration,
    /// The number of signatures that took at least [`TIMEOUT`].
    waited: usize,
}

fn sign(client: &Client, key: ObjectHandle, time: Duration) -> Signed {
    let session = client.open();
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let begin = Instant::now();
        client.sign(session, &plain(M::ECDSA_SHA256), key, b"data").expect("a signature");
        times.push(begin.elapsed());
    }
    let per_second = times.len() as f64 / start.elapsed().as_secs_f64();
    client.close_session(session).expect("a session");
    Signed {
        per_second,
        longest: times.iter().copied().max().unwrap_or_default(),
        waited: times.iter().filter(|time| **time >= TIMEOUT).count(),
    }
}

/// Two hosts cannot reach the server for some seconds. The first one signs and makes changes at the
/// same time. If `others_work`, the second one and a host that reaches the server make changes too.
/// Returns the signatures during the partition.
fn partition(name: &str, others_work: bool) -> Option<Signed> {
    let network = Network::start(name)?;
    let seconds = Duration::from_secs(number("JETON_TEST_PARTITION_SECONDS", 3));
    let hosts = [network.far(), network.far()];
    let sessions = [hosts[0].user(), hosts[1].user()];
    let near = network.near.user();
    pair(&network.near, near, Kind::P256, &none().stored().label("pair"));
    let wanted = none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0);
    let key = hosts[0].find_one(sessions[0], &wanted);
    let stop = AtomicBool::new(false);
    let mut histories = Vec::new();
    let during = thread::scope(|scope| {
        let mut hosts_at_work = vec![scope.spawn(|| work(&hosts[0], sessions[0], "first", &stop))];
        if others_work {
            hosts_at_work.push(scope.spawn(|| work(&hosts[1], sessions[1], "second", &stop)));
            hosts_at_work.push(scope.spawn(|| work(&network.near, near, "near", &stop)));
        }
        let before = sign(&hosts[0], key, Duration::from_secs(1));
        network.proxy.partition();
        let during = sign(&hosts[0], key, seconds);
        network.proxy.heal();
        let after = sign(&hosts[0], key, Duration::from_secs(1));
        stop.store(true, Ordering::Release);
        histories.extend(hosts_at_work.into_iter().map(|host| host.join().expect("a host")));
        println!(
            "signatures per second: {:.0} before, {:.0} during a partition of {seconds:?}, {:.0} after; the longest \
             took {:?}, {:?}, {:?}",
            before.per_second,
            during.per_second,
            after.per_second,
            before.longest,
            during.longest,
            after.longest
        );
        // A busy machine may sign more slowly.
        assert!(during.per_second > before.per_second / 20.0);
        during
    });
    assert!(!histories[0].doubtful.is_empty(), "no change failed during the partition");
    // The server ends the transactions of the two hosts after the time limit. Until then a change
    // of another host may wait for them, and fail.
    if let Some(near) = histories.get(2) {
        println!(
            "the host without the proxy: {} objects kept, {} labels in doubt",
            near.kept.len(),
            near.doubtful.len()
        );
    }
    histories.push(wait_for_server(&hosts[0], sessions[0], "first"));
    histories.push(wait_for_server(&hosts[1], sessions[1], "second"));
    network.check(&[&hosts[0], &hosts[1]], histories);
    Some(during)
}

#[test]
fn signing_does_not_wait_for_the_network_during_a_partition() {
    let Some(signed) = partition("partition", false) else { return };
    assert_eq!(signed.waited, 0, "{:?}", signed.longest);
}

/// At the beginning of a partition, a process may already know that another host made a change.
/// Then one use of a key waits, because it tries to load this change.
#[test]
fn at_most_one_signature_waits_if_another_host_made_a_change_before_a_partition() {
    let Some(signed) = partition("changes", true) else { return };
    assert!(signed.waited <= 1, "{}", signed.waited);
    assert!(signed.longest < LONGEST_CALL, "{:?}", signed.longest);
}

/// `C_GetSlotList` asks the server, which does not answer.
#[test]
fn tokens_in_memory_do_not_wait_for_a_call_that_asks_the_server() {
    let Some(network) = Network::start("slots") else { return };
    let far = network.far();
    far.user();
    network.proxy.partition();
    thread::scope(|scope| {
        let start = Instant::now();
        let slots = scope.spawn(|| far.slots());
        let mut calls = 0;
        while !slots.is_finished() {
            let began = Instant::now();
            far.close_session(far.open()).expect("a session");
            assert!(began.elapsed() < TIMEOUT / 2, "{:?} after {:?}", began.elapsed(), start.elapsed());
            calls += 1;
            thread::sleep(Duration::from_millis(10));
        }
        assert!(start.elapsed() >= TIMEOUT / 2 && calls > 1, "the call did not wait: {:?}", start.elapsed());
    });
    network.proxy.heal();
}

#[test]
fn connections_that_are_cut_lose_no_acknowledged_change() {
    let Some(network) = Network::start("cut") else { return };
    let cuts = number("JETON_TEST_CUTS", 20);
    let hosts = [network.far(), network.far()];
    let sessions = [hosts[0].user(), hosts[1].user()];
    let stop = AtomicBool::new(false);
    let mut histories = Vec::new();
    thread::scope(|scope| {
        let work = [
            scope.spawn(|| work(&hosts[0], sessions[0], "first", &stop)),
            scope.spawn(|| work(&hosts[1], sessions[1], "second", &stop)),
        ];
        let mut bytes = 1;
        while network.proxy.cuts() < cuts {
            // Different lengths, to cut between messages, inside of them, and at the beginning of a
            // connection.
            bytes = bytes * 7919 % 6007;
            let before = network.proxy.cuts();
            network.proxy.cut_after(bytes);
            jeton_child::until(BACK, "the hosts send nothing", || network.proxy.cuts() > before);
            thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::Release);
        histories.extend(work.map(|host| host.join().expect("a host")));
    });
    histories.push(wait_for_server(&hosts[0], sessions[0], "first"));
    histories.push(wait_for_server(&hosts[1], sessions[1], "second"));
    println!("{} connections cut", network.proxy.cuts());
    network.check(&[&hosts[0], &hosts[1]], histories);
}

#[test]
fn calls_take_at_most_the_documented_round_trips() {
    let Some(network) = Network::start("delay") else { return };
    let host = network.far();
    let session = host.user();
    pair(&host, session, Kind::P256, &none().stored().label("pair"));
    let key = host.find_one(session, &none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0));
    host.sign(session, &plain(M::ECDSA_SHA256), key, b"data").expect("a signature");
    // Longer than the pauses between the parts of one message.
    network.proxy.delay(Duration::from_millis(15));
    // The module also asks for the change number once a second, without waiting. So the smallest
    // number of several tries counts.
    let turns = |call: &mut dyn FnMut()| {
        let tries = (0..4).map(|_| {
            let before = network.proxy.turns();
            call();
            network.proxy.turns() - before
        });
        tries.min().expect("a try")
    };
    // A commit is followed by its announcement. The call does not wait for the answer to it.
    const ANNOUNCEMENT: u64 = 1;
    let mut made = Vec::new();
    assert_eq!(turns(&mut || drop(host.sign(session, &plain(M::ECDSA_SHA256), key, b"data"))), 0, "C_Sign");
    let find = turns(&mut || drop(host.find(session, &none())));
    assert!(find <= 1, "C_FindObjectsInit: {find}");
    let create = turns(&mut || made.push(host.create(session, &data("new").stored()).expect("data")));
    assert!(create <= 1 + ANNOUNCEMENT, "C_CreateObject: {create}");
    let mut changes = made.iter();
    let change = turns(&mut || {
        let object = changes.next().expect("an object");
        host.set(session, *object, &none().label("changed")).expect("a change");
    });
    assert!(change <= 1 + ANNOUNCEMENT, "C_SetAttributeValue: {change}");
    let destroy = turns(&mut || {
        let object = made.pop().expect("an object");
        host.destroy_object(session, object).expect("an object");
    });
    assert!(destroy <= 1 + ANNOUNCEMENT, "C_DestroyObject: {destroy}");
    let near = network.near.user();
    let tries = (0..4).map(|_| {
        network.near.create(near, &data("near").stored()).expect("data");
        let before = network.proxy.turns();
        host.create(session, &data("far").stored()).expect("data");
        network.proxy.turns() - before
    });
    let by_turns = tries.min().expect("a try");
    assert!(by_turns <= 2 + ANNOUNCEMENT, "C_CreateObject while hosts write by turns: {by_turns}");
    let set_pin = turns(&mut || host.set_pin(session, PIN, PIN).expect("a PIN"));
    assert!(set_pin <= 10, "C_SetPIN: {set_pin}");
    let login = turns(&mut || {
        host.logout(session).expect("the user");
        host.login(session);
    });
    println!(
        "round trips: {find} to find, {create} to create, {change} to change, {destroy} to destroy, {by_turns} to \
         create after a change of another host, {set_pin} to set the PIN, {login} to log in"
    );
    // docs/postgresql.md: "about six round trips".
    assert!(login <= 8, "C_Login: {login}");
}

#[test]
fn a_slow_network_loses_no_acknowledged_change() {
    let Some(network) = Network::start("slow") else { return };
    let hosts = [network.far(), network.far()];
    let sessions = [hosts[0].user(), hosts[1].user()];
    let near = network.near.user();
    let stop = AtomicBool::new(false);
    let mut histories = Vec::new();
    thread::scope(|scope| {
        let work = [
            scope.spawn(|| work(&hosts[0], sessions[0], "first", &stop)),
            scope.spawn(|| work(&hosts[1], sessions[1], "second", &stop)),
            scope.spawn(|| work(&network.near, near, "near", &stop)),
        ];
        // The last delay is that of a lost packet, which TCP sends again.
        for delay in [5, 50, 20, 0, 200] {
            network.proxy.delay(Duration::from_millis(delay));
            thread::sleep(Duration::from_millis(400));
        }
        network.proxy.delay(Duration::ZERO);
        stop.store(true, Ordering::Release);
        histories.extend(work.map(|host| host.join().expect("a host")));
    });
    network.check(&[&hosts[0], &hosts[1]], histories);
}
