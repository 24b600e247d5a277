//! Diffie-Hellman in prime fields (PKCS#11 3.2, "Diffie-Hellman"; PKCS #3).
//!
//! The token generates keys and domain parameters with primes of at least 1024 bits. Imported keys
//! may have shorter primes, from 512 bits, because old peers use them. No prime has more than 8192
//! bits. Generated primes have at most 4096 bits, because the search for a prime of 4096 bits
//! already takes minutes.

use super::flow::Inputs;
use super::{Action, Derivation, MechanismRow};
use crate::id::mechanism_flag::{DECAPSULATE, ENCAPSULATE};
use crate::id::{KeyType, MechanismType as M};

/// The rows. The sizes are those of the prime in bits.
pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::GeneratePair, M::DH_PKCS_KEY_PAIR_GEN, KeyType::DH, (1024, 8192)),
    MechanismRow::generates(Action::GenerateParameters, M::DH_PKCS_PARAMETER_GEN, KeyType::DH, (1024, 4096)),
    MechanismRow::derives(
        M::DH_PKCS_DERIVE,
        Some(KeyType::DH),
        (512, 8192),
        |_, _| Inputs::ONE_WAY,
        Derivation::Dh,
    )
    .also(ENCAPSULATE | DECAPSULATE),
];
