//! AES-GCM, SHA-256, HMAC and random bytes.

use std::hint::black_box;

use criterion::Throughput;

use super::{Fixture, rows_of};
use crate::baseline::{Hmac, Sealer, random, sha256};
use crate::names::BASELINE;
use crate::operation::repeated;
use crate::suite::{Rows, Suite};
use crate::target::Target;

/// The lengths of messages in bytes.
const LENGTHS: [usize; 3] = [256, 4096, 65_536];

pub(super) fn run(suite: &mut Suite, fixture: &Fixture) {
    let mut targets = fixture.targets();
    targets.extend(fixture.null());
    for len in LENGTHS {
        seal(suite, &targets, len);
        code(suite, &targets, len);
    }
    for len in [32].into_iter().chain(LENGTHS) {
        digest(suite, &targets, len);
    }
    if suite.wants("random/32") {
        let mut out = [0; 32];
        let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(repeated(move || random(&mut out))))];
        rows.extend(rows_of(&fixture.targets(), |target| target.random(32)));
        suite.compare("random/32", Some(Throughput::Bytes(32)), rows);
    }
}

/// The key is prepared once. Each message has a new nonce, because GCM requires it.
fn seal(suite: &mut Suite, targets: &[&dyn Target], len: usize) {
    let group = format!("aes-gcm/{len}");
    if !suite.wants(&group) {
        return;
    }
    let keys: Vec<_> = targets.iter().map(|target| target.aes_key()).collect();
    let sealer = Sealer::new(&[5; 32]);
    let (input, mut out, mut count, mut nonce) = (vec![0; len], vec![0; len + 16], 0u64, [0; 12]);
    let baseline = repeated(move || {
        count += 1;
        nonce[..8].copy_from_slice(&count.to_ne_bytes());
        black_box(sealer.seal(&nonce, black_box(&input), &mut out));
    });
    let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(baseline))];
    rows.extend(targets.iter().zip(&keys).map(|(target, key)| {
        let sealing = key.clone().and_then(|key| target.sealing(key, len));
        (target.row().to_owned(), sealing)
    }));
    suite.compare(&group, Some(Throughput::Bytes(len as u64)), rows);
    let made = targets.iter().zip(keys);
    made.filter_map(|(target, key)| Some((target, key.ok()?))).for_each(|(target, key)| target.destroy(key));
}

fn digest(suite: &mut Suite, targets: &[&dyn Target], len: usize) {
    let group = format!("sha256/{len}");
    if !suite.wants(&group) {
        return;
    }
    let (input, mut out) = (vec![0; len], [0; 32]);
    let baseline = repeated(move || sha256(black_box(&input), black_box(&mut out)));
    let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(baseline))];
    rows.extend(rows_of(targets, |target| target.digesting(len)));
    suite.compare(&group, Some(Throughput::Bytes(len as u64)), rows);
}

fn code(suite: &mut Suite, targets: &[&dyn Target], len: usize) {
    let group = format!("hmac-sha256/{len}");
    if !suite.wants(&group) {
        return;
    }
    let keys: Vec<_> = targets.iter().map(|target| target.generic_secret()).collect();
    let (mut hmac, input, mut out) = (Hmac::new(&[9; 32]), vec![0; len], [0; 32]);
    let baseline = repeated(move || hmac.code(black_box(&input), black_box(&mut out)));
    let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(baseline))];
    rows.extend(targets.iter().zip(&keys).map(|(target, key)| {
        let coding = key.clone().and_then(|key| target.coding(key, len));
        (target.row().to_owned(), coding)
    }));
    suite.compare(&group, Some(Throughput::Bytes(len as u64)), rows);
    let made = targets.iter().zip(keys);
    made.filter_map(|(target, key)| Some((target, key.ok()?))).for_each(|(target, key)| target.destroy(key));
}
