//! Compares the backends with each other: encryption, key agreement, encapsulation, and signatures
//! of SLH-DSA. Also compares SLH-DSA with another implementation.

use crate::cross::{RSA_LEN, public_half_is_computed, rsa_keys};
use crate::support::*;

fn encrypt(provider: &Provider, key: &PublicParts, scheme: &Encryption, input: &[u8]) -> Result<Vec<u8>> {
    let key = provider.keys.public(key)?;
    let mut out = vec![0; key.encrypted_len()];
    let len = key.encrypt(scheme, input, &mut out)?;
    assert_eq!(len, out.len());
    Ok(out)
}

fn decrypt(provider: &Provider, key: &PrivateParts, scheme: &Encryption, input: &[u8]) -> Result<Vec<u8>> {
    let mut out = vec![0; RSA_LEN];
    let len = provider.keys.private(key)?.decrypt(scheme, input, &mut out)?;
    out.truncate(len);
    Ok(out)
}

fn oaep(hash: Hash, mgf: Hash, label: &[u8]) -> Encryption {
    Encryption::Oaep { hash, mgf, label: label.into() }
}

#[test]
fn rsa_ciphertexts_decrypt_in_each_backend() {
    let hashes = [Hash::Sha1, Hash::Sha256, Hash::Sha512, Hash::Sha3_256];
    for (from, to, (public, private)) in rsa_keys() {
        let what = format!("{} to {}", from.name, to.name);
        let mut schemes = vec![(Encryption::Pkcs1, RSA_LEN - 11)];
        for hash in hashes {
            schemes.extend(hashes.map(|mgf| (oaep(hash, mgf, b"label"), RSA_LEN - 2 * hash.len() - 2)));
        }
        for (scheme, most) in &schemes {
            for len in [0, 1, 32, *most] {
                let sealed = encrypt(from, public, scheme, &bytes(len)).expect(&what);
                assert_eq!(decrypt(to, private, scheme, &sealed), Ok(bytes(len)), "{what}: {len} bytes");
                assert_ne!(encrypt(from, public, scheme, &bytes(len)), Ok(sealed), "{what}: no randomness");
            }
            assert_eq!(encrypt(from, public, scheme, &bytes(most + 1)), Err(Error::DataLenRange), "{what}");
            for wrong in [0, 1, RSA_LEN - 1, RSA_LEN + 1] {
                let outcome = decrypt(to, private, scheme, &vec![1; wrong]);
                assert_eq!(outcome, Err(Error::EncryptedDataLenRange), "{what}: {wrong}");
            }
            let outcome = decrypt(to, private, scheme, &[0xff; RSA_LEN]);
            assert_eq!(outcome, Err(Error::EncryptedDataInvalid), "{what}: not below the modulus");
        }
        let sealed = encrypt(from, public, &oaep(Hash::Sha1, Hash::Sha256, b"a"), &[1]).expect(&what);
        for other in [
            oaep(Hash::Sha1, Hash::Sha256, b"b"),
            oaep(Hash::Sha1, Hash::Sha1, b"a"),
            oaep(Hash::Sha256, Hash::Sha256, b"a"),
        ] {
            assert_eq!(decrypt(to, private, &other, &sealed), Err(Error::EncryptedDataInvalid), "{what}");
        }
    }
}

#[test]
fn raw_rsa_ciphertexts_decrypt_in_each_backend() {
    for (from, to, (public, private)) in rsa_keys() {
        let PublicParts::Rsa { n, .. } = public else { panic!("not an RSA key") };
        let mut last = n.clone();
        last[RSA_LEN - 1] -= 1;
        for plain in [vec![], vec![0], vec![1], bytes(1), bytes(20), bytes(RSA_LEN - 1), last] {
            let sealed = encrypt(from, public, &Encryption::Raw, &plain).unwrap();
            let padded = [vec![0; RSA_LEN - plain.len()], plain].concat();
            let opened = decrypt(to, private, &Encryption::Raw, &sealed);
            assert_eq!(opened, Ok(padded), "{} to {}", from.name, to.name);
        }
        let outcome = decrypt(to, private, &Encryption::Raw, n);
        assert_eq!(outcome, Err(Error::EncryptedDataInvalid), "{}", to.name);
        // RustCrypto writes a short message into a short output.
        if to.name == "aws-lc" {
            let key = to.keys.private(private).unwrap();
            let outcome = key.decrypt(&Encryption::Pkcs1, &[1; RSA_LEN], &mut [0; RSA_LEN - 1]);
            assert_eq!(outcome, Err(Error::BufferTooSmall { needed: RSA_LEN }));
        }
        let outcome = encrypt(from, public, &Encryption::Raw, &[0xff; RSA_LEN]);
        assert_eq!(outcome, Err(Error::DataInvalid), "{}", from.name);
        let outcome = encrypt(from, public, &Encryption::Raw, &[0; RSA_LEN + 1]);
        assert_eq!(outcome, Err(Error::DataLenRange), "{}", from.name);
    }
}

