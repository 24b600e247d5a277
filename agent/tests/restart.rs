//! The agent is killed again and again while eight client processes use it. None of them needs a
//! new process, and everything that was acknowledged is there.

mod common;
// The server of the tests.
#[path = "../../tests/token/server.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod server;

use common::peer::Who;
use common::*;
use jeton_client::SlotId;
use jeton_words::error::Error;

const CLIENTS: usize = 8;
/// A client stores an object after this number of signatures.
const SIGNATURES: usize = 8;
const LIMIT: Duration = Duration::from_secs(30);

/// The work of a client process: the library parameters, and its number.
#[derive(Serialize, Deserialize)]
struct Role(String, usize);

/// What a client says.
#[derive(Serialize, Deserialize)]
enum Said {
    /// An object with this label was acknowledged, after [`SIGNATURES`] signatures.
    Stored(String),
    Failed,
    /// It ended. Whether the session that did nothing is still logged in.
    Ended(bool),
}

/// Not a test by itself: the client processes.
#[test]
fn client() {
    if let Some(Role(parameters, number)) = jeton_child::role::<Role>().transpose().expect("a role") {
        work(&parameters, number);
    }
}

fn work(parameters: &str, number: usize) {
    let module = token::load(parameters);
    let slot = module.slots(true).expect("slots")[0];
    let quiet = module.open_session(slot, Access::ReadOnly).expect("a session");
    quiet.login(User::User, Some(PIN)).expect("a login");
    let key = quiet.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    let mut worker = Worker { module: &module, slot, session, key };
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    thread::spawn(move || {
        // The parent closes the input.
        let _ = jeton_child::heard::<bool>();
        stops.store(true, Ordering::Relaxed);
    });
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let label = format!("{number}-{count}");
        match worker.sign().and_then(|()| worker.store(&label)) {
            Ok(()) => jeton_child::say(&Said::Stored(label)),
            Err(failure) => {
                jeton_child::say(&Said::Failed);
                worker.recover(&failure);
            }
        }
    }
    let private = quiet.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search");
    jeton_child::say(&Said::Ended(private == [key]));
    process::exit(0);
}

struct Worker<'a> {
    module: &'a Module,
    slot: SlotId,
    session: Session,
    key: ObjectHandle,
}

impl Worker<'_> {
    /// Goes on after a failure that an agent's end may cause once.
    fn recover(&mut self, failure: &Failure) {
        match failure.code {
            CKR_SESSION_HANDLE_INVALID | CKR_DEVICE_ERROR | CKR_OPERATION_ACTIVE => {
                self.session = self.module.open_session(self.slot, Access::ReadWrite).expect("a session");
            }
            _ => panic!("{failure}"),
        }
    }

    fn sign(&self) -> Result<(), Failure> {
        for _ in 0..SIGNATURES {
            self.session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), self.key)?;
            assert_eq!(self.session.sign(b"data", &mut [0; 64])?, 64);
        }
        Ok(())
    }

    fn store(&self, label: &str) -> Result<(), Failure> {
        let template = [
            Attribute::number(CKA_CLASS, CKO_DATA),
            Attribute::flag(CKA_TOKEN, true),
            Attribute::bytes(CKA_LABEL, label),
        ];
        self.session.create_object(&template).map(drop)
    }
}

