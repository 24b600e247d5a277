//! The baseline: the time that the crypto library itself takes. AWS-LC is called directly with a
//! parsed key, in the cheapest way that does the same work as the function of PKCS#11. SLH-DSA,
//! which AWS-LC lacks, is the crate `slh-dsa` called directly.
//!
//! The baseline does not call the token's backend. A failure is a panic, because then there is
//! nothing to compare with.

// Calls of a C library.
#[allow(unsafe_code)]
mod ec;
#[allow(unsafe_code)]
mod ed25519;
#[allow(unsafe_code)]
mod internal;
#[allow(unsafe_code)]
mod ml_dsa;
#[allow(unsafe_code)]
mod ml_kem;
#[allow(unsafe_code)]
mod rsa;
mod slh_dsa;
#[allow(unsafe_code)]
mod symmetric;

use std::ffi::c_int;
use std::hint::black_box;
use std::ptr;
use std::ptr::NonNull;

use ::slh_dsa::{Sha2_128f, Sha2_128s};
use aws_lc_sys as aws;
use jeton::backend::{PublicParts, SlhDsa};

use super::*;
use crate::operation::{making, repeated};

pub use ml_kem::MlKemPair;
pub use symmetric::{Hmac, Sealer, digest, random};

/// A parsed key pair. Any number of threads may sign with it.
pub enum BaselinePair {
    Ec(ec::EcPair),
    Rsa(rsa::RsaPair),
    Ed25519(ed25519::Ed25519Pair),
    MlDsa(Box<ml_dsa::MlDsaPair>),
    SlhDsaFast(Box<slh_dsa::SlhDsaPair<Sha2_128f>>),
    SlhDsaSmall(Box<slh_dsa::SlhDsaPair<Sha2_128s>>),
}

impl BaselinePair {
    /// Generates a key pair. `None` if this kind does not sign.
    pub fn generate(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Ec(curve) => Self::Ec(ec::EcPair::generate(curve)),
            Kind::Rsa(bits) => Self::Rsa(rsa::RsaPair::generate(bits)),
            Kind::Ed25519 => Self::Ed25519(ed25519::Ed25519Pair::generate()),
            Kind::MlDsa(set) => Self::MlDsa(Box::new(ml_dsa::MlDsaPair::generate(set))),
            Kind::SlhDsa(SlhDsa::Sha2_128s) => Self::SlhDsaSmall(Box::new(slh_dsa::SlhDsaPair::generate())),
            Kind::SlhDsa(_) => Self::SlhDsaFast(Box::new(slh_dsa::SlhDsaPair::generate())),
            Kind::MlKem(_) => return None,
        })
    }

    pub fn public(&self) -> PublicParts {
        match self {
            Self::Ec(pair) => pair.public(),
            Self::Rsa(pair) => pair.public(),
            Self::Ed25519(pair) => pair.public(),
            Self::MlDsa(pair) => pair.public(),
            Self::SlhDsaFast(pair) => pair.public(SlhDsa::Sha2_128f),
            Self::SlhDsaSmall(pair) => pair.public(SlhDsa::Sha2_128s),
        }
    }

    /// Signs into the front of `out` and returns the length of the signature.
    pub fn sign(&self, scheme: Scheme, input: &[u8], out: &mut [u8]) -> usize {
        match (self, scheme) {
            (Self::Ec(pair), _) => pair.sign(input, out),
            (Self::Rsa(pair), Scheme::RsaPss) => pair.sign_pss(input, out),
            (Self::Rsa(pair), _) => pair.sign_pkcs1(input, out),
            (Self::Ed25519(pair), _) => pair.sign(input, out),
            (Self::MlDsa(pair), _) => pair.sign(input, out),
            (Self::SlhDsaFast(pair), _) => pair.sign(input, out),
            (Self::SlhDsaSmall(pair), _) => pair.sign(input, out),
        }
    }

    pub fn signature(&self, scheme: Scheme, input: &[u8]) -> Vec<u8> {
        let mut out = vec![0; MAX_SIGNATURE];
        let len = self.sign(scheme, input, &mut out);
        out.truncate(len);
        out
    }

    /// Returns an operation that signs `input`. Each kind of key has its own loop, so that the
    /// measured time contains no dispatch.
    pub fn signing(&self, scheme: Scheme, input: &'static [u8]) -> Boxed<'_> {
        let mut out = vec![0; MAX_SIGNATURE];
        match (self, scheme) {
            (Self::Ec(pair), _) => repeated(move || done(pair.sign(black_box(input), &mut out))),
            (Self::Rsa(pair), Scheme::RsaPss) => {
                repeated(move || done(pair.sign_pss(black_box(input), &mut out)))
            }
            (Self::Rsa(pair), _) => repeated(move || done(pair.sign_pkcs1(black_box(input), &mut out))),
            (Self::Ed25519(pair), _) => repeated(move || done(pair.sign(black_box(input), &mut out))),
            (Self::MlDsa(pair), _) => repeated(move || done(pair.sign(black_box(input), &mut out))),
            (Self::SlhDsaFast(pair), _) => repeated(move || done(pair.sign(black_box(input), &mut out))),
            (Self::SlhDsaSmall(pair), _) => repeated(move || done(pair.sign(black_box(input), &mut out))),
        }
    }

    pub fn verifying(&self, scheme: Scheme, input: &'static [u8]) -> Boxed<'_> {
        let signature = self.signature(scheme, input);
        match (self, scheme) {
            (Self::Ec(pair), _) => {
                let mut verifier = pair.verifier();
                checked(input, signature, move |input, signature| verifier.verify(input, signature))
            }
            (Self::Rsa(pair), Scheme::RsaPss) => {
                checked(input, signature, |data, code| pair.verify_pss(data, code))
            }
            (Self::Rsa(pair), _) => checked(input, signature, |data, code| pair.verify_pkcs1(data, code)),
            (Self::Ed25519(pair), _) => checked(input, signature, |data, code| pair.verify(data, code)),
            (Self::MlDsa(pair), _) => checked(input, signature, |data, code| pair.verify(data, code)),
            (Self::SlhDsaFast(pair), _) => checked(input, signature, |data, code| pair.verify(data, code)),
            (Self::SlhDsaSmall(pair), _) => checked(input, signature, |data, code| pair.verify(data, code)),
        }
    }
}

/// Returns an operation that verifies `signature` in a loop of its own.
fn checked<'a>(
    input: &'static [u8],
    signature: Vec<u8>,
    mut verify: impl FnMut(&[u8], &[u8]) + 'a,
) -> Boxed<'a> {
    repeated(move || verify(black_box(input), black_box(&signature)))
}

