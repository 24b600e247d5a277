//! Secret keys (PKCS#11 3.2, "Secret key objects").

use super::{Family, KeyTypeRow};
use crate::backend::{CipherScheme, des3};
use crate::config::strict::SECRET_LEN;
use crate::error::Error;
use crate::id::{AttributeType as A, KeyType};
use crate::mechanism::rule::Structure;
use crate::object::required::{refused_in, value};
use crate::object::rule::{Default, Need, ObjectTypes, fixed};
use crate::object::value::Kind;

const AES: ObjectTypes = ObjectTypes::member(20);
const GENERIC_SECRET: ObjectTypes = ObjectTypes::member(21);
const AES_XTS: ObjectTypes = ObjectTypes::member(22);
const CHACHA20: ObjectTypes = ObjectTypes::member(23);
const HKDF: ObjectTypes = ObjectTypes::member(24);
const HMAC: ObjectTypes = ObjectTypes::member(25);
const DES3: ObjectTypes = ObjectTypes::member(51);
const MANY_LENGTHS: ObjectTypes = AES.or(AES_XTS).or(GENERIC_SECRET).or(HKDF).or(HMAC);
const CIPHER: &[A] = &[A::ENCRYPT, A::DECRYPT, A::WRAP, A::UNWRAP];

pub(super) const FAMILY: Family = Family {
    rows: &[
        KeyTypeRow {
            uses: &[A::ENCRYPT, A::DECRYPT, A::WRAP, A::UNWRAP, A::SIGN, A::VERIFY],
            len_fits: |len| matches!(len, 16 | 24 | 32),
            check_cipher: Some(|| (CipherScheme::AesEcb, 16)),
            ..row(KeyType::AES, AES, Structure::Whole)
        },
        KeyTypeRow {
            uses: &[A::SIGN, A::VERIFY],
            ..row(KeyType::GENERIC_SECRET, GENERIC_SECRET, Structure::Whole)
        },
        KeyTypeRow {
            uses: CIPHER,
            len_fits: |len| matches!(len, 32 | 64),
            // The default mode of an XTS key is XTS.
            check_cipher: Some(|| (CipherScheme::AesXts { tweak: [0; 16] }, 16)),
            ..row(KeyType::AES_XTS, AES_XTS, Structure::Parts(2))
        },
        KeyTypeRow {
            uses: CIPHER,
            len_fits: |len| len == 32,
            ..row(KeyType::CHACHA20, CHACHA20, Structure::Whole)
        },
        KeyTypeRow {
            uses: CIPHER,
            len_fits: |len| len == des3::KEY,
            form: des3::set_parity,
            // PKCS#11 3.2, "DES3 secret key objects": the parity bits must be correct.
            check_secret: |attributes| match attributes.bytes(A::VALUE).is_none_or(des3::has_parity) {
                true => Ok(()),
                false => {
                    let clause = "DES3 secret key objects: the parity bits";
                    Err(refused_in(attributes, A::VALUE, clause, Error::AttributeValueInvalid))
                }
            },
            check_cipher: Some(|| (CipherScheme::Des3Ecb, 8)),
            ..row(KeyType::DES3, DES3, Structure::PartsWithParity(3))
        },
        row(KeyType::HKDF, HKDF, Structure::Whole),
        hmac(KeyType::SHA_1_HMAC),
        hmac(KeyType::SHA224_HMAC),
        hmac(KeyType::SHA256_HMAC),
        hmac(KeyType::SHA384_HMAC),
        hmac(KeyType::SHA512_HMAC),
        hmac(KeyType::SHA512_224_HMAC),
        hmac(KeyType::SHA512_256_HMAC),
        hmac(KeyType::SHA3_224_HMAC),
        hmac(KeyType::SHA3_256_HMAC),
        hmac(KeyType::SHA3_384_HMAC),
        hmac(KeyType::SHA3_512_HMAC),
        hmac(KeyType::BLAKE2B_160_HMAC),
        hmac(KeyType::BLAKE2B_256_HMAC),
        hmac(KeyType::BLAKE2B_384_HMAC),
        hmac(KeyType::BLAKE2B_512_HMAC),
    ],
    // A template contains the length, unless the key type has only one.
    rules: &[
        fixed(A::VALUE_LEN, Kind::Number, MANY_LENGTHS, Need::Never, Need::Must),
        fixed(A::VALUE_LEN, Kind::Number, CHACHA20, Need::Never, Need::May).or(Default::Number(32)),
        fixed(A::VALUE_LEN, Kind::Number, DES3, Need::Never, Need::May).or(Default::Number(24)),
    ],
};

/// The row of a secret key of any length.
pub(super) const BASE: KeyTypeRow = KeyTypeRow {
    len_fits: |len| len > 0,
    check_strict: |attributes| match value(attributes) {
        Ok(value) if value.len() >= SECRET_LEN => Ok(()),
        _ => Err(Error::KeySizeRange),
    },
    ..KeyTypeRow::BASE
};

const fn row(key_type: KeyType, secret: ObjectTypes, structure: Structure) -> KeyTypeRow {
    KeyTypeRow { key_type, secret, structure, ..BASE }
}

const fn hmac(key_type: KeyType) -> KeyTypeRow {
    KeyTypeRow { uses: &[A::SIGN, A::VERIFY], ..row(key_type, HMAC, Structure::Whole) }
}
