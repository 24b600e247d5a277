//! Calls that compute for a long time, for an application of an agent. The clients of an agent
//! share its processors, and a call without a login may come from any of them.
//!
//! A process that works for itself has no limits here.

use crate::backend::{PairSpec, Traditional};
use crate::error::{Error, Result};
use crate::gate::{Gate, Permit};
use crate::object::access::Login;
use crate::token::ClientToken;

/// The iterations of PBKDF2, summed over all blocks of output, that count as [`Cost::Seconds`].
/// HMAC-SHA-512 takes about two seconds for them. OWASP recommends 600,000 iterations of
/// HMAC-SHA-256, and 1,400,000 of HMAC-SHA-1.
const ITERATIONS: u64 = 1 << 21;
/// The part of it that takes about ten milliseconds, and counts as [`Cost::Little`].
const FEW: u64 = 1 << 15;
/// The bytes that are hashed in the time of an iteration.
const HASHED: u64 = 64;
/// The size in bits of the largest RSA key that counts as [`Cost::Seconds`].
const RSA_BITS: usize = 4096;

/// How long a call computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// Less than a second.
    Little,
    Seconds,
    /// Up to many minutes.
    Minutes,
}

/// The calls of each cost: see [`Cost::admit`]. A login has its own gate, so that it waits for none
/// of them.
static SECONDS: Gate = Gate::new();
static MINUTES: Gate = Gate::new();

/// The leave to compute.
pub(super) struct Admission(Option<&'static Gate>);

impl Cost {
    /// Returns the cost of PBKDF2 with this number of iterations for each of the blocks. A long
    /// salt is hashed for each block.
    pub(super) fn of_pbkdf2(blocks: u64, iterations: u32, salt: usize) -> Self {
        let work = blocks.saturating_mul(u64::from(iterations).saturating_add(salt as u64 / HASHED));
        if work > ITERATIONS { Self::Minutes } else { Self::Seconds }
    }

    /// Returns the cost of a derivation that hashes inputs of this length for each block of its
    /// output.
    pub(super) fn of_derivation(input: usize, output: usize) -> Self {
        // The PRF of TLS 1.0 and the double pipeline of SP 800-108 hash them twice.
        const BLOCK: u64 = 16 / 2;
        let blocks = output as u64 / BLOCK + 1;
        match blocks.saturating_mul(input as u64 / HASHED + 1) {
            work if work > ITERATIONS => Self::Minutes,
            work if work > FEW => Self::Seconds,
            _ => Self::Little,
        }
    }

    /// Returns the cost of a new key pair.
    pub(super) fn of_pair(spec: &PairSpec<'_>) -> Self {
        match spec {
            PairSpec::Rsa { bits, .. } if *bits > RSA_BITS => Self::Minutes,
            PairSpec::Rsa { .. } | PairSpec::SlhDsa { .. } => Self::Seconds,
            PairSpec::Composite(set) => match set.traditional {
                Traditional::RsaPkcs1(_) | Traditional::RsaPss(_) => Self::Seconds,
                _ => Self::Little,
            },
            PairSpec::Hss { .. } => Self::Minutes,
            _ => Self::Little,
        }
    }

    /// Admits a call of an application. An agent admits what takes minutes only after a login, and
    /// fails with `UserNotLoggedIn` before.
    pub(super) fn admit(self, token: &ClientToken) -> Result<Admission> {
        if token.identity().is_none() {
            return Ok(Admission(None));
        }
        match self {
            Self::Minutes if token.login_state() == Login::Public => Err(Error::UserNotLoggedIn),
            Self::Minutes => Ok(Admission(Some(&MINUTES))),
            Self::Seconds => Ok(Admission(Some(&SECONDS))),
            Self::Little => Ok(Admission(None)),
        }
    }
}

impl Admission {
    /// Waits until a processor is free for the call. The call computes before it drops the result.
    pub(super) fn wait(self) -> Option<Permit> {
        self.0.map(|gate| gate.enter(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_salt_costs_as_much_as_iterations() {
        assert_eq!(Cost::of_pbkdf2(1, 600_000, 16), Cost::Seconds);
        assert_eq!(Cost::of_pbkdf2(2, 600_000, 16), Cost::Seconds);
        assert_eq!(Cost::of_pbkdf2(4, 600_000, 16), Cost::Minutes);
        assert_eq!(Cost::of_pbkdf2(64, 1, 64 << 20), Cost::Minutes);
        assert_eq!(Cost::of_pbkdf2(u64::MAX, u32::MAX, usize::MAX), Cost::Minutes);
    }

    #[test]
    fn a_derivation_costs_its_input_for_each_block_of_output() {
        assert_eq!(Cost::of_derivation(1000, 255 * 64), Cost::Little);
        assert_eq!(Cost::of_derivation(64 << 10, 64), Cost::Little);
        assert_eq!(Cost::of_derivation(64 << 10, 255 * 64), Cost::Seconds);
        // 64 parts of an input, and 65 keys.
        assert_eq!(Cost::of_derivation(4 << 20, 65 * 255 * 64), Cost::Minutes);
        assert_eq!(Cost::of_derivation(usize::MAX, usize::MAX), Cost::Minutes);
    }
}
