//! A PostgreSQL server of this test process, on a Unix socket. It ends with the process, also if
//! the process is killed.

use std::fs::DirBuilder;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The administrator of the server, who owns all tables.
pub const USER: &str = "postgres";

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
    pub directory: PathBuf,
    pub port: u16,
    /// The script. It stops the server when its input is closed, which this value has.
    _script: Child,
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

    /// Starts a server that listens on this address, besides its Unix socket.
    pub fn start_on(name: &str, options: &str, listen: &str, port: u16) -> Option<Self> {
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
        let said = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).expect("a line of the script");
        assert_eq!(line.trim(), "ready", "the server did not start: {}", directory.display());
        Some(Self { directory, port, _script: child })
    }

    /// The address of the server's database.
    pub fn url(&self) -> String {
        format!("postgresql://{USER}@/postgres?host={}&port={}", self.directory.display(), self.port)
    }
}

/// The folder of the newest installed version of PostgreSQL.
pub fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<_> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    found.sort();
    found.into_iter().rev().find(|bin| bin.join("initdb").exists())
}

/// Starts a command line as the user of the package, because the server refuses to run as root.
pub fn as_user(directory: &Path) -> Command {
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
