//! IKE, versions 1 and 2 (PKCS#11 3.2, "IKE Mechanisms").

use super::{Action, Derivation, MechanismRow, Shape};
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::DERIVE;

pub(super) const ROWS: &[MechanismRow] = &[
    derives(M::IKE_PRF_DERIVE, Shape::IkePrf, Derivation::IkePrf),
    derives(M::IKE1_PRF_DERIVE, Shape::Ike1Prf, Derivation::Ike1Prf),
    derives(M::IKE1_EXTENDED_DERIVE, Shape::Ike1Extended, Derivation::Ike1Extended),
    derives(M::IKE2_PRF_PLUS_DERIVE, Shape::Ike2PrfPlus, Derivation::Ike2PrfPlus),
];

/// Builds a row. It names no key type: the pseudo-random function in the parameter decides which
/// key types fit.
const fn derives(id: M, shape: Shape, derivation: Derivation) -> MechanismRow {
    MechanismRow {
        id,
        flags: DERIVE,
        sizes: (1, 4096),
        key_type: None,
        shape,
        action: Action::Derive(derivation),
        ..MechanismRow::BASE
    }
}
