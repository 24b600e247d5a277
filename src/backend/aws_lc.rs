//! The default backend: AWS-LC, called through its C interface.
//!
//! Only `ffi/` calls C. It converts pointers to owned values and return codes to errors. The files
//! beside it are safe Rust. They enforce the rules of `backend/`: lengths, ranges and the choice of
//! the error.

mod cipher;
mod dh;
mod digest;
mod ec;
mod ed25519;
mod ffi;
mod mac;
#[cfg(not(feature = "fips"))]
mod ml_dsa;
mod ml_kem;
mod random;
mod rsa;
mod xdh;

use std::sync::Arc;

use jeton_secret::Secret;

use crate::backend::api::{
    Curve, Keys, PairSpec, PrivateKey, PrivateParts, Provider, PublicKey, PublicParts,
};
use crate::backend::shared::composite;
use crate::backend::shared::dh::{self as rules, Integers};
use crate::backend::shared::point::encoding;
use crate::error::{Error, Result};

/// Repeats the integrity test and the self-tests of the validated module.
#[cfg(feature = "fips")]
pub(super) fn self_test() -> bool {
    ffi::self_test()
}

/// Returns the counter of the approved services that this thread has used.
#[cfg(feature = "fips")]
pub fn service_indicator() -> u64 {
    ffi::service_indicator()
}

/// Returns the name and the version of the validated module.
#[cfg(feature = "fips")]
pub fn version() -> &'static str {
    ffi::version()
}

/// The backend `aws-lc`.
pub static PROVIDER: Provider = Provider {
    name: "aws-lc",
    random: &random::System,
    digest: &digest::Digests,
    keys: &KeyPairs,
    ciphers: &cipher::AllCiphers,
    macs: &mac::AllMacs,
};

struct KeyPairs;

