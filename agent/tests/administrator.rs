//! What an administrator does with an agent, and what the agent knows of its peers.

mod common;

use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;

use common::peer::{Peer, Who, mechanism};
use common::*;
use jeton_agent_wire::Call;
use jeton_agent_wire::call::Here;
use jeton_agent_wire::status::{PinState, applications, lock};
use jeton_words::error::Error;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_bytes::Bytes;

const REFUSED: &str = "refused by the rules of the agent";
/// Longer than the agent waits for a message.
const SILENT: Duration = Duration::from_secs(40);

#[test]
fn rules_are_read_again_and_connections_that_they_refuse_end() {
    let directory = &Directory::new();
    write_rules(directory, "[[client]]\nsessions = 5\n");
    let agent = Agent::start(directory);
    let mut peer = Peer::started(directory);
    let read_again = |rules: &str, what: &str, holds: &mut dyn FnMut() -> bool| {
        write_rules(directory, rules);
        agent.signal(Signal::HUP);
        until(what, holds);
    };
    let is_refused = || Peer::connect(directory).refusal().is_some();
    // The same rule again, in another place.
    let same = "[[client]]\nuid = 4711\n[[client]]\nsessions = 5\n";
    let rule = || status(&socket(directory)).expect("a status").clients[0].rule;
    read_again(same, "the agent has the old rules", &mut || {
        drop(Peer::started(directory));
        rule() == Some(2)
    });
    assert!(peer.is_served());
    read_again("[[client]]\nuid = 4711\n", "the old rule holds", &mut || is_refused());
    assert!(!peer.is_served());
    assert_eq!(Peer::connect(directory).refusal().as_deref(), Some(REFUSED));
    // The administrator sees it whatever the rules say.
    let clients = status(&socket(directory)).expect("a status").clients;
    assert!(clients.iter().any(|client| client.refused_connections >= 1 && client.rule.is_none()));
    // Wrong rules change nothing.
    write_rules(directory, "[[client]]\nuid = 'x'\n");
    agent.signal(Signal::HUP);
    thread::sleep(Duration::from_millis(200));
    assert!(is_refused());
    read_again("[[client]]\n", "the agent has the old rules", &mut || !is_refused());
}

/// Connects, and leaves the connection to this process: the process that connected has ended.
fn handed_over(agent: &Agent, directory: &Path) -> Peer {
    // SAFETY: a new descriptor of the kernel.
    let stream = unsafe {
        UnixStream::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))
    };
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    let path = socket(directory);
    for (to, byte) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *to = byte.cast_signed();
    }
    let descriptor = stream.as_raw_fd();
    let connect = move || {
        // SAFETY: a valid address of this length; `connect` may be called between fork and exec.
        let outcome =
            unsafe { libc::connect(descriptor, (&raw const address).cast(), size_of_val(&address) as u32) };
        if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    agent.stop();
    let mut program = Command::new("true");
    // SAFETY: `connect` only makes a system call.
    let mut child = unsafe { program.pre_exec(connect) }.spawn().expect("a process");
    assert!(child.wait().expect("a process").success());
    agent.signal(Signal::CONT);
    stream.set_read_timeout(Some(SILENT)).expect("a socket");
    Peer(stream, 0)
}

#[test]
fn a_process_that_ended_passes_no_rule_for_a_unit() {
    let directory = &Directory::new();
    write_rules(directory, "[[client]]\nunit = 'nginx.service'\nrefuse = ['C_*']\n[[client]]\n");
    let agent = Agent::start(directory);
    assert_eq!(Peer::connect(directory).refusal(), None);
    assert_eq!(handed_over(&agent, directory).refusal().as_deref(), Some(REFUSED));
    drop(agent);
    // Without such a rule, the unit does not matter.
    write_rules(directory, "[[client]]\n");
    let agent = Agent::start(directory);
    assert_eq!(handed_over(&agent, directory).refusal(), None);
}

