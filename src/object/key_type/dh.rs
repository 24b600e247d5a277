//! Diffie-Hellman keys and domain parameters (PKCS#11 3.2, "Diffie-Hellman"). Their DER is that of
//! PKCS #3.

use der::Sequence;
use der::asn1::{ObjectIdentifier, UintRef};
use jeton_secret::Secret;
use pkcs8::PrivateKeyInfoRef;

use super::encoding::{decoded, encoded, integer, named, parameters, part, wrong};
use super::{Decoded, Encoded, Family, KeyTypeRow};
use crate::backend::{PairSpec, PrivateParts, Provider, PublicParts, check_group};
use crate::config::strict::DH_BITS;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::object::Attributes;
use crate::object::required::{CONFLICT, all_bytes, bytes, put_same, refused_in, value};
use crate::object::rule::{Need, ObjectTypes, fixed, hidden, made};
use crate::object::value::{Kind, Value, bit_size, unpadded};

const PUBLIC: ObjectTypes = ObjectTypes::member(40);
const PRIVATE: ObjectTypes = ObjectTypes::member(41);
const PARAMETERS: ObjectTypes = ObjectTypes::member(42);
const GROUP: [A; 2] = [A::PRIME, A::BASE];

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::DH,
        public: PUBLIC,
        private: PRIVATE,
        parameters: PARAMETERS,
        uses: &[A::DERIVE],
        size: A::VALUE_BITS,
        pair_spec,
        public_parts: |attributes| {
            let [prime, base] = all_bytes(attributes, GROUP)?;
            Ok(PublicParts::Dh { prime, base, value: unpadded(value(attributes)?).to_vec() })
        },
        private_parts: |attributes| {
            let [prime, base] = all_bytes(attributes, GROUP)?;
            Ok(PrivateParts::Dh { prime, base, value: unpadded(value(attributes)?).into() })
        },
        put_public,
        put_private,
        normalise: |attributes, parts| match parts {
            PrivateParts::Dh { value, .. } => put_value(attributes, value),
            _ => Err(Error::KeyTypeInconsistent),
        },
        // PKCS #3, 9: `dhKeyAgreement`.
        identifiers: &[ObjectIdentifier::new_unwrap("1.2.840.113549.1.3.1")],
        encode_public: |_, parts| match parts {
            PublicParts::Dh { prime, base, value } => Ok((Some(group(prime, base, None)?), integer(value)?)),
            _ => Err(Error::KeyTypeInconsistent),
        },
        encode_private,
        decode_private,
        generate_parameters,
        check_parameters: |attributes, _| {
            check_group(bytes(attributes, A::PRIME)?, bytes(attributes, A::BASE)?)
        },
        check_strict,
        ..KeyTypeRow::BASE
    }],
    rules: &[
        fixed(A::PRIME, Kind::Integer, PUBLIC, Need::Must, Need::Must),
        fixed(A::BASE, Kind::Integer, PUBLIC, Need::Must, Need::Must),
        made(A::VALUE, Kind::Bytes, PUBLIC),
        made(A::PRIME, Kind::Integer, PRIVATE),
        made(A::BASE, Kind::Integer, PRIVATE),
        hidden(A::VALUE, Kind::Bytes, PRIVATE, Need::Must),
        fixed(A::VALUE_BITS, Kind::Number, PRIVATE, Need::Never, Need::May),
        fixed(A::PRIME, Kind::Integer, PARAMETERS, Need::Must, Need::Never),
        fixed(A::BASE, Kind::Integer, PARAMETERS, Need::Must, Need::Never),
        fixed(A::PRIME_BITS, Kind::Number, PARAMETERS, Need::Never, Need::Must),
    ],
};

/// PKCS #3, 9: `DHParameter`.
#[derive(Sequence)]
struct DhParameter<'a> {
    prime: UintRef<'a>,
    base: UintRef<'a>,
    #[asn1(optional = "true")]
    private_value_length: Option<u32>,
}

