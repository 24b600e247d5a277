//! What happens to the process of one client, and what it could do if it were taken over.

#[path = "common/authority.rs"]
mod authority;
mod common;

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;

use authority::{Authority, serial};
use common::peer::{Peer, Who};
use common::*;
use jeton::audit::{LONGEST, Record};
use jeton_agent::link::{Link, Source, Start, ToWriter};
use jeton_agent::peer::{Peer as Client, Unit};
use jeton_agent::rules::Rules;
use jeton_agent::sandbox::{Confined, confine};
use jeton_agent_wire::Call;
use jeton_agent_wire::call::Here;
use jeton_words::error::Error;
use jeton_words::token::Function;
use serde_json::Value;

/// The connections and the wrong messages of a client that wants to disturb another one.
const CONNECTIONS: usize = 300;
const WRONG: usize = 5_000;

/// A process in place of a worker: the token that its rule names, another token, and the front.
#[derive(Serialize, Deserialize)]
struct Taken {
    configuration: String,
    serials: [String; 2],
    tokens: PathBuf,
    front: u32,
    socket: PathBuf,
    audit: PathBuf,
}

/// Not a test by itself: a worker that was taken over. Says what it could do.
#[test]
fn worker() {
    let Some(role) = jeton_child::role::<Taken>() else { return };
    let Taken { configuration, serials: [own, other], tokens, front, socket, audit } = role.expect("a role");
    let rules = Rules::parse(&format!("[[client]]\ntokens = ['serial:{own}']")).expect("rules");
    let peer = Client::User { uid: 1, groups: vec![], has_all_groups: true, unit: Unit::None, process: 1 };
    let rule = rules.verdict(&peer).rule().cloned();
    let start = Start { client: "uid 1".to_owned(), rule, key: [0; 32], configuration };
    let Confined { tokens: seen, missing, .. } = confine(&start).expect("a sandbox");
    assert_eq!(seen.map(|seen| seen.serials), Some(vec![own.clone()]));
    let mut could = missing;
    let mut tries = |what: &str, done: bool| {
        if done {
            could.push(what.to_owned());
        }
    };
    let file = |serial: &str| tokens.join(serial).join(serial).with_extension("jeton");
    tries("not read its own token", File::open(file(&own)).is_err());
    tries("not make a file beside it", fs::write(tokens.join(&own).join("new"), "").is_err());
    tries("read another token", File::open(file(&other)).is_ok());
    tries("remove another token", fs::remove_file(file(&other)).is_ok());
    tries("list the tokens", fs::read_dir(&tokens).is_ok());
    tries("make a file in the token directory", fs::write(tokens.join("new"), "").is_ok());
    tries("write to the audit log", File::options().append(true).open(&audit).is_ok());
    tries("read the audit log", File::open(&audit).is_ok());
    tries("remove the audit log", fs::remove_file(&audit).is_ok());
    tries("read a file of the host", fs::read("/etc/passwd").is_ok());
    let front = Pid::from_raw(front as i32).expect("a process");
    let mode = |bits| std::os::unix::fs::PermissionsExt::from_mode(bits);
    tries("open another token to others", fs::set_permissions(file(&other), mode(0o666)).is_ok());
    tries("give another token away", std::os::unix::fs::chown(file(&other), None, None).is_ok());
    tries("make sockets", UnixStream::pair().is_ok());
    // SAFETY: a child ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        process::exit(0);
    }
    tries("make a process", child > 0);
    tries("not make a thread", thread::spawn(|| ()).join().is_err());
    tries("stop the front", kill_process(front, Signal::STOP).is_ok());
    tries("see the front", rustix::process::test_kill_process(front).is_ok());
    tries("become a client", UnixStream::connect(&socket).is_ok());
    tries("become an administrator", status(&socket).is_ok());
    tries("connect to a host", std::net::TcpStream::connect("127.0.0.1:1").is_err_and(refused));
    tries("start a program", Command::new("true").status().is_ok());
    let own = File::open(file(&own)).expect("its own token");
    // SAFETY: the call takes numbers.
    let named = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&own), libc::F_SETOWN, 1) };
    tries("name another process for signals", named == 0);
    // SAFETY: the call takes numbers, and reads nothing here.
    let traced = unsafe { libc::ptrace(libc::PTRACE_ATTACH, front.as_raw_nonzero().get(), 0, 0) };
    tries("trace the front", traced == 0);
    jeton_child::say(&could);
    // Without exec and signals, the harness could wait for ever.
    process::exit(0);
}

