//! The pure Rust backend: the RustCrypto crates and ed25519-dalek.
//!
//! Each algorithm has one file, as in `aws_lc/`. `emsa.rs` and `eme.rs` contain the encodings of
//! RSA signatures and encryption (RFC 8017, 9 and 7). This backend does not use the encodings of
//! the `rsa` crate. The PSS of that crate always uses the hash of the message for MGF1, but PKCS#11
//! permits another hash there.

mod aes;
mod cipher;
mod clean;
mod dh;
mod digest;
mod ec;
mod ed25519;
mod ed448;
mod eme;
mod emsa;
mod mac;
mod ml_dsa;
mod ml_kem;
mod random;
mod rsa;
mod slh_dsa;
mod xdh;

use std::fmt::Display;
use std::sync::Arc;

#[cfg(feature = "aws-lc")]
pub(super) use self::emsa::Encoding;

use self::clean::{CleanKey, LARGE, SMALL, alone};
use jeton_secret::Secret;

use crate::backend::api::{
    Curve, Keys, PairSpec, PrivateKey, PrivateParts, Provider, PublicKey, PublicParts,
};
use crate::backend::shared::composite;
use crate::backend::shared::dh::{self as rules, Integers};
use crate::error::{Error, Result};

/// The backend `rustcrypto`.
pub static PROVIDER: Provider = Provider {
    name: "rustcrypto",
    random: &random::System,
    digest: &digest::Digests,
    keys: &KeyPairs,
    ciphers: &cipher::AllCiphers,
    macs: &mac::AllMacs,
};

struct KeyPairs;

impl Keys for KeyPairs {
    fn generate(&self, spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)> {
        let stacks = match spec {
            // Its signatures call the token, which needs more than a separate stack has. It wipes
            // the frames itself.
            PairSpec::Hss { types, threads } => {
                return super::hash_based::generate(types, *threads, &digest::Digests, &random::System);
            }
            // Each component has its own stack.
            PairSpec::Composite(set) => return composite::generate(set, &PROVIDER),
            PairSpec::MlDsa { .. } | PairSpec::MlKem { .. } | PairSpec::SlhDsa { .. } => &LARGE,
            _ => &SMALL,
        };
        stacks.run(|| generate(spec))
    }

    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>> {
        let stacks = match parts {
            PrivateParts::Hss { types, key } => {
                return super::hash_based::private(types, key, &digest::Digests);
            }
            PrivateParts::Composite { set, seed, traditional } => {
                return composite::private(set, seed, traditional, &PROVIDER);
            }
            PrivateParts::MlDsa { .. } | PrivateParts::MlKem { .. } | PrivateParts::SlhDsa { .. } => &LARGE,
            _ => &SMALL,
        };
        Ok(Arc::new(CleanKey::new(stacks.run(|| private(parts))?, stacks)))
    }

    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>> {
        let stacks = match parts {
            PublicParts::Composite { set, ml_dsa, traditional } => {
                return composite::public(set, ml_dsa, traditional, &PROVIDER);
            }
            PublicParts::MlDsa { .. } | PublicParts::MlKem { .. } | PublicParts::SlhDsa { .. } => &LARGE,
            _ => &SMALL,
        };
        Ok(Arc::new(CleanKey::new(stacks.run(|| public(parts))?, stacks)))
    }

    fn uncompressed(&self, curve: Curve, point: &[u8]) -> Result<Vec<u8>> {
        SMALL.run(|| ec::uncompressed(curve, point))
    }

