//! Failovers: a standby becomes the primary. The hosts use TLS, and reach each server through a
//! proxy of the test that delays messages, so that no answer is there at once.

use std::os::unix::fs::PermissionsExt;
use std::thread;

use crate::prelude::*;
use crate::proxy::Proxy;
use crate::support::server::Server;
use crate::{provider, server};

/// How long a host may need until it uses the new primary: the bound of docs/postgresql.md, and the
/// rest for a busy machine.
const BACK: Duration = Duration::from_secs(12);
/// The pause of a host between two signatures.
const PAUSE: Duration = Duration::from_millis(20);

/// A primary, its standbys, and a token.
struct Servers {
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
    directory: Arc<Directory>,
    first: Client,
}

impl Servers {
    /// Starts a primary and this number of standbys. Returns `None` if PostgreSQL is not installed.
    fn start(name: &str, standbys: usize) -> Option<Self> {
        server()?;
        let mut servers = vec![Server::start_with_tls(name).expect("a server")];
        let directory = Directory::new();
        let password = directory.path().join("password");
        std::fs::write(&password, "a password").expect("a file");
        std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).expect("a mode");
        directory.use_url(&format!("postgresql://host@localhost:{}/postgres", servers[0].port));
        let first = Client::initialise(&directory, provider(), &configuration(&servers[0], &directory));
        for standby in 0..standbys {
            servers.push(servers[0].start_standby(&format!("{name}{standby}")));
        }
        let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.port)).collect();
        proxies.iter().for_each(|proxy| proxy.delay(Duration::from_millis(5)));
        Some(Self { servers, proxies, directory, first })
    }

    /// A host that has the proxies of these servers in `store.url`.
    fn host(&self, servers: &[usize]) -> Client {
        self.host_with(servers, "")
    }

    fn host_with(&self, servers: &[usize], more: &str) -> Client {
        let hosts: Vec<_> =
            servers.iter().map(|number| format!("localhost:{}", self.proxies[*number].port)).collect();
        self.directory.use_url(&format!("postgresql://host@{}/postgres", hosts.join(",")));
        let configuration =
            configuration(&self.servers[0], &self.directory).replace(" }", &format!("{more} }}"));
        Client::beside(&self.directory, provider(), &configuration)
    }

    /// Makes a key pair that all servers have.
    fn pair(&self) {
        let session = self.first.user();
        pair(&self.first, session, Kind::P256, &none().stored().label("pair"));
        let position = self.servers[0].sql("SELECT pg_current_wal_lsn()");
        let has_it = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'");
        for standby in &self.servers[1..] {
            jeton_child::until(BACK, "a standby does not follow", || standby.sql(&has_it) == "t");
        }
    }

    /// Promotes a standby, and destroys the key there.
    fn promote_and_destroy(&self, number: usize) {
        self.servers[number].control(&["promote"]);
        let host = self.host(&[number]);
        let session = host.user();
        host.destroy_object(session, private_key(&host, session)).expect("the key");
    }
}

fn configuration(server: &Server, directory: &Directory) -> String {
    format!(
        ", store = {{ ca-file = '{}', password = 'file:{}' }}",
        server.directory.join("ca.pem").display(),
        directory.path().join("password").display()
    )
}

fn private_key(client: &Client, session: SessionHandle) -> ObjectHandle {
    client.find_one(session, &none().label("pair").number(A::CLASS, ObjectClass::PRIVATE_KEY.0))
}

/// A host that signs and never searches.
struct Signer {
    client: Client,
    session: SessionHandle,
    key: ObjectHandle,
}

impl Signer {
    fn new(client: Client) -> Self {
        let session = client.user();
        let key = private_key(&client, session);
        let signer = Self { client, session, key };
        signer.sign().expect("a signature");
        signer
    }

    fn sign(&self) -> Result<(), Error> {
        self.client.sign(self.session, &plain(M::ECDSA_SHA256), self.key, b"data").map(drop)
    }

    fn sign_for(&self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.sign().expect("a signature");
            thread::sleep(PAUSE);
        }
    }

    /// Signs until the key is refused.
    fn sign_until_refused(&self) {
        let start = Instant::now();
        while self.sign().is_ok() {
            assert!(start.elapsed() < BACK, "the destroyed key signs after {:?}", start.elapsed());
            thread::sleep(PAUSE);
        }
        println!("refused after {:?}", start.elapsed());
        assert_eq!(self.sign(), Err(Error::KeyHandleInvalid));
    }
}

