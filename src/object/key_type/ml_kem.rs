//! ML-KEM keys (PKCS#11 3.2, "ML-KEM"). Their DER is that of RFC 9935.

use jeton_secret::Secret;

use super::{Family, KeyTypeRow, set};
use crate::backend::{MlKem, PairSpec, PrivateParts, PublicParts};
use crate::error::Result;
use crate::id::{AttributeType as A, KeyType};
use crate::object::Attributes;
use crate::object::required::value;
use crate::object::rule::ObjectTypes;

const PUBLIC: ObjectTypes = ObjectTypes::member(8);
const PRIVATE: ObjectTypes = ObjectTypes::member(16);

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::ML_KEM,
        public: PUBLIC,
        private: PRIVATE,
        uses: &[A::ENCAPSULATE, A::DECAPSULATE],
        pair_spec: |public, _| pair_spec(public, None),
        public_parts: |attributes| {
            let set = set::named(attributes, &MlKem::ALL)?;
            Ok(PublicParts::MlKem { set, key: value(attributes)?.to_vec() })
        },
        private_parts: |attributes| {
            let set = set::named(attributes, &MlKem::ALL)?;
            let seed = attributes.bytes(A::SEED).map(Secret::from);
            Ok(PrivateParts::MlKem { set, seed, key: value(attributes)?.into() })
        },
        prepare: |attributes, provider| set::expand_seed(attributes, provider, MlKem::SEED_LEN, pair_spec),
        identifiers: &set::nist(4, [1, 2, 3]),
        ..set::BASE
    }],
    rules: &set::seeded(PUBLIC, PRIVATE),
};

fn pair_spec<'s>(attributes: &Attributes, seed: Option<&'s Secret>) -> Result<PairSpec<'s>> {
    Ok(PairSpec::MlKem { set: set::named(attributes, &MlKem::ALL)?, seed })
}
