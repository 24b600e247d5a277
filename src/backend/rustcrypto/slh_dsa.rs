//! SLH-DSA (FIPS 205). The crate `slh-dsa` computes one hash after the other. This code computes
//! several at once: a signature with SHA2-128f takes a third of the crate's time on x86-64.

use std::sync::Arc;

use self::params::Params;
use self::sha2::Sha2;
use self::shake::Shake;
use jeton_secret::Secret;

use super::random;
use super::random::System;
use crate::backend::api::{
    Hash, PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, SlhDsa, Verifier,
    output,
};
use crate::backend::shared::prehash::{expect_len, prefix};
use crate::error::{Error, Result, require};

mod address;
mod fors;
mod hash;
mod hypertree;
mod lanes;
mod merkle;
mod params;
mod scheme;
mod sha2;
mod shake;
mod wots;

type Sign = fn(&Params, &[u8], &[u8], &[&[u8]], &mut [u8]);
type Verify = fn(&Params, &[u8], &[&[u8]], &[u8]) -> bool;

/// A parameter set with the functions of `scheme` for its hash and its n.
struct ParameterSet {
    set: SlhDsa,
    params: Params,
    root: fn(&Params, &[u8], &[u8], &mut [u8]),
    sign: Sign,
    verify: Verify,
}

/// FIPS 205, table 2, in the order of [`SlhDsa`].
static SETS: [ParameterSet; 12] = [
    row::<Sha2<16>, 16>(SlhDsa::Sha2_128s, SMALL_128),
    row::<Shake<16>, 16>(SlhDsa::Shake128s, SMALL_128),
    row::<Sha2<16>, 16>(SlhDsa::Sha2_128f, FAST_128),
    row::<Shake<16>, 16>(SlhDsa::Shake128f, FAST_128),
    row::<Sha2<24>, 24>(SlhDsa::Sha2_192s, SMALL_192),
    row::<Shake<24>, 24>(SlhDsa::Shake192s, SMALL_192),
    row::<Sha2<24>, 24>(SlhDsa::Sha2_192f, FAST_192),
    row::<Shake<24>, 24>(SlhDsa::Shake192f, FAST_192),
    row::<Sha2<32>, 32>(SlhDsa::Sha2_256s, SMALL_256),
    row::<Shake<32>, 32>(SlhDsa::Shake256s, SMALL_256),
    row::<Sha2<32>, 32>(SlhDsa::Sha2_256f, FAST_256),
    row::<Shake<32>, 32>(SlhDsa::Shake256f, FAST_256),
];

const SMALL_128: Params = Params { d: 7, height: 9, a: 12, k: 14 };
const FAST_128: Params = Params { d: 22, height: 3, a: 6, k: 33 };
const SMALL_192: Params = Params { d: 7, height: 9, a: 14, k: 17 };
const FAST_192: Params = Params { d: 22, height: 3, a: 8, k: 33 };
const SMALL_256: Params = Params { d: 8, height: 8, a: 14, k: 22 };
const FAST_256: Params = Params { d: 17, height: 4, a: 9, k: 35 };

const fn row<H: hash::HashFunctions<N>, const N: usize>(set: SlhDsa, params: Params) -> ParameterSet {
    ParameterSet {
        set,
        params,
        root: scheme::root::<H, N>,
        sign: scheme::sign::<H, N>,
        verify: scheme::verify::<H, N>,
    }
}

fn find(set: SlhDsa) -> &'static ParameterSet {
    &SETS[set as usize]
}

pub(super) fn generate(set: SlhDsa, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = System.seed(seed, 3 * set.n())?;
    let key = expand(find(set), &seed)?;
    let public = PublicParts::SlhDsa { set, key: key[2 * set.n()..].to_vec() };
    Ok((public, PrivateParts::SlhDsa { set, key }))
}

/// Parses a private key. Computes its root again, and fails if the key contains another root.
/// Signatures under a wrong root do not verify. Signatures of the same key under two roots would
/// also reveal its one-time keys. The computation takes a tenth of the time of a signature.
pub(super) fn private(set: SlhDsa, bytes: &Secret) -> Result<Arc<dyn PrivateKey>> {
    let set = find(set);
    let key = expand(set, bytes.get(..3 * set.n()).ok_or(Error::DataInvalid)?)?;
    require(bytes[3 * set.n()..] == key[3 * set.n()..], Error::DataInvalid)?;
    Ok(Arc::new(Private { set, key }))
}

pub(super) fn public(set: SlhDsa, key: &[u8]) -> Result<Arc<dyn PublicKey>> {
    require(key.len() == 2 * set.n(), Error::DataInvalid)?;
    Ok(Arc::new(Public { set: find(set), key: key.into() }))
}

