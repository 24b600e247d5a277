//! How long calls take, and how often a PIN is sent, if an agent is hostile.

mod fake;

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fake::*;
use jeton_agent_wire::call::{Found, MAX_HANDLES};
use jeton_agent_wire::channel::Channel;
use jeton_agent_wire::status::{administrator, status};
use jeton_agent_wire::{Call, Outcome};
use jeton_client::Remote;
use jeton_words::asynchronous::{AsyncFunction, Started};
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::id::{MechanismType, ObjectHandle, SessionHandle, SlotId};
use jeton_words::mechanism::{Mechanism, find};
use jeton_words::operation::Output;
use jeton_words::params::Params;
use jeton_words::session::{Access, User};
use jeton_words::slot::Wait;
use jeton_words::template::Template;
use jeton_words::token::Token;

/// How long a call waits, in seconds.
const PATIENCE: u64 = 1;
/// A call returns within this time: the host may take longer.
const LIMIT: Duration = Duration::from_secs(PATIENCE + 7);
const THREADS: usize = 10;
/// How often a call with a PIN may be sent.
const PINS: usize = 3;
/// The most requests of one call: the pauses between them grow.
const REQUESTS: usize = 8;

type Function = fn(&Remote, SessionHandle) -> Result<()>;
/// What it is, and what it does.
type Enemy = (&'static str, fn() -> Act);

fn mechanism(id: MechanismType) -> Mechanism {
    Mechanism { info: find(id).expect("a mechanism"), params: Params::None }
}

fn sign_init(remote: &Remote, session: SessionHandle) -> Result<()> {
    remote.sign_init(session, &mechanism(MechanismType::ECDSA), ObjectHandle(1))
}

fn generate_key(remote: &Remote, session: SessionHandle) -> Result<Started<ObjectHandle>> {
    remote.generate_key(session, &mechanism(MechanismType::AES_KEY_GEN), &Template::default())
}

const WITH_PIN: [Function; 5] = [
    |remote, session| remote.login(session, User::User, b"1234"),
    |remote, session| remote.login_user(session, User::User, b"1234", b"name"),
    |remote, session| remote.set_pin(session, b"1234", b"5678"),
    |remote, session| remote.init_pin(session, b"1234"),
    |remote, _| remote.init_token(SlotId(1), b"1234", &[b' '; 32]),
];

const OTHERS: [Function; 10] = [
    |remote, _| remote.slots().map(drop),
    |remote, _| remote.wait_for_slot_event(Wait::Never).map(drop),
    |remote, _| remote.open_session(SlotId(1), Access::ReadOnly, false).map(drop),
    |remote, _| remote.open_session(SlotId(1), Access::ReadWrite, false).map(drop),
    |remote, session| remote.close_session(session),
    |remote, _| remote.close_all_sessions(SlotId(2)),
    |remote, session| remote.logout(session),
    |remote, session| remote.sign(session, b"data", Output::Buffer(&mut [0; 4])).map(drop),
    |remote, session| remote.destroy_object(session, ObjectHandle(1)),
    sign_init,
];

/// Calls the functions at the same time, each in its session. All end in time.
fn call_in_time(remote: &Remote, calls: &[(Function, SessionHandle)], what: &str) {
    let together = Barrier::new(calls.len());
    thread::scope(|scope| {
        for (number, (function, session)) in calls.iter().enumerate() {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                let start = Instant::now();
                let outcome = function(remote, *session);
                let time = start.elapsed();
                assert!(time < LIMIT, "{what}: call {number} is {outcome:?} after {time:?}");
            });
        }
    });
}

#[test]
fn a_pin_is_sent_a_few_times_only() {
    for function in WITH_PIN {
        let pins: &AtomicUsize = Box::leak(Box::default());
        let behaviour = Behaviour {
            calls: Box::new(|call, _, _| {
                if !call.function().has_pin() {
                    return honest(call);
                }
                pins.fetch_add(1, SeqCst);
                Act::Close
            }),
            joins: Box::new(|| Joining::Forgotten),
            ..Behaviour::default()
        };
        let fake = Fake::behaving(behaviour, 10);
        let session = fake.open();
        assert_eq!(function(&fake.remote, session), Err(Error::DeviceError));
        let sent = pins.load(SeqCst);
        assert!((1..=PINS).contains(&sent), "{sent} PINs");
    }
}

