//! Ed25519 (RFC 8032): pure, with a context, and on a digest.

use std::sync::Arc;

use jeton_secret::Secret;

use super::random::System;
use super::{elsewhere, ffi, verdict};
use crate::backend::api::{
    PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, Verifier,
};
use crate::error::{Error, Result};

const SEED_LEN: usize = 32;
const SIGNATURE_LEN: usize = 64;

pub(super) fn generate() -> Result<(PublicParts, PrivateParts)> {
    let seed = System.secret(SEED_LEN)?;
    let public = Private::parse(&seed)?.point;
    Ok((PublicParts::Ed25519 { point: public }, PrivateParts::Ed25519 { seed }))
}

/// A private key and its public key.
pub(super) struct Private {
    point: [u8; 32],
    /// The seed and the public key, in the form that AWS-LC signs with.
    key: Secret,
}

impl Private {
    pub(super) fn parse(seed: &[u8]) -> Result<Self> {
        let seed = seed.as_array::<SEED_LEN>().ok_or(Error::DataInvalid)?;
        let (point, key) = ffi::ed25519_public(seed);
        Ok(Self { point, key })
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Ed25519 { point: self.point })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let form = Form::parse(scheme)?;
        if form.is_elsewhere() {
            let parts = PrivateParts::Ed25519 { seed: Secret::from(&self.key[..SEED_LEN]) };
            return elsewhere()?.keys.private(&parts)?.signer(scheme);
        }
        Ok(Box::new(Ed25519Signer { key: self, form }))
    }
}

/// A public key that was checked.
pub(super) struct Public([u8; 32]);

impl Public {
    pub(super) fn parse(point: [u8; 32]) -> Result<Self> {
        if ffi::ed25519_is_on_curve(&point) { Ok(Self(point)) } else { Err(Error::DataInvalid) }
    }
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let form = Form::parse(scheme)?;
        if form.is_elsewhere() {
            return elsewhere()?.keys.public(&PublicParts::Ed25519 { point: self.0 })?.verifier(scheme);
        }
        Ok(Box::new(Ed25519Verifier { key: self, form }))
    }
}

/// The variant of Ed25519.
enum Form {
    Pure,
    /// Ed25519ctx, with this context.
    Context(Box<[u8]>),
    /// Ed25519ph, with this context.
    Prehash(Box<[u8]>),
}

impl Form {
    fn parse(scheme: &Scheme) -> Result<Self> {
        match scheme {
            Scheme::Ed25519 => Ok(Self::Pure),
            // AWS-LC FIPS 3.1.0 has pure Ed25519 only.
            Scheme::Ed25519Context { .. } if cfg!(feature = "fips") => Err(Error::MechanismParamInvalid),
            Scheme::Ed25519Context { context, .. } if context.len() > 255 => {
                Err(Error::MechanismParamInvalid)
            }
            Scheme::Ed25519Context { prehash: true, context } => Ok(Self::Prehash(context.clone())),
            Scheme::Ed25519Context { context, .. } => Ok(Self::Context(context.clone())),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }

    /// Returns whether AWS-LC lacks it. RFC 8032, 8.3 advises against an empty context of
    /// Ed25519ctx, and PKCS#11 3.2 permits it.
    fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Context(context) if context.is_empty())
    }

    fn input<'a>(&'a self, input: &'a [u8]) -> Result<ffi::Ed25519Input<'a>> {
        Ok(match self {
            Self::Pure => ffi::Ed25519Input::Pure(input),
            Self::Context(context) => ffi::Ed25519Input::Context(input, context),
            Self::Prehash(context) => {
                ffi::Ed25519Input::Digest(input.as_array().ok_or(Error::DataLenRange)?, context)
            }
        })
    }
}

struct Ed25519Signer {
    key: Arc<Private>,
    form: Form,
}

impl Signer for Ed25519Signer {
    fn signature_len(&self) -> usize {
        SIGNATURE_LEN
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let input = self.form.input(input)?;
        let out = out.first_chunk_mut().ok_or(Error::BufferTooSmall { needed: SIGNATURE_LEN })?;
        ffi::ed25519_sign(&self.key.key, input, out)
    }
}

struct Ed25519Verifier {
    key: Arc<Public>,
    form: Form,
}

impl Verifier for Ed25519Verifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let input = self.form.input(input)?;
        let signature = signature.as_array().ok_or(Error::SignatureLenRange)?;
        verdict(ffi::ed25519_verify(&self.key.0, input, signature))
    }
}
