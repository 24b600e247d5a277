//! Keys of stateful hash-based signatures (PKCS#11 3.2, "HSS", "XMSS and XMSS^MT"). Their
//! SubjectPublicKeyInfo is that of RFC 9802: the bytes of `CKA_VALUE`, without DER around them.
//!
//! Private keys are those of HSS. The token generates them; it neither imports nor exports them,
//! because two copies would use a one-time key twice.

use der::asn1::ObjectIdentifier;

use super::{Family, KeyTypeRow};
use crate::backend::hash_based::hss_uses;
use crate::backend::{HssType, PairSpec, PrivateParts, PublicParts, Stateful};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType};
use crate::object::Attributes;
use crate::object::required::{CONFLICT, put_same, refused_in, value};
use crate::object::rule::{Default, Need, ObjectTypes, Rule, fixed, hidden, made};
use crate::object::value::{Kind, Value};

const HSS: ObjectTypes = ObjectTypes::member(26);
const XMSS: ObjectTypes = ObjectTypes::member(27);
const XMSSMT: ObjectTypes = ObjectTypes::member(28);
const HSS_PRIVATE: ObjectTypes = ObjectTypes::member(29);

pub(super) const FAMILY: Family = Family {
    rows: &[
        KeyTypeRow {
            key_type: KeyType::HSS,
            public: HSS,
            private: HSS_PRIVATE,
            counts: true,
            uses: &[A::SIGN, A::VERIFY],
            pair_spec: |_, private| Ok(PairSpec::Hss { types: hss_types(private)?, threads: 1 }),
            private_parts: |attributes| {
                Ok(PrivateParts::Hss { types: hss_types(attributes)?, key: value(attributes)?.into() })
            },
            put_private: put_hss_private,
            public_parts: |attributes| parts(attributes, Stateful::Hss),
            put_public: put_hss,
            // RFC 9708: `id-alg-hss-lms-hashsig`.
            identifiers: &[ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.3.17")],
            ..BASE
        },
        KeyTypeRow {
            key_type: KeyType::XMSS,
            public: XMSS,
            public_parts: |attributes| parts(attributes, Stateful::Xmss),
            put_public: put_xmss,
            // RFC 9802: `id-alg-xmss-hashsig`.
            identifiers: &[ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.6.34")],
            ..BASE
        },
        KeyTypeRow {
            key_type: KeyType::XMSSMT,
            public: XMSSMT,
            public_parts: |attributes| parts(attributes, Stateful::XmssMt),
            put_public: put_xmss,
            // RFC 9802: `id-alg-xmssmt-hashsig`.
            identifiers: &[ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.6.35")],
            ..BASE
        },
    ],
    rules: &[
        described(A::HSS_LEVELS),
        described(A::HSS_LMS_TYPE),
        described(A::HSS_LMOTS_TYPE),
        made(A::VALUE, Kind::Bytes, HSS.or(XMSS).or(XMSSMT)),
        fixed(A::HSS_LEVELS, Kind::Number, HSS_PRIVATE, Need::Never, Need::Must),
        fixed(A::HSS_LMS_TYPES, Kind::Numbers, HSS_PRIVATE, Need::Never, Need::Must),
        fixed(A::HSS_LMOTS_TYPES, Kind::Numbers, HSS_PRIVATE, Need::Never, Need::Must),
        hidden(A::VALUE, Kind::Bytes, HSS_PRIVATE, Need::Never),
        fixed(A::HSS_KEYS_REMAINING, Kind::Number, HSS_PRIVATE, Need::Never, Need::Never)
            .or(Default::Computed),
        fixed(A::JETON_NEXT_KEY, Kind::Number, HSS_PRIVATE, Need::Never, Need::Never),
        fixed(A::PARAMETER_SET, Kind::Number, XMSS.or(XMSSMT), Need::Must, Need::Must),
    ],
};

const BASE: KeyTypeRow = KeyTypeRow {
    size: A::HSS_LMS_TYPES,
    uses: &[A::VERIFY],
    encode_public: |_, parts| Ok((None, parts.encoded().ok_or(Error::KeyTypeInconsistent)?.into())),
    ..KeyTypeRow::BASE
};

/// Returns the rule of an attribute that the token reads from `CKA_VALUE`.
const fn described(id: A) -> Rule {
    fixed(id, Kind::Number, HSS, Need::Never, Need::Never)
}

fn parts(attributes: &Attributes, family: Stateful) -> Result<PublicParts> {
    Ok(PublicParts::Stateful { family, key: value(attributes)?.to_vec() })
}

fn put_hss(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    let key = parts.encoded().ok_or(Error::KeyTypeInconsistent)?;
    for (id, at) in [(A::HSS_LEVELS, 0), (A::HSS_LMS_TYPE, 4), (A::HSS_LMOTS_TYPE, 8)] {
        attributes.put(id, Value::Number(word(key, at)?));
    }
    put_same(attributes, A::VALUE, key)
}

/// Reads the types of the levels. Fails with `TemplateInconsistent` unless there are as many as
/// levels.
fn hss_types(attributes: &Attributes) -> Result<Vec<HssType>> {
    let numbers = |id| match attributes.get(id) {
        Some(Value::Numbers(numbers)) => Ok(numbers),
        _ => Err(Error::TemplateIncomplete),
    };
    let (lms, ots) = (numbers(A::HSS_LMS_TYPES)?, numbers(A::HSS_LMOTS_TYPES)?);
    if lms.len() != ots.len() || attributes.number(A::HSS_LEVELS) != Some(lms.len() as u64) {
        return Err(refused_in(attributes, A::HSS_LEVELS, CONFLICT, Error::TemplateInconsistent));
    }
    let number = |number: u64| u32::try_from(number).map_err(|_| Error::AttributeValueInvalid);
    lms.iter().zip(ots).map(|(lms, ots)| Ok(HssType { lms: number(*lms)?, ots: number(*ots)? })).collect()
}

fn put_hss_private(attributes: &mut Attributes, _: &PublicParts, parts: PrivateParts) -> Result<()> {
    let PrivateParts::Hss { key, .. } = parts else { return Err(Error::KeyTypeInconsistent) };
    attributes.put(A::VALUE, Value::Bytes(key));
    attributes.put(A::JETON_NEXT_KEY, Value::Number(0));
    Ok(())
}

/// Returns the number of one-time keys that an HSS key has left; `None` for another object.
pub(crate) fn one_time_keys_left(attributes: &Attributes) -> Option<u64> {
    let next = attributes.number(A::JETON_NEXT_KEY)?;
    Some(hss_uses(&hss_types(attributes).ok()?).ok()?.saturating_sub(next))
}

/// The key names its parameter set. Fails with `TemplateInconsistent` if the template names another
/// one.
fn put_xmss(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    let key = parts.encoded().ok_or(Error::KeyTypeInconsistent)?;
    require(attributes.number(A::PARAMETER_SET) == Some(word(key, 0)?), Error::TemplateInconsistent)?;
    put_same(attributes, A::VALUE, key)
}

/// Returns the number of 4 bytes at this place of a key.
fn word(key: &[u8], at: usize) -> Result<u64> {
    let bytes = key.get(at..at + 4).ok_or(Error::AttributeValueInvalid)?;
    Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
