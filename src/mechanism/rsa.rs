//! RSA (PKCS#11 3.2, "RSA").

use super::flow::{KeyFlow, Wrapping};
use super::{Action, Asymmetric, MechanismRow, Primitive, Wraps};
use crate::backend::Hash;
use crate::id::mechanism_flag::{
    DECAPSULATE, DECRYPT, ENCAPSULATE, ENCRYPT, SIGN_RECOVER, UNWRAP, VERIFY_RECOVER, WRAP,
};
use crate::id::{KeyType, MechanismType as M};

/// Sizes in bits of a modulus that the backends use.
const BITS: (u64, u64) = (1024, 16384);
/// Sizes in bits of a modulus that the backends generate.
const GENERATED_BITS: (u64, u64) = (1024, 8192);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::GeneratePair, M::RSA_PKCS_KEY_PAIR_GEN, KeyType::RSA, GENERATED_BITS),
    both(M::RSA_X_509, Primitive::RsaRaw, Wraps::SecretAfterZeros, Wrapping::Unauthenticated),
    // CKM_RSA_X_509 does not encapsulate: it would encrypt a key without padding.
    both(M::RSA_PKCS, Primitive::RsaPkcs1, Wraps::Secret, Wrapping::PublicKey)
        .also(ENCAPSULATE | DECAPSULATE),
    MechanismRow {
        wraps: Wraps::Secret,
        ..encrypts(M::RSA_PKCS_OAEP, ENCRYPT | DECRYPT | WRAP | UNWRAP, Asymmetric::Oaep)
    }
    .also(ENCAPSULATE | DECAPSULATE),
    MechanismRow {
        wraps: Wraps::Any,
        flow: KeyFlow::Wraps(Wrapping::Hybrid),
        ..encrypts(M::RSA_AES_KEY_WRAP, WRAP | UNWRAP, Asymmetric::AesWrap)
    },
    signs(M::SHA1_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha1)),
    signs(M::SHA224_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha224)),
    signs(M::SHA256_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha256)),
    signs(M::SHA384_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha384)),
    signs(M::SHA512_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha512)),
    signs(M::SHA3_224_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha3_224)),
    signs(M::SHA3_256_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha3_256)),
    signs(M::SHA3_384_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha3_384)),
    signs(M::SHA3_512_RSA_PKCS, Primitive::RsaPkcs1, Some(Hash::Sha3_512)),
    signs(M::RSA_PKCS_PSS, Primitive::RsaPss, None),
    signs(M::SHA1_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha1)),
    signs(M::SHA224_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha224)),
    signs(M::SHA256_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha256)),
    signs(M::SHA384_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha384)),
    signs(M::SHA512_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha512)),
    signs(M::SHA3_224_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha3_224)),
    signs(M::SHA3_256_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha3_256)),
    signs(M::SHA3_384_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha3_384)),
    signs(M::SHA3_512_RSA_PKCS_PSS, Primitive::RsaPss, Some(Hash::Sha3_512)),
];

const fn signs(id: M, primitive: Primitive, hash: Option<Hash>) -> MechanismRow {
    MechanismRow::signs(id, KeyType::RSA, BITS, Action::Sign(primitive, hash))
}

/// Builds the row of a mechanism that signs and encrypts.
const fn both(id: M, primitive: Primitive, wraps: Wraps, wrapping: Wrapping) -> MechanismRow {
    let row = signs(id, primitive, None);
    let more = ENCRYPT | DECRYPT | WRAP | UNWRAP | SIGN_RECOVER | VERIFY_RECOVER;
    MechanismRow { flags: row.flags | more, wraps, flow: KeyFlow::Wraps(wrapping), ..row }
}

const fn encrypts(id: M, flags: u64, scheme: Asymmetric) -> MechanismRow {
    MechanismRow {
        id,
        flags,
        sizes: BITS,
        key_type: Some(KeyType::RSA),
        flow: KeyFlow::Wraps(Wrapping::PublicKey),
        action: Action::Encrypt(scheme),
        ..MechanismRow::BASE
    }
}