/// Returns an operation that makes key pairs. Freeing them is not timed.
pub fn generating(pair: &Pair) -> Boxed<'static> {
    match pair.kind {
        Kind::Ec(curve) => making(move || ec::EcPair::generate(curve), drop),
        Kind::Rsa(bits) => making(move || rsa::RsaPair::generate(bits), drop),
        Kind::Ed25519 => making(ed25519::Ed25519Pair::generate, drop),
        Kind::MlDsa(set) => making(move || ml_dsa::MlDsaPair::generate(set), drop),
        Kind::SlhDsa(SlhDsa::Sha2_128s) => making(slh_dsa::SlhDsaPair::<Sha2_128s>::generate, drop),
        Kind::SlhDsa(_) => making(slh_dsa::SlhDsaPair::<Sha2_128f>::generate, drop),
        Kind::MlKem(set) => making(move || MlKemPair::generate(set), drop),
    }
}

/// Returns an operation that encrypts this number of bytes. Each message has a new nonce.
pub fn sealing(cipher: Aead, len: usize) -> Boxed<'static> {
    let sealer = Sealer::new(cipher, &[5; 32]);
    let (input, mut out, mut count, mut nonce) = (vec![0; len], vec![0; len + 16], 0u64, [0; 12]);
    repeated(move || {
        count += 1;
        nonce[..8].copy_from_slice(&count.to_ne_bytes());
        black_box(sealer.seal(&nonce, black_box(&input), &mut out));
    })
}

/// The longest signature: that of SLH-DSA-128f.
const MAX_SIGNATURE: usize = 17_088;

fn done(len: usize) {
    black_box(len);
}

/// Panics unless a function of AWS-LC returned 1, its code for success.
#[track_caller]
fn one(code: c_int) {
    assert_eq!(code, 1, "AWS-LC failed");
}
