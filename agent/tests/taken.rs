//! What a process of the agent could do if it were taken over.

mod common;

use common::*;
use jeton_agent::link::Start;
use jeton_agent::peer::{Peer as Client, Unit};
use jeton_agent::rules::Rules;
use jeton_agent::sandbox::{Confined, confine};

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
    let Confined { tokens: seen, missing } = confine(&start).expect("a sandbox");
    assert_eq!(seen, Some(vec![own.clone()]));
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
