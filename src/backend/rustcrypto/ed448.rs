//! Ed448 and Ed448ph (RFC 8032).

use std::sync::Arc;

use ed448_goldilocks::{PreHash, Signature, SigningKey, VerifyingKey};
use jeton_secret::Secret;
use zeroize::Zeroizing;

use super::failed;
use super::random::System;
use crate::backend::api::{
    PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, Verifier, output,
};
use crate::error::{Error, Result, require};

const SEED_LEN: usize = 57;
const SIGNATURE_LEN: usize = 114;
/// The length of the digest that Ed448ph signs.
const PREHASH_LEN: usize = 64;
const MAX_CONTEXT: usize = 255;

pub(super) fn generate() -> Result<(PublicParts, PrivateParts)> {
    let seed = System.secret(SEED_LEN)?;
    let public = Private(parse(&seed)?).public()?;
    Ok((public, PrivateParts::Ed448 { seed }))
}

pub(super) fn private(seed: &Secret) -> Result<Arc<dyn PrivateKey>> {
    Ok(Arc::new(Private(parse(seed)?)))
}

pub(super) fn public(point: &[u8; 57]) -> Result<Arc<dyn PublicKey>> {
    require(canonical(point), Error::DataInvalid)?;
    Ok(Arc::new(Public(VerifyingKey::from_bytes(point).map_err(|_| Error::DataInvalid)?)))
}

/// Checks that the unused bits of the last byte are zero. Only its sign bit is used (RFC 8032,
/// 5.2.2), and the library ignores the others.
fn canonical(point: &[u8; 57]) -> bool {
    point[56] & 0x7f == 0
}

fn parse(seed: &Secret) -> Result<SigningKey> {
    let seed: Zeroizing<[u8; SEED_LEN]> =
        Zeroizing::new(seed[..].try_into().map_err(|_| Error::DataInvalid)?);
    SigningKey::try_from(&seed[..]).map_err(|_| Error::DataInvalid)
}

/// A private key. The library wipes it on drop.
struct Private(SigningKey);

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Ed448 { point: self.0.verifying_key().to_bytes() })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let (prehash, context) = options(scheme)?;
        Ok(Box::new(Ed448Signer { key: self, prehash, context }))
    }
}

fn options(scheme: &Scheme) -> Result<(bool, Box<[u8]>)> {
    match scheme {
        Scheme::Ed448 { context, .. } if context.len() > MAX_CONTEXT => Err(Error::MechanismParamInvalid),
        Scheme::Ed448 { prehash, context } => Ok((*prehash, context.clone())),
        _ => Err(Error::KeyTypeInconsistent),
    }
}

/// A digest from the caller. The library's interface would compute the digest itself.
struct Given([u8; PREHASH_LEN]);

impl Given {
    fn new(input: &[u8]) -> Result<Self> {
        input.try_into().map(Self).map_err(|_| Error::DataLenRange)
    }
}

impl PreHash for Given {
    fn fill_bytes(&mut self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
}

struct Ed448Signer {
    key: Arc<Private>,
    prehash: bool,
    context: Box<[u8]>,
}

impl Signer for Ed448Signer {
    fn signature_len(&self) -> usize {
        SIGNATURE_LEN
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let out = output(out, SIGNATURE_LEN)?;
        let signature = match self.prehash {
            true => self.key.0.sign_prehashed(Some(&self.context), Given::new(input)?),
            false => self.key.0.sign_ctx(&self.context, input),
        };
        out.copy_from_slice(&signature.map_err(|error| failed("an Ed448 signature")(&error))?.to_bytes());
        Ok(())
    }
}

struct Public(VerifyingKey);

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let (prehash, context) = options(scheme)?;
        Ok(Box::new(Ed448Verifier { key: self, prehash, context }))
    }
}

struct Ed448Verifier {
    key: Arc<Public>,
    prehash: bool,
    context: Box<[u8]>,
}

impl Verifier for Ed448Verifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let signature = Signature::from_slice(signature).map_err(|_| Error::SignatureLenRange)?;
        require(canonical(signature.r_bytes()), Error::SignatureInvalid)?;
        let outcome = match self.prehash {
            true => self.key.0.verify_prehashed(&signature, Some(&self.context), Given::new(input)?),
            false => self.key.0.verify_ctx(&signature, &self.context, input),
        };
        outcome.map_err(|_| Error::SignatureInvalid)
    }
}