/// Returns whether a host refused a connection, so that a process may connect.
fn refused(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

#[test]
fn a_worker_that_is_taken_over_reaches_its_own_token_only() {
    let directory = &Directory::alone();
    let (more, audit) = audited(directory);
    let agent = &mut Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    let module = token::load(&parameters(directory));
    let serials = ["one", "two"].map(|label| {
        let slot = *module.slots(false).expect("slots").last().expect("a slot without a token");
        initialise(&module, slot, label, SO_PIN, PIN).expect("a token");
        let info = module.token_info(slot).expect("a token");
        info.serial.trim().to_owned()
    });
    module.finalize().expect("a module");
    let tokens = directory.join("tokens");
    let configuration = fs::read_to_string(directory.join("jeton.toml")).expect("a file");
    let (front, socket) = (agent.id(), agent.socket().to_owned());
    let role = Taken { configuration, serials, tokens, front, socket, audit };
    let mut child = Child::start(&mut jeton_child::of_test("worker", &role)).expect("a child");
    let could: Vec<String> = child.hear(Duration::from_secs(30)).expect("what it could");
    if could.iter().any(|what| what.contains("kernel")) {
        return jeton_programs::skip("this kernel has no whole sandbox");
    }
    assert_eq!(could, Vec::<String>::new());
    assert!(agent.runs());
}

/// An agent with two clients: this user, and a host with a certificate, which uses the module. The
/// rule of this user, and the configuration, have these additions. Returns also the workers of
/// both.
fn two_clients(directory: &Path, rule: &str, more: &str) -> (Agent, Module, [u32; 2]) {
    let ca = Authority::new(directory, "ca");
    ca.issue("localhost", serial(1));
    ca.issue("web.example", serial(2));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let (path, uid) = (directory.display(), rustix::process::getuid().as_raw());
    let rules = format!(
        "[[client]]\nuid = {uid}\n{rule}\n[[client]]\ncertificate = 'web.example'\n[tls]\n\
         listen = '127.0.0.1:{port}'\ncertificate = '{path}/localhost.pem'\n\
         key = '{path}/localhost.key'\nauthority = '{path}/ca.pem'\n"
    );
    write_rules(directory, &rules);
    let agent = Agent::try_start(directory, "agent.socket", more).expect("an agent");
    token::make(&parameters(directory));
    let own = agent.workers()[0];
    let of_host = format!(
        "agent = {{ address = 'tls://localhost:{port}', certificate = '{path}/web.example.pem', \
         key = '{path}/web.example.key', authority = '{path}/ca.pem' }}"
    );
    let module = token::load(&of_host);
    let other = agent.workers().into_iter().find(|worker| *worker != own).expect("a worker");
    (agent, module, [own, other])
}

#[test]
fn what_one_client_suffers_reaches_no_other() {
    let directory = &Directory::alone();
    let (agent, module, [_, other]) = two_clients(directory, "", "");
    let session = token::log_in(&module);
    let key = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    let slot = module.slots(true).expect("slots")[0].0;
    let (signed, ends) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    let of_client = || {
        let worker = agent.workers().into_iter().find(|worker| *worker != other);
        worker.map(|worker| Pid::from_raw(worker as i32).expect("a process"))
    };
    thread::scope(|scope| {
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key).expect("a signature begins");
                session.sign(b"data", &mut [0; 64]).expect("a signature");
                signed.fetch_add(1, Ordering::Relaxed);
            }
            session.close().expect("a session");
        });
        let _ends = Ends(ends);
        let goes_on = |what: &str| {
            let before = signed.load(Ordering::Relaxed);
            until(what, || signed.load(Ordering::Relaxed) > before + 10);
        };
        for signal in [Signal::KILL, Signal::SEGV, Signal::ABORT] {
            let (mut peer, _) = Peer::opened(directory, slot);
            let worker = of_client().expect("a worker");
            until("the connection stays", || {
                // The first SIGSEGV that no access caused ends the handler of it only.
                let _ = kill_process(worker, signal);
                !peer.is_served()
            });
            goes_on("after a crash of another client");
            until("no new process", || Peer::connect(directory).refusal().is_none());
        }
        let stopped = of_client().expect("a worker");
        kill_process(stopped, Signal::STOP).expect("a signal");
        let waiting: Vec<_> = (0..CONNECTIONS).map(|_| UnixStream::connect(agent.socket())).collect();
        assert!(waiting.iter().all(Result::is_ok));
        goes_on("while another client has stopped");
        assert!(status(agent.socket()).expect("a status").connections > CONNECTIONS as u64);
        kill_process(stopped, Signal::CONT).expect("a signal");
        drop(waiting);
        until("connections stay", || status(agent.socket()).expect("a status").connections == 1);
        for _ in 0..WRONG {
            Peer::connect(directory).ask(&[0xff; 9]);
        }
        goes_on("while another client sends what is wrong");
    });
    module.finalize().expect("a module");
}

