//! X25519 (RFC 7748).

use std::sync::Arc;

use super::ffi;
use crate::backend::{PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier};
use crate::error::{Error, Result};
use crate::secret::Secret;

const LEN: usize = 32;

pub(super) fn generate() -> Result<(PublicParts, PrivateParts)> {
    let mut scalar = Secret::zeroed(LEN);
    ffi::random(&mut scalar)?;
    let public = Private::parse(&scalar)?.public()?;
    Ok((public, PrivateParts::X25519 { scalar }))
}

/// A private key.
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

    fn signer(self: Arc<Self>, _scheme: &Scheme) -> Result<Box<dyn Signer>> {
        Err(Error::KeyTypeInconsistent)
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        ffi::x25519(self.scalar()?, peer.as_array().ok_or(Error::DataInvalid)?)
    }
}

/// A public key, which is good for nothing but being a peer's.
pub(super) struct Public;

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, _scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        Err(Error::KeyTypeInconsistent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{generate, hex};
    use super::*;
    use crate::backend::PairSpec;

    /// RFC 7748, 6.1: private and public key of Alice and of Bob, and their secret.
    const ALICE: [&str; 2] = [
        "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ac177fba51db92c2a",
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
    ];
    const BOB: [&str; 2] = [
        "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
    ];
    const SECRET: &str = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";

    fn point(parts: PublicParts) -> Vec<u8> {
        let PublicParts::X25519 { point } = parts else { panic!("not X25519") };
        point.to_vec()
    }

    #[test]
    fn rfc_7748_diffie_hellman() {
        for ([scalar, public], [_, peer]) in [(ALICE, BOB), (BOB, ALICE)] {
            let key = Private::parse(&hex(scalar)).unwrap();
            assert_eq!(point(key.public().unwrap()), hex(public));
            assert_eq!(key.agree(&hex(peer)).unwrap()[..], hex(SECRET));
        }
    }

    #[test]
    fn a_generated_pair_belongs_together() {
        let (public, PrivateParts::X25519 { scalar }) = generate(PairSpec::X25519) else {
            panic!("not X25519")
        };
        let (key, bob) = (Private::parse(&scalar).unwrap(), Private::parse(&hex(BOB[0])).unwrap());
        assert!(key.public().unwrap() == public);
        assert_eq!(key.agree(&hex(BOB[1])).unwrap()[..], bob.agree(&point(public)).unwrap()[..]);
    }

    #[test]
    fn points_of_small_order_and_other_lengths_are_no_peers() {
        let key = Private::parse(&hex(ALICE[0])).unwrap();
        let mut one = [0; 32];
        one[0] = 1;
        for bad in [&[0; 32][..], &one, &[9; 31], &[9; 33], &[]] {
            assert_eq!(key.agree(bad).err(), Some(Error::DataInvalid));
        }
        for bad in [&[1; 31][..], &[1; 33], &[]] {
            assert_eq!(Private::parse(bad).err(), Some(Error::DataInvalid));
        }
    }
}
