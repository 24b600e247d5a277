//! A process that changes its user, as daemons do that start as root, and others that have no right
//! to its login.

mod common;

use common::peer::{Peer, Who, encoded};
use common::*;
use jeton_agent_wire::{self as wire, Application as Name, Call, Reply, Request};
use jeton_words::error::Error;
use jeton_words::id::SlotId;
use serde_bytes::Bytes;

/// The user that a process changes to.
const USER: u32 = 65_534;
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
enum Role {
    /// Logs in with these library parameters, and then follows orders.
    Application(String),
    /// Changes its user, and tries the name of an application and its ticket.
    Thief(PathBuf, u64, Name, Vec<u8>),
    /// Shows what an application gets that changes its user.
    Owner(PathBuf, u64),
}

#[derive(Serialize, Deserialize)]
enum Order {
    ChangeUser,
    Sign,
}

/// Not a test by itself: the client processes.
#[test]
fn client() {
    match jeton_child::role::<Role>().transpose().expect("a role") {
        None => return,
        Some(Role::Application(parameters)) => work(&parameters),
        Some(Role::Thief(directory, slot, name, ticket)) => steal(&directory, slot, name, &ticket),
        Some(Role::Owner(directory, slot)) => move_on(&directory, slot),
    }
    process::exit(0);
}

fn change_user() {
    // SAFETY: setuid(2) takes a number and has no other precondition.
    assert_eq!(unsafe { libc::setuid(USER) }, 0);
}

fn work(parameters: &str) {
    let module = token::load(parameters);
    let session = token::log_in(&module);
    let key = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    let sign = || {
        session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key)?;
        session.sign(b"data", &mut [0; 64])
    };
    jeton_child::say(&CKR_OK);
    while let Some(order) = jeton_child::heard() {
        let code = match order.expect("an order") {
            Order::ChangeUser => {
                change_user();
                CKR_OK
            }
            Order::Sign => sign().map_or_else(|failure| failure.code, |_| CKR_OK),
        };
        jeton_child::say(&code);
    }
}

fn login(peer: &mut Peer, session: u64) -> Vec<u8> {
    peer.login(session, Who::User, PIN).kept().expect("a ticket")
}

/// Joins an application. Returns the name in the answer; `None` if the agent does not know it.
fn join(peer: &mut Peer, application: Name) -> Option<Name> {
    let reply =
        peer.ask(&encoded(&Request::Join { version: wire::VERSION, application })).expect("an answer");
    match wire::decode(&reply) {
        Ok(Reply::Started { application, .. }) => Some(application),
        Ok(Reply::Unknown) => None,
        other => panic!("{other:?}"),
    }
}

fn steal(directory: &Path, slot: u64, name: Name, ticket: &[u8]) {
    change_user();
    assert_eq!(join(&mut Peer::connect(directory), name), None);
    let (mut peer, session) = Peer::opened(directory, slot);
    assert_eq!(peer.resume(session, ticket), Err(Error::UserNotLoggedIn));
    jeton_child::say(&true);
}

fn move_on(directory: &Path, slot: u64) {
    let (mut old, mut new) = (Peer::connect(directory), Peer::connect(directory));
    let (name, _) = old.start();
    let session = old.open(slot);
    let ticket = login(&mut old, session);
    change_user();
    // This connection is root's.
    assert_eq!(join(&mut new, name), Some(name));
    drop(new);
    let mut new = Peer::connect(directory);
    let other = join(&mut new, name).expect("an application");
    assert_ne!(other, name);
    let session = new.open(slot);
    let reply = new.ask(&encoded(&Request::Resume { session, ticket: Bytes::new(&ticket) }));
    let reply = reply.expect("an answer");
    let Ok(Reply::Renewed(renewed)) = wire::decode(&reply) else { panic!("no ticket") };
    // The new ticket is this user's, and the old one is not.
    let (mut peer, session) = Peer::opened(directory, slot);
    assert_eq!(peer.resume(session, &ticket), Err(Error::UserNotLoggedIn));
    assert_eq!(peer.resume(session, renewed), Ok(()));
    // Without a connection of root nothing shows that the process was root's.
    drop(old);
    until("the application does not end", || join(&mut Peer::connect(directory), name).is_none());
    jeton_child::say(&true);
}

/// An agent to which every user may connect, and its log.
struct Stage {
    directory: Directory,
    agent: Agent,
}

