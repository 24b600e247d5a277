//! SLH-DSA (FIPS 205).

use std::sync::Arc;

use slh_dsa::{
    ParameterSet, Sha2_128f, Sha2_128s, Sha2_192f, Sha2_192s, Sha2_256f, Sha2_256s, Shake128f, Shake128s,
    Shake192f, Shake192s, Shake256f, Shake256s, Signature, SigningKey, VerifyingKey,
};
use zeroize::Zeroizing;

use super::random::System;
use super::{output, random};
use crate::backend::prehash::{expect_len, prefix};
use crate::backend::{
    Hash, PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, SlhDsa, Verifier,
};
use crate::error::{Error, Result};
use crate::secret::Secret;

pub(super) fn generate(set: SlhDsa, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = System.seed(seed, 3 * set.n())?;
    match set {
        SlhDsa::Sha2_128s => generate_in::<Sha2_128s>(set, &seed),
        SlhDsa::Shake128s => generate_in::<Shake128s>(set, &seed),
        SlhDsa::Sha2_128f => generate_in::<Sha2_128f>(set, &seed),
        SlhDsa::Shake128f => generate_in::<Shake128f>(set, &seed),
        SlhDsa::Sha2_192s => generate_in::<Sha2_192s>(set, &seed),
        SlhDsa::Shake192s => generate_in::<Shake192s>(set, &seed),
        SlhDsa::Sha2_192f => generate_in::<Sha2_192f>(set, &seed),
        SlhDsa::Shake192f => generate_in::<Shake192f>(set, &seed),
        SlhDsa::Sha2_256s => generate_in::<Sha2_256s>(set, &seed),
        SlhDsa::Shake256s => generate_in::<Shake256s>(set, &seed),
        SlhDsa::Sha2_256f => generate_in::<Sha2_256f>(set, &seed),
        SlhDsa::Shake256f => generate_in::<Shake256f>(set, &seed),
    }
}

pub(super) fn private(set: SlhDsa, key: &Secret) -> Result<Arc<dyn PrivateKey>> {
    match set {
        SlhDsa::Sha2_128s => private_in::<Sha2_128s>(set, key),
        SlhDsa::Shake128s => private_in::<Shake128s>(set, key),
        SlhDsa::Sha2_128f => private_in::<Sha2_128f>(set, key),
        SlhDsa::Shake128f => private_in::<Shake128f>(set, key),
        SlhDsa::Sha2_192s => private_in::<Sha2_192s>(set, key),
        SlhDsa::Shake192s => private_in::<Shake192s>(set, key),
        SlhDsa::Sha2_192f => private_in::<Sha2_192f>(set, key),
        SlhDsa::Shake192f => private_in::<Shake192f>(set, key),
        SlhDsa::Sha2_256s => private_in::<Sha2_256s>(set, key),
        SlhDsa::Shake256s => private_in::<Shake256s>(set, key),
        SlhDsa::Sha2_256f => private_in::<Sha2_256f>(set, key),
        SlhDsa::Shake256f => private_in::<Shake256f>(set, key),
    }
}

pub(super) fn public(set: SlhDsa, key: &[u8]) -> Result<Arc<dyn PublicKey>> {
    match set {
        SlhDsa::Sha2_128s => public_in::<Sha2_128s>(set, key),
        SlhDsa::Shake128s => public_in::<Shake128s>(set, key),
        SlhDsa::Sha2_128f => public_in::<Sha2_128f>(set, key),
        SlhDsa::Shake128f => public_in::<Shake128f>(set, key),
        SlhDsa::Sha2_192s => public_in::<Sha2_192s>(set, key),
        SlhDsa::Shake192s => public_in::<Shake192s>(set, key),
        SlhDsa::Sha2_192f => public_in::<Sha2_192f>(set, key),
        SlhDsa::Shake192f => public_in::<Shake192f>(set, key),
        SlhDsa::Sha2_256s => public_in::<Sha2_256s>(set, key),
        SlhDsa::Shake256s => public_in::<Shake256s>(set, key),
        SlhDsa::Sha2_256f => public_in::<Sha2_256f>(set, key),
        SlhDsa::Shake256f => public_in::<Shake256f>(set, key),
    }
}

trait Set: ParameterSet + Send + Sync + 'static {}
impl<P: ParameterSet + Send + Sync + 'static> Set for P {}

