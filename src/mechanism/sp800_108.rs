//! The key derivations of SP 800-108 (PKCS#11 3.2, "SP800-108 Key Derivation").

use super::flow::{Inputs, Protection, Sizes, blocks_of, message_of};
use super::row::kdf_of;
use super::{Derivation, MechanismRow, Params};
use crate::id::MechanismType as M;

pub use jeton_words::sp800_108::{Field, Kdf, Number};

pub(super) const ROWS: &[MechanismRow] = &[
    derives(M::SP800_108_COUNTER_KDF),
    derives(M::SP800_108_FEEDBACK_KDF),
    derives(M::SP800_108_DOUBLE_PIPELINE_KDF),
];

/// Builds the row of a mechanism that accepts every type of secret key. The sizes are in bits.
const fn derives(id: M) -> MechanismRow {
    MechanismRow::derives(id, None, (8, 32768), inputs, Derivation::Sp800_108(kdf_of(id)))
}

/// The base key is the key of the pseudo-random function, and the other keys are in its message.
/// "Key Derivation Attribute Rules": the template may choose the protection.
fn inputs(params: &Params, _: Sizes) -> Inputs {
    let Params::Sp800_108 { prf, .. } = params else { return Inputs::ONE_WAY };
    Inputs {
        named: message_of(*prf),
        extent: blocks_of(*prf),
        protection: Protection::Default,
        ..Inputs::ONE_WAY
    }
}
