//! Diffie-Hellman in prime fields (PKCS#11 3.2, "Diffie-Hellman"; PKCS #3).
//!
//! Keys and groups are made with primes of 1024 bits and more. Keys that come from elsewhere may have 512, because old
//! peers do; no prime has more than 8192 bits, and no new one more than 4096, which already takes minutes to find.

use super::{Action, Derivation, Mechanism, Shape};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DERIVE, GENERATE, GENERATE_KEY_PAIR};

pub(super) const ROWS: &[Mechanism] = &[
    dh(M::DH_PKCS_KEY_PAIR_GEN, GENERATE_KEY_PAIR, (1024, 8192), Shape::None, Action::GeneratePair),
    dh(M::DH_PKCS_PARAMETER_GEN, GENERATE, (1024, 4096), Shape::None, Action::GenerateParameters),
    dh(M::DH_PKCS_DERIVE, DERIVE, (512, 8192), Shape::Integer, Action::Derive(Derivation::Dh)),
];

/// Sizes are the prime's, in bits.
const fn dh(id: M, flags: u64, sizes: (u64, u64), shape: Shape, action: Action) -> Mechanism {
    Mechanism { id, flags, sizes, key_type: Some(KeyType::DH), shape, action }
}
