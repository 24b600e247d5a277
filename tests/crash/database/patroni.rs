//! Three servers under Patroni and etcd, each in a network namespace. They commit to a synchronous
//! standby, in strict mode. The settings are those of docs/postgresql.md.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::process::Child;

use super::namespaces::{Namespaces, address};
use super::*;

pub const NODES: usize = 3;
/// How long the servers may take until all of them follow one leader.
const HEALTHY: Duration = Duration::from_secs(300);
/// The time after which a server that does not follow the leader gets a new copy.
const REPAIR: Duration = Duration::from_secs(60);
/// The size of the disk of a server.
const DISK: &str = "size=1g";
const PASSWORD: &str = "a password";
/// The beginning of the name of the directory. The process number follows.
const PREFIX: &str = "jeton-patroni-";

/// The program of a fault kills, stops or continues these processes.
#[derive(Clone, Copy)]
pub enum Processes {
    All,
    Manager,
    Server,
}

pub struct Patroni<'a> {
    directory: PathBuf,
    namespaces: &'a Namespaces,
    /// What was started. They end with the test process.
    children: Vec<Child>,
}

/// The server that accepts changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    pub node: usize,
    pub timeline: u32,
}

impl<'a> Patroni<'a> {
    /// Starts the servers in the first namespaces, with a role `jeton`.
    pub fn start(namespaces: &'a Namespaces) -> Self {
        remove_leftovers();
        let directory = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        // Every client that reaches a socket is the superuser, so other users must not reach it.
        DirBuilder::new().mode(0o700).create(&directory).expect("a directory");
        let mut servers = Self { directory, namespaces, children: Vec::new() };
        for node in 0..NODES {
            std::fs::create_dir_all(servers.path(node, "disk")).expect("a directory");
            let disk = servers.path(node, "disk").display().to_string();
            run("mount", &["-t", "tmpfs", "-o", DISK, "tmpfs", &disk]);
        }
        servers.certificates();
        for node in 0..NODES {
            let file = servers.path(node, "patroni.yml");
            std::fs::write(file, servers.configuration(node)).expect("a file");
        }
        run("chown", &["-R", USER, &servers.directory.display().to_string()]);
        (0..NODES).for_each(|node| servers.start_node(node));
        assert!(servers.wait_until_healthy(), "the servers do not start");
        let leader = servers.leader().expect("a leader");
        servers.sql(leader.node, &format!("CREATE ROLE jeton LOGIN PASSWORD '{PASSWORD}'"));
        servers.sql(leader.node, "GRANT ALL ON DATABASE postgres TO jeton");
        servers
    }

