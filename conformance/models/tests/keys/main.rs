//! An explorer of the calls that derive, digest, wrap and unwrap, in the tradition of Delaune,
//! Kremer and Steel ("Formal analysis of PKCS#11", 2008) and of Tookan (Bortolozzo, Centenaro,
//! Focardi, Steel, 2010). A key is a sequence of symbolic bytes. The explorer makes every key that
//! `DEPTH` calls can make, over the rows of the real table and by the real rules, and asks what
//! the attacker knows. With [`Rules::Old`], the rules of commit eb67fe51, it has to find the
//! attacks of the second review. Otherwise its silence would prove nothing.
//!
//! The attacker imports keys, sees the value of readable keys, and compares one-way results: equal
//! results show equal inputs. He guesses up to `GUESSED` bytes. Calls never disable other calls,
//! so the explorer needs no order: it counts the distinct calls behind each key.
//!
//! Simplifications, all in favour of the attacker: each mechanism accepts each key type, and a key
//! has every usage that the rules permit. A one-way result of a one-way result is not explored: it
//! is a fresh key, like the victim itself.

mod calls;
mod explorer;
mod images;
mod old;
mod types;

use std::collections::BTreeMap;
use std::time::Instant;

use explorer::{Attack, Explorer, OPEN, victims};
use jeton::mechanism::flow::{Integrity, Nonce, Secrecy};
use jeton::mechanism::rule::{self, Form, KeyState, Policy, Template, WrappingKey};
use jeton::mechanism::{self, Params};
use types::Types;

/// The length of the victim, and of a one-way result.
const LEN: usize = 32;
/// The lengths of the victim that key types read in another way.
const LENS: [usize; 3] = [16, 24, LEN];

/// Which rules decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Those of the token.
    Real,
    /// Those of commit eb67fe51.
    Old,
    /// Those of commit d77ec499: each key could have each type, and had a check value.
    Fourth,
    /// Those of commit cb7123e8: each mechanism opened every form, each unwrapped and derived key
    /// had every role, and a template hid the results of one derivation alone.
    Third,
}

