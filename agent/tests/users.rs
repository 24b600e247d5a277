//! A process that changes its user, as daemons do that start as root, and others that have no right
//! to its login.

mod common;

use common::peer::{Peer, Who, encoded};
use common::*;
use jeton_agent_wire::status::PinState;
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
    /// Becomes this user, and works with many applications that try this PIN.
    Crowd(PathBuf, u64, u32, String),
    /// Changes its user, and connects as often as it can; without a directory it only computes.
    Flood(Option<PathBuf>),
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
        Some(Role::Crowd(directory, slot, user, pin)) => crowd(&directory, slot, user, &pin),
        Some(Role::Flood(directory)) => flood(directory.as_deref()),
    }
    process::exit(0);
}

fn change_user() {
    become_user(USER);
}

fn become_user(user: u32) {
    // SAFETY: setuid(2) takes a number and has no other precondition.
    assert_eq!(unsafe { libc::setuid(user) }, 0);
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
fn the_log_says_that_a_ticket_is_refused() {
    let Some(mut stage) = Stage::new("") else { return };
    let mut client = stage.application();
    assert_eq!(tell(&mut client, Order::Sign), CKR_OK);
    assert_eq!(tell(&mut client, Order::ChangeUser), CKR_OK);
    stage.restart();
    assert_ne!(tell(&mut client, Order::Sign), CKR_OK);
    let log = stage.log();
    let is_said =
        log.lines().any(|line| line.contains("not a ticket of this client") && line.contains("uid 65534"));
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

/// The applications of each user in a crowd, and the calls of each.
const CROWD: usize = 50;
const CALLS: usize = 200;

/// Says how many applications logged in, after a restart how many tickets log in again, and then
/// how many calls failed.
fn crowd(directory: &Path, slot: u64, user: u32, pin: &str) {
    become_user(user);
    let next = || jeton_child::heard::<()>().expect("an order").expect("an order");
    jeton_child::say(&0);
    next();
    let tickets = at_once(directory, slot, CROWD, |_, peer, session| {
        let login = peer.login(session, Who::User, pin);
        login.result().ok().and_then(|()| login.kept())
    });
    jeton_child::say(&tickets.iter().flatten().count());
    next();
    let is_resumed = |number: usize, peer: &mut Peer, session| {
        tickets[number].as_ref().is_some_and(|ticket| peer.resume(session, ticket).is_ok())
    };
    let resumed = at_once(directory, slot, CROWD, is_resumed);
    jeton_child::say(&resumed.into_iter().filter(|is_resumed| *is_resumed).count());
    next();
    let failed = at_once(directory, slot, CROWD, |_, peer, _| {
        (0..CALLS).filter(|_| !matches!(peer.call(0, Call::C_GetSlotList {}), Some(Ok(())))).count()
    });
    jeton_child::say(&failed.into_iter().sum::<usize>());
}

/// One of the four users guesses PINs, and the process of a fifth one ends while they work.
#[test]
fn two_hundred_applications_of_four_users_disturb_no_other_user() {
    let Some(mut stage) = Stage::new("") else { return };
    let slot = make_token(&stage.directory);
    let of_user = |(number, pin): (u32, &str)| {
        let role = Role::Crowd(stage.directory.to_path_buf(), slot, USER - number, pin.to_owned());
        let mut child = Child::start(&mut jeton_child::of_test("client", &role)).expect("a client");
        assert_eq!(child.hear::<usize>(LIMIT).expect("a client"), 0);
        child
    };
    let mut crowds: Vec<_> = (0..).zip([PIN, PIN, PIN, "99999999"]).map(of_user).collect();
    let tell = |crowds: &mut [Child]| crowds.iter_mut().for_each(|crowd| crowd.tell(&()));
    let hear = |crowds: &mut [Child]| -> Vec<usize> {
        crowds.iter_mut().map(|crowd| crowd.hear(3 * LIMIT).expect("a client")).collect()
    };
    tell(&mut crowds);
    assert_eq!(hear(&mut crowds), [CROWD, CROWD, CROWD, 0], "{}", stage.log());
    let pin = status(&socket(&stage.directory)).expect("a status").tokens[0].pin;
    assert_ne!(pin, PinState::Locked);
    stage.restart();
    let _own = Peer::started(&stage.directory);
    let [own] = stage.agent.workers()[..] else { panic!("one worker") };
    tell(&mut crowds);
    assert_eq!(hear(&mut crowds), [CROWD, CROWD, CROWD, 0], "{}", stage.log());
    tell(&mut crowds);
    kill_process(Pid::from_raw(own.cast_signed()).expect("a process"), Signal::KILL).expect("a signal");
    assert_eq!(hear(&mut crowds), [0; 4], "{}", stage.log());
}

/// Connects from this number of threads, and closes each connection at once.
const FLOODS: usize = 4;
/// The connections that are measured.
const MEASURED: usize = 300;

fn flood(directory: Option<&Path>) {
    change_user();
    jeton_child::say(&true);
    thread::scope(|scope| {
        for _ in 0..FLOODS {
            scope.spawn(|| {
                loop {
                    match directory {
                        Some(directory) => drop(UnixStream::connect(socket(directory))),
                        None => std::hint::spin_loop(),
                    }
                }
            });
        }
    });
}

/// Returns how long new applications wait for the agent: the median, 99 % and the longest time.
fn delays(directory: &Path) -> [Duration; 3] {
    let mut times: Vec<_> = (0..MEASURED)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(Peer::connect(directory).refusal(), None);
            thread::sleep(Duration::from_millis(1));
            start.elapsed() - Duration::from_millis(1)
        })
        .collect();
    times.sort();
    [MEASURED / 2, MEASURED * 99 / 100, MEASURED - 1].map(|at| times[at])
}

#[test]
fn a_user_without_a_rule_delays_no_other_one() {
    let own = rustix::process::getuid().as_raw();
    let Some(stage) = Stage::new(&format!("[[client]]\nuid = {own}\n")) else { return };
    let directory = &*stage.directory;
    let _stays = Peer::started(directory);
    let of = |role: Option<&Path>| {
        let role = Role::Flood(role.map(Path::to_owned));
        let mut child = Child::start(&mut jeton_child::of_test("client", &role)).expect("a client");
        assert!(child.hear::<bool>(LIMIT).expect("a client"));
        delays(directory)
    };
    let quiet = delays(directory);
    let busy = of(None);
    // A queue of 4,096 connections took a tenth of a second. Other work of the machine may disturb
    // one measurement, or the next one.
    let is_quick = || {
        let flooded = of(Some(directory));
        println!("the median, 99 % and the longest: quiet {quiet:?}, busy {busy:?}, flooded {flooded:?}");
        flooded[0] < 10 * busy[0] + Duration::from_millis(20)
    };
    assert!((0..5).any(|_| is_quick()), "new applications wait for those of another user");
}
