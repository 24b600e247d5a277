//! Stateful hash-based signatures (PKCS#11 3.2, "HSS", "XMSS and XMSS^MT"). The sizes of the keys
//! are 0, as the specification says.

use super::{Action, KeyFlow, MechanismRow, Primitive};
use crate::backend::Stateful;
use crate::id::{KeyType, MechanismType as M, mechanism_flag as does};

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::GeneratePair, M::HSS_KEY_PAIR_GEN, KeyType::HSS, (0, 0)),
    MechanismRow::signs(M::HSS, KeyType::HSS, (0, 0), signs(Stateful::Hss)),
    verifies(M::XMSS, KeyType::XMSS, Stateful::Xmss),
    verifies(M::XMSSMT, KeyType::XMSSMT, Stateful::XmssMt),
];

const fn verifies(id: M, key_type: KeyType, family: Stateful) -> MechanismRow {
    let row = MechanismRow::signs(id, key_type, (0, 0), signs(family));
    MechanismRow { flags: does::VERIFY, flow: KeyFlow::Nothing, ..row }
}

const fn signs(family: Stateful) -> Action {
    Action::Sign(Primitive::Stateful(family), None)
}
