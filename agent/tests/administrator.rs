//! What an administrator does with an agent, and what the agent knows of its peers.

mod common;

use std::ffi::OsStr;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;

use common::peer::{Peer, Who, mechanism, template};
use common::*;
use jeton_agent_wire::call::Here;
use jeton_agent_wire::status::{PinState, applications, lock};
use jeton_agent_wire::{Call, Outcome};
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
    // One name is one client, whether a rule allows it or not: no figure has two values.
    assert_eq!(clients.len(), 1, "{clients:?}");
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
    agent.signal_all(Signal::CONT);
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
    let (more, audit) = audited(directory);
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
    let within =
        |path: &Path| fs::read_dir(path).expect("a directory").map(|file| file.expect("a file").path());
    let tokens: Vec<_> = within(&directory.join("tokens")).collect();
    let files: Vec<_> = tokens.iter().flat_map(|token| within(token)).collect();
    assert!(files.iter().any(|file| file.extension().is_some_and(|end| end == "jeton")), "{files:?}");
    for file in files {
        let is_log = file.to_string_lossy().ends_with("-wal");
        assert!(!is_log || file.metadata().expect("a file").len() == 0, "{file:?}");
    }
}

/// Calls that wait, for example for a place to compute, do not go on after the lock.
#[test]
fn a_lock_ends_the_calls_of_a_client_after_a_tenth_of_a_second() {
    const CALLS: usize = 12;
    let directory = &Directory::alone();
    let agent = Agent::start(directory);
    let slot = make_token(directory);
    let number = |value: CK_ULONG| value.to_ne_bytes();
    let (bits, yes, no) = (number(4096), [1], [0]);
    let public = [(CKA_MODULUS_BITS, &bits[..]), (CKA_TOKEN, &yes), (CKA_PRIVATE, &no)];
    let private = [(CKA_TOKEN, &yes[..])];
    let (old, returned) = (agent.workers(), &Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..CALLS {
            let (mut other, session) = Peer::opened(directory, slot);
            assert_eq!(other.login(session, Who::User, PIN).result(), Ok(()));
            scope.spawn(move || {
                let (public, private) = (template(&public), template(&private));
                let mechanism = mechanism(CKM_RSA_PKCS_KEY_PAIR_GEN);
                let call = Call::C_GenerateKeyPair { session: Here, mechanism, public, private };
                let result = other.call(session, call);
                returned.lock().expect("results").push(result);
            });
        }
        thread::sleep(Duration::from_millis(100));
        let done = || returned.lock().expect("results").clone();
        assert!(done().iter().all(|result| *result == Some(Ok(()))), "{:?}", done());
        let start = Instant::now();
        lock(&socket(directory), None).expect("an answer");
        until("the process of the client goes on", || {
            agent.workers().iter().all(|worker| !old.contains(worker))
        });
        // The worker alone would wait for its calls for five seconds.
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    });
    let (mut peer, session) = Peer::opened(directory, slot);
    let mut keys = || {
        let class = number(CKO_PUBLIC_KEY);
        let find = Call::C_FindObjectsInit { session: Here, template: template(&[(CKA_CLASS, &class)]) };
        assert_eq!(peer.call(session, find), Some(Ok(())));
        let found = peer.returned(session, Call::C_FindObjects { session: Here, out: 100 });
        let found = match found.expect("an answer").answer().outcome {
            Ok(Outcome::C_FindObjects { out, .. }) => out.0.len(),
            _ => panic!("no search"),
        };
        assert_eq!(peer.call(session, Call::C_FindObjectsFinal { session: Here }), Some(Ok(())));
        found
    };
    let after = keys();
    let done = returned.lock().expect("results").iter().filter(|result| **result == Some(Ok(()))).count();
    assert!(done <= after && after < CALLS, "{done} acknowledged, {after} there");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(keys(), after);
}

