//! Published vectors, carried out by each backend. `conformance/src/vectors.rs` runs most of them
//! through C. A quick run of it has only the first vectors of a set. Here all vectors run, a
//! backend keeps its verifier and its private key for the next vector, and there are sets that no
//! mechanism can express, such as ECDSA with SHAKE.

use std::fmt::Debug;
use std::sync::Arc;

use jeton_vectors::{
    self as vectors, EdwardsKey, Mac, Miss, Operation, Padding, Pair, Parameter, PublicKey, RsaKey,
    Scheme as Published, Set, Tally,
};

use crate::support::*;

type Result<T> = std::result::Result<T, Miss<Error>>;
type Outcome = Result<()>;

/// The sets of each test, by the beginnings of their names.
macro_rules! tests {
    ($($test:ident: $names:expr;)*) => {
        $(#[test]
        fn $test() {
            run(&$names);
        })*

        #[test]
        fn every_set_has_a_test() {
            let tests: Vec<&str> = [$(&$names[..]),*].concat();
            for set in vectors::sets() {
                let found = tests.iter().any(|name| set.name.starts_with(name));
                // No backend has HKDF: the core computes it from HMAC.
                let is_left_out = is_unsupported(&set.name) || set.name.starts_with("Hkdf");
                assert!(found || is_left_out, "{}", set.name);
            }
        }
    };
}

tests! {
    ecdsa_on_p224: ["EcdsaSecp224"];
    ecdsa_on_p256: ["EcdsaSecp256r1"];
    ecdsa_on_p384: ["EcdsaSecp384"];
    ecdsa_on_p521: ["EcdsaSecp521", "EcdsaDigests"];
    ecdsa_on_secp256k1: ["EcdsaSecp256k1"];
    ecdsa_on_brainpool_curves: ["EcdsaBrainpool256", "EcdsaBrainpool384"];
    dsa: ["Dsa"];
    edwards_signatures: ["Ed2", "Ed4", "Eddsa"];
    rsa_pkcs1_signatures: ["Pkcs1Rsa"];
    rsa_pss_signatures: ["RsaPss"];
    rsa_oaep_decryption: ["OaepRsa2", "OaepRsa3", "OaepRsa4"];
    rsa_decryption_of_other_keys: ["OaepRsaMisc", "Pkcs1Decrypt"];
    ciphers: ["AesGcm", "AesCcm", "ChaCha20", "AesCbc", "AesXts", "AesKeyWrap"];
    digests: ["Digests"];
    modes: ["Modes"];
    macs: ["AesCmac", "Hmac", "Gmac"];
    key_agreement: ["Ecdh", "X"];
    ml_dsa: ["MlDsa", "ML-DSA"];
    ml_kem: ["MlKem", "ML-KEM"];
    slh_dsa: ["SLH-DSA"];
    stateful_signatures: ["Stateful", "LMS"];
}

fn is_unsupported(set: &str) -> bool {
    ["Brainpool224", "Brainpool320", "Brainpool512"].iter().any(|curve| set.contains(curve))
}

/// Runs the sets with each backend. Fails if a set has no vector, or if a vector has an unexpected
/// result.
fn run(names: &[&str]) {
    let named = |set: &Set| names.iter().any(|name| set.name.starts_with(name));
    for set in vectors::sets().into_iter().filter(|set| named(set) && !is_unsupported(&set.name)) {
        for provider in Provider::ALL {
            let mut backend = Backend { provider, verifier: None, private: None };
            let tally = set.run(
                |operation| backend.carry_out(operation),
                |error| match error {
                    Error::DeviceError | Error::GeneralError => Err(format!("{error:?}")),
                    refusal => Ok(format!("{refusal:?}")),
                },
            );
            let Tally { executed, skipped, deviations, outdated } = tally;
            let what = format!("{}: {}", provider.name, set.name);
            println!("{what}: {executed} vectors, {skipped} skipped");
            // A file of ACVP may be missing.
            assert!(executed > 0 || set.source == "ACVP" && skipped == 0, "{what} is empty");
            let unlisted: Vec<_> = deviations.iter().filter(|one| one.reason.is_none()).collect();
            assert!(unlisted.is_empty(), "{what}: {unlisted:#?}");
            assert!(outdated.is_empty(), "{what}: no deviation: {outdated:?}");
        }
    }
}