/// Returns an agent that behaves as `act` says from the time when the flag is set.
fn turncoat(act: impl Fn() -> Act + Copy + Send + Sync + 'static) -> (Fake, &'static AtomicBool) {
    let is_hostile: &AtomicBool = Box::leak(Box::default());
    let behaviour = Behaviour {
        calls: Box::new(move |call, _, _| if is_hostile.load(SeqCst) { act() } else { honest(call) }),
        resumes: Box::new(act),
        ..Behaviour::default()
    };
    (Fake::behaving(behaviour, PATIENCE), is_hostile)
}

#[test]
fn every_call_ends_in_time() {
    let enemies: [Enemy; 6] = [
        ("an agent that stops", || Act::Stop),
        ("an agent that sends byte after byte", || Act::Drip),
        ("an agent that sends a long message", || Act::Pour),
        ("an agent that answers nonsense", || Act::Garbage),
        ("an agent that closes the connection", || Act::Close),
        ("an agent that closes it late", || Act::After(Duration::from_millis(700), Box::new(Act::Close))),
    ];
    // `C_InitToken` may take longer.
    let with_pin = WITH_PIN[..4].repeat(2);
    // Threads wait for each other: those that open or close sessions, and those in one session.
    let groups = [(&OTHERS[..], true), (&with_pin, true), (&[sign_init as Function; THREADS], false)];
    thread::scope(|scope| {
        for (what, act) in enemies {
            for (functions, has_sessions) in groups {
                scope.spawn(move || {
                    let (fake, is_hostile) = turncoat(act);
                    let first = fake.open();
                    let session = |_: &Function| if has_sessions { fake.open() } else { first };
                    let calls: Vec<_> =
                        functions.iter().map(|function| (*function, session(function))).collect();
                    fake.got();
                    is_hostile.store(true, SeqCst);
                    call_in_time(&fake.remote, &calls, what);
                    let requests = fake.got().iter().filter(|got| matches!(got, Got::Calls(..))).count();
                    assert!(requests <= REQUESTS * calls.len(), "{what}: {requests} requests");
                    let start = Instant::now();
                    assert_eq!(fake.remote.stop(), Ok(()));
                    assert!(start.elapsed() < LIMIT, "{what}: C_Finalize after {:?}", start.elapsed());
                });
            }
        }
    });
}

#[test]
fn what_is_made_again_is_made_in_time() {
    static IS_FORGETFUL: AtomicBool = AtomicBool::new(false);
    static IS_SLOW: AtomicBool = AtomicBool::new(false);
    const SLOW: Duration = Duration::from_millis(300);
    let behaviour = || Behaviour {
        calls: Box::new(|call, generation, object| {
            let honest = (Behaviour::default().calls)(call, generation, object);
            match IS_SLOW.load(SeqCst) {
                // The agent ends.
                _ if IS_FORGETFUL.swap(false, SeqCst) => Act::Close,
                true => Act::After(SLOW, Box::new(honest)),
                false => honest,
            }
        }),
        joins: Box::new(|| if IS_SLOW.load(SeqCst) { Joining::Forgotten } else { Joining::Admitted }),
        resumes: Box::new(|| Act::Drip),
    };
    for has_login in [false, true] {
        let fake = Fake::behaving(behaviour(), PATIENCE);
        let sessions = [(); THREADS].map(|()| fake.open());
        if has_login {
            fake.remote.login(sessions[0], User::User, b"1234").expect("a login");
        }
        for session in sessions {
            for _ in 0..THREADS {
                let of_token = ObjectHandle(1 << 60);
                fake.remote.copy_object(session, of_token, &Template::default()).expect("a copy");
            }
        }
        IS_SLOW.store(true, SeqCst);
        IS_FORGETFUL.store(true, SeqCst);
        let calls = sessions.map(|session| (sign_init as Function, session));
        call_in_time(&fake.remote, &calls, "an agent that is slow after its restart");
        IS_SLOW.store(false, SeqCst);
    }
}