#[test]
fn a_client_is_locked_while_the_store_hangs() {
    /// As many as ask at the same time.
    const ASKING: usize = 16;
    let (agent, directory) = &mut Agent::within(Directory::new());
    drop(Peer::started(directory));
    let (agent, path, ends) = (&*agent, &socket(directory), &AtomicBool::new(false));
    let goes_on = || !ends.load(Ordering::Relaxed);
    let hangs = &AtomicBool::new(false);
    thread::scope(|scope| {
        // The process that lists the tokens hangs.
        scope.spawn(move || {
            while goes_on() {
                for process in agent.parts("tokens") {
                    let process = Pid::from_raw(process.cast_signed()).expect("a process");
                    let is_stopped = kill_process(process, Signal::STOP).is_ok();
                    hangs.fetch_or(is_stopped, Ordering::Relaxed);
                }
            }
        });
        for _ in 0..ASKING {
            scope.spawn(move || {
                while goes_on() {
                    let _ = status(path);
                    thread::sleep(Duration::from_millis(50));
                }
            });
        }
        let _ends = Ends(ends);
        until("no process hangs", || hangs.load(Ordering::Relaxed));
        // All of them ask now.
        thread::sleep(Duration::from_secs(5));
        until("no client can be locked", || lock(path, None).is_ok());
    });
    until("the status has no tokens again", || status(path).is_ok());
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
fn the_manual_page_has_all_options() {
    let page = include_str!("../../tool/packaging/jeton-agent.8").replace('\\', "");
    let help = Command::new(PROGRAM).arg("--help").output().expect("the agent");
    let help = String::from_utf8(help.stdout).expect("text");
    let words = help.split(|letter: char| letter != '-' && !letter.is_ascii_lowercase());
    let options: std::collections::BTreeSet<_> = words.filter(|word| word.starts_with("--")).collect();
    assert_eq!(options.len(), 12, "{options:?}");
    for option in options {
        assert!(page.contains(&format!("fB{option}fR")), "{option}");
    }
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
    // Only the service has its credentials.
    for right in ["user = 'root'", "login = { token = 't', pin-credential = 'x' }"] {
        fs::write(&rules, format!("[[client]]\n{right}\n")).expect("a file");
        let (code, said) = run(&["--check"]);
        assert_eq!(code, Some(0), "{right}: {said}");
    }
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

/// Returns the command of an agent that gets descriptors as systemd passes sockets.
fn passed(sockets: &[&dyn AsRawFd]) -> Command {
    let sockets: Vec<_> = sockets.iter().map(|socket| socket.as_raw_fd()).collect();
    let mut command = Command::new("sh");
    let (program, count) = (PROGRAM, sockets.len());
    command.args(["-c", &format!("LISTEN_PID=$$ LISTEN_FDS={count} exec {program} \"$@\""), "sh"]);
    let pass = move || {
        // The first numbers may be those of other sockets in the list.
        for (socket, high) in sockets.iter().zip(100..) {
            // SAFETY: the call takes numbers, and may be made between fork and exec.
            if unsafe { libc::dup2(*socket, high) } != high {
                return Err(last());
            }
        }
        for (low, high) in (3..).zip(100..).take(sockets.len()) {
            // SAFETY: the same.
            if unsafe { libc::dup2(high, low) } != low {
                return Err(last());
            }
        }
        Ok(())
    };
    // SAFETY: `pass` makes system calls only.
    unsafe { command.pre_exec(pass) };
    command
}

fn last() -> std::io::Error {
    std::io::Error::last_os_error()
}

#[test]
fn systemd_passes_a_unix_socket_or_the_agent_ends() {
    let directory = &Directory::new();
    let start = |command| Agent::try_start_with(command, directory, "agent.socket", "");
    let [hosts, others] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    assert!(start(passed(&[&hosts])).is_none());
    assert!(start(passed(&[&File::open("/dev/null").expect("a file")])).is_none());
    let elsewhere = UnixListener::bind(directory.join("other.socket")).expect("a socket");
    assert!(start(passed(&[&hosts, &elsewhere, &others])).is_none());
    let right = UnixListener::bind(socket(directory)).expect("a socket");
    // A socket of TCP is one for monitors, and never one of clients.
    for sockets in [[&hosts as &dyn AsRawFd, &right], [&right, &hosts]] {
        let _agent = start(passed(&sockets)).expect("an agent");
        assert_eq!(Peer::connect(directory).refusal(), None);
        let mut monitor = TcpStream::connect(hosts.local_addr().expect("an address")).expect("the agent");
        monitor.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("the agent");
        let mut answer = String::new();
        monitor.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains("200 OK") && answer.contains("\njeton_agent_workers 1\n"), "{answer}");
    }
}

#[test]
fn systemd_learns_that_the_agent_is_ready_and_works_and_stops() {
    for is_abstract in [false, true] {
        let directory = &Directory::new();
        let mut name = directory.join("notify").into_os_string().into_encoded_bytes();
        let hears = if is_abstract {
            name.insert(0, b'@');
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name[1..]).expect("a name"))
        } else {
            UnixDatagram::bind(OsStr::from_bytes(&name))
        };
        let hears = hears.expect("a socket");
        hears.set_read_timeout(Some(SILENT)).expect("a limit");
        let heard = || {
            let mut text = [0; 256];
            let len = hears.recv(&mut text).expect("a message");
            String::from_utf8_lossy(&text[..len]).into_owned()
        };
        let mut command = Command::new(PROGRAM);
        command.env("NOTIFY_SOCKET", OsStr::from_bytes(&name)).env("WATCHDOG_USEC", "2000000");
        let mut agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
        assert_eq!(heard(), "READY=1");
        assert_eq!(Peer::connect(directory).refusal(), None);
        for _ in 0..5 {
            let said = heard();
            assert!(said.starts_with("STATUS=") && said.ends_with("\nWATCHDOG=1"), "{said}");
        }
        until("no connection", || heard().contains("processes of clients: 1"));
        agent.signal(Signal::TERM);
        until("the agent does not stop", || heard() == "STOPPING=1");
        assert!(agent.wait().success());
    }
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
    // The process of this client has started before the limit.
    assert_eq!(Peer::connect(directory).refusal(), None);
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
