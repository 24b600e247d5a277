//! Keys in a process of their own beside keys in process: `jeton-agent` through a Unix socket and
//! by TLS, `p11-kit server`, and SoftHSMv2. The turns of the rows alternate. Also the rate of
//! several clients, how evenly 200 are served, and the memory of idle ones. Writes
//! `docs/benchmarks/agent.md`.

use std::ffi::OsString;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use jeton_child::Child;
use jeton_laboratory::memory::resident_of;
use jeton_laboratory::{Interval, Machine, Table};
use jeton_peers::{Known, PIN, Sandbox, TokenAccess, open_token};
use serde::{Deserialize, Serialize};

use super::{AnyError, child};
use crate::artefacts::{Artefacts, parameters, root, target_directory, temporary, write_page};
use crate::child::{Reached, Role, hear, in_turns};
use crate::names::SOFTHSM;
use crate::operation::Boxed;
use crate::scheme::{Aead, Scheme, named};
use crate::store::shown;
use crate::target::{FINDABLE, Home, ModuleToken};

/// The rounds. In each round, every row has a turn.
const ROUNDS: usize = 15;
const TURN: Duration = Duration::from_millis(40);
/// How long several clients sign at the same time.
const TOGETHER: Duration = Duration::from_secs(3);
/// The clients whose shares are compared.
const MANY: usize = 200;
/// The clients that do nothing.
const IDLE: usize = 1_000;
/// The module of p11-kit that connects to its server.
const P11_KIT: &str = "/usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-client.so";
pub(crate) const LABEL: &str = "pipeline";

struct Row {
    name: &'static str,
    reached: Reached,
    environment: Vec<(String, OsString)>,
    /// The process that has the keys, if it is another one.
    server: Option<u32>,
}

/// What a turn took, for each repetition.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Took {
    seconds: f64,
    repetitions: u64,
    /// The processor time of the process in seconds.
    processor: f64,
}

/// Measures all rows that this machine has, prints the figures and writes the page. `more` returns
/// its last section.
pub fn measure(artefacts: &Artefacts, more: fn() -> Result<String, AnyError>) -> Result<(), AnyError> {
    build()?;
    let directory = temporary()?;
    let directory = directory.path();
    let (rows, _servers) = rows(artefacts, directory)?;
    let mut page = heading()?;
    page += &operations(&rows)?;
    let agent = rows.iter().find(|row| row.name == "agent").ok_or("no agent")?;
    page += &together(agent)?;
    page += &idle(agent)?;
    page += &more()?;
    write_page("agent.md", &page)
}

/// Builds the agent and its client module with TLS: neither is a library that the benches could
/// depend on.
pub(crate) fn build() -> Result<(), AnyError> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--release", "-p", "jeton-agent", "-p", "jeton-agent-client"]);
    command.args(["--features", "jeton-agent-client/tls"]).current_dir(root());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("{command:?}: {other:?}").into()),
    }
}

fn rows(artefacts: &Artefacts, directory: &Path) -> Result<(Vec<Row>, Vec<Child>), AnyError> {
    let ours = |name: &str| -> Result<String, AnyError> {
        let tokens = directory.join(name);
        fs::create_dir_all(&tokens)?;
        Ok(parameters(&tokens, "aws-lc"))
    };
    let row = |name, library: PathBuf, reserved: Option<String>, token| {
        let reached = Reached { library, reserved, token, only_signs: false };
        Row { name, reached, environment: Vec::new(), server: None }
    };
    let in_process = row("in process", artefacts.module.clone(), Some(ours("own")?), TokenAccess::Initialise);
    let (mut rows, mut servers) = (vec![in_process], Vec::new());

    let (agent, port) = start_agent(directory)?;
    let client = target_directory().join("release/libjeton_client.so");
    let socket = format!("agent = 'unix:{}'", directory.join("agent.socket").display());
    let path = directory.display();
    let tls = format!(
        "agent = {{ address = 'tls://localhost:{port}', certificate = '{path}/client.pem', \
         key = '{path}/client.key', authority = '{path}/ca.pem' }}"
    );
    // Both use the token that the first one makes.
    let existing = || TokenAccess::Existing { label: Some(LABEL.to_owned()), pin: PIN.to_owned() };
    for (name, reserved, token) in
        [("agent", socket, TokenAccess::Initialise), ("agent, TLS", tls, existing())]
    {
        let server = Some(agent.id());
        rows.push(Row { server, ..row(name, client.clone(), Some(reserved), token) });
    }
    servers.push(agent);

    if Path::new(P11_KIT).exists() {
        let reserved = ours("p11-kit")?;
        open_token(&artefacts.module, Some(&reserved), &TokenAccess::Initialise)?;
        let (server, address) = start_p11_kit(artefacts, directory)?;
        rows.push(Row {
            environment: vec![("P11_KIT_SERVER_ADDRESS".to_owned(), address.into())],
            server: Some(server.id()),
            ..row("p11-kit", P11_KIT.into(), None, existing())
        });
        servers.push(server);
    }
    if let Some(library) = Known::SoftHsm2.library() {
        let below = directory.join(SOFTHSM);
        let sandbox = Sandbox::fresh(Known::SoftHsm2, &below, None)?;
        let environment = sandbox.environment;
        rows.push(Row { environment, ..row(SOFTHSM, library, sandbox.reserved, sandbox.token) });
    }
    Ok((rows, servers))
}

