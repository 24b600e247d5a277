//! A limit on open files (`RLIMIT_NOFILE`) that is smaller than the tokens need.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jeton::id::token_flag;
use rustix::process::Resource;

use super::*;
use crate::limits::limit;

// Signatures with more tokens than may be open.

const THREADS: usize = 16;
/// The number of tokens in which another process destroys a key.
const WATCHED: usize = 5;
/// A file of the child that tells the parent that all tokens are logged in.
const READY: &str = "logged-in";
/// The longest time for which a destroyed key may still sign. The module checks for changes once a
/// second. With a database, docs/postgresql.md allows 3 s and a round trip.
fn longest() -> Duration {
    Duration::from_secs(if is_in_database() { 5 } else { 2 })
}

/// The number of tokens, and the child's limit on open files.
fn sizes() -> (usize, u64) {
    let tokens = number("JETON_CRASH_TOKENS", 40);
    (tokens, if tokens < 1000 { 128 } else { 1024 })
}

/// A token with a login, and its keys.
struct Signer {
    slot: SlotId,
    private: ObjectHandle,
    public: ObjectHandle,
    /// The key that another process destroys.
    doomed: ObjectHandle,
}

/// Signs with all tokens in many threads, and reports when a destroyed key can no longer sign.
pub fn sign_child() {
    let directory = directory();
    limit(Resource::Nofile, sizes().1);
    let module = Functions::new();
    module.initialize(Some(&directory.parameters(Provider::ALL[0], ""))).expect("a module");
    let mut slots = module.slots().expect("slots");
    let slot = slots.pop().expect("a free slot");
    let client = &Client { module, slot, directory };
    let login = |slot| {
        let session = client.open_session(slot, Access::ReadWrite).expect("a session");
        client.login(session);
        let key = |label, usage| client.find_one(session, &none().label(label).flag(usage, true));
        let (private, public) = (key("key", A::SIGN), key("key", A::VERIFY));
        Signer { slot, private, public, doomed: key("doomed", A::SIGN) }
    };
    let tokens: Vec<_> = slots.into_iter().map(login).collect();
    let most = AtomicUsize::new(0);
    File::create(client.directory.path().join(READY)).expect("a file");
    let gone = AtomicUsize::new(0);
    let signatures = AtomicU64::new(0);
    let end = Instant::now() + Duration::from_secs(seconds());
    std::thread::scope(|scope| {
        for (place, signer) in tokens.iter().enumerate().take(WATCHED) {
            let session = client.open_session(signer.slot, Access::ReadWrite).expect("a session");
            let gone = &gone;
            scope.spawn(move || {
                let sign = || client.sign(session, &plain(M::ECDSA_SHA256), signer.doomed, b"data");
                let reason = loop {
                    match sign() {
                        Ok(_) => std::thread::sleep(Duration::from_millis(5)),
                        Err(reason) => break reason,
                    }
                };
                assert_eq!(reason, Error::KeyHandleInvalid);
                println!("gone {place} {}", now());
                gone.fetch_add(1, Ordering::SeqCst);
            });
        }
        for thread in 0..THREADS {
            let (tokens, gone, signatures, most) = (&tokens, &gone, &signatures, &most);
            scope.spawn(move || {
                let open = |token: &Signer| client.open_session(token.slot, Access::ReadOnly);
                let sessions: Vec<_> = tokens.iter().map(|token| open(token).expect("a session")).collect();
                let mut round = thread;
                while Instant::now() < end || gone.load(Ordering::SeqCst) < WATCHED.min(tokens.len()) {
                    let place = round % tokens.len();
                    let (signer, session) = (&tokens[place], sessions[place]);
                    let data = round.to_be_bytes();
                    let signature = client.sign(session, &plain(M::ECDSA_SHA256), signer.private, &data);
                    let signature = signature.expect("a signature");
                    let verified =
                        client.verify(session, &plain(M::ECDSA_SHA256), signer.public, &data, &signature);
                    assert_eq!(verified, Ok(()));
                    signatures.fetch_add(1, Ordering::Relaxed);
                    if round % 64 == 0 {
                        most.fetch_max(descriptors(), Ordering::Relaxed);
                    }
                    round += THREADS;
                }
            });
        }
    });
    println!("signatures {} descriptors {}", signatures.into_inner(), most.into_inner());
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// The milliseconds since 1970, which two processes can compare.
pub fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis()
}