/// Kills the agents in turn. The agents have the same tokens.
fn rounds(rounds: usize, directory: &Path, agents: &mut [Agent]) {
    let _alone = module();
    let sockets: Vec<PathBuf> = agents.iter().map(|agent| agent.socket().to_owned()).collect();
    let parameters = parameters_of(&sockets);
    token::make(&parameters);
    let start = |number| {
        let mut command = jeton_child::of_test("client", &Role(parameters.clone(), number));
        Child::start(command.current_dir(directory)).expect("a client")
    };
    let mut clients: Vec<_> = (0..CLIENTS).map(start).collect();
    let (mut acknowledged, mut failed) = (Vec::new(), 0);
    // `C_Initialize` does not wait for an agent. So all clients are initialised first.
    for (number, client) in clients.iter_mut().enumerate() {
        match client.hear(LIMIT) {
            Ok(Said::Stored(label)) => acknowledged.push(label),
            _ => panic!("client {number} does not start"),
        }
    }
    let mut take = |clients: &mut Vec<Child>, acknowledged: &mut Vec<String>| {
        for said in clients.iter_mut().flat_map(Child::waiting::<Said>) {
            match said {
                Said::Stored(label) => acknowledged.push(label),
                Said::Failed => failed += 1,
                Said::Ended(_) => panic!("a client ended"),
            }
        }
    };
    for round in 0..rounds {
        let before = acknowledged.len();
        thread::sleep(Duration::from_millis(20 + (round as u64 * 37) % 60));
        jeton_child::until(LIMIT, &format!("no call was acknowledged in round {round}"), || {
            take(&mut clients, &mut acknowledged);
            acknowledged.len() > before
        });
        let at = round % agents.len();
        agents[at].replace();
    }
    // Each client goes on, and its quiet session is still logged in.
    for (number, client) in clients.iter_mut().enumerate() {
        drop(client.input());
        loop {
            match client.hear(LIMIT) {
                Ok(Said::Stored(label)) => acknowledged.push(label),
                Ok(Said::Failed) => failed += 1,
                Ok(Said::Ended(is_logged_in)) => break assert!(is_logged_in, "client {number}"),
                Err(silence) => panic!("client {number}: {silence:?}"),
            }
        }
    }
    println!("{rounds} kills: {} acknowledged objects, {failed} failures", acknowledged.len());
    let module = token::load(&parameters);
    let session = token::log_in(&module);
    for label in &acknowledged {
        let found = session.find(&[Attribute::bytes(CKA_LABEL, label.as_str())]).expect("a search");
        assert_eq!(found.len(), 1, "{label}");
    }
    // Each client has at most one call in flight when an agent ends.
    assert!(failed <= CLIENTS * rounds && !acknowledged.is_empty());
    module.finalize().expect("the module");
}

fn on_files(count: usize) {
    let directory = &Directory::new();
    rounds(count, directory, &mut [Agent::start(directory)]);
}

fn on_a_database(count: usize) {
    let Some(server) = server::Server::shared() else {
        return jeton_programs::skip_without("PostgreSQL", &["postgresql"]);
    };
    let directory = &Directory::new();
    let store = format!("[store]\nurl = '{}'\nschema = 'agents_{count}'\n", server.url());
    let start = |name| Agent::try_start(directory, name, &store);
    let (Some(one), Some(other)) = (start("one.socket"), start("other.socket")) else {
        return jeton_programs::skip("an agent without the feature `postgresql`");
    };
    rounds(count, directory, &mut [one, other]);
}

#[test]
fn clients_go_on_after_the_agent_was_killed() {
    on_files(10);
}

#[test]
fn clients_go_on_at_the_other_agent() {
    on_a_database(6);
}

#[test]
#[ignore = "in .ci/full"]
fn clients_go_on_after_a_thousand_kills() {
    on_files(1000);
}

#[test]
#[ignore = "in .ci/full"]
fn clients_go_on_after_two_hundred_kills_of_two_agents() {
    on_a_database(200);
}

/// If each ticket cost a run of Argon2id, the last applications would wait longer than a peer does.
#[test]
fn many_applications_go_on_at_once() {
    const CROWD: usize = 150;
    let directory = &Directory::new();
    let mut agent = Agent::try_start(directory, "agent.socket", SLOW_PINS).expect("an agent");
    let slot = make_token(directory);
    let tickets = at_once(directory, slot, CROWD, |_, peer, session| {
        peer.login(session, Who::User, PIN).kept().expect("a ticket")
    });
    agent.replace();
    let codes = at_once(directory, slot, CROWD, |number, peer, session| {
        peer.resume(session, &tickets[number]).map(|()| peer.login(session, Who::User, "").result())
    });
    assert_eq!(codes, [Ok(Err(Error::UserAlreadyLoggedIn)); CROWD]);
}