fn start_agent(directory: &Path) -> Result<(Child, u16), AnyError> {
    fs::create_dir_all(directory.join("agent"))?;
    let configuration = configuration(directory, "agent")?;
    for (name, more) in
        [("ca", ""), ("localhost", "-CA ca.pem -CAkey ca.key"), ("client", "-CA ca.pem -CAkey ca.key")]
    {
        let arguments = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -addext subjectAltName=DNS:{name} -addext basicConstraints=critical,CA:{} {more} -keyout {name}.key \
             -out {name}.pem",
            if name == "ca" { "TRUE" } else { "FALSE" }
        );
        let mut command = Command::new("openssl");
        command.args(arguments.split_whitespace()).current_dir(directory);
        jeton_child::output(command)?;
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    drop(listener);
    let path = directory.display();
    let rules = format!(
        "[[client]]\n[tls]\nlisten = '127.0.0.1:{port}'\ncertificate = '{path}/localhost.pem'\n\
         key = '{path}/localhost.key'\nauthority = '{path}/ca.pem'\n"
    );
    fs::write(directory.join("rules.toml"), rules)?;
    let socket = directory.join("agent.socket");
    let mut command = Command::new(target_directory().join("release/jeton-agent"));
    command.arg("--socket").arg(&socket).arg("--state").arg(directory);
    command.arg("--rules").arg(directory.join("rules.toml")).env("JETON_CONF", configuration);
    let server = Child::start(command.env_remove("JETON_DIR"))?;
    wait_for(&socket)?;
    Ok((server, port))
}

/// Writes the configuration of a server whose tokens are in the directory with its name.
pub(crate) fn configuration(directory: &Path, name: &str) -> Result<PathBuf, AnyError> {
    let (path, tokens) = (directory.join(format!("{name}.toml")), directory.join(name));
    let settings = format!("token-dir = '{}'\n[pin]\nmemory-kib = 8\npasses = 1\n", tokens.display());
    fs::write(&path, settings)?;
    Ok(path)
}

/// Starts `p11-kit server` with our module. Returns its address.
fn start_p11_kit(artefacts: &Artefacts, directory: &Path) -> Result<(Child, String), AnyError> {
    let configuration = configuration(directory, "p11-kit")?;
    let socket = directory.join("p11-kit.socket");
    let mut command = Command::new("p11-kit");
    command.args(["server", "--foreground", "--name"]).arg(&socket).arg("--provider").arg(&artefacts.module);
    command.arg("pkcs11:").env("JETON_CONF", configuration).env_remove("JETON_DIR");
    let server = Child::start(&mut command).map_err(|reason| format!("p11-kit: {reason}"))?;
    wait_for(&socket)?;
    Ok((server, format!("unix:path={}", socket.display())))
}

