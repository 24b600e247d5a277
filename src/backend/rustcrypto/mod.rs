//! The pure Rust backend: the RustCrypto crates and ed25519-dalek.
//!
//! One file an algorithm, mirroring `aws_lc/`; `emsa.rs` has the encodings of RSA signatures (RFC 8017, 9), which
//! the `rsa` crate offers with one hash function for both roles only.

mod digest;
mod ec;
mod ed25519;
mod emsa;
mod ml_dsa;
mod random;
mod rsa;

use std::fmt::Display;
use std::sync::Arc;

use super::{Keys, PairSpec, PrivateKey, PrivateParts, Provider, PublicKey, PublicParts};
use crate::error::{Error, Result};

/// The backend `rustcrypto`.
pub const PROVIDER: Provider =
    Provider { name: "rustcrypto", random: &random::System, digest: &digest::Digests, keys: &KeyPairs };

struct KeyPairs;

impl Keys for KeyPairs {
    fn generate(&self, spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)> {
        match *spec {
            PairSpec::Rsa { bits, public_exponent } => rsa::generate(bits, public_exponent),
            PairSpec::Ec(curve) => ec::generate(curve),
            PairSpec::Ed25519 => ed25519::generate(),
            PairSpec::MlDsa { set, seed } => ml_dsa::generate(set, seed),
        }
    }

    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>> {
        match parts {
            PrivateParts::Rsa(parts) => rsa::private(parts),
            PrivateParts::Ec { curve, scalar } => ec::private(*curve, scalar),
            PrivateParts::Ed25519 { seed } => ed25519::private(seed),
            PrivateParts::MlDsa { set, seed, key } => ml_dsa::private(*set, seed.as_ref(), key),
        }
    }

    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>> {
        match parts {
            PublicParts::Rsa { n, e } => rsa::public(n, e),
            PublicParts::Ec { curve, point } => ec::public(*curve, point),
            PublicParts::Ed25519 { point } => ed25519::public(point),
            PublicParts::MlDsa { set, key } => ml_dsa::public(*set, key),
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