/// Returns the records of an audit log. Their numbers have no gap.
fn records(audit: &Path) -> Vec<Value> {
    let text = fs::read_to_string(audit).expect("an audit log");
    let whole = text.lines().take(text.matches('\n').count());
    let all: Vec<Value> = whole.map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert!((1..).zip(&all).all(|(number, record)| record["number"] == number));
    all
}

#[test]
fn a_client_that_is_refused_writes_few_records_and_hides_none_of_others() {
    const CONNECTIONS: usize = 30;
    const CALLS: usize = 200;
    const SIGNATURES: usize = 50;
    let directory = &Directory::alone();
    let (more, audit) = audited(directory);
    let (mut agent, module, _) = two_clients(directory, "refuse = ['C_Digest*']", &more);
    let session = token::log_in(&module);
    let key = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CONNECTIONS {
                let mut peer = Peer::started(directory);
                for _ in 0..CALLS {
                    let call = Call::Refused { function: Function::C_Digest, error: Error::ArgumentsBad };
                    assert_eq!(peer.call(0, call), Some(Err(Error::FunctionNotSupported)));
                }
            }
        });
        for _ in 0..SIGNATURES {
            session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key).expect("a signature begins");
            session.sign(b"data", &mut [0; 64]).expect("a signature");
        }
    });
    session.close().expect("a session");
    module.finalize().expect("a module");
    agent.signal(Signal::TERM);
    assert!(agent.wait().success());
    let all = records(&audit);
    let signed = all.iter().filter(|record| {
        record["function"] == "C_SignInit" && record["client"].as_str().is_some_and(|of| of.contains("web"))
    });
    assert_eq!(signed.count(), SIGNATURES);
    let refused: Vec<_> = all.iter().filter(|record| record["function"] == "C_Digest").collect();
    // A minute has ten records and a number. A slow machine may begin another one.
    assert!(refused.len() < 100, "{} records", refused.len());
    let counted: u64 = refused.iter().map(|record| record["more"].as_u64().unwrap_or(1)).sum();
    assert_eq!(counted, (CONNECTIONS * CALLS) as u64);
}

#[test]
fn a_record_is_of_the_client_that_the_front_names() {
    const RECORDS: usize = 200;
    let directory = &Directory::new();
    let (more, audit) = audited(directory);
    let (link, other) = Link::pair().expect("a socket");
    let mut writer = Command::new(PROGRAM);
    let mut writer = writer.arg("writer").stdin(other).spawn().expect("the writer");
    let configuration = format!("token-dir = '{}'\n{more}", directory.display());
    link.send(&ToWriter::Start(configuration), None).expect("a message");
    let worker = |number: u32| {
        let (records, other) = Link::pair().expect("a socket");
        let client = format!("uid {number}");
        let source = Source { owner: client.clone(), client, process: number };
        link.send(&ToWriter::Worker(source), Some(other.as_fd())).expect("a message");
        records
    };
    let (taken, honest, idle) = (worker(1), worker(2), worker(3));
    let record = |function, text: &str| Record {
        function,
        result: "Ok".to_owned(),
        client: Some("uid 2".to_owned()),
        process: Some(2),
        previous: Some(text.to_owned()),
        more: Some(7),
        attributes: vec![text.to_owned()],
        ..Record::default()
    };
    let send = |to: &Link, record: &Record| to.send(record, None).expect("a record");
    // What is no record of a call, or too long, is left out.
    send(&taken, &record("audit", "1000 records lost"));
    send(&taken, &record("jeton", ""));
    send(&taken, &record("C_Login", &"x".repeat(LONGEST)));
    taken.send_bytes(&[0xff; 100], None, rustix::net::SendFlags::empty()).expect("bytes");
    let (flooded, ends) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                send(&taken, &record("C_Sign", "x"));
                flooded.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _ends = Ends(ends);
        until("the flood does not begin", || flooded.load(Ordering::Relaxed) > 1000);
        (0..RECORDS).for_each(|_| send(&honest, &record("C_Login", "y")));
        let logins = || fs::read_to_string(&audit).expect("an audit log").matches("C_Login").count();
        until("the records of a client wait for those of another one", || logins() == RECORDS);
    });
    drop((honest, idle));
    link.send(&ToWriter::Stop, None).expect("a message");
    assert!(writer.wait().expect("the writer").success());
    let all = records(&audit);
    let of = |number: u32| {
        let of = format!("uid {number}");
        all.iter().filter(move |record| record["client"] == of && record["process"] == number)
    };
    assert_eq!((of(1).count(), of(2).count()), (flooded.load(Ordering::Relaxed), RECORDS));
    assert_eq!(all.len(), of(1).count() + of(2).count());
    assert!(of(1).all(|record| record["function"] == "C_Sign"));
    assert!(of(1).all(|record| record.get("previous").is_none() && record.get("more").is_none()));
}

