//! Tests that try to break a token: killed processes, writes that a power cut lost, wrong PINs from
//! many processes, many processes and threads at once. Others look for secrets and leaked memory in
//! a process.
//!
//! It has its own main, because it starts itself as child processes whose role is in the
//! environment. Each case prints its figures. These environment variables change the length of the
//! runs. The default values, in parentheses, are for runs of a minute:
//!
//! - `JETON_CRASH_ROUNDS`: the number of kills, and of power cuts (12). The cases with many tokens
//!   have an eighth of this number of rounds.
//! - `JETON_CRASH_SECONDS`: how long eight processes work on one token, and how long the case that
//!   signs takes (2). Four processes work on many tokens for half of this time. Three hosts work on
//!   one token for this time.
//! - `JETON_CRASH_TOKENS`: the number of tokens in the cases with many tokens (8; 40 for the case
//!   that signs). With 1000 or more, the case that signs may open 1,024 files, the usual limit.
//!   Otherwise it may open 128.
//! - `JETON_CRASH_FAULT_SECONDS`: how long to try failures of file system calls (4). In 300 s all
//!   failures are tried.
//! - `JETON_CRASH_DATABASE_ROUNDS`: the number of rounds in which processes with a database are
//!   killed (3). In the third and fourth of four rounds the PostgreSQL server crashes too.
//! - `JETON_CRASH_FAILOVERS`: the number of failovers to a standby of PostgreSQL (1)
//! - `JETON_CRASH_HOSTS`: how many hosts share a token of a database for `JETON_CRASH_SECONDS` (0:
//!   the case does not run). As root, each host has a network namespace of its own.
//! - `JETON_CRASH_OBJECTS`: the number of objects of this token (100)
//! - `JETON_CRASH_POOLER`: these hosts use PgBouncer in the pooling mode `session` or `transaction`
//! - `JETON_CRASH_CLUSTER_SECONDS`: how long servers under Patroni fail (0: the case does not run).
//!   Root must run it, because each server and each host has a network namespace of its own.
//! - `JETON_CRASH_SIGNATURES`: how often the case about leaked memory makes, uses and destroys keys
//!   (3000)
//! - `JETON_CRASH_STACKS=1`: print the smallest stack that each type of key needs
//!
//! With `JETON_TEST_FORMAT=fips` the tokens have this format, whose logins take longer.
//!
//! With `JETON_TEST_STORE=postgresql` the tokens of the cases are in a database, and the cases that
//! are about files do not run.
//!
//! The search for secrets takes minutes. `JETON_CRASH_BACKEND=rustcrypto` and
//! `JETON_CRASH_KEYS=Rsa,AES` make it shorter.

#[path = "../token/keys.rs"]
#[allow(dead_code, reason = "the cases of tests/token use the rest")]
mod keys;
#[path = "../token/prelude.rs"]
mod prelude;
#[path = "../token/support.rs"]
#[allow(dead_code, reason = "the cases of tests/token use the rest")]
mod support;

#[cfg(feature = "postgresql")]
#[path = "../postgresql/control.rs"]
mod control;
mod counted;
#[cfg(feature = "postgresql")]
mod database;
mod faults;
mod full;
mod kill;
mod leaks;
mod limits;
mod load;
mod many;
mod model;
mod open_files;
mod pins;
mod power;
mod process;
#[cfg(feature = "postgresql")]
#[path = "../postgresql/proxy.rs"]
#[allow(dead_code, reason = "the tests of tests/postgresql use the rest")]
mod proxy;
mod scan;
mod secrets;
#[cfg(feature = "postgresql")]
#[path = "../postgresql/tls.rs"]
#[allow(dead_code, reason = "the tests of tests/postgresql use the rest")]
mod tls;
mod uses;
mod vfs;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use serde::{Deserialize, Serialize};

use prelude::*;
#[cfg(feature = "postgresql")]
use process::token_in;
use process::{
    Process, Random, argument, client, directory, number, numbers, pause, ready, role_of, rounds, seconds,
    texts, together, token, try_with, unlock, with,
};
use vfs::Event;

/// As in the shared library. Without it freed memory keeps secrets.
#[global_allocator]
static ALLOCATOR: jeton_secret::WipingAllocator = jeton_secret::WipingAllocator;

