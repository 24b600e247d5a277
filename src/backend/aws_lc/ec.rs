//! The NIST curves and secp256k1: ECDSA with signatures as r || s, and ECDH.

use std::sync::Arc;

use jeton_secret::Secret;

use super::{ffi, verdict};
use crate::backend::api::{
    Curve, PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier, output,
};
use crate::backend::shared::point::encoding;
use crate::error::{Error, Result, require};

pub(super) fn generate(curve: Curve) -> Result<(PublicParts, PrivateParts)> {
    let key = ffi::EcKey::generate(curve)?;
    let public = PublicParts::Ec { curve, point: key.point()? };
    Ok((public, PrivateParts::Ec { curve, scalar: key.scalar()? }))
}

pub(super) struct Private {
    curve: Curve,
    key: ffi::EcKey,
}

impl Private {
    pub(super) fn parse(curve: Curve, scalar: &[u8]) -> Result<Self> {
        require(scalar.len() == curve.len(), Error::DataInvalid)?;
        Ok(Self { curve, key: ffi::EcKey::private(curve, scalar)? })
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Ec { curve: self.curve, point: self.key.point()? })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        match scheme {
            Scheme::Ecdsa => Ok(Box::new(EcdsaSigner(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        self.key.agree(&ffi::EcKey::public(self.curve, &encoding(self.curve, peer)?)?)
    }
}

pub(super) struct Public {
    curve: Curve,
    key: ffi::EcKey,
}

impl Public {
    pub(super) fn parse(curve: Curve, point: &[u8]) -> Result<Self> {
        // AWS-LC would also accept compressed points.
        require(point.len() == 1 + 2 * curve.len() && point[0] == 4, Error::DataInvalid)?;
        Ok(Self { curve, key: ffi::EcKey::public(curve, point)? })
    }
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        match scheme {
            Scheme::Ecdsa => Ok(Box::new(EcdsaVerifier { key: self, signature: ffi::EcdsaSig::new()? })),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct EcdsaSigner(Arc<Private>);

impl Signer for EcdsaSigner {
    fn signature_len(&self) -> usize {
        2 * self.0.curve.len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let len = self.0.curve.len();
        let (r, s) = output(out, 2 * len)?.split_at_mut(len);
        self.0.key.sign(input, r, s)
    }
}

struct EcdsaVerifier {
    key: Arc<Public>,
    signature: ffi::EcdsaSig,
}

impl Verifier for EcdsaVerifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let len = signature.len();
        if len == 0 || len > 2 * self.key.curve.len() || !len.is_multiple_of(2) {
            return Err(Error::SignatureLenRange);
        }
        let (r, s) = signature.split_at(len / 2);
        self.signature.set(r, s)?;
        verdict(self.key.key.verify(input, &self.signature))
    }
}
