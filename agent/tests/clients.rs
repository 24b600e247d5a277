//! The processes of clients: what stays in the agent when one is killed, and which secrets are in
//! the memory of one that uses keys.

mod common;

use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;

use common::*;
use jeton_client::Structure;
use jeton_client::names::{
    CKK_JETON_COMPOSITE_ML_DSA, CKM_JETON_COMPOSITE_ML_DSA, CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN,
};

const LIMIT: Duration = Duration::from_secs(60);
const PIN_LENGTH: usize = 16;
/// The shortest part of a secret that must not be found.
const PART: usize = 16;
/// What the test must find in the memory of the client.
const MARK: &[u8] = b"what a search of memory must find";

#[derive(Serialize, Deserialize)]
enum Role {
    /// Leaves things in the agent, and is killed.
    Leave(PathBuf),
    Use(PathBuf),
}

/// Not a test by itself: the client processes.
#[test]
fn client() {
    match jeton_child::role::<Role>().transpose().expect("a role") {
        None => {}
        Some(Role::Leave(directory)) => leave(&directory),
        Some(Role::Use(directory)) => use_keys(&directory),
    }
}

fn session(module: &Module) -> Session {
    let slot = module.slots(true).expect("slots")[0];
    module.open_session(slot, Access::ReadWrite).expect("a session")
}

fn make_token(directory: &Path, pin: &str) -> Module {
    let module = token::load(&parameters(directory));
    let slot = module.slots(true).expect("slots")[0];
    initialise(&module, slot, "t", SO_PIN, pin).expect("a token");
    module
}

fn leave(directory: &Path) {
    let module = token::load(&parameters(directory));
    let sessions: Vec<_> = (0..3).map(|_| session(&module)).collect();
    sessions[0].login(User::User, Some(PIN)).expect("a login");
    let data = [Attribute::number(CKA_CLASS, CKO_DATA), Attribute::bytes(CKA_VALUE, vec![7; 100_000])];
    sessions[1].create_object(&data).expect("an object");
    sessions[2].digest_init(&Mechanism::new(CKM_SHA256)).expect("an operation");
    sessions[2].digest_update(&[1; 1000]).expect("a part");
    jeton_child::say(&"ready");
    thread::sleep(LIMIT);
}

fn kill_clients(rounds: usize) {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let module = make_token(directory, PIN);
    // The first rounds allocate what the agent keeps.
    let settle = rounds.min(20);
    let mut before = 0;
    for round in 0..rounds {
        if round == settle {
            before = agent.figure("VmRSS");
        }
        let role = Role::Leave(directory.to_path_buf());
        let mut child = Child::start(&mut jeton_child::of_test("client", &role)).expect("a client");
        child.hear::<String>(LIMIT).expect("a client that is ready");
        child.kill().expect("a client");
    }
    // The agent notices the end of the last one after its connections.
    let is_alone = || status(&socket(directory)).expect("an agent").applications == 1;
    jeton_child::until(LIMIT, "an application of a killed client stays", is_alone);
    assert_eq!(status(&socket(directory)).expect("an agent").sessions, 0);
    assert_eq!(session(&module).find(&[]).expect("a search"), [], "an object of a killed client stays");
    if rounds > settle {
        let grown = agent.figure("VmRSS").saturating_sub(before);
        println!("{rounds} killed clients: the agent grew by {grown} KiB from {before} KiB");
        assert!(grown < 4096, "the agent grew by {grown} KiB in {rounds} rounds");
    }
    module.finalize().expect("a module");
}

#[test]
fn nothing_of_a_killed_client_stays() {
    kill_clients(10);
}

#[test]
#[ignore = "in .ci/full"]
fn nothing_of_a_thousand_killed_clients_stays() {
    kill_clients(1000);
}

/// The module writes a pending signature to the buffer of `C_Sign`, which in an agent ends with its
/// request.
#[test]
fn a_signature_is_never_pending() {
    let directory = &Directory::alone();
    let _agent = Agent::try_start(directory, "agent.socket", "lanes = true").expect("an agent");
    let module = make_token(directory, PIN);
    let user = token::log_in(&module);
    let session = module.open_async_session(user.info().expect("a session").slot, Access::ReadWrite);
    let session = session.expect("an asynchronous session");
    let (with, bits) = (Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN), Attribute::number(CKA_MODULUS_BITS, 2048));
    let (public, private) = user.generate_key_pair(&with, &[bits], &[]).expect("a key pair");
    let (with, mut signature) = (Mechanism::new(CKM_SHA256_RSA_PKCS), [0; 256]);
    session.sign_init(&with, private).expect("an operation");
    assert_eq!(session.sign(b"data", &mut signature), Ok(256));
    session.verify_init(&with, public).expect("an operation");
    assert_eq!(session.verify(b"data", &signature), Ok(true));
    module.finalize().expect("a module");
}

