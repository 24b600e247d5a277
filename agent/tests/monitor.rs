//! What a monitor reads of an agent, and what it cannot hold up.

mod common;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

use common::peer::{Peer, Who, mechanism};
use common::*;
use jeton_agent_wire::Call;
use jeton_agent_wire::call::Here;
use jeton_words::error::Error;

/// More than the process for monitors serves at a time.
const SLOW: usize = 200;
/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The files that name figures.
const RULES: &str = include_str!("../../tool/packaging/monitor/jeton.rules.yml");
const DASHBOARD: &str = include_str!("../../tool/packaging/monitor/dashboard.json");

/// Starts an agent that monitors may ask at this address.
fn start(directory: &Path) -> (Agent, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let mut command = Command::new(PROGRAM);
    command.arg("--metrics").arg(address.to_string()).arg("--backups").arg(directory);
    let agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    until("no answer for a monitor", || TcpStream::connect(address).is_ok());
    (agent, address)
}

/// Sends a request, and returns the answer.
fn ask(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.is_empty() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
}

fn figures(address: SocketAddr) -> String {
    let answer = ask(address, "GET /metrics").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nContent-Type: text/plain; version=0.0.4;"), "{answer}");
    answer
}

/// Returns the value of a figure with these labels.
fn figure(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Returns the names of figures in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_of_name(letter));
    words.filter(|word| word.starts_with("jeton_agent_")).collect()
}

#[test]
fn a_monitor_reads_all_figures_that_the_rules_and_the_dashboard_name() {
    let directory = &Directory::new();
    let (_agent, address) = start(directory);
    let (mut peer, session) = Peer::opened(directory, make_token(directory));
    for _ in 0..2 {
        assert_eq!(peer.login(session, Who::User, "wrong").result(), Err(Error::PinIncorrect));
    }
    assert_eq!(peer.login(session, Who::User, PIN).result(), Ok(()));
    assert_eq!(peer.login(session, Who::User, PIN).result(), Err(Error::UserAlreadyLoggedIn));
    let digest = Call::C_DigestInit { session: Here, mechanism: mechanism(CKM_SHA256) };
    assert_eq!(peer.call(session, digest), Some(Ok(())));
    fs::write(directory.join("web.backup"), "").expect("a file");
    // Figures are good for a second.
    let mut text = String::new();
    until("the figures stay as they were", || {
        text = figures(address);
        figure(&text, "jeton_agent_mechanism_calls_total{mechanism=\"CKM_SHA256\"}") == Some(1.0)
    });
    let client = format!("{{client=\"uid {}\"}}", rustix::process::getuid().as_raw());
    for (name, expected) in [
        (format!("wrong_pins_total{client}"), 2.0),
        (format!("failed_logins_total{client}"), 2.0),
        ("function_failures_total{function=\"C_Login\"}".to_owned(), 3.0),
        ("function_calls_total{function=\"C_InitToken\"}".to_owned(), 1.0),
        ("mechanism_calls_total{mechanism=\"CKM_SHA256\"}".to_owned(), 1.0),
        ("workers".to_owned(), 1.0),
        ("worker_failures_total".to_owned(), 0.0),
    ] {
        assert_eq!(figure(&text, &format!("jeton_agent_{name}")), Some(expected), "{name}: {text}");
    }
    let tokens = directory.join("tokens");
    let free = figure(&text, &format!("jeton_agent_free_bytes{{directory=\"{}\"}}", tokens.display()));
    assert!(free.is_some_and(|free| free > 0.0), "{text}");
    let backup = format!("jeton_agent_backup_time_seconds{{directory=\"{}\"}}", directory.display());
    assert!(figure(&text, &backup).is_some_and(|time| time > 1.6e9), "{text}");
    let count = figure(&text, "jeton_agent_request_seconds_count").expect("a count");
    let last = figure(&text, "jeton_agent_request_seconds_bucket{le=\"+Inf\"}");
    assert!(count >= 5.0 && last == Some(count), "{text}");
    assert!(figure(&text, "jeton_agent_request_seconds_sum").is_some_and(|sum| sum > 0.0));
    // Every line of a figure is one that some file could name.
    let printed: BTreeSet<_> = text.lines().filter(|line| !line.starts_with('#')).flat_map(names).collect();
    for (file, named) in [("jeton.rules.yml", names(RULES)), ("dashboard.json", names(DASHBOARD))] {
        let missing: Vec<_> = named.difference(&printed).collect();
        assert!(named.len() > 5 && missing.is_empty(), "{file}: {missing:?}");
    }
    assert!(ask(address, "GET /").expect("an answer").starts_with("HTTP/1.1 404 "));
    assert!(ask(address, "PUT /metrics").expect("an answer").starts_with("HTTP/1.1 405 "));
}

#[test]
fn prometheus_raises_the_alerts_and_reads_the_figures() {
    if !jeton_programs::has("promtool") {
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = package.join("../tool/packaging/monitor/jeton.rules.yml");
    jeton_programs::succeed(Command::new("promtool").args(["check", "rules"]).arg(rules));
    let alerts = package.join("tests/common/alerts.yml");
    jeton_programs::succeed(Command::new("promtool").args(["test", "rules"]).arg(alerts));
    let directory = &Directory::new();
    let (_agent, address) = start(directory);
    let answer = figures(address);
    let (_, text) = answer.split_once("\r\n\r\n").expect("a body");
    let file = directory.join("figures");
    fs::write(&file, text).expect("a file");
    let text = File::open(file).expect("a file");
    jeton_programs::succeed(Command::new("promtool").args(["check", "metrics"]).stdin(text));
}

#[test]
fn slow_monitors_hold_up_no_other_one_and_no_client() {
    let directory = &Directory::new();
    let (mut agent, address) = start(directory);
    let mut peer = Peer::started(directory);
    let slow: Vec<_> = (0..SLOW)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(address).ok()?;
            stream.write_all(b"G").ok()?;
            Some(stream)
        })
        .collect();
    assert!(figures(address).contains("\njeton_agent_workers "));
    assert!(peer.is_served());
    drop(slow);
    // A process for monitors that ends takes no client with it, and another one takes its place.
    for monitor in agent.parts("monitor") {
        kill_process(Pid::from_raw(monitor.cast_signed()).expect("a process"), Signal::KILL)
            .expect("it runs");
    }
    until("no other process for monitors", || ask(address, "GET /metrics").is_ok());
    assert!(peer.is_served() && agent.runs());
}

#[test]
fn only_a_loopback_address_is_one_for_monitors() {
    for address in ["0.0.0.0:9739", "192.0.2.1:9739", "[::]:9739", "localhost:9739"] {
        let output = Command::new(PROGRAM).args(["--metrics", address]).output().expect("the agent");
        assert_eq!(output.status.code(), Some(2), "{address}");
    }
}
