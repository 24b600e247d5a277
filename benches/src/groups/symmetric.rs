//! AES-GCM, ChaCha20-Poly1305, SHA-2, HMAC and random bytes.

use std::hint::black_box;

use criterion::Throughput;
use cryptoki_sys::CK_OBJECT_HANDLE;

use super::{Fixture, rows_of};
use crate::baseline::{self, Hmac, Sealer, random};
use crate::names::BASELINE;
use crate::operation::{Boxed, repeated};
use crate::scheme::{Aead, Digest};
use crate::suite::{Rows, Suite};
use crate::target::{Outcome, Target};

/// The lengths of messages in bytes.
const LENGTHS: [usize; 3] = [256, 4096, 65_536];

pub(super) fn run(suite: &mut Suite, fixture: &Fixture) {
    let mut targets = fixture.targets();
    targets.extend(fixture.null());
    for len in LENGTHS {
        seal(suite, &targets, "aes-gcm", Aead::AesGcm, len);
        seal_messages(suite, &targets, len);
        open(suite, &targets, "aes-gcm-open", Aead::AesGcm, len);
        code(suite, &targets, len);
    }
    seal(suite, &targets, "chacha20-poly1305", Aead::ChaCha20Poly1305, 4096);
    open(suite, &targets, "chacha20-poly1305-open", Aead::ChaCha20Poly1305, 4096);
    for len in [32].into_iter().chain(LENGTHS) {
        digest(suite, &targets, "sha256", Digest::Sha256, len);
    }
    digest(suite, &targets, "sha512", Digest::Sha512, 4096);
    if suite.wants("random/32") {
        let mut out = [0; 32];
        let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(repeated(move || random(&mut out))))];
        rows.extend(rows_of(&fixture.targets(), |target| target.random(32)));
        suite.compare("random/32", Some(Throughput::Bytes(32)), rows);
    }
}

/// Measures encryption. The baseline prepares its key once. In every row each message has a new
/// nonce, because the ciphers require it.
fn seal<'a>(suite: &mut Suite, targets: &[&'a dyn Target], name: &str, cipher: Aead, len: usize) {
    let group = format!("{name}/{len}");
    if !suite.wants(&group) {
        return;
    }
    let operation = |target: &'a dyn Target, key| target.sealing(cipher, key, len);
    with_keys(suite, &group, targets, cipher, len, baseline_seal(cipher, len), operation);
}

/// Encryption of messages with AES-GCM. The encryption begins once (`C_MessageEncryptInit`).
fn seal_messages<'a>(suite: &mut Suite, targets: &[&'a dyn Target], len: usize) {
    let (group, cipher) = (format!("aes-gcm-message/{len}"), Aead::AesGcm);
    if !suite.wants(&group) {
        return;
    }
    let operation = |target: &'a dyn Target, key| target.sealing_messages(key, len);
    with_keys(suite, &group, targets, cipher, len, baseline_seal(cipher, len), operation);
}

fn baseline_seal(cipher: Aead, len: usize) -> Boxed<'static> {
    let sealer = Sealer::new(cipher, &[5; 32]);
    let (input, mut out, mut count, mut nonce) = (vec![0; len], vec![0; len + 16], 0u64, [0; 12]);
    repeated(move || {
        count += 1;
        nonce[..8].copy_from_slice(&count.to_ne_bytes());
        black_box(sealer.seal(&nonce, black_box(&input), &mut out));
    })
}

/// Measures the decryption of one ciphertext, with its tag.
fn open(suite: &mut Suite, targets: &[&dyn Target], name: &str, cipher: Aead, len: usize) {
    let group = format!("{name}/{len}");
    if !suite.wants(&group) {
        return;
    }
    let sealer = Sealer::new(cipher, &[5; 32]);
    let (mut sealed, mut out, nonce) = (vec![0; len + 16], vec![0; len + 16], [1; 12]);
    sealer.seal(&nonce, &vec![0x5a; len], &mut sealed);
    let baseline = repeated(move || {
        black_box(sealer.open(&nonce, black_box(&sealed), &mut out));
    });
    with_keys(suite, &group, targets, cipher, len, baseline, |target, key| target.opening(cipher, key, len));
}

/// Measures an operation with a key of each target, and destroys the keys.
fn with_keys<'a>(
    suite: &mut Suite,
    group: &str,
    targets: &[&'a dyn Target],
    cipher: Aead,
    len: usize,
    baseline: Boxed<'a>,
    operation: impl Fn(&'a dyn Target, CK_OBJECT_HANDLE) -> Outcome<Boxed<'a>>,
) {
    let keys: Vec<_> = targets.iter().map(|target| target.cipher_key(cipher)).collect();
    let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(baseline))];
    rows.extend(
        targets.iter().zip(&keys).map(|(target, key)| {
            (target.row().to_owned(), key.clone().and_then(|key| operation(*target, key)))
        }),
    );
    suite.compare(group, Some(Throughput::Bytes(len as u64)), rows);
    let made = targets.iter().zip(keys);
    made.filter_map(|(target, key)| Some((target, key.ok()?))).for_each(|(target, key)| target.destroy(key));
}

fn digest(suite: &mut Suite, targets: &[&dyn Target], name: &str, digest: Digest, len: usize) {
    let group = format!("{name}/{len}");
    if !suite.wants(&group) {
        return;
    }
    let (input, mut out) = (vec![0; len], [0; 64]);
    let baseline = repeated(move || baseline::digest(digest, black_box(&input), black_box(&mut out)));
    let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(baseline))];
    rows.extend(rows_of(targets, |target| target.digesting(digest, len)));
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
