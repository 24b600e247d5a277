//! What a process of the agent could do if it were taken over.

mod common;

use common::*;
use jeton::config::Settings;
use jeton_agent::link::Start;
use jeton_agent::peer::{Peer as Client, Unit};
use jeton_agent::rules::Rules;
use jeton_agent::sandbox::{Confined, confine, confine_door, confine_writer};

/// Which process is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Part {
    Worker,
    Writer,
    Door,
    Monitor,
}

/// A process in place of one of the agent: the token that a rule names, another token, and the
/// front.
#[derive(Serialize, Deserialize)]
struct Taken {
    part: Part,
    configuration: String,
    serials: [String; 2],
    tokens: PathBuf,
    front: u32,
    socket: PathBuf,
    audit: PathBuf,
}

/// Not a test by itself: a process that was taken over. Says what it could do.
#[test]
fn process_of_the_agent() {
    let Some(role) = jeton_child::role::<Taken>() else { return };
    let taken = role.expect("a role");
    let Taken { part, serials: [own, other], tokens, front, socket, audit, .. } = &taken;
    let mut could = confined(&taken);
    let mut tries = |what: &str, done: bool| {
        if done {
            could.push(what.to_owned());
        }
    };
    let file = |serial: &str| tokens.join(serial).join(serial).with_extension("jeton");
    match part {
        Part::Worker => {
            tries("not read its own token", File::open(file(own)).is_err());
            tries("not make a file beside it", fs::write(tokens.join(own).join("new"), "").is_err());
        }
        _ => tries("read a token", File::open(file(own)).is_ok()),
    }
    match part {
        Part::Writer => {
            tries("not write to the audit log", File::options().append(true).open(audit).is_err());
        }
        _ => {
            tries("write to the audit log", File::options().append(true).open(audit).is_ok());
            tries("read the audit log", File::open(audit).is_ok());
        }
    }
    tries("read another token", File::open(file(other)).is_ok());
    tries("remove another token", fs::remove_file(file(other)).is_ok());
    tries("list the tokens", fs::read_dir(tokens).is_ok());
    tries("make a file in the token directory", fs::write(tokens.join("new"), "").is_ok());
    tries("remove the audit log", fs::remove_file(audit).is_ok());
    tries("read a file of the host", fs::read("/etc/passwd").is_ok());
    tries("read the memory of the front", File::open(format!("/proc/{front}/mem")).is_ok());
    let mode = |bits| std::os::unix::fs::PermissionsExt::from_mode(bits);
    tries("open another token to others", fs::set_permissions(file(other), mode(0o666)).is_ok());
    tries("give another token away", std::os::unix::fs::chown(file(other), None, None).is_ok());
    // The door makes one for each host, and a worker gets the other end.
    tries("make sockets", *part != Part::Door && *part != Part::Monitor && UnixStream::pair().is_ok());
    tries("listen", std::net::TcpListener::bind("127.0.0.1:0").is_ok());
    // SAFETY: a child ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        process::exit(0);
    }
    tries("make a process", child > 0);
    tries("not make a thread", thread::spawn(|| ()).join().is_err());
    let front = Pid::from_raw(*front as i32).expect("a process");
    tries("stop the front", kill_process(front, Signal::STOP).is_ok());
    tries("see the front", rustix::process::test_kill_process(front).is_ok());
    tries("become a client", UnixStream::connect(socket).is_ok());
    tries("become an administrator", status(socket).is_ok());
    tries("connect to a host", std::net::TcpStream::connect("127.0.0.1:1").is_err_and(refused));
    tries("start a program", Command::new("true").status().is_ok());
    let open = File::open("/dev/null").expect("a file");
    // SAFETY: the call takes numbers.
    let named = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&open), libc::F_SETOWN, 1) };
    tries("name another process for signals", named == 0);
    // SAFETY: the call takes numbers, and reads nothing here.
    let traced = unsafe { libc::ptrace(libc::PTRACE_ATTACH, front.as_raw_nonzero().get(), 0, 0) };
    tries("trace the front", traced == 0);
    // SAFETY: the call takes numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, front.as_raw_nonzero().get(), 0) };
    tries("get a descriptor of the front", descriptor >= 0);
    jeton_child::say(&could);
    // Without exec and signals, the harness could wait for ever.
    process::exit(0);
}

/// Confines this process as one of the agent. Returns what is not in force.
fn confined(taken: &Taken) -> Vec<String> {
    let Taken { part, configuration, serials: [own, _], tokens, .. } = taken;
    let places = Settings::places(configuration).expect("places");
    let certificate = tokens.with_file_name("certificates").join("localhost.pem");
    let confined = match part {
        Part::Worker => {
            let rules = Rules::parse(&format!("[[client]]\ntokens = ['serial:{own}']")).expect("rules");
            let (groups, unit) = (vec![], Unit::None);
            let peer = Client::User { uid: 1, groups, has_all_groups: true, unit, process: 1 };
            let (client, rule) = ("uid 1".to_owned(), rules.verdict(&peer).rule().cloned());
            let start = Start { client, rule, key: [0; 32], configuration: configuration.clone() };
            let Confined { tokens: seen, missing, .. } = confine(&start).expect("a sandbox");
            assert_eq!(seen.map(|seen| seen.serials), Some(vec![own.clone()]));
            return missing;
        }
        Part::Writer => confine_writer(&places),
        Part::Door => confine_door(std::iter::once(&*certificate)),
        Part::Monitor => confine_door(std::iter::empty()),
    };
    confined.err().into_iter().collect()
}

/// Returns whether a host refused a connection, so that a process may connect.
fn refused(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

#[test]
fn a_process_that_is_taken_over_reaches_only_what_it_needs() {
    let directory = &Directory::alone();
    let log = directory.join("log");
    fs::create_dir(&log).expect("a directory");
    fs::create_dir(directory.join("certificates")).expect("a directory");
    let (more, audit) = audited(&log);
    let agent = &mut Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    let module = token::load(&parameters(directory));
    let serials = ["one", "two"].map(|label| {
        let slot = *module.slots(false).expect("slots").last().expect("a slot without a token");
        initialise(&module, slot, label, SO_PIN, PIN).expect("a token");
        let info = module.token_info(slot).expect("a token");
        info.serial.trim().to_owned()
    });
    module.finalize().expect("a module");
    for part in [Part::Worker, Part::Writer, Part::Door, Part::Monitor] {
        let tokens = directory.join("tokens");
        let configuration = fs::read_to_string(directory.join("jeton.toml")).expect("a file");
        let (front, socket) = (agent.id(), agent.socket().to_owned());
        let (serials, audit) = (serials.clone(), audit.clone());
        let taken = Taken { part, configuration, serials, tokens, front, socket, audit };
        let mut child =
            Child::start(&mut jeton_child::of_test("process_of_the_agent", &taken)).expect("a child");
        let could: Vec<String> = child.hear(Duration::from_secs(30)).expect("what it could");
        if could.iter().any(|what| what.contains("kernel")) {
            return jeton_programs::skip("this kernel has no whole sandbox");
        }
        assert_eq!(could, Vec::<String>::new(), "{part:?}");
        assert!(agent.runs());
    }
}
