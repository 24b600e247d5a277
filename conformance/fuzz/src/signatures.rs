//! Signatures of HSS, XMSS and XMSS^MT, which the core verifies with code of its own. The input
//! alters a published signature or its key: none but the original verifies. Or the input is the key
//! and the signature.

use std::sync::LazyLock;

use jeton::backend::{Provider, PublicParts, Scheme, Stateful};
use jeton_vectors::{Miss, Operation, PublicKey};

struct Signed {
    family: Stateful,
    key: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
}

static SIGNED: LazyLock<Vec<Signed>> = LazyLock::new(|| {
    let set = jeton_vectors::sets().into_iter().find(|set| set.name == "Stateful").expect("the set");
    let mut found = Vec::new();
    set.run(
        |operation| {
            if let Operation::Verify {
                key: PublicKey::Stateful { family, key }, message, signature, ..
            } = operation
            {
                let families = [Stateful::Hss, Stateful::Xmss, Stateful::XmssMt];
                let named = |one: &Stateful| format!("{one:?}").eq_ignore_ascii_case(family);
                let family = families.into_iter().find(named).expect("a family");
                let (key, message, signature) = (key.clone(), message.clone(), signature.clone());
                let signed = Signed { family, key, message, signature };
                if verifies(Provider::ALL[0], &signed) {
                    found.push(signed);
                }
            }
            Err::<(), _>(Miss::<()>::Inexpressible)
        },
        |()| Ok(String::new()),
    );
    assert!(!found.is_empty(), "a published signature");
    found
});

fn verifies(provider: &Provider, signed: &Signed) -> bool {
    let Signed { family, key, message, signature } = signed;
    let parts = PublicParts::Stateful { family: *family, key: key.clone() };
    let verifier = provider.keys.public(&parts).and_then(|key| key.verifier(&Scheme::Stateful(*family)));
    verifier.and_then(|mut verifier| verifier.verify(message, signature)).is_ok()
}

/// Reads an input: the number of a published signature, what happens to it, and bytes. A change is
/// a place in two bytes and what is added to the byte there.
pub fn read(bytes: &[u8]) {
    let [number, how, rest @ ..] = bytes else { return };
    let original = &SIGNED[usize::from(*number) % SIGNED.len()];
    let provider = Provider::ALL[usize::from(how / 8) % Provider::ALL.len()];
    let Signed { family, key, message, signature } = original;
    let (mut key, mut signature) = (key.clone(), signature.clone());
    match how % 8 {
        0..4 => change(&mut signature, rest),
        4 => change(&mut key, rest),
        5 => signature.truncate(rest.iter().fold(0, |len, byte| len << 4 ^ usize::from(*byte))),
        6 => signature.extend_from_slice(rest),
        _ => {
            let (first, second) = rest.split_at(rest.len().min(key.len()));
            (key, signature) = (first.to_vec(), second.to_vec());
        }
    }
    let is_changed = key != original.key || signature != original.signature;
    let altered = Signed { family: *family, key, message: message.clone(), signature };
    assert_eq!(verifies(provider, &altered), !is_changed, "{family:?}");
}

fn change(target: &mut [u8], changes: &[u8]) {
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % target.len();
        target[at] = target[at].wrapping_add(change[2]);
    }
}
