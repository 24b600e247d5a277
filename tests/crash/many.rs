//! One token, or more tokens than may be open at a time, so that files are closed and opened again
//! all the time. [`crate::power`] and [`crate::load`] use them too.

use super::*;
use crate::model::Model;
use crate::worker::{Task, Worker, pin, try_log_in};

pub fn count() -> usize {
    number("JETON_CRASH_TOKENS", 8)
}

/// The number of rounds with many tokens: an eighth of those with one token.
pub fn rounds() -> u64 {
    process::rounds().div_ceil(8)
}

/// A module that has a third of this number of tokens open at most.
pub fn client(directory: &Arc<Directory>, count: usize) -> (Client, Vec<SlotId>) {
    let module = Functions::new();
    let more = format!(", store = {{ open-tokens = {} }}", count.div_ceil(3));
    let parameters =
        directory.parameters(Provider::ALL[0], &more).replace("retries = 3", "retries = 1000000");
    module.initialize(Some(&parameters)).expect("a module");
    let mut slots = module.slots().expect("slots");
    let free = slots.pop().expect("a free slot");
    (Client { module, slot: free, directory: Arc::clone(directory) }, slots)
}

pub fn tokens_of(count: usize, user_pin: &[u8]) -> Arc<Directory> {
    let directory = Directory::new();
    let (client, _) = client(&directory, count);
    for _ in 0..count {
        let slot = *client.slots().expect("slots").last().expect("a free slot");
        client.make_token(slot, user_pin);
    }
    client.finalize().expect("a module");
    directory
}

pub fn user(client: &Client, slot: SlotId, pin: &[u8]) -> SessionHandle {
    let session = client.open_session(slot, Access::ReadWrite).expect("a session");
    client.module.login(session, User::User, pin).expect("the user");
    session
}

/// Returns one worker for each token. The labels of a token begin with the name and the token's
/// number. The worker of a single token also changes its PIN.
pub fn workers<'a>(
    client: &'a Client,
    slots: &[SlotId],
    name: &str,
    seed: u64,
    say: fn(String),
) -> Vec<Worker<'a>> {
    let each = slots.iter().enumerate();
    each.map(|(place, slot)| {
        let session = user(client, *slot, &pin(0));
        let task = Task { name: format!("{name}t{place}"), pin: 0, changes_pin: slots.len() == 1, seed };
        Worker::in_session(client, session, &task, say)
    })
    .collect()
}

/// Works on all tokens until it is killed.
pub fn child() {
    let directory = directory();
    let (client, slots) = client(&directory, count());
    let (name, seed): (String, u64) = argument();
    let mut random = Random::seeded(seed);
    let mut workers = workers(&client, &slots, &name, seed, |line| println!("{line}"));
    loop {
        let token = random.below(slots.len() as u64) as usize;
        workers[token].step();
    }
}

fn by_token<'a>(lines: &[&'a str], name: &str, count: usize) -> Vec<Vec<&'a str>> {
    if count == 1 {
        return vec![lines.to_vec()];
    }
    let mut said = vec![Vec::new(); count];
    let mut last = 0;
    for line in lines.iter().copied() {
        if let Some(label) = line.split(' ').nth(1) {
            let place = label.strip_prefix(&format!("{name}t")).and_then(|rest| rest.split('-').next());
            last = place.and_then(|place| place.parse().ok()).expect("the number of a token");
        }
        said[last].push(line);
    }
    said
}

/// Compares all tokens with the output of a process. Returns the numbers of acknowledged calls and
/// of objects, or the first difference.
pub fn verify(
    directory: &Arc<Directory>,
    lines: &[&str],
    name: &str,
    count: usize,
) -> Result<(u64, usize), String> {
    let (client, slots) = client(directory, count);
    ensure(slots.len() == count, format!("{} tokens", slots.len()))?;
    let (mut acknowledged, mut objects) = (0, 0);
    for (place, said) in by_token(lines, name, count).into_iter().enumerate() {
        let model = Model::of(said.into_iter());
        let session = client.open_session(slots[place], Access::ReadWrite);
        let session = session.map_err(|error| format!("token {place}: {error:?}"))?;
        let (known, in_doubt) = model.pins(0);
        let opens = |number| {
            try_log_in(&client, session, number).map_err(|error| format!("token {place}: login: {error:?}"))
        };
        if !opens(known)? && in_doubt.is_none_or(|number| opens(number) != Ok(true)) {
            return Err(format!("PIN {known} was acknowledged, and {in_doubt:?} in doubt"));
        }
        let verified = model.verify(&client, session, &format!("{name}t{place}-"));
        objects += verified.map_err(|reason| format!("token {place}: {reason}"))?.objects;
        acknowledged += model.acknowledged;
    }
    client.finalize().map_err(|error| format!("{error:?}"))?;
    Ok((acknowledged, objects))
}

/// `kill -9` of two processes that both work on all tokens.
pub fn kill_case() {
    let directory = tokens_of(count(), &pin(0));
    let mut random = Random::new("JETON_CRASH_SEED");
    let (mut acknowledged, mut objects) = (0, 0);
    for round in 0..rounds() {
        let start = |place: usize, seed: u64| {
            let name = format!("r{round}p{place}");
            (Process::start("many", &directory, (&name, seed)), name)
        };
        let running: Vec<_> = (0..2).map(|place| start(place, random.below(u64::MAX))).collect();
        // A process logs in to every token first.
        let longer = pause(&mut random) * count() as u32;
        std::thread::sleep(Duration::from_millis(200 + random.below(250)) + longer);
        // All processes are dead before the check.
        let dead: Vec<_> = running.into_iter().map(|(process, name)| (process.kill(), name)).collect();
        for (said, name) in dead {
            let lines: Vec<_> = said.iter().map(String::as_str).collect();
            let found = verify(&directory, &lines, &name, count()).expect("what was acknowledged");
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
