//! What happens to the process of one client.

#[path = "common/authority.rs"]
mod authority;
mod common;

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use authority::{Authority, serial};
use common::peer::{Peer, encoded, frame, mechanism, template};
use common::*;
use jeton_agent_wire::call::Here;
use jeton_agent_wire::{self as wire, Call, Request};
use jeton_words::error::Error;
use jeton_words::token::Function;

/// The connections and the wrong messages of a client that wants to disturb another one.
const CONNECTIONS: usize = 300;
const WRONG: usize = 5_000;

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

/// Otherwise those that wait for a place to compute would keep it from all clients, also after
/// their connections have ended.
#[test]
fn long_calls_of_one_client_hold_up_no_other_one() {
    const CALLS: usize = 40;
    let directory = &Directory::alone();
    let (agent, module, _) = two_clients(directory, "", "");
    let session = token::log_in(&module);
    let key = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    let slot = module.slots(true).expect("slots")[0].0;
    let with = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);
    let generate = |session: &Session| {
        session.generate_key_pair(&with, &[Attribute::number(CKA_MODULUS_BITS, 2048)], &[]).expect("a pair")
    };
    let bits = (4096 as CK_ULONG).to_ne_bytes();
    let (public, private) = (template(&[(CKA_MODULUS_BITS, &bits)]), template(&[]));
    let computes = |(mut peer, number): (Peer, u64)| {
        let (mechanism, public, private) =
            (mechanism(CKM_RSA_PKCS_KEY_PAIR_GEN), public.clone(), private.clone());
        let call = Call::C_GenerateKeyPair { session: Here, mechanism, public, private };
        let begin = Request::Calls { session: number, count: 1, object: 0, number: 2, generation: 0 };
        let mut message = encoded(&begin);
        wire::append(&call, &mut message).expect("a message");
        peer.0.write_all(&frame(&message)).expect("the agent");
        peer.0.set_nonblocking(true).expect("a socket");
        peer
    };
    let calls: Vec<_> = (0..CALLS).map(|_| Peer::opened(directory, slot)).map(computes).collect();
    let waits = |mut peer: &UnixStream| peer.read(&mut [0]).is_err();
    generate(&session);
    session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key).expect("a signature begins");
    session.sign(b"data", &mut [0; 64]).expect("a signature");
    assert!(calls.iter().any(|peer| waits(&peer.0)), "the calls of the other client were first");
    drop(calls);
    session.close().expect("a session");
    module.finalize().expect("a module");
    assert!(agent.workers().len() == 2);
}

/// Otherwise no handle would be left below the limit for copies of keys that outlive a restart.
#[test]
fn a_handle_that_one_client_asks_for_moves_those_of_no_other_one() {
    let directory = &Directory::alone();
    let (_agent, module, _) = two_clients(directory, "", "");
    let session = token::log_in(&module);
    let slot = module.slots(true).expect("slots")[0].0;
    let (mut peer, number) = Peer::opened(directory, slot);
    let class = CKO_DATA.to_ne_bytes();
    let template = template(&[(CKA_CLASS, &class)]);
    let begin = Request::Calls { session: number, count: 1, object: 1 << 40, number: 2, generation: 0 };
    let mut message = encoded(&begin);
    let call = Call::C_CreateObject { session: Here, template };
    wire::append(&call, &mut message).expect("a message");
    peer.ask(&message).expect("an answer");
    let template = [Attribute::number(CKA_CLASS, CKO_DATA), Attribute::flag(CKA_PRIVATE, false)];
    let object = session.create_object(&template).expect("an object");
    assert!(object.0 < 1 << 20, "{object:?}");
    session.close().expect("a session");
    module.finalize().expect("a module");
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