impl Keys for KeyPairs {
    fn generate(&self, spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)> {
        match spec {
            PairSpec::Rsa { bits, public_exponent } => rsa::generate(*bits, public_exponent),
            PairSpec::Ec(curve) if curve.is_brainpool() => elsewhere()?.keys.generate(spec),
            PairSpec::Ec(curve) => ec::generate(*curve),
            PairSpec::Ed25519 => ed25519::generate(),
            #[cfg(not(feature = "fips"))]
            PairSpec::MlDsa { set, seed } => ml_dsa::generate(*set, *seed),
            #[cfg(feature = "fips")]
            PairSpec::MlDsa { .. } => elsewhere()?.keys.generate(spec),
            PairSpec::X25519 => xdh::generate(),
            PairSpec::MlKem { set, seed } => ml_kem::generate(*set, *seed),
            PairSpec::Ed448 | PairSpec::X448 | PairSpec::SlhDsa { .. } => elsewhere()?.keys.generate(spec),
            PairSpec::Composite(set) => composite::generate(set, &PROVIDER),
            PairSpec::Hss { types, threads } => {
                super::hash_based::generate(types, *threads, &digest::Digests, &random::System)
            }
            PairSpec::Dh { prime, base, private_bits } => {
                rules::generate::<dh::Numbers>(prime, base, *private_bits)
            }
        }
    }

    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>> {
        match parts {
            PrivateParts::Rsa(parts) => Ok(Arc::new(rsa::Private::parse(parts)?)),
            PrivateParts::Ec { curve, .. } if curve.is_brainpool() => elsewhere()?.keys.private(parts),
            PrivateParts::Ec { curve, scalar } => Ok(Arc::new(ec::Private::parse(*curve, scalar)?)),
            PrivateParts::Ed25519 { seed } => Ok(Arc::new(ed25519::Private::parse(seed)?)),
            #[cfg(feature = "fips")]
            PrivateParts::MlDsa { .. } => elsewhere()?.keys.private(parts),
            #[cfg(not(feature = "fips"))]
            PrivateParts::MlDsa { set, seed, key } => {
                Ok(Arc::new(ml_dsa::Private::parse(*set, seed.as_ref(), key)?))
            }
            PrivateParts::X25519 { scalar } => Ok(Arc::new(xdh::Private::parse(scalar)?)),
            PrivateParts::MlKem { set, seed, key } => {
                Ok(Arc::new(ml_kem::Private::parse(*set, seed.as_ref(), key)?))
            }
            PrivateParts::Ed448 { .. } | PrivateParts::X448 { .. } | PrivateParts::SlhDsa { .. } => {
                elsewhere()?.keys.private(parts)
            }
            PrivateParts::Composite { set, seed, traditional } => {
                composite::private(set, seed, traditional, &PROVIDER)
            }
            PrivateParts::Hss { types, key } => super::hash_based::private(types, key, &digest::Digests),
            PrivateParts::Dh { prime, base, value } => rules::private::<dh::Numbers>(prime, base, value),
        }
    }

    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>> {
        match parts {
            PublicParts::Rsa { n, e } => Ok(Arc::new(rsa::Public::parse(n, e)?)),
            PublicParts::Ec { curve, .. } if curve.is_brainpool() => elsewhere()?.keys.public(parts),
            PublicParts::Ec { curve, point } => Ok(Arc::new(ec::Public::parse(*curve, point)?)),
            PublicParts::Ed25519 { point } => Ok(Arc::new(ed25519::Public::parse(*point)?)),
            #[cfg(feature = "fips")]
            PublicParts::MlDsa { .. } => elsewhere()?.keys.public(parts),
            #[cfg(not(feature = "fips"))]
            PublicParts::MlDsa { set, key } => Ok(Arc::new(ml_dsa::Public::parse(*set, key)?)),
            PublicParts::X25519 { .. } => Ok(Arc::new(rules::PeerKey)),
            PublicParts::MlKem { set, key } => Ok(Arc::new(ml_kem::Public::parse(*set, key)?)),
            PublicParts::Ed448 { .. } | PublicParts::X448 { .. } | PublicParts::SlhDsa { .. } => {
                elsewhere()?.keys.public(parts)
            }
            PublicParts::Composite { set, ml_dsa, traditional } => {
                composite::public(set, ml_dsa, traditional, &PROVIDER)
            }
            PublicParts::Dh { prime, base, value } => rules::public(prime, base, value),
            PublicParts::Stateful { family, key } => {
                super::hash_based::public(*family, key, &digest::Digests)
            }
        }
    }

    fn uncompressed(&self, curve: Curve, point: &[u8]) -> Result<Vec<u8>> {
        if curve.is_brainpool() {
            return elsewhere()?.keys.uncompressed(curve, point);
        }
        ffi::EcKey::public(curve, &encoding(curve, point)?)?.point()
    }

    fn power(&self, base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Secret> {
        dh::Numbers::power(base, exponent, modulus)
    }

    /// The second backend finds a safe prime several times sooner.
    fn safe_prime(&self, bits: usize) -> Result<Vec<u8>> {
        elsewhere().map_or_else(|_| dh::safe_prime(bits), |other| other.keys.safe_prime(bits))
    }
}

/// Returns the backend for everything that AWS-LC lacks: Ed448, X448, SLH-DSA, the twisted
/// brainpool curves, Ed25519ctx with an empty context, BLAKE2b, and new RSA keys whose size is not
/// a multiple of 128 bits. It also has the other brainpool curves, and finds safe primes.
#[cfg(feature = "rustcrypto")]
fn elsewhere() -> Result<&'static Provider> {
    Ok(&super::rustcrypto::PROVIDER)
}

/// Fails with `MechanismInvalid`, because this build has no second backend.
#[cfg(not(feature = "rustcrypto"))]
fn elsewhere() -> Result<&'static Provider> {
    Err(Error::MechanismInvalid)
}

/// Converts the result of a verification.
fn verdict(good: bool) -> Result<()> {
    if good { Ok(()) } else { Err(Error::SignatureInvalid) }
}