/// A backend, with the keys of the last vector.
struct Backend {
    provider: &'static Provider,
    verifier: Option<(PublicKey, Published, Box<dyn Verifier>)>,
    private: Option<(RsaKey, Arc<dyn PrivateKey>)>,
}

impl Backend {
    fn carry_out(&mut self, operation: &Operation) -> Outcome {
        let provider = self.provider;
        match operation {
            Operation::Verify { key, scheme, message, signature } => {
                self.verify(key, scheme, message, signature)
            }
            Operation::Digest { hash: name, message, digest: expected } => {
                same(&digest(provider, hash(name), message), expected)
            }
            Operation::SignEddsa { key, prehash, message, signature } => {
                eddsa(provider, key, prehash.as_deref(), message, signature)
            }
            Operation::Sign { pair, context, message, signature } => {
                let scheme = ml_dsa_scheme(context, true);
                let mut signer = keys(provider, pair)?.ok_or(Miss::Inexpressible)?.signer(&scheme)?;
                let mut made = vec![0; signer.signature_len()];
                signer.sign(message, &mut made)?;
                same(&made, signature)
            }
            Operation::Crypt { cipher, parameter, key, plain, sealed } => {
                let scheme = cipher_scheme(cipher, parameter, sealed.len())?;
                let run = |direction, input| crypt(provider, &scheme, direction, key, input);
                let both_ways = || {
                    let decrypted = run(Direction::Decrypt, sealed)?;
                    same(&run(Direction::Encrypt, plain)?, sealed)?;
                    same(&decrypted, plain)
                };
                let outcome = both_ways();
                if let Some(beside) = beside(provider, &scheme, key, plain, sealed) {
                    assert_eq!(beside.is_ok(), outcome.is_ok(), "{}: {cipher:?}: {beside:?}", provider.name);
                }
                outcome
            }
            Operation::Mac { mac: code, key, message, tag } => {
                let scheme = match code {
                    Mac::Cmac => MacScheme::AesCmac,
                    Mac::Xcbc => MacScheme::AesXcbc,
                    Mac::Gmac { iv } => MacScheme::AesGmac { iv: iv[..].into() },
                    Mac::Hmac { hash: name } => MacScheme::Hmac(hash(name)),
                };
                same(&mac(provider, &scheme, key, message, 7)?[..tag.len()], tag)
            }
            Operation::Hkdf { .. } => Err(Miss::Inexpressible),
            Operation::Decrypt { key, padding, plain, sealed } => {
                let scheme = match padding {
                    Padding::Pkcs1 => Encryption::Pkcs1,
                    Padding::Oaep { hash: name, mgf, label } => {
                        Encryption::Oaep { hash: hash(name), mgf: hash(mgf), label: label[..].into() }
                    }
                };
                let mut made = vec![0; 1024];
                let length = self.rsa(key)?.decrypt(&scheme, sealed, &mut made)?;
                same(&made[..length], plain)
            }
            Operation::Agree { curve: on, scalar, peer, secret } => {
                let scalar = Secret::from(&scalar[..]);
                let parts = match on.name {
                    "curve25519" => PrivateParts::X25519 { scalar },
                    "curve448" => PrivateParts::X448 { scalar },
                    _ => PrivateParts::Ec { curve: curve(on), scalar },
                };
                let made = provider.keys.private(&parts).and_then(|key| key.agree(peer));
                if !on.is_weierstrass() && secret.iter().all(|byte| *byte == 0) {
                    // The sets call this result "acceptable". The backends refuse it.
                    assert_eq!(made.as_ref().err(), Some(&Error::DataInvalid), "{}", provider.name);
                }
                same(&made?, secret)
            }
            Operation::Keys(pair) => keys(provider, pair).map(|_| ()),
            Operation::Kem { pair, ciphertext, secret } => {
                if let Some(key) = &pair.public {
                    let set = named(MlKem::ALL, &pair.set).expect("a set of ML-KEM");
                    let key = provider.keys.public(&PublicParts::MlKem { set, key: key.clone() })?;
                    let (ciphertext, secret) = key.encapsulate()?;
                    assert_eq!((ciphertext.len(), secret.len()), (set.ciphertext_len(), MlKem::SECRET_LEN));
                }
                let (Some(key), Some(ciphertext)) = (keys(provider, pair)?, ciphertext) else {
                    return Ok(());
                };
                let made = key.decapsulate(ciphertext)?;
                secret.as_ref().map_or(Ok(()), |secret| same(&made, secret))
            }
        }
    }