#[test]
fn a_locked_client_needs_its_pin_again() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    let (mut peer, session) = Peer::opened(directory, slot);
    let login = peer.login(session, Who::User, PIN);
    let ticket = login.kept().expect("a ticket");
    let listed = applications(&socket(directory)).expect("applications");
    assert_eq!((listed.len(), listed[0].process, listed[0].sessions), (1, Some(process::id()), 1));
    let seen = status(&socket(directory)).expect("a status");
    assert_eq!((seen.tokens.len(), seen.tokens[0].pin), (1, PinState::Good));
    // The tickets of a client that has not connected since the start are void too.
    assert_eq!(lock(&socket(directory), Some("uid 4711")).expect("an answer"), None);
    assert!(fs::read(directory.join("ticket.locked")).expect("a list").ends_with(b"uid 4711\x01"));
    // A variable of a shell that is not set is not all clients, and a name that no client can have
    // is not kept.
    let list = || fs::read(directory.join("ticket.locked")).expect("a list");
    let before = list();
    for name in ["", "4711", "UID 4711", "uid 4711 ", "web.service"] {
        let said = lock(&socket(directory), Some(name)).expect_err("refused").to_string();
        let known = format!("no client has the name {name:?}; known are: {}", listed[0].client);
        assert!(said.contains(&known), "{said}");
    }
    assert_eq!(list(), before);
    {
        let mut other = Peer::started(directory);
        let session = other.open(slot);
        assert_eq!(other.resume(session, &ticket), Ok(()));
    }
    assert!(peer.is_served());
    let ended = lock(&socket(directory), Some(&listed[0].client)).expect("an answer");
    assert!(ended.is_some_and(|connections| connections >= 1));
    assert!(!peer.is_served());
    for _ in 0..2 {
        let (mut peer, session) = Peer::opened(directory, slot);
        assert_eq!(peer.resume(session, &ticket), Err(Error::UserNotLoggedIn));
        agent.replace();
    }
    let (mut peer, session) = Peer::opened(directory, slot);
    let ticket = peer.login(session, Who::User, PIN).kept().expect("a ticket");
    // The client is locked too if the list cannot be written.
    fs::create_dir(directory.join("ticket.new")).expect("a directory");
    assert!(lock(&socket(directory), Some(&listed[0].client)).is_err());
    assert!(!peer.is_served());
    let (mut peer, session) = Peer::opened(directory, slot);
    assert_eq!(peer.resume(session, &ticket), Err(Error::UserNotLoggedIn));
}

/// Hashes long messages until the connection ends.
fn hash_for_long(peer: &mut Peer, session: u64) {
    let init = Call::C_DigestInit { session: Here, mechanism: mechanism(CKM_SHA3_512) };
    assert_eq!(peer.call(session, init), Some(Ok(())));
    let long = vec![0; 48 << 20];
    while peer.call(session, Call::C_DigestUpdate { session: Here, part: Bytes::new(&long) }).is_some() {}
}

#[test]
fn no_connection_joins_an_application_whose_connections_ended() {
    let directory = &Directory::alone();
    write_rules(directory, "[[client]]\n");
    let agent = Agent::start(directory);
    let slot = make_token(directory);
    let read_again = || {
        write_rules(directory, "[[client]]\nobjects = []\n");
        agent.signal(Signal::HUP);
    };
    let lock = || {
        lock(&socket(directory), None).expect("an answer");
    };
    for end in [&lock as &dyn Fn(), &read_again] {
        let mut peer = Peer::connect(directory);
        let (name, _) = peer.start();
        let sessions = [(); 3].map(|()| peer.open(slot));
        thread::scope(|scope| {
            for session in sessions {
                let mut other = Peer::connect(directory);
                assert!(other.joins(name));
                scope.spawn(move || hash_for_long(&mut other, session));
            }
            thread::sleep(Duration::from_millis(500));
            end();
            until("the connections do not end", || !peer.is_served());
            // Calls of the application still run.
            assert!(!Peer::connect(directory).joins(name));
        });
    }
}

