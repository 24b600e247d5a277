//! SLH-DSA (FIPS 205), of our own cryptography.

use std::sync::Arc;

use jeton_crypto::slh_dsa::{ParameterSet, SETS};
use jeton_secret::Secret;

use super::random;
use super::random::System;
use crate::backend::api::{
    Hash, PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, SlhDsa, Verifier,
    failure, of_key, of_signature, output,
};
use crate::backend::shared::prehash::{expect_len, prefix};
use crate::error::{Error, Result, require};

/// The sets have the order of the standard in both lists.
fn find(set: SlhDsa) -> &'static ParameterSet {
    &SETS[set as usize]
}

pub(super) fn generate(set: SlhDsa, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = System.seed(seed, 3 * set.n())?;
    let key = find(set).expand(&seed).map_err(of_key)?;
    let public = PublicParts::SlhDsa { set, key: key[2 * set.n()..].to_vec() };
    Ok((public, PrivateParts::SlhDsa { set, key }))
}

/// Parses a private key. Computes its root again, and fails if the key contains another root.
/// Signatures under a wrong root do not verify. Signatures of the same key under two roots would
/// also reveal its one-time keys. The computation takes a tenth of the time of a signature.
pub(super) fn private(set: SlhDsa, bytes: &Secret) -> Result<Arc<dyn PrivateKey>> {
    let n = set.n();
    let key = find(set).expand(bytes.get(..3 * n).ok_or(Error::DataInvalid)?).map_err(of_key)?;
    require(bytes[3 * n..] == key[3 * n..], Error::DataInvalid)?;
    Ok(Arc::new(Private { set, key }))
}

pub(super) fn public(set: SlhDsa, key: &[u8]) -> Result<Arc<dyn PublicKey>> {
    require(key.len() == 2 * set.n(), Error::DataInvalid)?;
    Ok(Arc::new(Public { set, key: key.into() }))
}

struct Private {
    set: SlhDsa,
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
        Ok(PublicParts::SlhDsa { set: self.set, key: self.public_key().to_vec() })
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
        self.key.set.signature_len()
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
        find(*set).sign(key, randomness, &[&self.prefix, input], out).map_err(failure)
    }
}

struct Public {
    set: SlhDsa,
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
        require(signature.len() == self.key.set.signature_len(), Error::SignatureLenRange)?;
        let Public { set, key } = &*self.key;
        find(*set).verify(key, &[&self.prefix, input], signature).map_err(of_signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_have_the_order_of_the_standard() {
        for set in SlhDsa::ALL {
            let found = find(set);
            assert_eq!(
                found.name().replace("E-", "E").replace('-', "_").to_lowercase(),
                format!("{set:?}").to_lowercase()
            );
            assert_eq!((found.n(), found.signature_len()), (set.n(), set.signature_len()), "{set:?}");
        }
    }
}
