//! Answers that are lost while the agent goes on, and calls of many threads while it is stopped.

mod common;

use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::sync::Barrier;

use common::*;

/// A call to a stopped agent fails within this time.
const STOPPED: Duration = Duration::from_secs(15);
/// The threads that call a stopped agent.
const THREADS: usize = 12;

/// A proxy on Unix sockets. It runs until the process ends.
#[derive(Clone, Default)]
struct Proxy {
    loses: Arc<AtomicBool>,
    delays: Arc<AtomicBool>,
    is_late: Arc<AtomicBool>,
    /// The connections of delayed requests that the agent has ended.
    ended: Arc<AtomicUsize>,
    is_frozen: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy in front of an agent. Returns it with the library parameters that name it.
    fn start(directory: &Path, agent: &Path) -> (Self, String) {
        let socket = directory.join("proxy.socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (proxy, agent) = (Self::default(), agent.to_owned());
        let own = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, agent, own) = (client.expect("a connection"), agent.clone(), own.clone());
                thread::spawn(move || own.connect(&client, &agent));
            }
        });
        (proxy, parameters_of(&[socket]))
    }

    /// Ends the next connection that gets an answer, without the answer.
    fn lose_next_answer(&self) {
        self.loses.store(true, Ordering::Release);
    }

    /// Ends the next connection that has a request for the client only. The agent gets the request
    /// later.
    fn delay_next_request(&self) {
        self.is_late.store(true, Ordering::Release);
        self.delays.store(true, Ordering::Release);
    }

    /// Sends the delayed request, and waits until the agent has carried it out.
    fn send_late_request(&self) {
        let before = self.ended.load(Ordering::Acquire);
        self.is_late.store(false, Ordering::Release);
        until("the late request does not end", || self.ended.load(Ordering::Acquire) > before);
    }

    fn freeze(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Ordering::Release);
    }

    fn connect(&self, client: &UnixStream, agent: &Path) {
        // Without an agent, the client sees that its connection is closed.
        let Ok(agent) = UnixStream::connect(agent) else { return };
        let was_late = AtomicBool::new(false);
        let delays = || {
            if self.delays.swap(false, Ordering::AcqRel) {
                was_late.store(true, Ordering::Release);
                client.shutdown(Shutdown::Both).expect("a socket");
                while self.is_late.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            false
        };
        thread::scope(|scope| {
            scope.spawn(|| self.forward(client, &agent, delays));
            self.forward(&agent, client, || self.loses.swap(false, Ordering::AcqRel));
        });
        self.ended.fetch_add(was_late.into_inner().into(), Ordering::AcqRel);
    }

    /// Forwards until `from` ends. What arrives for a socket that has ended is lost.
    fn forward(&self, mut from: &UnixStream, mut to: &UnixStream, loses: impl Fn() -> bool) {
        let mut buffer = [0; 1 << 14];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            while self.is_frozen.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(5));
            }
            if loses() {
                // The other side may have closed them.
                for socket in [from, to] {
                    let _ = socket.shutdown(Shutdown::Both);
                }
            }
            let _ = to.write_all(&buffer[..len]);
        }
        let _ = to.shutdown(Shutdown::Write);
    }
}

/// Keeps a connection of the application in use until it ends, so that the agent keeps the
/// application when it loses another connection.
fn hold(module: &Module, agent: &Agent) {
    let calls = || status(agent.socket()).expect("an agent").clients.iter().map(|client| client.calls).sum();
    let before: u64 = calls();
    let wait = module.functions().C_WaitForSlotEvent.expect("a function");
    // SAFETY: a place for a slot.
    thread::spawn(move || unsafe { wait(0, &mut 0, std::ptr::null_mut()) });
    until("no thread waits", || calls() > before);
}

fn key(session: &Session) -> Result<Option<ObjectHandle>, CK_RV> {
    let found = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]);
    found.map(|all| all.first().copied()).map_err(|failure| failure.code)
}