/// 16 threads sign with more tokens than may be open. Another process destroys keys meanwhile.
pub fn sign() {
    let (count, most) = sizes();
    let directory = many::tokens_of(count, PIN);
    let client = Client::beside(&directory, Provider::ALL[0], "");
    let mut slots = client.slots().expect("slots");
    slots.pop();
    for (place, slot) in slots.iter().enumerate() {
        let session = client.open_session(*slot, Access::ReadWrite).expect("a session");
        client.login(session);
        for label in ["key", "doomed"] {
            pair(&client, session, Kind::P256, &none().stored().label(label));
        }
        // The watched tokens stay logged in, to destroy their keys later.
        if place >= WATCHED {
            client.close_session(session).expect("a session");
        }
    }
    let child = Process::start("many sign", &directory, ());
    let is_ready = || directory.path().join(READY).exists();
    jeton_child::until(Duration::from_secs(600), "the child is not ready", is_ready);
    let mut destroyed = Vec::new();
    for slot in slots.iter().take(WATCHED) {
        std::thread::sleep(Duration::from_millis(200));
        let session = client.open_session(*slot, Access::ReadWrite).expect("a session");
        let key = client.find_one(session, &none().label("doomed").flag(A::SIGN, true));
        client.destroy_object(session, key).expect("a key");
        destroyed.push(now());
    }
    let said = child.wait();
    let mut delays = Vec::new();
    for (place, time) in destroyed.iter().enumerate() {
        let gone = said.iter().find_map(|line| line.strip_prefix(&format!("gone {place} ")));
        let gone: u128 = gone.and_then(|time| time.parse().ok()).expect("a time");
        delays.push(gone.saturating_sub(*time));
    }
    let figures = said.iter().find_map(|line| line.strip_prefix("signatures ")).expect("a number");
    println!(
        "{THREADS} threads on {count} tokens with at most {most} descriptors: signatures {figures}, all verified; \
         destroyed keys stopped after {delays:?} ms"
    );
    assert!(delays.iter().all(|delay| *delay < longest().as_millis()));
    let used: usize = figures.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    assert!(used > 0 && used < most as usize);
}

// No descriptors.

/// The limit on open files of the child.
const DESCRIPTORS: u64 = 64;

/// Opens files until the process may open no more.
fn exhaust(held: &mut Vec<File>) {
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
}

/// Uses tokens while no descriptors are left, and afterwards.
pub fn shortage_child() {
    let directory = directory();
    limit(Resource::Nofile, DESCRIPTORS);
    let mut held = Vec::new();
    exhaust(&mut held);
    let start = Module::new().initialize(Some(&directory.parameters(Provider::ALL[0], "")));
    assert_eq!(start, Err(Error::HostMemory));
    held.clear();

    let log = directory.path().join("log");
    let module = Module::new();
    let more = format!(", log = {{ file = '{}' }}", log.display());
    module.initialize(Some(&directory.parameters(Provider::ALL[0], &more))).expect("a module");
    let slots = module.slots().expect("slots");
    exhaust(&mut held);
    // A change of the directory makes the module list it again.
    assert_eq!(held.pop().map(drop), Some(()));
    std::fs::write(directory.path().join("new.jeton"), "no token").expect("a file");
    exhaust(&mut held);
    assert_eq!(module.slots(), Err(Error::HostMemory));
    let tokens = &slots[..slots.len() - 1];
    for slot in tokens {
        assert_eq!(module.open_session(*slot, Access::ReadWrite).map(drop), Err(Error::HostMemory));
    }

    held.clear();
    assert_eq!(module.slots().expect("slots"), slots);
    let session = module.open_session(tokens[0], Access::ReadWrite).expect("a session");
    module.login(session, User::User, PIN).expect("the user");
    // The module closes the idle file of one token to open that of another token.
    exhaust(&mut held);
    module.open_session(tokens[1], Access::ReadWrite).expect("a session");
    held.clear();
    for slot in &tokens[2..] {
        let session = module.open_session(*slot, Access::ReadWrite).expect("a session");
        module.login(session, User::User, PIN).expect("the user");
        assert_eq!(module.token(*slot).expect("a token").flags & token_flag::WRITE_PROTECTED, 0);
    }
    let log = std::fs::read_to_string(log).expect("a log");
    let named = format!("(RLIMIT_NOFILE) is {DESCRIPTORS}");
    println!("{} lines name the limit", log.lines().filter(|line| line.contains(&named)).count());
    assert!(log.contains(&named), "{log}");
}

/// Without descriptors a call fails, and afterwards every token is there and works.
pub fn shortage() {
    let directory = many::tokens_of(8, PIN);
    // C_Initialize would open a file that was written a moment ago, so wait first.
    std::thread::sleep(Duration::from_millis(200));
    Process::start("shortage", &directory, ()).echo();
}
