//! RSA keys (PKCS#11 3.2, "RSA"). Their DER is that of RFC 8017.

use der::asn1::ObjectIdentifier;
use pkcs1::{RsaPrivateKeyRef, RsaPublicKey};
use pkcs8::PrivateKeyInfoRef;

use super::{Decoded, Encoded, Family, KeyTypeRow, encoding};
use crate::backend::{PairSpec, PrivateParts, Provider, PublicParts, RsaCrt, RsaPrivate};
use crate::config::strict::{RSA_BITS, RSA_EXPONENT};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::object::Attributes;
use crate::object::required::{bytes, put_same};
use crate::object::rule::{Need, ObjectTypes, fixed, hidden, made};
use crate::object::value::{Kind, Value, bit_size};
use crate::secret::Secret;

const PUBLIC: ObjectTypes = ObjectTypes::member(2);
const PRIVATE: ObjectTypes = ObjectTypes::member(10);
/// The public and private keys.
pub(crate) const OBJECTS: ObjectTypes = PUBLIC.or(PRIVATE);
const IDENTIFIER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// The public exponent of a pair if the template has none: 65537.
const DEFAULT_EXPONENT: &[u8] = &[1, 0, 1];

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::RSA,
        objects: &[(ObjectClass::PUBLIC_KEY, PUBLIC), (ObjectClass::PRIVATE_KEY, PRIVATE)],
        uses: &[
            A::ENCRYPT,
            A::DECRYPT,
            A::SIGN,
            A::VERIFY,
            A::SIGN_RECOVER,
            A::VERIFY_RECOVER,
            A::WRAP,
            A::UNWRAP,
        ],
        pair_spec,
        public_parts,
        private_parts,
        has_public_half: true,
        put_public,
        put_private,
        identifiers: &[IDENTIFIER],
        encode_public,
        encode_private,
        decode_private,
        check_strict,
        ..KeyTypeRow::BASE
    }],
    rules: &[
        made(A::MODULUS, Kind::Integer, OBJECTS),
        fixed(A::MODULUS_BITS, Kind::Number, PUBLIC, Need::Never, Need::Must),
        fixed(A::PUBLIC_EXPONENT, Kind::Integer, PUBLIC, Need::Must, Need::May),
        fixed(A::PUBLIC_EXPONENT, Kind::Integer, PRIVATE, Need::May, Need::Same),
        hidden(A::PRIVATE_EXPONENT, Kind::Integer, PRIVATE, Need::Must),
        hidden(A::PRIME_1, Kind::Integer, PRIVATE, Need::May),
        hidden(A::PRIME_2, Kind::Integer, PRIVATE, Need::May),
        hidden(A::EXPONENT_1, Kind::Integer, PRIVATE, Need::May),
        hidden(A::EXPONENT_2, Kind::Integer, PRIVATE, Need::May),
        hidden(A::COEFFICIENT, Kind::Integer, PRIVATE, Need::May),
    ],
};

fn pair_spec<'a>(public: &'a Attributes, _: &Attributes) -> Result<PairSpec<'a>> {
    let bits = public.number(A::MODULUS_BITS).and_then(|bits| bits.try_into().ok());
    let public_exponent = public.bytes(A::PUBLIC_EXPONENT).unwrap_or(DEFAULT_EXPONENT);
    Ok(PairSpec::Rsa { bits: bits.ok_or(Error::TemplateIncomplete)?, public_exponent })
}

fn public_parts(attributes: &Attributes) -> Result<PublicParts> {
    let part = |id| bytes(attributes, id).map(<[u8]>::to_vec);
    Ok(PublicParts::Rsa { n: part(A::MODULUS)?, e: part(A::PUBLIC_EXPONENT)? })
}

fn private_parts(attributes: &Attributes) -> Result<PrivateParts> {
    Ok(PrivateParts::Rsa(RsaPrivate {
        n: bytes(attributes, A::MODULUS)?.to_vec(),
        e: attributes.bytes(A::PUBLIC_EXPONENT).map(<[u8]>::to_vec),
        d: bytes(attributes, A::PRIVATE_EXPONENT)?.into(),
        crt: crt(attributes),
    }))
}

