//! A primary server and its synchronous standby. Both end with the test process, also if the
//! process is killed.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::process::Child;

use super::*;

/// Waits for the end of its input. Then stops both servers and removes their files.
const GUARD: &str = r#"
read -r _ || true
for node in 0 1; do
    "$BIN/pg_ctl" --pgdata="$DATA/$node" --silent --mode=immediate stop 2>/dev/null || true
done
rm -rf "$DATA"
"#;

/// The settings of both servers. A commit waits until the standby has written it.
const SETTINGS: &str = "
fsync = off
synchronous_standby_names = '*'
wal_retrieve_retry_interval = 100ms
listen_addresses = ''
";

/// Two servers. The number of a server is the name of its folder.
pub struct Cluster {
    directory: PathBuf,
    primary: usize,
    /// The shell that runs `GUARD`. Its input ends when this value is dropped.
    _guard: Child,
}

impl Cluster {
    pub fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("jeton-cluster-{}", std::process::id()));
        // Every client that reaches a socket is the superuser, so other users must not reach it.
        DirBuilder::new().mode(0o700).create(&directory).expect("a directory");
        let mut guard = as_user(&directory);
        guard.args(["sh", "-c", GUARD]).env("DATA", &directory).env("BIN", bin());
        // An interrupt of the test ends the test first, and the servers after it.
        let guard = guard.process_group(0).stdin(Stdio::piped()).spawn().expect("a shell");
        let cluster = Self { directory, primary: 0, _guard: guard };
        let data = cluster.data(0);
        cluster.run("initdb", &["-U", USER, "-D", &data, "--auth=trust", "--no-sync", "--no-instructions"]);
        let file = Path::new(&data).join("postgresql.conf");
        let settings = std::fs::read_to_string(&file).expect("a file") + SETTINGS;
        std::fs::write(&file, settings).expect("a file");
        cluster.start_server(0);
        cluster.add_standby();
        cluster
    }

    pub fn url(&self) -> String {
        let [one, other] = [0, 1].map(|node| format!("host={}", self.socket(node)));
        format!("postgresql://{USER}@/postgres?{one}&{other}")
    }

    /// The primary crashes, and the standby becomes the primary.
    pub fn fail_over(&mut self) {
        self.control(self.primary, &["stop", "--mode=immediate"]);
        self.primary = 1 - self.primary;
        self.control(self.primary, &["promote"]);
    }

    /// Replaces the server that does not run by a standby of the primary. Returns when commits wait
    /// for it.
    pub fn add_standby(&self) {
        let standby = 1 - self.primary;
        let data = self.data(standby);
        if Path::new(&data).exists() {
            std::fs::remove_dir_all(&data).expect("the files of a server");
        }
        let source = self.socket(self.primary);
        let options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"];
        self.run("pg_basebackup", &[&options[..], &["-h", &source, "-U", USER, "-D", &data]].concat());
        self.start_server(standby);
        let following = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let follows = || self.sql(following) == "1";
        jeton_child::until(LONGEST_OUTAGE, "the standby does not follow the primary", follows);
    }

    /// Runs SQL as the superuser of the primary. Returns the rows, without headings.
    pub fn sql(&self, sql: &str) -> String {
        let host = self.socket(self.primary);
        let options = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"];
        let done = self.run("psql", &[&options[..], &["-h", &host, "-U", USER, "-c", sql]].concat());
        done.trim_end().to_owned()
    }

    fn start_server(&self, node: usize) {
        let socket = self.socket(node);
        let made = as_user(&self.directory).args(["mkdir", "-p", &socket]).status();
        assert!(made.expect("mkdir").success(), "{socket}");
        self.control(node, &["start", &format!("--options=-k {socket}")]);
    }

    fn control(&self, node: usize, arguments: &[&str]) {
        let log = self.directory.join(format!("log{node}")).display().to_string();
        let mut all = vec!["--wait", "--silent", "--log", &log, "--pgdata"];
        let data = self.data(node);
        all.push(&data);
        all.extend(arguments);
        self.run("pg_ctl", &all);
    }

    /// Runs a program of PostgreSQL, which must succeed. Returns its output.
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = as_user(&self.directory);
        let output = self.directory.join("output");
        // A server inherits the output of pg_ctl, so it is a file and not a pipe.
        let file = File::create(&output).expect("a file");
        command.arg(bin().join(program)).args(arguments).stdin(Stdio::null()).stdout(file);
        let status = command.status().expect("a program of PostgreSQL");
        assert!(status.success(), "{program} {arguments:?}");
        std::fs::read_to_string(output).expect("text")
    }

    fn data(&self, node: usize) -> String {
        self.directory.join(node.to_string()).display().to_string()
    }

    fn socket(&self, node: usize) -> String {
        self.directory.join(format!("socket{node}")).display().to_string()
    }
}

fn bin() -> PathBuf {
    binaries().expect("PostgreSQL is installed")
}
