//! Keys given by their parts: those that a backend loads, and those that it refuses.

use std::sync::LazyLock;

use jeton_vectors::integer;

use crate::support::*;

const PKCS1: Scheme = Scheme::RsaPkcs1 { hash: Some(Hash::Sha256) };

/// An RSA key with all its parts.
struct Rsa {
    public: PublicParts,
    n: Vec<u8>,
    e: Vec<u8>,
    d: Secret,
    crt: RsaCrt,
}

impl Rsa {
    fn generate(provider: &Provider, e: &[u8]) -> Self {
        let spec = PairSpec::Rsa { bits: 2048, public_exponent: e };
        let (public, PrivateParts::Rsa(private)) = provider.keys.generate(&spec).expect("an RSA key") else {
            panic!("not an RSA key")
        };
        assert_eq!(private.e.as_deref(), Some(e), "{}", provider.name);
        Self { public, n: private.n, e: e.to_vec(), d: private.d, crt: private.crt.expect("all parts") }
    }

    /// A key of 8192 bits, which RustCrypto would need minutes to generate.
    fn large() -> Self {
        let json: serde_json::Value =
            serde_json::from_str(include_str!("rsa_8192.json")).expect("a JSON file");
        let part = |name: &str| integer(&hex(json[name].as_str().expect("hexadecimal digits")));
        let secret = |name| Secret::new(part(name));
        let crt = crt(["p", "q", "dp", "dq", "qinv"].map(secret));
        let (n, e) = (part("n"), part("e"));
        Self { public: PublicParts::Rsa { n: n.clone(), e: e.clone() }, n, e, d: secret("d"), crt }
    }

    fn parts(&self, with_e: bool, with_crt: bool) -> PrivateParts {
        let RsaCrt { p, q, dp, dq, qinv } = &self.crt;
        PrivateParts::Rsa(RsaPrivate {
            n: self.n.clone(),
            e: with_e.then(|| self.e.clone()),
            d: self.d.duplicate(),
            crt: with_crt.then(|| crt([p, q, dp, dq, qinv].map(Secret::duplicate))),
        })
    }

    fn changed(&self, change: impl FnOnce(&mut RsaPrivate)) -> PrivateParts {
        let PrivateParts::Rsa(mut parts) = self.parts(true, true) else {
            unreachable!("parts of an RSA key")
        };
        change(&mut parts);
        PrivateParts::Rsa(parts)
    }
}

fn loads_and_signs(provider: &Provider, key: &PrivateParts, public: &PublicParts) -> Result<()> {
    let signature = sign(provider, key, &PKCS1, &bytes(32))?;
    verify(provider, public, &PKCS1, &bytes(32), &signature)
}

/// For each backend, a key with the exponent 65537 and a key with the exponent 3.
static KEYS: LazyLock<Vec<[Rsa; 2]>> = LazyLock::new(|| {
    let keys = |provider| [&[1, 0, 1][..], &[3]].map(|e| Rsa::generate(provider, e));
    Provider::ALL.iter().map(|provider| keys(provider)).collect()
});

fn providers() -> impl Iterator<Item = (&'static Provider, &'static [Rsa; 2])> {
    Provider::ALL.iter().copied().zip(KEYS.iter())
}

#[test]
fn rsa_keys_load_without_their_primes_and_without_their_public_exponent() {
    for (provider, key) in providers().flat_map(|(provider, keys)| keys.each_ref().map(|key| (provider, key)))
    {
        for (with_e, with_crt) in [(true, true), (true, false), (false, true), (false, false)] {
            let (parts, what) = (key.parts(with_e, with_crt), (provider.name, &key.e, with_e, with_crt));
            assert_eq!(loads_and_signs(provider, &parts, &key.public), Ok(()), "{what:?}");
            match provider.keys.private(&parts).unwrap().public() {
                Err(error) if !with_e => assert_eq!(error, Error::DataInvalid, "{what:?}"),
                computed => assert!(computed.unwrap() == key.public, "{what:?}"),
            }
        }
    }
}

#[test]
fn rsa_of_8192_bits_signs_and_verifies() {
    let key = Rsa::large();
    for provider in Provider::ALL {
        let outcome = loads_and_signs(provider, &key.parts(true, true), &key.public);
        assert_eq!(outcome, Ok(()), "{}", provider.name);
        let pss = Scheme::RsaPss { hash: Hash::Sha512, mgf: Hash::Sha384, salt_len: 1024 - 64 - 2 };
        let signature = sign(provider, &key.parts(true, true), &pss, &bytes(64)).unwrap();
        assert_eq!(verify(provider, &key.public, &pss, &bytes(64), &signature), Ok(()), "{}", provider.name);
    }
}

