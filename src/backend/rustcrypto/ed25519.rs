//! Ed25519, Ed25519ctx and Ed25519ph (RFC 8032).

use std::sync::Arc;

use curve25519_dalek::{EdwardsPoint, Scalar};
use ed25519_dalek::hazmat::ExpandedSecretKey;
use ed25519_dalek::{SIGNATURE_LENGTH, Signature, Signer as _, SigningKey, Verifier as _, VerifyingKey};
use jeton_secret::Secret;
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

use super::random::System;
use crate::backend::api::{
    PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, Verifier, output,
};
use crate::error::{Error, Result};

const SEED_LEN: usize = 32;

pub(super) fn generate() -> Result<(PublicParts, PrivateParts)> {
    let seed = System.secret(SEED_LEN)?;
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

/// A private key. The library wipes it on drop.
struct Private(SigningKey);

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(public_parts(&self.0.verifying_key()))
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        Ok(Box::new(Ed25519Signer { key: self, domain: Domain::parse(scheme)? }))
    }
}

struct Ed25519Signer {
    key: Arc<Private>,
    domain: Option<Domain>,
}

impl Signer for Ed25519Signer {
    fn signature_len(&self) -> usize {
        SIGNATURE_LENGTH
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let key = &self.key.0;
        let signature = match &self.domain {
            None => key.sign(input),
            Some(domain) => domain.sign(key, input)?,
        };
        output(out, SIGNATURE_LENGTH)?.copy_from_slice(&signature.to_bytes());
        Ok(())
    }
}

struct Public(VerifyingKey);

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        Ok(Box::new(Ed25519Verifier { key: self, domain: Domain::parse(scheme)? }))
    }
}

struct Ed25519Verifier {
    key: Arc<Public>,
    domain: Option<Domain>,
}

impl Verifier for Ed25519Verifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let signature = Signature::from_slice(signature).map_err(|_| Error::SignatureLenRange)?;
        let key = &self.key.0;
        match &self.domain {
            // `verify_strict` also refuses points of small order, which RFC 8032 and AWS-LC accept.
            None => key.verify(input, &signature).map_err(|_| Error::SignatureInvalid),
            Some(domain) => domain.verify(key, input, &signature),
        }
    }
}

/// The two variants that hash a prefix first (RFC 8032, 5.1). The library lacks Ed25519ctx, and its
/// Ed25519ph hashes the message itself. So both are computed here from the group operations of the
/// library.
struct Domain {
    prehash: bool,
    /// SHA-512 after `dom2(F, C)` (RFC 8032, 2).
    hash: Sha512,
}

impl Domain {
    /// Returns `None` for Ed25519, which has no prefix.
    fn parse(scheme: &Scheme) -> Result<Option<Self>> {
        let (prehash, context) = match scheme {
            Scheme::Ed25519 => return Ok(None),
            Scheme::Ed25519Context { prehash, context } => (*prehash, context),
            _ => return Err(Error::KeyTypeInconsistent),
        };
        let len = u8::try_from(context.len()).map_err(|_| Error::MechanismParamInvalid)?;
        let hash = Sha512::new_with_prefix(b"SigEd25519 no Ed25519 collisions");
        let hash = hash.chain_update([prehash.into(), len]).chain_update(context);
        Ok(Some(Self { prehash, hash }))
    }

    fn expect_len(&self, input: &[u8]) -> Result<()> {
        /// The length of the digest that Ed25519ph signs.
        const PREHASH_LEN: usize = 64;
        if self.prehash && input.len() != PREHASH_LEN { Err(Error::DataLenRange) } else { Ok(()) }
    }

    fn scalar(&self, parts: &[&[u8]]) -> Scalar {
        let mut hash = self.hash.clone();
        parts.iter().for_each(|part| hash.update(part));
        Scalar::from_bytes_mod_order_wide(&Zeroizing::new(hash.finalize().into()))
    }

    /// Signs as in RFC 8032, 5.1.6, with the names of that section.
    fn sign(&self, key: &SigningKey, input: &[u8]) -> Result<Signature> {
        self.expect_len(input)?;
        let secret = ExpandedSecretKey::from(key.as_bytes());
        let r = Zeroizing::new(self.scalar(&[&secret.hash_prefix, input]));
        let point = EdwardsPoint::mul_base(&r).compress();
        let k = self.scalar(&[point.as_bytes(), key.verifying_key().as_bytes(), input]);
        Ok(Signature::from_components(point.to_bytes(), (k * secret.scalar + *r).to_bytes()))
    }

    /// Verifies as in RFC 8032, 5.1.7. It does not use the cofactor, and neither does the library.
    fn verify(&self, key: &VerifyingKey, input: &[u8], signature: &Signature) -> Result<()> {
        self.expect_len(input)?;
        let s = Scalar::from_canonical_bytes(*signature.s_bytes())
            .into_option()
            .ok_or(Error::SignatureInvalid)?;
        let k = self.scalar(&[signature.r_bytes(), key.as_bytes(), input]);
        let minus_a = -key.to_edwards();
        let r = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &minus_a, &s).compress();
        if r.as_bytes() == signature.r_bytes() { Ok(()) } else { Err(Error::SignatureInvalid) }
    }
}
