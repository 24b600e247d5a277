//! The program `jeton-agent`: its command line, its sockets, and what protects its memory.

#![forbid(unsafe_code)]

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;
use jeton::admin::layout;
use jeton::config::Settings;
use jeton::functions::Threads;
use jeton_agent::door;
use jeton_agent::front::Front;
use jeton_agent::front::groups::Groups;
use jeton_agent::link::{Link, ToFront, ToWorker};
use jeton_agent::monitor;
use jeton_agent::notify;
use jeton_agent::rules::{Credentials, Rules};
use jeton_agent::sandbox::{self, Confined};
use jeton_agent::ticket::Tickets;
use jeton_agent::token_headers;
use jeton_agent::worker::Worker;
use jeton_agent::writer;
use jeton_agent_system as system;
use jeton_agent_wire::status::{administrator, is_administrator};
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
    /// The group whose members may ask what the agent does, and lock clients. By default, only root
    /// may.
    #[arg(long, value_name = "GROUP")]
    administrators: Option<String>,
    /// Give each client a control group below that of the agent, for its share of the processors.
    /// With systemd this needs `Delegate=cpu`.
    #[arg(long)]
    control_groups: bool,
    /// Answer monitors at this loopback address, for example 127.0.0.1:9739: Prometheus reads
    /// /metrics there. Every process of the host may ask.
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    metrics: Option<SocketAddr>,
    /// The directory of backups: monitors learn when the newest file in it was written.
    #[arg(long, value_name = "DIR")]
    backups: Option<PathBuf>,
    /// End when no application has been connected for this number of seconds.
    #[arg(long, value_name = "SECONDS")]
    exit_idle: Option<u64>,
}

fn mode(given: &str) -> Result<u32, String> {
    u32::from_str_radix(given, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| "not 0 to 777".to_owned())
}

fn loopback(given: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = given.parse().map_err(|_| "not an address and a port".to_owned())?;
    if address.ip().is_loopback() { Ok(address) } else { Err("not a loopback address".to_owned()) }
}

fn main() -> ExitCode {
    // With a handler, a file that exceeds `LimitFSIZE=` is an error of the write.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let mut given = std::env::args_os().skip(1);
    let part = given.next().filter(|_| given.next().is_none());
    let done = match part.as_ref().and_then(|part| part.to_str()) {
        Some("worker") => work(),
        Some("door") => protect().and_then(|()| settings()).and_then(|_| {
            ignore_signals();
            Link::inherited().and_then(door::run).map_err(|error| format!("for other hosts: {error}"))
        }),
        Some("writer") => protect().and_then(|()| {
            ignore_signals();
            let link = Link::inherited().map_err(|error| error.to_string());
            link.and_then(|link| writer::run(&link)).map_err(|error| format!("the audit log: {error}"))
        }),
        Some("monitor") => protect().and_then(|()| settings()).and_then(|_| {
            ignore_signals();
            Link::inherited().and_then(monitor::run).map_err(|error| format!("for monitors: {error}"))
        }),
        Some("tokens") => protect().and_then(|()| token_headers::write()),
        _ => match Arguments::try_parse() {
            Err(help) if !help.use_stderr() => printed(help.print()),
            arguments => run(&arguments.unwrap_or_else(|error| error.exit())),
        },
    };
    let failed = |reason| {
        eprintln!("jeton-agent: {reason}");
        ExitCode::FAILURE
    };
    done.map_or_else(failed, |()| ExitCode::SUCCESS)
}

/// The front ends the processes that it starts. A terminal, and systemd, send signals to all.
fn ignore_signals() {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
}