    /// The keys of `[store]` for a host, with its own copy of the password.
    pub fn store(&self, directory: &Directory) -> String {
        let password = directory.path().join("password");
        std::fs::write(&password, PASSWORD).expect("a file");
        std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).expect("a mode");
        format!(
            "ca-file = '{}', password = 'file:{}'",
            self.directory.join("ca.pem").display(),
            password.display()
        )
    }

    pub fn url(&self) -> String {
        let hosts: Vec<_> = (0..NODES).map(address).collect();
        format!("postgresql://jeton@{}/postgres", hosts.join(","))
    }

    fn path(&self, node: usize, name: &str) -> PathBuf {
        self.directory.join(format!("node{node}")).join(name)
    }

    /// Makes an authority, and a certificate with the address of each server.
    fn certificates(&self) {
        let mut script =
            "new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
             -keyout $1.key -out $1.pem -subj /CN=${1#*/} -addext basicConstraints=critical,CA:$2 \
             -addext subjectAltName=$3 ${4:+-CA $4.pem -CAkey $4.key} 2>/dev/null; }\nnew ca true DNS:ca\n"
                .to_owned();
        for node in 0..NODES {
            script += &format!("new node{node}/server false IP:{} ca\n", address(node));
        }
        let directory = self.directory.display();
        run("sh", &["-euc", &format!("cd {directory}\n{script}chmod 755 . && chmod 644 ca.pem")]);
    }

    fn configuration(&self, node: usize) -> String {
        let own = address(node);
        let all: Vec<_> = (0..NODES).map(|node| format!("{}:2379", address(node))).collect();
        let (path, bin) = (|name: &str| self.path(node, name).display().to_string(), binaries());
        format!(
            "scope: jeton
name: node{node}
restapi: {{ listen: '{own}:8008', connect_address: '{own}:8008' }}
etcd: {{ hosts: '{etcd}' }}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 5
    retry_timeout: 5
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {{ max_connections: 100, wal_keep_size: 256MB, wal_retrieve_retry_interval: 500ms }}
  initdb: [encoding: UTF8, data-checksums]
postgresql:
  listen: '{own}:5432'
  connect_address: '{own}:5432'
  data_dir: '{data}'
  bin_dir: '{bin}'
  pgpass: '{pgpass}'
  use_unix_socket: true
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  authentication:
    superuser: {{ username: {USER}, password: '{PASSWORD}', sslmode: require }}
    replication: {{ username: replicator, password: '{PASSWORD}', sslmode: require }}
  parameters:
    unix_socket_directories: '{socket}'
    ssl: 'on'
    ssl_cert_file: '{certificate}'
    ssl_key_file: '{key}'
    wal_log_hints: 'on'
    shared_buffers: 32MB
  pg_hba:
  - local all all trust
  - hostssl replication replicator 198.18.0.0/16 scram-sha-256
  - hostssl all {USER} 198.18.0.0/16 scram-sha-256
  - hostssl all jeton 198.18.0.0/16 scram-sha-256
",
            etcd = all.join(","),
            data = path("disk/data"),
            bin = bin.expect("PostgreSQL is installed").display(),
            pgpass = path("pgpass"),
            socket = self.path(node, "").display().to_string().trim_end_matches('/'),
            certificate = path("server.pem"),
            key = path("server.key"),
        )
    }

    /// Starts etcd and Patroni, which starts the server.
    pub fn start_node(&mut self, node: usize) {
        self.start_etcd(node);
        self.start_manager(node);
    }

    fn start_etcd(&mut self, node: usize) {
        let own = address(node);
        let members: Vec<_> =
            (0..NODES).map(|node| format!("node{node}=http://{}:2380", address(node))).collect();
        let (name, data) = (format!("node{node}"), self.path(node, "etcd").display().to_string());
        let [peer, client] = [2380, 2379].map(|port| format!("http://{own}:{port}"));
        let arguments = [
            ["--name", &name],
            ["--data-dir", &data],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--initial-cluster", &members.join(",")],
            // Through version 3 of the API, Patroni 3.0.2 overwrites the lock of another leader.
            // With a vote before each election, a server that comes back does not stop the others.
            ["--enable-v2", "--pre-vote"],
            // A busy machine delays heartbeats.
            ["--heartbeat-interval", "300"],
            ["--election-timeout", "3000"],
        ];
        self.spawn(node, "etcd", &arguments.concat());
    }

    pub fn start_manager(&mut self, node: usize) {
        let file = self.path(node, "patroni.yml").display().to_string();
        self.spawn(node, "patroni", &[&file]);
    }

    fn spawn(&mut self, node: usize, program: &str, arguments: &[&str]) {
        let log = File::options().create(true).append(true).open(self.path(node, &format!("{program}.log")));
        let log = log.expect("a file");
        let mut command = self.command(node);
        command.args(["setpriv", "--reuid", USER, "--regid", USER, "--init-groups", "--pdeathsig", "KILL"]);
        // The files of root's home are not for this user.
        command.arg(program).args(arguments).current_dir(&self.directory).env("HOME", &self.directory);
        command.stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        self.children.push(command.spawn().expect("a server"));
    }

    /// A command in the namespace of a server.
    fn command(&self, node: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespaces.name(node)]);
        command
    }

    /// Runs SQL as the superuser. Fails if the server does not answer within three seconds.
    fn try_sql(&self, node: usize, sql: &str) -> Option<String> {
        let psql = binaries().expect("PostgreSQL is installed").join("psql");
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "3"]).arg(psql);
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        command.args(["--username", USER, "--command", sql, "--host"]).arg(self.path(node, ""));
        let done = command.arg("postgres").output().expect("psql");
        let text = String::from_utf8(done.stdout).expect("text").trim_end().to_owned();
        done.status.success().then_some(text)
    }

    pub fn sql(&self, node: usize, sql: &str) -> String {
        self.try_sql(node, sql).unwrap_or_else(|| panic!("node {node}: {sql}"))
    }

    /// Returns the server with the highest timeline of those that accept changes.
    pub fn leader(&self) -> Option<Leader> {
        let sql = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
                   WHERE NOT pg_is_in_recovery()";
        let leaders = (0..NODES).filter_map(|node| {
            let timeline = self.try_sql(node, sql)?.parse().ok()?;
            Some(Leader { node, timeline })
        });
        leaders.max_by_key(|leader| leader.timeline)
    }

    /// Waits until both other servers follow the leader, and one of them is a synchronous standby.
    /// Returns `false` if this takes too long.
    pub fn wait_until_healthy(&self) -> bool {
        let sql = "SELECT coalesce(string_agg(application_name, ' '), ''), coalesce(bool_or(sync_state = 'sync'), false)
                   FROM pg_stat_replication WHERE state = 'streaming'";
        let (begin, mut repaired) = (Instant::now(), Instant::now());
        let mut is_healthy = || {
            let Some(leader) = self.leader() else { return false };
            let Some(state) = self.try_sql(leader.node, sql) else { return false };
            let follows = |node: &usize| state.contains(&format!("node{node}"));
            let lost: Vec<_> = (0..NODES).filter(|node| *node != leader.node && !follows(node)).collect();
            if repaired.elapsed() > REPAIR {
                repaired = Instant::now();
                lost.iter().for_each(|node| self.reinitialize(*node));
            }
            lost.is_empty() && state.ends_with("|t")
        };
        while !is_healthy() {
            if begin.elapsed() > HEALTHY {
                return false;
            }
            sleep(Duration::from_millis(200));
        }
        true
    }

    /// Waits until the leader has a synchronous standby. Until then it acknowledges no change.
    pub fn wait_for_standby(&self) {
        let sql = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
        let has_standby =
            || self.leader().and_then(|leader| self.try_sql(leader.node, sql)).as_deref() == Some("1");
        jeton_child::until(HEALTHY, "the leader has no standby", has_standby);
    }

    /// Makes a new copy of the leader on a server that does not follow it. An administrator would
    /// do the same.
    fn reinitialize(&self, node: usize) {
        println!("node {node} does not follow the leader and gets a new copy");
        let mut command = self.command(node);
        command.args(["timeout", "30", "patronictl", "-c"]).arg(self.path(node, "patroni.yml"));
        command.args(["reinit", "jeton", &format!("node{node}"), "--force"]);
        // If this fails, it is done again.
        let _ = command.env("LC_ALL", "C.UTF-8").stdout(Stdio::null()).status();
    }

    /// Asks Patroni to make another server the leader.
    pub fn switch_over(&self, leader: usize) {
        let mut command = self.command(leader);
        let file = self.path(leader, "patroni.yml");
        command.args(["patronictl", "-c"]).arg(file).args(["switchover", "--force", "--master"]);
        let done =
            command.arg(format!("node{leader}")).env("LC_ALL", "C.UTF-8").output().expect("patronictl");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }

    /// Sends a signal to processes of a server.
    pub fn signal(&self, node: usize, signal: &str, which: Processes) {
        let found = Command::new("ip").args(["netns", "pids", &self.namespaces.name(node)]).output();
        let found = String::from_utf8(found.expect("ip").stdout).expect("numbers");
        let is_chosen = |process: &&str| {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            match which {
                Processes::All => true,
                Processes::Manager => name.trim() == "patroni",
                Processes::Server => name.trim() == "postgres",
            }
        };
        let chosen: Vec<_> = found.split_whitespace().filter(is_chosen).collect();
        if chosen.is_empty() {
            return;
        }
        // A process may have ended meanwhile.
        let _ = Command::new("kill").arg(format!("-{signal}")).args(chosen).status();
    }

    /// Cuts the link of a server, or connects it again.
    pub fn connect(&self, node: usize, state: &str) {
        run("ip", &["link", "set", &self.namespaces.link(node), state]);
    }

    /// Cuts a server off from the other servers, or connects it again (`add` or `del`). The hosts
    /// still reach it.
    pub fn cut_from_others(&self, node: usize, change: &str) {
        for other in (0..NODES).filter(|other| *other != node) {
            let name = self.namespaces.name(node);
            run("ip", &["-n", &name, "route", change, "blackhole", &format!("{}/32", address(other))]);
        }
    }

    /// Fills the disk of a server, or frees it.
    pub fn fill(&self, node: usize, is_full: bool) {
        let file = self.path(node, "disk/filler");
        if is_full {
            let zeros = format!("dd if=/dev/zero of={} bs=64k 2>/dev/null || true", file.display());
            run("sh", &["-c", &zeros]);
        } else {
            std::fs::remove_file(file).expect("a file");
        }
    }
}

impl Drop for Patroni<'_> {
    fn drop(&mut self) {
        for node in 0..NODES {
            self.signal(node, "KILL", Processes::All);
        }
        for child in &mut self.children {
            // It has been killed.
            let _ = child.wait();
        }
        if std::thread::panicking() {
            println!("the files of the servers stay in {}", self.directory.display());
            return;
        }
        remove(&self.directory);
    }
}

/// Removes the files of servers that have ended.
fn remove(directory: &Path) {
    for node in 0..NODES {
        let disk = directory.join(format!("node{node}/disk")).display().to_string();
        // A run that was killed may not have mounted it.
        let _ = Command::new("umount").args(["--quiet", "--lazy", &disk]).status();
    }
    std::fs::remove_dir_all(directory).expect("the files of the servers");
}

/// Removes the files of test processes that were killed or have failed. `Namespaces::make` has
/// killed their servers.
fn remove_leftovers() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            remove(&entry.path());
        }
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("a program");
    assert!(status.success(), "{program} {arguments:?}");
}
