//! Key wrapping with ECDH (PKCS#11 3.2, "ECDH AES KEY WRAP" and its two variants).

use super::flow::{KeyFlow, Wrapping};
use super::{Action, Asymmetric, MechanismRow, PointForm, Shape, Wraps};
use crate::id::mechanism_flag::{EC_CURVENAME, EC_F_P, EC_OID, EC_UNCOMPRESS, UNWRAP, WRAP};
use crate::id::{KeyType, MechanismType as M};

pub(super) const ROWS: &[MechanismRow] = &[
    // This mechanism also accepts keys of Montgomery curves.
    MechanismRow {
        other_key_type: Some(KeyType::EC_MONTGOMERY),
        ..wraps(M::ECDH_AES_KEY_WRAP, KeyType::EC, (224, 521), PointForm::Bare)
    },
    wraps(M::ECDH_COF_AES_KEY_WRAP, KeyType::EC, (224, 521), PointForm::Octets),
    wraps(M::ECDH_X_AES_KEY_WRAP, KeyType::EC_MONTGOMERY, (255, 448), PointForm::Bare),
];

/// Builds a row. The sizes are those of the curve in bits.
const fn wraps(id: M, key_type: KeyType, sizes: (u64, u64), form: PointForm) -> MechanismRow {
    MechanismRow {
        id,
        flags: WRAP | UNWRAP | EC_F_P | EC_OID | EC_CURVENAME | EC_UNCOMPRESS,
        sizes,
        key_type: Some(key_type),
        wraps: Wraps::Any,
        flow: KeyFlow::Wraps(Wrapping::Hybrid),
        shape: Shape::EcdhAesWrap,
        action: Action::Encrypt(Asymmetric::EcdhAesWrap(form)),
        ..MechanismRow::BASE
    }
}
