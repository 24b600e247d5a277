//! SLH-DSA keys (PKCS#11 3.2, "SLH-DSA"). Their DER is that of RFC 9909.

use super::encoding::part;
use super::{Family, KeyTypeRow, set};
use crate::backend::{PairSpec, PrivateParts, PublicParts, SlhDsa};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::object::Attributes;
use crate::object::required::value;
use crate::object::rule::ObjectTypes;
use crate::object::value::Value;

const PUBLIC: ObjectTypes = ObjectTypes::member(7);
const PRIVATE: ObjectTypes = ObjectTypes::member(15);

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::SLH_DSA,
        public: PUBLIC,
        private: PRIVATE,
        uses: &[A::SIGN, A::VERIFY],
        pair_spec: |public, _| Ok(PairSpec::SlhDsa { set: set::named(public, &SlhDsa::ALL)?, seed: None }),
        public_parts,
        private_parts: |attributes| {
            let set = set::named(attributes, &SlhDsa::ALL)?;
            Ok(PrivateParts::SlhDsa { set, key: value(attributes)?.into() })
        },
        // RFC 9909 numbers the SHA2 sets before the SHAKE sets. PKCS#11 alternates between them.
        identifiers: &set::nist(3, [20, 26, 21, 27, 22, 28, 23, 29, 24, 30, 25, 31]),
        has_public_half: true,
        // The key has no DER header.
        encode_private: |attributes, _| Ok((None, part(attributes, A::VALUE)?.into())),
        decode_private: |info, place| {
            let key = Value::Bytes(info.private_key.as_bytes().into());
            Ok(vec![(A::PARAMETER_SET, Value::Number(place as u64 + 1)), (A::VALUE, key)])
        },
        ..set::BASE
    }],
    rules: &set::rules(PUBLIC, PRIVATE),
};

/// The second half of a private key is the public key (FIPS 205, 9.1). It was verified when the
/// key was made: its computation takes a tenth of the time of a signature.
fn public_parts(attributes: &Attributes) -> Result<PublicParts> {
    let set = set::named(attributes, &SlhDsa::ALL)?;
    let value = value(attributes)?;
    let is_private = attributes.object_type() == Some(PRIVATE);
    let key = if is_private { value.get(2 * set.n()..).ok_or(Error::GeneralError)? } else { value };
    Ok(PublicParts::SlhDsa { set, key: key.to_vec() })
}
