//! Latencies of signatures while another thread makes RSA-4096 keys, as a table of percentiles.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jeton_laboratory::percentile;

use super::Fixture;
use super::signatures::destroy;
use crate::AnyError;
use crate::baseline;
use crate::facts::{self, Latency};
use crate::names::BASELINE;
use crate::scheme::{Scheme, named};
use crate::suite::Suite;
use crate::target::ModuleToken;

const GROUP: &str = "latency/p256-beside-rsa4096";

pub(super) fn run(suite: &Suite, fixture: &Fixture) -> Result<(), AnyError> {
    if !suite.wants(GROUP) {
        return Ok(());
    }
    let watch = suite.settings.watch;
    let mut table = vec![of_baseline(watch)];
    for token in fixture.tokens.iter().filter(|token| !token.row().ends_with("-session")) {
        match of_module(token, watch) {
            Ok(latency) => table.push(latency),
            Err(reason) => println!("{GROUP}/{} left out: {reason}", token.row()),
        }
    }
    println!("{GROUP}: p50, p99, p99.9, longest in microseconds; signatures and keys in {watch:?}");
    for latency in &table {
        let Latency { row, signatures, keys, .. } = latency;
        let [p50, p99, p999, max] =
            [latency.p50, latency.p99, latency.p999, latency.max].map(|nanos| nanos as f64 / 1000.0);
        println!("{row:>18} {p50:>9.1} {p99:>9.1} {p999:>9.1} {max:>9.1}  {signatures}, {keys}");
    }
    if suite.filtered() { Ok(()) } else { facts::write(facts::file::LATENCY, &table) }
}

fn of_baseline(watch: Duration) -> Latency {
    let (pair, scheme) = (named("p256"), Scheme::Ecdsa);
    let baseline = baseline::generate(pair.kind).expect("a kind that signs");
    let mut signing = baseline.signing(scheme, scheme.input(pair.kind));
    let load = || drop(baseline::generate(named("rsa4096").kind));
    beside(BASELINE, watch, load, || {
        signing.time(1);
    })
}

fn of_module(token: &ModuleToken, watch: Duration) -> Result<Latency, AnyError> {
    let (pair, scheme) = (named("p256"), Scheme::Ecdsa);
    let keys = token.pair(pair)?;
    let mut signing = token.signing(pair, scheme, keys)?;
    // Each thread has its own session, as the standard requires.
    let other = token.sibling()?;
    let load = move || {
        let made = other.pair(named("rsa4096"));
        assert!(made.is_ok(), "{}: {:?}", other.row(), made.err());
        destroy(&other, made);
    };
    let latency = beside(token.row(), watch, load, || {
        signing.time(1);
    });
    drop(signing);
    destroy(token, Ok(keys));
    Ok(latency)
}

/// Times each call of `sign` while another thread calls `load` repeatedly.
fn beside(row: &str, watch: Duration, mut load: impl FnMut() + Send, mut sign: impl FnMut()) -> Latency {
    let stop = AtomicBool::new(false);
    let (mut nanos, keys) = thread::scope(|scope| {
        let stop = &stop;
        let load = scope.spawn(move || {
            let mut keys = 0;
            while !stop.load(Ordering::Relaxed) {
                load();
                keys += 1;
            }
            keys
        });
        let (begin, mut nanos) = (Instant::now(), Vec::with_capacity(1 << 20));
        while begin.elapsed() < watch {
            let start = Instant::now();
            sign();
            nanos.push(start.elapsed().as_nanos() as u64);
        }
        stop.store(true, Ordering::Relaxed);
        (nanos, load.join().expect("no panic"))
    });
    nanos.sort_unstable();
    let at = |part| percentile(&nanos, part);
    Latency {
        row: row.to_owned(),
        signatures: nanos.len(),
        keys,
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: at(1.0),
    }
}
