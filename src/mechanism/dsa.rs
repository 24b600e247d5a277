//! DSA (PKCS#11 3.2, "DSA"; FIPS 186-4), for keys that come from older tokens.
//!
//! Generated domain parameters have the sizes of FIPS 186-4. Imported domain parameters may have a
//! prime of any size from 1024 to 3072 bits.

use super::{Action, MechanismRow, Primitive, Standing};
use crate::backend::{Hash, Scheme};
use crate::id::{KeyType, MechanismType as M};

/// The sizes of the prime in bits.
const BITS: (u64, u64) = (1024, 3072);

pub(super) const ROWS: &[MechanismRow] = &[
    disallowed(MechanismRow::generates(Action::GenerateParameters, M::DSA_PARAMETER_GEN, KeyType::DSA, BITS)),
    disallowed(MechanismRow::generates(Action::GeneratePair, M::DSA_KEY_PAIR_GEN, KeyType::DSA, BITS)),
    signature(M::DSA, None),
    signature(M::DSA_SHA1, Some(Hash::Sha1)),
    signature(M::DSA_SHA224, Some(Hash::Sha224)),
    signature(M::DSA_SHA256, Some(Hash::Sha256)),
    signature(M::DSA_SHA384, Some(Hash::Sha384)),
    signature(M::DSA_SHA512, Some(Hash::Sha512)),
    signature(M::DSA_SHA3_224, Some(Hash::Sha3_224)),
    signature(M::DSA_SHA3_256, Some(Hash::Sha3_256)),
    signature(M::DSA_SHA3_384, Some(Hash::Sha3_384)),
    signature(M::DSA_SHA3_512, Some(Hash::Sha3_512)),
];

const fn signature(id: M, hash: Option<Hash>) -> MechanismRow {
    let action = Action::Sign(Primitive::Digest(&Scheme::Dsa), hash);
    disallowed(MechanismRow::signs(id, KeyType::DSA, BITS, action))
}

/// FIPS 186-5 approves DSA only for the verification of old signatures. A nonce that repeats, or is
/// known in part, reveals the key.
const fn disallowed(row: MechanismRow) -> MechanismRow {
    MechanismRow { standing: Standing::Disallowed, ..row }
}
