//! Signatures and their verification.

use super::{Fixture, beside, keyed};
use crate::baseline::{self, BaselinePair};
use crate::independent;
use crate::names::BASELINE;
use crate::scheme::{PAIRS, Pair, Scheme};
use crate::suite::Suite;
use crate::target::{Keys, ModuleToken, Outcome, public_parts};

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
        let Some(baseline) = baseline::generate(pair.kind).filter(|_| !schemes.is_empty()) else {
            continue;
        };
        let mut targets = fixture.targets();
        let checked = targets.len();
        targets.extend(fixture.null().filter(|_| pair.name == "p256"));
        let keys: Vec<_> = targets.iter().map(|target| target.pair(pair)).collect();
        for scheme in schemes {
            check(pair, *scheme, &*baseline, &targets[..checked], &keys);
            let (sign, verify) = groups(scheme);
            let input = scheme.input(pair.kind);
            suite.compare(&sign, None, || {
                let rows = keyed(&targets, &keys, |target, keys| target.signing(pair, *scheme, keys));
                beside(baseline.signing(*scheme, input), rows)
            });
            suite.compare(&verify, None, || {
                let rows = keyed(&targets, &keys, |target, keys| target.verifying(pair, *scheme, keys));
                beside(baseline.verifying(*scheme, input), rows)
            });
        }
        targets.iter().zip(keys).for_each(|(target, keys)| destroy(target, keys));
    }
}

/// Both libraries verify the signature of each row before it is timed, except that of the null
/// backend.
fn check(
    pair: &Pair,
    scheme: Scheme,
    baseline: &dyn BaselinePair,
    targets: &[&ModuleToken],
    keys: &[Outcome<Keys>],
) {
    let signature = baseline.signature(scheme, scheme.input(pair.kind));
    independent::verify(BASELINE, &baseline.public(), scheme, pair.kind, &signature);
    for (target, keys) in targets.iter().zip(keys) {
        let Ok(keys) = keys else { continue };
        let Ok(signature) = target.signature(pair, scheme, *keys) else { continue };
        let public = public_parts(target, pair, *keys).unwrap_or_else(|reason| panic!("{reason}"));
        independent::verify(target.row(), &public, scheme, pair.kind, &signature);
    }
}

pub(super) fn destroy(target: &ModuleToken, keys: Outcome<Keys>) {
    if let Ok(keys) = keys {
        target.destroy(keys.public);
        target.destroy(keys.private);
    }
}