    fn verify(&mut self, key: &PublicKey, scheme: &Published, message: &[u8], signature: &[u8]) -> Outcome {
        // The hash has no name if the message is a digest, or if the scheme has no hash.
        let (own, name) = match scheme {
            Published::Pkcs1 { hash: name } => (Scheme::RsaPkcs1 { hash: Some(hash(name)) }, &name[..]),
            Published::Pss { hash: name, mgf, salt_len } => {
                (Scheme::RsaPss { hash: hash(name), mgf: hash(mgf), salt_len: *salt_len }, &name[..])
            }
            Published::Dsa { hash } => (Scheme::Dsa, &hash[..]),
            Published::Ecdsa { hash } => (Scheme::Ecdsa, &hash[..]),
            Published::Ed25519 => (Scheme::Ed25519, ""),
            Published::Ed448 => (Scheme::Ed448 { prehash: false, context: Box::default() }, ""),
            Published::MlDsa { context } => (ml_dsa_scheme(context, false), ""),
            Published::Stateful { family } => (Scheme::Stateful(stateful(family)), ""),
        };
        let input = match name {
            "" => message.to_vec(),
            name => digest(self.provider, hash(name), message),
        };
        let verifier = match &mut self.verifier {
            Some((last, with, verifier)) if (&*last, &*with) == (key, scheme) => verifier,
            slot => {
                let made = self.provider.keys.public(&public(key)).and_then(|key| key.verifier(&own));
                // Only the sets of ML-DSA have malformed keys.
                assert!(made.is_ok() || matches!(key, PublicKey::MlDsa { .. }), "{key:?}");
                &mut slot.insert((key.clone(), scheme.clone(), made?)).2
            }
        };
        Ok(verifier.verify(&input, signature)?)
    }

    fn rsa(&mut self, key: &RsaKey) -> Result<Arc<dyn PrivateKey>> {
        if let Some((last, private)) = &self.private
            && last == key
        {
            return Ok(private.clone());
        }
        let secret = |number: &Vec<u8>| Secret::from(&number[..]);
        let crt = crt([&key.p, &key.q, &key.dp, &key.dq, &key.qinv].map(secret));
        let (n, e) = (key.n.clone(), Some(key.e.clone()));
        let parts = RsaPrivate { n, e, d: secret(&key.d), crt: Some(crt) };
        match self.provider.keys.private(&PrivateParts::Rsa(parts)) {
            Ok(private) => Ok(self.private.insert((key.clone(), private)).1.clone()),
            // A set has keys below 1024 bits.
            Err(Error::KeySizeRange) => Err(Miss::Inexpressible),
            Err(error) => panic!("{}: {error:?}", self.provider.name),
        }
    }
}

fn same(made: &[u8], expected: &[u8]) -> Outcome {
    if made == expected { Ok(()) } else { Err(Miss::Differs) }
}

/// Checks the public key, the signature, and its verification.
fn eddsa(
    provider: &Provider,
    key: &EdwardsKey,
    prehash: Option<&str>,
    message: &[u8],
    signature: &[u8],
) -> Outcome {
    let (seed, context) = (Secret::from(&key.seed[..]), key.context.as_deref().unwrap_or_default().into());
    let is_prehash = prehash.is_some();
    let (parts, scheme) = match key.curve.name {
        "edwards448" => (PrivateParts::Ed448 { seed }, Scheme::Ed448 { prehash: is_prehash, context }),
        _ if key.context.is_none() => (PrivateParts::Ed25519 { seed }, Scheme::Ed25519),
        _ => (PrivateParts::Ed25519 { seed }, Scheme::Ed25519Context { prehash: is_prehash, context }),
    };
    let input = prehash.map_or_else(|| message.to_vec(), |name| digest(provider, hash(name), message));
    let computed = provider.keys.private(&parts)?.public()?;
    let published = key.public.as_ref().map(|point| public_edwards(key.curve, point));
    assert!(published.is_none_or(|published| published == computed), "{}", provider.name);
    same(&sign(provider, &parts, &scheme, &input)?, signature)?;
    Ok(verify(provider, &computed, &scheme, &input, signature)?)
}

