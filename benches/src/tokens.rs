//! Many tokens in one process: the start, the slot list, the first login, and signatures by one
//! token after the other. Each figure is the median of fresh processes. Writes
//! `docs/benchmarks/tokens.md`.

use std::fs;
use std::time::{Duration, Instant};

use cryptoki_sys::{CKA_LABEL, CKA_SIGN, CKF_USER_PIN_INITIALIZED, CKM_ECDSA};
use jeton_client::{Access, Attribute, Failure, Mechanism, Module, User};
use jeton_laboratory::memory::resident;
use jeton_laboratory::{Machine, Table, median};
use jeton_peers::{Known, PIN, SO_PIN, Sandbox};

use super::{AnyError, child};
use crate::artefacts::{Artefacts, parameters, temporary, write_page};
use crate::child::{Library, Role};
use crate::target::token_key;

const COUNTS: [usize; 3] = [10, 1_000, 10_000];
/// The number of tokens that have a key and sign, one after the other.
const ROUND: usize = 100;
const SIGNATURES: usize = 20_000;
/// The number of measured processes, of which the median counts.
const RUNS: usize = 5;
/// The pause before a measured process. A file that was just written takes more time to check,
/// because its modification time is too coarse to show whether it changed again.
const REST: Duration = Duration::from_millis(500);
const LISTS: usize = 21;
const LABEL: &str = "many";

/// The figures of a process, in the order of the columns: milliseconds of the start, of a list and
/// of the login, microseconds of a signature, descriptors, MiB in memory.
type Figures = [f64; 6];

/// Measures up to this number of tokens, prints the figures and writes the page.
pub fn measure(artefacts: &Artefacts, most: usize) -> Result<(), AnyError> {
    let mut table = Table::new(2, HEADER);
    for count in COUNTS.into_iter().filter(|count| *count <= most) {
        for known in [Known::Jeton, Known::SoftHsm2] {
            match row(artefacts, known, count) {
                Ok(figures) => {
                    let line = line(known, count, &figures);
                    println!("{}", line.join(", "));
                    table.add(line);
                }
                Err(reason) => println!("{} with {count} tokens left out: {reason}", known.name()),
            }
        }
    }
    write_page("tokens.md", &(heading() + &table.markdown()))
}

fn row(artefacts: &Artefacts, known: Known, count: usize) -> Result<Figures, AnyError> {
    let directory = temporary()?;
    let sandbox = Sandbox::fresh(known, directory.path(), None)?;
    let library = match known {
        Known::Jeton => Library {
            path: artefacts.module.clone(),
            reserved: Some(parameters(&directory.path().join("tokens"), "aws-lc")),
        },
        _ => Library { path: known.library().ok_or("not on this machine")?, reserved: sandbox.reserved },
    };
    let start = |role: &Role| {
        let mut command = child::of_role(role);
        let environment = if known == Known::Jeton { &[][..] } else { &sandbox.environment };
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        child::ask::<Option<Figures>>(command)
    };
    start(&Role::MakeTokens(library.clone(), count))?;
    // The first process puts the files into the page cache.
    start(&Role::Tokens(library.clone()))?;
    let mut runs: Vec<Figures> = Vec::new();
    for _ in 0..RUNS {
        std::thread::sleep(REST);
        runs.extend(start(&Role::Tokens(library.clone()))?);
    }
    Ok(std::array::from_fn(|at| median(runs.iter().map(|run| run[at]).collect())))
}

fn heading() -> String {
    format!(
        "# Many tokens in one process\n\n`cargo run --release -p jeton-benches -- tokens` writes this page. \
         Every figure is the median of {RUNS} processes\nthat find the tokens in the page cache. {ROUND} of the tokens (or all, if \
         there are fewer) have a P-256 key; a signature\nis `C_SignInit` and `C_Sign` in a session of the next token. \
         The files and the memory are those after\n`C_Initialize` and `C_GetSlotList`. Jeton's PINs have the cheapest \
         key derivation. The time of `C_Initialize` includes\nloading the module and the first `C_GetSlotList`. The \
         time of `C_Login` includes `C_OpenSession`.\n\n{}\n\n",
        Machine::this()
    )
}