/// Works for a client until the front says that it is enough, or ends.
fn work() -> Result<(), String> {
    let text = |error: io::Error| format!("a worker: {error}");
    protect()?;
    ignore_signals();
    let link = Arc::new(Link::inherited().map_err(text)?);
    let Some((ToWorker::Start(start), records)) = link.receive().map_err(text)? else { return Ok(()) };
    if records.is_some() {
        link.send(&ToFront::Taken, None).map_err(text)?;
    }
    let Confined { tokens, missing, unreadable } = sandbox::confine(&start)?;
    let worker = Worker::start(*start, tokens, records, Arc::clone(&link))
        .map_err(|error| format!("cannot open the tokens: {error:?}; the log says why"))?;
    log_unreadable(unreadable);
    worker.office.tell(ToFront::Ready(missing));
    while let Ok(Some((message, socket))) = link.receive() {
        match (message, socket) {
            (ToWorker::Connection(number), Some(socket)) => {
                worker.office.tell(ToFront::Taken);
                worker.take(socket.into(), number);
            }
            (ToWorker::End(number), _) => worker.end(number),
            (ToWorker::Answer(question, answer), _) => worker.office.answer(question, answer),
            (ToWorker::Report, _) => worker.report(),
            _ => break,
        }
    }
    worker.stop();
    worker.report();
    Ok(())
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
    system::keep_descriptors().map_err(text)?;
    // Before the first thread, so that each signal comes here.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(text)?;
    protect()?;
    let named = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| format!("{path}: {error}")
    };
    let Settings { token_dir: tokens, audit, .. } = settings()?;
    make_state(&arguments.state).map_err(named(&arguments.state))?;
    let key = arguments.state.join("ticket.key");
    let tickets = Tickets::open(&key).map_err(named(&key))?;
    let rules = Rules::read(arguments.rules())?;
    if !rules.are_given() {
        eprintln!("jeton-agent: there is no file of rules: who may connect may do what the PINs allow");
    }
    for fault in rules.faults(Credentials::Given) {
        eprintln!("jeton-agent: {fault}");
    }
    let address = rules.tls.as_ref().map(|tls| tls.listen);
    // SIGHUP never takes rules away: a file that is gone is wrong.
    let path = arguments.rules().map(Path::to_owned);
    // A wrong configuration is found now, and not by the first client.
    token_headers::ask(Duration::MAX).map_err(text)?;
    log_unreadable(layout::unreadable(&tokens));
    let configuration = configuration()?;
    let groups = arguments.control_groups.then(Groups::open).transpose();
    let groups = groups.map_err(|error| format!("--control-groups: {error}"))?;
    let front =
        Front::new(tickets, rules, configuration, tokens, audit.is_some(), groups, arguments.backups.clone());
    front.open_audit().map_err(text)?;
    let (passed, monitors) = system::passed_sockets(2)?;
    let is_administrators = |listener: &UnixListener| {
        let address = listener.local_addr().ok();
        address.is_some_and(|address| address.as_pathname().is_some_and(is_administrator))
    };
    let (administrators, clients): (Vec<_>, Vec<_>) = passed.into_iter().partition(is_administrators);
    let listener = match clients.into_iter().next() {
        Some(listener) => listener,
        None => listen(&arguments.socket, arguments.mode).map_err(named(&arguments.socket))?,
    };
    serve_administrators(arguments, &front, &listener, administrators.into_iter().next())?;
    if let Some(address) = address {
        let hosts = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
        front.open_door(hosts.into()).map_err(text)?;
    }
    serve_monitors(arguments, &front, monitors)?;
    if let Some(seconds) = arguments.exit_idle {
        front.exit_when_idle(Duration::from_secs(seconds));
    }
    let serving = Arc::clone(&front);
    thread::spawn(move || serving.accept(&listener));
    let serving = Arc::clone(&front);
    thread::spawn(move || serving.serve());
    if let Err(error) = notify::tell("READY=1") {
        eprintln!("jeton-agent: NOTIFY_SOCKET: {error}");
    }
    let reporting = Arc::clone(&front);
    thread::spawn(move || reporting.report(notify::watchdog()));
    opens.store(false, Ordering::Relaxed);
    for signal in &mut signals {
        if signal != SIGHUP {
            break;
        }
        let path = path.as_deref().or_else(|| arguments.rules());
        match front.reload(path) {
            Ok(()) => tracing::info!("the rules were read again"),
            Err(reason) => tracing::error!(reason, "the rules stay as they were"),
        }
    }
    front.stop();
    Ok(())
}

/// Answers administrators at the socket that systemd passes, or at one beside that of the clients.
fn serve_administrators(
    arguments: &Arguments,
    front: &Arc<Front>,
    clients: &UnixListener,
    passed: Option<UnixListener>,
) -> Result<(), String> {
    let group = arguments.administrators.as_deref().map(group).transpose()?;
    let made = || {
        let address = clients.local_addr()?;
        let path = administrator(address.as_pathname().ok_or(io::ErrorKind::InvalidInput)?);
        let listener = listen(&path, if group.is_some() { 0o660 } else { 0o600 })?;
        if group.is_some() {
            std::os::unix::fs::chown(&path, None, group)?;
        }
        io::Result::Ok(listener)
    };
    let listener = match passed.map_or_else(made, Ok) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("jeton-agent: no socket for administrators: {error}");
            return Ok(());
        }
    };
    system::take_no_descriptors(&listener);
    let front = Arc::clone(front);
    thread::spawn(move || front.serve_administrators(&listener, group));
    Ok(())
}

/// Answers monitors at the socket that systemd passes, or at one with the address of `--metrics`.
fn serve_monitors(
    arguments: &Arguments,
    front: &Arc<Front>,
    passed: Option<TcpListener>,
) -> Result<(), String> {
    let bound = arguments
        .metrics
        .filter(|_| passed.is_none())
        .map(|address| TcpListener::bind(address).map_err(|error| format!("--metrics {address}: {error}")));
    if let Some(listener) = passed.or(bound.transpose()?) {
        front.open_monitor(listener.into()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns the number of a group.
fn group(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = nix::unistd::Group::from_name(name).map_err(|error| format!("group {name}: {error}"))?;
    Ok(found.ok_or_else(|| format!("no group {name}"))?.gid.as_raw())
}

/// Logs the tokens that no client sees because the agent cannot read their files, as after a
/// restore by root.
fn log_unreadable(files: Vec<(PathBuf, io::Error)>) {
    for (file, reason) in files {
        tracing::error!(file = %file.display(), "no client sees this token: {reason}; it must belong to the agent's user");
    }
}

/// Returns the text of the configuration.
fn configuration() -> Result<String, String> {
    jeton::config::text().map_err(|error| format!("the configuration is wrong: {error:?}; the log says why"))
}

/// Reads the configuration, and starts the log.
fn settings() -> Result<Settings, String> {
    Settings::load(None, Threads::Forbidden)
        .map_err(|error| format!("the configuration is wrong: {error:?}; the log says why"))
}

/// Reads what the agent would read.
fn check(arguments: &Arguments) -> Result<(), String> {
    let rules = Rules::read(arguments.rules())?;
    let has_credentials = std::env::var_os("CREDENTIALS_DIRECTORY").is_some();
    let credentials = if has_credentials { Credentials::Given } else { Credentials::Absent };
    let faults = rules.faults(credentials);
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    settings()?;
    let mut text = if rules.are_given() { "The rules are right." } else { "There are no rules." }.to_owned();
    for name in rules.credentials().filter(|_| !has_credentials) {
        text += &format!("\nThe credential {name} was not read: only the service gets it (LoadCredential=).");
    }
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