/// Returns the private key of a pair, if the vector has one. Fails if the backend computes another
/// part from the seed.
fn keys(provider: &Provider, pair: &Pair) -> Result<Option<Arc<dyn PrivateKey>>> {
    let seed = pair.seed.as_ref().map(|seed| Secret::from(&seed[..]));
    let spec = spec(&pair.set, seed.as_ref());
    let private = if seed.is_some() {
        let (public, private) = provider.keys.generate(&spec)?;
        let (PublicParts::MlDsa { key: made, .. }
        | PublicParts::MlKem { key: made, .. }
        | PublicParts::SlhDsa { key: made, .. }) = &public
        else {
            panic!("another type")
        };
        assert!(pair.public.as_ref().is_none_or(|key| key == made), "{}: {pair:?}", provider.name);
        let (kept, made) = match &private {
            PrivateParts::MlDsa { seed, key, .. } | PrivateParts::MlKem { seed, key, .. } => {
                (seed.as_deref(), key)
            }
            PrivateParts::SlhDsa { key, .. } => (seed.as_deref(), key),
            _ => panic!("another type"),
        };
        assert_eq!(kept, seed.as_deref(), "{}: {pair:?}", provider.name);
        assert!(pair.private.as_ref().is_none_or(|key| key[..] == made[..]), "{}: {pair:?}", provider.name);
        private
    } else if let Some(key) = &pair.private {
        let key = Secret::from(&key[..]);
        match spec {
            PairSpec::MlDsa { set, .. } => PrivateParts::MlDsa { set, seed: None, key },
            PairSpec::MlKem { set, .. } => PrivateParts::MlKem { set, seed: None, key },
            PairSpec::SlhDsa { set, .. } => PrivateParts::SlhDsa { set, key },
            _ => panic!("another type"),
        }
    } else {
        return Ok(None);
    };
    Ok(Some(provider.keys.private(&private)?))
}

fn spec<'a>(name: &str, seed: Option<&'a Secret>) -> PairSpec<'a> {
    let ml_dsa = || named(MlDsa::ALL, name).map(|set| PairSpec::MlDsa { set, seed });
    let ml_kem = || named(MlKem::ALL, name).map(|set| PairSpec::MlKem { set, seed });
    // The items are `Sha2_128s` and so on.
    let short = name.replace("SLH-DSA-", "");
    let slh_dsa = || named(SlhDsa::ALL, &short).map(|set| PairSpec::SlhDsa { set, seed });
    let spec = ml_dsa().or_else(ml_kem).or_else(slh_dsa);
    spec.unwrap_or_else(|| panic!("unknown parameter set: {name}"))
}

fn ml_dsa_scheme(context: &[u8], deterministic: bool) -> Scheme {
    Scheme::MlDsa { hash: None, context: context.into(), deterministic }
}

