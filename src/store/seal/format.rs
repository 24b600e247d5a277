//! The algorithms that protect a token: the KDF of the PINs, and the cipher of the records.

use allocator_api2::vec::Vec as MappedVec;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use tracing::error;

use super::random;
use super::sealing_key::SealingKey;
use crate::config::PinRules;
use crate::error::{Error, Result};
use crate::gate::{Gate, Permit};
use crate::secret::{CIPHER_DEPTH, Mapped, Secret, wipe_stack};

pub(super) const AEAD_KEY: usize = 32;
pub(super) const NONCE: usize = 24;
pub(super) const TAG: usize = 16;

/// Encrypts `hidden`. Returns the nonce, the ciphertext and the tag, which also authenticates `aad`.
pub(super) fn seal(key: &[u8], aad: &[u8], hidden: &[u8]) -> Result<Vec<u8>> {
    let nonce: [u8; NONCE] = random()?;
    let sealed = cipher(key)
        .ok_or(Error::GeneralError)?
        .encrypt(&XNonce::from(nonce), Payload { msg: hidden, aad })
        .map_err(|_| Error::GeneralError);
    wipe_stack::<CIPHER_DEPTH>();
    Ok([&nonce[..], &sealed?].concat())
}

/// Decrypts the result of [`seal`]; `None` if it or `aad` was altered.
pub(super) fn open(key: &[u8], aad: &[u8], sealed: &[u8]) -> Option<Secret> {
    let (nonce, body) = sealed.split_at_checked(NONCE)?;
    let nonce: [u8; NONCE] = nonce.try_into().ok()?;
    // The cipher leaves blocks of the plaintext on the stack.
    let opened = cipher(key)?.decrypt(&XNonce::from(nonce), Payload { msg: body, aad });
    wipe_stack::<CIPHER_DEPTH>();
    opened.ok().map(Secret::new)
}

fn cipher(key: &[u8]) -> Option<XChaCha20Poly1305> {
    XChaCha20Poly1305::new_from_slice(key).ok()
}

/// The parameters of Argon2id in a PIN record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinCost {
    /// The memory in KiB.
    pub memory_kib: u32,
    /// The number of passes.
    pub passes: u32,
}

impl PinCost {
    /// Returns the cost with these numbers; `None` if one of them is out of range.
    pub(super) fn of(memory_kib: u32, passes: u32) -> Option<Self> {
        let fits = PinRules::MEMORY_KIB.contains(&memory_kib) && PinRules::PASSES.contains(&passes);
        fits.then_some(Self { memory_kib, passes })
    }
}

/// The runs of Argon2id in this process.
static GATE: Gate = Gate::new();

/// A run of Argon2id with its memory. `start` waits at the gate until there is room, and touches
/// all pages. So if memory is short, `start` fails or the system kills the process, before a
/// failure is counted. The memory is wiped when it is dropped, and goes back to the system.
pub(super) struct KdfRun {
    params: Params,
    blocks: MappedVec<Block, Mapped>,
    // Dropped after the blocks are freed.
    _permit: Permit,
}

impl KdfRun {
    pub(super) fn start(PinCost { memory_kib, passes }: PinCost) -> Result<Self> {
        let params = Params::new(memory_kib, passes, 1, Some(AEAD_KEY)).map_err(log_failure)?;
        let count = params.block_count();
        let permit = GATE.enter(params.m_cost());
        let mut blocks = MappedVec::new_in(Mapped);
        blocks.try_reserve_exact(count).map_err(|_| {
            error!("Argon2id needs {count} KiB of memory");
            Error::HostMemory
        })?;
        blocks.resize(count, Block::default());
        Ok(Self { params, blocks, _permit: permit })
    }

    /// Derives the key that wraps the token key.
    pub(super) fn derive(mut self, pin: &[u8], sealing: Option<&SealingKey>, salt: &[u8]) -> Result<Secret> {
        let mut key = Secret::zeroed(AEAD_KEY);
        let secret = sealing.map(SealingKey::bytes).unwrap_or_default();
        Argon2::new_with_secret(secret, Algorithm::Argon2id, Version::V0x13, self.params)
            .and_then(|argon2| {
                argon2.hash_password_into_with_memory(pin, salt, &mut key, &mut self.blocks[..])
            })
            .map_err(log_failure)?;
        Ok(key)
    }
}

fn log_failure(reason: argon2::Error) -> Error {
    error!("Argon2id: {reason}");
    Error::DeviceError
}
