//! Shares of split Ed25519 keys: private keys of a type of Jeton's own. The agent makes them and
//! signs with them (`functions/share.rs`). No mechanism takes one, so none wraps it or derives from
//! it, and no caller creates one.

use super::{Family, KeyTypeRow};
use crate::id::{AttributeType as A, KeyType};
use crate::object::rule::{Default, Need, ObjectTypes, fixed, hidden};
use crate::object::value::Kind;

const SHARE: ObjectTypes = ObjectTypes::member(30);

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::JETON_SHARE,
        private: SHARE,
        uses: &[A::SIGN],
        ..KeyTypeRow::BASE
    }],
    rules: &[
        fixed(A::EC_PARAMS, Kind::Bytes, SHARE, Need::Never, Need::Never),
        fixed(A::EC_POINT, Kind::Bytes, SHARE, Need::Never, Need::Never).or(Default::Computed),
        hidden(A::VALUE, Kind::Bytes, SHARE, Need::Never),
    ],
};