#[test]
fn records_wait_for_the_next_writer() {
    let directory = &Directory::alone();
    let (more, audit) = audited(directory);
    let agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    token::make(&parameters(directory));
    let module = token::load(&parameters(directory));
    let session = token::log_in(&module);
    let [first] = agent.parts("writer")[..] else { panic!("one writer") };
    kill_process(Pid::from_raw(first as i32).expect("a process"), Signal::KILL).expect("a signal");
    let template = [Attribute::number(CKA_CLASS, CKO_DATA), Attribute::flag(CKA_PRIVATE, false)];
    for _ in 0..1000 {
        session.create_object(&template).expect("an object");
    }
    let created = || fs::read_to_string(&audit).expect("a log").matches("\"C_CreateObject\"").count();
    until("records are missing", || created() == 1000);
    assert!(records(&audit).iter().all(|record| record["result"] == "Ok"));
    session.close().expect("a session");
    module.finalize().expect("a module");
}

/// The writer takes nothing from a worker that has ended, and ends too.
#[test]
fn records_of_a_worker_that_has_ended_wait_for_the_next_writer() {
    const CALLS: usize = 30;
    let directory = &Directory::new();
    let (more, audit) = audited(directory);
    let agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    let slot = make_token(directory);
    let (mut peer, session) = Peer::opened(directory, slot);
    let ends = |process: u32, signal| {
        kill_process(Pid::from_raw(process.cast_signed()).expect("a process"), signal).expect("a signal");
    };
    let [writer] = agent.parts("writer")[..] else { panic!("one writer") };
    ends(writer, Signal::STOP);
    for _ in 0..CALLS {
        assert_eq!(peer.login(session, Who::User, PIN).result(), Ok(()));
        assert_eq!(peer.call(session, Call::C_Logout { session: Here }), Some(Ok(())));
    }
    let [worker] = agent.workers()[..] else { panic!("one worker") };
    ends(worker, Signal::KILL);
    until("the worker stays", || agent.workers().is_empty());
    ends(writer, Signal::KILL);
    let written = || fs::read_to_string(&audit).unwrap_or_default().matches("\"C_Logout\"").count();
    until("records are lost", || written() == CALLS);
}

/// The writer is confined, and has its socket to the syslog.
#[test]
fn the_syslog_gets_the_records_of_clients_that_are_confined() {
    let directory = &Directory::alone();
    let path = directory.join("syslog");
    let syslog = UnixDatagram::bind(&path).expect("a socket");
    syslog.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let (more, audit) = audited(directory);
    let more = format!("{more}syslog = '{}'\n", path.display());
    let _agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    make_token(directory);
    let mut line = [0; LONGEST];
    let len = syslog.recv(&mut line).expect("a line");
    let line = String::from_utf8_lossy(&line[..len]);
    assert!(line.contains("\"client\":\"uid ") && line.contains("\"C_InitToken\""), "{line}");
    until("records are missing", || records(&audit).len() >= 3);
    let missing = status(&socket(directory)).expect("a status").missing;
    assert!(!missing.iter().any(|part| part.contains("syslog")), "{missing:?}");
}

#[test]
fn a_worker_inherits_no_descriptor() {
    if !rustix::process::geteuid().is_root() {
        return jeton_programs::skip("only root sees the descriptors of the agent");
    }
    let directory = &Directory::new();
    let left = directory.join("left");
    fs::write(&left, "").expect("a file");
    let mut command = Command::new("sh");
    let script = format!("exec 9<'{}'; exec \"$0\" \"$@\"", left.display());
    command.arg("-c").arg(script).arg(PROGRAM);
    let agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    assert!(Peer::connect(directory).refusal().is_none());
    let has = |process: u32| {
        let open = fs::read_dir(format!("/proc/{process}/fd")).expect("descriptors");
        open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|path| path == left))
    };
    // The check can fail.
    assert!(has(agent.id()));
    assert!(!agent.workers().is_empty() && !agent.workers().into_iter().any(has));
}