/// Returns the private key of a seed: SK.seed || SK.prf || PK.seed || PK.root.
fn expand(set: &ParameterSet, seed: &[u8]) -> Result<Secret> {
    let n = set.n();
    require(seed.len() == 3 * n, Error::DataInvalid)?;
    let mut key = Secret::zeroed(4 * n);
    let (start, root) = key.split_at_mut(3 * n);
    start.copy_from_slice(seed);
    (set.root)(&set.params, &start[..n], &start[2 * n..], root);
    Ok(key)
}

impl ParameterSet {
    fn n(&self) -> usize {
        self.set.n()
    }
}

struct Private {
    set: &'static ParameterSet,
    key: Secret,
}

impl Private {
    /// PK.seed || PK.root.
    fn public_key(&self) -> &[u8] {
        &self.key[2 * self.set.n()..]
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::SlhDsa { set: self.set.set, key: self.public_key().to_vec() })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let Scheme::SlhDsa { hash, context, deterministic } = scheme else {
            return Err(Error::KeyTypeInconsistent);
        };
        let prefix = prefix(*hash, context)?;
        Ok(Box::new(SlhDsaSigner { key: self, hash: *hash, prefix, deterministic: *deterministic }))
    }
}

struct SlhDsaSigner {
    key: Arc<Private>,
    hash: Option<Hash>,
    prefix: Vec<u8>,
    deterministic: bool,
}

impl Signer for SlhDsaSigner {
    fn signature_len(&self) -> usize {
        self.key.set.set.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        expect_len(self.hash, input)?;
        let out = output(out, self.signature_len())?;
        let Private { set, key } = &*self.key;
        // FIPS 205, 9.2: without randomness PK.seed replaces it.
        let mut randomness = [0; 32];
        let randomness = &mut randomness[..set.n()];
        if self.deterministic {
            randomness.copy_from_slice(&self.key.public_key()[..set.n()]);
        } else {
            random::fill(randomness)?;
        }
        (set.sign)(&set.params, key, randomness, &[&self.prefix, input], out);
        Ok(())
    }
}

struct Public {
    set: &'static ParameterSet,
    /// PK.seed || PK.root.
    key: Box<[u8]>,
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let Scheme::SlhDsa { hash, context, .. } = scheme else {
            return Err(Error::KeyTypeInconsistent);
        };
        Ok(Box::new(SlhDsaVerifier { key: self, hash: *hash, prefix: prefix(*hash, context)? }))
    }
}

struct SlhDsaVerifier {
    key: Arc<Public>,
    hash: Option<Hash>,
    prefix: Vec<u8>,
}

impl Verifier for SlhDsaVerifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        expect_len(self.hash, input)?;
        require(signature.len() == self.key.set.set.signature_len(), Error::SignatureLenRange)?;
        let Public { set, key } = &*self.key;
        let valid = (set.verify)(&set.params, key, &[&self.prefix, input], signature);
        if valid { Ok(()) } else { Err(Error::SignatureInvalid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_fit_the_standard() {
        // FIPS 205, table 2: m, in the order of the rows.
        let m = [30, 30, 34, 34, 39, 39, 42, 42, 47, 47, 49, 49];
        for ((row, set), m) in SETS.iter().zip(SlhDsa::ALL).zip(m) {
            assert_eq!((row.set, row.params.m()), (set, m));
            let layer = wots::chains(row.n()) + row.params.height;
            let nodes = 1 + row.params.k * (row.params.a + 1) + row.params.d as usize * layer;
            assert_eq!(row.n() * nodes, set.signature_len(), "{set:?}");
        }
    }

    /// NIST's sample signatures (ACVP) are of messages without a prefix. `JETON_VECTORS` names the
    /// directory of the file.
    #[test]
    fn verification_follows_acvp() {
        let directory = std::env::var("JETON_VECTORS").unwrap_or_else(|_| "../shared/vectors".to_owned());
        let path = format!("{directory}/acvp/SLH-DSA-sigVer-FIPS205.json");
        let Ok(text) = std::fs::read_to_string(&path) else {
            return jeton_programs::skip(format_args!("{path} is absent"));
        };
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
        let mut valid = 0;
        for group in file["testGroups"].as_array().unwrap() {
            let name = group["parameterSet"].as_str().unwrap().replace("SLH-DSA-", "");
            let found = SETS.iter().find(|row| plain(&format!("{:?}", row.set)) == plain(&name));
            let row = found.expect("a set of the standard");
            for test in group["tests"].as_array().unwrap() {
                let bytes = |name: &str| jeton_vectors::hex(test[name].as_str().unwrap());
                let (key, message, signature) = (bytes("pk"), bytes("message"), bytes("signature"));
                let outcome = signature.len() == row.set.signature_len()
                    && (row.verify)(&row.params, &key, &[&message], &signature);
                assert_eq!(outcome, test["testPassed"].as_bool().unwrap(), "{name}, test {}", test["tcId"]);
                valid += usize::from(outcome);
            }
        }
        assert!(valid > 0);
    }
}
