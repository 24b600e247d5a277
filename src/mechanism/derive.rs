//! Key derivation from keys (PKCS#11 3.2, "HKDF mechanisms", "Miscellaneous simple key derivation
//! mechanisms", "Key derivation by data encryption", "Hash-based Key Derivation").

use super::{Action, Derivation, MechanismRow, Shape};
use crate::backend::{CipherMode, Hash};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DERIVE, GENERATE};

pub(super) const ROWS: &[MechanismRow] = &[
    derives(M::HKDF_DERIVE, Shape::Hkdf, Derivation::Hkdf),
    derives(M::HKDF_DATA, Shape::Hkdf, Derivation::HkdfData),
    MechanismRow {
        id: M::HKDF_KEY_GEN,
        flags: GENERATE,
        sizes: (1, 4096),
        key_type: Some(KeyType::HKDF),
        shape: Shape::None,
        action: Action::Generate,
        ..MechanismRow::BASE
    },
    derives(M::CONCATENATE_BASE_AND_KEY, Shape::Key, Derivation::ConcatenateBaseAndKey),
    derives(M::CONCATENATE_BASE_AND_DATA, Shape::Data, Derivation::ConcatenateBaseAndData),
    derives(M::CONCATENATE_DATA_AND_BASE, Shape::Data, Derivation::ConcatenateDataAndBase),
    derives(M::XOR_BASE_AND_DATA, Shape::Data, Derivation::XorBaseAndData),
    derives(M::EXTRACT_KEY_FROM_KEY, Shape::Bit, Derivation::ExtractKeyFromKey),
    // PKCS#11 3.2, "Public key from private key": it accepts every private key type.
    MechanismRow { sizes: (0, 0), ..derives(M::PUB_KEY_FROM_PRIV_KEY, Shape::None, Derivation::PublicKey) },
    aes(M::AES_ECB_ENCRYPT_DATA, Shape::Data, Derivation::EncryptData(CipherMode::AesEcb)),
    aes(M::AES_CBC_ENCRYPT_DATA, Shape::CbcData, Derivation::EncryptData(CipherMode::AesCbc)),
    derives(M::SHA1_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha1)),
    derives(M::SHA224_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha224)),
    derives(M::SHA256_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha256)),
    derives(M::SHA384_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha384)),
    derives(M::SHA512_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha512)),
    derives(M::SHA512_224_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha512_224)),
    derives(M::SHA512_256_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha512_256)),
    derives(M::SHA3_224_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha3_224)),
    derives(M::SHA3_256_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha3_256)),
    derives(M::SHA3_384_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha3_384)),
    derives(M::SHA3_512_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Sha3_512)),
    derives(M::BLAKE2B_160_KEY_DERIVE, Shape::None, Derivation::HashOfKey(Hash::Blake2b160)),
    derives(M::BLAKE2B_256_KEY_DERIVE, Shape::None, Derivation::HashOfKey(Hash::Blake2b256)),
    derives(M::BLAKE2B_384_KEY_DERIVE, Shape::None, Derivation::HashOfKey(Hash::Blake2b384)),
    derives(M::BLAKE2B_512_KEY_DERIVE, Shape::None, Derivation::HashOfKey(Hash::Blake2b512)),
    derives(M::SHAKE_128_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Shake128)),
    derives(M::SHAKE_256_KEY_DERIVATION, Shape::None, Derivation::HashOfKey(Hash::Shake256)),
];

/// Builds the row of a mechanism that is not limited to one key type.
const fn derives(id: M, shape: Shape, derivation: Derivation) -> MechanismRow {
    MechanismRow {
        id,
        flags: DERIVE,
        sizes: (1, 4096),
        key_type: None,
        shape,
        action: Action::Derive(derivation),
        ..MechanismRow::BASE
    }
}

const fn aes(id: M, shape: Shape, derivation: Derivation) -> MechanismRow {
    MechanismRow {
        id,
        flags: DERIVE,
        sizes: (16, 32),
        key_type: Some(KeyType::AES),
        shape,
        action: Action::Derive(derivation),
        ..MechanismRow::BASE
    }
}