/// ML-DSA with Ed25519, with P-256 and with RSA.
#[test]
fn composite_keys_are_generated_imported_and_used() {
    let (_agent, directory) = &mut Agent::within(Directory::alone());
    let session = session(&make_token(directory, PIN));
    session.login(User::User, Some(PIN)).expect("a login");
    let kind = Attribute::number(CKA_KEY_TYPE, CKK_JETON_COMPOSITE_ML_DSA);
    let plain = Mechanism::new(CKM_JETON_COMPOSITE_ML_DSA);
    let in_context = Structure::new().number(CKH_HEDGE_PREFERRED).bytes(b"context");
    let in_context = in_context.mechanism(CKM_JETON_COMPOSITE_ML_DSA);
    let sign = |mechanism: &Mechanism, key| {
        let mut out = vec![0; 8192];
        session.sign_init(mechanism, key).expect("an operation");
        let length = session.sign(b"data", &mut out).expect("a signature");
        out[..length].to_vec()
    };
    let verify = |mechanism: &Mechanism, key, signature: &[u8]| {
        session.verify_init(mechanism, key).expect("an operation");
        session.verify(b"data", signature).expect("a result")
    };
    for set in [39, 40, 42] {
        let set = Attribute::number(CKA_PARAMETER_SET, set);
        let open = [Attribute::flag(CKA_SENSITIVE, false), Attribute::flag(CKA_EXTRACTABLE, true)];
        let generator = Mechanism::new(CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN);
        let made = session.generate_key_pair(&generator, std::slice::from_ref(&set), &open);
        let (public, private) = made.expect("a pair");
        let again = |class, key| {
            let value = Attribute::bytes(CKA_VALUE, session.bytes(key, CKA_VALUE));
            let template = [Attribute::number(CKA_CLASS, class), kind.clone(), set.clone(), value];
            session.create_object(&template).expect("a key")
        };
        let pairs = [(public, private), (again(CKO_PUBLIC_KEY, public), again(CKO_PRIVATE_KEY, private))];
        for (_, signer) in pairs {
            let signature = sign(&plain, signer);
            for (verifier, _) in pairs {
                assert!(verify(&plain, verifier, &signature));
                assert!(!verify(&in_context, verifier, &signature));
                assert!(verify(&in_context, verifier, &sign(&in_context, signer)));
                for at in [0, signature.len() - 1] {
                    let mut changed = signature.clone();
                    changed[at] ^= 1;
                    assert!(!verify(&plain, verifier, &changed), "{at}");
                }
            }
        }
    }
}

fn import(session: &Session, secrets: &Secrets) {
    let key = |class, kind, label: &str, more: &[Attribute]| {
        let both = [
            Attribute::number(CKA_CLASS, class),
            Attribute::number(CKA_KEY_TYPE, kind),
            Attribute::flag(CKA_TOKEN, true),
            Attribute::bytes(CKA_LABEL, label),
        ];
        session.create_object(&[&both[..], more].concat()).expect("a key")
    };
    let flags = |kinds: &[CK_ATTRIBUTE_TYPE]| -> Vec<_> {
        kinds.iter().map(|kind| Attribute::flag(*kind, true)).collect()
    };
    let ec = [Attribute::bytes(CKA_EC_PARAMS, token::CURVE), Attribute::bytes(CKA_VALUE, secrets.ec)];
    key(CKO_PRIVATE_KEY, CKK_EC, "ec", &[&ec[..], &flags(&[CKA_SIGN, CKA_DERIVE])].concat());
    let aes = [Attribute::bytes(CKA_VALUE, secrets.aes)];
    key(CKO_SECRET_KEY, CKK_AES, "aes", &[&aes[..], &flags(&[CKA_ENCRYPT, CKA_DECRYPT])].concat());
    let wrapping = [Attribute::bytes(CKA_VALUE, secrets.wrapping)];
    let wrapping = [&wrapping[..], &flags(&[CKA_WRAP, CKA_UNWRAP])].concat();
    let wrapping = key(CKO_SECRET_KEY, CKK_AES, "wrapping", &wrapping);
    let wrapped = [Attribute::bytes(CKA_VALUE, secrets.wrapped), Attribute::flag(CKA_EXTRACTABLE, true)];
    let wrapped = key(CKO_SECRET_KEY, CKK_AES, "wrapped", &wrapped);
    let mut bytes = [0; 48];
    let with = Mechanism::new(CKM_AES_KEY_WRAP_PAD);
    let len = session.wrap_key(&with, wrapping, wrapped, &mut bytes).expect("a wrapped key");
    session.destroy_object(wrapped).expect("a key");
    let data = [
        Attribute::number(CKA_CLASS, CKO_DATA),
        Attribute::flag(CKA_TOKEN, true),
        Attribute::bytes(CKA_LABEL, "bytes"),
        Attribute::bytes(CKA_VALUE, &bytes[..len]),
    ];
    session.create_object(&data).expect("an object");
}