#[test]
fn oaep_that_does_not_fit_fails_with_key_size_range() {
    let public = PublicParts::Rsa { n: vec![0xff; 128], e: vec![1, 0, 1] };
    for provider in Provider::ALL {
        let outcome = encrypt(provider, &public, &oaep(Hash::Sha512, Hash::Sha512, b""), b"");
        refused(provider, outcome, Error::KeySizeRange, "OAEP");
    }
}

/// Returns the public key as the bytes that a key agreement takes.
fn point(public: &PublicParts) -> Vec<u8> {
    match public {
        PublicParts::Ec { point, .. } => point.clone(),
        PublicParts::X25519 { point } => point.to_vec(),
        PublicParts::X448 { point } => point.to_vec(),
        _ => panic!("no key for agreement"),
    }
}

fn agree(provider: &Provider, key: &PrivateParts, peer: &[u8]) -> Result<Vec<u8>> {
    provider.keys.private(key)?.agree(peer).map(|secret| secret.to_vec())
}

#[test]
fn both_sides_of_a_key_agreement_get_the_same_secret() {
    let mut specs: Vec<_> = Curve::ALL.map(PairSpec::Ec).into();
    specs.extend([PairSpec::X25519, PairSpec::X448]);
    for (from, to) in pairs() {
        for spec in &specs {
            let one = from.keys.generate(spec).unwrap();
            let other = to.keys.generate(spec).unwrap();
            public_half_is_computed(from, to, &one);
            let secret = agree(from, &one.1, &point(&other.0)).unwrap();
            assert_eq!(agree(to, &other.1, &point(&one.0)), Ok(secret.clone()), "{} {}", from.name, to.name);
            let PublicParts::Ec { curve, point } = &other.0 else { continue };
            assert_eq!(secret.len(), curve.len());
            let compressed = [&[2 + point[2 * curve.len()] % 2], &point[1..=curve.len()]].concat();
            let hybrid = [&[6 + point[2 * curve.len()] % 2], &point[1..]].concat();
            for form in [compressed, hybrid] {
                assert_eq!(
                    agree(from, &one.1, &form),
                    Ok(secret.clone()),
                    "{} {curve:?}: {}",
                    from.name,
                    form[0]
                );
                assert_eq!(
                    from.keys.uncompressed(*curve, &form).as_ref(),
                    Ok(point),
                    "{} {curve:?}",
                    from.name
                );
            }
        }
    }
}

#[test]
fn invalid_points_are_refused_as_keys_and_as_peers() {
    for (provider, curve) in Provider::ALL.iter().flat_map(|one| Curve::ALL.map(|curve| (one, curve))) {
        let (public, private) = provider.keys.generate(&PairSpec::Ec(curve)).unwrap();
        let (good, x) = (point(&public), 1..=curve.len());
        let odd = good[2 * curve.len()] & 1;
        let mut off = good.clone();
        off[2 * curve.len()] ^= 1;
        for (what, point) in [
            ("off", off),
            ("compressed", [&[2 + odd], &good[x.clone()]].concat()),
            ("hybrid", [&[6 + odd], &good[1..]].concat()),
            ("hybrid with the other sign", [&[7 - odd], &good[1..]].concat()),
            ("compact", [&[5], &good[x]].concat()),
            ("infinity", vec![0]),
            ("empty", vec![]),
            ("zeros", [vec![4], vec![0; 2 * curve.len()]].concat()),
            ("short", good[..good.len() - 1].to_vec()),
            ("long", [&good[..], &[0]].concat()),
        ] {
            // A peer may send a compressed or a hybrid point.
            if !["compressed", "hybrid"].contains(&what) {
                let outcome = agree(provider, &private, &point);
                refused(provider, outcome, Error::DataInvalid, (curve, what));
            }
            let parts = PublicParts::Ec { curve, point };
            refused(provider, provider.keys.public(&parts), Error::DataInvalid, (curve, what));
        }
    }
    for provider in Provider::ALL {
        for (spec, len) in [(PairSpec::X25519, 32), (PairSpec::X448, 56)] {
            let (_, private) = provider.keys.generate(&spec).unwrap();
            let one = [vec![1], vec![0; len - 1]].concat();
            for peer in [vec![], vec![9; len - 1], vec![9; len + 1], vec![0; len], one] {
                refused(provider, agree(provider, &private, &peer), Error::DataInvalid, len);
            }
        }
        // y = 2 has no x on the curve (RFC 8032, 5.1.3).
        let point = std::array::from_fn(|at| if at == 0 { 2 } else { 0 });
        let outcome = provider.keys.public(&PublicParts::Ed25519 { point });
        refused(provider, outcome, Error::DataInvalid, "Ed25519");
    }
}

