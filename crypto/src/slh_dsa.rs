//! SLH-DSA (FIPS 205). The crate `slh-dsa` computes one hash after the other. This code computes
//! several at once: a signature with SHA2-128f takes a third of the crate's time on x86-64.

use jeton_secret::Secret;

use self::hash::HashFunctions;
use self::params::Params;
use self::sha2::Sha2;
use self::shake::Shake;
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
pub struct ParameterSet {
    name: &'static str,
    n: usize,
    params: Params,
    root: fn(&Params, &[u8], &[u8], &mut [u8]),
    sign: Sign,
    verify: Verify,
}

/// FIPS 205, table 2, in its order.
pub static SETS: [ParameterSet; 12] = [
    row::<Sha2<16>, 16>("SHA2-128s", SMALL_128),
    row::<Shake<16>, 16>("SHAKE-128s", SMALL_128),
    row::<Sha2<16>, 16>("SHA2-128f", FAST_128),
    row::<Shake<16>, 16>("SHAKE-128f", FAST_128),
    row::<Sha2<24>, 24>("SHA2-192s", SMALL_192),
    row::<Shake<24>, 24>("SHAKE-192s", SMALL_192),
    row::<Sha2<24>, 24>("SHA2-192f", FAST_192),
    row::<Shake<24>, 24>("SHAKE-192f", FAST_192),
    row::<Sha2<32>, 32>("SHA2-256s", SMALL_256),
    row::<Shake<32>, 32>("SHAKE-256s", SMALL_256),
    row::<Sha2<32>, 32>("SHA2-256f", FAST_256),
    row::<Shake<32>, 32>("SHAKE-256f", FAST_256),
];

const SMALL_128: Params = Params { d: 7, height: 9, a: 12, k: 14 };
const FAST_128: Params = Params { d: 22, height: 3, a: 6, k: 33 };
const SMALL_192: Params = Params { d: 7, height: 9, a: 14, k: 17 };
const FAST_192: Params = Params { d: 22, height: 3, a: 8, k: 33 };
const SMALL_256: Params = Params { d: 8, height: 8, a: 14, k: 22 };
const FAST_256: Params = Params { d: 17, height: 4, a: 9, k: 35 };

const fn row<H: HashFunctions<N>, const N: usize>(name: &'static str, params: Params) -> ParameterSet {
    ParameterSet {
        name,
        n: N,
        params,
        root: scheme::root::<H, N>,
        sign: scheme::sign::<H, N>,
        verify: scheme::verify::<H, N>,
    }
}

impl ParameterSet {
    /// The name in the standard, without `SLH-DSA-`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The security parameter n in bytes. A public key has 2n bytes and a private key 4n.
    pub const fn n(&self) -> usize {
        self.n
    }

    /// The length of a signature in bytes.
    pub const fn signature_len(&self) -> usize {
        let Params { d, height, a, k } = self.params;
        self.n * (1 + k * (a + 1) + d as usize * (wots::chains(self.n) + height))
    }

    /// Returns the private key of a seed: SK.seed || SK.prf || PK.seed || PK.root. Fails with
    /// `Length` if the seed does not have 3n bytes.
    pub fn expand(&self, seed: &[u8]) -> Result<Secret> {
        let n = self.n;
        require(seed.len() == 3 * n, Error::Length)?;
        let mut key = Secret::zeroed(4 * n);
        let (start, root) = key.split_at_mut(3 * n);
        start.copy_from_slice(seed);
        (self.root)(&self.params, &start[..n], &start[2 * n..], root);
        Ok(key)
    }

    /// Signs a message in parts (FIPS 205, algorithm 19). Fails with `Length` if the key, the n
    /// bytes of randomness or the signature has another length.
    pub fn sign(&self, key: &[u8], randomness: &[u8], message: &[&[u8]], signature: &mut [u8]) -> Result<()> {
        let fits = key.len() == 4 * self.n && randomness.len() == self.n;
        require(fits && signature.len() == self.signature_len(), Error::Length)?;
        (self.sign)(&self.params, key, randomness, message, signature);
        Ok(())
    }

    /// Verifies a signature of a message in parts (FIPS 205, algorithm 20). Fails with `Length` if
    /// the public key or the signature has another length, and with `Invalid` if the signature is
    /// wrong.
    pub fn verify(&self, public: &[u8], message: &[&[u8]], signature: &[u8]) -> Result<()> {
        require(public.len() == 2 * self.n && signature.len() == self.signature_len(), Error::Length)?;
        require((self.verify)(&self.params, public, message, signature), Error::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_rows_fit_the_standard() {
        // FIPS 205, table 2: m and the length of a signature, in the order of the rows.
        let m = [30, 30, 34, 34, 39, 39, 42, 42, 47, 47, 49, 49];
        let lens = [7856, 17088, 16224, 35664, 29792, 49856].map(|len| [len; 2]);
        for ((row, m), len) in SETS.iter().zip(m).zip(lens.as_flattened()) {
            assert_eq!((row.params.m(), row.signature_len()), (m, *len), "{}", row.name);
        }
    }

    /// NIST's sample signatures (ACVP). `JETON_VECTORS` names the directory of the file.
    #[test]
    fn verification_follows_acvp() {
        let directory = std::env::var("JETON_VECTORS").unwrap_or_else(|_| "../../shared/vectors".to_owned());
        let path = format!("{directory}/acvp/SLH-DSA-sigVer-FIPS205.json");
        let Ok(text) = std::fs::read_to_string(&path) else {
            let line = format!("SKIPPED jeton_crypto verification_follows_acvp: {path} is absent\n");
            return std::io::stderr().write_all(line.as_bytes()).expect("standard error");
        };
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut valid = 0;
        for group in file["testGroups"].as_array().unwrap() {
            let name = group["parameterSet"].as_str().unwrap();
            let found = SETS.iter().find(|set| name.strip_prefix("SLH-DSA-") == Some(set.name));
            let set = found.expect("a set of the standard");
            for test in group["tests"].as_array().unwrap() {
                let bytes = |name: &str| jeton_vectors::hex(test[name].as_str().unwrap());
                let (key, message, signature) = (bytes("pk"), bytes("message"), bytes("signature"));
                let outcome = set.verify(&key, &[&message], &signature).is_ok();
                assert_eq!(outcome, test["testPassed"].as_bool().unwrap(), "{name}, test {}", test["tcId"]);
                valid += usize::from(outcome);
            }
        }
        assert!(valid > 0);
    }
}
