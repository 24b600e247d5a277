//! The key types: one row per key type, and one file per family, as in `mechanism/`. A row names
//! the object types of a key type. It converts between the attributes of its objects, the parts
//! that a backend takes, and DER. It also checks the keys that callers supply.
//!
//! A new key type is a row in a family, and a new family is a line in [`FAMILIES`].

use der::asn1::ObjectIdentifier;
use jeton_secret::Secret;
use pkcs8::PrivateKeyInfoRef;

use super::Attributes;
use super::required::key_type;
use super::rule::{ObjectTypes, Rule};
use super::value::Value;
use crate::backend::{CipherScheme, PairSpec, PrivateParts, Provider, PublicParts};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::mechanism::curve::NamedCurve;
use crate::mechanism::rule::Structure;

mod composite;
mod dh;
pub(crate) mod ec;
pub(super) mod encoding;
mod hotp;
mod ml_dsa;
mod ml_kem;
pub(crate) mod rsa;
mod secret;
pub(crate) mod set;
mod share;
mod slh_dsa;
pub(crate) mod stateful;

pub(super) const FAMILIES: &[Family] = &[
    rsa::FAMILY,
    ec::FAMILY,
    ml_dsa::FAMILY,
    composite::FAMILY,
    ml_kem::FAMILY,
    slh_dsa::FAMILY,
    stateful::FAMILY,
    secret::FAMILY,
    dh::FAMILY,
    hotp::FAMILY,
    share::FAMILY,
];

/// Key types that have a file in common, and the rules of the attributes that only they have.
pub(super) struct Family {
    pub(super) rows: &'static [KeyTypeRow],
    pub(super) rules: &'static [Rule],
}

/// A key as DER: the parameters of its algorithm, and the content of the string that holds the key.
pub(super) type Encoded = (Option<Secret>, Secret);
/// The attributes of a decoded key, without `CKA_KEY_TYPE`.
pub(super) type Decoded = Vec<(A, Value)>;

pub(crate) struct KeyTypeRow {
    /// Its `CKK_*` number.
    pub(super) key_type: KeyType,
    // Its objects, by their class.
    pub(super) public: ObjectTypes,
    pub(super) private: ObjectTypes,
    pub(super) secret: ObjectTypes,
    pub(super) otp: ObjectTypes,
    pub(super) parameters: ObjectTypes,
    /// The usage attributes that are true by default.
    pub(crate) uses: &'static [A],
    /// The attribute that says the size, the curve or the parameter set of a new key.
    pub(crate) size: A,
    /// Reads from the templates of `C_GenerateKeyPair` what pair to generate.
    pub(super) pair_spec: for<'a> fn(&'a Attributes, &Attributes) -> Result<PairSpec<'a>>,
    pub(super) public_parts: fn(&Attributes) -> Result<PublicParts>,
    pub(super) private_parts: fn(&Attributes) -> Result<PrivateParts>,
    /// Whether a private key object has all attributes that `public_parts` reads.
    pub(super) has_public_half: bool,
    /// Sets the attributes that hold a public key. Fails with `TemplateInconsistent` if the
    /// template has other values for them.
    pub(super) put_public: fn(&mut Attributes, &PublicParts) -> Result<()>,
    /// Sets the attributes that hold a private key, and those of the public key that a private key
    /// object also has.
    pub(super) put_private: fn(&mut Attributes, &PublicParts, PrivateParts) -> Result<()>,
    /// Checks and normalises the attributes of a created key, before a backend parses the key.
    pub(super) prepare: fn(&mut Attributes, &Provider) -> Result<()>,
    /// Normalises the attributes of a created private key, after a backend accepted it.
    pub(super) normalise: fn(&mut Attributes, PrivateParts) -> Result<()>,
    /// The object identifiers of its keys, one for each curve or parameter set if these differ.
    pub(super) identifiers: &'static [ObjectIdentifier],
    /// Returns the index of a key's object identifier.
    pub(super) place: fn(&Attributes) -> Result<usize>,
    pub(super) encode_public: fn(&Attributes, &PublicParts) -> Result<Encoded>,
    /// Encodes a private key for PKCS #8. Fails with `KeyNotWrappable` if the object lacks a part
    /// of the encoding.
    pub(super) encode_private: fn(&Attributes, &Provider) -> Result<Encoded>,
    /// Decodes a private key in PKCS #8. The number is the index of its object identifier. Fails
    /// with `WrappedKeyInvalid` if the DER is invalid.
    pub(super) decode_private: fn(&PrivateKeyInfoRef<'_>, usize) -> Result<Decoded>,
    /// Generates domain parameters with a prime of this size in bits, and sets them.
    pub(super) generate_parameters: fn(&mut Attributes, usize, &Provider) -> Result<()>,
    pub(super) check_parameters: fn(&mut Attributes, &Provider) -> Result<()>,
    /// Returns whether a secret key may have this number of bytes.
    pub(super) len_fits: fn(usize) -> bool,
    /// How the mechanisms of secret keys read them.
    pub(super) structure: Structure,
    /// Whether the token counts what each private or secret key of this type does.
    pub(super) counts: bool,
    /// Changes random or derived bytes so that they are a secret key.
    pub(super) form: fn(&mut [u8]),
    /// Checks a secret key. Its value may be absent.
    pub(super) check_secret: fn(&mut Attributes) -> Result<()>,
    /// The cipher that computes `CKA_CHECK_VALUE`, and its block length. Without one, the check
    /// value is a digest.
    pub(super) check_cipher: Option<fn() -> (CipherScheme, usize)>,
    /// Fails if the policy *strict* does not allow a key of this size.
    pub(super) check_strict: fn(&Attributes) -> Result<()>,
    /// See [`limited`]. Of a composite key, this is its traditional component.
    limited: fn(&Attributes) -> Result<Option<Limited>>,
}