const CASES: &[(&str, fn())] = &[
    ("acknowledged_changes_survive_a_kill", kill::case),
    ("acknowledged_changes_survive_a_power_cut", || power::case(1)),
    ("no_use_of_a_key_is_counted_twice_after_a_kill", counted::case),
    ("no_use_of_a_key_is_counted_twice_after_a_power_cut", counted::power_case),
    ("wrong_pins_of_many_processes_lock_at_the_limit", pins::limit),
    ("exactly_one_concurrent_pin_change_succeeds", pins::changes),
    ("processes_and_threads_lose_nothing", || load::case((1, 8, 8))),
    ("no_secret_stays_in_memory", secrets::case),
    ("changes_of_many_tokens_survive_a_kill", many::kill_case),
    ("changes_of_many_tokens_survive_a_power_cut", || power::case(many::count())),
    ("processes_and_threads_lose_nothing_of_many_tokens", || load::case((many::count(), 4, 4))),
    ("threads_sign_with_more_tokens_than_may_be_open", open_files::sign),
    ("a_process_without_descriptors_loses_no_token", open_files::shortage),
    ("keys_that_are_used_and_destroyed_leak_no_memory", leaks::case),
    ("acknowledged_changes_survive_every_failing_file_system_call", faults::case),
    ("a_full_disk_allows_login_signing_and_destroying", || full::with_mounts("full")),
    ("a_full_disk_with_small_blocks_allows_login_and_signing", || full::with_mounts("full small blocks")),
    ("a_read_only_disk_allows_login_and_signing", || full::with_mounts("read-only")),
    ("an_unwritable_directory_allows_login_and_signing", full::unwritable),
    ("a_login_without_memory_costs_no_attempt", full::memory),
    ("a_refused_memory_lock_is_logged_once_and_half_of_the_limit_stays", limits::locks),
    ("keys_work_on_small_stacks", limits::stacks),
    ("exhausted_memory_fails_a_call_and_not_the_process", limits::memory),
    #[cfg(feature = "postgresql")]
    ("acknowledged_changes_survive_kills_and_crashes_of_a_database", database::kill::case),
    #[cfg(feature = "postgresql")]
    ("acknowledged_changes_survive_failovers_of_a_database", database::failover::case),
    #[cfg(feature = "postgresql")]
    ("three_hosts_with_a_database_lose_nothing_and_see_all_changes", database::hosts::case),
    #[cfg(feature = "postgresql")]
    ("no_use_of_a_key_is_counted_twice_by_three_hosts_with_a_database", database::counted::case),
    #[cfg(feature = "postgresql")]
    ("many_hosts_share_a_token_of_a_database", database::fleet::case),
    #[cfg(feature = "postgresql")]
    ("three_hosts_continue_while_the_servers_of_a_database_fail", database::faults::case),
];

const CHILDREN: &[(&str, fn())] = &[
    ("kill", worker::child),
    ("power", power::child),
    ("counted", counted::child),
    ("counted power", counted::power_child),
    ("login", pins::login_child),
    ("change", pins::change_child),
    ("load", load::child),
    ("many", many::child),
    ("many sign", open_files::sign_child),
    ("shortage", open_files::shortage_child),
    ("secrets", secrets::child),
    ("unwrap", secrets::unwrap_child),
    ("leaks", leaks::child),
    ("faults", faults::child),
    ("full", full::full_child),
    ("full small blocks", full::full_small_blocks_child),
    ("read-only", full::read_only_child),
    ("unwritable", full::unwritable_child),
    ("no memory", full::memory_child),
    ("locks", limits::locks_child),
    ("stack", limits::stack_child),
    ("short", limits::memory_child),
    #[cfg(feature = "postgresql")]
    ("database", database::child),
    #[cfg(feature = "postgresql")]
    ("counted hosts", database::counted::child),
    #[cfg(feature = "postgresql")]
    ("hosts", database::hosts::child),
    #[cfg(feature = "postgresql")]
    ("hosts sign", database::hosts::signing_child),
    #[cfg(feature = "postgresql")]
    ("fleet", database::fleet::child),
    #[cfg(feature = "postgresql")]
    ("faults change", database::faults::changing_child),
    #[cfg(feature = "postgresql")]
    ("faults sign", database::faults::signing_child),
    #[cfg(feature = "postgresql")]
    ("faults count", database::faults::counting_child),
    #[cfg(feature = "postgresql")]
    ("faults login", database::faults::login_child),
];

/// The cases that do not run with tokens in a database, by the beginning of their names. Most of
/// them test files. `kill -9` with a database has a case of its own, in which calls wait for the
/// server.
const ABOUT_FILES: [&str; 12] = [
    "acknowledged_changes_survive_a_kill",
    "acknowledged_changes_survive_a_power_cut",
    "no_use_of_a_key_is_counted_twice_after_a_power_cut",
    "no_secret_stays_in_memory",
    "changes_of_many_tokens_survive",
    "a_process_without_descriptors",
    "acknowledged_changes_survive_every_failing_file",
    "a_full_disk",
    "a_read_only_disk",
    "an_unwritable_directory",
    "a_login_without_memory",
    "exhausted_memory",
];

/// The case that tests optimised code, because optimisation changes which copies of secrets stay in
/// memory. Without optimisation it takes five minutes, so it runs only if its name is an argument.
const OPTIMISED: &str = "no_secret_stays_in_memory";

/// Fails with this reason if the condition is false.
fn ensure(condition: bool, reason: String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(reason) }
}

fn is_in_database() -> bool {
    std::env::var("JETON_TEST_STORE").is_ok_and(|store| store == "postgresql")
}

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
        jeton_programs::begin(name);
        if cfg!(debug_assertions) && names.is_empty() && *name == OPTIMISED {
            jeton_programs::skip("cargo test --release -p jeton --test crash runs it");
            continue;
        }
        if is_in_database() && ABOUT_FILES.iter().any(|beginning| name.starts_with(beginning)) {
            jeton_programs::skip("not with tokens in a database");
            continue;
        }
        #[cfg(feature = "postgresql")]
        if name.contains("database") && !database::is_installed() {
            continue;
        }
        println!("test {name} ...");
        let start = Instant::now();
        case();
        println!("test {name} ... ok, {:.1} s", start.elapsed().as_secs_f64());
    }
}
