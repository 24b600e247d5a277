//! Attacks on composite signatures (draft-ietf-lamps-pq-composite-sigs, 9): an attacker who can
//! forge one component must not forge the whole, and no component counts alone or for another
//! algorithm.

use cryptoki_sys::*;
use jeton_client::names::{
    CKK_JETON_COMPOSITE_ML_DSA, CKM_JETON_COMPOSITE_ML_DSA, CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN,
};
use jeton_client::{Mechanism, Structure};

use super::keys::Guarded::{Kept, Wrappable};
use super::keys::{Guarded, Handles, Pair, Template, bytes, flag, head, number};
use super::tools::{KWP, named};
use super::{Attacker, Setup, Table};
use crate::fixture::ED25519;

const SOURCE: &str = "LAMPS composite signatures";
const COMPOSITE: CK_MECHANISM_TYPE = CKM_JETON_COMPOSITE_ML_DSA;
const NEEDS: [CK_MECHANISM_TYPE; 2] = [COMPOSITE, CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN];
const MESSAGE: &[u8] = b"message";
/// ML-DSA-44 with Ed25519, and with P-256.
const WITH_ED25519: CK_ULONG = 39;
const WITH_P256: CK_ULONG = 40;
/// ML-DSA-65 with two paddings of RSA: the keys have the same form.
const WITH_PSS: CK_ULONG = 41;
const WITH_PKCS1: CK_ULONG = 42;
/// The lengths of a public key and of a signature of ML-DSA-44.
const KEY: usize = 1312;
const SIGNATURE: usize = 2420;

pub fn attacks(t: &Table) {
    for (set, name) in [(WITH_ED25519, "Ed25519"), (WITH_P256, "P-256")] {
        one_component(t, set, name);
    }
    other_inputs(t);
    alone(t);
}

fn pair(set: CK_ULONG, guarded: Guarded) -> Pair {
    let public = [number(CKA_PARAMETER_SET, set), flag(CKA_VERIFY, true)];
    let made = Pair::of(CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN, public, [flag(CKA_SIGN, true)]);
    Pair { private: made.private.guarded(guarded), ..made }
}

/// Attacks with a signature that has one valid component.
fn one_component(t: &Table, set: CK_ULONG, name: &str) {
    let keys = (pair(set, Kept), pair(set, Kept));
    for (valid, is_first) in [("ML-DSA", true), (name, false)] {
        let row = |how: &str| {
            let title = format!("forge a composite of ML-DSA and {name} with a valid {valid}, {how}");
            t.row(SOURCE, title, &NEEDS, keys.clone())
        };
        let forge = |make: fn(&[u8], &[u8]) -> Vec<u8>| {
            move |a: &Attacker<'_>, ((public, private), (_, other)): (Handles, Handles)| {
                let good = a.signed(COMPOSITE, private, MESSAGE).setup()?;
                let foreign = a.signed(COMPOSITE, other, MESSAGE).setup()?;
                let forged = if is_first {
                    [&good[..SIGNATURE], &make(&foreign[SIGNATURE..], &good[SIGNATURE..])].concat()
                } else {
                    [&make(&foreign[..SIGNATURE], &good[..SIGNATURE])[..], &good[SIGNATURE..]].concat()
                };
                a.verifies(COMPOSITE, public, MESSAGE, &forged)
            }
        };
        row("and one of another key").holds(forge(|foreign, _| foreign.to_vec()));
        row("and zeros").holds(forge(|_, own| vec![0; own.len()]));
        row("and a cut one").holds(forge(|_, own| own[..own.len() - 1].to_vec()));
        row("alone").holds(forge(|_, _| Vec::new()));
    }
}

fn in_context(context: &[u8]) -> Mechanism {
    Structure::new().number(CKH_HEDGE_PREFERRED).bytes(context).mechanism(COMPOSITE)
}