#[test]
fn ml_kem_decapsulates_to_the_same_secrets_in_each_backend() {
    for (from, to) in pairs() {
        for set in MlKem::ALL {
            let pair = from.keys.generate(&PairSpec::MlKem { set, seed: None }).unwrap();
            public_half_is_computed(from, to, &pair);
            let (mut ciphertext, secret) = to.keys.public(&pair.0).unwrap().encapsulate().unwrap();
            let key = from.keys.private(&pair.1).unwrap();
            assert_eq!(key.decapsulate(&ciphertext).unwrap()[..], secret[..], "{} {set:?}", from.name);
            let short = key.decapsulate(&ciphertext[1..]).err();
            assert_eq!(short, Some(Error::EncryptedDataLenRange), "{}", from.name);
            // Implicit rejection: both backends return the same secret, which differs from the
            // right one.
            ciphertext[0] ^= 1;
            let rejected = key.decapsulate(&ciphertext).unwrap();
            assert_ne!(rejected[..], secret[..], "{} {set:?}", from.name);
            let PrivateParts::MlKem { seed: Some(seed), key, .. } = &pair.1 else { panic!("no seed kept") };
            let expanded = PrivateParts::MlKem { set, seed: None, key: key.duplicate() };
            let by_other = to.keys.private(&expanded).unwrap().decapsulate(&ciphertext).unwrap();
            assert_eq!(rejected[..], by_other[..], "{} {set:?}", to.name);
            let again = to.keys.generate(&PairSpec::MlKem { set, seed: Some(seed) }).unwrap();
            assert!(again.0 == pair.0, "{} {set:?}: another key from the seed", to.name);
        }
    }
}

#[test]
fn malformed_ml_kem_keys_are_refused() {
    for provider in Provider::ALL {
        for set in MlKem::ALL {
            let (public, private) = provider.keys.generate(&PairSpec::MlKem { set, seed: None }).unwrap();
            let (PublicParts::MlKem { key: public, .. }, PrivateParts::MlKem { key, .. }) = (public, private)
            else {
                panic!("not an ML-KEM key")
            };
            let unreduced = [&[0xff; 3], &public[3..]].concat();
            for key in [unreduced, public[1..].to_vec(), vec![]] {
                let outcome = provider.keys.public(&PublicParts::MlKem { set, key });
                refused(provider, outcome, Error::DataInvalid, set);
            }
            // Change the hash of the public key, which is before z.
            let mut other = key.duplicate();
            other[set.private_len() - 64] ^= 1;
            for key in [other, Secret::from(&key[1..])] {
                let outcome = provider.keys.private(&PrivateParts::MlKem { set, seed: None, key });
                refused(provider, outcome, Error::DataInvalid, set);
            }
        }
    }
}

