//! Two agents and two clients, each in its own network namespace. A link fails without a FIN, and a
//! peer stops. The namespaces need root.

#[path = "common/authority.rs"]
mod authority;
mod common;
#[path = "../../tests/crash/database/namespaces.rs"]
#[allow(dead_code, reason = "the tests of PostgreSQL use the address of the bridge")]
mod namespaces;

use std::net::TcpListener;

use authority::{Authority, serial};
use common::*;
use jeton_child::say;
use namespaces::Namespaces;

/// A client goes on at the other agent within this time.
const OTHER: Duration = Duration::from_secs(10);
/// A call to a stopped agent fails within this time.
const STOPPED: Duration = Duration::from_secs(15);
/// An agent forgets a client that vanished within this time.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// What may take any time.
const LONG: Duration = Duration::from_secs(120);
const PORT: u16 = 7512;
/// The addresses that [`Namespaces`] gives to the first hosts.
const HOSTS: [&str; 2] = ["198.18.1.1", "198.18.1.2"];

#[derive(Serialize, Deserialize)]
struct Role(String);

/// Not a test by itself: the client processes.
#[test]
fn client() {
    if let Some(Role(parameters)) = jeton_child::role::<Role>().transpose().expect("a role") {
        work(&parameters);
    }
}

/// Signs when the parent asks, and says the code. After a failure, the next signature has a new
/// session.
fn work(parameters: &str) {
    let module = token::load(parameters);
    let session = token::log_in(&module);
    let key = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    let slot = session.info().expect("a session").slot;
    let reopen = || {
        let session = module.open_session(slot, Access::ReadOnly)?;
        session.login(User::User, Some(PIN)).map(|()| session)
    };
    let mut session = Some(session);
    say(&CKR_OK);
    while jeton_child::heard::<()>().is_some() {
        let open = session.take().map_or_else(reopen, Ok);
        let outcome = open.and_then(|open| sign(&open, key).map(|()| session = Some(open)));
        say(&outcome.map_or_else(|failure| failure.code, |()| CKR_OK));
    }
}

fn sign(session: &Session, key: ObjectHandle) -> Result<(), Failure> {
    session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key)?;
    session.sign(b"data", &mut [0; 64]).map(drop)
}

/// Starts a client, in a namespace if there is one. It has signed once.
fn start_client(parameters: String, namespace: Option<&str>) -> Child {
    let role = Role(parameters);
    let mut command = match namespace {
        Some(name) => {
            let mut command = jeton_child::below("ip", ["netns", "exec", name], &role);
            command.args(["--exact", "client", "--nocapture", "--test-threads=2"]);
            command
        }
        None => jeton_child::of_test("client", &role),
    };
    let mut child = Child::start(&mut command).expect("a client");
    assert_eq!(child.hear::<CK_RV>(LONG).expect("a login"), CKR_OK);
    assert_eq!(signs(&mut child, LONG), Some(CKR_OK));
    child
}

/// Lets a client sign. Returns the code, or `None` if there is no answer in this time.
fn signs(child: &mut Child, limit: Duration) -> Option<CK_RV> {
    child.tell(&());
    child.hear(limit).ok()
}

/// Makes the certificates, and the rules of agents that listen on this port. Returns the parameters
/// of a client of the agents at these addresses.
fn tls(directory: &Path, port: u16, addresses: &[&str]) -> String {
    let ca = Authority::new(directory, "ca");
    let names = addresses.iter().map(|address| format!("ip:{address}")).collect::<Vec<_>>();
    ca.issue_for("agent", &names, serial(1));
    ca.issue("client", serial(2));
    let path = directory.display();
    let rules = format!(
        "[[client]]\n[tls]\nlisten = '0.0.0.0:{port}'\ncertificate = '{path}/agent.pem'\n\
         key = '{path}/agent.key'\nauthority = '{path}/ca.pem'\n"
    );
    write_rules(directory, &rules);
    let addresses: Vec<_> = addresses.iter().map(|address| format!("tls://{address}:{port}")).collect();
    format!(
        "agent = {{ address = '{}', certificate = '{path}/client.pem', key = '{path}/client.key', \
         authority = '{path}/ca.pem' }}",
        addresses.join(", ")
    )
}

fn make_token(agent: &Agent) {
    let _alone = module();
    token::make(&parameters_of(&[agent.socket().to_owned()]));
}