fn generate_in<P: Set>(set: SlhDsa, seed: &[u8]) -> Result<(PublicParts, PrivateParts)> {
    let key = expand::<P>(set, seed)?;
    let public = PublicParts::SlhDsa { set, key: verifying(&key).to_vec() };
    let bytes = Zeroizing::new(key.to_bytes());
    Ok((public, PrivateParts::SlhDsa { set, key: Secret::from(&bytes[..]) }))
}

/// Parses a private key. Computes its root again, and fails if the key contains another root.
/// Signatures under a wrong root do not verify. Signatures of the same key under two roots would
/// also reveal its one-time keys. The computation takes a tenth of the time of a signature.
fn private_in<P: Set>(set: SlhDsa, bytes: &Secret) -> Result<Arc<dyn PrivateKey>> {
    let seed = bytes.get(..3 * set.n()).ok_or(Error::DataInvalid)?;
    let key = expand::<P>(set, seed)?;
    let root = &verifying(&key).to_bytes()[set.n()..];
    if bytes[3 * set.n()..] != *root {
        return Err(Error::DataInvalid);
    }
    Ok(Arc::new(Private { set, key }))
}

fn public_in<P: Set>(set: SlhDsa, key: &[u8]) -> Result<Arc<dyn PublicKey>> {
    let key = VerifyingKey::<P>::try_from(key).map_err(|_| Error::DataInvalid)?;
    Ok(Arc::new(Public { set, key }))
}

fn expand<P: Set>(set: SlhDsa, seed: &[u8]) -> Result<SigningKey<P>> {
    if seed.len() != 3 * set.n() {
        return Err(Error::DataInvalid);
    }
    let (sk_seed, rest) = seed.split_at(set.n());
    let (sk_prf, pk_seed) = rest.split_at(set.n());
    Ok(SigningKey::slh_keygen_internal(sk_seed, sk_prf, pk_seed))
}

fn verifying<P: Set>(key: &SigningKey<P>) -> &VerifyingKey<P> {
    key.as_ref()
}

/// The crate wipes the key on drop.
struct Private<P: Set> {
    set: SlhDsa,
    key: SigningKey<P>,
}

impl<P: Set> PrivateKey for Private<P> {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::SlhDsa { set: self.set, key: verifying(&self.key).to_vec() })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let Scheme::SlhDsa { hash, context, deterministic } = scheme else {
            return Err(Error::KeyTypeInconsistent);
        };
        let prefix = prefix(*hash, context)?;
        Ok(Box::new(SlhDsaSigner { key: self, hash: *hash, prefix, deterministic: *deterministic }))
    }
}

struct SlhDsaSigner<P: Set> {
    key: Arc<Private<P>>,
    hash: Option<Hash>,
    prefix: Vec<u8>,
    deterministic: bool,
}

impl<P: Set> Signer for SlhDsaSigner<P> {
    fn signature_len(&self) -> usize {
        self.key.set.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        expect_len(self.hash, input)?;
        let out = output(out, self.signature_len())?;
        // FIPS 205, 9.2: without randomness PK.seed replaces it.
        let mut randomness = [0; 32];
        let randomness = &mut randomness[..self.key.set.n()];
        let randomness = if self.deterministic {
            None
        } else {
            random::fill(randomness)?;
            Some(&*randomness)
        };
        let signature = self.key.key.slh_sign_internal(&[&self.prefix, input], randomness);
        out.copy_from_slice(&signature.to_vec());
        Ok(())
    }
}

struct Public<P: Set> {
    set: SlhDsa,
    key: VerifyingKey<P>,
}

impl<P: Set> PublicKey for Public<P> {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let Scheme::SlhDsa { hash, context, .. } = scheme else {
            return Err(Error::KeyTypeInconsistent);
        };
        Ok(Box::new(SlhDsaVerifier { key: self, hash: *hash, prefix: prefix(*hash, context)? }))
    }
}

struct SlhDsaVerifier<P: Set> {
    key: Arc<Public<P>>,
    hash: Option<Hash>,
    prefix: Vec<u8>,
}

impl<P: Set> Verifier for SlhDsaVerifier<P> {
    fn signature_len(&self) -> usize {
        self.key.set.signature_len()
    }

    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        expect_len(self.hash, input)?;
        let signature = Signature::<P>::try_from(signature).map_err(|_| Error::SignatureLenRange)?;
        self.key
            .key
            .slh_verify_internal(&[&self.prefix, input], &signature)
            .map_err(|_| Error::SignatureInvalid)
    }
}
