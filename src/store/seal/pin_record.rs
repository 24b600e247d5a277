//! The record of a PIN: the token key wrapped under it, with the parameters of the KDF.

use super::algorithms::PinCost;
use super::sealing_key::SealingId;
use crate::backend::{Hash, Provider};
use crate::config::PinRules;
use crate::error::{Error, Result};
use crate::store::Role;

pub(super) const SALT: usize = 16;
/// A wrapped token key with the parameters to unwrap it.
pub(super) struct PinRecord {
    pub(super) cost: PinCost,
    pub(super) salt: [u8; SALT],
    pub(super) wrapped: Vec<u8>,
    pub(super) sealing: Option<SealingId>,
}

impl PinRecord {
    /// Decodes a PIN record; `None` if it is malformed, or if the cost is out of range. If there is
    /// a sealing key, its ID is at the end.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let ((memory_kib, passes, salt, wrapped), rest) = postcard::take_from_bytes(bytes).ok()?;
        let sealing = if rest.is_empty() { None } else { Some(rest.try_into().ok()?) };
        Some(Self { cost: PinCost::decode(memory_kib, passes)?, salt, wrapped, sealing })
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let (memory_kib, passes) = self.cost.encode();
        let parts = (memory_kib, passes, self.salt, &self.wrapped);
        let mut bytes = postcard::to_allocvec(&parts).map_err(|_| Error::GeneralError)?;
        bytes.extend(self.sealing.iter().flatten());
        Ok(bytes)
    }

    pub(super) fn context(&self, serial: &str) -> Vec<u8> {
        let (memory_kib, passes) = self.cost.encode();
        let sealing = self.sealing.as_ref().map(|id| &id[..]).unwrap_or_default();
        [&memory_kib.to_le_bytes(), &passes.to_le_bytes(), &self.salt[..], serial.as_bytes(), sealing]
            .concat()
    }
}

/// Returns the rules for a stronger PIN record: the greater of its own parameters and the
/// configured ones. Returns `None` if the record is already strong enough, or uses PBKDF2.
pub(crate) fn stronger(record: &[u8], rules: &PinRules) -> Option<PinRules> {
    let PinCost::Argon2id { memory_kib, passes } = pin_cost(record)? else { return None };
    let weak = memory_kib < rules.memory_kib || passes < rules.passes;
    weak.then(|| PinRules {
        memory_kib: memory_kib.max(rules.memory_kib),
        passes: passes.max(rules.passes),
        ..*rules
    })
}

/// Reads the KDF of a PIN record; `None` if it is malformed.
pub(crate) fn pin_cost(record: &[u8]) -> Option<PinCost> {
    Some(PinRecord::decode(record)?.cost)
}

/// Identifies the PIN that is current: see
/// [`Module::pin_mark`](crate::functions::Module::pin_mark).
pub type PinMark = [u8; 16];

/// Returns the mark of a PIN: a hash of the salt, which each new PIN chooses at random. `None` if
/// the record is malformed, or empty because the PIN was never set.
pub(crate) fn pin_mark(
    serial: &str,
    role: Role,
    record: &[u8],
    provider: &Provider,
) -> Result<Option<PinMark>> {
    let Some(PinRecord { salt, .. }) = PinRecord::decode(record) else { return Ok(None) };
    let text = [b"jeton PIN mark\0", &[role_byte(role)][..], &salt, serial.as_bytes()].concat();
    let mut hash = [0; 32];
    provider.digest.hash(Hash::Sha256, &text, &mut hash)?;
    Ok(hash.first_chunk().copied())
}

/// Returns the ID of the sealing key that a PIN record needs; `None` if it needs none.
pub(crate) fn sealing_id(record: &[u8]) -> Option<SealingId> {
    PinRecord::decode(record)?.sealing
}

pub(super) const fn role_byte(role: Role) -> u8 {
    match role {
        Role::SecurityOfficer => 16,
        Role::User => 17,
    }
}