/// Starts an agent in the namespace of each address. They have the same tokens.
fn agents(directory: &Path, namespaces: &Namespaces) -> Vec<Agent> {
    let start = |host| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespaces.name(host), PROGRAM]);
        Agent::try_start_with(command, directory, &format!("{host}.socket"), "").expect("an agent")
    };
    let agents: Vec<_> = (0..HOSTS.len()).map(start).collect();
    make_token(&agents[0]);
    agents
}

/// Takes the link of a host away. Its connections get no FIN.
fn cut(namespaces: &Namespaces, host: usize) {
    let mut command = Command::new("ip");
    command.args(["-n", &namespaces.name(host), "link", "set", "eth0", "down"]);
    assert!(command.status().expect("ip").success());
}

/// Lets a client sign until it succeeds, at another agent. Returns how long this takes.
fn goes_on(client: &mut Child) -> Option<Duration> {
    let start = Instant::now();
    while let Some(left) = OTHER.checked_sub(start.elapsed()) {
        match signs(client, left) {
            Some(CKR_OK) => return Some(start.elapsed()),
            Some(CKR_DEVICE_ERROR | CKR_DEVICE_REMOVED | CKR_SESSION_HANDLE_INVALID) => {}
            Some(code) => panic!("code 0x{code:x}"),
            None => break,
        }
    }
    None
}

/// Waits until an agent has only this number of clients. Returns how long this takes.
fn has_only(agent: &Agent, applications: u64, start: Instant) -> Option<Duration> {
    while start.elapsed() < FORGOTTEN {
        let status = status(agent.socket()).expect("an agent");
        if (status.applications, status.sessions) == (applications, applications) {
            return Some(start.elapsed());
        }
        thread::sleep(Duration::from_millis(200));
    }
    None
}

#[test]
fn a_link_that_fails_moves_clients_to_the_other_agent_and_frees_what_they_had() {
    let Some(namespaces) = Namespaces::make(4) else { return println!("SKIPPED: namespaces need root") };
    let directory = &Directory::new();
    let both = tls(directory, PORT, &HOSTS);
    let second = both.replace(&format!("tls://{}:{PORT}, ", HOSTS[0]), "");
    let agents = agents(directory, &namespaces);
    let mut client = start_client(both, Some(&namespaces.name(2)));
    let mut other = start_client(second, Some(&namespaces.name(3)));
    let of = |agent: &Agent| status(agent.socket()).expect("an agent").applications;
    assert_eq!((of(&agents[0]), of(&agents[1])), (1, 1));
    // One client vanishes with its host, and the other loses its agent.
    let start = Instant::now();
    cut(&namespaces, 3);
    other.kill().expect("a client");
    cut(&namespaces, 0);
    let went_on = goes_on(&mut client);
    let left = u64::from(went_on.is_some());
    let forgotten = [has_only(&agents[1], left, start), has_only(&agents[0], 0, start)];
    println!("the client went on after {went_on:?}; the agents forgot after {forgotten:?}");
    assert!(went_on.is_some(), "the client does not go on in {OTHER:?}");
    assert!(forgotten.iter().all(Option::is_some), "the agents do not forget clients in {FORGOTTEN:?}");
}

/// Stops an agent while a client uses it, and lets it continue.
fn stop(agent: &Agent, parameters: String) {
    make_token(agent);
    let mut client = start_client(parameters, None);
    agent.stop();
    let start = Instant::now();
    let code = signs(&mut client, STOPPED).expect("an answer in time");
    assert!(matches!(code, CKR_DEVICE_ERROR | CKR_DEVICE_REMOVED), "code 0x{code:x}");
    println!("the call failed after {:?}", start.elapsed());
    // A request to a program is several calls.
    let code = signs(&mut client, STOPPED.saturating_sub(start.elapsed())).expect("an answer in time");
    assert!(matches!(code, CKR_DEVICE_ERROR | CKR_DEVICE_REMOVED), "code 0x{code:x}");
    agent.signal_all(Signal::CONT);
    let start = Instant::now();
    while signs(&mut client, STOPPED).expect("an answer in time") != CKR_OK {
        assert!(start.elapsed() < STOPPED, "the client does not go on");
    }
}

#[test]
fn a_stopped_agent_on_this_host_is_a_device_error() {
    let (agent, directory) = &mut Agent::within(Directory::new());
    stop(agent, parameters(directory));
}

#[test]
fn a_stopped_agent_on_another_host_is_a_device_error() {
    let directory = &Directory::new();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let parameters = tls(directory, port.expect("a port").port(), &["127.0.0.1"]);
    let agent = Agent::start(directory);
    stop(&agent, parameters);
}