#[test]
fn the_handle_of_a_lost_object_names_no_other_one() {
    let directory = &Directory::alone();
    let (mut agent, module, slot) = prepared(directory);
    let open = || module.open_session(slot, Access::ReadWrite).expect("a session");
    let (owner, other, quiet) = (open(), open(), open());
    let data = [Attribute::number(CKA_CLASS, CKO_DATA), Attribute::bytes(CKA_LABEL, "data")];
    let class = [Attribute::number(CKA_CLASS, CKO_DATA)];
    let object = owner.create_object(&data).expect("an object");
    assert_eq!(other.find(&class).expect("a search"), [object]);
    agent.replace();
    // Sessions that were used since then are invalid, and the others go on.
    let code = |session: &Session| session.find(&class).map_err(|failure| failure.code);
    assert_eq!(code(&owner), Err(CKR_SESSION_HANDLE_INVALID));
    assert_eq!(code(&other), Err(CKR_SESSION_HANDLE_INVALID));
    assert_eq!(code(&quiet), Ok(Vec::new()));
    let label = || quiet.attribute(object, CKA_LABEL).map_err(|failure| failure.code);
    assert_eq!(label(), Err(CKR_OBJECT_HANDLE_INVALID));
    assert_ne!(open().create_object(&data).expect("an object"), object);
    assert_eq!(label(), Err(CKR_OBJECT_HANDLE_INVALID));
    module.finalize().expect("a module");
}

/// What OpenSSL's pkcs11-provider does: it copies the key to a session object in one session, keeps
/// the handle, and signs in another session.
#[test]
fn a_copy_of_a_key_keeps_its_handle() {
    let directory = &Directory::alone();
    let (mut agent, module, slot) = prepared(directory);
    let owner = module.open_session(slot, Access::ReadOnly).expect("a session");
    owner.login(User::User, Some(PIN)).expect("a login");
    let key = owner.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    let session_object = Attribute::flag(CKA_TOKEN, false);
    // The handles before it belong to objects that are gone.
    let copy = || owner.copy_object(key, std::slice::from_ref(&session_object)).expect("a copy");
    let (gone, copy) = (copy(), copy());
    owner.destroy_object(gone).expect("an object");
    let user = module.open_session(slot, Access::ReadOnly).expect("a session");
    let sign = |session: &Session| {
        let mechanism = Mechanism::new(CKM_ECDSA_SHA256);
        session.sign_init(&mechanism, copy).and_then(|()| session.sign(b"data", &mut [0; 64]))
    };
    assert_eq!(sign(&user).map_err(|failure| failure.code), Ok(64));
    for _ in 0..5 {
        agent.replace();
        assert_eq!(sign(&user).map_err(|failure| failure.code), Ok(64));
        assert_eq!(sign(&owner).map_err(|failure| failure.code), Ok(64));
    }
    // The application may use the copy in a new session only.
    agent.replace();
    let new = module.open_session(slot, Access::ReadOnly).expect("a session");
    assert_eq!(sign(&new).map_err(|failure| failure.code), Ok(64));
    // An operation that was active is lost once, and the session and the copy go on.
    user.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), copy).expect("an operation");
    user.sign_update(b"part").expect("an operation");
    agent.replace();
    assert_eq!(user.sign_update(b"part").map_err(|failure| failure.code), Err(CKR_DEVICE_ERROR));
    assert_eq!(sign(&user).map_err(|failure| failure.code), Ok(64));
    // So is one whose call was under way.
    user.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), copy).expect("an operation");
    user.sign_update(b"part").expect("an operation");
    let lost = during_replacement(&mut agent, || user.sign_update(b"part").map_err(|failure| failure.code));
    assert_eq!(lost, Err(CKR_DEVICE_ERROR));
    assert_eq!(sign(&user).map_err(|failure| failure.code), Ok(64));
    // A new object has another handle, and what was destroyed stays away.
    let new = owner.copy_object(key, std::slice::from_ref(&session_object)).expect("a copy");
    assert_ne!(new, copy);
    owner.destroy_object(copy).expect("an object");
    agent.replace();
    assert_eq!(sign(&user).map_err(|failure| failure.code), Err(CKR_KEY_HANDLE_INVALID));
    // A changed copy is not made again.
    let label = Attribute::bytes(CKA_LABEL, "other");
    owner.set_attributes(new, &[label]).expect("an object");
    agent.replace();
    assert_eq!(sign(&owner).map_err(|failure| failure.code), Err(CKR_SESSION_HANDLE_INVALID));
    module.finalize().expect("a module");
}

