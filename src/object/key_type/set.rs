//! Keys with a parameter set: ML-DSA, ML-KEM and SLH-DSA. `CKA_PARAMETER_SET` numbers the sets of
//! an algorithm from 1, in the order of its `ALL`.

use der::asn1::{ContextSpecific, ObjectIdentifier, OctetStringRef};
use der::{Reader, Sequence, SliceReader, Tag, TagMode, TagNumber};
use jeton_secret::{Secret, with_wiped_frame};
use pkcs8::PrivateKeyInfoRef;

use super::encoding::{decoded, encoded, invalid, octets, part};
use super::{Decoded, Encoded, KeyTypeRow};
use crate::backend::{MlDsa, MlKem, PairSpec, PrivateParts, Provider, PublicParts, SlhDsa};
use crate::error::{Error, Result};
use crate::id::AttributeType as A;
use crate::object::Attributes;
use crate::object::required::{CONFLICT, CREATING, put_same, refused, refused_in};
use crate::object::rule::{Need, ObjectTypes, Rule, fixed, hidden, made};
use crate::object::value::{Kind, Value};

pub(super) const BASE: KeyTypeRow = KeyTypeRow {
    size: A::PARAMETER_SET,
    put_public: |attributes, parts| {
        put_same(attributes, A::VALUE, parts.encoded().ok_or(Error::KeyTypeInconsistent)?)
    },
    place: |attributes| {
        let number = attributes.number(A::PARAMETER_SET).and_then(|number| usize::try_from(number).ok());
        number.and_then(|number| number.checked_sub(1)).ok_or(Error::GeneralError)
    },
    put_private,
    encode_public: |_, parts| Ok((None, parts.encoded().ok_or(Error::KeyTypeInconsistent)?.into())),
    encode_private,
    decode_private,
    ..KeyTypeRow::BASE
};

/// Returns the object identifiers 2.16.840.1.101.3.4.FAMILY.NUMBER of algorithms of NIST.
pub(super) const fn nist<const N: usize>(family: u32, numbers: [u32; N]) -> [ObjectIdentifier; N] {
    let (mut identifiers, mut at) = ([ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4"); N], 0);
    while at < N {
        let Ok(parent) = identifiers[at].push_arc(family) else { panic!() };
        let Ok(identifier) = parent.push_arc(numbers[at]) else { panic!() };
        (identifiers[at], at) = (identifier, at + 1);
    }
    identifiers
}

/// Returns the parameter set of a key.
pub(crate) fn named<S: Copy>(attributes: &Attributes, all: &[S]) -> Result<S> {
    let number = attributes.number(A::PARAMETER_SET).ok_or(Error::TemplateIncomplete)?;
    let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    at.and_then(|at| all.get(at)).copied().ok_or(Error::AttributeValueInvalid)
}

fn number<S: PartialEq>(all: &[S], set: S) -> u64 {
    all.iter().take_while(|known| **known != set).count() as u64 + 1
}

/// Returns the rules of keys that can be expanded from a seed. PKCS#11 3.2, "ML-DSA private key
/// objects", "ML-KEM private key objects": C_CreateObject needs the seed, the value or both.
pub(super) const fn seeded(public: ObjectTypes, private: ObjectTypes) -> [Rule; 5] {
    let [set, key, private_set, _] = rules(public, private);
    let value = hidden(A::VALUE, Kind::Bytes, private, Need::May);
    [set, key, private_set, value, hidden(A::SEED, Kind::Bytes, private, Need::May)]
}

/// Returns the rules of the other keys.
pub(super) const fn rules(public: ObjectTypes, private: ObjectTypes) -> [Rule; 4] {
    [
        fixed(A::PARAMETER_SET, Kind::Number, public, Need::Must, Need::Must),
        made(A::VALUE, Kind::Bytes, public),
        made(A::PARAMETER_SET, Kind::Number, private),
        hidden(A::VALUE, Kind::Bytes, private, Need::Must),
    ]
}

/// Sets the parameter set of a generated key. Fails with `TemplateInconsistent` if the template has
/// another one.
pub(super) fn put_set(attributes: &mut Attributes, number: u64) -> Result<()> {
    if attributes.number(A::PARAMETER_SET).is_some_and(|given| given != number) {
        return Err(refused_in(attributes, A::PARAMETER_SET, CONFLICT, Error::TemplateInconsistent));
    }
    attributes.put(A::PARAMETER_SET, Value::Number(number));
    Ok(())
}

fn put_private(attributes: &mut Attributes, _: &PublicParts, parts: PrivateParts) -> Result<()> {
    let (number, seed, key) = match parts {
        PrivateParts::MlDsa { set, seed, key } => (number(&MlDsa::ALL, set), seed, key),
        PrivateParts::MlKem { set, seed, key } => (number(&MlKem::ALL, set), seed, key),
        PrivateParts::SlhDsa { set, key } => (number(&SlhDsa::ALL, set), None, key),
        _ => return Err(Error::KeyTypeInconsistent),
    };
    put_set(attributes, number)?;
    attributes.put(A::VALUE, Value::Bytes(key));
    if let Some(seed) = seed {
        attributes.put(A::SEED, Value::Bytes(seed));
    }
    Ok(())
}

/// Computes a private key from its seed. PKCS#11 3.2, "ML-DSA private key objects", "ML-KEM private
/// key objects": a seed alone is enough. If the template has seed and value, they must agree.
pub(super) fn expand_seed(
    attributes: &mut Attributes,
    provider: &Provider,
    len: usize,
    spec: for<'s> fn(&Attributes, Option<&'s Secret>) -> Result<PairSpec<'s>>,
) -> Result<()> {
    let Some(seed) = attributes.bytes(A::SEED).map(Secret::from) else {
        let missing = || refused(A::VALUE, None, CREATING, Error::TemplateIncomplete);
        return if attributes.has(A::VALUE) { Ok(()) } else { Err(missing()) };
    };
    let spec = spec(attributes, Some(&seed))?;
    if seed.len() != len {
        return Err(refused_in(attributes, A::SEED, CREATING, Error::AttributeValueInvalid));
    }
    let (PrivateParts::MlDsa { key, .. } | PrivateParts::MlKem { key, .. }) =
        with_wiped_frame(|| provider.keys.generate(&spec))?.1
    else {
        return Err(Error::GeneralError);
    };
    match attributes.bytes(A::VALUE) {
        Some(given) if *given != key[..] => {
            Err(refused_in(attributes, A::VALUE, CONFLICT, Error::TemplateInconsistent))
        }
        _ => {
            attributes.put(A::VALUE, Value::Bytes(key));
            Ok(())
        }
    }
}

/// The seed and the expanded key of ML-DSA and ML-KEM: the choice `both` of RFC 9881 and RFC 9935.
#[derive(Sequence)]
struct Both<'a> {
    seed: &'a OctetStringRef,
    expanded: &'a OctetStringRef,
}

