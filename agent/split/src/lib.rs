//! What an agent computes for split Ed25519 keys: FROST (RFC 9591). It knows no token, no client
//! and no socket. `agent/src/split.rs` keeps the shares, and `docs/split-keys.md` has the threats.

#![forbid(unsafe_code)]

use frost_ed25519::rand_core::{CryptoRng, Error as RandomError, RngCore};
use frost_ed25519::{Error as FrostError, Identifier, VerifyingKey};

pub use frost_ed25519::SigningKey;
pub use frost_ed25519::keys::{KeyPackage, PublicKeyPackage};
pub use generation::{Generation, Made};
pub use signing::Nonces;

mod generation;
mod signing;

/// The public key of an agent's identity, by which the rules of other agents name it.
pub type Identity = [u8; 32];

/// The name of a generation while it runs.
pub type Name = [u8; 32];

/// Why a message of a client or of another agent is refused. The log has the text.
#[derive(Debug)]
pub struct Refusal(pub String);

impl Refusal {
    /// Refuses a message for this reason.
    pub fn new(reason: &str) -> Self {
        Self(reason.to_owned())
    }

    /// Refuses something of the agent with this number.
    fn of(number: u8, reason: &str) -> Self {
        Self(format!("agent {number}: {reason}"))
    }

    fn unless(condition: bool, reason: &str) -> Result<(), Self> {
        if condition { Ok(()) } else { Err(Self::new(reason)) }
    }
}

impl From<FrostError> for Refusal {
    fn from(error: FrostError) -> Self {
        Self(error.to_string())
    }
}

/// Returns a new identity.
pub fn new_identity() -> SigningKey {
    SigningKey::new(&mut System)
}

/// Returns the public key of an identity.
pub fn identity_of(key: &SigningKey) -> Result<Identity, Refusal> {
    point(&VerifyingKey::from(key))
}

/// Returns the bytes of a public key.
pub fn point(key: &VerifyingKey) -> Result<[u8; 32], Refusal> {
    key.serialize()?.try_into().map_err(|_| Refusal::new("a public key of another length"))
}

/// Returns the identifier of the agent with a number.
fn identifier(number: u8) -> Result<Identifier, Refusal> {
    Ok(Identifier::try_from(u16::from(number))?)
}

/// The random numbers of the operating system. A failure is a panic, which costs the call only.
struct System;

impl CryptoRng for System {}

impl RngCore for System {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("random bytes");
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), RandomError> {
        self.fill_bytes(bytes);
        Ok(())
    }
}
