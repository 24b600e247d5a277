//! The program `jeton-agent`: its command line, its sockets, and what protects its memory.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use clap::Parser;
use jeton_agent::connections::Agent;
use jeton_agent::rules::Rules;
use jeton_agent::ticket::Tickets;
use signal_hook::consts::SIGTERM;

/// The first descriptor of a socket that systemd passes.
const FIRST_PASSED: i32 = 3;

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
    /// The directory of the key that seals tickets, by which logins survive a restart.
    #[arg(long, value_name = "DIR", env = "RUNTIME_DIRECTORY", default_value = "/run/jeton")]
    state: PathBuf,
    /// The file of rules: which user may do what.
    #[arg(long, value_name = "FILE", default_value = "/etc/jeton/jeton-agent.toml")]
    rules: PathBuf,
    /// End when no application has been connected for this number of seconds.
    #[arg(long, value_name = "SECONDS")]
    exit_idle: Option<u64>,
}

fn mode(given: &str) -> Result<u32, String> {
    u32::from_str_radix(given, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| "not 0 to 777".to_owned())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("jeton-agent: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    // As the first process of a container, the agent would ignore the signal otherwise.
    let always = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_shutdown(SIGTERM, 0, always)
        .map_err(|error| error.to_string())?;
    // No core dump has keys, and no process of the same user reads them.
    let limit = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, limit).map_err(|error| error.to_string())?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| error.to_string())?;
    let named = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| format!("{path}: {error}")
    };
    let key = arguments.state.join("ticket.key");
    let tickets = Tickets::open(&key).map_err(named(&key))?;
    let rules = Rules::read(&arguments.rules)?;
    let gate = rules.tls.as_ref().map(|tls| Ok::<_, String>((tls.listen, tls.open()?))).transpose()?;
    let agent = Agent::start(tickets, rules)
        .map_err(|error| format!("cannot open the tokens: {error:?}; the log says why"))?;
    let listener = match passed() {
        Some(listener) => listener,
        None => listen(&arguments.socket, arguments.mode).map_err(named(&arguments.socket))?,
    };
    if let Some((address, gate)) = gate {
        let hosts = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
        let (agent, gate) = (Arc::clone(&agent), Arc::new(gate));
        thread::spawn(move || agent.serve_hosts(&hosts, &gate));
    }
    if let Some(seconds) = arguments.exit_idle {
        agent.exit_when_idle(Duration::from_secs(seconds));
    }
    agent.serve(&listener).map_err(named(&arguments.socket))
}

/// Returns the socket that systemd passes to this process (sd_listen_fds(3)).
fn passed() -> Option<UnixListener> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let ours = number("LISTEN_PID") == Some(std::process::id()) && number("LISTEN_FDS") >= Some(1);
    // SAFETY: systemd passes an open socket under this number, and nothing else uses it.
    ours.then(|| unsafe { UnixListener::from_raw_fd(FIRST_PASSED) })
}

/// Makes the socket. Replaces one on which no process listens.
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::other("another agent listens there"));
        }
        fs::remove_file(path)?;
    }
    // No client connects before the permissions are set.
    let listener = {
        let old = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(old);
        bound?
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(listener)
}