/// An agent with a token, behind a proxy, and a client that has logged in.
fn start(directory: &Path) -> (Agent, Proxy, Module, Session) {
    let agent = Agent::start(directory);
    let (proxy, parameters) = Proxy::start(directory, agent.socket());
    token::make(&parameters);
    let module = token::load(&parameters);
    let session = token::log_in(&module);
    hold(&module, &agent);
    // This opens a connection for other calls.
    module.slots(true).expect("slots");
    (agent, proxy, module, session)
}

#[test]
fn an_operation_that_lacks_a_part_does_not_go_on() {
    let directory = &Directory::alone();
    let (_agent, proxy, module, session) = start(directory);
    let key = key(&session).expect("a search").expect("a key");
    session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key).expect("an operation");
    session.sign_update(b"one").expect("an operation");
    proxy.lose_next_answer();
    let code = |part: &[u8]| session.sign_update(part).map_err(|failure| failure.code);
    assert_eq!(code(b"two"), Err(CKR_DEVICE_ERROR));
    assert_eq!(code(b"three"), Err(CKR_OPERATION_NOT_INITIALIZED));
    // A search lacks the objects of the lost answer.
    session.find_init(&[]).expect("an operation");
    proxy.lose_next_answer();
    let code = || session.find_next(1).map_err(|failure| failure.code);
    assert_eq!(code(), Err(CKR_DEVICE_ERROR));
    assert_eq!(code(), Err(CKR_OPERATION_NOT_INITIALIZED));
    session.sign_init(&Mechanism::new(CKM_ECDSA_SHA256), key).expect("an operation");
    assert_eq!(session.sign(b"one", &mut [0; 64]).map_err(|failure| failure.code), Ok(64));
    module.finalize().expect("a module");
}

#[test]
fn a_late_request_does_not_meet_the_next_operation() {
    let directory = &Directory::alone();
    let (_agent, proxy, module, session) = start(directory);
    let key = key(&session).expect("a search").expect("a key");
    let public = session.find(&[Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY)]).expect("a search")[0];
    let ecdsa = Mechanism::new(CKM_ECDSA_SHA256);
    // A part of a message.
    session.sign_init(&ecdsa, key).expect("an operation");
    session.sign_update(b"one").expect("an operation");
    proxy.delay_next_request();
    assert_eq!(session.sign_update(b"two").map_err(|failure| failure.code), Err(CKR_DEVICE_ERROR));
    session.sign_init(&ecdsa, key).expect("an operation");
    session.sign_update(b"three").expect("an operation");
    proxy.send_late_request();
    let mut signature = [0; 64];
    session.sign_final(&mut signature).expect("a signature");
    session.verify_init(&ecdsa, public).expect("an operation");
    assert_eq!(session.verify(b"three", &signature).map_err(|failure| failure.code), Ok(true));
    // A search.
    session.find_init(&[]).expect("an operation");
    proxy.delay_next_request();
    assert_eq!(session.find_next(1).map_err(|failure| failure.code), Err(CKR_DEVICE_ERROR));
    session.find_init(&[]).expect("an operation");
    proxy.send_late_request();
    assert_eq!(session.find_next(3).expect("a search").len(), 2);
    session.find_final().expect("a search");
    // The start of an operation, which the module sends again.
    proxy.delay_next_request();
    session.verify_init(&Mechanism::new(CKM_ECDSA_SHA384), public).expect("an operation");
    assert_eq!(session.verify(b"three", &signature).map_err(|failure| failure.code), Ok(false));
    proxy.send_late_request();
    let code = session.verify(b"three", &signature).map_err(|failure| failure.code);
    assert_eq!(code, Err(CKR_OPERATION_NOT_INITIALIZED));
    // A change of an object, which may not come after the next one.
    let label = |text: &str| session.set_attributes(key, &[Attribute::bytes(CKA_LABEL, text)]);
    proxy.delay_next_request();
    assert_eq!(label("one").map_err(|failure| failure.code), Err(CKR_DEVICE_ERROR));
    label("two").expect("an object");
    proxy.send_late_request();
    assert_eq!(session.bytes(key, CKA_LABEL), b"two");
    module.finalize().expect("a module");
}

