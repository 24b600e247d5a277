//! What tries to break a token: processes that are killed, writes that a power cut lost, wrong PINs from all sides, many
//! processes and threads at once; and what looks for secrets and lost memory in a process.
//!
//! It has a main of its own: it starts itself as child processes, which find what to do in the environment. Each case
//! prints its figures. These grow with the environment:
//!
//! - `JETON_CRASH_ROUNDS`: kills, and power cuts (40)
//! - `JETON_CRASH_SECONDS`: how long eight processes work on one token (5)
//! - `JETON_CRASH_SIGNATURES`: keys made, used and destroyed (20000)

#[path = "token/keys.rs"]
#[allow(dead_code, reason = "the cases of tests/token use the rest")]
mod keys;
#[path = "token/support.rs"]
#[allow(dead_code, reason = "the cases of tests/token use the rest")]
mod support;

#[path = "crash/kill.rs"]
mod kill;
#[path = "crash/load.rs"]
mod load;
#[path = "crash/memory.rs"]
mod memory;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/pins.rs"]
mod pins;
#[path = "crash/power.rs"]
mod power;
#[path = "crash/process.rs"]
mod process;
#[path = "crash/secrets.rs"]
mod secrets;
#[path = "crash/vfs.rs"]
mod vfs;
#[path = "crash/worker.rs"]
mod worker;

use std::time::Instant;

/// The cases, by name.
const CASES: [(&str, fn()); 7] = [
    ("what_was_acknowledged_survives_a_kill", kill::case),
    ("what_was_acknowledged_survives_a_power_cut", power::case),
    ("wrong_pins_of_many_processes_lock_at_the_limit", pins::limit),
    ("one_of_many_changes_of_a_pin_wins", pins::changes),
    ("processes_and_threads_lose_nothing", load::case),
    ("no_secret_stays_in_memory", secrets::case),
    ("memory_stays_flat", memory::case),
];

/// What child processes do, by name.
const CHILDREN: [(&str, fn()); 7] = [
    ("kill", worker::child),
    ("power", power::child),
    ("login", pins::login_child),
    ("change", pins::change_child),
    ("load", load::child),
    ("secrets", secrets::child),
    ("memory", memory::child),
];

fn main() {
    if let Some(name) = process::role() {
        let (_, work) = CHILDREN.iter().find(|(known, _)| *known == name).expect("a child of that name");
        return work();
    }
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (options, names): (Vec<_>, Vec<_>) = arguments.iter().partition(|text| text.starts_with('-'));
    let chosen = |case: &str| names.is_empty() || names.iter().any(|name| case.contains(name.as_str()));
    for (name, case) in CASES.iter().filter(|(name, _)| chosen(name)) {
        if options.iter().any(|option| *option == "--list") {
            println!("{name}: test");
            continue;
        }
        println!("test {name} ...");
        let start = Instant::now();
        case();
        println!("test {name} ... ok, {:.1} s", start.elapsed().as_secs_f64());
    }
}
