//! DSA (PKCS#11 3.2, "DSA"; FIPS 186-4), for keys that come from older tokens. FIPS 186-5 approves
//! DSA only for the verification of old signatures.
//!
//! Generated domain parameters have the sizes of FIPS 186-4. Imported domain parameters may have a
//! prime of any size from 1024 to 3072 bits.

use super::flow::{Flow, KeyFlow};
use super::{Action, MechanismRow, Primitive, SIGNS, Shape};
use crate::backend::Hash;
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{GENERATE, GENERATE_KEY_PAIR};

pub(super) const ROWS: &[MechanismRow] = &[
    row(M::DSA_PARAMETER_GEN, GENERATE, KeyFlow::Nothing, Action::GenerateParameters),
    row(M::DSA_KEY_PAIR_GEN, GENERATE_KEY_PAIR, KeyFlow::Nothing, Action::GeneratePair),
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
    row(id, SIGNS, KeyFlow::Signs(Flow::OneWay), Action::Sign(Primitive::Dsa, hash))
}

/// Builds a row. The sizes are those of the prime in bits.
const fn row(id: M, flags: u64, flow: KeyFlow, action: Action) -> MechanismRow {
    let (sizes, shape) = ((1024, 3072), Shape::None);
    MechanismRow { id, flags, sizes, key_type: Some(KeyType::DSA), flow, shape, action, ..MechanismRow::BASE }
}