/// The size or the curve of a key, which `[mechanisms]` limits.
pub(crate) enum Limited {
    /// The size of an RSA modulus.
    RsaBits(u64),
    /// The curve.
    Curve(&'static NamedCurve),
}

impl KeyTypeRow {
    /// A row without a function, and the row of unknown key types. The other rows set only some
    /// columns.
    const BASE: Self = Self {
        key_type: KeyType(u64::MAX),
        public: ObjectTypes::NONE,
        private: ObjectTypes::NONE,
        secret: ObjectTypes::NONE,
        otp: ObjectTypes::NONE,
        parameters: ObjectTypes::NONE,
        uses: &[],
        size: A::VALUE_LEN,
        pair_spec: |_, _| Err(Error::MechanismInvalid),
        public_parts: |_| Err(Error::KeyTypeInconsistent),
        private_parts: |_| Err(Error::KeyTypeInconsistent),
        has_public_half: false,
        put_public: |_, _| Err(Error::KeyTypeInconsistent),
        put_private: |_, _, _| Err(Error::KeyTypeInconsistent),
        prepare: |_, _| Ok(()),
        normalise: |_, _| Ok(()),
        identifiers: &[],
        place: |_| Ok(0),
        encode_public: |_, _| Err(Error::KeyTypeInconsistent),
        encode_private: |_, _| Err(Error::GeneralError),
        decode_private: |_, _| Err(Error::WrappedKeyInvalid),
        generate_parameters: |_, _, _| Err(Error::MechanismInvalid),
        check_parameters: |_, _| Err(Error::KeyTypeInconsistent),
        len_fits: |_| false,
        // The strictest one, so that a new row of a secret key has to name its own.
        structure: Structure::PartsWithParity(1),
        counts: false,
        form: |_| {},
        check_secret: |_| Ok(()),
        check_cipher: None,
        check_strict: |_| Ok(()),
        limited: |_| Ok(None),
    };

    pub(super) fn of(key_type: KeyType) -> &'static Self {
        /// The numbers of the standard are below. Those of Jeton have the places from here.
        const OWN: usize = 0x50;
        const fn place(key_type: KeyType) -> usize {
            match key_type {
                KeyType::JETON_COMPOSITE_ML_DSA => OWN,
                KeyType::JETON_SHARE => OWN + 1,
                KeyType(number) => number as usize,
            }
        }
        static BY_NUMBER: [&KeyTypeRow; OWN + 2] = {
            let (mut rows, mut at) = ([&KeyTypeRow::BASE; OWN + 2], 0);
            while at < ROWS.len() {
                rows[place(ROWS[at].key_type)] = ROWS[at];
                at += 1;
            }
            rows
        };
        let row = BY_NUMBER.get(place(key_type)).filter(|row| row.key_type == key_type);
        row.copied().unwrap_or(&Self::BASE)
    }

