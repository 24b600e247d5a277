//! Ed25519 (RFC 8032).

use std::sync::Arc;

use ed25519_dalek::{SIGNATURE_LENGTH, Signature, Signer as _, SigningKey, Verifier as _, VerifyingKey};
use zeroize::Zeroizing;

use super::{output, random};
use crate::backend::{PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier};
use crate::error::{Error, Result};
use crate::secret::Secret;

const SEED_LEN: usize = 32;

pub(super) fn generate() -> Result<(PublicParts, PrivateParts)> {
    let mut seed = Secret::zeroed(SEED_LEN);
    random::fill(&mut seed)?;
    let public = public_parts(&parse(&seed)?.verifying_key());
    Ok((public, PrivateParts::Ed25519 { seed }))
}

pub(super) fn private(seed: &Secret) -> Result<Arc<dyn PrivateKey>> {
    Ok(Arc::new(Private(parse(seed)?)))
}

pub(super) fn public(point: &[u8; 32]) -> Result<Arc<dyn PublicKey>> {
    Ok(Arc::new(Public(VerifyingKey::from_bytes(point).map_err(|_| Error::DataInvalid)?)))
}

fn parse(seed: &Secret) -> Result<SigningKey> {
    let seed: Zeroizing<[u8; SEED_LEN]> =
        Zeroizing::new(seed[..].try_into().map_err(|_| Error::DataInvalid)?);
    Ok(SigningKey::from_bytes(&seed))
}

fn public_parts(key: &VerifyingKey) -> PublicParts {
    PublicParts::Ed25519 { point: key.to_bytes() }
}

/// The library wipes it when it is dropped.
struct Private(SigningKey);

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(public_parts(&self.0.verifying_key()))
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        match scheme {
            Scheme::Ed25519 => Ok(Box::new(Ed25519Signer(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct Ed25519Signer(Arc<Private>);

impl Signer for Ed25519Signer {
    fn signature_len(&self) -> usize {
        SIGNATURE_LENGTH
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let out = output(out, SIGNATURE_LENGTH)?;
        out.copy_from_slice(&self.0.0.sign(input).to_bytes());
        Ok(())
    }
}

struct Public(VerifyingKey);

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        match scheme {
            Scheme::Ed25519 => Ok(Box::new(Ed25519Verifier(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct Ed25519Verifier(Arc<Public>);

impl Verifier for Ed25519Verifier {
    fn signature_len(&self) -> usize {
        SIGNATURE_LENGTH
    }

    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let signature = Signature::from_slice(signature).map_err(|_| Error::SignatureLenRange)?;
        // Not `verify_strict`: it also refuses points of small order, which RFC 8032 and AWS-LC take.
        self.0.0.verify(input, &signature).map_err(|_| Error::SignatureInvalid)
    }
}
