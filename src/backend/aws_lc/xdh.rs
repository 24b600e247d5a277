//! X25519 (RFC 7748).

use jeton_secret::Secret;

use super::ffi;
use super::random::System;
use crate::backend::api::{PrivateKey, PrivateParts, PublicParts, Random as _};
use crate::error::{Error, Result};

const LEN: usize = 32;

pub(super) fn generate() -> Result<(PublicParts, PrivateParts)> {
    let scalar = System.secret(LEN)?;
    let public = Private::parse(&scalar)?.public()?;
    Ok((public, PrivateParts::X25519 { scalar }))
}

pub(super) struct Private(Secret);

impl Private {
    pub(super) fn parse(scalar: &[u8]) -> Result<Self> {
        if scalar.len() == LEN { Ok(Self(scalar.into())) } else { Err(Error::DataInvalid) }
    }

    fn scalar(&self) -> Result<&[u8; LEN]> {
        self.0.as_array().ok_or(Error::DataInvalid)
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::X25519 { point: ffi::x25519_public(self.scalar()?) })
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        ffi::x25519(self.scalar()?, peer.as_array().ok_or(Error::DataInvalid)?)
    }
}