/// Returns what the attacker finds for each victim under both policies, and the number of keys.
fn explore(rules: Rules, len: usize, victims: &[(&'static str, KeyState)]) -> (Found, usize) {
    let mut all = BTreeMap::new();
    let mut keys = 0;
    for policy in [Policy::Compatible, Policy::Strict] {
        for &(name, victim) in victims {
            let begin = Instant::now();
            let explorer = Explorer::new(rules, policy, victim, len).run();
            println!(
                "{rules:?} {policy:?} {name}, {len} bytes: {} kinds of calls, {} calls, {} keys, {} images, {:?}: {:?}",
                explorer.calls.len(),
                explorer.tried,
                explorer.keys.len(),
                explorer.images.len(),
                begin.elapsed(),
                explorer.found,
            );
            keys += explorer.keys.len();
            all.insert((name, policy == Policy::Strict), explorer.found);
        }
    }
    (all, keys)
}

/// The attacks by victim, and by whether the policy is strict.
type Found = BTreeMap<(&'static str, bool), BTreeMap<Attack, String>>;

/// Returns the pairs of wrappings that read a key which only a trusted key may wrap: H1.
fn wrapping_attacks(rules: Rules) -> Vec<String> {
    let victim = KeyState { with_trusted: true, extractable: true, ..victims()[0].1 };
    let ways: Vec<_> = mechanism::all()
        .filter_map(|row| row.wrapping(&Params::None).map(|wrapping| (row.id, wrapping)))
        .flat_map(|(id, wrapping)| {
            [(Nonce::Token, LEN), (Nonce::Caller, LEN), (Nonce::Caller, 8)]
                .map(|(nonce, len)| (id, len, wrapping.secrecy(nonce, len)))
        })
        .collect();
    let may = |secrecy, role, key: &KeyState| match rules {
        Rules::Old => true,
        _ => rule::wrap(secrecy, role, key).is_ok(),
    };
    let mut found = Vec::new();
    for role in [WrappingKey::Dedicated, WrappingKey::Shared] {
        for (id, _, secrecy) in
            ways.iter().filter(|(_, len, secrecy)| *len == LEN && may(*secrecy, role, &victim))
        {
            let own = |wanted: &[Secrecy]| {
                role == WrappingKey::Shared
                    || ways.iter().any(|(_, _, other)| wanted.contains(other) && may(*other, role, &OPEN))
            };
            let read = match secrecy {
                Secrecy::Whole => false,
                Secrecy::Parts => true,
                // A key stream under the same nonce, or the block that makes it.
                Secrecy::CallerNonce | Secrecy::TokenNonce => own(&[Secrecy::CallerNonce, Secrecy::Parts]),
            };
            if read {
                found.push(format!("{id} {secrecy:?} {role:?}"));
            }
        }
    }
    found
}

/// Returns the unwrappings that read a key by changing the wrapped bytes, although a template makes
/// it unreadable: M5.
fn unwrapping_attacks(rules: Rules) -> Vec<String> {
    let rows =
        mechanism::all().filter_map(|row| row.wrapping(&Params::None).map(|wrapping| (row.id, wrapping)));
    rows.flat_map(|(id, wrapping)| [4, 8, 12, 16].map(|tag| (id, tag, wrapping.integrity(tag))))
        .filter(|(_, _, integrity)| *integrity == Integrity::Malleable)
        .filter(|(_, _, integrity)| {
            let unwraps = rule::unwrap(*integrity, Form::Alone, Template::Protects, Policy::Compatible);
            rules == Rules::Old || unwraps.is_ok()
        })
        .map(|(id, tag, _)| format!("{id} with a tag of {tag} bytes"))
        .collect()
}

#[test]
fn no_sequence_of_calls_reads_an_unreadable_key() {
    for len in LENS {
        let (found, keys) = explore(Rules::Real, len, &victims());
        let found: Vec<_> = found.into_iter().filter(|(_, found)| !found.is_empty()).collect();
        assert!(found.is_empty(), "{found:?}");
        assert!(keys > 100, "{keys} keys");
    }
    assert_eq!(wrapping_attacks(Rules::Real), [""; 0]);
    assert_eq!(unwrapping_attacks(Rules::Real), [""; 0]);
}

#[test]
fn the_explorer_finds_the_attacks_on_the_rules_of_the_second_review() {
    let (found, _) = explore(Rules::Old, LEN, &victims());
    let has =
        |name, strict, attack| assert!(found[&(name, strict)].contains_key(&attack), "{name} {attack:?}");
    for strict in [false, true] {
        has("never extractable", strict, Attack::Inverted);
        has("CKA_DERIVE_TEMPLATE", strict, Attack::Digested);
    }
    has("never extractable", false, Attack::Compared);
    has("never extractable", true, Attack::Compared);
    has("CKA_DERIVE_TEMPLATE", true, Attack::ComparedResults);
    has("CKA_WRAP_WITH_TRUSTED", false, Attack::Laundered);
    has("CKA_DERIVE_TEMPLATE", false, Attack::Derived);
    assert!(!wrapping_attacks(Rules::Old).is_empty());
    assert!(!unwrapping_attacks(Rules::Old).is_empty());
}

#[test]
fn the_explorer_finds_the_attacks_on_the_rules_of_the_third_review() {
    let (found, _) = explore(Rules::Third, LEN, &victims());
    let has =
        |name, strict, attack| assert!(found[&(name, strict)].contains_key(&attack), "{name} {attack:?}");
    has("CKA_WRAP_WITH_TRUSTED", false, Attack::Opened);
    has("CKA_WRAP_WITH_TRUSTED", true, Attack::Opened);
    has("CKA_WRAP_WITH_TRUSTED", true, Attack::Signed);
    has("CKA_WRAP_WITH_TRUSTED", false, Attack::Compared);
    has("CKA_DERIVE_TEMPLATE", false, Attack::Composed);
}

#[test]
fn the_explorer_finds_the_attacks_on_the_rules_of_the_fourth_review() {
    for len in LENS {
        let [victim, .., counted] = victims();
        let (found, _) = explore(Rules::Fourth, len, &[victim, counted]);
        // A HOTP key derived and was digested, and a trusted key wrapped it.
        assert!(found[&(counted.0, false)].contains_key(&Attack::Uncounted), "{len}");
        let has = |attack| found[&(victim.0, false)].contains_key(&attack);
        // K1 and K2: an XOR, a concatenation with 8 bytes, the start in IKE.
        assert!(has(Attack::Parts), "{len}");
        // K3. The start of a key does not derive.
        assert!(has(Attack::Parity) || len == LEN, "{len}");
        // K4.
        assert!(has(Attack::Chosen) || len != 16, "{len}");
        // The parity of a derived key shows under both policies.
        let strict = &found[&(victim.0, true)];
        assert!(strict.keys().all(|attack| *attack == Attack::ComparedResults), "{len}");
    }
}

#[test]
fn each_call_under_strict_leads_from_types_to_types() {
    let types = Types::check(Rules::Real);
    println!("{} calls", types.tried);
    assert!(types.found.is_empty(), "{:#?}", types.found);
    assert!(types.tried > 500, "{} calls", types.tried);
}

#[test]
fn the_rules_of_the_third_review_leave_the_types() {
    let types = Types::check(Rules::Third);
    println!("{} calls, {:#?}", types.tried, types.found);
    for call in [
        // H2: the head of a hybrid form.
        "CKA_UNWRAP: CKM_RSA_PKCS_OAEP opens the head of what CKM_RSA_AES_KEY_WRAP wrapped",
        // H3: the key that derives signs.
        "C_UnwrapKey: derive CKK_GENERIC_SECRET",
        // H4: KW and KWP.
        "C_UnwrapKey: CKM_AES_KEY_WRAP under an initial value of the caller",
        // M4 of the second review.
        "C_DeriveKey twice",
        "an agreement twice",
        "C_GenerateKeyPair",
        // A code by a key that is derived is the value of another one.
        "C_DeriveKey in steps",
    ] {
        assert!(types.found.iter().any(|found| found.starts_with(call)), "{call}");
    }
}