    fn power(&self, base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Secret> {
        SMALL.run(|| dh::Numbers::power(base, exponent, modulus))
    }

    fn safe_prime(&self, bits: usize) -> Result<Vec<u8>> {
        SMALL.run(|| dh::safe_prime(bits))
    }
}

/// Computes an RSA key pair with e = 65537 from its primes, which are equally long.
#[cfg(feature = "aws-lc")]
pub(super) fn rsa_pair(primes: &[Secret; 2]) -> Result<(PublicParts, PrivateParts)> {
    SMALL.run(|| alone(|| rsa::of_primes(primes)))
}

fn generate(spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)> {
    match *spec {
        PairSpec::Rsa { bits, public_exponent } => alone(|| rsa::generate(bits, public_exponent)),
        PairSpec::Ec(curve) => alone(|| ec::generate(curve)),
        PairSpec::Ed25519 => alone(ed25519::generate),
        PairSpec::Ed448 => alone(ed448::generate),
        PairSpec::X25519 => alone(xdh::generate_x25519),
        PairSpec::X448 => alone(xdh::generate_x448),
        PairSpec::MlDsa { set, seed } => alone(|| ml_dsa::generate(set, seed)),
        PairSpec::MlKem { set, seed } => alone(|| ml_kem::generate(set, seed)),
        PairSpec::SlhDsa { set, seed } => alone(|| slh_dsa::generate(set, seed)),
        PairSpec::Hss { .. } | PairSpec::Composite(_) => Err(Error::GeneralError),
        PairSpec::Dh { prime, base, private_bits } => {
            alone(|| rules::generate::<dh::Numbers>(prime, base, private_bits))
        }
    }
}

fn private(parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>> {
    match parts {
        PrivateParts::Rsa(parts) => alone(|| rsa::private(parts)),
        PrivateParts::Ec { curve, scalar } => alone(|| ec::private(*curve, scalar)),
        PrivateParts::Ed25519 { seed } => alone(|| ed25519::private(seed)),
        PrivateParts::Ed448 { seed } => alone(|| ed448::private(seed)),
        PrivateParts::X25519 { scalar } => alone(|| xdh::x25519(scalar)),
        PrivateParts::X448 { scalar } => alone(|| xdh::x448(scalar)),
        PrivateParts::MlDsa { set, seed, key } => alone(|| ml_dsa::private(*set, seed.as_ref(), key)),
        PrivateParts::MlKem { set, seed, key } => alone(|| ml_kem::private(*set, seed.as_ref(), key)),
        PrivateParts::SlhDsa { set, key } => alone(|| slh_dsa::private(*set, key)),
        PrivateParts::Hss { .. } | PrivateParts::Composite { .. } => Err(Error::GeneralError),
        PrivateParts::Dh { prime, base, value } => {
            alone(|| rules::private::<dh::Numbers>(prime, base, value))
        }
    }
}

fn public(parts: &PublicParts) -> Result<Arc<dyn PublicKey>> {
    match parts {
        PublicParts::Rsa { n, e } => alone(|| rsa::public(n, e)),
        PublicParts::Ec { curve, point } => alone(|| ec::public(*curve, point)),
        PublicParts::Ed25519 { point } => alone(|| ed25519::public(point)),
        PublicParts::Ed448 { point } => alone(|| ed448::public(point)),
        // Every u-coordinate is valid.
        PublicParts::X25519 { .. } | PublicParts::X448 { .. } => Ok(Arc::new(rules::PeerKey)),
        PublicParts::MlDsa { set, key } => alone(|| ml_dsa::public(*set, key)),
        PublicParts::MlKem { set, key } => alone(|| ml_kem::public(*set, key)),
        PublicParts::SlhDsa { set, key } => alone(|| slh_dsa::public(*set, key)),
        PublicParts::Composite { .. } => Err(Error::GeneralError),
        PublicParts::Dh { prime, base, value } => alone(|| rules::public(prime, base, value)),
        PublicParts::Stateful { family, key } => {
            alone(|| super::hash_based::public(*family, key, &digest::Digests))
        }
    }
}

/// Logs an unexpected failure of a library and returns `DeviceError`.
fn failed(what: &'static str) -> impl Fn(&dyn Display) -> Error {
    move |cause| {
        tracing::error!(backend = "rustcrypto", %cause, "{what} failed");
        Error::DeviceError
    }
}
