//! ML-DSA keys (PKCS#11 3.2, "ML-DSA"). Their DER is that of RFC 9881.

use der::asn1::ObjectIdentifier;

use super::{Family, KeyTypeRow, set};
use crate::backend::{MlDsa, PairSpec, PrivateParts, PublicParts};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::object::Attributes;
use crate::object::required::{put_same, value};
use crate::object::rule::ObjectTypes;
use crate::secret::Secret;

const PUBLIC: ObjectTypes = ObjectTypes::member(6);
const PRIVATE: ObjectTypes = ObjectTypes::member(14);
const IDENTIFIERS: &[ObjectIdentifier] = &[
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.17"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.18"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.19"),
];

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::ML_DSA,
        objects: &[(ObjectClass::PUBLIC_KEY, PUBLIC), (ObjectClass::PRIVATE_KEY, PRIVATE)],
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
        put_public: |attributes, parts| match parts {
            PublicParts::MlDsa { key, .. } => put_same(attributes, A::VALUE, key),
            _ => Err(Error::KeyTypeInconsistent),
        },
        put_private: |attributes, _, parts| match parts {
            PrivateParts::MlDsa { set, seed, key } => {
                set::put_private(attributes, set::place(&MlDsa::ALL, set), seed, key)
            }
            _ => Err(Error::KeyTypeInconsistent),
        },
        prepare: |attributes, provider| set::expand_seed(attributes, provider, MlDsa::SEED_LEN, pair_spec),
        identifiers: IDENTIFIERS,
        encode_public: |parts| match parts {
            PublicParts::MlDsa { set, key } => {
                Ok((IDENTIFIERS[set::place(&MlDsa::ALL, *set)], None, key.clone()))
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
    Ok(PairSpec::MlDsa { set: set::named(attributes, &MlDsa::ALL)?, seed })
}
