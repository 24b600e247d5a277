//! AES-GCM, ChaCha20-Poly1305, SHA-2, HMAC and random bytes.

use std::hint::black_box;

use criterion::Throughput;
use cryptoki_sys::CK_OBJECT_HANDLE;

use super::{Fixture, beside, keyed, rows_of};
use crate::baseline::{self, Hmac, Sealer, random};
use crate::operation::{Boxed, repeated};
use crate::scheme::{Aead, Digest};
use crate::suite::Suite;
use crate::target::{ModuleToken, Outcome};

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
    suite.compare("random/32", Some(Throughput::Bytes(32)), || {
        let mut out = [0; 32];
        let rows = rows_of(&fixture.targets(), |target| target.random(32));
        beside(repeated(move || random(&mut out)), rows)
    });
}

/// Measures encryption. The baseline prepares its key once. In every row each message has a new
/// nonce, because the ciphers require it.
fn seal<'a>(suite: &mut Suite, targets: &[&'a ModuleToken], name: &str, cipher: Aead, len: usize) {
    let operation = |target: &'a ModuleToken, key| target.sealing(cipher, key, len);
    let (baseline, key) =
        (|| baseline::sealing(cipher, len), |target: &ModuleToken| target.cipher_key(cipher));
    with_keys(suite, &format!("{name}/{len}"), targets, len, baseline, key, operation);
}

/// Encryption of messages with AES-GCM. The encryption begins once (`C_MessageEncryptInit`).
fn seal_messages<'a>(suite: &mut Suite, targets: &[&'a ModuleToken], len: usize) {
    let cipher = Aead::AesGcm;
    let operation = |target: &'a ModuleToken, key| target.sealing_messages(key, len);
    let (baseline, key) =
        (|| baseline::sealing(cipher, len), |target: &ModuleToken| target.cipher_key(cipher));
    with_keys(suite, &format!("aes-gcm-message/{len}"), targets, len, baseline, key, operation);
}

/// Measures the decryption of one ciphertext, with its tag.
fn open<'a>(suite: &mut Suite, targets: &[&'a ModuleToken], name: &str, cipher: Aead, len: usize) {
    let baseline = || {
        let sealer = Sealer::new(cipher, &[5; 32]);
        let (mut sealed, mut out, nonce) = (vec![0; len + 16], vec![0; len + 16], [1; 12]);
        sealer.seal(&nonce, &vec![0x5a; len], &mut sealed);
        repeated(move || {
            black_box(sealer.open(&nonce, black_box(&sealed), &mut out));
        })
    };
    let operation = |target: &'a ModuleToken, key| target.opening(cipher, key, len);
    let key = |target: &ModuleToken| target.cipher_key(cipher);
    with_keys(suite, &format!("{name}/{len}"), targets, len, baseline, key, operation);
}

fn digest(suite: &mut Suite, targets: &[&ModuleToken], name: &str, digest: Digest, len: usize) {
    suite.compare(&format!("{name}/{len}"), Some(Throughput::Bytes(len as u64)), || {
        let (input, mut out) = (vec![0; len], [0; 64]);
        let baseline = repeated(move || baseline::digest(digest, black_box(&input), black_box(&mut out)));
        beside(baseline, rows_of(targets, |target| target.digesting(digest, len)))
    });
}

fn code<'a>(suite: &mut Suite, targets: &[&'a ModuleToken], len: usize) {
    let baseline = || {
        let (mut hmac, input, mut out) = (Hmac::new(&[9; 32]), vec![0; len], [0; 32]);
        repeated(move || hmac.code(black_box(&input), black_box(&mut out)))
    };
    let operation = |target: &'a ModuleToken, key| target.coding(key, len);
    let key = |target: &ModuleToken| target.generic_secret();
    with_keys(suite, &format!("hmac-sha256/{len}"), targets, len, baseline, key, operation);
}

fn with_keys<'a>(
    suite: &mut Suite,
    group: &str,
    targets: &[&'a ModuleToken],
    len: usize,
    baseline: impl FnOnce() -> Boxed<'a>,
    key: impl Fn(&ModuleToken) -> Outcome<CK_OBJECT_HANDLE>,
    operation: impl Fn(&'a ModuleToken, CK_OBJECT_HANDLE) -> Outcome<Boxed<'a>>,
) {
    if !suite.wants(group) {
        return;
    }
    let keys: Vec<_> = targets.iter().map(|target| key(target)).collect();
    suite.compare(group, Some(Throughput::Bytes(len as u64)), || {
        beside(baseline(), keyed(targets, &keys, operation))
    });
    let made = targets.iter().zip(keys);
    made.filter_map(|(target, key)| Some((target, key.ok()?))).for_each(|(target, key)| target.destroy(key));
}
