//! `kill -9` of one of four processes, or of all, at any moment: acknowledged changes exist
//! afterwards.

use super::*;
use crate::worker::{Counts, Running, Task, log_in, pin};

const WORKERS: usize = 4;

pub fn case() {
    let rounds = rounds();
    let directory = token();
    unlock(&client(&directory, u32::MAX), &pin(0));
    let mut random = Random::new("JETON_CRASH_SEED");
    let mut counts = Counts::default();
    // The number of the last PIN that was seen. Worker 0 changes the PIN to the next number.
    let mut known = 0;
    let mut started = 0;
    let mut start = |place: usize, pin: u64, random: &mut Random| {
        started += 1;
        let (name, seed) = (format!("w{started}"), random.below(u64::MAX));
        Running::start("kill", &directory, Task { name, pin, changes_pin: place == 0, seed })
    };
    let mut workers: Vec<_> = (0..WORKERS).map(|place| Some(start(place, 0, &mut random))).collect();
    while workers.iter().any(Option::is_some) {
        std::thread::sleep(pause(&mut random));
        let last = counts.kills >= rounds;
        let victims = match random.below(4) {
            0 => (0..WORKERS).collect(),
            _ if last => (0..WORKERS).collect(),
            _ => vec![random.below(WORKERS as u64) as usize],
        };
        // All killed processes have ended before the check.
        let dead: Vec<_> =
            victims.iter().map(|place| workers[*place].take().expect("a worker").kill()).collect();
        let client = client(&directory, u32::MAX);
        let session = client.open();
        known = log_in(&client, session, known);
        dead.iter().for_each(|dead| dead.check(&client, session, known, &mut counts));
        client.finalize().expect("a module");
        for place in victims.into_iter().filter(|_| !last) {
            workers[place] = Some(start(place, known, &mut random));
        }
    }
    let client = client(&directory, u32::MAX);
    let session = client.open();
    log_in(&client, session, known);
    assert_eq!(client.find(session, &none()), [], "objects remaining");
    println!("{WORKERS} processes, {}", counts.describe(known));
}
