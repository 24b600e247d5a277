//! A PostgreSQL server of this test process, on a Unix socket. When the process ends, or is killed,
//! the server stops and its files are removed.
//!
//! A script starts the server, and stops it when the script's input ends. The input ends when the
//! test process ends in any way. If the script is killed, the kernel stops the server. If the
//! script and the test process are killed, the next test process that starts a server removes the
//! files.

use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The administrator of the server, who owns all tables.
pub const USER: &str = "postgres";
/// The beginning of the name of a server's directory. The process number and the server's name
/// follow.
const PREFIX: &str = "jeton-postgresql-";
/// The file in a server's directory that the script keeps locked as long as it runs.
const LOCK: &str = "lock";

/// Creates the database files, or copies those of the server `SOURCE`. Starts the server, prints
/// `ready`, and waits for the end of its input. Then stops the server and removes its files. A test
/// needs no data after a crash of the machine.
const SCRIPT: &str = r#"
set -eu
# The test process may be killed while the script writes to it.
trap '' PIPE
cd "$DATA"
# The file gets its name when it is locked.
exec 9>new
flock 9
mv new lock
finish() {
    trap '' HUP INT TERM
    trap - EXIT
    # A test that was killed may have left a pg_ctl that starts the server again: it finds no data.
    if mv data gone; then
        "$BIN/pg_ctl" --pgdata="$DATA/gone" --silent --mode=immediate stop || true
    fi
    cd /
    rm -rf "$DATA"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
if [ -n "$SOURCE" ]; then
    "$BIN/pg_basebackup" --write-recovery-conf --checkpoint=fast --no-sync --dbname="$SOURCE" --pgdata="$DATA/data"
else
    "$BIN/initdb" --username=postgres --auth=trust --no-sync --no-instructions --pgdata="$DATA/data" >initdb.log
fi
# The kernel stops the server if this shell is killed.
setpriv --pdeathsig QUIT "$BIN/postgres" -D "$DATA/data" -k "$DATA" -c listen_addresses="$LISTEN" -c port="$PORT" \
    -c max_connections=200 $OPTIONS >>log 2>&1 9>&- &
until "$BIN/pg_isready" --quiet --host="$DATA" --port="$PORT"; do
    if ! kill -0 "$!"; then
        cat log >&2
        exit 1
    fi
    sleep 0.05
done
echo ready
read -r _ || true
"#;

pub struct Server {
    pub directory: PathBuf,
    pub port: u16,
    /// The script, with the pipe to its input. The script stops the server when the pipe closes.
    _script: Child,
}

impl Server {
    /// Returns the server that the tests of this process share. Starts it at the first call. It
    /// loses its data if the machine crashes. Returns `None` if PostgreSQL is not installed.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Server>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("shared", "-c fsync=off -c full_page_writes=off")).as_ref()
    }

    /// Starts a server with these options. Returns `None` if PostgreSQL is not installed.
    pub fn start(name: &str, options: &str) -> Option<Self> {
        Self::start_on(name, options, "", 5432)
    }

    /// Starts a server that listens on this address, besides its Unix socket.
    pub fn start_on(name: &str, options: &str, listen: &str, port: u16) -> Option<Self> {
        Self::start_from("", name, options, listen, port)
    }

    /// Starts a standby of the server with this connection string, or a new server if it is empty.
    pub fn start_from(source: &str, name: &str, options: &str, listen: &str, port: u16) -> Option<Self> {
        let bin = binaries()?;
        remove_leftovers();
        let directory = std::env::temp_dir().join(format!("{PREFIX}{}-{name}", std::process::id()));
        // A process that can reach the socket can act as the superuser.
        DirBuilder::new().mode(0o700).create(&directory).expect("a directory");
        let mut command = as_user(&directory);
        command.args(["sh", "-c", SCRIPT]).env("DATA", &directory).env("BIN", &bin);
        command.env("OPTIONS", options).env("LISTEN", listen).env("PORT", port.to_string());
        command.env("SOURCE", source);
        // An interrupt of the test ends the test first, and the server after it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let said = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).expect("a line of the script");
        assert_eq!(line.trim(), "ready", "the server did not start: {}", directory.display());
        Some(Self { directory, port, _script: child })
    }

    pub fn url(&self) -> String {
        format!("postgresql://{USER}@/postgres?host={}&port={}", self.directory.display(), self.port)
    }
}

/// Stops the servers whose scripts were killed, and removes their files.
fn remove_leftovers() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let path = entry.path();
        // A directory without the lock file is so new that its script has not locked it yet.
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(lock) = File::open(path.join(LOCK))
            && lock.try_lock().is_ok()
        {
            stop(&path);
            // Another user may own the directory.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Stops the server of a directory, and waits until it has ended.
fn stop(directory: &Path) {
    let found = std::fs::read_to_string(directory.join("data/postmaster.pid")).unwrap_or_default();
    let Some(process) = found.lines().next().filter(|line| !line.is_empty()) else { return };
    let is_ours = || {
        let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(&*directory.to_string_lossy())
    };
    if is_ours() {
        let _ = Command::new("kill").args(["-QUIT", process]).status();
    }
    let start = Instant::now();
    while is_ours() && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the folder with the programs of the newest installed version of PostgreSQL.
pub fn binaries() -> Option<PathBuf> {
    let directory = Path::new("/usr/lib/postgresql");
    let entries = std::fs::read_dir(directory).ok()?;
    let versions = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let programs = |version: &u32| directory.join(version.to_string()).join("bin");
    let newest = versions.filter(|version| programs(version).join("initdb").exists()).max()?;
    Some(programs(&newest))
}

/// Returns a command that runs its arguments. The server refuses to run as root. If this process is
/// root, the command runs as the user of PostgreSQL's package, who becomes the owner of the
/// directory.
pub fn as_user(directory: &Path) -> Command {
    if !is_root() {
        return Command::new("env");
    }
    let owner = format!("{USER}:{USER}");
    let done = Command::new("chown").arg(owner).arg(directory).status().expect("chown");
    assert!(done.success(), "the package of PostgreSQL creates the user {USER}");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--init-groups"]);
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}