/// A key generation may take longer than any other call.
#[test]
fn a_call_waits_for_a_key_generation_in_its_session() {
    let generates = |call: &Call<'_>, _| match call {
        Call::C_GenerateKey { .. } => Act::After(Duration::from_secs(PATIENCE + 2), Box::new(honest(call))),
        _ => honest(call),
    };
    let behaviour =
        Behaviour { calls: Box::new(move |call, at, _| generates(call, at)), ..Behaviour::default() };
    let fake = Fake::behaving(behaviour, PATIENCE);
    let session = fake.open();
    thread::scope(|scope| {
        let generation = scope.spawn(|| generate_key(&fake.remote, session).map(drop));
        thread::sleep(Duration::from_millis(200));
        assert_eq!(sign_init(&fake.remote, session), Ok(()));
        assert_eq!(generation.join().expect("a thread"), Err(Error::FunctionNotSupported));
    });
}

extern "C" fn ignore(_: libc::c_int) {}

/// Waits on this thread while a signal comes again and again, as the timer of an application does.
fn disturbed<T>(wait: impl FnOnce() -> T) -> (T, Duration) {
    // SAFETY: a handler that does nothing, and the thread of this function, which lives.
    let thread = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (ignore as *const () as usize, libc::SA_RESTART);
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        libc::pthread_self()
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while !is_over.load(SeqCst) && start.elapsed() < 2 * LIMIT {
                thread::sleep(Duration::from_millis(100));
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            }
        });
        let start = Instant::now();
        let outcome = wait();
        is_over.store(true, SeqCst);
        (outcome, start.elapsed())
    })
}

#[test]
fn a_signal_does_not_start_the_time_again() {
    // An answer.
    let (fake, is_hostile) = turncoat(|| Act::Stop);
    let session = fake.open();
    is_hostile.store(true, SeqCst);
    let (outcome, time) = disturbed(|| sign_init(&fake.remote, session));
    assert!(outcome == Err(Error::DeviceError) && time < LIMIT, "{outcome:?} after {time:?}");
    // The bytes of a message, in both directions.
    let (ours, _theirs) = UnixStream::pair().expect("sockets");
    ours.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
    ours.set_write_timeout(Some(Duration::from_millis(300))).expect("a limit");
    let mut channel = Channel::new(ours, 1);
    channel.whole = 10 * LIMIT;
    channel.frame = vec![0; 1 << 22];
    for wait in [|channel: &mut Channel| channel.receive(9, |_| true), Channel::send] {
        let (outcome, time) = disturbed(|| wait(&mut channel).map_err(|error| error.kind()));
        assert!(outcome == Err(io::ErrorKind::WouldBlock) && time < LIMIT, "{outcome:?} after {time:?}");
    }
    // A connection to an agent whose queue is full.
    let queue = Full::new();
    let parameters = queue.parameters(PATIENCE);
    let (outcome, time) = disturbed(|| Remote::default().start(Some(&parameters), Threads::Allowed));
    assert!(outcome == Err(Error::GeneralError) && time < LIMIT, "{outcome:?} after {time:?}");
}

/// An agent with room for no other connection.
struct Full {
    directory: tempfile::TempDir,
    listener: UnixListener,
    _first: UnixStream,
}

impl Full {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent");
        let listener = UnixListener::bind(&path).expect("a socket");
        // SAFETY: a socket that listens.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let _first = UnixStream::connect(&path).expect("a place in the queue");
        Self { directory, listener, _first }
    }

    fn parameters(&self, seconds: u64) -> String {
        let path = self.directory.path().join("agent");
        format!("agent = {{ address = 'unix:{}', timeout-seconds = {seconds} }}", path.display())
    }

    fn accept(&self) -> UnixStream {
        self.listener.accept().expect("a connection").0
    }
}

