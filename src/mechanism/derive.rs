//! Generic secret keys, and key derivation from keys (PKCS#11 3.2, "Generic secret key", "HKDF
//! mechanisms", "Miscellaneous simple key derivation mechanisms", "Key derivation by data
//! encryption", "Hash-based Key Derivation").

use super::flow::{Extent, Flow, Inputs, Output, Protection, Sizes};
use super::{Action, Derivation, HkdfSalt, MechanismRow, Params};
use crate::backend::{CipherMode, Hash};
use crate::id::{KeyType, MechanismType as M};

/// The shortest block in bytes of a hash function of HMAC.
const SHORTEST_BLOCK: usize = 64;

/// PKCS#11 3.2, "Generic secret key generation": sizes are in bits.
const SECRET_BITS: (u64, u64) = (8, 32768);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(
        Action::Generate,
        M::GENERIC_SECRET_KEY_GEN,
        KeyType::GENERIC_SECRET,
        SECRET_BITS,
    ),
    derives(M::HKDF_DERIVE, Derivation::Hkdf, hkdf),
    derives(M::HKDF_DATA, Derivation::HkdfData, |params, sizes| Inputs {
        output: Output::Visible,
        ..hkdf(params, sizes)
    }),
    MechanismRow::generates(Action::Generate, M::HKDF_KEY_GEN, KeyType::HKDF, (1, 4096)),
    derives(M::CONCATENATE_BASE_AND_KEY, Derivation::ConcatenateBaseAndKey, joins),
    derives(M::CONCATENATE_BASE_AND_DATA, Derivation::ConcatenateBaseAndData, joins),
    derives(M::CONCATENATE_DATA_AND_BASE, Derivation::ConcatenateDataAndBase, joins),
    derives(M::XOR_BASE_AND_DATA, Derivation::XorBaseAndData, masks),
    derives(M::EXTRACT_KEY_FROM_KEY, Derivation::ExtractKeyFromKey, extracts),
    // PKCS#11 3.2, "Public key from private key": it accepts every private key type.
    MechanismRow { sizes: (0, 0), ..derives(M::PUB_KEY_FROM_PRIV_KEY, Derivation::PublicKey, hides) },
    aes(M::AES_ECB_ENCRYPT_DATA, Derivation::EncryptData(CipherMode::AesEcb)),
    aes(M::AES_CBC_ENCRYPT_DATA, Derivation::EncryptData(CipherMode::AesCbc)),
    derives(M::SHA1_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha1), digests),
    derives(M::SHA224_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha224), digests),
    derives(M::SHA256_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha256), digests),
    derives(M::SHA384_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha384), digests),
    derives(M::SHA512_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha512), digests),
    derives(M::SHA512_224_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha512_224), digests),
    derives(M::SHA512_256_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha512_256), digests),
    derives(M::SHA3_224_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha3_224), digests),
    derives(M::SHA3_256_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha3_256), digests),
    derives(M::SHA3_384_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha3_384), digests),
    derives(M::SHA3_512_KEY_DERIVATION, Derivation::HashOfKey(Hash::Sha3_512), digests),
    derives(M::BLAKE2B_160_KEY_DERIVE, Derivation::HashOfKey(Hash::Blake2b160), digests),
    derives(M::BLAKE2B_256_KEY_DERIVE, Derivation::HashOfKey(Hash::Blake2b256), digests),
    derives(M::BLAKE2B_384_KEY_DERIVE, Derivation::HashOfKey(Hash::Blake2b384), digests),
    derives(M::BLAKE2B_512_KEY_DERIVE, Derivation::HashOfKey(Hash::Blake2b512), digests),
    derives(M::SHAKE_128_KEY_DERIVATION, Derivation::HashOfKey(Hash::Shake128), digests),
    derives(M::SHAKE_256_KEY_DERIVATION, Derivation::HashOfKey(Hash::Shake256), digests),
];

/// Builds the row of a mechanism that is not limited to one key type.
const fn derives(id: M, derivation: Derivation, inputs: fn(&Params, Sizes) -> Inputs) -> MechanismRow {
    MechanismRow::derives(id, None, (1, 4096), inputs, derivation)
}

const fn aes(id: M, derivation: Derivation) -> MechanismRow {
    MechanismRow::derives(id, Some(KeyType::AES), (16, 32), hides, derivation)
}

/// A ciphertext under the key, or a public key.
fn hides(_: &Params, _: Sizes) -> Inputs {
    Inputs::ONE_WAY
}

/// A digest of the key. HMAC replaces a key that is longer than a block by its digest (RFC 2104,
/// 2), so the digest gives the same codes.
fn digests(_: &Params, sizes: Sizes) -> Inputs {
    let base = if sizes.base > SHORTEST_BLOCK { Flow::Step } else { Flow::OneWay };
    Inputs { base, ..Inputs::ONE_WAY }
}

/// HKDF reads the salt key and the base key each alone. It has two steps: the first gives a key, by
/// which the second computes codes. Without the expand step and with a salt
/// key, the result is the MAC of the base key under the salt key. If the caller could read it, they
/// could sign with a key that has `CKA_SIGN` false.
fn hkdf(params: &Params, _: Sizes) -> Inputs {
    let Params::Hkdf { extract, expand, hash, salt, .. } = params else { return Inputs::ONE_WAY };
    let is_mac = !*expand && matches!(salt, HkdfSalt::Key(_));
    let step = |is: bool| if is { Flow::Step } else { Flow::OneWay };
    Inputs {
        base: step(!*expand),
        named: step(*extract && *expand),
        extent: if *expand { Extent::Blocks(hash.len()) } else { Extent::Fixed },
        protection: if is_mac { Protection::Inherited } else { Protection::Chosen },
        ..Inputs::ONE_WAY
    }
}

fn joins(_: &Params, sizes: Sizes) -> Inputs {
    copies(sizes.whole(Flow::Joined, sizes.total))
}

fn masks(params: &Params, sizes: Sizes) -> Inputs {
    let whole = !matches!(params, Params::Data(data) if data.len() < sizes.base);
    copies(if whole { sizes.whole(Flow::Masked, sizes.base) } else { Flow::Part })
}

fn extracts(params: &Params, sizes: Sizes) -> Inputs {
    copies(match params {
        Params::Bit(0) => sizes.whole(Flow::Masked, sizes.base),
        _ => sizes.whole(Flow::Rotation, sizes.base),
    })
}

/// PKCS#11 3.2, "Miscellaneous simple key derivation mechanisms": the derived key is protected as
/// its base keys.
fn copies(flow: Flow) -> Inputs {
    Inputs { base: flow, named: flow, protection: Protection::Inherited, ..Inputs::ONE_WAY }
}