struct Secrets {
    ec: [u8; 32],
    aes: [u8; 32],
    wrapping: [u8; 32],
    wrapped: [u8; 32],
}

impl Secrets {
    fn new() -> Self {
        let random = || {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).expect("random bytes");
            // Less than the order of P-256.
            bytes[0] = 1;
            bytes
        };
        Self { ec: random(), aes: random(), wrapping: random(), wrapped: random() }
    }
}

/// The client: uses the keys. The test reads its memory then.
fn use_keys(directory: &Path) {
    let mark = MARK.to_vec();
    let module = token::load(&parameters(directory));
    let session = session(&module);
    jeton_child::say(&"started");
    // Without a buffer that would keep the PIN.
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().expect("an input"));
    let mut pin = [0u8; PIN_LENGTH];
    input.read_exact(&mut pin).expect("a PIN");
    session.login(User::User, Some(std::str::from_utf8(&pin).expect("a text"))).expect("a login");
    jeton_agent_wire::channel::wipe(&mut pin);
    let find = |label: &str| session.find(&[Attribute::bytes(CKA_LABEL, label)]).expect("a search")[0];
    let (ec, aes, wrapping) = (find("ec"), find("aes"), find("wrapping"));
    session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), ec).expect("an operation");
    session.sign(b"data", &mut [0; 64]).expect("a signature");
    let cbc = Mechanism::with_bytes(CKM_AES_CBC, &[9; 16]);
    session.encrypt_init(&cbc, aes).expect("an operation");
    let mut sealed = [0; 32];
    session.encrypt(&[3; 32], &mut sealed).expect("bytes");
    session.decrypt_init(&cbc, aes).expect("an operation");
    session.decrypt(&sealed, &mut [0; 32]).expect("bytes");
    let template = [
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, CKK_AES),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_EXTRACTABLE, false),
    ];
    let bytes = session.attribute(find("bytes"), CKA_VALUE).expect("the wrapped key");
    session.unwrap_key(&Mechanism::new(CKM_AES_KEY_WRAP_PAD), wrapping, &bytes, &template).expect("a key");
    jeton_child::say(&"done");
    thread::sleep(LIMIT);
    drop(mark);
}

fn memory(process: u32) -> Vec<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("a process");
    let memory = File::open(format!("/proc/{process}/mem")).expect("the memory of a child");
    let mut all = Vec::new();
    for line in
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw")))
    {
        let range = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let [start, end] = [range.0, range.1].map(|text| u64::from_str_radix(text, 16).expect("an address"));
        let mut bytes = vec![0; (end - start) as usize];
        if memory.read_exact_at(&mut bytes, start).is_ok() {
            all.push(bytes);
        }
    }
    all
}

fn part_of(secret: &[u8], memory: &[Vec<u8>]) -> Option<usize> {
    let part = PART.min(secret.len());
    secret.windows(part).position(|wanted| {
        memory.iter().any(|bytes| {
            let firsts = bytes.iter().enumerate().filter(|(_, byte)| **byte == wanted[0]);
            firsts.map(|(at, _)| at).any(|at| bytes[at..].starts_with(wanted))
        })
    })
}

#[test]
fn no_key_and_no_pin_is_in_the_memory_of_a_client() {
    let (_, directory) = &mut Agent::within(Directory::alone());
    let mut pin = [0; PIN_LENGTH / 2];
    getrandom::fill(&mut pin).expect("random bytes");
    let pin: String = pin.iter().map(|byte| format!("{byte:02x}")).collect();
    let module = make_token(directory, &pin);
    let secrets = Secrets::new();
    {
        let session = session(&module);
        session.login(User::User, Some(&pin)).expect("a login");
        import(&session, &secrets);
    }
    module.finalize().expect("a module");

    let role = Role::Use(directory.to_path_buf());
    let mut child = Child::start(&mut jeton_child::of_test("client", &role)).expect("a client");
    assert_eq!(child.hear::<String>(LIMIT).expect("a client"), "started");
    child.write(&pin);
    assert_eq!(child.hear::<String>(LIMIT).expect("a client"), "done");
    let memory = memory(child.id());
    assert_eq!(part_of(MARK, &memory), Some(0), "the search finds nothing");
    for (name, secret) in [
        ("the EC key", &secrets.ec[..]),
        ("the AES key", &secrets.aes),
        ("the wrapping key", &secrets.wrapping),
        ("the unwrapped key", &secrets.wrapped),
        ("the PIN", pin.as_bytes()),
    ] {
        assert_eq!(part_of(secret, &memory), None, "{name} is in the memory of the client");
    }
}