#[test]
fn a_stop_leaves_a_complete_audit_log_and_merged_files() {
    let directory = &Directory::alone();
    let audit = directory.join("audit.jsonl");
    let more = format!("[audit]\nfile = '{}'\n", audit.display());
    let mut agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    make_token(directory);
    let module = token::load(&parameters(directory));
    let slot = module.slots(true).expect("slots")[0];
    let login = module.open_session(slot, Access::ReadWrite).expect("a session");
    login.login(User::User, Some(PIN)).expect("a login");
    let acknowledged = AtomicUsize::new(0);
    thread::scope(|scope| {
        let store = || {
            let session = module.open_session(slot, Access::ReadWrite).expect("a session");
            let template = [
                Attribute::number(CKA_CLASS, CKO_DATA),
                Attribute::flag(CKA_TOKEN, true),
                Attribute::flag(CKA_PRIVATE, false),
            ];
            while session.create_object(&template).is_ok() {
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        };
        (0..4).for_each(|_| drop(scope.spawn(store)));
        until("no object is stored", || acknowledged.load(Ordering::Relaxed) > 50);
        agent.signal(Signal::TERM);
        assert!(agent.wait().success());
    });
    drop(login);
    let _ = module.finalize();
    let log = fs::read_to_string(&audit).expect("the audit log");
    let logged = log.lines().filter(|line| line.contains("C_CreateObject")).count();
    assert!(logged >= acknowledged.load(Ordering::Relaxed), "{logged} of {acknowledged:?}");
    for file in fs::read_dir(directory.join("tokens")).expect("a directory") {
        let file = file.expect("a file");
        let is_log = file.file_name().to_string_lossy().ends_with("-wal");
        assert!(!is_log || file.metadata().expect("a file").len() == 0, "{file:?}");
    }
}

#[test]
fn a_peer_that_says_nothing_or_half_of_a_message_is_forgotten() {
    let (_, directory) = &mut Agent::within(Directory::new());
    let mut idle = Peer::started(directory);
    let (mut silent, mut slow) = (Peer::connect(directory), Peer::started(directory));
    Write::write_all(&mut slow.0, &[200, 0, 0, 0, 2]).expect("a part of a message");
    // This one is never silent, and its message has no end.
    let mut trickling = Peer::started(directory);
    Write::write_all(&mut trickling.0, &[0, 0, 1, 0]).expect("a length");
    let start = Instant::now();
    let trickle = thread::spawn(move || {
        while Write::write_all(&mut trickling.0, &[0]).is_ok() && start.elapsed() < SILENT {
            thread::sleep(Duration::from_millis(500));
        }
    });
    for peer in [&mut silent, &mut slow] {
        peer.0.set_read_timeout(Some(SILENT)).expect("a socket");
        assert_eq!(peer.0.read(&mut [0]).expect("the end"), 0);
    }
    trickle.join().expect("a thread");
    assert!(start.elapsed() < SILENT);
    assert!(idle.is_served());
}

#[test]
fn a_check_says_what_is_wrong() {
    let directory = &Directory::new();
    let rules = directory.join("rules.toml");
    let run = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(more).arg("--rules").arg(&rules).env("JETON_DIR", &**directory);
        command.arg("--state").arg(&**directory).arg("--socket").arg(socket(directory));
        let output = command.output().expect("the agent");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A file that was named has to exist, also without `--check`.
    for more in [&["--check"][..], &[]] {
        let (code, text) = run(more);
        assert!(code == Some(1) && text.contains("rules.toml: No such file"), "{text}");
    }
    for (text, wrong) in [
        ("[[client]]\nuser = 'no-such-user'\n", "no user no-such-user"),
        ("[[client]]\nrefuse = ['C_Nothing']\n", "no function C_Nothing"),
        ("[[client]]\nsessions = 0\n", "sessions = 0"),
        ("[[client]]\nunit = 'nginx'\n", "no service has the name \"nginx\""),
        ("[[client]]\ntokens = ['web*']\n", "a name of a token stands for no other"),
        ("[[client]]\ncertificate = 'web.example'\n", "without [tls] no other host connects"),
        ("[[client]]\ncalls-per-second = 0\n", "calls-per-second = 0"),
        ("[[client]]\nmemory = 262143\n", "at least 262144 bytes"),
        ("[[client]]\nlogin = { token = 't', pin-file = '/nothing' }\n", "/nothing: No such file"),
        ("[[client]]\nlogin = { token = 't', pin-credential = 'x' }\n", "systemd passes no credentials"),
        (
            "[tls]\nlisten = '127.0.0.1:1'\ncertificate = '/no'\nkey = '/no'\nauthority = '/no.pem'\n",
            "/no.pem",
        ),
    ] {
        fs::write(&rules, text).expect("a file");
        let (code, said) = run(&["--check"]);
        assert!(code == Some(1) && said.contains(wrong), "{said}");
    }
    File::create(&rules).and_then(|file| file.set_len(1 << 40)).expect("a file");
    let (code, said) = run(&["--check"]);
    assert!(code == Some(1) && said.contains("file too large"), "{said}");
    fs::write(&rules, "[[client]]\nuser = 'root'\n").expect("a file");
    assert_eq!(run(&["--check"]).0, Some(0));
}

#[test]
fn the_log_says_that_a_client_has_no_memory_for_a_connection() {
    let directory = &Directory::new();
    // The least value: one connection.
    write_rules(directory, "[[client]]\nmemory = 262144\n");
    let log = directory.join("log");
    let mut command = Command::new(PROGRAM);
    command.stderr(File::create(&log).expect("a file"));
    let _agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    let said = || {
        let text = fs::read_to_string(&log).expect("a log");
        // The default level.
        text.lines().filter(|line| line.contains("ERROR") && line.contains("a connection is refused")).count()
    };
    let mut first = Peer::connect(directory);
    until("the only connection is refused", || {
        first.refusal().is_none() || {
            first = Peer::connect(directory);
            false
        }
    });
    for _ in 0..2 {
        assert!(Peer::connect(directory).refusal().is_some());
    }
    assert_eq!(said(), 1);
    assert!(first.is_served());
}

#[test]
fn the_agent_makes_the_directory_of_its_state() {
    let directory = &Directory::new();
    let (state, rules) = (directory.join("state"), directory.join("rules.toml"));
    write_rules(directory, "[[client]]\n");
    let run = |state: &Path| {
        let mut command = Command::new(PROGRAM);
        command.arg("--rules").arg(&rules).arg("--state").arg(state).args(["--exit-idle", "0"]);
        command.arg("--socket").arg(socket(directory)).env("JETON_DIR", &**directory);
        let output = command.output().expect("the agent");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Once more with the directory of before.
    for _ in 0..2 {
        let (is_right, said) = run(&state);
        assert!(is_right, "{said}");
        assert_eq!(fs::metadata(&state).expect("a directory").permissions().mode() & 0o777, 0o700);
        assert!(state.join("ticket.key").exists());
    }
    let (is_right, said) = run(&directory.join("missing/state"));
    assert!(!is_right && said.contains("missing/state: No such file"), "{said}");
}

/// Returns the command of an agent that gets a descriptor as systemd passes a socket.
fn passed(socket: &impl AsRawFd) -> Command {
    let socket = socket.as_raw_fd();
    let mut command = Command::new("sh");
    let program = PROGRAM;
    command.args(["-c", &format!("LISTEN_PID=$$ LISTEN_FDS=1 exec {program} \"$@\""), "sh"]);
    // SAFETY: `dup2` may be called between fork and exec.
    unsafe { command.pre_exec(move || if libc::dup2(socket, 3) == 3 { Ok(()) } else { Err(last()) }) };
    command
}

fn last() -> std::io::Error {
    std::io::Error::last_os_error()
}

#[test]
fn systemd_passes_a_unix_socket_or_the_agent_ends() {
    let directory = &Directory::new();
    let start = |command| Agent::try_start_with(command, directory, "agent.socket", "");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    assert!(start(passed(&other)).is_none());
    assert!(start(passed(&File::open("/dev/null").expect("a file"))).is_none());
    let right = UnixListener::bind(socket(directory)).expect("a socket");
    let _agent = start(passed(&right)).expect("an agent");
    assert_eq!(Peer::connect(directory).refusal(), None);
}

#[test]
fn a_key_of_tickets_is_whole_or_there_is_none() {
    let directory = &Directory::new();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -f 0; exec {} \"$@\"", PROGRAM), "sh"]);
    // The agent ends while it writes the key.
    assert!(Agent::try_start_with(command, directory, "agent.socket", "").is_none());
    let mut agent = Agent::start(directory);
    agent.replace();
}

