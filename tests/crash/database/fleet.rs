//! Many hosts, each a process in a network namespace of its own, share a token in a database. All
//! hosts sign. Every tenth also finds, creates, changes and destroys objects. Prints the load of
//! the server and the delays of the hosts.

use super::hosts::{DOOMED, Task, delays, destroy, directory_of, doomed, tell};
use super::namespaces::{Namespaces, SERVER};
use super::pooler::Pooler;
use super::*;
use crate::open_files::now;

/// The pause of a host between two uses of keys.
const PAUSE: Duration = Duration::from_millis(50);
/// Every host with a multiple of this number makes changes.
const WRITERS: usize = 10;
/// A host that makes changes makes them after this number of its uses of keys.
const TURNS: usize = 10;
/// How long a host waits for the end of the destroyed keys.
const GRACE: Duration = Duration::from_secs(15);
/// How long the hosts may take to start.
const START: Duration = Duration::from_secs(180);
/// The pause between two looks at the server's memory.
const LOOK: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Counts {
    numbers: BTreeMap<&'static str, u64>,
    errors: BTreeMap<String, u64>,
}

impl Counts {
    fn add(&mut self, what: &'static str) {
        *self.numbers.entry(what).or_default() += 1;
    }

    fn fail(&mut self, call: &str, reason: Error) {
        *self.errors.entry(format!("{call} {reason:?}")).or_default() += 1;
    }

    fn print(&self) {
        self.numbers.iter().for_each(|(what, count)| println!("{what} {count}"));
        self.errors.iter().for_each(|(what, count)| println!("error {count} {what}"));
    }
}

/// A host. A failed call is counted, and does not end the host.
pub fn child() {
    let mut counts = Counts::default();
    let start = Instant::now();
    let task: Task = argument();
    let store = format!(", store = {{ {} }}", task.store);
    let started = try_with(&directory(), u32::MAX, Provider::ALL[0], &store);
    let outcome = started.and_then(|client| {
        let session = client.open_session(client.slot, Access::ReadWrite)?;
        client.module.login(session, User::User, PIN)?;
        Ok((client, session))
    });
    println!("started {}", start.elapsed().as_millis());
    tell(&task, "ready", "");
    ready();
    match outcome {
        Ok((client, session)) => work(&client, session, &task, &mut counts),
        Err(reason) => counts.fail("start", reason),
    }
    counts.print();
}

fn work(client: &Client, session: SessionHandle, task: &Task, counts: &mut Counts) {
    let seconds = Duration::from_secs(seconds());
    let start = Instant::now();
    let find = |label: &str| client.find_one(session, &none().label(label).flag(A::SIGN, true));
    let key = find("shared");
    let mut keys: Vec<_> = (0..DOOMED).map(|place| (place, find(&doomed(place)))).collect();
    let sign = |key| client.sign(session, &plain(M::ECDSA_SHA256), key, b"data").map(drop);
    let mut longest = Duration::ZERO;
    for turn in 0.. {
        let elapsed = start.elapsed();
        if elapsed > seconds && (keys.is_empty() || elapsed > seconds + GRACE) {
            break;
        }
        let begin = Instant::now();
        // The signatures after the end only wait for the last destroyed key.
        let counted = if elapsed <= seconds { "signatures" } else { "late" };
        match sign(key) {
            Ok(()) => counts.add(counted),
            Err(reason) => counts.fail("C_Sign", reason),
        }
        longest = longest.max(begin.elapsed());
        keys.retain(|(place, key)| match sign(*key) {
            Ok(()) => {
                counts.add(counted);
                true
            }
            Err(Error::KeyHandleInvalid) => {
                println!("gone {place} {}", now());
                false
            }
            Err(reason) => {
                counts.fail("C_Sign", reason);
                true
            }
        });
        if task.writes && turn % TURNS == 0 && elapsed <= seconds {
            match change(client, session, &format!("{}-{turn}", task.name)) {
                Ok(()) => counts.add("rounds"),
                Err(reason) => counts.fail("change", reason),
            }
        }
        sleep(PAUSE);
    }
    println!("longest {}", longest.as_millis());
}

fn change(client: &Client, session: SessionHandle, label: &str) -> Result<()> {
    let object = client.create(session, &data(label).stored())?;
    let changed = format!("{label}-changed");
    client.set(session, object, &none().label(&changed))?;
    assert_eq!(client.find(session, &none().label(&changed)), [object]);
    client.destroy_object(session, object)
}

