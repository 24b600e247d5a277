//! DSA with signatures as r || s, and domain parameters. AWS-LC signs with random nonces.

use std::sync::Arc;

use super::dh::Numbers;
use super::{elsewhere, ffi, output, verdict};
use crate::backend::dsa as rules;
use crate::backend::{DsaGroup, PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier};
use crate::error::{Error, Result};
use crate::secret::Secret;

impl rules::Primes for Numbers {
    fn is_prime(number: &[u8]) -> Result<bool> {
        ffi::is_prime(number)
    }
}

pub(super) fn group(prime_bits: usize, subprime_bits: usize) -> Result<DsaGroup> {
    rules::check_sizes(prime_bits, subprime_bits)?;
    // AWS-LC chooses the size of the subprime, and it never chooses 224 bits.
    if subprime_bits == 224 {
        let other = elsewhere().map_err(|_| Error::KeySizeRange)?;
        return other.keys.dsa_group(prime_bits, subprime_bits);
    }
    let [prime, subprime, base] = ffi::Dsa::parameters(prime_bits)?.group();
    Ok(DsaGroup { prime, subprime, base })
}

pub(super) fn check_group(group: &DsaGroup) -> Result<()> {
    rules::check_group::<Numbers>(group)
}

pub(super) fn generate(group: &DsaGroup) -> Result<(PublicParts, PrivateParts)> {
    check_group(group)?;
    rules::pair::<Numbers>(group, ffi::Dsa::generate(&numbers(group))?.private_value()?)
}

pub(super) fn private(group: &DsaGroup, value: &Secret) -> Result<Arc<dyn PrivateKey>> {
    let public = rules::public_value::<Numbers>(group, value)?;
    let key = ffi::Dsa::new(&numbers(group), &public, Some(value))?;
    Ok(Arc::new(Key { group: group.clone(), public, key }))
}

pub(super) fn public(group: &DsaGroup, value: &[u8]) -> Result<Arc<dyn PublicKey>> {
    rules::check_public::<Numbers>(group, value)?;
    let key = ffi::Dsa::new(&numbers(group), value, None)?;
    Ok(Arc::new(Key { group: group.clone(), public: value.to_vec(), key }))
}

fn numbers(group: &DsaGroup) -> ffi::DsaNumbers<'_> {
    ffi::DsaNumbers { prime: &group.prime, subprime: &group.subprime, base: &group.base }
}

/// A public or private key.
struct Key {
    group: DsaGroup,
    public: Vec<u8>,
    key: ffi::Dsa,
}

impl Key {
    /// Returns the length of each half of a signature.
    fn half(&self) -> usize {
        self.group.subprime.len()
    }
}

impl PrivateKey for Key {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Dsa { group: self.group.clone(), value: self.public.clone() })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        match scheme {
            Scheme::Dsa => Ok(Box::new(DsaSigner(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

impl PublicKey for Key {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        match scheme {
            Scheme::Dsa => Ok(Box::new(DsaVerifier(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct DsaSigner(Arc<Key>);

impl Signer for DsaSigner {
    fn signature_len(&self) -> usize {
        2 * self.0.half()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        rules::check_digest(input)?;
        let half = self.0.half();
        let (r, s) = output(out, 2 * half)?.split_at_mut(half);
        self.0.key.sign(input, r, s)
    }
}

struct DsaVerifier(Arc<Key>);

impl Verifier for DsaVerifier {
    fn signature_len(&self) -> usize {
        2 * self.0.half()
    }

    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        rules::check_digest(input)?;
        if signature.len() != self.signature_len() {
            return Err(Error::SignatureLenRange);
        }
        let (r, s) = signature.split_at(self.0.half());
        verdict(self.0.key.verify(input, r, s)?)
    }
}