#[test]
fn a_file_that_is_too_long_does_not_end_the_agent() {
    let directory = &Directory::new();
    let agent = Agent::start(directory);
    // The kernel sends this signal if a write exceeds the limit of the process.
    agent.signal(Signal::XFSZ);
    assert_eq!(Peer::connect(directory).refusal(), None);
    agent.signal(Signal::XFSZ);
    assert_eq!(Peer::connect(directory).refusal(), None);
}

#[test]
fn the_agent_may_have_as_many_descriptors_as_its_hard_limit_allows() {
    let directory = &Directory::new();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -S -n 64; exec {} \"$@\"", PROGRAM), "sh"]);
    let agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    let limits = fs::read_to_string(format!("/proc/{}/limits", agent.id())).expect("a process");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let numbers: Vec<_> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1]);
}

#[test]
fn an_agent_without_descriptors_goes_on_when_it_has_some_again() {
    let directory = &Directory::new();
    let log = directory.join("log");
    let mut command = Command::new(PROGRAM);
    command.stderr(File::create(&log).expect("a file"));
    let mut agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    let process = Pid::from_raw(agent.id().cast_signed());
    let limit = |most| {
        let limit = Rlimit { current: Some(most), ..getrlimit(Resource::Nofile) };
        prlimit(process, Resource::Nofile, limit).expect("a process")
    };
    let before = limit(3);
    // It waits until the agent accepts it.
    let mut peer = Peer::connect(directory);
    let said = || fs::read_to_string(&log).expect("a log");
    until("the agent accepts", || said().contains("Too many open files"));
    limit(before.current.expect("a limit"));
    assert_eq!(peer.refusal(), None);
    assert!(agent.runs());
}
