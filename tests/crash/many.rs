//! More tokens than may be open at a time, so that files are closed and opened again all the time:
//! `kill -9`, power cuts, and many processes and threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jeton::backend::Provider;
use jeton::id::{AttributeType as A, SessionHandle, SlotId};
use jeton::module::{Access, User};

use crate::model::Model;
use crate::power::{How, rebuild};
use crate::process::{Process, Random, directory, number, together};
use crate::support::{Client, Directory, Functions, LABEL, PIN, SO_PIN, data, none};
use crate::vfs::{self, Event};
use crate::worker::{Worker, pin};

/// The number of steps of the recorded process.
const CALLS: usize = 400;
const PROCESSES: usize = 4;
const THREADS: usize = 4;

/// The number of tokens.
fn count() -> usize {
    number("JETON_CRASH_TOKENS", 8)
}

/// The number of rounds of this file's cases: an eighth of those of one token.
fn rounds() -> u64 {
    number::<u64>("JETON_CRASH_ROUNDS", 40).div_ceil(8)
}

/// A module that has a third of the tokens open at most.
fn client(directory: &Arc<Directory>) -> (Client, Vec<SlotId>) {
    let module = Functions::new();
    let more = format!(", store = {{ open-tokens = {} }}", count().div_ceil(3));
    let parameters =
        directory.parameters(Provider::ALL[0], &more).replace("retries = 3", "retries = 1000000");
    module.initialize(Some(&parameters)).expect("a module");
    let mut slots = module.slots().expect("slots");
    let free = slots.pop().expect("a free slot");
    (Client { module, slot: free, directory: Arc::clone(directory) }, slots)
}

/// A directory with tokens whose user has this PIN.
fn tokens(user_pin: &[u8]) -> Arc<Directory> {
    tokens_of(count(), user_pin)
}

/// Like [`tokens`], with this number of tokens.
pub fn tokens_of(count: usize, user_pin: &[u8]) -> Arc<Directory> {
    let directory = Directory::new();
    let (client, _) = client(&directory);
    for _ in 0..count {
        let slot = *client.module.slots().expect("slots").last().expect("a free slot");
        client.module.init_token(slot, SO_PIN, LABEL).expect("a token");
        let session = client.module.open_session(slot, Access::ReadWrite).expect("a session");
        client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
        client.module.init_pin(session, user_pin).expect("the user's PIN");
        client.module.close_session(session).expect("a session");
    }
    client.module.finalize().expect("a module");
    directory
}

fn user(client: &Client, slot: SlotId, pin: &[u8]) -> SessionHandle {
    let session = client.module.open_session(slot, Access::ReadWrite).expect("a session");
    client.module.login(session, User::User, pin).expect("the user");
    session
}

/// Returns one worker for each token. The labels of a token begin with the name and the token's
/// number.
fn workers<'a>(client: &'a Client, slots: &[SlotId], name: &str, say: fn(String)) -> Vec<Worker<'a>> {
    let each = slots.iter().enumerate();
    each.map(|(place, slot)| {
        let session = user(client, *slot, &pin(0));
        Worker::in_session(client, session, &format!("{name}t{place}"), say)
    })
    .collect()
}

/// Works on all tokens until it is killed.
pub fn child() {
    let directory = directory();
    let (client, slots) = client(&directory);
    let name = std::env::var("JETON_CRASH_NAME").expect("a name");
    let mut random = Random::seeded(number("JETON_CRASH_SEED", 0));
    let mut workers = workers(&client, &slots, &name, |line| println!("{line}"));
    loop {
        let token = random.below(slots.len() as u64) as usize;
        workers[token].step();
    }
}

/// Returns the output lines of a process, by token.
fn by_token<'a>(lines: impl Iterator<Item = &'a str>, name: &str) -> Vec<Vec<&'a str>> {
    let mut said = vec![Vec::new(); count()];
    let mut last = 0;
    for line in lines {
        if let Some(label) = line.split(' ').nth(1) {
            let place = label.strip_prefix(&format!("{name}t")).and_then(|rest| rest.split('-').next());
            last = place.and_then(|place| place.parse().ok()).expect("the number of a token");
        }
        said[last].push(line);
    }
    said
}

/// Compares all tokens with the output of a process. Returns the numbers of acknowledged calls and
/// of objects.
fn verify(directory: &Arc<Directory>, lines: &[&str], name: &str) -> Result<(u64, usize), String> {
    let (client, slots) = client(directory);
    if slots.len() != count() {
        return Err(format!("{} tokens", slots.len()));
    }
    let (mut acknowledged, mut objects) = (0, 0);
    for (place, said) in by_token(lines.iter().copied(), name).into_iter().enumerate() {
        let model = Model::of(said.into_iter());
        let session = client.module.open_session(slots[place], Access::ReadWrite);
        let session = session.map_err(|error| format!("token {place}: {error:?}"))?;
        let login = client.module.login(session, User::User, &pin(0));
        login.map_err(|error| format!("token {place}: login: {error:?}"))?;
        let verified = model.verify(&client, session, &format!("{name}t{place}-"));
        objects += verified.map_err(|reason| format!("token {place}: {reason}"))?.objects;
        acknowledged += model.acknowledged;
    }
    client.module.finalize().map_err(|error| format!("{error:?}"))?;
    Ok((acknowledged, objects))
}