pub(crate) fn wait_for(socket: &Path) -> Result<(), AnyError> {
    let start = Instant::now();
    while UnixStream::connect(socket).is_err() {
        if start.elapsed() > Duration::from_secs(20) {
            return Err(format!("{}: no answer", socket.display()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn client(row: &Row, reached: &Reached) -> Result<Child, AnyError> {
    let mut command = child::of_role(&Role::Served(reached.clone()));
    command.envs(row.environment.clone());
    Ok(Child::start(&mut command)?)
}

/// Measures the operations, and returns the tables.
fn operations(rows: &[Row]) -> Result<String, AnyError> {
    let mut clients = Vec::new();
    for row in rows {
        let mut child = client(row, &row.reached)?;
        let names: Vec<(String, bool)> = hear(&mut child, row.name)?;
        clients.push((child, names));
    }
    let names: Vec<_> = clients[0].1.iter().map(|(name, _)| name.clone()).collect();
    let header = || std::iter::once("operation").chain(rows.iter().map(|row| row.name));
    let (mut times, mut processor) = (Table::new(1, header()), Table::new(1, header()));
    for (place, name) in names.iter().enumerate() {
        let mut all = vec![(Vec::new(), Vec::new()); rows.len()];
        in_turns(ROUNDS, rows.len(), |number| {
            let (child, has) = &mut clients[number];
            if !has[place].1 {
                return Ok(());
            }
            let before = rows[number].server.map_or(0.0, processor_time);
            child.tell(&place);
            let took: Took = hear(child, name)?;
            let of_server = rows[number].server.map_or(0.0, processor_time) - before;
            let each = |seconds: f64| seconds / took.repetitions as f64;
            all[number].0.push(each(took.seconds));
            all[number].1.push(each(took.processor + of_server));
            Ok(())
        })?;
        let cells = |values: Vec<Vec<f64>>| {
            std::iter::once(name.clone())
                .chain(values.into_iter().map(|one| Interval::of(one).map_or("-".to_owned(), shown)))
                .collect::<Vec<_>>()
        };
        let (wall, used): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let line = cells(wall);
        println!("{}", line.join(" | "));
        times.add(line);
        processor.add(cells(used).iter().map(|cell| cell.split(" (").next().unwrap_or_default()));
    }
    Ok(format!(
        "{}\nThe median processor time of both processes for each call:\n\n{}",
        times.markdown(),
        processor.markdown()
    ))
}

/// Returns the processor time in seconds of a process, its children and all their threads.
fn processor_time(process: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut nanoseconds = 0.0;
    for task in tasks {
        let own = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        nanoseconds += own.split(' ').next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    }
    nanoseconds / 1e9 + children(process).into_iter().map(processor_time).sum::<f64>()
}

/// Returns the child processes of a process.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>()
    });
    children.collect()
}

/// Starts clients that have logged in and wait for an order to sign.
fn signers(row: &Row, count: usize) -> Result<Vec<Child>, AnyError> {
    let token = TokenAccess::Existing { label: Some(LABEL.to_owned()), pin: PIN.to_owned() };
    let reached = Reached { only_signs: true, token, ..row.reached.clone() };
    let start = |_| {
        let mut child = client(row, &reached)?;
        hear::<bool>(&mut child, "a client")?;
        Ok(child)
    };
    (0..count).map(start).collect()
}

fn together(agent: &Row) -> Result<String, AnyError> {
    let mut text = String::from(
        "\n## Several clients\n\n| clients | P-256 signatures in a second, all together | the slowest divided by the mean |\n|--:|--:|--:|\n",
    );
    for clients in [1, 2, 8, MANY] {
        let mut children = signers(agent, clients)?;
        children.iter_mut().for_each(|child| child.tell(&TOGETHER.as_secs()));
        let counts = children.iter_mut().map(|child| hear(child, "a client"));
        let counts = counts.collect::<Result<Vec<u64>, _>>()?;
        let all: u64 = counts.iter().sum();
        let mean = all as f64 / clients as f64;
        let slowest = *counts.iter().min().unwrap_or(&0) as f64;
        let line = format!(
            "| {clients} | {:.0} | {:.2} |\n",
            all as f64 / TOGETHER.as_secs_f64(),
            slowest / mean.max(1.0)
        );
        print!("{line}");
        text += &line;
    }
    Ok(text)
}

/// Measures by how much idle clients make the agent grow.
fn idle(agent: &Row) -> Result<String, AnyError> {
    let server = agent.server.ok_or("no agent")?;
    let resident = || resident_of(server) as f64 / f64::from(1 << 20);
    let before = resident();
    let _children = signers(agent, IDLE)?;
    let after = resident();
    let text = format!(
        "\n{IDLE} processes that are logged in with one session each, and do nothing: the agent has {after:.0} MiB, \
         and had\n{before:.0} MiB without them.\n"
    );
    print!("{text}");
    Ok(text)
}

fn heading() -> Result<String, AnyError> {
    // `p11-kit` does not say its version.
    let mut command = Command::new("dpkg-query");
    command.args(["--show", "--showformat=p11-kit ${Version}", "p11-kit"]);
    let p11_kit = jeton_child::output(command)
        .map_or_else(|_| "p11-kit".to_owned(), |(text, _)| text.trim().to_owned());
    Ok(format!(
        "# Keys in a process of their own\n\n`cargo run --release -p jeton-benches -- agent` writes this page. *In \
         process* is `libjeton_pkcs11.so` in the\nprogram, *agent* the same program with `libjeton_client.so` and \
         `jeton-agent` behind a Unix socket, *agent, TLS* the\nsame by TLS 1.3 through the loopback device, and \
         *p11-kit* the client and the server of {p11_kit} with\n`libjeton_pkcs11.so`. A figure is the \
         median of {ROUNDS} turns of {} ms\nwith its 95 % interval; the turns of all columns \
         alternate.\n\n{}\n\n",
        TURN.as_millis(),
        Machine::this()
    ))
}

/// The child: does the operations that its parent asks for.
pub(crate) fn serve(reached: &Reached) -> Result<(), AnyError> {
    let (module, slot, pin) = open_token(&reached.library, reached.reserved.as_deref(), &reached.token)?;
    let token = ModuleToken::open("child", &module, slot, &pin, Home::Session)?;
    if reached.only_signs {
        return sign_when_told(&token);
    }
    token.fill(0..10, Home::Session, 1, &|| false)?;
    let mut operations = all(&token);
    let names: Vec<_> = operations.iter().map(|(name, operation)| (*name, operation.is_some())).collect();
    jeton_child::say(&names);
    while let Some(place) = jeton_child::heard::<usize>() {
        let (_, operation) = &mut operations[place?];
        let operation = operation.as_mut().ok_or("an operation that the module lacks")?;
        let mut took = Took { seconds: 0.0, repetitions: 0, processor: 0.0 };
        let (start, before) = (Instant::now(), processor_time(std::process::id()));
        let mut repetitions = 1;
        while start.elapsed() < TURN {
            took.seconds += operation.time(repetitions).as_secs_f64();
            took.repetitions += repetitions;
            repetitions = (repetitions * 2).min(256);
        }
        took.processor = processor_time(std::process::id()) - before;
        jeton_child::say(&took);
    }
    Ok(())
}

/// Returns the operations; `None` for those that the module lacks.
fn all(token: &ModuleToken) -> Vec<(&'static str, Option<Boxed<'_>>)> {
    let signing = |pair: &str, scheme| {
        let pair = named(pair);
        token.pair(pair).and_then(|keys| token.signing(pair, scheme, keys)).ok()
    };
    let sealing =
        |len| token.cipher_key(Aead::AesGcm).and_then(|key| token.sealing(Aead::AesGcm, key, len)).ok();
    vec![
        ("P-256 signature", signing("p256", Scheme::Ecdsa)),
        ("RSA-2048 signature", signing("rsa2048", Scheme::RsaPkcs)),
        ("ML-DSA-65 signature", signing("mldsa65", Scheme::MlDsa)),
        ("32 random bytes", token.random(32).ok()),
        ("AES-256-GCM, 4 KiB", sealing(4096)),
        ("AES-256-GCM, 1 MiB", sealing(1 << 20)),
        ("search among 10 objects", token.searching(FINDABLE[0], 10).ok()),
        ("open and close a session", token.sessions().ok()),
    ]
}

/// The child: signs for the number of seconds that its parent says, and answers how often it did.
fn sign_when_told(token: &ModuleToken) -> Result<(), AnyError> {
    jeton_child::say(&true);
    let Some(seconds) = jeton_child::heard::<u64>() else { return Ok(()) };
    let pair = named("p256");
    let mut operation = token.signing(pair, Scheme::Ecdsa, token.pair(pair)?)?;
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds?));
    let mut count = 0u64;
    while start.elapsed() < limit {
        operation.time(10);
        count += 10;
    }
    jeton_child::say(&count);
    Ok(())
}