#[test]
fn rsa_keys_with_inconsistent_parts_are_refused() {
    for (provider, [key, other]) in providers() {
        let crt = |change: fn(&mut RsaCrt, &RsaCrt)| {
            key.changed(|parts| change(parts.crt.as_mut().expect("all parts"), &other.crt))
        };
        let alone = |e: bool, d: Secret| {
            key.changed(|parts| {
                (parts.d, parts.crt) = (d, None);
                parts.e = parts.e.take().filter(|_| e);
            })
        };
        let cases: [(&str, PrivateParts); 13] = [
            ("n", key.changed(|parts| parts.n = other.n.clone())),
            ("e", key.changed(|parts| parts.e = Some(vec![3]))),
            ("even e", key.changed(|parts| parts.e = Some(vec![1, 0, 0]))),
            ("d", key.changed(|parts| parts.d = other.d.duplicate())),
            ("d without primes", alone(true, other.d.duplicate())),
            ("d without primes and e", alone(false, other.d.duplicate())),
            ("d = 0", alone(true, Secret::from(&[0][..]))),
            ("d = 1", alone(false, Secret::from(&[1][..]))),
            ("p", crt(|crt, other| crt.p = other.p.duplicate())),
            ("q", crt(|crt, other| crt.q = other.q.duplicate())),
            ("dp", crt(|crt, other| crt.dp = other.dp.duplicate())),
            ("dq", crt(|crt, other| crt.dq = other.dq.duplicate())),
            ("qinv", crt(|crt, other| crt.qinv = other.qinv.duplicate())),
        ];
        for (what, parts) in cases {
            refused(provider, provider.keys.private(&parts), Error::DataInvalid, what);
        }
    }
}

#[test]
fn malformed_rsa_public_keys_are_refused() {
    for (provider, [key, _]) in providers() {
        let mut even = key.n.clone();
        even[255] &= 0xfe;
        for (what, n, e) in [
            ("even modulus", &even, &[1, 0, 1][..]),
            ("no exponent", &key.n, &[]),
            ("exponent 1", &key.n, &[1]),
            ("even exponent", &key.n, &[1, 0, 0]),
        ] {
            let parts = PublicParts::Rsa { n: n.clone(), e: e.to_vec() };
            refused(provider, provider.keys.public(&parts), Error::DataInvalid, what);
        }
        let tiny = PublicParts::Rsa { n: key.n[..32].to_vec(), e: vec![3] };
        assert!(provider.keys.public(&tiny).is_err(), "{}", provider.name);
        let huge = PublicParts::Rsa { n: vec![0xff; 2049], e: vec![3] };
        assert_eq!(provider.keys.public(&huge).err(), Some(Error::KeySizeRange), "{}", provider.name);
    }
}

#[test]
fn scalars_of_wrong_length_or_out_of_range_are_refused() {
    for (provider, curve) in Provider::ALL.iter().flat_map(|one| Curve::ALL.map(|curve| (one, curve))) {
        let one = |len| [vec![0; len - 1], vec![1]].concat();
        let load = |scalar| provider.keys.private(&PrivateParts::Ec { curve, scalar: Secret::new(scalar) });
        assert!(load(one(curve.len())).is_ok(), "{} {curve:?}", provider.name);
        for scalar in [vec![0; curve.len()], vec![0xff; curve.len()], one(curve.len() + 1), vec![]] {
            refused(provider, load(scalar), Error::DataInvalid, curve);
        }
    }
}

#[test]
fn parts_of_wrong_lengths_are_refused() {
    for provider in Provider::ALL {
        for len in [0, 31, 33] {
            let parts = PrivateParts::Ed25519 { seed: Secret::zeroed(len) };
            refused(provider, provider.keys.private(&parts), Error::DataInvalid, len);
            let seed = Secret::zeroed(len);
            for set in MlDsa::ALL {
                let made = provider.keys.generate(&PairSpec::MlDsa { set, seed: Some(&seed) });
                assert_eq!(made.err(), Some(Error::DataInvalid), "{} {set:?} {len}", provider.name);
            }
        }
        for set in MlDsa::ALL {
            for len in [0, set.private_len() - 1, set.private_len() + 1] {
                let parts = PrivateParts::MlDsa { set, seed: None, key: Secret::zeroed(len) };
                refused(provider, provider.keys.private(&parts), Error::DataInvalid, len);
            }
            for len in [0, set.public_len() - 1, set.public_len() + 1] {
                let parts = PublicParts::MlDsa { set, key: vec![0; len] };
                refused(provider, provider.keys.public(&parts), Error::DataInvalid, len);
            }
        }
    }
}

#[test]
fn ml_dsa_keys_with_inconsistent_parts_are_refused() {
    for provider in Provider::ALL {
        for set in MlDsa::ALL {
            let (_, private) = provider.keys.generate(&PairSpec::MlDsa { set, seed: None }).unwrap();
            let PrivateParts::MlDsa { seed: Some(seed), key, .. } = private else { panic!("no seed kept") };
            let mut other = seed.duplicate();
            other[0] ^= 1;
            let parts = PrivateParts::MlDsa { set, seed: Some(other), key: key.duplicate() };
            refused(provider, provider.keys.private(&parts), Error::DataInvalid, "seed");
            // The hash of the public key (`tr`), and a coefficient of s1 outside its range.
            for (at, value) in [(64, !key[64]), (128, 0xff)] {
                let mut wrong = key.duplicate();
                wrong[at] = value;
                let parts = PrivateParts::MlDsa { set, seed: None, key: wrong };
                refused(provider, provider.keys.private(&parts), Error::DataInvalid, at);
            }
        }
    }
}
