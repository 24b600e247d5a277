//! A PostgreSQL server of this test process, on a Unix socket. It ends with the process, also if
//! the process is killed.

use std::fs::DirBuilder;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// The administrator of the server, who owns all tables.
const USER: &str = "postgres";

/// Makes a database, starts the server, says so, and waits for the end of its input. Then stops the
/// server and removes its files. A test needs no data after a crash of the machine.
const SCRIPT: &str = r#"
set -eu
cd "$DATA"
"$BIN/initdb" --username=postgres --auth=trust --no-sync --no-instructions --pgdata="$DATA/data" >"$DATA/initdb.log"
"$BIN/pg_ctl" --pgdata="$DATA/data" --wait --silent --log="$DATA/log" \
    --options="-k $DATA -c listen_addresses=$LISTEN -c port=$PORT -c max_connections=200 $OPTIONS" start
echo ready
read -r _ || true
"$BIN/pg_ctl" --pgdata="$DATA/data" --silent --mode=immediate stop || true
rm -rf "$DATA"
"#;

/// A running server.
pub struct Server {
    directory: PathBuf,
    bin: PathBuf,
    port: u16,
    /// The script stops the server when this pipe is closed.
    _end: ChildStdin,
}

impl Server {
    /// The server of this process, which loses its data if the machine crashes. Starts it if it
    /// does not run yet. Returns `None` if PostgreSQL is not installed.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Server>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("shared", "-c fsync=off -c full_page_writes=off")).as_ref()
    }

    /// Starts a server with these options. Returns `None` if PostgreSQL is not installed.
    pub fn start(name: &str, options: &str) -> Option<Self> {
        Self::start_on(name, options, "''", 5432)
    }

    /// Starts a server that also listens on the loopback address, at a port that is free.
    #[allow(dead_code, reason = "not every test binary uses TLS")]
    pub fn start_with_port(name: &str, options: &str) -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        Self::start_on(name, options, "127.0.0.1", port)
    }

    fn start_on(name: &str, options: &str, listen: &str, port: u16) -> Option<Self> {
        let bin = binaries()?;
        let directory = std::env::temp_dir().join(format!("jeton-postgresql-{}-{name}", std::process::id()));
        // Everyone who reaches the socket is the superuser.
        DirBuilder::new().mode(0o700).create(&directory).expect("a directory");
        let mut command = as_user(&directory);
        command.args(["sh", "-c", SCRIPT]).env("DATA", &directory).env("BIN", &bin);
        command.env("OPTIONS", options).env("LISTEN", listen).env("PORT", port.to_string());
        // An interrupt of the test ends the test first, and the server after it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let (end, said) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).expect("a line of the script");
        assert_eq!(line.trim(), "ready", "the server did not start: {}", directory.display());
        Some(Self { directory, bin, port, _end: end })
    }

    /// The address of the server's database.
    pub fn url(&self) -> String {
        format!("postgresql://{USER}@/postgres?host={}&port={}", self.directory.display(), self.port)
    }

    /// The port of the server.
    #[allow(dead_code, reason = "not every test binary uses TLS")]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs a shell script in the server's directory, as the user of the server.
    #[allow(dead_code, reason = "not every test binary uses TLS")]
    pub fn shell(&self, script: &str) {
        let mut command = as_user(&self.directory);
        let done =
            command.args(["sh", "-euc", script]).current_dir(&self.directory).output().expect("a shell");
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Runs SQL as the superuser. Returns the rows, without headings.
    #[allow(dead_code, reason = "not every test binary alters the database")]
    pub fn sql(&self, sql: &str) -> String {
        let mut command = Command::new(self.bin.join("psql"));
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        command.arg("--host").arg(&self.directory).arg(format!("--port={}", self.port)).args([
            "--username",
            USER,
            "--command",
            sql,
            "postgres",
        ]);
        let done = command.output().expect("psql");
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text").trim_end().to_owned()
    }

    /// Stops the server without a checkpoint, as a crash does, and starts it again.
    #[allow(dead_code, reason = "not every test binary crashes the server")]
    pub fn control(&self, arguments: &[&str]) {
        let mut command = as_user(&self.directory);
        command.arg(self.bin.join("pg_ctl")).arg("--pgdata").arg(self.directory.join("data"));
        command.args(["--wait", "--silent"]).arg("--log").arg(self.directory.join("log"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().expect("pg_ctl").success(), "pg_ctl {arguments:?}");
    }

    /// The directory of the socket.
    #[allow(dead_code, reason = "not every test binary starts the server again")]
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// The folder of the newest installed version of PostgreSQL.
fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<_> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    found.sort();
    found.into_iter().rev().find(|bin| bin.join("initdb").exists())
}

/// Starts a command line as the user of the package, because the server refuses to run as root.
fn as_user(directory: &Path) -> Command {
    if !is_root() {
        return Command::new("env");
    }
    let owner = format!("{USER}:{USER}");
    let done = Command::new("chown").arg(owner).arg(directory).status().expect("chown");
    assert!(done.success(), "the package of PostgreSQL makes the user {USER}");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--init-groups"]);
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}