/// Attacks that use a signature with another context, or with another algorithm.
fn other_inputs(t: &Table) {
    let rows: [(&str, &[u8], &[u8]); 4] = [
        ("without its context", b"", MESSAGE),
        ("with another context", b"CONTEXT", MESSAGE),
        ("with its context in the message", b"", b"contextmessage"),
        ("with the message in its context", b"contextmessage", b""),
    ];
    for (what, context, message) in rows {
        let title = format!("verify a composite signature {what}");
        t.row(SOURCE, title, &NEEDS, pair(WITH_ED25519, Kept)).holds(move |a, (public, private)| {
            let signature = a.signed(in_context(b"context"), private, MESSAGE).setup()?;
            a.verifies(in_context(context), public, message, &signature)
        });
    }
    let title = "verify a composite signature with the label of another algorithm";
    t.row(SOURCE, title, &NEEDS, pair(WITH_PSS, Kept)).holds(|a, (public, private)| {
        let signature = a.signed(COMPOSITE, private, MESSAGE).setup()?;
        let other = head(CKO_PUBLIC_KEY, CKK_JETON_COMPOSITE_ML_DSA).and([
            number(CKA_PARAMETER_SET, WITH_PKCS1),
            bytes(CKA_VALUE, a.value(public).setup()?),
            flag(CKA_VERIFY, true),
        ]);
        a.verifies(COMPOSITE, a.import(other)?, MESSAGE, &signature)
    });
}

/// Attacks that use a component of a key or of a signature by itself.
fn alone(t: &Table) {
    for with in [CKM_ML_DSA, CKM_EDDSA] {
        let title = format!("sign with a component of a composite key, {}", named(with));
        t.row(SOURCE, title, &[&NEEDS[..], &[with]].concat(), pair(WITH_ED25519, Kept))
            .accepted(move |a, (_, private)| a.signed(with, private, MESSAGE));
        let title = format!("strip a composite signature to a component, {}", named(with));
        t.row(SOURCE, title, &[&NEEDS[..], &[with]].concat(), pair(WITH_ED25519, Kept)).holds(
            move |a, (public, private)| {
                let signature = a.signed(COMPOSITE, private, MESSAGE).setup()?;
                let value = a.value(public).setup()?;
                let (key, signature) = if with == CKM_ML_DSA {
                    let numbers = [number(CKA_PARAMETER_SET, CKP_ML_DSA_44), bytes(CKA_VALUE, &value[..KEY])];
                    (head(CKO_PUBLIC_KEY, CKK_ML_DSA).and(numbers), &signature[..SIGNATURE])
                } else {
                    let point = [&[4, 32], &value[KEY..]].concat();
                    let numbers = [bytes(CKA_EC_PARAMS, ED25519), bytes(CKA_EC_POINT, point)];
                    (head(CKO_PUBLIC_KEY, CKK_EC_EDWARDS).and(numbers), &signature[SIGNATURE..])
                };
                let key = a.import(key.and([flag(CKA_VERIFY, true)])).setup()?;
                a.verifies(with, key, MESSAGE, signature)
            },
        );
    }
    let title = "copy a composite key as a key of ML-DSA";
    t.row(SOURCE, title, &NEEDS, pair(WITH_ED25519, Kept))
        .accepted(|a, (_, private)| a.copy(private, [number(CKA_KEY_TYPE, CKK_ML_DSA)]));
    let title = "unwrap a composite key as a key of ML-DSA";
    t.row(SOURCE, title, &[&NEEDS[..], &[KWP]].concat(), pair(WITH_ED25519, Wrappable)).accepted(
        |a, (_, private)| {
            let wrapping = a.generated(&[CKA_WRAP, CKA_UNWRAP]).setup()?;
            let wrapped = a.wrapped(KWP, wrapping, private).setup()?;
            let template: Template = head(CKO_PRIVATE_KEY, CKK_ML_DSA).and([flag(CKA_SIGN, true)]);
            a.unwrapped(KWP, wrapping, &wrapped, template)
        },
    );
}