const HEADER: [&str; 8] = [
    "tokens",
    "module",
    "`C_Initialize`",
    "unchanged `C_GetSlotList`",
    "first `C_Login`",
    "signature, round robin",
    "open files",
    "memory",
];

fn line(known: Known, count: usize, figures: &Figures) -> [String; 8] {
    let [start_ms, list_ms, login_ms, signature_us, descriptors, resident_mib] = figures;
    [
        count.to_string(),
        known.name().to_owned(),
        format!("{start_ms:.1} ms"),
        format!("{list_ms:.3} ms"),
        format!("{login_ms:.2} ms"),
        format!("{signature_us:.1} µs"),
        format!("{descriptors:.0}"),
        format!("{resident_mib:.0} MiB"),
    ]
}

pub(crate) fn make(library: &Library, count: usize) -> Result<(), AnyError> {
    let module = load(library)?;
    for place in 0..count {
        let slots = module.slots(true)?;
        // The free slot is the last one, in both modules.
        let free = *slots.last().expect("a module has a slot");
        module.init_token(free, SO_PIN, LABEL)?;
        if place >= ROUND {
            continue;
        }
        for slot in module.slots(true)?.into_iter().rev() {
            // SoftHSMv2 gives the new token another slot.
            let info = module.token_info(slot)?;
            if !info.is_initialised() || info.flags & CKF_USER_PIN_INITIALIZED != 0 {
                continue;
            }
            let session = module.open_session(slot, Access::ReadWrite)?;
            session.login(User::So, Some(SO_PIN))?;
            session.init_pin(PIN)?;
            session.logout()?;
            session.login(User::User, Some(PIN))?;
            token_key(&session, LABEL)?;
            break;
        }
    }
    Ok(module.finalize()?)
}

/// The child that is measured. Prints its figures.
pub(crate) fn count(library: &Library) -> Result<(), AnyError> {
    let start = Instant::now();
    let module = load(library)?;
    let slots = module.slots(true)?;
    let start_ms = milliseconds(start);
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        let start = Instant::now();
        module.slots(true)?;
        lists.push(milliseconds(start));
    }
    let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as f64;
    let resident_mib = resident() as f64 / f64::from(1 << 20);
    let mut sessions = Vec::new();
    let mut login_ms = 0.0;
    for slot in slots {
        if module.token_info(slot)?.flags & CKF_USER_PIN_INITIALIZED == 0 {
            continue;
        }
        let start = Instant::now();
        let session = module.open_session(slot, Access::ReadWrite)?;
        session.login(User::User, Some(PIN))?;
        if sessions.is_empty() {
            login_ms = milliseconds(start);
        }
        let key = session.find(&[Attribute::bytes(CKA_LABEL, LABEL), Attribute::flag(CKA_SIGN, true)])?[0];
        sessions.push((session, key));
    }
    let mechanism = Mechanism::new(CKM_ECDSA);
    let (digest, mut out) = ([7; 32], [0; 64]);
    let start = Instant::now();
    for (session, key) in sessions.iter().cycle().take(SIGNATURES) {
        session.sign_init(&mechanism, *key)?;
        session.sign(&digest, &mut out)?;
    }
    let signature_us = milliseconds(start) * 1e3 / SIGNATURES as f64;
    let figures: Figures = [start_ms, median(lists), login_ms, signature_us, descriptors, resident_mib];
    jeton_child::say(&figures);
    Ok(())
}

fn load(library: &Library) -> Result<Module, Failure> {
    let module = Module::load(&library.path).expect("a module that can be loaded");
    module.initialize(library.reserved.as_deref())?;
    Ok(module)
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