#[test]
fn the_first_application_waits_for_an_agent_that_is_there() {
    /// Longer than a silent agent has if there are others.
    const LATE: Duration = Duration::from_secs(3);
    const ENDS: usize = 20;
    let slow: [fn(&Full); 3] = [
        |agent| {
            thread::sleep(LATE);
            drop(agent.accept());
        },
        // Its process ends before it answers, again and again.
        |agent| (0..=ENDS).for_each(|_| drop(agent.accept())),
        |agent| {
            let (_first, second) = (agent.accept(), agent.accept());
            thread::sleep(LATE);
            serve(second, &Mutex::default(), &Behaviour::default());
        },
    ];
    thread::scope(|scope| {
        for (number, is_late) in slow.into_iter().enumerate() {
            scope.spawn(move || {
                let agent = Full::new();
                let start = Instant::now();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        is_late(&agent);
                        while let Ok((stream, _)) = agent.listener.accept() {
                            scope.spawn(|| serve(stream, &Mutex::default(), &Behaviour::default()));
                        }
                    });
                    let remote = Remote::default();
                    let started = remote.start(Some(&agent.parameters(30)), Threads::Allowed);
                    let stopped = remote.stop();
                    // SAFETY: a socket that listens: the other thread accepts no longer.
                    unsafe { libc::shutdown(agent.listener.as_raw_fd(), libc::SHUT_RDWR) };
                    assert_eq!((started, stopped), (Ok(()), Ok(())), "{number} after {:?}", start.elapsed());
                });
            });
        }
    });
}

/// What derives or unwraps a key, or initialises a token, has ten times as long as other calls.
#[test]
fn a_slow_call_has_time_but_ends() {
    const SLOW: [Function; 4] = [
        |remote, _| remote.init_token(SlotId(1), b"1234", &[b' '; 32]),
        |remote, session| {
            let derivation = mechanism(MechanismType::SHA256_KEY_DERIVATION);
            remote.derive(session, &derivation, ObjectHandle(1), &Template::default(), &mut []).map(drop)
        },
        |remote, session| {
            let (wrap, template) = (mechanism(MechanismType::RSA_PKCS), Template::default());
            remote.unwrap_key(session, &wrap, ObjectHandle(1), b"wrapped", &template).map(drop)
        },
        |remote, session| remote.async_complete(session, AsyncFunction::GenerateKey).map(drop),
    ];
    let patience = Duration::from_secs(PATIENCE);
    let late = || Act::After(Duration::from_secs(PATIENCE + 2), Box::new(answer(Err(Error::DataInvalid))));
    let (honest, is_late) = turncoat(late);
    let (hostile, is_silent) = turncoat(|| Act::Stop);
    thread::scope(|scope| {
        for (number, call) in SLOW.into_iter().enumerate() {
            let (honest, hostile) = (&honest.remote, &hostile);
            let session = (honest.open_session(SlotId(1), Access::ReadWrite, false), hostile.open());
            scope.spawn(move || {
                while !(is_late.load(SeqCst) && is_silent.load(SeqCst)) {
                    thread::sleep(DRIP);
                }
                let outcome = call(honest, session.0.expect("a session"));
                assert_eq!(outcome, Err(Error::DataInvalid), "{number}");
                let start = Instant::now();
                let waiting = scope.spawn(move || {
                    thread::sleep(DRIP);
                    sign_init(&hostile.remote, session.1)
                });
                assert_eq!(call(&hostile.remote, session.1), Err(Error::DeviceError), "{number}");
                let time = start.elapsed();
                assert!((10 * patience..10 * patience + LIMIT).contains(&time), "{number} after {time:?}");
                // A call that waits for the session ends too.
                assert!(waiting.join().expect("a thread").is_err(), "{number}");
            });
        }
        is_late.store(true, SeqCst);
        is_silent.store(true, SeqCst);
    });
}