struct Fleet {
    hosts: usize,
    seconds: u64,
    url: String,
    // Dropped first: the hosts in the namespaces end before their server.
    namespaces: Option<Namespaces>,
    pooler: Option<Pooler>,
    server: Server,
    directory: Arc<Directory>,
}

pub fn case() {
    let hosts = number("JETON_CRASH_HOSTS", 0);
    if hosts == 0 {
        return jeton_programs::skip("JETON_CRASH_HOSTS sets the number of hosts");
    }
    Fleet::start(hosts).run();
}

impl Fleet {
    fn start(hosts: usize) -> Self {
        let namespaces = Namespaces::make(hosts);
        if namespaces.is_none() {
            println!("all hosts are in the network namespace of the test");
        }
        let address = if namespaces.is_some() { SERVER } else { "127.0.0.1" };
        let options =
            format!("-c max_connections={} -c shared_preload_libraries=pg_stat_statements", hosts + 50);
        let server = Server::start_with_tls_at("fleet", &options, address, &format!("IP:{address}"));
        let server = server.expect("a server");
        server.sql("CREATE EXTENSION pg_stat_statements");
        let directory = Directory::new();
        std::fs::create_dir(directory.path().join("shared")).expect("a directory");
        let password = directory.path().join("password");
        std::fs::write(&password, "a password").expect("a file");
        std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).expect("a mode");
        let pooler = std::env::var("JETON_CRASH_POOLER").ok().map(|mode| {
            let schema = directory.schema();
            server.sql(&format!("ALTER ROLE host SET search_path = pg_catalog, {schema}, pg_temp"));
            let connections = if mode == "session" { hosts + 10 } else { 20 };
            Pooler::start(&server, address, &mode, connections)
        });
        let port = pooler.as_ref().map_or(server.port, |pooler| pooler.port);
        directory.use_url(&server.url());
        token_in(&directory, PIN);
        let url = format!("postgresql://host@{address}:{port}/postgres");
        server.sql(&format!("GRANT USAGE ON SCHEMA {0} TO host", directory.schema()));
        server.sql(&format!("GRANT ALL ON ALL TABLES IN SCHEMA {} TO host", directory.schema()));
        Self { hosts, seconds: seconds(), url, namespaces, pooler, server, directory }
    }

    fn run(self) {
        let one = client(&self.directory, u32::MAX);
        let session = one.user();
        pair(&one, session, Kind::P256, &none().stored().label("shared"));
        for place in 0..DOOMED {
            pair(&one, session, Kind::P256, &none().stored().label(&doomed(place)));
        }
        let objects: usize = number("JETON_CRASH_OBJECTS", 100);
        for place in 0..objects {
            one.create(session, &data(&format!("object {place}")).stored()).expect("an object");
        }
        let begin = Instant::now();
        let mut processes: Vec<_> = (0..self.hosts).map(|host| self.start_host(host)).collect();
        let is_ready = |host: usize| self.shared().join(format!("ready h{host}")).exists();
        jeton_child::until(START, "a host does not start", || (0..self.hosts).all(is_ready));
        let started = begin.elapsed();
        let before = self.load();
        let begin = Instant::now();
        processes.iter_mut().for_each(Process::go);
        let (destroyed, memory, connections) = std::thread::scope(|scope| {
            let destroyer = scope.spawn(|| destroy(&one, session, self.seconds));
            let (mut memory, mut connections) = (0, 0);
            while begin.elapsed().as_secs() < self.seconds {
                sleep(LOOK.min(Duration::from_secs(self.seconds)));
                memory = memory.max(self.memory());
                connections = connections.max(self.connections());
            }
            (destroyer.join().expect("a thread"), memory, connections)
        });
        let rates: Vec<_> = before.iter().zip(self.load()).map(|(before, after)| after - before).collect();
        let took = begin.elapsed().as_secs_f64();
        let said: Vec<_> = processes.into_iter().map(Process::wait).collect();
        self.report(&said, &destroyed);
        println!(
            "server: {connections} connections, {:.0} MiB, {:.0} changes of the token, {:.0} transactions, {:.0} \
             statements and {:.1} MiB of its log a second",
            memory as f64 / 1024.0,
            rates[0] / took,
            rates[1] / took,
            rates[2] / took,
            rates[3] / took / f64::from(1 << 20)
        );
        println!("all hosts were ready after {started:.1?}; {objects} objects besides the keys");
        if let Some(pooler) = &self.pooler {
            let log = std::fs::read_to_string(self.server.directory.join("pgbouncer.log")).expect("a log");
            let warnings: BTreeSet<_> =
                log.lines().filter_map(|line| line.split_once("WARNING ")).map(|(_, text)| text).collect();
            println!("PgBouncer at port {}: {warnings:?}", pooler.port);
        }
    }

    fn shared(&self) -> PathBuf {
        self.directory.path().join("shared")
    }

    fn start_host(&self, host: usize) -> Process {
        let directory = directory_of(&self.directory, host, &self.url);
        let path = |path: PathBuf| path.display().to_string();
        let store = format!(
            "ca-file = '{}', password = 'file:{}'",
            path(self.server.directory.join("ca.pem")),
            path(self.directory.path().join("password"))
        );
        let (name, writes) = (format!("h{host}"), host.is_multiple_of(WRITERS));
        let task = Task { name, seed: 0, shared: self.shared(), store, writes };
        match &self.namespaces {
            Some(spaces) => {
                Process::below("ip", &["netns", "exec", &spaces.name(host)], "fleet", &directory, task)
            }
            None => Process::start("fleet", &directory, task),
        }
    }

    /// Prints what the hosts counted, and how long the last of them used each destroyed key.
    fn report(&self, said: &[Vec<String>], destroyed: &[u128]) {
        let all = |word: &str| -> Vec<u64> {
            let lines = said.iter().flatten().filter_map(|line| line.strip_prefix(word));
            lines.filter_map(|text| text.parse().ok()).collect()
        };
        let mut errors = BTreeMap::<&str, u64>::new();
        for line in said.iter().flatten().filter_map(|line| line.strip_prefix("error ")) {
            let (count, what) = line.split_once(' ').expect("a count");
            *errors.entry(what).or_default() += count.parse::<u64>().expect("a count");
        }
        let gone = |lines: &&Vec<String>| lines.iter().filter(|line| line.starts_with("gone ")).count();
        let delays: Vec<_> =
            said.iter().filter(|lines| gone(lines) == DOOMED).map(|lines| delays(lines, destroyed)).collect();
        let longest = |place: usize| delays.iter().map(|delays| delays[place]).max();
        let most = |word: &str| all(word).into_iter().max().unwrap_or_default();
        println!(
            "{} hosts, {} s: {:.0} signatures a second, the longest took {} ms; {} rounds of changes; a host started \
             in at most {} ms",
            self.hosts,
            self.seconds,
            all("signatures ").iter().sum::<u64>() as f64 / self.seconds as f64,
            most("longest "),
            all("rounds ").iter().sum::<u64>(),
            most("started ")
        );
        println!(
            "{} hosts stopped the destroyed keys, the last of them after {:?} ms; errors: {errors:?}",
            delays.len(),
            (0..DOOMED).filter_map(longest).collect::<Vec<_>>()
        );
    }

    /// Returns the change number of the token, and the numbers of transactions, statements and
    /// bytes of the log.
    fn load(&self) -> Vec<f64> {
        let row = self.server.sql(&format!(
            "SELECT (SELECT change FROM {}.token) || ' ' || (SELECT xact_commit FROM pg_stat_database
                        WHERE datname = 'postgres')
                 || ' ' || (SELECT sum(calls) FROM pg_stat_statements)
                 || ' ' || (pg_current_wal_lsn() - '0/0'::pg_lsn)",
            self.directory.schema()
        ));
        row.split(' ').map(|number| number.parse().expect("a number")).collect()
    }

    fn connections(&self) -> u64 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'host'";
        self.server.sql(sql).parse().expect("a number")
    }

    /// Returns the memory of all processes of the server in KiB. Memory that several of them share
    /// counts once (`Pss`).
    fn memory(&self) -> u64 {
        let file = self.server.directory.join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).expect("a file");
        let main = text.lines().next().expect("a number");
        let children = std::fs::read_to_string(format!("/proc/{main}/task/{main}/children"));
        let children = children.expect("the children");
        let of = |process: &str| -> u64 {
            // A process may have ended meanwhile.
            let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0 kB");
            line.trim().trim_end_matches(" kB").parse().expect("a number")
        };
        of(main) + children.split_whitespace().map(of).sum::<u64>()
    }
}
