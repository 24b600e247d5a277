//! Two signatures with one one-time key of HSS or LMS. They reveal parts of the key that sign other
//! messages (SP 800-208, 1.1; RFC 8554, 9). A token must not sign twice with one number, whatever
//! the application does.

use std::collections::BTreeSet;
use std::thread;

use cryptoki_sys::*;
use jeton_client::{Arg, Session};

use super::keys::Guarded::Kept;
use super::keys::{Pair, Template, flag, number};
use super::tools::{BUFFER, KWP, With};
use super::{Setup, Table};
use crate::fixture::{Answer, hss_levels};

const SOURCE: &str = "SP 800-208";
const HSS: CK_MECHANISM_TYPE = CKM_HSS;
const SIGNATURES: usize = 16;
const MESSAGE: &[u8] = b"message";

fn stored() -> Pair {
    let pair = Pair::of(CKM_HSS_KEY_PAIR_GEN, [flag(CKA_VERIFY, true)], [flag(CKA_TOKEN, true)]);
    Pair { private: pair.private.guarded(Kept).and(hss_levels()), ..pair }
}

/// Returns whether two signatures have the same one-time key. RFC 8554, 6.2: in a signature with
/// one level, its number is after the number of levels.
fn repeats(signatures: &[Vec<u8>]) -> bool {
    let numbers: BTreeSet<_> = signatures.iter().map(|signature| signature.get(4..8)).collect();
    numbers.len() < signatures.len()
}

pub fn attacks(t: &Table) {
    let row = |how: &str| {
        t.row(
            SOURCE,
            format!("sign twice with one one-time key, {how}"),
            &[CKM_HSS_KEY_PAIR_GEN, HSS],
            stored(),
        )
    };
    row("by two threads").holds(|a, (_, key)| {
        let sessions = [a.another().setup()?.session, a.another().setup()?.session];
        let mechanism = HSS.mechanism();
        let sign = |session: Session| {
            let one = || {
                let mut out = vec![0; BUFFER];
                session.sign_init(&mechanism, key)?;
                let length = session.sign(MESSAGE, &mut out)?;
                out.truncate(length);
                Ok(out)
            };
            (0..SIGNATURES).map(|_| one()).collect::<Answer<Vec<_>>>()
        };
        let [one, two] = thread::scope(|scope| {
            let sign = &sign;
            let threads = sessions.map(|session| scope.spawn(move || sign(session)));
            threads.map(|thread| thread.join().expect("a thread that does not panic"))
        });
        Ok(repeats(&[one?, two?].concat()))
    });
    row("by two operations that were started before").holds(|a, (_, key)| {
        let other = a.another().setup()?;
        a.sign_init(&HSS.mechanism(), key)?;
        other.sign_init(&HSS.mechanism(), key)?;
        Ok(repeats(&[a.transform("C_Sign", MESSAGE)?, other.transform("C_Sign", MESSAGE)?]))
    });
    row("by a saved state of the operation").holds(|a, (_, key)| {
        a.sign_init(&HSS.mechanism(), key)?;
        let state = a.output("C_GetOperationState", vec![])?;
        let again = || {
            let arguments = vec![Arg::Bytes(&state), Arg::Number(0), Arg::Number(key.0)];
            a.call("C_SetOperationState", arguments)?;
            a.transform("C_Sign", MESSAGE)
        };
        Ok(repeats(&[again()?, again()?]))
    });
    row("by a copy of the key").holds(|a, (_, key)| {
        let copy = a.copy(key, [flag(CKA_TOKEN, false)])?;
        Ok(repeats(&[a.signed(HSS, key, MESSAGE)?, a.signed(HSS, copy, MESSAGE)?]))
    });
    row("by a higher number of keys that remain").holds(|a, (_, key)| {
        let signature = a.signed(HSS, key, MESSAGE)?;
        a.set(key, [number(CKA_HSS_KEYS_REMAINING, 32)])?;
        Ok(repeats(&[signature, a.signed(HSS, key, MESSAGE)?]))
    });
    row("by unwrapping the key").holds(|a, (_, key)| {
        let wrapping = a.generated(&[CKA_WRAP, CKA_UNWRAP]).setup()?;
        let wrapped = a.wrapped(KWP, wrapping, key)?;
        let template = Template::from([
            number(CKA_CLASS, CKO_PRIVATE_KEY),
            number(CKA_KEY_TYPE, CKK_HSS),
            flag(CKA_TOKEN, false),
            flag(CKA_SIGN, true),
        ]);
        let again = a.unwrapped(KWP, wrapping, &wrapped, template)?;
        Ok(repeats(&[a.signed(HSS, key, MESSAGE)?, a.signed(HSS, again, MESSAGE)?]))
    });
}