#[test]
fn a_session_whose_answer_is_lost_is_open_once() {
    let directory = &Directory::alone();
    let (agent, proxy, module, session) = start(directory);
    let slot = module.slots(true).expect("slots")[0];
    let open = || module.open_session(slot, Access::ReadOnly).expect("a session");
    let at_agent = || status(agent.socket()).expect("an agent").sessions;
    // A worker that is busy may report late.
    let are_open = |number: u64| until("another number of sessions", || at_agent() == number);
    are_open(1);
    proxy.lose_next_answer();
    let second = open();
    // Otherwise the session of the lost answer is open.
    are_open(2);
    // The agent gets the request after another attempt.
    proxy.delay_next_request();
    let third = open();
    proxy.send_late_request();
    // Otherwise the late request has opened a session.
    are_open(3);
    for session in [&session, &second, &third] {
        assert!(key(session).is_ok_and(|key| key.is_some()));
    }
    // What was closed meanwhile is not closed again.
    second.close().expect("a session");
    third.close().expect("a session");
    proxy.lose_next_answer();
    let fourth = open();
    assert!(key(&fourth).is_ok_and(|key| key.is_some()));
    are_open(2);
    module.finalize().expect("a module");
}

#[test]
fn a_logout_whose_answer_is_lost_is_none_that_comes_back() {
    let directory = &Directory::alone();
    let (mut agent, proxy, module, session) = start(directory);
    proxy.lose_next_answer();
    assert_eq!(session.logout().map_err(|failure| failure.code), Err(CKR_DEVICE_ERROR));
    assert_eq!(key(&session), Ok(None));
    agent.replace();
    assert_eq!(key(&session), Ok(None), "the ticket logs in again");
    module.finalize().expect("a module");
}

#[test]
fn a_logout_during_a_failure_of_the_network_is_one() {
    let directory = &Directory::alone();
    let (agent, proxy, module, session) = start(directory);
    // No connection waits for the next call, and another thread makes one.
    let slots = || module.slots(true).is_ok();
    thread::scope(|scope| {
        proxy.freeze(true);
        let calls = [(); 2].map(|()| scope.spawn(slots));
        thread::sleep(Duration::from_millis(200));
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            proxy.freeze(false);
        });
        session.logout().expect("a logout");
        assert!(calls.into_iter().all(|call| call.join().expect("a thread")));
    });
    assert_eq!(key(&session), Ok(None));
    drop(session);
    module.finalize().expect("a module");
    // The attempt to connect fails.
    let parameters = parameters_of(&[directory.join("proxy.socket")]);
    module.initialize(Some(&parameters)).expect("an agent");
    let session = token::log_in(&module);
    hold(&module, &agent);
    let sessions = || status(agent.socket()).expect("an agent").sessions;
    until("another number of sessions", || sessions() == 1);
    proxy.lose_next_answer();
    session.logout().expect("a logout");
    assert_eq!(key(&session), Ok(None));
    module.finalize().expect("a module");
}

#[test]
fn the_calls_of_many_threads_do_not_wait_for_a_stopped_agent_one_after_the_other() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    token::make(&parameters(directory));
    let module = token::load(&parameters(directory));
    let slot = module.slots(true).expect("slots")[0];
    let together = Barrier::new(THREADS + 1);
    let open = || module.open_session(slot, Access::ReadOnly).map_err(|failure| failure.code);
    let call = || {
        let session = open().expect("a session");
        // Each thread has a connection.
        together.wait();
        (0..50).for_each(|_| session.random(&mut [0; 20_000]).expect("random bytes"));
        for _ in 0..2 {
            together.wait();
        }
        let start = Instant::now();
        (open().map(drop), start.elapsed())
    };
    let outcomes = thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| scope.spawn(call));
        for _ in 0..2 {
            together.wait();
        }
        agent.stop();
        together.wait();
        threads.map(|thread| thread.join().expect("a thread"))
    });
    agent.signal_all(Signal::CONT);
    for (outcome, time) in outcomes {
        assert!(outcome == Err(CKR_DEVICE_ERROR) && time < STOPPED, "{outcome:?} after {time:?}");
    }
    let _ = module.finalize();
}