#[test]
fn a_client_in_another_container_is_served() {
    let directory = &Directory::alone();
    // The agent cannot see the processes outside of its PID namespace.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", PROGRAM]);
    let Some(mut agent) = Agent::try_start_with(command, directory, "agent.socket", "") else {
        return jeton_programs::skip("only root can make namespaces on this system");
    };
    make_token(directory, PIN).finalize().expect("a module");

    // It is the first process of its container, and ends all the same.
    let children = format!("/proc/{0}/task/{0}/children", agent.id());
    let first = fs::read_to_string(children).expect("a process").trim().parse().expect("one child");
    let first = Pid::from_raw(first).expect("a process");
    kill_process(first, Signal::TERM).expect("a process");
    until("the agent ignores SIGTERM", || !agent.runs());
}

/// The agent's user, another user, and their common group. No account is needed.
const OWNER: u32 = 64_001;
const OTHER: u32 = 64_002;
const GROUP: u32 = 64_003;

#[test]
fn another_user_of_the_group_reads_and_signals_nothing() {
    if !rustix::process::geteuid().is_root() {
        return jeton_programs::skip("only root can start processes of other users");
    }
    let directory = &Directory::alone();
    // The other user may pass through the directory, but not through those above the program's.
    fs::set_permissions(&**directory, fs::Permissions::from_mode(0o755)).expect("a directory");
    let program = directory.join("jeton-agent");
    fs::copy(env!("CARGO_BIN_EXE_jeton-agent"), &program).expect("the agent");
    let tokens = directory.join("tokens");
    for name in ["tokens", "state"] {
        fs::create_dir(directory.join(name)).expect("a directory");
        chown(directory.join(name), Some(OWNER), Some(GROUP)).expect("a directory");
    }
    // systemd makes both with this mode (StateDirectoryMode=, RuntimeDirectoryMode=).
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o700)).expect("a directory");
    let configuration = directory.join("jeton.toml");
    let text = format!("token-dir = '{}'\npin = {{ memory-kib = 8, passes = 1 }}\n", tokens.display());
    fs::write(&configuration, text).expect("a file");
    let socket = directory.join("state/agent.socket");
    let mut command = Command::new(&program);
    command.arg("--socket").arg(&socket).arg("--state").arg(directory.join("state"));
    command.env("JETON_CONF", configuration).env_remove("JETON_DIR").uid(OWNER).gid(GROUP);
    let mut agent = command.spawn().expect("the agent");
    jeton_child::until(LIMIT, "the agent does not answer", || UnixStream::connect(&socket).is_ok());
    let module = token::load(&parameters_of(std::slice::from_ref(&socket)));
    let slot = module.slots(true).expect("slots")[0];
    initialise(&module, slot, "t", SO_PIN, PIN).expect("a token");
    module.finalize().expect("a module");
    let has_files = fs::read_dir(&tokens).expect("a directory").count() != 0;
    assert!(has_files, "no token of the agent");

    let process = agent.id();
    let script = format!(
        "for what in 'ls {tokens}' 'cat {tokens}/*' 'touch {tokens}/x' 'cat {state}/ticket.key' \\
             'touch {state}/x' 'rm {socket}' 'kill -0 {process}' 'ls /proc/{process}/fd' \\
             'cat /proc/{process}/environ' 'cat /proc/{process}/maps' 'head -c 1 /proc/{process}/mem'; do\n\
             if sh -c \"$what\"; then echo \"could: $what\"; fi\n\
         done\n",
        tokens = tokens.display(),
        state = directory.join("state").display(),
        socket = socket.display(),
    );
    let as_other = |user, script: &str| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).uid(user).gid(GROUP).stderr(Stdio::null());
        let output = command.output().expect("a shell");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let could = as_other(OTHER, &script);
    // The check can fail: the agent's user can do the first of these.
    let owner = as_other(OWNER, &script);
    agent.kill().and_then(|()| agent.wait()).expect("the agent");
    assert_eq!(could, "");
    assert!(owner.contains("could: ls ") && owner.contains("could: kill -0 "), "{owner}");
}
