//! Message digests (PKCS#11 3.2, "Digests").

use super::flow::{Flow, KeyFlow};
use super::row::hash_of;
use super::{Action, MechanismRow};
use crate::id::MechanismType;
use crate::id::mechanism_flag::DIGEST;

pub(super) const ROWS: &[MechanismRow] = &[
    digests(MechanismType::SHA_1),
    digests(MechanismType::SHA224),
    digests(MechanismType::SHA256),
    digests(MechanismType::SHA384),
    digests(MechanismType::SHA512),
    digests(MechanismType::SHA512_224),
    digests(MechanismType::SHA512_256),
    digests(MechanismType::SHA3_224),
    digests(MechanismType::SHA3_256),
    digests(MechanismType::SHA3_384),
    digests(MechanismType::SHA3_512),
    digests(MechanismType::BLAKE2B_160),
    digests(MechanismType::BLAKE2B_256),
    digests(MechanismType::BLAKE2B_384),
    digests(MechanismType::BLAKE2B_512),
];

const fn digests(id: MechanismType) -> MechanismRow {
    MechanismRow {
        id,
        flags: DIGEST,
        flow: KeyFlow::Digests(Flow::Mixed),
        action: Action::Digest(hash_of(id)),
        ..MechanismRow::BASE
    }
}