    /// Returns the row of an object's key type. Fails with `TemplateIncomplete` if the object has
    /// none.
    pub(super) fn of_object(attributes: &Attributes) -> Result<&'static Self> {
        key_type(attributes).map(Self::of)
    }

    /// Returns the row of a key in DER, and the index of the identifier.
    pub(super) fn identified(identifier: ObjectIdentifier) -> Option<(&'static Self, usize)> {
        ROWS.iter().find_map(|row| {
            let at = row.identifiers.iter().position(|known| *known == identifier)?;
            Some((*row, at))
        })
    }

    /// Returns the object type of a class; an empty set if this key type does not have the class.
    pub(super) const fn object(&self, class: ObjectClass) -> ObjectTypes {
        match class {
            ObjectClass::PUBLIC_KEY => self.public,
            ObjectClass::PRIVATE_KEY => self.private,
            ObjectClass::SECRET_KEY => self.secret,
            ObjectClass::OTP_KEY => self.otp,
            ObjectClass::DOMAIN_PARAMETERS => self.parameters,
            _ => ObjectTypes::NONE,
        }
    }
}

/// Returns the size or the curve that `[mechanisms]` limits in an object. `None` if it is not a
/// key, or a request without a size.
pub(crate) fn limited(attributes: &Attributes) -> Result<Option<Limited>> {
    match attributes.object_type() {
        Some(object_type) if object_type.is_key() => (KeyTypeRow::of_object(attributes)?.limited)(attributes),
        _ => Ok(None),
    }
}

pub(super) const CLASSES: [ObjectClass; 5] = [
    ObjectClass::PUBLIC_KEY,
    ObjectClass::PRIVATE_KEY,
    ObjectClass::SECRET_KEY,
    ObjectClass::OTP_KEY,
    ObjectClass::DOMAIN_PARAMETERS,
];

pub(super) const ROWS: [&KeyTypeRow; count()] = {
    let (mut rows, mut at, mut family) = ([&KeyTypeRow::BASE; count()], 0, 0);
    while family < FAMILIES.len() {
        let mut row = 0;
        while row < FAMILIES[family].rows.len() {
            rows[at] = &FAMILIES[family].rows[row];
            (at, row) = (at + 1, row + 1);
        }
        family += 1;
    }
    rows
};

const fn count() -> usize {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].rows.len();
        family += 1;
    }
    count
}

pub(super) const fn of_class(class: ObjectClass) -> ObjectTypes {
    let (mut all, mut at) = (ObjectTypes::NONE, 0);
    while at < ROWS.len() {
        all = all.or(ROWS[at].object(class));
        at += 1;
    }
    all
}

/// Returns the private and secret keys that count what they do.
pub(super) const fn counted() -> ObjectTypes {
    let (mut all, mut at) = (ObjectTypes::NONE, 0);
    while at < ROWS.len() {
        let row = ROWS[at];
        if row.counts {
            all = all.or(row.private).or(row.secret).or(row.otp);
        }
        at += 1;
    }
    all
}

pub(super) const fn with_use(usage: A) -> ObjectTypes {
    let (mut all, mut at) = (ObjectTypes::NONE, 0);
    while at < ROWS.len() {
        let (row, mut place) = (ROWS[at], 0);
        while place < row.uses.len() {
            if row.uses[place].0 == usage.0 {
                all = all.or(row.public).or(row.private).or(row.secret).or(row.otp);
            }
            place += 1;
        }
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_type_with_parity_changes_the_bytes_of_a_key() {
        for row in ROWS {
            for len in (1..=64).filter(|len| (row.len_fits)(*len)) {
                let mut bytes = vec![0; len];
                (row.form)(&mut bytes);
                let changes = bytes.iter().any(|byte| *byte != 0);
                let with_parity = matches!(row.structure, Structure::PartsWithParity(_));
                assert_eq!(changes, with_parity, "{}", row.key_type);
            }
        }
    }

    #[test]
    fn the_parts_of_a_key_have_the_same_length() {
        for row in ROWS {
            if let Structure::Parts(parts) | Structure::PartsWithParity(parts) = row.structure {
                assert!((1..=64).filter(|len| (row.len_fits)(*len)).all(|len| len % parts == 0));
            }
        }
    }
}
