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

use ::slh_dsa::{Sha2_128f, Sha2_128s};
use jeton::backend::{PublicParts, SlhDsa};

use crate::operation::{Boxed, making, repeated};
use crate::scheme::{Aead, Kind, Pair, Scheme};

pub use ml_kem::MlKemPair;
use slh_dsa::SlhDsaPair;
pub use symmetric::{Hmac, Sealer, digest, random};

/// A parsed key pair. Any number of threads may sign with it. Each kind of key has its own loops,
/// so that the measured time contains no dispatch.
pub trait BaselinePair: Send + Sync {
    fn public(&self) -> PublicParts;

    /// Signs into the front of `out` and returns the length of the signature.
    fn sign(&self, scheme: Scheme, input: &[u8], out: &mut [u8]) -> usize;

    fn verify(&self, scheme: Scheme, input: &[u8], signature: &[u8]);

    fn signature(&self, scheme: Scheme, input: &[u8]) -> Vec<u8> {
        let mut out = vec![0; MAX_SIGNATURE];
        let len = self.sign(scheme, input, &mut out);
        out.truncate(len);
        out
    }

    /// Returns an operation that signs `input`.
    fn signing(&self, scheme: Scheme, input: &'static [u8]) -> Boxed<'_> {
        let mut out = vec![0; MAX_SIGNATURE];
        repeated(move || {
            black_box(self.sign(scheme, black_box(input), &mut out));
        })
    }

    fn verifying(&self, scheme: Scheme, input: &'static [u8]) -> Boxed<'_> {
        let signature = self.signature(scheme, input);
        repeated(move || self.verify(scheme, black_box(input), black_box(&signature)))
    }
}

/// Generates a key pair. `None` if this kind does not sign.
pub fn generate(kind: Kind) -> Option<Box<dyn BaselinePair>> {
    Some(match kind {
        Kind::Ec(curve) => Box::new(ec::EcPair::generate(curve)),
        Kind::Rsa(bits) => Box::new(rsa::RsaPair::generate(bits)),
        Kind::Ed25519 => Box::new(ed25519::Ed25519Pair::generate()),
        Kind::MlDsa(set) => Box::new(ml_dsa::MlDsaPair::generate(set)),
        Kind::SlhDsa(set @ SlhDsa::Sha2_128s) => Box::new(SlhDsaPair::<Sha2_128s>::generate(set)),
        Kind::SlhDsa(set) => Box::new(SlhDsaPair::<Sha2_128f>::generate(set)),
        Kind::MlKem(_) => return None,
    })
}

/// Returns an operation that makes key pairs. Freeing them is not timed.
pub fn generating(pair: &Pair) -> Boxed<'static> {
    match pair.kind {
        Kind::Ec(curve) => making(move || ec::EcPair::generate(curve), drop),
        Kind::Rsa(bits) => making(move || rsa::RsaPair::generate(bits), drop),
        Kind::Ed25519 => making(ed25519::Ed25519Pair::generate, drop),
        Kind::MlDsa(set) => making(move || ml_dsa::MlDsaPair::generate(set), drop),
        Kind::SlhDsa(set @ SlhDsa::Sha2_128s) => making(move || SlhDsaPair::<Sha2_128s>::generate(set), drop),
        Kind::SlhDsa(set) => making(move || SlhDsaPair::<Sha2_128f>::generate(set), drop),
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

/// Panics unless a function of AWS-LC returned 1, its code for success.
#[track_caller]
fn one(code: c_int) {
    assert_eq!(code, 1, "AWS-LC failed");
}