#[test]
fn wrong_contexts_and_digests_are_refused() {
    let (ed25519, ed448) = (PairSpec::Ed25519, PairSpec::Ed448);
    let ml_dsa = PairSpec::MlDsa { set: MlDsa::MlDsa44, seed: None };
    let hashed = Scheme::MlDsa { hash: Some(Hash::Sha256), context: Box::default(), deterministic: true };
    let [empty, long] = [vec![], bytes(256)].map(Vec::into_boxed_slice);
    let context448 = Scheme::Ed448 { prehash: false, context: long.clone() };
    for (spec, scheme, input, error) in [
        (&ed25519, context25519(false, &long), vec![], Error::MechanismParamInvalid),
        (&ed25519, context25519(true, &long), vec![], Error::MechanismParamInvalid),
        (&ed448, context448, vec![], Error::MechanismParamInvalid),
        (&ed25519, context25519(true, &empty), bytes(63), Error::DataLenRange),
        (&ml_dsa, hashed, bytes(31), Error::DataLenRange),
        (&ml_dsa, Scheme::MlDsaMu { deterministic: true }, bytes(63), Error::DataLenRange),
        (&ml_dsa, Scheme::MlDsaMu { deterministic: true }, bytes(65), Error::DataLenRange),
    ] {
        for provider in Provider::ALL {
            let (_, private) = provider.keys.generate(spec).unwrap();
            refused(provider, sign(provider, &private, &scheme, &input), error, input.len());
        }
    }
}

fn context25519(prehash: bool, context: &[u8]) -> Scheme {
    Scheme::Ed25519Context { prehash, context: context.into() }
}

#[test]
fn hash_ml_dsa_signatures_are_bound_to_their_hash_and_context() {
    let scheme = |hash, context: &[u8]| Scheme::MlDsa { hash, context: context.into(), deterministic: true };
    for (from, to) in pairs() {
        let key = from.keys.generate(&PairSpec::MlDsa { set: MlDsa::MlDsa44, seed: None }).unwrap();
        for hash in Hash::ALL.into_iter().filter(|hash| *hash != Hash::Sha1) {
            let digest = bytes(hash.len());
            let own = scheme(Some(hash), b"context");
            let signature = sign(from, &key.1, &own, &digest).unwrap();
            assert_eq!(verify(to, &key.0, &own, &digest, &signature), Ok(()), "{} {hash:?}", to.name);
            let same_length = |other: &Hash| *other != hash && other.len() == hash.len();
            let others =
                Hash::ALL.into_iter().filter(same_length).map(|other| scheme(Some(other), b"context"));
            for other in others.chain([scheme(Some(hash), b""), scheme(None, b"context")]) {
                let outcome = verify(to, &key.0, &other, &digest, &signature);
                refused(to, outcome, Error::SignatureInvalid, (from.name, hash));
            }
            let outcome = verify(to, &key.0, &own, &digest[1..], &signature);
            refused(to, outcome, Error::DataLenRange, hash);
        }
        let sha1 = to.keys.private(&key.1).unwrap().signer(&scheme(Some(Hash::Sha1), b""));
        refused(to, sha1, Error::MechanismParamInvalid, Hash::Sha1);
    }
}

#[test]
fn slh_dsa_signatures_verify_in_each_backend() {
    // The fast sets, and one small set, which takes a second for a signature.
    let sets =
        SlhDsa::ALL.into_iter().filter(|set| format!("{set:?}").ends_with('f') || *set == SlhDsa::Sha2_128s);
    for set in sets {
        // Both backends use the same code, so no backend verifies its own signatures.
        for (from, to) in pairs().filter(|(from, to)| from.name != to.name) {
            let what = format!("{} to {} {set:?}", from.name, to.name);
            let seed = Secret::new(bytes(3 * set.n()));
            let (public, private) = from.keys.generate(&PairSpec::SlhDsa { set, seed: Some(&seed) }).unwrap();
            public_half_is_computed(from, to, &(public.clone(), private));
            let (_, private) = to.keys.generate(&PairSpec::SlhDsa { set, seed: Some(&seed) }).unwrap();
            let scheme =
                |hash, deterministic| Scheme::SlhDsa { hash, context: b"c"[..].into(), deterministic };
            let digest = bytes(32);
            let signature = sign(from, &private, &scheme(None, false), &digest).expect(&what);
            assert_eq!(verify(to, &public, &scheme(None, true), &digest, &signature), Ok(()), "{what}");
            let mut spoilt = signature.clone();
            spoilt[set.n()] ^= 1;
            for (scheme, input, signature) in [
                (scheme(None, true), &digest, &spoilt),
                (scheme(None, true), &bytes(31), &signature),
                (scheme(Some(Hash::Sha256), true), &digest, &signature),
            ] {
                let outcome = verify(to, &public, &scheme, input, signature);
                assert_eq!(outcome, Err(Error::SignatureInvalid), "{what}");
            }
            let outcome = verify(to, &public, &scheme(None, true), &digest, &signature[1..]);
            assert_eq!(outcome, Err(Error::SignatureLenRange), "{what}");
            if set == SlhDsa::Sha2_128f {
                slh_dsa_variants(from, to, &public, &private);
            }
        }
    }
}