/// `kill -9` of two processes that both work on all tokens.
pub fn kill_case() {
    let directory = tokens(&pin(0));
    let mut random = Random::new();
    let (mut acknowledged, mut objects) = (0, 0);
    for round in 0..rounds() {
        let start = |place: usize, seed: u64| {
            let name = format!("r{round}p{place}");
            let more = [("JETON_CRASH_NAME", name.clone()), ("JETON_CRASH_SEED", seed.to_string())];
            (Process::start("many", &directory, &more), name)
        };
        let running: Vec<_> = (0..2).map(|place| start(place, random.below(u64::MAX))).collect();
        std::thread::sleep(Duration::from_millis(200 + random.below(400)));
        // All processes are dead before the check.
        let dead: Vec<_> = running.into_iter().map(|(process, name)| (process.kill(), name)).collect();
        for (said, name) in dead {
            let lines: Vec<_> = said.iter().map(String::as_str).collect();
            let found = verify(&directory, &lines, &name).expect("what was acknowledged");
            acknowledged += found.0;
            objects += found.1;
        }
    }
    println!(
        "{} kills of 2 processes on {} tokens, a third of them open: {acknowledged} calls acknowledged and found, \
         {objects} objects verified",
        2 * rounds(),
        count()
    );
    assert!(acknowledged > 0);
}

pub fn power_child() {
    let directory = directory();
    let before = crate::power::read(&directory);
    vfs::start();
    let (one, slots) = client(&directory);
    let mut random = Random::seeded(number("JETON_CRASH_SEED", 0));
    let mut workers = workers(&one, &slots, "p", |line| vfs::note(Event::Said(line)));
    for _ in 0..CALLS {
        workers[random.below(slots.len() as u64) as usize].step();
    }
    drop(workers);
    one.module.finalize().expect("a module");
    let events = vfs::stop();
    let closed = events.iter().filter(|event| matches!(event, Event::Delete { .. })).count();
    let (mut acknowledged, mut objects) = (0, 0);
    for _ in 0..rounds() {
        let end = random.below(events.len() as u64 + 1) as usize;
        let how = How::any(&mut random);
        let built = rebuild(&before, &events[..end], &mut random, how, true);
        let said: Vec<_> = crate::power::said(&events[..end]).collect();
        match verify(&built, &said, "p") {
            Ok(found) => {
                acknowledged += found.0;
                objects += found.1;
            }
            Err(reason) => panic!("after {end} of {} events, {how:?}: {reason}", events.len()),
        }
    }
    println!(
        "{} power cuts on {} tokens, a third of them open, with {closed} closings: {acknowledged} acknowledged calls \
         found, {objects} objects verified",
        rounds(),
        count()
    );
    assert!(acknowledged > 0 && closed > count());
}

/// A power cut while files are closed and opened again.
pub fn power_case() {
    let directory = tokens(&pin(0));
    let seed = [("JETON_CRASH_SEED", Random::new().below(u64::MAX).to_string())];
    Process::start("many power", &directory, &seed).wait().iter().for_each(|line| println!("{line}"));
}

pub fn load_child() {
    let directory = directory();
    let (client, slots) = client(&directory);
    let name = std::env::var("JETON_CRASH_NAME").expect("a name");
    let time = Duration::from_secs(number("JETON_CRASH_SECONDS", 5)) / 2;
    let _logins: Vec<_> = slots.iter().map(|slot| user(&client, *slot, PIN)).collect();
    crate::process::ready();
    let end = Instant::now() + time;
    let (client, slots, name) = (&client, &slots, &name);
    let made: usize = std::thread::scope(|scope| {
        let work = move |thread: usize| {
            let seed = number::<u64>("JETON_CRASH_SEED", 0).wrapping_add(thread as u64);
            let mut random = Random::seeded(seed);
            let mut made = 0;
            while Instant::now() < end {
                let slot = slots[random.below(slots.len() as u64) as usize];
                let session = client.module.open_session(slot, Access::ReadWrite).expect("a session");
                let label = format!("{name}-{thread}-{made}");
                let object = client.create(session, &data(&label).stored()).expect("an object");
                assert_eq!(client.find(session, &none().label(&label)), [object]);
                if made % 2 == 0 {
                    client.module.destroy_object(session, object).expect("an object");
                } else {
                    println!("left {label}");
                }
                client.module.close_session(session).expect("a session");
                made += 1;
            }
            made
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    });
    println!("made {made}");
}

/// Several processes of several threads on all tokens.
pub fn load_case() {
    let directory = tokens(PIN);
    let seed = Random::new().below(u64::MAX);
    let start = |place: usize| {
        // Each process adds the numbers of its threads to its seed.
        let seed = seed.wrapping_add((place * THREADS) as u64);
        let more = [("JETON_CRASH_NAME", format!("p{place}")), ("JETON_CRASH_SEED", seed.to_string())];
        Process::start("many load", &directory, &more)
    };
    let said = together(PROCESSES, start).concat();
    let made: u64 = said.iter().filter_map(|line| line.strip_prefix("made ")?.parse::<u64>().ok()).sum();
    let left: BTreeSet<_> =
        said.iter().filter_map(|line| line.strip_prefix("left ")).map(str::to_owned).collect();
    let (client, slots) = client(&directory);
    let mut found = BTreeSet::new();
    for slot in slots {
        let session = user(&client, slot, PIN);
        for object in client.find(session, &none()) {
            let label = client.read(session, object, A::LABEL).expect("a label");
            found.insert(String::from_utf8(label).expect("text"));
        }
    }
    assert_eq!(found, left);
    println!(
        "{PROCESSES} processes of {THREADS} threads on {} tokens, a third of them open: {made} objects without an \
         error, {} left and found",
        count(),
        left.len()
    );
    assert!(made as usize >= PROCESSES * THREADS);
}