impl Stage {
    /// Starts an agent with these rules. `None` for an ordinary user.
    fn new(rules: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            jeton_programs::skip("only root can change the user of a process");
            return None;
        }
        let directory = Directory::alone();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&*directory, mode).expect("a directory");
        if !rules.is_empty() {
            write_rules(&directory, rules);
        }
        let agent = Self::start(&directory);
        Some(Self { directory, agent })
    }

    fn start(directory: &Path) -> Agent {
        let log = File::options().create(true).append(true).open(directory.join("log")).expect("a file");
        let mut command = Command::new(PROGRAM);
        command.args(["--mode", "666"]).stderr(log);
        Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent")
    }

    fn restart(&mut self) {
        self.agent.kill();
        self.agent = Self::start(&self.directory);
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).expect("a log")
    }

    /// Starts an application that has logged in as root.
    fn application(&self) -> Child {
        let parameters = parameters(&self.directory);
        token::make(&parameters);
        let mut command = jeton_child::of_test("client", &Role::Application(parameters));
        let mut client = Child::start(&mut command).expect("a client");
        assert_eq!(client.hear::<CK_RV>(LIMIT).expect("a client"), CKR_OK);
        client
    }
}

fn tell(client: &mut Child, order: Order) -> CK_RV {
    client.tell(&order);
    client.hear(LIMIT).expect("a client")
}

#[test]
fn an_application_that_changes_its_user_goes_on_after_a_restart() {
    let secrets = Directory::new();
    let pin = secrets.join("pin");
    fs::write(&pin, PIN).expect("a file");
    let login = format!("login = {{ token = 't', pin-file = '{}' }}", pin.display());
    let both = |more: &str| [0, USER].map(|uid| format!("[[client]]\nuid = {uid}\n{more}\n")).concat();
    for rules in [String::new(), both(""), both(&login)] {
        let Some(mut stage) = Stage::new("") else { return };
        let mut client = stage.application();
        if !rules.is_empty() {
            write_rules(&stage.directory, &rules);
            stage.restart();
        }
        for _ in 0..2 {
            assert_eq!(tell(&mut client, Order::Sign), CKR_OK, "{rules}");
        }
        assert_eq!(tell(&mut client, Order::ChangeUser), CKR_OK);
        for _ in 0..3 {
            assert_eq!(tell(&mut client, Order::Sign), CKR_OK, "{rules}{}", stage.log());
            stage.restart();
        }
    }
}

#[test]
fn an_application_whose_new_user_no_rule_allows_keeps_its_connection_only() {
    let own = rustix::process::getuid().as_raw();
    let Some(mut stage) = Stage::new(&format!("[[client]]\nuid = {own}\n")) else { return };
    let mut client = stage.application();
    assert_eq!(tell(&mut client, Order::Sign), CKR_OK);
    assert_eq!(tell(&mut client, Order::ChangeUser), CKR_OK);
    assert_eq!(tell(&mut client, Order::Sign), CKR_OK);
    assert_eq!(tell(&mut client, Order::Sign), CKR_OK);
    stage.restart();
    assert_ne!(tell(&mut client, Order::Sign), CKR_OK);
    assert!(stage.log().contains("no rule allows this client"), "{}", stage.log());
}

/// When the application asks, nothing shows who it was.
#[test]
fn the_log_says_whose_ticket_is_refused() {
    let Some(mut stage) = Stage::new("") else { return };
    let mut client = stage.application();
    assert_eq!(tell(&mut client, Order::Sign), CKR_OK);
    assert_eq!(tell(&mut client, Order::ChangeUser), CKR_OK);
    stage.restart();
    assert_ne!(tell(&mut client, Order::Sign), CKR_OK);
    let log = stage.log();
    let is_said = log.lines().any(|line| line.contains("a ticket of uid 0") && line.contains("uid 65534"));
    assert!(is_said, "{log}");
}

#[test]
fn another_process_of_the_new_user_gets_nothing() {
    let Some(stage) = Stage::new("") else { return };
    let mut peer = Peer::connect(&stage.directory);
    let (name, _) = peer.start();
    let slot = peer.make_token();
    peer.call(0, Call::C_CloseAllSessions { slot: SlotId(slot) });
    let session = peer.open(slot);
    let ticket = login(&mut peer, session);
    for role in [
        Role::Thief(stage.directory.to_path_buf(), slot, name, ticket),
        Role::Owner(stage.directory.to_path_buf(), slot),
    ] {
        let mut child = Child::start(&mut jeton_child::of_test("client", &role)).expect("a client");
        assert!(child.hear::<bool>(LIMIT).expect("a client"), "{}", stage.log());
    }
}