fn slh_dsa_variants(from: &Provider, to: &Provider, public: &PublicParts, private: &PrivateParts) {
    let what = format!("{} to {}", from.name, to.name);
    let scheme = |hash, deterministic| Scheme::SlhDsa { hash, context: b"c"[..].into(), deterministic };
    let digest = bytes(32);
    let [one, other] =
        [from, to].map(|by| sign(by, private, &scheme(Some(Hash::Sha256), true), &digest).unwrap());
    assert!(one == other, "{what}: deterministic");
    assert_eq!(verify(to, public, &scheme(Some(Hash::Sha256), false), &digest, &one), Ok(()), "{what}");
    let outcome = verify(to, public, &scheme(Some(Hash::Sha3_256), false), &digest, &one);
    assert_eq!(outcome, Err(Error::SignatureInvalid), "{what}: another hash");
    let [one, other] = [to, to].map(|by| sign(by, private, &scheme(None, false), &digest).unwrap());
    assert!(one != other, "{what}: no randomness");
    let outcome = sign(to, private, &scheme(Some(Hash::Sha512), true), &digest);
    assert_eq!(outcome, Err(Error::DataLenRange), "{what}");
}

/// Compares keys and signatures with those of the crate `slh-dsa`. Small sets take the crate
/// seconds, so only one of them is here.
#[test]
fn slh_dsa_equals_another_implementation() {
    equals_the_crate::<slh_dsa::Sha2_128s>(SlhDsa::Sha2_128s);
    equals_the_crate::<slh_dsa::Sha2_128f>(SlhDsa::Sha2_128f);
    equals_the_crate::<slh_dsa::Sha2_192f>(SlhDsa::Sha2_192f);
    equals_the_crate::<slh_dsa::Sha2_256f>(SlhDsa::Sha2_256f);
    equals_the_crate::<slh_dsa::Shake128f>(SlhDsa::Shake128f);
    equals_the_crate::<slh_dsa::Shake192f>(SlhDsa::Shake192f);
    equals_the_crate::<slh_dsa::Shake256f>(SlhDsa::Shake256f);
}

fn equals_the_crate<P: slh_dsa::ParameterSet>(set: SlhDsa) {
    // Both backends have the same implementation.
    let provider = Provider::ALL[0];
    let (n, message) = (set.n(), bytes(32));
    let (public, private) = provider.keys.generate(&PairSpec::SlhDsa { set, seed: None }).unwrap();
    let PrivateParts::SlhDsa { key, .. } = &private else { panic!("not an SLH-DSA key") };
    let theirs = slh_dsa::SigningKey::<P>::slh_keygen_internal(&key[..n], &key[n..2 * n], &key[2 * n..3 * n]);
    assert!(theirs.to_bytes()[..] == key[..], "{set:?}");
    let scheme = Scheme::SlhDsa { hash: None, context: b"c"[..].into(), deterministic: true };
    let ours = sign(provider, &private, &scheme, &message).unwrap();
    let signature = theirs.try_sign_with_context(&message, b"c", None).unwrap();
    assert!(ours == signature.to_vec(), "{set:?}");
    assert_eq!(verify(provider, &public, &scheme, &message, &ours), Ok(()), "{set:?}");
}

#[test]
fn slh_dsa_keys_with_another_root_are_refused() {
    for provider in Provider::ALL {
        let set = SlhDsa::Shake128f;
        let (_, private) = provider.keys.generate(&PairSpec::SlhDsa { set, seed: None }).unwrap();
        let PrivateParts::SlhDsa { mut key, .. } = private else { panic!("not an SLH-DSA key") };
        key[3 * set.n()] ^= 1;
        let outcome = provider.keys.private(&PrivateParts::SlhDsa { set, key }).err();
        assert_eq!(outcome, Some(Error::DataInvalid), "{}", provider.name);
    }
}
