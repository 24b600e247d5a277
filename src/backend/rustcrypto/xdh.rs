//! X25519 and X448 (RFC 7748).

use std::sync::Arc;

use curve25519_dalek::montgomery::MontgomeryPoint;
use ed448_goldilocks::elliptic_curve::{bigint::U448, scalar::FromUintUnchecked};
use ed448_goldilocks::{Ed448, MontgomeryPoint as MontgomeryPoint448, Scalar};
use jeton_secret::Secret;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::random::System;
use crate::backend::api::{PrivateKey, PrivateParts, PublicParts, Random as _};
use crate::error::{Error, Result, require};

const X25519_LEN: usize = 32;
const X448_LEN: usize = 56;

pub(super) fn generate_x25519() -> Result<(PublicParts, PrivateParts)> {
    let scalar = System.secret(X25519_LEN)?;
    let public = x25519(&scalar)?.public()?;
    Ok((public, PrivateParts::X25519 { scalar }))
}

pub(super) fn generate_x448() -> Result<(PublicParts, PrivateParts)> {
    let scalar = System.secret(X448_LEN)?;
    let public = x448(&scalar)?.public()?;
    Ok((public, PrivateParts::X448 { scalar }))
}

pub(super) fn x25519(scalar: &Secret) -> Result<Arc<dyn PrivateKey>> {
    Ok(Arc::new(X25519(Zeroizing::new(scalar[..].try_into().map_err(|_| Error::DataInvalid)?))))
}

pub(super) fn x448(scalar: &Secret) -> Result<Arc<dyn PrivateKey>> {
    Ok(Arc::new(X448(Zeroizing::new(scalar[..].try_into().map_err(|_| Error::DataInvalid)?))))
}

struct X25519(Zeroizing<[u8; X25519_LEN]>);

impl PrivateKey for X25519 {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::X25519 { point: MontgomeryPoint::mul_base_clamped(*self.0).to_bytes() })
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        let peer = MontgomeryPoint(peer.try_into().map_err(|_| Error::DataInvalid)?);
        let shared = Zeroizing::new(peer.mul_clamped(*self.0).to_bytes());
        // RFC 7748, 6.1: the result is zero if the peer's point has a small order.
        require(!bool::from(shared.ct_eq(&[0; X25519_LEN])), Error::DataInvalid)?;
        Ok(Secret::from(&shared[..]))
    }
}

struct X448(Zeroizing<[u8; X448_LEN]>);

impl X448 {
    fn multiply(&self, point: MontgomeryPoint448) -> Zeroizing<[u8; X448_LEN]> {
        let mut clamped = self.0.clone();
        clamped[0] &= 0xfc;
        clamped[X448_LEN - 1] |= 0x80;
        let scalar = Scalar::<Ed448>::from_uint_unchecked(U448::from_le_slice(&clamped[..]));
        Zeroizing::new((&point * &scalar).0)
    }
}

impl PrivateKey for X448 {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::X448 { point: *self.multiply(MontgomeryPoint448::GENERATOR) })
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        let peer = MontgomeryPoint448(peer.try_into().map_err(|_| Error::DataInvalid)?);
        let shared = self.multiply(peer);
        // RFC 7748, 6.2: the result is zero if the peer's point has a small order.
        require(!bool::from(shared.ct_eq(&[0; X448_LEN])), Error::DataInvalid)?;
        Ok(Secret::from(&shared[..]))
    }
}
