//! A backend without cryptography: constant signatures, constant digests, and ciphertext equal to
//! the plaintext.
//!
//! It does almost no work, so that a benchmark measures only the token. The feature `null-backend`
//! is off by default: never use it in a token that protects real keys. A build with the feature
//! uses this backend only if the configuration names it or no other backend exists. It implements
//! only what the benchmarks need.

use std::sync::Arc;

use jeton_secret::Secret;

use crate::backend::api::{
    Aead, AeadScheme, Cipher, CipherScheme, Ciphers, Curve, Digest, Direction, Hash, Hasher, Keys, Mac,
    MacScheme, Macs, PairSpec, PrivateKey, PrivateParts, Provider, PublicKey, PublicParts, Random, Renewal,
    Scheme, Signer, Verifier,
};
use crate::error::{Error, Result, require};

/// The backend `null`.
pub static PROVIDER: Provider =
    Provider { name: "null", random: &Null, digest: &Null, keys: &Null, ciphers: &Null, macs: &Null };

struct Null;

impl Random for Null {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        Ok(())
    }
}

impl Digest for Null {
    fn hash(&self, hash: Hash, _data: &[u8], out: &mut [u8]) -> Result<()> {
        zeros(out, hash.len())
    }

    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>> {
        Ok(Box::new(Constant(hash.len())))
    }
}

/// A digest, MAC or signature that consists of this number of zeros.
struct Constant(usize);

impl Hasher for Constant {
    fn update(&mut self, _data: &[u8]) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        zeros(out, self.0)
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Mac for Constant {
    fn mac_len(&self) -> usize {
        self.0
    }

    fn update(&mut self, _data: &[u8]) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        zeros(out, self.0)
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Signer for Constant {
    fn signature_len(&self) -> usize {
        self.0
    }

    fn sign(&mut self, _input: &[u8], out: &mut [u8]) -> Result<()> {
        zeros(out, self.0)
    }
}

impl Verifier for Constant {
    /// Accepts only the signature that [`Signer::sign`] writes.
    fn verify(&mut self, _input: &[u8], signature: &[u8]) -> Result<()> {
        require(signature.len() == self.0, Error::SignatureLenRange)?;
        if signature.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(Error::SignatureInvalid) }
    }
}

impl Macs for Null {
    fn mac(&self, scheme: &MacScheme, _key: &[u8]) -> Result<Box<dyn Mac>> {
        match scheme {
            MacScheme::Hmac(hash) => Ok(Box::new(Constant(hash.len()))),
            _ => Err(Error::MechanismInvalid),
        }
    }

    fn pbkdf2(&self, _: Hash, _: &[u8], _: &[u8], _: u32, _: &mut [u8]) -> Result<()> {
        Err(Error::MechanismInvalid)
    }
}

impl Ciphers for Null {
    fn cipher(&self, scheme: &CipherScheme, direction: Direction, _key: &[u8]) -> Result<Box<dyn Cipher>> {
        match (scheme, direction) {
            (CipherScheme::Aead { tag_len, .. }, Direction::Encrypt) => Ok(Box::new(Copying(*tag_len))),
            _ => Err(Error::MechanismInvalid),
        }
    }

    fn aead(&self, _: AeadScheme, _: &[u8]) -> Result<Box<dyn Aead>> {
        Err(Error::MechanismInvalid)
    }
}

/// Copies the plaintext and adds a tag of this number of zeros.
struct Copying(usize);

impl Cipher for Copying {
    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let needed = input.len();
        out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?.copy_from_slice(input);
        Ok(needed)
    }

    fn finish_len(&self) -> usize {
        self.0
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        zeros(out, self.0)?;
        Ok(self.0)
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    fn renew(&mut self, new: Renewal<'_>) -> Result<bool> {
        Ok(!matches!(new, Renewal::Gcm(gcm) if gcm.tag_len != self.0))
    }
}

impl Keys for Null {
    fn safe_prime(&self, _: usize) -> Result<Vec<u8>> {
        Err(Error::MechanismInvalid)
    }

    fn generate(&self, spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)> {
        let PairSpec::Ec(Curve::P256) = spec else { return Err(Error::MechanismInvalid) };
        let mut scalar = Secret::zeroed(Curve::P256.len());
        scalar[Curve::P256.len() - 1] = 1;
        let (public, private) = (generator(), PrivateParts::Ec { curve: Curve::P256, scalar });
        Ok((public, private))
    }

    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>> {
        match parts {
            PrivateParts::Ec { curve, .. } => Ok(Arc::new(Key(*curve))),
            _ => Err(Error::KeySizeRange),
        }
    }

    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>> {
        match parts {
            PublicParts::Ec { curve, .. } => Ok(Arc::new(Key(*curve))),
            _ => Err(Error::KeySizeRange),
        }
    }
}

/// A public or private key.
struct Key(Curve);

impl Key {
    fn constant(&self, scheme: &Scheme) -> Result<Constant> {
        match scheme {
            Scheme::Ecdsa => Ok(Constant(2 * self.0.len())),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

impl PrivateKey for Key {
    fn public(&self) -> Result<PublicParts> {
        match self.0 {
            Curve::P256 => Ok(generator()),
            _ => Err(Error::DataInvalid),
        }
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        Ok(Box::new(self.constant(scheme)?))
    }
}

impl PublicKey for Key {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        Ok(Box::new(self.constant(scheme)?))
    }
}

/// Returns the generator of P-256 (SP 800-186, 3.2.1.3), which is the public key of the scalar 1.
fn generator() -> PublicParts {
    const POINT: [u8; 65] = [
        0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
        0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f,
        0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
        0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
    ];
    PublicParts::Ec { curve: Curve::P256, point: POINT.to_vec() }
}

fn zeros(out: &mut [u8], needed: usize) -> Result<()> {
    out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?.fill(0);
    Ok(())
}
