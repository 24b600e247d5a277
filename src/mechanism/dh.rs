//! Diffie-Hellman in prime fields (PKCS#11 3.2, "Diffie-Hellman"; PKCS #3).
//!
//! The token generates keys and domain parameters with primes of at least 1024 bits. Imported keys
//! may have shorter primes, from 512 bits, because old peers use them. No prime has more than 8192
//! bits. Generated primes have at most 4096 bits, because the search for a prime of 4096 bits
//! already takes minutes.

use super::flow::{Inputs, KeyFlow};
use super::{Action, Derivation, MechanismRow, Shape};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DERIVE, GENERATE, GENERATE_KEY_PAIR};

pub(super) const ROWS: &[MechanismRow] = &[
    dh(
        M::DH_PKCS_KEY_PAIR_GEN,
        GENERATE_KEY_PAIR,
        (1024, 8192),
        KeyFlow::Nothing,
        Shape::None,
        Action::GeneratePair,
    ),
    dh(
        M::DH_PKCS_PARAMETER_GEN,
        GENERATE,
        (1024, 4096),
        KeyFlow::Nothing,
        Shape::None,
        Action::GenerateParameters,
    ),
    dh(M::DH_PKCS_DERIVE, DERIVE, (512, 8192), AGREES, Shape::Integer, Action::Derive(Derivation::Dh)),
];

const AGREES: KeyFlow = KeyFlow::Derives(|_, _| Inputs::ONE_WAY);

/// Builds a row. The sizes are those of the prime in bits.
const fn dh(
    id: M,
    flags: u64,
    sizes: (u64, u64),
    flow: KeyFlow,
    shape: Shape,
    action: Action,
) -> MechanismRow {
    MechanismRow { id, flags, sizes, key_type: Some(KeyType::DH), flow, shape, action, ..MechanismRow::BASE }
}
