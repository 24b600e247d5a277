//! RSA keys (PKCS#11 3.2, "RSA"). Their DER is that of RFC 8017.

use der::asn1::{ObjectIdentifier, UintRef};
use jeton_secret::Secret;
use pkcs8::PrivateKeyInfoRef;

use super::encoding::{NULL, decoded, integers, named, part};
use super::{Decoded, Family, KeyTypeRow, Limited};
use crate::backend::{PairSpec, PrivateParts, PublicParts, RsaCrt, RsaPrivate};
use crate::config::strict::{RSA_BITS, RSA_EXPONENT};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::object::Attributes;
use crate::object::required::{all_bytes, bytes, put_same};
use crate::object::rule::{Need, ObjectTypes, fixed, hidden, made};
use crate::object::value::{Kind, Value, bit_size};

const PUBLIC: ObjectTypes = ObjectTypes::member(2);
const PRIVATE: ObjectTypes = ObjectTypes::member(10);
const OBJECTS: ObjectTypes = PUBLIC.or(PRIVATE);
/// The numbers of a private key in the order of RFC 8017, A.1.2, after the version.
const NUMBERS: [A; 8] = [
    A::MODULUS,
    A::PUBLIC_EXPONENT,
    A::PRIVATE_EXPONENT,
    A::PRIME_1,
    A::PRIME_2,
    A::EXPONENT_1,
    A::EXPONENT_2,
    A::COEFFICIENT,
];
/// The numbers that only speed up the computation.
const CRT: [A; 5] = [A::PRIME_1, A::PRIME_2, A::EXPONENT_1, A::EXPONENT_2, A::COEFFICIENT];
/// The public exponent of a pair if the template has none: 65537.
const DEFAULT_EXPONENT: &[u8] = &[1, 0, 1];

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::RSA,
        public: PUBLIC,
        private: PRIVATE,
        size: A::MODULUS_BITS,
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
        public_parts: |attributes| {
            let [n, e] = all_bytes(attributes, [A::MODULUS, A::PUBLIC_EXPONENT])?;
            Ok(PublicParts::Rsa { n, e })
        },
        private_parts,
        has_public_half: true,
        limited: |attributes| {
            Ok(attributes.bytes(A::MODULUS).map(|modulus| Limited::RsaBits(bit_size(modulus))))
        },
        put_public,
        put_private,
        identifiers: &[ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1")],
        encode_public: |_, parts| match parts {
            PublicParts::Rsa { n, e } => Ok((Some(NULL[..].into()), integers([&n[..], e])?)),
            _ => Err(Error::KeyTypeInconsistent),
        },
        encode_private: |attributes, _| {
            let mut numbers = vec![&[0][..]];
            for id in NUMBERS {
                numbers.push(part(attributes, id)?);
            }
            Ok((Some(NULL[..].into()), integers(numbers)?))
        },
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
    let [p, q, dp, dq, qinv] = CRT.map(part);
    Some(RsaCrt { p: p?, q: q?, dp: dp?, dq: dq?, qinv: qinv? })
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
    if let Some(RsaCrt { p, q, dp, dq, qinv }) = key.crt {
        for (id, number) in CRT.into_iter().zip([p, q, dp, dq, qinv]) {
            attributes.put(id, Value::Bytes(number));
        }
    }
    Ok(())
}

fn decode_private(info: &PrivateKeyInfoRef<'_>, _: usize) -> Result<Decoded> {
    match decoded::<Vec<UintRef<'_>>>(info.private_key.as_bytes())?[..] {
        // Version 0: the modulus has two primes.
        [version, n, e, d, p, q, dp, dq, qinv] if version.as_bytes() == [0] => {
            let mut all = named(NUMBERS, [n, e, d, p, q, dp, dq, qinv]);
            // Programs write zeros for primes that they do not know.
            if [p, q, dp, dq, qinv].iter().all(|number| number.as_bytes() == [0]) {
                all.truncate(3);
            }
            Ok(all)
        }
        _ => Err(Error::WrappedKeyInvalid),
    }
}

fn check_strict(attributes: &Attributes) -> Result<()> {
    let bits = |id| attributes.bytes(id).map(bit_size);
    if bits(A::PUBLIC_EXPONENT).is_some_and(|bits| bits < bit_size(&RSA_EXPONENT.to_be_bytes())) {
        return Err(Error::AttributeValueInvalid);
    }
    let good = bits(A::MODULUS).is_none_or(|bits| bits >= RSA_BITS);
    if good { Ok(()) } else { Err(Error::KeySizeRange) }
}
