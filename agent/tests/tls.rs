//! Clients of other hosts: TLS 1.3 with certificates, through the client module.

#[path = "common/authority.rs"]
mod authority;
mod common;

use std::net::{TcpListener, TcpStream};

use authority::{Authority, serial};
use common::*;
use jeton_agent_wire::{self as wire, Reply, tls};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long the agent waits for a handshake, and a margin.
const SILENT: Duration = Duration::from_secs(15);
/// A client does not try again within this time. A call waits twice as long for an agent.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Not a test by itself: a client process that the agent refuses. Its role is the library
/// parameters.
#[test]
fn client() {
    let Some(role) = jeton_child::role::<String>() else { return };
    let module = Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module");
    let outcome = module.initialize(Some(&role.expect("a role")));
    jeton_child::say(&outcome.map_or_else(|failure| failure.code, |()| CKR_OK));
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The library parameters of a client with this certificate.
fn parameters(directory: &Path, addresses: &[String], name: &str) -> String {
    let directory = directory.display();
    format!(
        "agent = {{ address = '{}', certificate = '{directory}/{name}.pem', key = '{directory}/{name}.key', \
         authority = '{directory}/ca.pem' }}",
        addresses.join(", ")
    )
}

fn rules(directory: &Path, port: u16, clients: &str) {
    let path = directory.display();
    let text = format!(
        "{clients}\n[tls]\nlisten = '127.0.0.1:{port}'\ncertificate = '{path}/localhost.pem'\n\
         key = '{path}/localhost.key'\nauthority = '{path}/ca.pem'\nrevoked = '{path}/ca.crl'\n"
    );
    write_rules(directory, &text);
}

fn sign(session: &Session, key: ObjectHandle) -> Result<usize, CK_RV> {
    session.sign_init(&Mechanism::new(CKM_ECDSA), key).map_err(|failure| failure.code)?;
    session.sign(&[7; 32], &mut [0; 64]).map_err(|failure| failure.code)
}

#[test]
fn a_certificate_chooses_the_rule_and_others_get_no_connection() {
    let directory = &Directory::alone();
    let ca = Authority::new(directory, "ca");
    for (number, name) in (1..).zip(["localhost", "web.example", "stranger.example", "revoked.example"]) {
        ca.issue(name, serial(number));
    }
    Authority::new(directory, "foreign").issue("forged.example", serial(5));
    ca.revoke(&[serial(4)]);

    let port = free_port();
    let uid = rustix::process::getuid().as_raw();
    let clients =
        format!("[[client]]\nuid = {uid}\n[[client]]\ncertificate = 'web.example'\nobjects = ['web-*']");
    rules(directory, port, &clients);
    let mut agent = Agent::start(directory);
    make_token(directory);
    // Over the Unix socket, this user makes a key that the client of the other host must not see.
    let module = token::load(&common::parameters(directory));
    let session = token::log_in(&module);
    let generate = |session: &Session, label: &str| {
        let label = Attribute::bytes(CKA_LABEL, label.as_bytes());
        let token = || Attribute::flag(CKA_TOKEN, true);
        let public = [Attribute::bytes(CKA_EC_PARAMS, token::CURVE), token(), label.clone()];
        let pair =
            session.generate_key_pair(&Mechanism::new(CKM_EC_KEY_PAIR_GEN), &public, &[token(), label]);
        pair.map(|(_, private)| private).map_err(|failure| failure.code)
    };
    let hidden = generate(&session, "root-ca").expect("a key");
    session.close().expect("a session");
    module.finalize().expect("a module");

    let addresses = [format!("tls://localhost:{port}")];
    module.initialize(Some(&parameters(directory, &addresses, "web.example"))).expect("an agent");
    let session = token::log_in(&module);
    assert_eq!(session.find(&[]).expect("a search"), [], "objects of others");
    assert_eq!(sign(&session, hidden), Err(CKR_KEY_HANDLE_INVALID));
    assert_eq!(generate(&session, "root-ca"), Err(CKR_ACTION_PROHIBITED));
    let own = generate(&session, "web-1").expect("a key");
    assert_eq!(session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search"), [own]);
    assert_eq!(sign(&session, own), Ok(64));
    let renamed = session.set_attributes(own, &[Attribute::bytes(CKA_LABEL, "root-ca".as_bytes())]);
    assert_eq!(renamed.map_err(|failure| failure.code), Err(CKR_ACTION_PROHIBITED));
    // After a restart, the login goes on.
    agent.replace();
    assert_eq!(sign(&session, own), Ok(64));

    // The agent asks whether the host is still there: timer 2 is that of keep-alive.
    let is_asked = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_of_agent = fields[1].ends_with(&format!(":{port:04X}")) && fields[3] == "01";
        is_of_agent && fields[5].starts_with("02:")
    };
    until("no keep-alive", || {
        fs::read_to_string("/proc/net/tcp").expect("the sockets").lines().any(is_asked)
    });

    // A peer that says nothing, and one that speaks no TLS, cost their own connection only.
    let mut silent = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let mut other = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    other.write_all(&[0xff; 4096]).expect("bytes");
    assert_eq!(sign(&session, own), Ok(64));
    let start = Instant::now();
    for peer in [&mut other, &mut silent] {
        peer.set_read_timeout(Some(SILENT)).expect("a socket");
        let _ = peer.read_to_end(&mut Vec::new());
    }
    assert!(start.elapsed() < SILENT, "the agent keeps peers that say nothing");

    // A certificate that is revoked now: the connection ends, and there is no other. Calls do not
    // wait for one.
    ca.revoke(&[serial(2), serial(4)]);
    agent.signal(Signal::HUP);
    let mut slowest = Duration::ZERO;
    let mut fails = || {
        let start = Instant::now();
        let fails = sign(&session, own).is_err();
        slowest = slowest.max(start.elapsed());
        fails
    };
    until("a revoked certificate goes on", &mut fails);
    assert!(fails() && slowest < AT_ONCE, "{slowest:?}");
    drop(session);
    let _ = module.finalize();

    for (name, reason) in [
        ("stranger.example", "refused by the rules"),
        ("revoked.example", "CertificateRevoked"),
        ("web.example", "CertificateRevoked"),
        ("forged.example", "UnknownCA"),
    ] {
        let role = parameters(directory, &addresses, name);
        let mut child = jeton_child::of_test("client", &role);
        let mut child = Child::start(child.stderr(Stdio::piped())).expect("a client");
        assert_eq!(child.hear::<CK_RV>(AT_ONCE).expect("a code in time"), CKR_GENERAL_ERROR, "{name}");
        let said = child.errors();
        assert!(said.contains(reason), "{name}: {said}");
    }
    assert!(agent.runs());
}

#[test]
fn an_application_changes_to_the_other_agent_when_one_fails() {
    let directory = &Directory::alone();
    let ca = Authority::new(directory, "ca");
    ca.issue("localhost", serial(1));
    ca.issue("web.example", serial(2));
    ca.revoke(&[]);
    // Both agents have the same tokens and the same key of tickets.
    let ports = [free_port(), free_port()];
    let mut agents = ports.map(|port| {
        rules(directory, port, "[[client]]");
        Some(Agent::start_beside(directory, &format!("agent-{port}.socket")))
    });
    let addresses = ports.map(|port| format!("tls://localhost:{port}"));
    let parameters = parameters(directory, &addresses, "web.example");
    token::make(&parameters);
    let module = token::load(&parameters);
    let session = token::log_in(&module);
    let key = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    for round in 0..6 {
        let at = round % 2;
        agents[at] = None;
        assert_eq!(sign(&session, key), Ok(64), "round {round}");
        rules(directory, ports[at], "[[client]]");
        agents[at] = Some(Agent::start_beside(directory, &format!("agent-{}.socket", ports[at])));
    }
}

/// The first `C_Initialize` of a process makes one attempt, which has the time of a call.
#[test]
fn a_handshake_may_take_longer_than_a_connection() {
    const LATE: Duration = Duration::from_secs(3);
    let directory = &Directory::alone();
    let ca = Authority::new(directory, "ca");
    ca.issue("localhost", serial(1));
    ca.issue("web.example", serial(2));
    ca.revoke(&[]);
    let port = free_port();
    rules(directory, port, "[[client]]");
    let _agent = Agent::start(directory);
    let late = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tls://localhost:{}", late.local_addr().expect("an address").port());
    thread::spawn(move || {
        for host in late.incoming().flatten() {
            thread::spawn(move || {
                thread::sleep(LATE);
                let agent = TcpStream::connect(("127.0.0.1", port)).expect("the agent");
                thread::scope(|scope| {
                    scope.spawn(|| std::io::copy(&mut &host, &mut &agent));
                    let _ = std::io::copy(&mut &agent, &mut &host);
                });
            });
        }
    });
    let role = parameters(directory, &[address], "web.example");
    let mut child = Child::start(&mut jeton_child::of_test("client", &role)).expect("a client");
    assert_eq!(child.hear::<CK_RV>(Duration::from_secs(60)).expect("a code in time"), CKR_OK);
}

#[test]
fn hosts_go_on_after_the_process_in_which_tls_ends_was_killed() {
    const KILLS: usize = 4;
    let directory = &Directory::alone();
    let ca = Authority::new(directory, "ca");
    ca.issue("localhost", serial(1));
    ca.issue("web.example", serial(2));
    ca.revoke(&[]);
    let port = free_port();
    rules(directory, port, "[[client]]");
    let mut agent = Agent::start(directory);
    let parameters = parameters(directory, &[format!("tls://localhost:{port}")], "web.example");
    token::make(&parameters);
    let module = token::load(&parameters);
    let session = token::log_in(&module);
    let key = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    let mut pauses = Vec::new();
    for _ in 0..KILLS {
        let door = agent.parts("door")[0];
        let start = Instant::now();
        kill_process(Pid::from_raw(door as i32).expect("a process"), Signal::KILL).expect("a signal");
        until("no other process", || agent.parts("door").iter().any(|other| *other != door));
        pauses.push(start.elapsed());
        assert_eq!(sign(&session, key), Ok(64));
    }
    // The front waits twice as long before each start of a process that ends again and again.
    let least = [100, 200, 400, 800].map(Duration::from_millis);
    assert!(pauses.iter().zip(least).all(|(pause, least)| *pause >= least), "{pauses:?}");
    // A host that connects meanwhile waits.
    drop(session);
    module.finalize().expect("a module");
    let door = agent.parts("door")[0];
    kill_process(Pid::from_raw(door as i32).expect("a process"), Signal::KILL).expect("a signal");
    module.initialize(Some(&parameters)).expect("an agent");
    module.finalize().expect("a module");
    assert!(agent.runs());
}

/// Returns the status of `jeton-agent --check` and what it says.
fn check(directory: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    command.arg("--check").arg("--rules").arg(directory.join("rules.toml"));
    let output = command.env("JETON_DIR", directory).output().expect("the agent");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_check_and_a_start_say_which_revocation_lists_are_wrong() {
    let directory = &Directory::alone();
    let ca = Authority::new(directory, "ca");
    ca.issue("localhost", serial(1));
    rules(directory, free_port(), "[[client]]");
    let list = directory.join("ca.crl");
    let says = |wrong: &str| {
        let (status, said) = check(directory);
        assert!(status == Some(1) && said.contains(&format!("ca.crl: {wrong}")), "{said}");
        let log = directory.join("log");
        let mut command = Command::new(PROGRAM);
        command.stderr(File::create(&log).expect("a file"));
        drop(Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent"));
        let said = fs::read_to_string(&log).expect("a log");
        assert!(said.contains(&format!("ca.crl: {wrong}")), "{said}");
    };
    ca.revoke(&[]);
    assert_eq!(check(directory), (Some(0), String::new()));
    let own = fs::read(&list).expect("a list");
    // Another authority with the same name signed it.
    let elsewhere = Directory::new();
    Authority::new(&elsewhere, "ca").revoke(&[]);
    fs::copy(elsewhere.join("ca.crl"), &list).expect("a list");
    says("the signature of a revocation list is wrong");
    let other = Authority::new(directory, "other");
    other.revoke(&[]);
    fs::copy(directory.join("other.crl"), &list).expect("a list");
    says("no revocation list is of an authority");
    // Such a list may be of an authority below.
    fs::write(&list, [own, fs::read(directory.join("other.crl")).expect("a list")].concat())
        .expect("two lists");
    assert_eq!(check(directory), (Some(0), String::new()));
    ca.revoke_later();
    says("a revocation list begins in the future (thisUpdate)");
}

#[test]
fn a_revocation_list_that_ended_admits_no_peer() {
    let directory = &Directory::alone();
    let ca = Authority::new(directory, "ca");
    ca.issue("localhost", serial(1));
    ca.issue("web.example", serial(2));
    ca.revoke(&[]);
    let port = free_port();
    rules(directory, port, "[[client]]");
    let log = directory.join("log");
    let mut command = Command::new(PROGRAM);
    command.stderr(File::create(&log).expect("a file"));
    let mut agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    let parameters = parameters(directory, &[format!("tls://localhost:{port}")], "web.example");
    let checking =
        parameters.replace("authority", &format!("revoked = '{}/ca.crl', authority", directory.display()));
    let check = || check(directory);
    // Also tells what a client process says.
    let connect = |parameters: &String| {
        let mut child = jeton_child::of_test("client", parameters);
        let mut child = Child::start(child.stderr(Stdio::piped())).expect("a client");
        (child.hear::<CK_RV>(SILENT).expect("a code in time"), child.errors())
    };
    assert_eq!(check(), (Some(0), String::new()));
    for parameters in [&parameters, &checking] {
        let (code, said) = connect(parameters);
        assert_eq!(code, CKR_OK, "{said}");
    }
    // A client that has a list knows that the certificate of the agent is revoked. The agent has
    // not read it yet.
    ca.revoke(&[serial(1)]);
    assert_eq!(connect(&parameters).0, CKR_OK);
    let (code, said) = connect(&checking);
    assert!(code == CKR_GENERAL_ERROR && said.contains("Revoked"), "{said}");
    // An older list of the same authority before the newest one.
    let newest = fs::read(directory.join("ca.crl")).expect("a list");
    ca.revoke(&[]);
    let older = fs::read(directory.join("ca.crl")).expect("a list");
    fs::write(directory.join("ca.crl"), [older, newest].concat()).expect("two lists");
    let (status, said) = check();
    assert!(status == Some(1) && said.contains("two revocation lists of one issuer"), "{said}");
    let (code, said) = connect(&checking);
    assert!(code == CKR_GENERAL_ERROR && said.contains("two revocation lists of one issuer"), "{said}");
    // A list that has ended.
    ca.revoke_for(&[], 0);
    until("the list has not ended", || check().0 == Some(1));
    assert!(check().1.contains("ca.crl: a revocation list ended"), "{}", check().1);
    let (code, said) = connect(&checking);
    assert!(code == CKR_GENERAL_ERROR && said.contains("revocation list expired"), "{said}");
    agent.signal(Signal::HUP);
    let said = || fs::read_to_string(&log).expect("a log");
    until("the log does not say so", || said().contains("ca.crl: a revocation list ended"));
    until("a client is admitted", || connect(&parameters).0 == CKR_GENERAL_ERROR);
    // Clients of this host are served.
    let module = token::load(&common::parameters(directory));
    module.finalize().expect("a module");
    // So they are after a start, which says it too.
    let before = said().matches("a revocation list ended").count();
    agent.kill();
    let mut command = Command::new(PROGRAM);
    command.stderr(File::options().append(true).open(&log).expect("a file"));
    let _agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    assert!(said().matches("a revocation list ended").count() > before);
    assert_eq!(connect(&parameters).0, CKR_GENERAL_ERROR);
}

/// What a hostile agent sends instead of an answer, again and again.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A byte of a record that does not end.
    Byte,
    /// A record without a part of a message.
    Update,
}

/// When a hostile agent begins to send only parts of TLS.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Handshake,
    Start,
    Call,
}

/// Behaves so on a connection, for no longer than a minute.
fn hold_up(
    stream: TcpStream,
    configuration: &Arc<ServerConfig>,
    (stage, part): (Stage, Part),
) -> std::io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(configuration)).expect("a connection");
    let mut stream = StreamOwned::new(connection, stream);
    let answers = match stage {
        Stage::Handshake => 0,
        Stage::Start => 1,
        Stage::Call => 2,
    };
    for number in 0..answers {
        let mut header = [0; wire::HEADER];
        stream.read_exact(&mut header)?;
        stream.read_exact(&mut vec![0; u32::from_le_bytes(header) as usize])?;
        if number + 1 < answers {
            let (version, application) = (wire::VERSION, [7; 32]);
            let mut frame = Vec::new();
            wire::encode(&Reply::Started { version, application, longest: 1 << 20 }, &mut frame)
                .expect("a frame");
            stream.write_all(&frame)?;
        }
    }
    let record = if answers == 0 { [0x16, 3, 3, 0x20, 0] } else { [0x17, 3, 3, 0x20, 0] };
    let mut bytes = record.into_iter().chain(std::iter::repeat(2));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        match part {
            Part::Byte => {
                stream.sock.write_all(&[bytes.next().expect("a byte")])?;
                thread::sleep(Duration::from_millis(300));
            }
            Part::Update => {
                stream.conn.refresh_traffic_keys().expect("a key");
                stream.conn.write_tls(&mut stream.sock)?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_call_ends_in_time_also_if_the_agent_sends_only_parts_of_tls() {
    let directory = &Directory::alone();
    let ca = Authority::new(directory, "ca");
    ca.issue("localhost", serial(1));
    ca.issue("web.example", serial(2));
    let file = |name: &str| directory.join(name);
    let configuration = ServerConfig::builder_with_provider(tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_no_client_auth()
        .with_single_cert(
            tls::certificates(&file("localhost.pem")).expect("a certificate"),
            tls::key(&file("localhost.key")).expect("a key"),
        );
    let configuration = Arc::new(configuration.expect("a configuration"));
    for how in [
        (Stage::Handshake, Part::Byte),
        (Stage::Start, Part::Byte),
        (Stage::Start, Part::Update),
        (Stage::Call, Part::Byte),
        (Stage::Call, Part::Update),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("tls://localhost:{}", listener.local_addr().expect("an address").port());
        let configuration = Arc::clone(&configuration);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let configuration = Arc::clone(&configuration);
                // It ends with its connection.
                thread::spawn(move || hold_up(stream, &configuration, how));
            }
        });
        let parameters = parameters(directory, &[address], "web.example");
        let parameters = parameters.replace("agent = {", "agent = { timeout-seconds = 1,");
        let module = Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module");
        let start = Instant::now();
        let started = module.initialize(Some(&parameters)).map_err(|failure| failure.code);
        let called = started.map(|()| module.slots(true).map(drop).map_err(|failure| failure.code));
        let expected = if how.0 == Stage::Call { Ok(Err(CKR_DEVICE_ERROR)) } else { Err(CKR_GENERAL_ERROR) };
        assert_eq!(called, expected, "{how:?}");
        let _ = module.finalize();
        assert!(start.elapsed() < Duration::from_secs(30), "{how:?}: {:?}", start.elapsed());
    }
}