fn cipher_scheme(cipher: &str, parameter: &Parameter, sealed_len: usize) -> Result<CipherScheme> {
    let Parameter { iv, aad, tag_len, counter } = parameter;
    let aead = |cipher, tag_len| {
        let data_len = sealed_len.saturating_sub(tag_len);
        CipherScheme::Aead { cipher, nonce: iv.into(), aad: aad[..].into(), tag_len, data_len }
    };
    let block = || <[u8; 16]>::try_from(&iv[..]).expect("16 bytes");
    Ok(match cipher {
        "AES-GCM" => aead(AeadScheme::AesGcm, *tag_len),
        "AES-CCM" => aead(AeadScheme::AesCcm, *tag_len),
        // The backends accept only nonces of 12 bytes here.
        "CHACHA20-POLY1305" if iv.len() != 12 => return Err(Miss::Inexpressible),
        "CHACHA20-POLY1305" => aead(AeadScheme::ChaCha20Poly1305, 16),
        "CHACHA20" => CipherScheme::ChaCha20 { nonce: iv[..].into(), counter: *counter },
        "AES-ECB" => CipherScheme::AesEcb,
        "AES-CBC" => CipherScheme::AesCbc { iv: block(), padded: false },
        "AES-CBC-PKCS5" => CipherScheme::AesCbc { iv: block(), padded: true },
        "AES-CTS" => CipherScheme::AesCts { iv: block() },
        "AES-OFB" => CipherScheme::AesOfb { iv: block() },
        "AES-CTR" => CipherScheme::AesCtr { block: block(), bits: 128 },
        "AES-XTS" => CipherScheme::AesXts { tweak: block() },
        "AES-WRAP" => CipherScheme::AesKw { iv: None, padded: false },
        "AES-KWP" => CipherScheme::AesKwp { iv: None },
        other => {
            let bits = other.strip_prefix("AES-CFB").and_then(|bits| bits.parse().ok());
            let bits = bits.unwrap_or_else(|| panic!("unknown cipher: {other}"));
            CipherScheme::AesCfb { iv: block(), bits }
        }
    })
}

/// Decrypts and encrypts with a separate tag, twice with one cipher. Returns `None` if the cipher
/// has no tag.
fn beside(
    provider: &Provider,
    scheme: &CipherScheme,
    key: &[u8],
    plain: &[u8],
    sealed: &[u8],
) -> Option<Outcome> {
    let CipherScheme::Aead { cipher, nonce, aad, tag_len, .. } = scheme else { return None };
    let (ciphertext, tag) = sealed.split_at(sealed.len() - tag_len);
    let twice = |cipher: &mut dyn Aead| {
        for _ in 0..2 {
            let mut opened = vec![0xa5; ciphertext.len()];
            let outcome = cipher.open(nonce, aad, ciphertext, tag, &mut opened);
            let untouched = opened.iter().all(|byte| [0, 0xa5].contains(byte));
            assert!(outcome.is_ok() || untouched, "plaintext of a forgery");
            outcome?;
            let (mut made, mut made_tag) = (vec![0; plain.len()], vec![0; tag.len()]);
            cipher.seal(nonce, aad, plain, &mut made, &mut made_tag)?;
            same(&[opened, made, made_tag].concat(), &[plain, sealed].concat())?;
        }
        Ok(())
    };
    Some(provider.ciphers.aead(*cipher, key).map_err(Miss::from).and_then(|mut cipher| twice(&mut *cipher)))
}

fn public(key: &PublicKey) -> PublicParts {
    match key {
        PublicKey::Rsa { n, e } => PublicParts::Rsa { n: n.clone(), e: e.clone() },
        PublicKey::Dsa { p, q, g, y } => PublicParts::Dsa {
            group: DsaGroup { prime: p.clone(), subprime: q.clone(), base: g.clone() },
            value: y.clone(),
        },
        PublicKey::Ec { curve: on, point } if on.is_weierstrass() => {
            PublicParts::Ec { curve: curve(on), point: point.clone() }
        }
        PublicKey::Ec { curve, point } => public_edwards(curve, point),
        PublicKey::MlDsa { set, key } => {
            PublicParts::MlDsa { set: named(MlDsa::ALL, set).expect("a set of ML-DSA"), key: key.clone() }
        }
        PublicKey::Stateful { family, key } => {
            PublicParts::Stateful { family: stateful(family), key: key.clone() }
        }
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

fn public_edwards(curve: &vectors::Curve, point: &[u8]) -> PublicParts {
    match curve.name {
        "edwards25519" => PublicParts::Ed25519 { point: point.try_into().expect("32 bytes") },
        _ => PublicParts::Ed448 { point: point.try_into().expect("57 bytes") },
    }
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

fn curve(curve: &vectors::Curve) -> Curve {
    match curve.name {
        "secp224r1" => Curve::P224,
        "secp256r1" => Curve::P256,
        "secp384r1" => Curve::P384,
        "secp521r1" => Curve::P521,
        "secp256k1" => Curve::Secp256k1,
        "brainpoolP256r1" => Curve::BrainpoolP256r1,
        "brainpoolP384r1" => Curve::BrainpoolP384r1,
        other => panic!("a curve that Jeton does not support: {other}"),
    }
}