fn crt(attributes: &Attributes) -> Option<RsaCrt> {
    let part = |id| attributes.bytes(id).filter(|bytes| !bytes.is_empty()).map(Secret::from);
    Some(RsaCrt {
        p: part(A::PRIME_1)?,
        q: part(A::PRIME_2)?,
        dp: part(A::EXPONENT_1)?,
        dq: part(A::EXPONENT_2)?,
        qinv: part(A::COEFFICIENT)?,
    })
}

fn put_public(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    let PublicParts::Rsa { n, e } = parts else { return Err(Error::KeyTypeInconsistent) };
    put_same(attributes, A::MODULUS, n)?;
    put_same(attributes, A::PUBLIC_EXPONENT, e)?;
    attributes.put(A::MODULUS_BITS, Value::Number(bit_size(n)));
    Ok(())
}

fn put_private(attributes: &mut Attributes, public: &PublicParts, parts: PrivateParts) -> Result<()> {
    let (PublicParts::Rsa { e, .. }, PrivateParts::Rsa(key)) = (public, parts) else {
        return Err(Error::KeyTypeInconsistent);
    };
    put_same(attributes, A::MODULUS, &key.n)?;
    put_same(attributes, A::PUBLIC_EXPONENT, e)?;
    attributes.put(A::PRIVATE_EXPONENT, Value::Bytes(key.d));
    if let Some(crt) = key.crt {
        attributes.put(A::PRIME_1, Value::Bytes(crt.p));
        attributes.put(A::PRIME_2, Value::Bytes(crt.q));
        attributes.put(A::EXPONENT_1, Value::Bytes(crt.dp));
        attributes.put(A::EXPONENT_2, Value::Bytes(crt.dq));
        attributes.put(A::COEFFICIENT, Value::Bytes(crt.qinv));
    }
    Ok(())
}

fn encode_public(parts: &PublicParts) -> Result<Encoded<Vec<u8>>> {
    let PublicParts::Rsa { n, e } = parts else { return Err(Error::KeyTypeInconsistent) };
    let key = RsaPublicKey { modulus: encoding::integer(n)?, public_exponent: encoding::integer(e)? };
    Ok((IDENTIFIER, Some(encoding::NULL.into()), encoding::public(&key)?))
}

fn encode_private(attributes: &Attributes, _: &Provider) -> Result<Encoded<Secret>> {
    let part = |id| encoding::part(attributes, id).and_then(encoding::integer);
    let key = encoding::encoded(&RsaPrivateKeyRef {
        modulus: part(A::MODULUS)?,
        public_exponent: part(A::PUBLIC_EXPONENT)?,
        private_exponent: part(A::PRIVATE_EXPONENT)?,
        prime1: part(A::PRIME_1)?,
        prime2: part(A::PRIME_2)?,
        exponent1: part(A::EXPONENT_1)?,
        exponent2: part(A::EXPONENT_2)?,
        coefficient: part(A::COEFFICIENT)?,
        other_prime_infos: None,
    })?;
    Ok((IDENTIFIER, Some(encoding::NULL.into()), key))
}

fn decode_private(info: &PrivateKeyInfoRef<'_>, _: usize) -> Result<Decoded> {
    let key: RsaPrivateKeyRef<'_> = encoding::decoded(info.private_key.as_bytes())?;
    Ok(vec![
        encoding::number(A::MODULUS, key.modulus),
        encoding::number(A::PUBLIC_EXPONENT, key.public_exponent),
        encoding::number(A::PRIVATE_EXPONENT, key.private_exponent),
        encoding::number(A::PRIME_1, key.prime1),
        encoding::number(A::PRIME_2, key.prime2),
        encoding::number(A::EXPONENT_1, key.exponent1),
        encoding::number(A::EXPONENT_2, key.exponent2),
        encoding::number(A::COEFFICIENT, key.coefficient),
    ])
}

fn check_strict(attributes: &Attributes) -> Result<()> {
    let bits = |id| attributes.bytes(id).map(bit_size);
    if bits(A::PUBLIC_EXPONENT).is_some_and(|bits| bits < bit_size(&RSA_EXPONENT.to_be_bytes())) {
        return Err(Error::AttributeValueInvalid);
    }
    let good = bits(A::MODULUS).is_none_or(|bits| bits >= RSA_BITS);
    if good { Ok(()) } else { Err(Error::KeySizeRange) }
}