/// Starts an agent with a token that has a key. Returns it with the client module and the slot.
fn prepared(directory: &Path) -> (Agent, Module, SlotId) {
    let agent = Agent::start(directory);
    token::make(&parameters(directory));
    let module = token::load(&parameters(directory));
    let slot = module.slots(true).expect("slots")[0];
    (agent, module, slot)
}

/// Makes a call that is under way while the agent is killed and started again.
fn during_replacement<T>(agent: &mut Agent, call: impl FnOnce() -> T) -> T {
    agent.stop();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            agent.replace();
        });
        call()
    })
}

/// A program that forks, as nginx does at each reload, logs in again. libp11 never tries a second
/// time.
#[test]
fn a_login_and_a_logout_are_sent_to_the_next_agent() {
    let directory = &Directory::alone();
    let (mut agent, module, slot) = prepared(directory);
    let session = module.open_session(slot, Access::ReadOnly).expect("a session");
    let private = || session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search").len();
    during_replacement(&mut agent, || session.login(User::User, Some(PIN))).expect("a login");
    assert_eq!(private(), 1);
    agent.replace();
    assert_eq!(private(), 1);
    during_replacement(&mut agent, || session.logout()).expect("a logout");
    assert_eq!(private(), 0);
    module.finalize().expect("a module");
}

/// What pkcs11-provider does in a worker of nginx or Apache, and programs that start again after an
/// error.
#[test]
fn another_c_initialize_waits_for_the_agent() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let module = token::load(&parameters(directory));
    module.finalize().expect("a module");
    agent.kill();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            agent.replace();
        });
        module.initialize(Some(&parameters(directory))).expect("an agent");
    });
    module.finalize().expect("a module");
}

#[test]
fn threads_that_initialize_without_an_agent_wait_at_the_same_time() {
    const THREADS: u32 = 10;
    const PATIENCE: Duration = Duration::from_secs(2);
    let (agent, _directory) = &mut Agent::within(Directory::alone());
    let (address, seconds) = (agent.socket().display(), PATIENCE.as_secs());
    let parameters = format!("agent = {{ address = 'unix:{address}', timeout-seconds = {seconds} }}");
    let module = token::load(&parameters);
    module.finalize().expect("a module");
    agent.kill();
    let start = Instant::now();
    let initialize = || module.initialize(Some(&parameters)).expect_err("no agent").code;
    thread::scope(|scope| {
        let threads = [(); THREADS as usize].map(|()| scope.spawn(initialize));
        assert_eq!(
            threads.map(|thread| thread.join().expect("a thread")),
            [CKR_GENERAL_ERROR; THREADS as usize]
        );
    });
    assert!(start.elapsed() < PATIENCE * THREADS / 2, "one after the other: {:?}", start.elapsed());
}

#[test]
fn an_error_of_the_device_ends_the_operations_of_a_session() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    token::make(&parameters(directory));
    let address = agent.socket().display();
    let module = token::load(&format!("agent = {{ address = 'unix:{address}', timeout-seconds = 1 }}"));
    let session = token::log_in(&module);
    let key = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search")[0];
    let start = || session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key).map_err(|failure| failure.code);
    assert_eq!(start(), Ok(()));
    session.sign_update(b"part").expect("an operation");
    agent.kill();
    assert_eq!(session.sign_update(b"part").map_err(|failure| failure.code), Err(CKR_DEVICE_ERROR));
    agent.replace();
    // Calls fail without an attempt to connect for a short time.
    until("the agent does not answer", || start() == Ok(()));
    module.finalize().expect("a module");
}
