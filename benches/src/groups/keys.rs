//! Key generation and key encapsulation.

use jeton::backend::MlKem;

use super::signatures::destroy;
use super::{Fixture, beside, keyed, rows_of};
use crate::baseline::{self, MlKemPair, random};
use crate::operation::repeated;
use crate::scheme::{Kind, PAIRS, Pair, named};
use crate::suite::Suite;
use crate::target::Home;

pub(super) fn run(suite: &mut Suite, fixture: &Fixture) {
    let targets = fixture.targets();
    for pair in PAIRS {
        let group = format!("generate/{}", pair.name);
        let too_slow = suite.settings.short && pair.slow_to_make && !suite.filtered();
        if too_slow {
            continue;
        }
        suite.compare(&group, None, || {
            let rows = rows_of(&targets, |target| target.generating(pair, Home::Session));
            beside(baseline::generating(pair), rows)
        });
    }
    suite.compare("generate/p256-token", None, || {
        rows_of(&targets, |target| target.generating(named("p256"), Home::Token))
    });
    suite.compare("generate/aes256", None, || {
        let mut key = [0; 32];
        let rows = rows_of(&targets, |target| target.generating_aes(Home::Session));
        beside(repeated(move || random(&mut key)), rows)
    });
    suite.compare("generate/aes256-token", None, || {
        rows_of(&targets, |target| target.generating_aes(Home::Token))
    });
    for pair in PAIRS {
        encapsulation(suite, fixture, pair);
    }
}

/// Measures encapsulation and decapsulation. The shared secret is a session object; destroying it
/// is not timed.
fn encapsulation(suite: &mut Suite, fixture: &Fixture, pair: &Pair) {
    let Kind::MlKem(set) = pair.kind else { return };
    let suffix = match set {
        MlKem::MlKem512 => "-512",
        // Older results have this set, in groups without a suffix.
        MlKem::MlKem768 => "",
        MlKem::MlKem1024 => "-1024",
    };
    let [encapsulate, decapsulate] = ["encapsulate", "decapsulate"].map(|name| format!("kem/{name}{suffix}"));
    if !suite.wants(&encapsulate) && !suite.wants(&decapsulate) {
        return;
    }
    let (baseline, targets) = (MlKemPair::generate(set), fixture.targets());
    let keys: Vec<_> = targets.iter().map(|target| target.pair(pair)).collect();
    let (mut ciphertext, mut secret) = (vec![0; set.ciphertext_len()], [0; 32]);
    baseline.encapsulate(&mut ciphertext, &mut secret);

    let (mut out, mut into) = (ciphertext.clone(), [0; 32]);
    let first = repeated(|| baseline.encapsulate(&mut out, &mut into));
    suite.compare(&encapsulate, None, || {
        beside(first, keyed(&targets, &keys, |target, keys| target.encapsulating(set, keys)))
    });
    let mut into = [0; 32];
    let first = repeated(|| baseline.decapsulate(&ciphertext, &mut into));
    suite.compare(&decapsulate, None, || {
        beside(first, keyed(&targets, &keys, |target, keys| target.decapsulating(set, keys)))
    });
    // If the filter leaves out the second group, no call above has filled `into`.
    baseline.decapsulate(&ciphertext, &mut into);
    assert_eq!(into, secret, "the baseline decapsulates what it encapsulated");
    targets.iter().zip(keys).for_each(|(target, keys)| destroy(target, keys));
}
