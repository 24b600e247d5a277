//! A token works with each backend: a token of one backend opens and signs with the other.

use crate::mechanisms::{cases, message};
use crate::prelude::*;

/// Returns all pairs of different backends.
fn crossed() -> impl Iterator<Item = (&'static Provider, &'static Provider)> {
    let all = || Provider::ALL.iter().copied();
    all().flat_map(move |a| all().filter(move |b| b.name != a.name).map(move |b| (a, b)))
}

#[test]
fn a_token_of_one_backend_signs_with_the_other() {
    for (maker, user) in crossed() {
        println!("made under {}, used under {}", maker.name, user.name);
        let made = Client::new(maker);
        let session = made.user();
        for kind in Kind::PAIRS.into_iter().chain(Kind::SECRETS) {
            pair(&made, session, kind, &none().stored().label(&format!("{kind:?}")));
        }
        let used = Client::beside(&made.directory, user, ", mechanisms = { legacy = true }");
        let there = used.user();
        for case in cases() {
            for kind in case.kinds {
                let label = none().label(&format!("{kind:?}"));
                let key = |client: &Client, session, usage| {
                    client.find_one(session, &label.clone().flag(usage, true))
                };
                let data = message(case.message, 3);
                let here_key = key(&made, session, A::SIGN);
                let there_key = key(&used, there, A::SIGN);
                let here_signed = made.sign(session, &case.mechanism, here_key, &data).expect("a signature");
                let there_signed = used.sign(there, &case.mechanism, there_key, &data).expect("a signature");
                let id = case.mechanism.info.id;
                assert!(!case.repeats || here_signed == there_signed, "{id} with {kind:?}");
                let here_public = key(&made, session, A::VERIFY);
                let there_public = key(&used, there, A::VERIFY);
                let verified = made.verify(session, &case.mechanism, here_public, &data, &there_signed);
                assert_eq!(verified, Ok(()), "{id} with {kind:?}");
                let verified = used.verify(there, &case.mechanism, there_public, &data, &here_signed);
                assert_eq!(verified, Ok(()), "{id} with {kind:?}");
            }
        }
    }
}

#[test]
fn both_backends_store_the_same_key_parts() {
    for (maker, user) in crossed() {
        let made = Client::new(maker);
        let session = made.user();
        let used = Client::beside(&made.directory, user, "");
        for kind in Kind::PAIRS {
            let (public, _) = pair(&made, session, kind, &none().stored().label(&format!("{kind:?}")));
            let there = used.open();
            let wanted = none().label(&format!("{kind:?}")).flag(A::VERIFY, true);
            let same = used.find_one(there, &wanted);
            for id in [A::MODULUS, A::EC_POINT, A::EC_PARAMS, A::VALUE, A::PARAMETER_SET, A::UNIQUE_ID] {
                assert_eq!(used.read(there, same, id), made.read(session, public, id), "{kind:?} {id}");
            }
        }
    }
}
