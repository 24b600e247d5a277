//! Signatures and their verification.

use super::Fixture;
use crate::baseline::BaselinePair;
use crate::independent;
use crate::names::BASELINE;
use crate::scheme::{Kind, PAIRS, Pair, Scheme};
use crate::suite::{Rows, Suite};
use crate::target::{Keys, Outcome, Target, public_parts};

pub(super) fn run(suite: &mut Suite, fixture: &Fixture) {
    for pair in PAIRS {
        let groups = |scheme: &Scheme| {
            let name = format!("{}{}", pair.name, scheme.suffix());
            (format!("sign/{name}"), format!("verify/{name}"))
        };
        let wanted = |scheme: &&Scheme| {
            let (sign, verify) = groups(scheme);
            suite.wants(&sign) || suite.wants(&verify)
        };
        let schemes: Vec<_> = pair.schemes.iter().filter(wanted).collect();
        let Some(baseline) = BaselinePair::generate(pair.kind).filter(|_| !schemes.is_empty()) else {
            continue;
        };
        let targets = fixture.targets();
        let keys: Vec<_> = targets.iter().map(|target| target.pair(pair)).collect();
        let null = fixture.null().filter(|_| pair.name == "p256").map(|null| (null, null.pair(pair)));
        for scheme in schemes {
            check(pair, *scheme, &baseline, &targets, &keys);
            let (sign, verify) = groups(scheme);
            let each =
                targets.iter().copied().zip(&keys).chain(null.iter().map(|(null, keys)| (*null, keys)));
            let each: Vec<_> = each.collect();

            let mut rows: Rows<'_> =
                vec![(BASELINE.to_owned(), Ok(baseline.signing(*scheme, scheme.input(pair.kind))))];
            rows.extend(each.iter().map(|(target, keys)| {
                let signing = with(keys, |keys| target.signing(pair, *scheme, keys));
                (target.row().to_owned(), signing)
            }));
            suite.compare(&sign, None, rows);

            let mut rows: Rows<'_> =
                vec![(BASELINE.to_owned(), Ok(baseline.verifying(*scheme, scheme.input(pair.kind))))];
            rows.extend(each.iter().map(|(target, keys)| {
                let verifying = with(keys, |keys| target.verifying(pair, *scheme, keys));
                (target.row().to_owned(), verifying)
            }));
            suite.compare(&verify, None, rows);
        }
        let made = targets.iter().copied().zip(keys).chain(null);
        made.for_each(|(target, keys)| destroy(target, keys));
    }
}

/// Both libraries verify the signature of each row before it is timed, except that of the null
/// backend.
fn check(
    pair: &Pair,
    scheme: Scheme,
    baseline: &BaselinePair,
    targets: &[&dyn Target],
    keys: &[Outcome<Keys>],
) {
    // SLH-DSA is the same crate on both sides, so there is no second library.
    if matches!(pair.kind, Kind::SlhDsa(_)) {
        return;
    }
    let signature = baseline.signature(scheme, scheme.input(pair.kind));
    independent::verify(BASELINE, &baseline.public(), scheme, pair.kind, &signature);
    for (target, keys) in targets.iter().zip(keys) {
        let Ok(keys) = keys else { continue };
        let Ok(signature) = target.signature(pair, scheme, *keys) else { continue };
        let public = public_parts(*target, pair, *keys).unwrap_or_else(|reason| panic!("{reason}"));
        independent::verify(target.row(), &public, scheme, pair.kind, &signature);
    }
}

/// Calls `operation` with the keys of a row, or returns the reason why the row has no keys.
pub(super) fn with<T>(keys: &Outcome<Keys>, operation: impl FnOnce(Keys) -> Outcome<T>) -> Outcome<T> {
    keys.as_ref().map_err(Clone::clone).and_then(|keys| operation(*keys))
}

pub(super) fn destroy(target: &dyn Target, keys: Outcome<Keys>) {
    if let Ok(keys) = keys {
        target.destroy(keys.public);
        target.destroy(keys.private);
    }
}
