//! Message digests (PKCS#11 3.2, "Digests").

use super::flow::{Flow, KeyFlow};
use super::{Action, MechanismRow};
use crate::backend::Hash;
use crate::id::MechanismType;
use crate::id::mechanism_flag::DIGEST;

pub(super) const ROWS: &[MechanismRow] = &[
    digests(MechanismType::SHA_1, Hash::Sha1),
    digests(MechanismType::SHA224, Hash::Sha224),
    digests(MechanismType::SHA256, Hash::Sha256),
    digests(MechanismType::SHA384, Hash::Sha384),
    digests(MechanismType::SHA512, Hash::Sha512),
    digests(MechanismType::SHA512_224, Hash::Sha512_224),
    digests(MechanismType::SHA512_256, Hash::Sha512_256),
    digests(MechanismType::SHA3_224, Hash::Sha3_224),
    digests(MechanismType::SHA3_256, Hash::Sha3_256),
    digests(MechanismType::SHA3_384, Hash::Sha3_384),
    digests(MechanismType::SHA3_512, Hash::Sha3_512),
    digests(MechanismType::BLAKE2B_160, Hash::Blake2b160),
    digests(MechanismType::BLAKE2B_256, Hash::Blake2b256),
    digests(MechanismType::BLAKE2B_384, Hash::Blake2b384),
    digests(MechanismType::BLAKE2B_512, Hash::Blake2b512),
];

const fn digests(id: MechanismType, hash: Hash) -> MechanismRow {
    MechanismRow {
        id,
        flags: DIGEST,
        flow: KeyFlow::Digests(Flow::Mixed),
        action: Action::Digest(hash),
        ..MechanismRow::BASE
    }
}
