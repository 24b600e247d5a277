//! X25519 (RFC 7748).

use super::ffi;
use super::random::System;
use crate::backend::{PrivateKey, PrivateParts, PublicParts, Random as _};
use crate::error::{Error, Result};
use crate::secret::Secret;

const LEN: usize = 32;

pub(super) fn generate() -> Result<(PublicParts, PrivateParts)> {
    let scalar = System.secret(LEN)?;
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

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        ffi::x25519(self.scalar()?, peer.as_array().ok_or(Error::DataInvalid)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{generate, hex};
    use super::*;
    use crate::backend::PairSpec;

    /// RFC 7748, 6.1: private and public key of Bob.
    const BOB: [&str; 2] = [
        "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
    ];

    fn point(parts: PublicParts) -> Vec<u8> {
        let PublicParts::X25519 { point } = parts else { panic!("not X25519") };
        point.to_vec()
    }

    #[test]
    fn rfc_7748_public_key_and_secret() {
        assert_eq!(point(Private::parse(&hex(BOB[0])).unwrap().public().unwrap()), hex(BOB[1]));
        // 5.2, the first vector.
        let scalar = hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
        let peer = hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
        let secret = hex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
        assert_eq!(Private::parse(&scalar).unwrap().agree(&peer).unwrap()[..], secret);
    }

    #[test]
    fn the_keys_of_a_generated_pair_belong_together() {
        let (public, PrivateParts::X25519 { scalar }) = generate(PairSpec::X25519) else {
            panic!("not X25519")
        };
        let (key, bob) = (Private::parse(&scalar).unwrap(), Private::parse(&hex(BOB[0])).unwrap());
        assert!(key.public().unwrap() == public);
        assert_eq!(key.agree(&hex(BOB[1])).unwrap()[..], bob.agree(&point(public)).unwrap()[..]);
    }

    #[test]
    fn points_of_small_order_and_of_other_lengths_are_refused() {
        let key = Private::parse(&hex(BOB[0])).unwrap();
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
