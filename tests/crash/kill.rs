//! `kill -9` of one of four processes, or of all, at any moment: acknowledged changes exist
//! afterwards.

use std::sync::Arc;
use std::time::Duration;

use crate::model::Model;
use crate::process::{Process, Random, client, number, token, unlock};
use crate::support::Directory;
use crate::worker::{log_in, pin};

const WORKERS: usize = 4;

/// A process at work.
struct Worker {
    process: Process,
    name: String,
    /// The number of the last PIN that was known when it started.
    pin: u64,
}

/// The counts of the run.
#[derive(Default)]
struct Figures {
    kills: u64,
    acknowledged: u64,
    in_doubt: u64,
    done_in_doubt: u64,
    objects: usize,
}

pub fn case() {
    let rounds: u64 = number("JETON_CRASH_ROUNDS", 40);
    let directory = token();
    unlock(&client(&directory, u32::MAX), &pin(0));
    let mut random = Random::new();
    let mut figures = Figures::default();
    // The number of the last PIN that was seen. Worker 0 changes the PIN to the next number.
    let mut known = 0;
    let mut started = 0;
    let mut start = |place: usize, known: u64, random: &mut Random| {
        started += 1;
        let name = format!("w{started}");
        let process = Process::start(
            "kill",
            &directory,
            &[
                ("JETON_CRASH_NAME", name.clone()),
                ("JETON_CRASH_PIN", known.to_string()),
                ("JETON_CRASH_CHANGES_PIN", u64::from(place == 0).to_string()),
                ("JETON_CRASH_SEED", random.below(u64::MAX).to_string()),
            ],
        );
        Worker { process, name, pin: known }
    };
    let mut workers: Vec<_> = (0..WORKERS).map(|place| Some(start(place, known, &mut random))).collect();
    while figures.kills < rounds {
        std::thread::sleep(Duration::from_millis(random.below(150)));
        let victims = match random.below(4) {
            0 => (0..WORKERS).collect(),
            _ => vec![random.below(WORKERS as u64) as usize],
        };
        // All killed processes have ended before the check.
        let dead: Vec<_> = victims
            .iter()
            .map(|place| {
                let worker = workers[*place].take().expect("a worker");
                (*place, worker.name, worker.pin, worker.process.kill())
            })
            .collect();
        for (place, name, pin, said) in dead {
            let model = Model::of(said.iter().map(String::as_str));
            known = inspect(&directory, &model, (place == 0).then_some(pin), known, &name, &mut figures);
        }
        for place in victims {
            workers[place] = Some(start(place, known, &mut random));
        }
    }
    for (place, worker) in workers.into_iter().enumerate() {
        let Worker { process, name, pin } = worker.expect("a worker");
        let model = Model::of(process.kill().iter().map(String::as_str));
        known = inspect(&directory, &model, (place == 0).then_some(pin), known, &name, &mut figures);
    }
    let client = client(&directory, u32::MAX);
    let session = client.open();
    log_in(&client, session, known);
    assert_eq!(client.find(session, &crate::support::none()), [], "objects remaining");
    let Figures { kills, acknowledged, in_doubt, done_in_doubt, objects } = figures;
    println!(
        "{kills} kills of {WORKERS} processes: {acknowledged} calls acknowledged and found, {in_doubt} in doubt, \
         {done_in_doubt} of them done, {objects} objects verified, the PIN changed {known} times"
    );
    assert!(acknowledged > 0);
}

/// Opens the store in a new module and compares it with the output of a dead process. Returns the
/// number of the user's PIN.
fn inspect(
    directory: &Arc<Directory>,
    model: &Model,
    changed_pin: Option<u64>,
    known: u64,
    name: &str,
    figures: &mut Figures,
) -> u64 {
    let client = client(directory, u32::MAX);
    let session = client.open();
    let found = log_in(&client, session, known);
    if let Some(start) = changed_pin {
        let (acknowledged, in_doubt) = model.pins(start);
        assert!(
            found == acknowledged || Some(found) == in_doubt,
            "the PIN is number {found}, acknowledged {acknowledged}, in doubt {in_doubt:?}"
        );
    }
    figures.kills += 1;
    figures.acknowledged += model.acknowledged;
    figures.in_doubt += model.in_doubt;
    let verified = model.verify(&client, session, &format!("{name}-")).expect("what was acknowledged");
    figures.objects += verified.objects;
    figures.done_in_doubt += verified.done_in_doubt;
    client.module.finalize().expect("a module");
    found
}
