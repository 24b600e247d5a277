//! ML-DSA keys (PKCS#11 3.2, "ML-DSA"). Their DER is that of RFC 9881.

use jeton_secret::Secret;

use super::{Family, KeyTypeRow, set};
use crate::backend::{MlDsa, PairSpec, PrivateParts, PublicParts};
use crate::error::Result;
use crate::id::{AttributeType as A, KeyType};
use crate::object::Attributes;
use crate::object::required::value;
use crate::object::rule::ObjectTypes;

const PUBLIC: ObjectTypes = ObjectTypes::member(6);
const PRIVATE: ObjectTypes = ObjectTypes::member(14);

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::ML_DSA,
        public: PUBLIC,
        private: PRIVATE,
        uses: &[A::SIGN, A::VERIFY],
        pair_spec: |public, _| pair_spec(public, None),
        public_parts: |attributes| {
            let set = set::named(attributes, &MlDsa::ALL)?;
            Ok(PublicParts::MlDsa { set, key: value(attributes)?.to_vec() })
        },
        private_parts: |attributes| {
            let set = set::named(attributes, &MlDsa::ALL)?;
            let seed = attributes.bytes(A::SEED).map(Secret::from);
            Ok(PrivateParts::MlDsa { set, seed, key: value(attributes)?.into() })
        },
        prepare: |attributes, provider| set::expand_seed(attributes, provider, MlDsa::SEED_LEN, pair_spec),
        identifiers: &set::nist(3, [17, 18, 19]),
        ..set::BASE
    }],
    rules: &set::seeded(PUBLIC, PRIVATE),
};

fn pair_spec<'s>(attributes: &Attributes, seed: Option<&'s Secret>) -> Result<PairSpec<'s>> {
    Ok(PairSpec::MlDsa { set: set::named(attributes, &MlDsa::ALL)?, seed })
}
