//! ML-DSA and HashML-DSA (FIPS 204), hedged or deterministic, with a context.

use std::sync::Arc;

use jeton_secret::{Secret, Stacks};

use super::ffi;
use super::random::System;
use crate::backend::api::{
    Hash, MlDsa, PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, Verifier,
    output,
};
use crate::backend::shared::prehash::{expect_len, expect_mu, prefix};
use crate::error::{Error, Result, require};

/// The stacks of the computations: AWS-LC keeps the matrices on the stack, up to 120 KiB, which is
/// more than a caller's thread may have.
static STACKS: Stacks = Stacks::new(256 << 10);

pub(super) fn generate(set: MlDsa, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = System.seed(seed, MlDsa::SEED_LEN)?;
    let (public, key) = expand(set, &seed)?;
    Ok((PublicParts::MlDsa { set, key: public }, PrivateParts::MlDsa { set, seed: Some(seed), key }))
}

fn expand(set: MlDsa, seed: &[u8]) -> Result<(Vec<u8>, Secret)> {
    let seed = seed.as_array().ok_or(Error::DataInvalid)?;
    STACKS.run(|| ffi::ml_dsa_expand(set, seed))
}

/// A private key in its expanded encoding. AWS-LC has no faster form for signing.
pub(super) struct Private {
    set: MlDsa,
    public: Vec<u8>,
    key: Secret,
}

impl Private {
    pub(super) fn parse(set: MlDsa, seed: Option<&Secret>, key: &Secret) -> Result<Self> {
        let expanded = seed.map(|seed| expand(set, seed)).transpose()?;
        require(expanded.as_ref().is_none_or(|(_, own)| ffi::equal(own, key)), Error::DataInvalid)?;
        let public =
            expanded.map_or_else(|| STACKS.run(|| ffi::ml_dsa_public(set, key)), |(public, _)| Ok(public))?;
        Ok(Self { set, public, key: key.duplicate() })
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::MlDsa { set: self.set, key: self.public.clone() })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let (form, deterministic) = Form::of(scheme)?;
        Ok(Box::new(MlDsaSigner { key: self, form, deterministic }))
    }
}

/// A public key. Every string of the right length is valid.
pub(super) struct Public {
    set: MlDsa,
    key: Vec<u8>,
}

impl Public {
    pub(super) fn parse(set: MlDsa, key: &[u8]) -> Result<Self> {
        require(key.len() == set.public_len(), Error::DataInvalid)?;
        Ok(Self { set, key: key.to_vec() })
    }
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        Ok(Box::new(MlDsaVerifier { key: self, form: Form::of(scheme)?.0 }))
    }
}

/// The form of the input.
enum Form {
    /// A message, or a digest by this hash, with the bytes before it.
    Message(Option<Hash>, Vec<u8>),
    /// A message representative.
    Mu,
}

impl Form {
    /// Returns the form of a scheme, and whether it signs without randomness.
    fn of(scheme: &Scheme) -> Result<(Self, bool)> {
        match scheme {
            Scheme::MlDsa { hash, context, deterministic } => {
                Ok((Self::Message(*hash, prefix(*hash, context)?), *deterministic))
            }
            Scheme::MlDsaMu { deterministic } => Ok((Self::Mu, *deterministic)),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }

    /// Returns the input for the library.
    fn input<'a>(&'a self, input: &'a [u8]) -> Result<ffi::MlDsaInput<'a>> {
        match self {
            Self::Message(hash, prefix) => {
                expect_len(*hash, input)?;
                Ok(ffi::MlDsaInput::Message { prefix, message: input })
            }
            Self::Mu => expect_mu(input).map(ffi::MlDsaInput::Mu),
        }
    }
}

struct MlDsaSigner {
    key: Arc<Private>,
    form: Form,
    deterministic: bool,
}

impl Signer for MlDsaSigner {
    fn signature_len(&self) -> usize {
        self.key.set.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let input = self.form.input(input)?;
        let out = output(out, self.key.set.signature_len())?;
        // FIPS 204, algorithm 2: zeros give the deterministic variant.
        let mut random = [0; 32];
        if !self.deterministic {
            ffi::random(&mut random)?;
        }
        let Private { set, key, .. } = &*self.key;
        STACKS.run(|| ffi::ml_dsa_sign(*set, key, &input, &random, out))
    }
}

struct MlDsaVerifier {
    key: Arc<Public>,
    form: Form,
}

impl Verifier for MlDsaVerifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let input = self.form.input(input)?;
        require(signature.len() == self.key.set.signature_len(), Error::SignatureLenRange)?;
        let Public { set, key } = &*self.key;
        STACKS.run(|| ffi::ml_dsa_verify(*set, key, &input, signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 204, algorithm 4: the prefix is 1, the length of the context, the context and the
    /// identifier of the hash. The prefix of ML-DSA begins with 0.
    #[test]
    fn the_prefix_of_a_digest_has_the_context_and_the_hash() {
        for hash in Hash::ALL.into_iter().filter(|hash| *hash != Hash::Sha1) {
            let prefix = prefix(Some(hash), b"context").unwrap();
            assert_eq!(prefix[..9], *b"\x01\x07context");
            assert_eq!(prefix[9..19], [6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2]);
        }
    }
}
