//! Key generation and key encapsulation.

use jeton::backend::MlKem;

use super::signatures::{destroy, with};
use super::{Fixture, rows_of};
use crate::baseline::{self, MlKemPair, random};
use crate::names::BASELINE;
use crate::operation::repeated;
use crate::scheme::{Kind, PAIRS, Pair, named};
use crate::suite::{Rows, Suite};
use crate::target::Home;

pub(super) fn run(suite: &mut Suite, fixture: &Fixture) {
    let targets = fixture.targets();
    for pair in PAIRS {
        let group = format!("generate/{}", pair.name);
        let too_slow = suite.settings.short && pair.slow_to_make && !suite.filtered();
        if too_slow || !suite.wants(&group) {
            continue;
        }
        let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(baseline::generating(pair)))];
        rows.extend(rows_of(&targets, |target| target.generating(pair, Home::Session)));
        suite.compare(&group, None, rows);
    }
    if suite.wants("generate/p256-token") {
        let rows = rows_of(&targets, |target| target.generating(named("p256"), Home::Token));
        suite.compare("generate/p256-token", None, rows);
    }
    if suite.wants("generate/aes256") {
        let mut key = [0; 32];
        let mut rows: Rows<'_> = vec![(BASELINE.to_owned(), Ok(repeated(move || random(&mut key))))];
        rows.extend(rows_of(&targets, |target| target.generating_aes(Home::Session)));
        suite.compare("generate/aes256", None, rows);
    }
    if suite.wants("generate/aes256-token") {
        let rows = rows_of(&targets, |target| target.generating_aes(Home::Token));
        suite.compare("generate/aes256-token", None, rows);
    }
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
    let mut rows: Rows<'_> =
        vec![(BASELINE.to_owned(), Ok(repeated(|| baseline.encapsulate(&mut out, &mut into))))];
    rows.extend(
        targets.iter().zip(&keys).map(|(target, keys)| {
            (target.row().to_owned(), with(keys, |keys| target.encapsulating(set, keys)))
        }),
    );
    suite.compare(&encapsulate, None, rows);

    let mut into = [0; 32];
    let mut rows: Rows<'_> =
        vec![(BASELINE.to_owned(), Ok(repeated(|| baseline.decapsulate(&ciphertext, &mut into))))];
    rows.extend(
        targets.iter().zip(&keys).map(|(target, keys)| {
            (target.row().to_owned(), with(keys, |keys| target.decapsulating(set, keys)))
        }),
    );
    suite.compare(&decapsulate, None, rows);
    // If the filter leaves out the second group, no call above has filled `into`.
    baseline.decapsulate(&ciphertext, &mut into);
    assert_eq!(into, secret, "the baseline decapsulates what it encapsulated");
    targets.iter().zip(keys).for_each(|(target, keys)| destroy(*target, keys));
}