#[test]
fn a_host_that_only_signs_finds_a_new_primary_at_the_end_of_the_list() {
    let Some(servers) = Servers::start("last", 2) else { return };
    servers.pair();
    let signer = Signer::new(servers.host(&[0, 1, 2]));
    servers.servers[0].crash();
    signer.sign_for(Duration::from_secs(4));
    servers.promote_and_destroy(2);
    signer.sign_until_refused();
}

#[test]
fn a_host_that_signs_rarely_finds_a_new_primary() {
    let Some(servers) = Servers::start("rare", 1) else { return };
    servers.pair();
    let signer = Signer::new(servers.host_with(&[0, 1], ", timeout-seconds = 2"));
    servers.servers[0].crash();
    signer.sign().expect("a signature");
    servers.promote_and_destroy(1);
    // The pause is longer than the time of one host, which is half of `timeout-seconds`.
    let signatures = (0..25).take_while(|_| {
        thread::sleep(Duration::from_millis(1200));
        signer.sign().is_ok()
    });
    let signatures = signatures.count();
    assert!(signatures < 25, "the destroyed key signs");
    println!("refused after {signatures} signatures");
}

#[test]
fn the_newest_primary_is_used_and_an_old_one_never_again() {
    let Some(servers) = Servers::start("newest", 1) else { return };
    servers.pair();
    servers.promote_and_destroy(1);
    for order in [[0, 1], [1, 0]] {
        let host = servers.host(&order);
        let session = host.user();
        assert_eq!(host.find(session, &none().label("pair").flag(A::SIGN, true)), [], "{order:?}");
    }
    let host = servers.host(&[0, 1]);
    let session = host.user();
    servers.servers[1].crash();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        let created = host.create(session, &data("new").stored());
        assert_eq!(created.err(), Some(Error::DeviceError), "a change on the old primary");
        thread::sleep(PAUSE);
    }
}

/// The standby is promoted while the old primary goes on, as if only the manager of the old one had
/// been killed.
#[test]
fn a_host_leaves_an_old_primary_that_still_answers() {
    let Some(servers) = Servers::start("two", 1) else { return };
    servers.pair();
    let signer = Signer::new(servers.host(&[0, 1]));
    servers.promote_and_destroy(1);
    signer.sign_until_refused();
}

#[test]
fn a_host_leaves_an_old_primary_that_is_silent() {
    let Some(servers) = Servers::start("silent", 1) else { return };
    servers.pair();
    let signer = Signer::new(servers.host(&[0, 1]));
    servers.proxies[0].partition();
    servers.promote_and_destroy(1);
    signer.sign_until_refused();
    servers.proxies[0].heal();
}

/// The load waits for a table that is locked, until `timeout-seconds`.
#[test]
fn a_load_that_waited_does_not_delay_the_next_questions() {
    let Some(servers) = Servers::start("load", 0) else { return };
    servers.pair();
    let host = servers.host_with(&[0], ", timeout-seconds = 2");
    let signer = Signer::new(host);
    let session = servers.first.open();
    servers.first.destroy_object(session, private_key(&servers.first, session)).expect("the key");
    let table = format!("{}.object", servers.directory.schema());
    let lock = format!("BEGIN; LOCK TABLE {table}; SELECT pg_sleep(5); COMMIT");
    thread::scope(|scope| {
        scope.spawn(|| servers.servers[0].sql(&lock));
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        jeton_child::until(BACK, "the table is not locked", || servers.servers[0].sql(waits) == "1");
        signer.sign_until_refused();
    });
}

/// The old primary commits no more, because its standby has left it.
#[test]
fn a_change_that_waits_on_an_old_primary_finds_the_new_one() {
    let Some(servers) = Servers::start("waits", 1) else { return };
    servers.pair();
    let host = servers.host_with(&[0, 1], ", timeout-seconds = 60");
    let session = host.user();
    servers.servers[0].sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    servers.servers[0].sql("SELECT pg_reload_conf()");
    servers.servers[1].control(&["promote"]);
    let start = Instant::now();
    while host.create(session, &data("new").stored()).is_err() {
        assert!(start.elapsed() < BACK, "no change for {:?}", start.elapsed());
    }
    println!("changed after {:?}", start.elapsed());
    let new = servers.host(&[1]);
    assert_eq!(new.find(new.user(), &data("new").stored()).len(), 1, "the new primary has the object");
}