/// A group of this host, which ends with the value. `None` if this process cannot make one.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn new() -> Option<Self> {
        let places = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let place = places.into_iter().find(|place| place.join("cgroup.controllers").exists())?;
        let path = place.join(format!("jeton-test-{}", process::id()));
        fs::create_dir(&path).ok().map(|()| Self(path))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let below = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let groups = below.filter(|entry| entry.path().is_dir()).map(|entry| entry.path());
        groups.chain([self.0.clone()]).for_each(|group| drop(fs::remove_dir(group)));
    }
}

#[test]
fn each_worker_has_a_control_group() {
    let Some(group) = ControlGroup::new() else {
        return jeton_programs::skip("this process makes no control groups of the second version");
    };
    let directory = &Directory::new();
    let mut command = Command::new("sh");
    let script =
        format!("echo $$ >'{}/cgroup.procs'; exec \"$0\" --control-groups \"$@\"", group.0.display());
    command.arg("-c").arg(script).arg(PROGRAM);
    let mut agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    let name = group.0.file_name().and_then(|name| name.to_str()).expect("a name");
    let group_of = |process: u32| {
        let text = fs::read_to_string(format!("/proc/{process}/cgroup")).expect("a process");
        text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
    };
    assert_eq!(group_of(agent.id()), Some(format!("/{name}/front")));
    assert_eq!(Peer::connect(directory).refusal(), None);
    let worker = agent.workers()[0];
    assert_eq!(group_of(worker), Some(format!("/{name}/worker-{worker}")));
    kill_process(Pid::from_raw(worker as i32).expect("a process"), Signal::KILL).expect("a signal");
    until("the group stays", || !group.0.join(format!("worker-{worker}")).exists());
    assert!(agent.runs());
}

/// Otherwise a client passes one whose last close takes an hour, and closes its own.
#[test]
fn a_client_passes_no_descriptor_to_the_agent() {
    let (_agent, directory) = &mut Agent::within(Directory::new());
    let peer = Peer::connect(directory);
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    let passed = [peer.0.as_fd()];
    control.push(rustix::net::SendAncillaryMessage::ScmRights(&passed));
    let bytes = [std::io::IoSlice::new(&[0])];
    match rustix::net::sendmsg(&peer.0, &bytes, &mut control, rustix::net::SendFlags::empty()) {
        Err(error) => assert_eq!(error, rustix::io::Errno::PERM),
        Ok(_) => jeton_programs::skip("this kernel is older than Linux 6.16"),
    }
}

/// Returns whether the memory of a process has these bytes.
fn has(process: u32, wanted: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("the maps");
    let memory = File::open(format!("/proc/{process}/mem")).expect("the memory");
    let ranges = maps.lines().filter(|line| line.contains(" rw") && !line.contains("[v"));
    ranges.into_iter().any(|line| {
        let (start, end) =
            line.split_whitespace().next().and_then(|range| range.split_once('-')).expect("a range");
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("an address"));
        let mut bytes = vec![0; (end - start) as usize];
        memory.read_exact_at(&mut bytes, start).is_ok()
            && bytes.windows(wanted.len()).any(|part| part == wanted)
    })
}

#[test]
fn the_memory_of_a_worker_has_no_key_of_another_client() {
    if !rustix::process::geteuid().is_root() {
        return jeton_programs::skip("only root reads the memory of the agent");
    }
    let directory = &Directory::alone();
    let (agent, module, [first, other]) = two_clients(directory, "", "");
    // The worker that has made the token knows its PIN. The next one of this user does not.
    kill_process(Pid::from_raw(first as i32).expect("a process"), Signal::KILL).expect("a signal");
    let session = token::log_in(&module);
    let secret: [u8; 32] = std::array::from_fn(|at| (at as u8).wrapping_mul(37) ^ 0x5a);
    let template = [
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, CKK_AES),
        Attribute::flag(CKA_TOKEN, true),
        Attribute::flag(CKA_ENCRYPT, true),
        Attribute::bytes(CKA_VALUE, secret),
    ];
    let key = session.create_object(&template).expect("a key");
    session.encrypt_init(&Mechanism::new(CKM_AES_ECB), key).expect("an operation");
    until("no process", || Peer::connect(directory).refusal().is_none());
    let slot = module.slots(true).expect("slots")[0].0;
    let (mut peer, session_of_peer) = Peer::opened(directory, slot);
    assert!(peer.is_served());
    let own = agent.workers().into_iter().find(|worker| *worker != other).expect("a worker");
    // The check can fail.
    assert!(has(other, &secret), "the worker of the client has its key");
    assert!(!has(own, &secret) && !has(agent.id(), &secret));
    assert!(!has(own, PIN.as_bytes()), "no PIN before a login");
    let _ = session_of_peer;
    session.close().expect("a session");
    module.finalize().expect("a module");
}