fn pair_spec<'a>(public: &'a Attributes, private: &Attributes) -> Result<PairSpec<'a>> {
    let bits = private.number(A::VALUE_BITS).map(usize::try_from);
    Ok(PairSpec::Dh {
        prime: bytes(public, A::PRIME)?,
        base: bytes(public, A::BASE)?,
        private_bits: bits.transpose().map_err(|_| Error::KeySizeRange)?,
    })
}

fn put_public(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    let PublicParts::Dh { prime, base, value } = parts else { return Err(Error::KeyTypeInconsistent) };
    put_same(attributes, A::PRIME, prime)?;
    put_same(attributes, A::BASE, base)?;
    put_public_value(attributes, value)
}

fn put_private(attributes: &mut Attributes, _: &PublicParts, parts: PrivateParts) -> Result<()> {
    let PrivateParts::Dh { prime, base, value } = parts else { return Err(Error::KeyTypeInconsistent) };
    put_same(attributes, A::PRIME, &prime)?;
    put_same(attributes, A::BASE, &base)?;
    put_value(attributes, value)
}

/// Sets a public value without leading zeros. Fails with `TemplateInconsistent` if the template has
/// another number.
pub(super) fn put_public_value(attributes: &mut Attributes, made: &[u8]) -> Result<()> {
    if attributes.bytes(A::VALUE).is_some_and(|given| unpadded(given) != made) {
        return Err(refused_in(attributes, A::VALUE, CONFLICT, Error::TemplateInconsistent));
    }
    attributes.put(A::VALUE, Value::Bytes(made.into()));
    Ok(())
}

/// Sets a private value without leading zeros, and its size in bits. Fails with
/// `TemplateInconsistent` if the template has another size.
fn put_value(attributes: &mut Attributes, value: Secret) -> Result<()> {
    let bits = bit_size(&value);
    if attributes.number(A::VALUE_BITS).is_some_and(|given| given != bits) {
        return Err(refused_in(attributes, A::VALUE_BITS, CONFLICT, Error::TemplateInconsistent));
    }
    attributes.put(A::VALUE_BITS, Value::Number(bits));
    attributes.put(A::VALUE, Value::Bytes(value));
    Ok(())
}

fn encode_private(attributes: &Attributes, _: &Provider) -> Result<Encoded> {
    let bits = attributes.number(A::VALUE_BITS).and_then(|bits| u32::try_from(bits).ok());
    let group = group(part(attributes, A::PRIME)?, part(attributes, A::BASE)?, bits)?;
    Ok((Some(group), integer(part(attributes, A::VALUE)?)?))
}

/// Encodes a group, with the length of its private values if `bits` has one.
fn group(prime: &[u8], base: &[u8], bits: Option<u32>) -> Result<Secret> {
    let [prime, base] = [prime, base].map(|number| UintRef::new(number).map_err(wrong));
    encoded(&DhParameter { prime: prime?, base: base?, private_value_length: bits })
}

fn decode_private(info: &PrivateKeyInfoRef<'_>, _: usize) -> Result<Decoded> {
    let (group, value) = (parameters::<DhParameter<'_>>(info)?, decoded(info.private_key.as_bytes())?);
    Ok(named([A::PRIME, A::BASE, A::VALUE], [group.prime, group.base, value]))
}

fn generate_parameters(attributes: &mut Attributes, bits: usize, provider: &Provider) -> Result<()> {
    let prime = provider.keys.safe_prime(bits)?;
    attributes.put(A::PRIME, Value::Bytes(Secret::new(prime)));
    // 4 is a square modulo every safe prime, so it generates the large subgroup of prime order.
    attributes.put(A::BASE, Value::Bytes([4][..].into()));
    Ok(())
}

fn check_strict(attributes: &Attributes) -> Result<()> {
    let good = attributes.bytes(A::PRIME).is_none_or(|prime| bit_size(prime) >= DH_BITS);
    if good { Ok(()) } else { Err(Error::KeySizeRange) }
}