#[test]
fn nothing_waits_for_a_key_generation_after_the_end_of_the_application() {
    let behaviour = Behaviour {
        calls: Box::new(|call, _, _| match call {
            Call::C_GenerateKey { .. } => Act::After(2 * LIMIT, Box::new(Act::Close)),
            _ => honest(call),
        }),
        ..Behaviour::default()
    };
    let fake = Fake::behaving(behaviour, PATIENCE);
    let session = fake.open();
    thread::scope(|scope| {
        scope.spawn(|| generate_key(&fake.remote, session).map(drop));
        thread::sleep(DRIP);
        let waiting = scope.spawn(|| {
            let start = Instant::now();
            (sign_init(&fake.remote, session), start.elapsed() < LIMIT)
        });
        thread::sleep(DRIP);
        assert_eq!(fake.remote.stop(), Ok(()));
        assert_eq!(waiting.join().expect("a thread"), (Err(Error::NotInitialized), true));
    });
}

#[test]
fn a_call_connects_in_time_also_if_some_agents_are_silent() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("silent");
    // Connections wait in its queue.
    let _silent = UnixListener::bind(&path).expect("a socket");
    let silent = format!(",unix:{}", path.display()).repeat(6);
    let hostile = || {
        let is_hostile: &AtomicBool = Box::leak(Box::default());
        let behaviour = Behaviour {
            calls: Box::new(|call, _, _| if is_hostile.load(SeqCst) { Act::Close } else { honest(call) }),
            joins: Box::new(|| if is_hostile.load(SeqCst) { Joining::Silent } else { Joining::Admitted }),
            ..Behaviour::default()
        };
        (Fake::behaving(behaviour, PATIENCE), is_hostile)
    };
    let good = Fake::start(|call, _| honest(call), || true);
    for (others, outcome) in [
        (silent.clone(), Error::DeviceError),
        (format!("{silent},{}", good.address()), Error::FunctionNotSupported),
    ] {
        let (fake, is_hostile) = hostile();
        let address = fake.address() + &others;
        let remote = Remote::default();
        let parameters = format!("agent = {{ address = '{address}', timeout-seconds = {PATIENCE} }}");
        remote.start(Some(&parameters), Threads::Allowed).expect("an application");
        assert_eq!(remote.slots().map(drop), Err(Error::FunctionNotSupported));
        is_hostile.store(true, SeqCst);
        let start = Instant::now();
        assert_eq!(remote.slots().map(drop), Err(outcome));
        assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    }
}

#[test]
fn the_batches_of_a_search_have_one_deadline() {
    let slow = || {
        let out = Found(vec![ObjectHandle(1); MAX_HANDLES]);
        let found = answer(Ok(Outcome::C_FindObjects { result: MAX_HANDLES, session: (), out }));
        Act::After(Duration::from_millis(600), Box::new(found))
    };
    let (fake, is_slow) = turncoat(slow);
    let session = fake.open();
    is_slow.store(true, SeqCst);
    let mut handles = vec![ObjectHandle(0); MAX_HANDLES];
    let (start, mut batches) = (Instant::now(), 0);
    while fake.remote.find_more(session, &mut handles, start).is_ok() {
        batches += 1;
        assert!(start.elapsed() < LIMIT);
    }
    assert!(batches <= 2, "{batches}");
    // Another call has its own.
    assert_eq!(fake.remote.find(session, &mut handles), Ok(MAX_HANDLES));
}

#[test]
fn an_administrator_does_not_wait_for_a_silent_agent() {
    let directory = tempfile::tempdir().expect("a directory");
    let silent = directory.path().join("agent");
    let _silent = UnixListener::bind(administrator(&silent)).expect("a socket");
    // This one has no room for the connection either.
    let full = Full::new();
    let busy = directory.path().join("busy");
    fs::rename(full.directory.path().join("agent"), administrator(&busy)).expect("a socket");
    thread::scope(|scope| {
        for socket in [silent, busy] {
            scope.spawn(move || {
                let start = Instant::now();
                let kind = status(&socket).map_err(|error| error.kind()).map(drop);
                assert_eq!(kind, Err(io::ErrorKind::TimedOut), "{socket:?}");
                assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
            });
        }
    });
}
