//! Triple DES (PKCS#11 3.2, "Double and Triple-length DES"), with triple-length keys only.

use super::flow::Wrapping;
use super::{Action, MechanismRow, Standing, Wraps};
use crate::id::{KeyType, MechanismType as M};

const BLOCK: usize = 8;
/// The rows report no key sizes.
const SIZES: (u64, u64) = (0, 0);

pub(super) const ROWS: &[MechanismRow] = &[
    obsolete(MechanismRow::generates(Action::Generate, M::DES3_KEY_GEN, KeyType::DES3, SIZES)),
    mode(M::DES3_ECB, Wraps::SecretWithZeros(BLOCK)),
    mode(M::DES3_CBC, Wraps::SecretWithZeros(BLOCK)),
    mode(M::DES3_CBC_PAD, Wraps::Any),
];

const fn mode(id: M, wraps: Wraps) -> MechanismRow {
    let row = MechanismRow::encrypts(id, KeyType::DES3, SIZES, Wrapping::Unauthenticated);
    obsolete(MechanismRow { wraps, ..row })
}

const fn obsolete(row: MechanismRow) -> MechanismRow {
    MechanismRow { standing: Standing::Obsolete, ..row }
}
