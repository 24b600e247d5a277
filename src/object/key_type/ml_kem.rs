//! ML-KEM keys (PKCS#11 3.2, "ML-KEM"). Their DER is that of RFC 9935.

use der::asn1::ObjectIdentifier;

use super::{Family, KeyTypeRow, set};
use crate::backend::{MlKem, PairSpec, PrivateParts, PublicParts};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::object::Attributes;
use crate::object::required::{put_same, value};
use crate::object::rule::ObjectTypes;
use crate::secret::Secret;

const PUBLIC: ObjectTypes = ObjectTypes::member(8);
const PRIVATE: ObjectTypes = ObjectTypes::member(16);
const IDENTIFIERS: &[ObjectIdentifier] = &[
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.4.1"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.4.2"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.4.3"),
];

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::ML_KEM,
        objects: &[(ObjectClass::PUBLIC_KEY, PUBLIC), (ObjectClass::PRIVATE_KEY, PRIVATE)],
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
        put_public: |attributes, parts| match parts {
            PublicParts::MlKem { key, .. } => put_same(attributes, A::VALUE, key),
            _ => Err(Error::KeyTypeInconsistent),
        },
        put_private: |attributes, _, parts| match parts {
            PrivateParts::MlKem { set, seed, key } => {
                set::put_private(attributes, set::place(&MlKem::ALL, set), seed, key)
            }
            _ => Err(Error::KeyTypeInconsistent),
        },
        prepare: |attributes, provider| set::expand_seed(attributes, provider, MlKem::SEED_LEN, pair_spec),
        identifiers: IDENTIFIERS,
        encode_public: |parts| match parts {
            PublicParts::MlKem { set, key } => {
                Ok((IDENTIFIERS[set::place(&MlKem::ALL, *set)], None, key.clone()))
            }
            _ => Err(Error::KeyTypeInconsistent),
        },
        encode_private: |attributes, _| set::encode_private(attributes, IDENTIFIERS),
        decode_private: set::decode_private,
        ..KeyTypeRow::BASE
    }],
    rules: &set::seeded(PUBLIC, PRIVATE),
};

fn pair_spec<'s>(attributes: &Attributes, seed: Option<&'s Secret>) -> Result<PairSpec<'s>> {
    Ok(PairSpec::MlKem { set: set::named(attributes, &MlKem::ALL)?, seed })
}
