//! ML-KEM (FIPS 203).

use jeton_secret::Secret;

use super::ffi;
use super::random::System;
use crate::backend::api::{MlKem, PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _};
use crate::error::{Error, Result, require};

pub(super) fn generate(set: MlKem, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = System.seed(seed, MlKem::SEED_LEN)?;
    let (public, key) = expand(set, &seed)?;
    Ok((PublicParts::MlKem { set, key: public }, PrivateParts::MlKem { set, seed: Some(seed), key }))
}

fn expand(set: MlKem, seed: &[u8]) -> Result<(Vec<u8>, Secret)> {
    ffi::ml_kem_expand(set, seed.as_array().ok_or(Error::DataInvalid)?)
}

/// A decapsulation key in the encoding of FIPS 203. AWS-LC takes the key in this form.
pub(super) struct Private {
    set: MlKem,
    public: Vec<u8>,
    key: Secret,
}

impl Private {
    pub(super) fn parse(set: MlKem, seed: Option<&Secret>, key: &Secret) -> Result<Self> {
        let expanded = seed.map(|seed| expand(set, seed)).transpose()?;
        require(expanded.as_ref().is_none_or(|(_, own)| ffi::equal(own, key)), Error::DataInvalid)?;
        let public = expanded.map_or_else(|| ffi::ml_kem_public(set, key), |(public, _)| Ok(public))?;
        Ok(Self { set, public, key: key.duplicate() })
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::MlKem { set: self.set, key: self.public.clone() })
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Secret> {
        ffi::ml_kem_decapsulate(self.set, &self.key, ciphertext)
    }
}

/// An encapsulation key that was checked.
pub(super) struct Public {
    set: MlKem,
    key: Vec<u8>,
}

impl Public {
    pub(super) fn parse(set: MlKem, key: &[u8]) -> Result<Self> {
        ffi::ml_kem_check(set, key)?;
        Ok(Self { set, key: key.to_vec() })
    }
}

impl PublicKey for Public {
    fn encapsulate(&self) -> Result<(Vec<u8>, Secret)> {
        ffi::ml_kem_encapsulate(self.set, &self.key)
    }
}
