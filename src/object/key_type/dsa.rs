//! DSA keys and domain parameters (PKCS#11 3.2, "DSA"). Their DER is that of RFC 3279.

use der::asn1::{ObjectIdentifier, UintRef};
use jeton_secret::Secret;
use pkcs8::PrivateKeyInfoRef;

use super::dh::put_public_value;
use super::encoding::{decoded, integer, integers, named, parameters, part, wrong};
use super::{Decoded, Family, KeyTypeRow};
use crate::backend::{DsaGroup, PairSpec, PrivateParts, Provider, PublicParts};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::object::Attributes;
use crate::object::required::{all_bytes, put_same, value};
use crate::object::rule::{Need, ObjectTypes, fixed, hidden, made};
use crate::object::value::{Kind, Value, bit_size, unpadded};

const PUBLIC: ObjectTypes = ObjectTypes::member(52);
const PRIVATE: ObjectTypes = ObjectTypes::member(53);
const PARAMETERS: ObjectTypes = ObjectTypes::member(54);

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::DSA,
        public: PUBLIC,
        private: PRIVATE,
        parameters: PARAMETERS,
        uses: &[A::SIGN, A::VERIFY],
        size: A::PRIME,
        pair_spec: |public, _| Ok(PairSpec::Dsa(group(public)?)),
        public_parts: |attributes| {
            let value = unpadded(value(attributes)?).to_vec();
            Ok(PublicParts::Dsa { group: group(attributes)?, value })
        },
        private_parts: |attributes| {
            let group = group(attributes)?;
            Ok(PrivateParts::Dsa { group, value: unpadded(value(attributes)?).into() })
        },
        put_public,
        put_private,
        prepare: |attributes, provider| provider.keys.check_dsa_group(&group(attributes)?),
        normalise: put_value,
        // RFC 3279, 2.3.2: `id-dsa`.
        identifiers: &[ObjectIdentifier::new_unwrap("1.2.840.10040.4.1")],
        encode_public: |_, parts| match parts {
            PublicParts::Dsa { group, value } => Ok((Some(parms(group)?), integer(value)?)),
            _ => Err(Error::KeyTypeInconsistent),
        },
        encode_private: |attributes, _| {
            let group = parms(&group(attributes).map_err(wrong)?)?;
            Ok((Some(group), integer(part(attributes, A::VALUE)?)?))
        },
        decode_private,
        generate_parameters,
        check_parameters,
        ..KeyTypeRow::BASE
    }],
    rules: &[
        fixed(A::PRIME, Kind::Integer, PUBLIC, Need::Must, Need::Must),
        fixed(A::SUBPRIME, Kind::Integer, PUBLIC, Need::Must, Need::Must),
        fixed(A::BASE, Kind::Integer, PUBLIC, Need::Must, Need::Must),
        made(A::VALUE, Kind::Bytes, PUBLIC),
        made(A::PRIME, Kind::Integer, PRIVATE),
        made(A::SUBPRIME, Kind::Integer, PRIVATE),
        made(A::BASE, Kind::Integer, PRIVATE),
        hidden(A::VALUE, Kind::Bytes, PRIVATE, Need::Must),
        fixed(A::PRIME, Kind::Integer, PARAMETERS, Need::Must, Need::Never),
        fixed(A::SUBPRIME, Kind::Integer, PARAMETERS, Need::Must, Need::Never),
        fixed(A::BASE, Kind::Integer, PARAMETERS, Need::Must, Need::Never),
        fixed(A::PRIME_BITS, Kind::Number, PARAMETERS, Need::Never, Need::Must),
        // Without this attribute, the size of the prime decides the size of the subprime.
        fixed(A::SUBPRIME_BITS, Kind::Number, PARAMETERS, Need::Never, Need::May),
    ],
};

/// Returns the domain parameters of a key or of a domain parameters object.
fn group(attributes: &Attributes) -> Result<DsaGroup> {
    let [prime, subprime, base] = all_bytes(attributes, [A::PRIME, A::SUBPRIME, A::BASE])?;
    Ok(DsaGroup { prime, subprime, base })
}

fn put_public(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    let PublicParts::Dsa { group, value } = parts else { return Err(Error::KeyTypeInconsistent) };
    put_group(attributes, group)?;
    put_public_value(attributes, value)
}

fn put_private(attributes: &mut Attributes, _: &PublicParts, parts: PrivateParts) -> Result<()> {
    let PrivateParts::Dsa { group, .. } = &parts else { return Err(Error::KeyTypeInconsistent) };
    put_group(attributes, group)?;
    put_value(attributes, parts)
}

fn put_group(attributes: &mut Attributes, group: &DsaGroup) -> Result<()> {
    put_same(attributes, A::PRIME, &group.prime)?;
    put_same(attributes, A::SUBPRIME, &group.subprime)?;
    put_same(attributes, A::BASE, &group.base)
}

fn put_value(attributes: &mut Attributes, parts: PrivateParts) -> Result<()> {
    let PrivateParts::Dsa { value, .. } = parts else { return Err(Error::KeyTypeInconsistent) };
    attributes.put(A::VALUE, Value::Bytes(value));
    Ok(())
}

/// RFC 3279, 2.3.2: `Dss-Parms`.
fn parms(group: &DsaGroup) -> Result<Secret> {
    integers([&group.prime[..], &group.subprime, &group.base])
}

fn decode_private(info: &PrivateKeyInfoRef<'_>, _: usize) -> Result<Decoded> {
    let value = decoded(info.private_key.as_bytes())?;
    match parameters::<Vec<UintRef<'_>>>(info)?[..] {
        [prime, subprime, base] => {
            Ok(named([A::PRIME, A::SUBPRIME, A::BASE, A::VALUE], [prime, subprime, base, value]))
        }
        _ => Err(Error::WrappedKeyInvalid),
    }
}

fn generate_parameters(attributes: &mut Attributes, bits: usize, provider: &Provider) -> Result<()> {
    // Without a size of the subprime, it is the largest that FIPS 186-4, 4.2 has for the prime.
    let subprime_bits = match attributes.number(A::SUBPRIME_BITS) {
        Some(given) => usize::try_from(given).map_err(|_| Error::KeySizeRange)?,
        None if bits < 2048 => 160,
        None => 256,
    };
    let group = provider.keys.dsa_group(bits, subprime_bits)?;
    put_group(attributes, &group)?;
    attributes.put(A::SUBPRIME_BITS, Value::Number(subprime_bits as u64));
    Ok(())
}

fn check_parameters(attributes: &mut Attributes, provider: &Provider) -> Result<()> {
    let group = group(attributes)?;
    provider.keys.check_dsa_group(&group)?;
    attributes.put(A::SUBPRIME_BITS, Value::Number(bit_size(&group.subprime)));
    Ok(())
}