/// Encodes a private key as an ASN.1 choice: the expanded key, or the seed and the expanded key.
fn encode_private(attributes: &Attributes, _: &Provider) -> Result<Encoded> {
    let expanded = octets(part(attributes, A::VALUE)?)?;
    let key = match attributes.bytes(A::SEED) {
        Some(seed) => encoded(&Both { seed: octets(seed)?, expanded })?,
        None => encoded(&expanded)?,
    };
    Ok((None, key))
}

/// Decodes a private key that is an ASN.1 choice of seed, expanded key, or both. `place` is the
/// index of its parameter set.
fn decode_private(info: &PrivateKeyInfoRef<'_>, place: usize) -> Result<Decoded> {
    let key = info.private_key.as_bytes();
    let tag = Tag::peek(&SliceReader::new(key).map_err(invalid)?).map_err(invalid)?;
    let (seed, expanded) = match tag {
        Tag::Sequence => {
            let both: Both<'_> = decoded(key)?;
            (Some(both.seed), Some(both.expanded))
        }
        Tag::OctetString => (None, Some(decoded::<&OctetStringRef>(key)?)),
        _ => (Some(bare_seed(key)?), None),
    };
    let put = |id, octets: &OctetStringRef| (id, Value::Bytes(octets.as_bytes().into()));
    let mut attributes = vec![(A::PARAMETER_SET, Value::Number(place as u64 + 1))];
    attributes.extend(seed.map(|seed| put(A::SEED, seed)));
    attributes.extend(expanded.map(|expanded| put(A::VALUE, expanded)));
    Ok(attributes)
}

/// Decodes `seed [0] IMPLICIT OCTET STRING`.
fn bare_seed(key: &[u8]) -> Result<&OctetStringRef> {
    let mut reader = SliceReader::new(key).map_err(invalid)?;
    let seed =
        ContextSpecific::<&OctetStringRef>::decode_implicit(&mut reader, TagNumber(0)).map_err(invalid)?;
    match seed {
        Some(seed) if reader.is_finished() && seed.tag_mode == TagMode::Implicit => Ok(seed.value),
        _ => Err(Error::WrappedKeyInvalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::value::*;

    #[test]
    fn parameter_sets_have_the_numbers_of_the_specification() {
        assert_eq!(MlDsa::ALL.map(|set| number(&MlDsa::ALL, set)), [ML_DSA_44, ML_DSA_65, ML_DSA_87]);
        assert_eq!(MlKem::ALL.map(|set| number(&MlKem::ALL, set)), [ML_KEM_512, ML_KEM_768, ML_KEM_1024]);
        let sets = [SlhDsa::Sha2_128s, SlhDsa::Shake192f, SlhDsa::Shake256f];
        let numbers = [SLH_DSA_SHA2_128S, SLH_DSA_SHAKE_192F, SLH_DSA_SHAKE_256F];
        assert_eq!(sets.map(|set| number(&SlhDsa::ALL, set)), numbers);
    }
}
