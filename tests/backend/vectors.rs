//! Published vectors that `conformance/src/vectors.rs` leaves out: no mechanism can express them,
//! such as ECDSA with SHAKE, or they are slow. The suite runs all others with each backend.

use std::fmt::Debug;

use jeton_vectors::{self as vectors, Miss, Operation, Parameter, PublicKey, Scheme as Published, Tally};

use crate::support::*;

#[test]
fn vectors_without_a_mechanism_have_the_expected_results() {
    let sets = vectors::sets();
    let partly = ["AesGcm", "AesKeyWrap"];
    let sets = sets.iter().filter(|set| {
        set.is_for_backends() || partly.iter().any(|beginning| set.name.starts_with(beginning))
    });
    for (set, provider) in sets.flat_map(|set| Provider::ALL.iter().map(move |provider| (set, provider))) {
        let describe = |error: &Error| match error {
            Error::DeviceError | Error::GeneralError => Err(format!("{error:?}")),
            refusal => Ok(format!("{refusal:?}")),
        };
        let Tally { executed, skipped, deviations, outdated } =
            set.run(|operation| carry_out(provider, operation), describe);
        let what = format!("{}: {}", provider.name, set.name);
        println!("{what}: {executed} vectors, {skipped} skipped");
        assert!(executed > 0, "{what} is empty");
        let unlisted: Vec<_> = deviations.iter().filter(|one| one.reason.is_none()).collect();
        assert!(unlisted.is_empty(), "{what}: {unlisted:#?}");
        assert!(outdated.is_empty(), "{what}: no deviation: {outdated:?}");
    }
}

fn carry_out(provider: &Provider, operation: &Operation) -> std::result::Result<(), Miss<Error>> {
    match operation {
        Operation::Verify { key, scheme, message, signature } => {
            let (scheme, name) = match scheme {
                Published::Pkcs1 { hash: name } => (Scheme::RsaPkcs1 { hash: Some(hash(name)) }, name),
                Published::Ecdsa { hash } => (Scheme::Ecdsa, hash),
                other => panic!("{other:?}"),
            };
            let key = provider.keys.public(&public(key)).expect("a valid key");
            let input = digest(provider, hash(name), message);
            Ok(key.verifier(&scheme)?.verify(&input, signature)?)
        }
        Operation::Crypt { cipher, parameter: Parameter { iv, aad, tag_len, .. }, key, plain, sealed } => {
            let scheme = match &cipher[..] {
                // PKCS#11 2.40 has no longer nonces.
                "AES-GCM" if iv.len() > 256 => {
                    let (nonce, aad) = (iv[..].into(), aad[..].into());
                    let (cipher, tag_len, data_len) = (AeadScheme::AesGcm, *tag_len, plain.len());
                    CipherScheme::Aead { cipher, nonce, aad, tag_len, data_len }
                }
                // A key has a value.
                "AES-WRAP" if plain.is_empty() => CipherScheme::AesKw { iv: None, padded: false },
                "AES-KWP" if plain.is_empty() => CipherScheme::AesKwp { iv: None },
                _ => return Err(Miss::Inexpressible),
            };
            let opened = crypt(provider, &scheme, Direction::Decrypt, key, sealed)?;
            let made = crypt(provider, &scheme, Direction::Encrypt, key, plain)?;
            if (&opened, &made) == (plain, sealed) { Ok(()) } else { Err(Miss::Differs) }
        }
        other => panic!("{other:?}"),
    }
}

fn public(key: &PublicKey) -> PublicParts {
    match key {
        PublicKey::Rsa { n, e } => PublicParts::Rsa { n: n.clone(), e: e.clone() },
        PublicKey::Ec { curve: on, point } => PublicParts::Ec { curve: curve(on), point: point.clone() },
        other => panic!("{other:?}"),
    }
}

fn curve(curve: &vectors::Curve) -> Curve {
    match curve.name {
        "secp224r1" => Curve::P224,
        "secp256r1" => Curve::P256,
        "secp384r1" => Curve::P384,
        "secp521r1" => Curve::P521,
        "secp256k1" => Curve::Secp256k1,
        other => panic!("a curve without vectors here: {other}"),
    }
}

fn stateful(family: &str) -> Stateful {
    named([Stateful::Hss, Stateful::Xmss, Stateful::XmssMt], family).expect("a family")
}

/// Changes each byte of the shorter signatures and their keys, and cuts them at each length.
#[test]
fn a_changed_stateful_signature_or_key_is_refused() {
    let set = vectors::sets().into_iter().find(|set| set.name == "Stateful").expect("the set");
    let mut tried = 0;
    set.run(
        |operation| {
            let Operation::Verify { key, scheme: Published::Stateful { family }, message, signature } =
                operation
            else {
                panic!("another operation");
            };
            let provider = Provider::ALL[tried % Provider::ALL.len()];
            let (PublicKey::Stateful { key, .. }, family) = (key, stateful(family)) else { panic!("a key") };
            let check = |key: &[u8], signature: &[u8]| {
                let parts = PublicParts::Stateful { family, key: key.to_vec() };
                verify(provider, &parts, &Scheme::Stateful(family), message, signature)
            };
            let outcome = check(key, signature);
            if outcome.is_ok() && signature.len() < 1600 {
                tried += 1;
                let (mut changed, mut other) = (signature.clone(), key.clone());
                for at in 0..changed.len() {
                    changed[at] ^= 1 << (at % 8);
                    assert!(check(key, &changed).is_err(), "byte {at} of {}", signature.len());
                    changed[at] = signature[at];
                    assert_eq!(check(key, &signature[..at]), Err(Error::SignatureLenRange), "{at} bytes");
                }
                for at in 0..other.len() {
                    other[at] ^= 1 << (at % 8);
                    assert!(check(&other, signature).is_err(), "byte {at} of the key");
                    other[at] = key[at];
                    assert_eq!(check(&key[..at], signature), Err(Error::DataInvalid), "{at} bytes");
                }
                let longer = |bytes: &[u8]| [bytes, &[0]].concat();
                assert_eq!(check(key, &longer(signature)), Err(Error::SignatureLenRange));
                assert_eq!(check(&longer(key), signature), Err(Error::DataInvalid));
            }
            Ok(outcome?)
        },
        |error| Ok(format!("{error:?}")),
    );
    assert!(tried >= 4, "{tried} signatures");
}

pub fn hash(name: &str) -> Hash {
    named(Hash::ALL.into_iter().chain(Hash::BLAKE2B), name).unwrap_or_else(|| panic!("unknown hash: {name}"))
}

/// Returns the item whose name consists of the same letters and digits: the hash `Sha512_224` for
/// `SHA-512/224`, or the parameter set `MlDsa44` for `ML-DSA-44`.
fn named<T: Debug>(items: impl IntoIterator<Item = T>, name: &str) -> Option<T> {
    let plain = |name: &str| name.to_lowercase().replace(|other: char| !other.is_alphanumeric(), "");
    items.into_iter().find(|item| plain(&format!("{item:?}")) == plain(name))
}
