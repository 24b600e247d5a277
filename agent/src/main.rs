//! The program `jeton-agent`: its command line, its sockets, and what protects its memory.

#![forbid(unsafe_code)]

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;
use jeton::config::Settings;
use jeton::functions::Threads;
use jeton_agent::Agent;
use jeton_agent::rules::Rules;
use jeton_agent::ticket::Tickets;
use jeton_agent_system as system;
use jeton_secret::WipingAllocator;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// The heap. It wipes freed memory, because the crates that the core uses leave copies of keys
/// there.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

/// The file of rules of the package.
const RULES: &str = "/etc/jeton/jeton-agent.toml";

/// Serve the tokens of this host to applications that load libjeton_client.so.
#[derive(Parser)]
#[command(name = "jeton-agent", version, about)]
struct Arguments {
    /// The socket, unless systemd passes it.
    #[arg(long, value_name = "PATH", default_value = "/run/jeton/agent.socket")]
    socket: PathBuf,
    /// The permissions of the socket, in octal digits.
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = mode)]
    mode: u32,
    /// The directory of the key that seals tickets, by which logins survive a restart. The agent
    /// makes it, but not its parents.
    #[arg(long, value_name = "DIR", env = "RUNTIME_DIRECTORY", default_value = "/run/jeton")]
    state: PathBuf,
    /// The file of rules: which user may do what. By default /etc/jeton/jeton-agent.toml, if there
    /// is one.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Read the configuration, the rules and the files that they name, say what is wrong, and end.
    #[arg(long)]
    check: bool,
    /// End when no application has been connected for this number of seconds.
    #[arg(long, value_name = "SECONDS")]
    exit_idle: Option<u64>,
}

fn mode(given: &str) -> Result<u32, String> {
    u32::from_str_radix(given, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| "not 0 to 777".to_owned())
}

fn main() -> ExitCode {
    // With a handler, a file that exceeds `LimitFSIZE=` is an error of the write.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let done = match Arguments::try_parse() {
        Err(help) if !help.use_stderr() => printed(help.print()),
        arguments => run(&arguments.unwrap_or_else(|error| error.exit())),
    };
    let failed = |reason| {
        eprintln!("jeton-agent: {reason}");
        ExitCode::FAILURE
    };
    done.map_or_else(failed, |()| ExitCode::SUCCESS)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    if arguments.check {
        return check(arguments);
    }
    // As the first process of a container, the agent would ignore the signal otherwise. While the
    // tokens open, it ends at once.
    let opens = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_shutdown(SIGTERM, 0, Arc::clone(&opens)).map_err(text)?;
    // Before the first thread, so that each signal comes here.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(text)?;
    protect()?;
    let named = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| format!("{path}: {error}")
    };
    make_state(&arguments.state).map_err(named(&arguments.state))?;
    let key = arguments.state.join("ticket.key");
    let tickets = Tickets::open(&key).map_err(named(&key))?;
    let rules = Rules::read(arguments.rules())?;
    if !rules.are_given() {
        eprintln!("jeton-agent: there is no file of rules: who may connect may do what the PINs allow");
    }
    for fault in rules.faults() {
        eprintln!("jeton-agent: {fault}");
    }
    let address = rules.tls.as_ref().map(|tls| tls.listen);
    // SIGHUP never takes rules away: a file that is gone is wrong.
    let path = arguments.rules().map(Path::to_owned);
    let agent = Agent::start(tickets, rules)
        .map_err(|error| format!("cannot open the tokens: {error:?}; the log says why"))?;
    let listener = match system::passed_socket()? {
        Some(listener) => listener,
        None => listen(&arguments.socket, arguments.mode).map_err(named(&arguments.socket))?,
    };
    if let Some(address) = address {
        let hosts = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
        let agent = Arc::clone(&agent);
        thread::spawn(move || agent.serve_hosts(&hosts));
    }
    if let Some(seconds) = arguments.exit_idle {
        agent.exit_when_idle(Duration::from_secs(seconds));
    }
    let serving = Arc::clone(&agent);
    thread::spawn(move || serving.serve(&listener));
    opens.store(false, Ordering::Relaxed);
    for signal in &mut signals {
        if signal != SIGHUP {
            break;
        }
        let path = path.as_deref().or_else(|| arguments.rules());
        match agent.reload(path) {
            Ok(()) => tracing::info!("the rules were read again"),
            Err(reason) => tracing::error!(reason, "the rules stay as they were"),
        }
    }
    agent.stop();
    Ok(())
}

/// Reads what the agent would read.
fn check(arguments: &Arguments) -> Result<(), String> {
    let rules = Rules::read(arguments.rules())?;
    let faults = rules.faults();
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    Settings::load(None, Threads::Forbidden)
        .map_err(|error| format!("the configuration is wrong: {error:?}; the log says why"))?;
    let text = if rules.are_given() { "The rules are right." } else { "There are no rules." };
    printed(writeln!(io::stdout(), "{text}"))
}

/// Makes the directory of the key of tickets, if it is missing. Only the agent may look into it.
fn make_state(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Returns the result of a write to standard output. A closed pipe is no error.
fn printed(written: io::Result<()>) -> Result<(), String> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// No core dump has keys, and no process of the same user reads them. Each connection needs a
/// descriptor, and leaves no memory behind.
fn protect() -> Result<(), String> {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
    let text = |error: Errno| error.to_string();
    system::return_memory();
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(text)?;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map_err(text)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(text)
}

impl Arguments {
    /// Returns the file of rules. Without the option, there may be none.
    fn rules(&self) -> Option<&Path> {
        self.rules.as_deref().or_else(|| unless_missing(Path::new(RULES)))
    }
}

/// Returns the path unless nothing is there. Without rules everyone may do everything, so a file
/// that the agent cannot look at must not count as absent: reading it fails.
fn unless_missing(path: &Path) -> Option<&Path> {
    let found = fs::symlink_metadata(path);
    let is_missing = found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    (!is_missing).then_some(path)
}

/// Makes the socket. Replaces one on which no process listens.
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // An agent that is stopped may have no room for another connection.
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let probe = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        if matches!(net::connect(&probe, &SocketAddrUnix::new(path)?), Ok(()) | Err(Errno::AGAIN)) {
            return Err(io::Error::other("another agent listens there"));
        }
        fs::remove_file(path)?;
    }
    // Another user of the directory could replace the socket by a link, so its permissions are not
    // set afterwards.
    let old = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777 & !mode));
    let bound = UnixListener::bind(path);
    rustix::process::umask(old);
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_that_do_not_exist_are_absent() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        assert_eq!(unless_missing(&path("missing")), None);
        assert_eq!(unless_missing(&path("missing/rules.toml")), None);
        fs::write(path("file"), "").expect("a file");
        std::os::unix::fs::symlink(path("loop"), path("loop")).expect("a link");
        std::os::unix::fs::symlink(path("missing"), path("dangling")).expect("a link");
        // ENOTDIR and ELOOP are as EACCES and EIO: nothing says that there are no rules.
        for there in ["file", "dangling", "file/rules.toml", "loop/rules.toml"] {
            assert_eq!(unless_missing(&path(there)), Some(&*path(there)), "{there}");
        }
    }
}
