//! The pure Rust backend: the RustCrypto crates and ed25519-dalek.
//!
//! One file an algorithm, mirroring `aws_lc/`; `emsa.rs` and `eme.rs` have the encodings of RSA signatures and
//! encryption (RFC 8017, 9 and 7), which the `rsa` crate offers with one hash function for both roles only.

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
mod prehash;
mod random;
mod rsa;
mod slh_dsa;
mod xdh;

use std::fmt::Display;
use std::sync::Arc;

use self::clean::{CURVE_KEY, CleanKey, KEY, alone, clean};
use super::dh as rules;
use super::{Keys, PairSpec, PrivateKey, PrivateParts, Provider, PublicKey, PublicParts};
use crate::error::{Error, Result};

/// The backend `rustcrypto`.
pub const PROVIDER: Provider = Provider {
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
        match spec {
            PairSpec::Ec(_) => clean::<CURVE_KEY, _>(|| generate(spec)),
            _ => clean::<KEY, _>(|| generate(spec)),
        }
    }

    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>> {
        match parts {
            PrivateParts::Ec { .. } => {
                Ok(Arc::new(CleanKey::<CURVE_KEY>(clean::<CURVE_KEY, _>(|| private(parts))?)))
            }
            _ => Ok(Arc::new(CleanKey::<KEY>(clean::<KEY, _>(|| private(parts))?))),
        }
    }

    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>> {
        match parts {
            PublicParts::Rsa { n, e } => rsa::public(n, e),
            PublicParts::Ec { curve, point } => ec::public(*curve, point),
            PublicParts::Ed25519 { point } => ed25519::public(point),
            PublicParts::Ed448 { point } => ed448::public(point),
            PublicParts::X25519 { .. } | PublicParts::X448 { .. } => xdh::public(),
            PublicParts::MlDsa { set, key } => ml_dsa::public(*set, key),
            PublicParts::MlKem { set, key } => ml_kem::public(*set, key),
            PublicParts::SlhDsa { set, key } => slh_dsa::public(*set, key),
            PublicParts::Dh { prime, base, value } => rules::public(prime, base, value),
        }
    }

    fn safe_prime(&self, bits: usize) -> Result<Vec<u8>> {
        dh::safe_prime(bits)
    }
}

#[inline(never)]
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
        PairSpec::Dh { prime, base, private_bits } => {
            alone(|| rules::generate::<dh::Numbers>(prime, base, private_bits))
        }
    }
}

#[inline(never)]
fn private(parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>> {
    match parts {
        PrivateParts::Rsa(parts) => alone(|| rsa::private(parts)),
        PrivateParts::Ec { curve, scalar } => alone(|| ec::private(*curve, scalar)),
        PrivateParts::Ed25519 { seed } => alone(|| ed25519::private(seed)),
        PrivateParts::Ed448 { seed } => alone(|| ed448::private(seed)),
        PrivateParts::X25519 { scalar } => alone(|| xdh::private_x25519(scalar)),
        PrivateParts::X448 { scalar } => alone(|| xdh::private_x448(scalar)),
        PrivateParts::MlDsa { set, seed, key } => alone(|| ml_dsa::private(*set, seed.as_ref(), key)),
        PrivateParts::MlKem { set, seed, key } => alone(|| ml_kem::private(*set, seed.as_ref(), key)),
        PrivateParts::SlhDsa { set, key } => alone(|| slh_dsa::private(*set, key)),
        PrivateParts::Dh { prime, base, value } => {
            alone(|| rules::private::<dh::Numbers>(prime, base, value))
        }
    }
}

/// A library failed where it should not: the log learns of it, the caller hears `DeviceError`.
fn failed(what: &'static str) -> impl Fn(&dyn Display) -> Error {
    move |cause| {
        tracing::error!(backend = "rustcrypto", %cause, "{what} failed");
        Error::DeviceError
    }
}

/// The first `len` bytes of the caller's buffer.
fn output(out: &mut [u8], len: usize) -> Result<&mut [u8]> {
    out.get_mut(..len).ok_or(Error::BufferTooSmall { needed: len })
}
